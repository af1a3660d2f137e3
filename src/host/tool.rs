//! Runs programs of the system (mkfs, fsck) so that they can do no harm to a call: fixed folders,
//! clean environment, no input, captured output, an end in time.

use super::{confinement, left_behind, worker};
use crate::model::error::{Error, Kind, Result};
use crate::model::pauses::Steps;
use crate::ports::clock::Deadline;
use crate::ports::store::what_ends_it;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Where programs are looked for: never in the caller's `PATH`.
pub(super) const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// More output than this is cut.
const LONGEST_OUTPUT: usize = 64 * 1024;

/// How a program ended.
#[derive(Debug, Clone)]
pub struct ProgramOutput {
    /// Its exit status; nothing if a signal ended it.
    pub status: Option<i32>,
    /// What it printed, both streams together.
    pub text: String,
}

/// How a program ended, in words.
pub(super) fn ended(status: Option<i32>) -> String {
    status.map_or_else(|| "was killed".to_owned(), |status| format!("ended with status {status}"))
}

impl ProgramOutput {
    /// The last line with something on it: tools put their verdict there.
    pub fn last_line(&self) -> &str {
        // e2fsck adds a remark in brackets to its verdict.
        let says = |line: &&str| !line.is_empty() && !line.starts_with('(');
        self.text.lines().map(str::trim).rfind(says).unwrap_or("it said nothing")
    }
}

pub fn locate(program: &str) -> Result<PathBuf> {
    let mut places = FOLDERS.iter().map(|folder| PathBuf::from(folder).join(program));
    places.find(|path| path.is_file()).ok_or_else(|| {
        Error::new(Kind::Host, format!("{program} is not installed"))
            .hint(format!("install it: {} were searched", FOLDERS.join(", ")))
    })
}

/// The kernel's empty file, once it was opened.
static NOTHING: OnceLock<File> = OnceLock::new();

/// Opens the programs' input, before this process enters a root that may not have it.
pub fn keep_nothing() -> Result<()> {
    let file = File::open("/dev/null").map_err(|error| Error::io("open /dev/null", &error))?;
    let _ = NOTHING.set(file);
    Ok(())
}

fn nothing() -> std::io::Result<Stdio> {
    NOTHING.get().map_or_else(|| Ok(Stdio::null()), |file| file.try_clone().map(Into::into))
}

/// Runs a program to its end, or kills it at the deadline.
pub fn run(program: &str, arguments: &[&str], deadline: Deadline) -> Result<ProgramOutput> {
    launch(&locate(program)?, arguments, &[], deadline)
}

/// The same for a program anywhere, with something more in its environment.
pub fn launch(
    path: &Path,
    arguments: &[&str],
    environment: &[(&str, String)],
    deadline: Deadline,
) -> Result<ProgramOutput> {
    start(Command::new(path), path, arguments, environment, deadline)
}

/// The same for one that works on a disk: it is confined.
pub(super) fn launch_on_disk(
    path: &Path,
    arguments: &[&str],
    deadline: Deadline,
) -> Result<ProgramOutput> {
    let mut command = Command::new(path);
    confinement::confine(&mut command);
    start(command, path, arguments, &[], deadline)
}

fn start(
    command: Command,
    path: &Path,
    arguments: &[&str],
    environment: &[(&str, String)],
    deadline: Deadline,
) -> Result<ProgramOutput> {
    let program = &path.file_name().unwrap_or_default().to_string_lossy();
    let io = |error: std::io::Error| Error::io(format!("run {program}"), &error);
    let (child, named, mut output) = spawn(command, program, arguments, environment).map_err(io)?;
    let group = i32::try_from(child.id()).unwrap_or(i32::MAX);
    let status = match wait(child, group, program, deadline, &mut output) {
        // What it has open is open for as long as it hangs.
        Err(error) if left_behind::state_of(group).is_some() => {
            named.is_left();
            return Err(error);
        }
        status => status,
    };
    // All that the program said is in the pipe by now. A process that it left behind may have the
    // other end open for ever, and is not waited for.
    output.take();
    Ok(ProgramOutput { status: status?, text: String::from_utf8_lossy(&output.text).into_owned() })
}

/// How the reading of a program's lines ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinesEnd {
    /// With the program, which had this exit status.
    All(Option<i32>),
    /// The reader had enough, and the program was killed.
    Enough,
    /// At the deadline, and the program was killed.
    Late,
}

/// Runs a program and hands on each line of both its streams, until `take` says that it is enough. Longer
/// lines are left out.
pub fn lines(
    path: &Path,
    arguments: &[&str],
    longest: usize,
    deadline: Deadline,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<LinesEnd> {
    let program = &path.file_name().unwrap_or_default().to_string_lossy();
    let io = |error: std::io::Error| Error::io(format!("run {program}"), &error);
    let (child, named, mut output) =
        spawn(Command::new(path), program, arguments, &[]).map_err(io)?;
    let group = i32::try_from(child.id()).unwrap_or(i32::MAX);
    let end = output.each_line(longest, deadline, &mut take);
    let rest = if end.is_none() { deadline } else { Deadline::after(Duration::ZERO) };
    match (wait(child, group, program, rest, &mut output), end) {
        (Err(error), _) if left_behind::state_of(group).is_some() => {
            named.is_left();
            Err(error)
        }
        (_, Some(end)) => Ok(end),
        (Ok(status), None) => Ok(LinesEnd::All(status)),
        (Err(_), None) => Ok(LinesEnd::Late),
    }
}

/// Starts a program: it, its place on the board of children, and what both of its streams will say.
fn spawn(
    mut command: Command,
    program: &str,
    arguments: &[&str],
    environment: &[(&str, String)],
) -> std::io::Result<(Child, worker::Child, Output)> {
    let (output, writer) = std::io::pipe()?;
    let output = Output::of(output)?;
    command
        .args(arguments)
        .env_clear()
        .env("PATH", FOLDERS.join(":"))
        .env("LC_ALL", "C")
        .envs(environment.iter().map(|(key, value)| (*key, value)))
        .stdin(nothing()?)
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    die_with_parent(&mut command);
    let named = worker::child(&format!("run {program} {}", arguments.join(" ")));
    let child = command.spawn()?;
    // Here the command is dropped. It holds our copies of the pipe's writing end: as long as they live the
    // reader would wait for more.
    named.is(i32::try_from(child.id()).unwrap_or(i32::MAX));
    Ok((child, named, output))
}

/// What a program says, taken while it runs: it must never wait for us.
struct Output {
    pipe: PipeReader,
    text: Vec<u8>,
}

impl Output {
    fn of(pipe: PipeReader) -> std::io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { pipe, text: Vec::new() })
    }

    /// Takes what is there.
    fn take(&mut self) {
        let mut piece = [0; 16 * 1024];
        // So much at once: one that never stops talking must not keep us from looking at the time.
        for _ in 0..64 {
            match self.pipe.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => {
                    let room = LONGEST_OUTPUT.saturating_sub(self.text.len());
                    self.text.extend_from_slice(&piece[..length.min(room)]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Hands on the lines to their end; answers why it stopped before.
    fn each_line(
        &mut self,
        longest: usize,
        deadline: Deadline,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<LinesEnd> {
        let mut piece = vec![0; 64 * 1024];
        let mut line = Vec::new();
        let mut is_too_long = false;
        while !deadline.over() {
            let length = match self.pipe.read(&mut piece) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = PollTimeout::try_from(deadline.remaining());
                    let mut waited = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
                    let _ = poll(&mut waited, left.unwrap_or(PollTimeout::MAX));
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => 0,
            };
            // What is last may have no end of a line.
            let read = if length == 0 { &b"\n"[..] } else { &piece[..length] };
            for part in read.split_inclusive(|byte| *byte == b'\n') {
                is_too_long |= line.len() + part.len() > longest;
                if !is_too_long {
                    line.extend_from_slice(part);
                }
                if part.ends_with(b"\n") {
                    if !is_too_long && line.len() > 1 && !take(line.trim_ascii_end()) {
                        return Some(LinesEnd::Enough);
                    }
                    line.clear();
                    is_too_long = false;
                }
            }
            if length == 0 {
                return None;
            }
        }
        Some(LinesEnd::Late)
    }
}

/// A program that was killed ends in far less, unless it hangs in the kernel.
const DYING: Duration = Duration::from_millis(500);

fn wait(
    mut child: Child,
    group: i32,
    program: &str,
    deadline: Deadline,
    output: &mut Output,
) -> Result<Option<i32>> {
    for step in Steps::between(Duration::from_millis(1), Duration::from_millis(20)) {
        output.take();
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.code()),
            Ok(None) if deadline.pause(step) => {}
            Ok(None) => break,
            Err(error) => return Err(Error::io(format!("wait for {program}"), &error)),
        }
    }
    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    let seconds = deadline.total().as_secs();
    let late = format!("{program} did not end within the call's {seconds} s");
    let dying = Deadline::after(DYING);
    loop {
        match child.try_wait() {
            Ok(None) if dying.pause(Duration::from_millis(2)) => {}
            Ok(None) => {
                let hangs = format!("{late}; process {group} hangs in the kernel");
                return Err(Error::new(Kind::Timeout, hangs).hint(what_ends_it()));
            }
            _ => return Err(Error::new(Kind::Timeout, late)),
        }
    }
}

/// A killed driver must not leave a mkfs behind that still writes: the next call may be on its
/// way already.
#[allow(unsafe_code)]
fn die_with_parent(command: &mut Command) {
    let parent = nix::unistd::getpid();
    // SAFETY: between fork and exec only prctl(2) and getppid(2) are made, which are safe there:
    // they neither allocate nor lock.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the wish was heard.
            if nix::unistd::getppid() == parent {
                Ok(())
            } else {
                Err(nix::errno::Errno::ESRCH.into())
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_are_kept() {
        let deadline = Deadline::after(Duration::from_secs(20));
        let outcome = run("sh", &["-c", "echo out; echo err >&2; exit 3"], deadline).unwrap();
        assert_eq!((outcome.status, outcome.text.as_str()), (Some(3), "out\nerr\n"));
        assert_eq!(outcome.last_line(), "err");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_its_children() {
        let deadline = Deadline::after(Duration::from_millis(200));
        let error = run("sh", &["-c", "sleep 600 & sleep 600"], deadline).unwrap_err();
        assert_eq!(error.kind, Kind::Timeout);
    }

    /// A daemon that a program started has its output open, and is in no group of its.
    #[test]
    fn what_a_program_leaves_behind_is_not_waited_for() {
        let begin = std::time::Instant::now();
        let deadline = Deadline::after(Duration::from_secs(60));
        let script = "setsid sleep 20 & echo said; echo $! >&2; exit 3";
        let outcome = run("sh", &["-c", script], deadline).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert_eq!(outcome.status, Some(3));
        assert!(outcome.text.contains("said"), "{outcome:?}");
    }

    #[test]
    fn a_long_output_is_cut_and_holds_up_no_call() {
        let deadline = Deadline::after(Duration::from_secs(60));
        let outcome = run("sh", &["-c", "head -c 5000000 /dev/zero"], deadline).unwrap();
        assert_eq!((outcome.status, outcome.text.len()), (Some(0), LONGEST_OUTPUT));
    }

    #[test]
    fn lines_are_handed_on_until_it_is_enough_or_late() {
        let read = |script: &str, most: usize, time: u64| {
            let begin = std::time::Instant::now();
            let mut all = Vec::new();
            let deadline = Deadline::after(Duration::from_millis(time));
            let end = lines(&locate("sh").unwrap(), &["-c", script], 10, deadline, |line| {
                all.push(String::from_utf8_lossy(line).into_owned());
                all.len() < most
            });
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
            (end.unwrap(), all.join(" "))
        };
        let all = LinesEnd::All(Some(3));
        let script = "echo one; echo 12345678901; echo two >&2; printf three; exit 3";
        assert_eq!(read(script, 9, 60_000), (all, "one two three".to_owned()));
        let (end, text) = read("while echo x; do :; done", 5, 60_000);
        assert_eq!((end, text.as_str()), (LinesEnd::Enough, "x x x x x"));
        let (end, text) = read("echo x; sleep 600 & sleep 600", 5, 300);
        assert_eq!((end, text.as_str()), (LinesEnd::Late, "x"));
        assert_eq!(read("cat /dev/zero", 5, 300).0, LinesEnd::Late);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = locate("no-such-program").unwrap_err();
        assert!(error.to_string().contains("no-such-program"), "{error}");
    }
}
