//! The reader process: it reads entries of other processes and paths of other namespaces.
//!
//! Any of these may never come back: the kernel waits for the holder of the process, and a path may lead to
//! a server that is gone. So a process of one thread does it, which its parent abandons when it stalls
//! (`scan.rs`). It does nothing but read.

use super::answers::Reading;
use super::question::{Batch, Line, Why};
use crate::descriptors::close_range;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use std::fs::File;
use std::io::{self, IoSlice, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::time::{Duration, Instant};

/// The argument with which this program is one.
pub const WORD: &str = "--read-processes";

/// What a reader says on its line.
pub(super) const READY: u8 = b'r';
pub(super) const DONE: u8 = b'd';
/// What is said to it.
pub(super) const GO: u8 = b'g';

/// Where a reader has its line, its questions and its answers.
const LINE_QUESTIONS_ANSWERS: [RawFd; 3] = [0, 1, 2];

/// Answers batch after batch, until the parent closes the line; answers the exit status.
#[must_use]
#[allow(unsafe_code)]
pub fn serve(arguments: &[std::ffi::OsString]) -> u8 {
    let [proc, trusted] = arguments else { return 2 };
    let Some(trusted) = trusted.to_str().and_then(|text| text.parse().ok()) else { return 2 };
    let _ = set_pdeathsig(Signal::SIGKILL);
    // The kernel needs memory to print the tables that users make: if there is not enough, this process ends and not
    // the call.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    // One that stalls keeps no directory in use.
    if std::env::set_current_dir("/").is_err() {
        return 1;
    }
    close_range(3, RawFd::MAX);
    // SAFETY: the parent gave this process these three, and no other code here uses them.
    let [line, questions, answers] =
        LINE_QUESTIONS_ANSWERS.map(|number| unsafe { File::from_raw_fd(number) });
    let Ok(reading) = Reading::begin(proc.as_ref(), trusted) else { return 1 };
    if say(&line, READY, None).is_err() {
        return 1;
    }
    let mut word = [0];
    while matches!((&line).read(&mut word), Ok(1)) && word[0] == GO {
        if batch(&reading, (&questions, &answers), &line).is_err() {
            return 1;
        }
    }
    0
}

fn batch(
    reading: &Reading,
    (questions, mut answers): (&File, &File),
    line: &File,
) -> io::Result<()> {
    let mut text = Vec::new();
    let mut from = questions;
    from.rewind()?;
    from.read_to_end(&mut text)?;
    answers.rewind()?;
    let batch: Batch = serde_json::from_slice(&text)?;
    let start = Instant::now();
    let end = start + Duration::from_millis(batch.limit);
    let slice = start + Duration::from_millis(batch.slice);
    let mut opened = None;
    reading.forget();
    for (at, question) in batch.questions.iter().enumerate() {
        let begin = Instant::now();
        if at > 0 && begin >= slice {
            break;
        }
        let until = end.min(begin + Duration::from_millis(batch.each));
        let mut found = |found| write_line(answers, &Line::Found(found));
        let ended = match reading.answer(question, &batch.filter, until, &mut found) {
            Ok(file) => {
                opened = file.or(opened);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Why::Late),
            Err(error) => Err(Why::Failed(error.into())),
        };
        let took = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        write_line(answers, &Line::End(ended, took))?;
    }
    answers.flush()?;
    say(line, DONE, opened.as_ref())
}

/// One write each: a reader that is killed leaves whole lines.
fn write_line(mut to: &File, line: &Line) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    to.write_all(&bytes)
}

fn say(line: &File, word: u8, file: Option<&File>) -> io::Result<()> {
    let files: Vec<RawFd> = file.iter().map(|file| file.as_raw_fd()).collect();
    let along = [ControlMessage::ScmRights(&files)];
    let along = if files.is_empty() { &[][..] } else { &along[..] };
    let parts = [IoSlice::new(std::slice::from_ref(&word))];
    sendmsg::<UnixAddr>(line.as_raw_fd(), &parts, along, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}
