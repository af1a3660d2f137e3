//! e2fsck and resize2fs, which may take hours: each runs in a process that outlives the call, and what runs is noted
//! in the run folder, so that later calls find it, leave its disk alone, and take its result.

use crate::left_behind::LeftProcess;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::pauses::Steps;
use crate::ports::clock::{Deadline, seconds};
use crate::ports::host::Proven;
use crate::{confinement, device_nodes, failpoints, files, tool};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a call waits for a check that an earlier one began: no longer, for it has the volume's
/// lock meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long before its deadline a call leaves the check to itself, so that it can say so.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// e2fsck(8): bits for "errors were corrected".
const MENDED: i32 = 1 | 2;

const E2FSCK: &str = "e2fsck";
const RESIZE2FS: &str = "resize2fs";

/// The disk, as the program is given it: open, so that its number is no other disk's while it runs,
/// whatever happens to its name.
const DISK: &str = "/proc/self/fd/0";

/// A check that runs, or ran.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    process: LeftProcess,
    /// Seconds since 1970.
    begun: u64,
}

/// The checks of this machine.
#[derive(Debug, Clone)]
pub(super) struct Checks {
    run: PathBuf,
}

impl Checks {
    /// With their notes below the run folder.
    pub(super) fn below(run: &Path) -> Self {
        Self { run: run.to_path_buf() }
    }

    fn folder(&self) -> PathBuf {
        self.run.join("checks")
    }

    fn file(&self, id: &VolumeId, ending: &str) -> PathBuf {
        self.folder().join(format!("{id}.{ending}"))
    }

    fn note(&self, id: &VolumeId) -> Option<Note> {
        serde_json::from_slice(&fs::read(self.file(id, "json")).ok()?).ok()
    }

    fn forget(&self, id: &VolumeId) {
        for ending in ["json", "out"] {
            let _ = fs::remove_file(self.file(id, ending));
        }
    }

    /// Checks and mends. If the time is over before e2fsck ends, it goes on, and that is the error.
    pub(super) fn run(&self, disk: &Proven<'_>, until: Deadline) -> Result<()> {
        self.run_program(disk, until, (E2FSCK, &["-p"]))
    }

    /// Grows to the whole disk, after a check of the whole file system, without which resize2fs refuses.
    pub(super) fn run_grow(&self, disk: &Proven<'_>, until: Deadline) -> Result<()> {
        self.run_program(disk, until, (E2FSCK, &["-f", "-p"]))?;
        self.run_program(disk, until, (RESIZE2FS, &[]))
    }

    fn run_program(
        &self,
        disk: &Proven<'_>,
        until: Deadline,
        (name, arguments): (&str, &[&str]),
    ) -> Result<()> {
        let (id, device) = (disk.volume(), disk.device());
        if let Some(verdict) = self.await_earlier(id, device, until)? {
            return Err(verdict);
        }
        let disk = &device.kernel_name;
        let io = |doing: &str| {
            let doing = format!("{doing} {name} on {disk}");
            move |error: std::io::Error| Error::io(&doing, &error)
        };
        let program = tool::locate(name)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.folder())
            .map_err(io("make the folder for"))?;
        let open = || {
            let path = self.file(id, "out");
            File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
        };
        let output = open().map_err(io("keep what is said by"))?;
        let mut command = Command::new(program);
        confinement::confine(&mut command);
        let mut child = command
            .args(arguments)
            .arg(DISK)
            .env_clear()
            .env("PATH", tool::FOLDERS.join(":"))
            .env("LC_ALL", "C")
            .stdin(device_nodes::open_to_write(device)?)
            .stdout(output.try_clone().map_err(io("keep what is said by"))?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(io("run"))?;
        let Some(process) = LeftProcess::of(i32::try_from(child.id()).unwrap_or(0), name, 0) else {
            let status = child.wait().map_err(io("wait for"))?;
            return self.ended(id, device, name, status.code());
        };
        let (disk, sequence) = (Some(device.number.to_string()), device.sequence);
        let note = Note { process: LeftProcess { disk, sequence, ..process }, begun: seconds() };
        let text = serde_json::to_vec(&note).unwrap_or_default();
        if let Err(error) = files::replace_until_boot(&self.file(id, "json"), &text) {
            // What later calls could not find must not go on.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        failpoints::step("filesystems.check.begun");
        for step in Steps::between(Duration::from_millis(1), Duration::from_millis(50)) {
            match child.try_wait().map_err(io("wait for"))? {
                Some(status) => return self.ended(id, device, name, status.code()),
                None if until.remaining() > LAST_WORDS && until.pause(step) => {}
                None => break,
            }
        }
        Err(goes_on(&note, device))
    }

    /// An error if a check that an earlier call began still runs; else how it ended, if that was not
    /// well.
    pub(super) fn await_earlier(
        &self,
        id: &VolumeId,
        device: &Device,
        until: Deadline,
    ) -> Result<Option<Error>> {
        let Some(note) = self.note(id) else { return Ok(None) };
        let until = until.at_most(PATIENCE);
        for step in Steps::between(Duration::from_millis(1), Duration::from_millis(50)) {
            if !note.process.is_alive() {
                break;
            }
            if !until.pause(step) {
                return Err(goes_on(&note, device));
            }
        }
        let LeftProcess { disk, sequence, .. } = &note.process;
        if *disk == Some(device.number.to_string()) && *sequence == device.sequence {
            Ok(self.ended_unseen(id, device))
        } else {
            self.forget(id);
            Ok(None)
        }
    }

    fn ended(&self, id: &VolumeId, device: &Device, name: &str, status: Option<i32>) -> Result<()> {
        let said = self.said(id, device);
        self.forget(id);
        match status {
            Some(0) => Ok(()),
            status if name == RESIZE2FS => {
                let how = tool::ended(status);
                Err(Error::new(
                    Kind::Host,
                    format!("{name} on {} {how}: {said}", device.kernel_name),
                ))
            }
            Some(status) if status & !MENDED == 0 => {
                let disk = &device.kernel_name;
                tracing::warn!(%disk, text = %said, "e2fsck mended the file system");
                Ok(())
            }
            status => {
                let why = status.map_or("it was killed", verdict_of_e2fsck);
                Err(damaged(device, why, &said))
            }
        }
    }

    /// Its status went to a call that is gone. What it said tells whether it gave up; whether the
    /// file system is sound says its superblock, which is read next.
    fn ended_unseen(&self, id: &VolumeId, device: &Device) -> Option<Error> {
        let said = self.said(id, device);
        let text = fs::read_to_string(self.file(id, "out")).unwrap_or_default();
        self.forget(id);
        tracing::warn!(disk = %device.kernel_name, text = %said, "e2fsck, begun by an earlier call, has ended");
        let gave_up = text.contains("UNEXPECTED INCONSISTENCY") || text.contains("MANUALLY");
        gave_up.then(|| damaged(device, verdict_of_e2fsck(4), &said))
    }

    fn said(&self, id: &VolumeId, device: &Device) -> String {
        let bytes = fs::read(self.file(id, "out")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).replace(DISK, &device.kernel_name);
        tool::ProgramOutput { status: None, text }.last_line().to_owned()
    }
}

/// The gravest bit of its exit status, as e2fsck(8) explains them.
fn verdict_of_e2fsck(status: i32) -> &'static str {
    const VERDICTS: [(i32, &str); 5] = [
        (128, "it could not be loaded"),
        (32, "it was cancelled"),
        (16, "it did not understand its arguments"),
        (8, "it could not do its work"),
        (4, "there are errors that it does not mend by itself"),
    ];
    let found = VERDICTS.iter().find(|(bit, _)| status & bit != 0);
    found.map_or("it ended in a way that is not documented", |(_, verdict)| verdict)
}

fn goes_on(note: &Note, device: &Device) -> Error {
    let (name, process) = (&device.kernel_name, note.process.pid);
    let does = match note.process.doing.as_str() {
        RESIZE2FS => "resize2fs has grown the file system of",
        _ => "e2fsck has checked",
    };
    let seconds = seconds().saturating_sub(note.begun);
    let read = bytes_read(process).map_or_else(String::new, |bytes| {
        format!(", {} MiB of {} read", bytes >> 20, device.size >> 20)
    });
    Error::new(
        Kind::Timeout,
        format!("{does} {name} for {seconds} s{read}, and goes on (process {process})"),
    )
    .hint("nothing else may use the disk until it has ended; the next call takes its result")
}

fn damaged(device: &Device, why: &str, said: &str) -> Error {
    Error::refused(format!("e2fsck on {}: {why}: {said}", device.kernel_name))
        .hint(format!("run e2fsck by hand on {}", device.kernel_node().display()))
}

fn bytes_read(process: i32) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}
