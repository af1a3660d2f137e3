//! Processes that hold something until they are dropped.

use crate::checks::eventually;
use crate::support::{output_of, start};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Longer than any test; so a test run that is killed leaves nothing for ever.
const SLEEP: [&str; 2] = ["sleep", "300"];

/// A process that holds something.
#[derive(Debug)]
pub struct Holder {
    child: Child,
}

impl Holder {
    /// With this folder as its working directory.
    pub fn working_in(folder: &Path) -> Self {
        Self::start(silent(SLEEP[0]).arg(SLEEP[1]).current_dir(folder))
    }

    /// With this file open.
    pub fn reading(file: &Path) -> Self {
        let file = File::open(file).expect("the file to hold");
        Self::start(silent(SLEEP[0]).arg(SLEEP[1]).stdin(file))
    }

    /// With a copy of this thread's mounts in a namespace of its own, as a container has it.
    pub fn of_all_mounts() -> Self {
        let script = format!("echo ready; exec {} {}", SLEEP[0], SLEEP[1]);
        let mut command = silent("unshare");
        command.args(["--mount", "--propagation", "unchanged", "sh", "-c", &script]);
        let mut holder = Self::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        let output = holder.child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("its first line");
        assert_eq!(line, "ready\n", "the namespace is made");
        holder
    }

    fn start(command: &mut Command) -> Self {
        Self { child: start(command) }
    }

    /// This process's own view of a path.
    pub fn sees(&self, path: &Path) -> std::path::PathBuf {
        let root = Path::new("/proc").join(self.child.id().to_string()).join("root");
        root.join(path.strip_prefix("/").expect("an absolute path"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn silent(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a program that must succeed; answers what it printed.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output_of(Command::new(program).args(arguments));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{complaint}");
    text
}

/// The same command, which may have so many descriptors at most.
pub fn with_descriptors(command: &Command, at_most: u32) -> Command {
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--nofile={at_most}:{at_most}"));
    limited.arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    limited
}

/// The state letter of a process as proc(5) has it; nothing if it is gone.
pub fn state_of(pid: Pid) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it stands in brackets and may hold anything.
    text.rsplit_once(") ")?.1.chars().next()
}

/// In the kernel a process that waits for a lock may run for a moment, while the lock's owner does.
#[track_caller]
pub fn must_hang(pid: Pid) {
    eventually("the process hangs in the kernel", || state_of(pid) == Some('D'));
}

/// Waits until a process has ended; what it held is free then. It may not have been reaped.
#[track_caller]
pub fn must_end(pid: Pid) {
    eventually("the process has ended", || matches!(state_of(pid), None | Some('Z' | 'X')));
}
