//! A process that was started as a container, seen from the test.

use super::cgroups::Folders;
use super::orders::{Order, Reply, Report};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

/// A process that runs, in its cgroup and mount namespace.
#[derive(Debug)]
pub struct Container {
    child: Child,
    output: BufReader<ChildStdout>,
    unanswered: usize,
    id: String,
    /// They go when the last process in them has gone.
    _folders: Option<Arc<Folders>>,
}

impl Container {
    /// One whose process was just started, in folders that it has not joined yet.
    pub(super) fn new(mut child: Child, id: String, folders: Option<Arc<Folders>>) -> Self {
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, output, unanswered: 0, id, _folders: folders }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The runtime's id of it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Gives an order, and demands that it succeeds.
    #[track_caller]
    pub fn must(&mut self, order: &Order) -> Report {
        self.settle();
        self.send(order);
        self.reply()
    }

    /// Lets it write to a file without an end, with a pause after each write or none.
    #[track_caller]
    pub fn write(&mut self, path: &str, pause: Duration) {
        self.must(&Order::Write { path: path.into(), pause });
    }

    /// How its writing went so far.
    #[track_caller]
    pub fn report(&mut self) -> Report {
        self.must(&Order::Report)
    }

    /// Waits until it has written that much more than now.
    #[track_caller]
    pub fn must_write_on(&mut self, count: u64) -> Report {
        let wanted = self.report().writes + count;
        loop {
            let report = self.report();
            if report.writes >= wanted {
                return report;
            }
            assert_eq!(report.first_error, None, "{report:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Its own view of a path.
    pub fn sees(&self, path: &str) -> PathBuf {
        Path::new("/proc").join(self.pid().to_string()).join("root").join(&path[1..])
    }

    /// Ends it at once.
    pub fn die(self) {
        drop(self);
    }

    /// Ends it and does not take note: it stays a zombie until it is dropped.
    #[track_caller]
    pub fn die_without_a_funeral(&mut self) {
        self.kill();
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a PID"));
        waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("it ends");
    }

    fn kill(&self) {
        if let Ok(pid) = i32::try_from(self.pid()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    /// Gives an order whose answer `settle` waits for.
    pub(super) fn send(&mut self, order: &Order) {
        let mut line = serde_json::to_string(order).expect("an order");
        line.push('\n');
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(line.as_bytes()).expect("the container listens");
        self.unanswered += 1;
    }

    /// Waits until everything it was told so far has succeeded.
    #[track_caller]
    pub(super) fn settle(&mut self) {
        while self.unanswered > 0 {
            self.reply();
        }
    }

    #[track_caller]
    fn reply(&mut self) -> Report {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its answer");
        self.unanswered -= 1;
        let reply: Reply = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        reply.unwrap_or_else(|error| panic!("container {}: {error}", self.pid()))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}
