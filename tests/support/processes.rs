//! Starting processes from a test that is one of many threads.

use std::io::{PipeReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};

/// Starts a command with both streams in one pipe.
pub fn spawn(mut command: Command) -> (Child, PipeReader) {
    let (output, writer) = std::io::pipe().expect("a pipe");
    command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
    (start(&mut command), output)
}

/// Files are open, or a process is started: never both.
///
/// A new process has all our files open until its exec closes them, those of other tests' threads
/// too: a mount of theirs would be busy although they have closed everything.
static GATE: RwLock<()> = RwLock::new(());

/// Opens and closes files of a mount while no process is started.
pub fn with_files<T>(work: impl FnOnce() -> T) -> T {
    let _no_start = GATE.read().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Starts a command, one at a time in this process.
pub fn start(command: &mut Command) -> Child {
    let _alone = GATE.write().unwrap_or_else(PoisonError::into_inner);
    let (mut exec, copied) = std::io::pipe().expect("a pipe");
    let child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    drop(copied);
    // The new process has a copy too. It ends with its exec, together with those of files that
    // are open for long; what spawn itself waits for comes a moment earlier.
    let _ = exec.read(&mut [0]);
    child
}

/// Runs a command to its end; what it prints on its two streams comes back.
#[track_caller]
pub fn output_of(command: &mut Command) -> Output {
    let child = start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let output = child.wait_with_output().expect("its output");
    for text in [&output.stdout, &output.stderr] {
        super::refusals::printed(command, &String::from_utf8_lossy(text));
    }
    output
}
