//! The reader process: it reads entries of other processes and paths of other namespaces.
//!
//! Any of these may never come back: the kernel waits for the holder of the process, and a path may lead to
//! a server that is gone. So a process of one thread does it, which its parent abandons when it stalls
//! (`scan.rs`). It does nothing but read.

use super::answers::answer_all;
use super::proc::Proc;
use super::question::Line;
use crate::descriptors::close_range;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::net::UnixStream;

/// The argument with which this program is one.
pub const WORD: &str = "--read-processes";
/// What it says on its line when it has begun, and when a batch is answered.
const DONE: &[u8] = b"d";

/// Answers batch after batch, until the parent closes its end; answers the exit status.
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
    let Ok(proc) = Proc::at(proc.as_ref(), trusted) else { return 1 };
    u8::from(answer(&proc).is_err())
}

fn answer(proc: &Proc) -> io::Result<()> {
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut answers = io::stdout().lock();
    // One write each: a reader that stalls or is killed leaves whole lines.
    let mut say = |line: Line| {
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        answers.write_all(&bytes).map(|()| bytes.len())
    };
    let mut opened = None;
    line.write_all(DONE)?;
    for batch in BufReader::new(line.try_clone()?).lines() {
        answer_all(proc, &serde_json::from_str(&batch?)?, &mut opened, &mut say)?;
        line.write_all(DONE)?;
    }
    Ok(())
}
