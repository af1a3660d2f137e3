//! The page for `node_exporter`'s textfile collector, and the counters behind it. Each call is a
//! process of its own, so the counters live in the state folder:
//!
//! ```text
//! metrics.pending        what calls have to tell, a line each, appended
//! metrics.lock           held by the one call that takes the lines in
//! metrics.json           the counters
//! ```
//!
//! No process waits: one that does not get the lock leaves its line to the one that has it, which
//! looks once more when it is done. Nothing here can fail a call, and it is bounded in time.

use super::aside::AsideWriter;
use super::files::{self, LockedFile};
use crate::model::error::{Error, Kind, Result};
use crate::model::report::metrics::{Counters, Gauges, Sample, page};
use crate::model::report::tear_down::TearDownWords;
use nix::fcntl::OFlag;
use std::fs::{self, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// More than this waits only while no call can take it in: then a call's line is lost, and counted
/// by the first call that can.
const LONGEST_PENDING: u64 = 1 << 20;

/// So much is taken in at once; calls never leave more, and what others left is not ours.
const LONGEST_TAKEN: u64 = 16 << 20;

/// What is to be written, and where.
#[derive(Debug, Clone)]
pub struct Report {
    pub textfile: PathBuf,
    /// Where the counters are.
    pub state_dir: PathBuf,
    /// Where it is noted if that does not answer.
    pub run_dir: PathBuf,
    /// What the caller names tear-downs.
    pub words: TearDownWords,
    /// The version of the driver.
    pub version: &'static str,
    /// What the call adds.
    pub sample: Sample,
}

/// What was seen by the call before, as far as it was written.
pub fn seen_before(state_dir: &Path) -> Gauges {
    let text = files::read_if_there(&state_dir.join("metrics.json")).unwrap_or_default();
    let counters = text.and_then(|text| serde_json::from_str::<Counters>(&text).ok());
    counters.map(|counters| counters.gauges).unwrap_or_default()
}

impl Report {
    /// Writes it in a thread, which neither the answer nor the end of the call waits for if its disk is slow.
    pub fn write(self) {
        let writer = AsideWriter::at(&self.state_dir, &self.run_dir);
        let write = move || {
            if let Err(error) = self.write_here() {
                tracing::debug!(%error, "the metrics are not written");
            }
        };
        writer.and_then(|writer| writer.write(write));
    }

    /// Writes it here and now, or leaves it to the call that is writing.
    pub fn write_here(&self) -> Result<()> {
        files::make_private_folder(&self.state_dir)?;
        let mut is_told = self.append()?;
        // What came while this one wrote, no other process will write.
        while self.has_pending() {
            let Some(_lock) = self.lock_if_free()? else { break };
            self.take_in()?;
            // There is room again.
            is_told = is_told || self.append()?;
        }
        if is_told {
            return Ok(());
        }
        Err(Error::new(Kind::Busy, "no call has taken the metrics in for long"))
    }

    fn pending(&self) -> PathBuf {
        self.state_dir.join("metrics.pending")
    }

    fn has_pending(&self) -> bool {
        fs::metadata(self.pending()).is_ok_and(|found| found.len() > 0)
    }

    fn lock_if_free(&self) -> Result<Option<LockedFile>> {
        let path = self.state_dir.join("metrics.lock");
        let io = |error: &std::io::Error| Error::io(format!("lock {}", path.display()), error);
        let file = files::open_shared(&path).map_err(|error| io(&error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(LockedFile::of(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(io(&error)),
        }
    }

    /// Adds the call's line; false if too much waits there. The process that takes the lines in
    /// renames the file first, so the name must still lead to the file that is locked.
    fn append(&self) -> Result<bool> {
        let path = self.pending();
        let io = |error: &std::io::Error| Error::io(format!("write {}", path.display()), error);
        let bug = |error: serde_json::Error| Error::new(Kind::Bug, error.to_string());
        let line = serde_json::to_string(&self.sample).map_err(bug)? + "\n";
        loop {
            let mut options = fs::OpenOptions::new();
            // A pipe of that name would wait for its reader.
            options.append(true).create(true).mode(0o600).custom_flags(OFlag::O_NONBLOCK.bits());
            let file = options.open(&path).map_err(|error| io(&error))?;
            file.lock_shared().map_err(|error| io(&error))?;
            let mut file = LockedFile::of(file);
            let found = file.metadata().map_err(|error| io(&error))?;
            let is_still_named = fs::metadata(&path).is_ok_and(|named| named.ino() == found.ino());
            if found.len() > LONGEST_PENDING {
                return Ok(false);
            }
            if is_still_named {
                return file.write_all(line.as_bytes()).map(|()| true).map_err(|error| io(&error));
            }
        }
    }

    /// Adds all lines to the counters, and writes the page. The caller holds the lock.
    fn take_in(&self) -> Result<()> {
        let taken = self.state_dir.join("metrics.taken");
        let io = |error: &std::io::Error| Error::io(format!("read {}", taken.display()), error);
        // A killed call may have left what it took: that comes first.
        if !taken.exists() {
            match fs::rename(self.pending(), &taken) {
                // Another process took all in between the look and the lock.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                renamed => renamed.map_err(|error| io(&error))?,
            }
        }
        let file = files::open_regular(&taken).map_err(|error| io(&error))?;
        // A process that opened it under its old name writes its line before, or finds it renamed.
        file.lock().map_err(|error| io(&error))?;
        let mut file = LockedFile::of(file);
        let rest = file.metadata().map_err(|error| io(&error))?.len().saturating_sub(LONGEST_TAKEN);
        let mut lines = Vec::new();
        Read::by_ref(&mut *file)
            .take(LONGEST_TAKEN)
            .read_to_end(&mut lines)
            .map_err(|error| io(&error))?;
        let place = self.state_dir.join("metrics.json");
        let text = files::read_if_there(&place).unwrap_or_default();
        // Counters that cannot be read begin anew: Prometheus takes that for a restart.
        let mut counters: Counters =
            text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        counters.lost += counters.take_in(&lines);
        if rest > 0 {
            tracing::warn!(bytes = rest, "metrics.pending was too long: its end is not counted");
        }
        let json = serde_json::to_vec(&counters)
            .map_err(|error| Error::new(Kind::Bug, error.to_string()))?;
        replace(&place, &json, 0o600)?;
        files::remove_if_there(&taken)?;
        let text = page(&counters, &self.words, self.version);
        // The collector runs as another user, and takes only what ends in `.prom`.
        replace(&self.textfile, text.as_bytes(), 0o644)
    }
}

/// Whole or as before, but not synced: a lost sample is no loss that is worth a wait for the disk.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    files::exchange(path, bytes, mode, false).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn report(folder: &Path) -> Report {
        Report {
            words: TearDownWords::PLAIN,
            version: "1",
            textfile: folder.join("incloud_disk.prom"),
            state_dir: folder.join("state"),
            run_dir: folder.to_path_buf(),
            sample: Sample {
                operation: "mount".to_owned(),
                outcome: "done".to_owned(),
                ..Sample::default()
            },
        }
    }

    #[test]
    fn many_calls_at_once_are_all_counted() {
        let folder = tempfile::tempdir().unwrap();
        // More threads than processors, and one that finds everything taken.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| report(folder.path()).write_here().unwrap()));
            }
        });
        let page = fs::read_to_string(folder.path().join("incloud_disk.prom")).unwrap();
        assert!(page.contains("calls_total{operation=\"mount\",outcome=\"done\"} 160"), "{page}");
        let mode = fs::metadata(folder.path().join("incloud_disk.prom")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o644);
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn what_a_killed_call_left_is_taken_in() {
        let folder = tempfile::tempdir().unwrap();
        let report = report(folder.path());
        fs::create_dir(folder.path().join("state")).unwrap();
        report.append().unwrap();
        fs::rename(report.pending(), folder.path().join("state/metrics.taken")).unwrap();
        let held = report.lock_if_free().unwrap();
        report.write_here().unwrap();
        assert!(!report.textfile.exists(), "another process is writing");
        drop(held);
        report.write_here().unwrap();
        let page = fs::read_to_string(&report.textfile).unwrap();
        assert!(page.contains("calls_total{operation=\"mount\",outcome=\"done\"} 3"), "{page}");
    }

    #[test]
    fn what_is_too_much_is_taken_in_and_nothing_sticks() {
        let folder = tempfile::tempdir().unwrap();
        let report = report(folder.path());
        fs::create_dir(folder.path().join("state")).unwrap();
        let line = serde_json::to_string(&report.sample).unwrap() + "\n";
        let most = usize::try_from(LONGEST_PENDING).unwrap() / line.len() + 1;
        fs::write(report.pending(), line.repeat(most) + "\u{0}\u{0}torn\n").unwrap();
        report.write_here().unwrap();
        let page = fs::read_to_string(&report.textfile).unwrap();
        let calls = format!("calls_total{{operation=\"mount\",outcome=\"done\"}} {}", most + 1);
        assert!(page.contains(&calls) && page.contains("samples_lost_total 1"), "{page}");
        // A call that cannot take it in leaves nothing, and the next one goes on.
        fs::write(report.pending(), line.repeat(most)).unwrap();
        let held = report.lock_if_free().unwrap();
        assert_eq!(report.write_here().unwrap_err().kind, Kind::Busy);
        drop(held);
        // What is no text, and longer than anything of ours.
        let long = fs::OpenOptions::new().write(true).open(report.pending()).unwrap();
        long.set_len(3 << 30).unwrap();
        report.write_here().unwrap();
        assert!(!report.has_pending());
        let page = fs::read_to_string(&report.textfile).unwrap();
        assert!(page.contains(&format!("outcome=\"done\"}} {}", 2 * most + 2)), "{page}");
    }

    #[test]
    fn counters_that_cannot_be_read_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        fs::write(folder.path().join("state/metrics.json"), "{").unwrap();
        report(folder.path()).write_here().unwrap();
        assert!(
            fs::read_to_string(folder.path().join("incloud_disk.prom")).unwrap().contains("} 1")
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_no_reason_to_wait() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report { textfile: "/nowhere/x.prom".into(), ..report(folder.path()) };
        assert!(report.write_here().unwrap_err().cause.contains("/nowhere/x.prom"));
        report.write();
    }
}
