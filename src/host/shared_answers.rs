//! Answers that many processes ask for at once, asked once: the controller-manager starts one
//! process for each volume and each round, and repeats itself while the cloud is slow.
//!
//! One file per question, under its own lock: the first process that gets the lock asks, the others
//! find the answer when they get theirs. An answer serves every call that began before it was asked for,
//! or a moment after, however long it took. It is gone as soon as this machine changes what it is about.

use super::files::{self, LONGEST, LockedFile, read_rest};
use crate::model::error::Result;
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::ports::clock::{Deadline, since_boot};
use crate::ports::store;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An answer also serves calls that begin this long after it was asked for.
const FRESH: Duration = Duration::from_millis(1500);

/// How long a node's server is taken for granted, by those who see in time that it is another.
const RECENT: Duration = Duration::from_secs(60);

/// A call keeps this much of its time to ask for itself, where the one before it does not come back.
const OWN_SHARE: u32 = 6;

/// The folder of shared answers.
#[derive(Debug, Clone)]
pub struct AnswerFiles {
    folder: PathBuf,
    /// Which cloud, region and nodes the answers about servers are of.
    scope: String,
}

impl AnswerFiles {
    /// Answers below the run folder. A server's node is another one's by another configuration, which
    /// this is a mark of.
    pub fn below(run_dir: &Path, scope: impl Into<String>) -> Self {
        Self { folder: run_dir.join("answers"), scope: scope.into() }
    }

    fn tell(&self, question: &str, answer: &str) {
        let at_once = Deadline::after(Duration::ZERO);
        if let Some(mut file) = self.locked(question, at_once) {
            write(&mut file, since_boot().as_millis(), answer);
        }
    }

    fn shared_text(
        &self,
        question: &str,
        deadline: Deadline,
        ask: impl FnOnce() -> Result<String>,
    ) -> Result<String> {
        let begin = since_boot().saturating_sub(deadline.spent());
        let Some(mut file) = self.locked(question, deadline) else { return ask() };
        if let Some(answer) = fresh(&mut file, begin) {
            return Ok(answer);
        }
        let asked = since_boot().as_millis();
        let answer = ask()?;
        write(&mut file, asked, &answer);
        Ok(answer)
    }

    /// No volume's id begins so.
    fn question_of(&self, node: &NodeName) -> String {
        format!("@{node}@{}", self.scope)
    }

    fn locked(&self, question: &str, deadline: Deadline) -> Option<LockedFile> {
        files::make_private_folder(&self.folder).ok()?;
        let file = files::open_shared(&self.folder.join(question)).ok()?;
        let own = deadline.total() / OWN_SHARE;
        let until = deadline.at_most(deadline.remaining().saturating_sub(own));
        while file.try_lock().is_err() {
            if !until.pause(Duration::from_millis(5)) {
                return None;
            }
        }
        Some(LockedFile::of(file))
    }
}

impl store::Answers for AnswerFiles {
    fn shared(
        &self,
        id: &VolumeId,
        about: &str,
        deadline: Deadline,
        ask: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let ask = || ask().map(|answer| answer.to_string());
        let answer = self.shared_text(&format!("{id}@{about}"), deadline, ask)?;
        Ok(answer == true.to_string())
    }

    fn server(
        &self,
        node: &NodeName,
        deadline: Deadline,
        ask: &mut dyn FnMut() -> Result<Option<ServerId>>,
    ) -> Result<Option<ServerId>> {
        let ask = || ask().map(|server| server.map(|s| s.to_string()).unwrap_or_default());
        let answer = self.shared_text(&self.question_of(node), deadline, ask)?;
        if answer.is_empty() { Ok(None) } else { ServerId::parse(&answer).map(Some) }
    }

    fn recent_server(&self, node: &NodeName) -> Option<ServerId> {
        let mut file = File::open(self.folder.join(self.question_of(node))).ok()?;
        // A process that asks anew writes: half an answer is none.
        file.try_lock_shared().ok()?;
        let (asked, answer) = read(&mut file)?;
        let is_recent = asked <= since_boot() && asked + RECENT > since_boot();
        ServerId::parse(&answer).ok().filter(|_| is_recent)
    }

    fn is_server(&self, node: &NodeName, server: &ServerId) {
        self.tell(&self.question_of(node), server.as_str());
    }

    fn is_so(&self, id: &VolumeId, about: &str) {
        self.tell(&format!("{id}@{about}"), &true.to_string());
    }

    fn forget(&self, id: &VolumeId) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&format!("{id}@"))) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The answer in the file, if it serves a call that began at this moment.
fn fresh(file: &mut File, begin: Duration) -> Option<String> {
    let (asked, answer) = read(file)?;
    // A moment that is still to come is another boot's.
    (asked <= since_boot() && asked + FRESH > begin).then_some(answer)
}

/// When an answer was asked for, and the answer.
fn read(file: &mut File) -> Option<(Duration, String)> {
    let text = String::from_utf8(read_rest(file, LONGEST, 0).ok()?).ok()?;
    let (asked, answer) = text.split_once(' ')?;
    Some((Duration::from_millis(asked.parse().ok()?), answer.to_owned()))
}

/// A file that cannot be written only means that the next one asks as well.
fn write(file: &mut File, asked: u128, answer: &str) {
    let _ = file
        .rewind()
        .and_then(|()| file.set_len(0))
        .and_then(|()| write!(file, "{asked} {answer}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::{Error, Kind};
    use crate::ports::store::Answers as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn id() -> VolumeId {
        VolumeId::parse("v1").unwrap()
    }

    fn deadline() -> Deadline {
        Deadline::after(Duration::from_secs(60))
    }

    #[test]
    fn many_askers_cost_one_question() {
        let folder = tempfile::tempdir().unwrap();
        let asked = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let answers = AnswerFiles::below(folder.path(), "");
                    let answer = answers.shared(&id(), "s", deadline(), &mut || {
                        asked.fetch_add(1, Ordering::SeqCst);
                        Ok(true)
                    });
                    assert!(answer.unwrap());
                });
            }
        });
        assert_eq!(asked.into_inner(), 1);
    }

    #[test]
    fn an_answer_that_took_long_serves_all_who_waited_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let asked = AtomicU32::new(0);
        let all_began = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let deadline = deadline();
                    all_began.wait();
                    let answers = AnswerFiles::below(folder.path(), "");
                    let slow = || {
                        asked.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(FRESH + Duration::from_millis(200));
                        Ok(true)
                    };
                    assert!(answers.shared(&id(), "s", deadline, &mut { slow }).unwrap());
                });
            }
        });
        assert_eq!(asked.into_inner(), 1);
        // It was asked for long before this one begins.
        assert!(
            !AnswerFiles::below(folder.path(), "")
                .shared(&id(), "s", deadline(), &mut || Ok(false))
                .unwrap()
        );
    }

    #[test]
    fn a_change_and_an_error_leave_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let answers = AnswerFiles::below(folder.path(), "");
        let ask =
            |answer: Result<bool>| answers.shared(&id(), "s", deadline(), &mut || answer.clone());
        assert!(ask(Err(Error::new(Kind::Unreachable, "down"))).is_err());
        assert!(!ask(Ok(false)).unwrap());
        assert!(!ask(Ok(true)).unwrap(), "the fresh answer serves");
        answers.forget(&id());
        assert!(ask(Ok(true)).unwrap());
        let other = answers.shared(&id(), "other", deadline(), &mut || Ok(false));
        assert!(!other.unwrap(), "another question");
    }

    #[test]
    fn a_torn_or_old_answer_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let answers = AnswerFiles::below(folder.path(), "");
        answers.shared(&id(), "s", deadline(), &mut || Ok(false)).unwrap();
        let path = folder.path().join("answers/v1@s");
        for text in ["", "1", "1 false", "99999999999999 false", "x false", "1 perhaps"] {
            fs::write(&path, text).unwrap();
            assert!(answers.shared(&id(), "s", deadline(), &mut || Ok(true)).unwrap(), "{text:?}");
        }
    }
}
