//! Starting processes from a test that is one of many threads.

use std::ffi::OsStr;
use std::io::{PipeReader, Read, Write};
use std::path::Path;
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

/// Writes a program. Another process does it: a child that a thread of this one forks meanwhile would have
/// the file open for writing too, and what is open for writing cannot be executed.
#[track_caller]
pub fn write_program(path: &Path, bytes: impl AsRef<[u8]>) {
    let script = "rm -f \"$1\" && cat >\"$1\" && chmod 755 \"$1\"";
    let mut command = Command::new("/bin/sh");
    command.args([OsStr::new("-c"), script.as_ref(), "sh".as_ref(), path.as_os_str()]);
    let mut child = start(command.stdin(Stdio::piped()));
    let mut input = child.stdin.take().expect("its input");
    input.write_all(bytes.as_ref()).expect("written");
    drop(input);
    assert!(child.wait().expect("its end").success(), "{} is not written", path.display());
}

/// Copies a program, in the same way.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let mut command = Command::new("cp");
    command.args(["--preserve=mode", "--remove-destination"]).args([from, to]);
    let copied = start(&mut command).wait().expect("its end").success();
    assert!(copied, "{} is not copied to {}", from.display(), to.display());
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
