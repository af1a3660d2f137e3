//! A person at a terminal, who may do there what he likes while a verb works.

use crate::calls;
use crate::looking::silent_cloud;
use crate::support::{DISK, Node, has, skip};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A shell on a terminal of its own, by script(1), and what it has shown so far.
struct Terminal {
    script: Child,
    output: ChildStdout,
    shown: String,
}

impl Terminal {
    /// `$DISK` is the program.
    fn begin(test: &str, node: &Node, line: &str) -> Option<Self> {
        if !["/usr/bin/script", "/bin/script"].iter().any(|path| Path::new(path).exists()) {
            skip(test, "needs script(1)");
            return None;
        }
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", line, "/dev/null"]);
        command.env("INCLOUD_DISK_CONFIG", node.config_path()).env("DISK", DISK);
        command.env("TERM", "xterm").env_remove("COLUMNS");
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = script.stdout.take().unwrap();
        Some(Self { script, output, shown: String::new() })
    }

    /// Reads on until this is so of all that was shown, or the terminal is closed.
    #[track_caller]
    fn until(&mut self, is_so: impl Fn(&str) -> bool) {
        let mut piece = [0; 4096];
        while !is_so(&self.shown) {
            let length = self.output.read(&mut piece).unwrap();
            assert!(length > 0, "it ended: {}", self.shown);
            self.shown += &String::from_utf8_lossy(&piece[..length]);
        }
    }

    /// Types, and reads all until the end; answers the exit status.
    fn ends_by(&mut self, keys: &[u8]) -> i32 {
        self.script.stdin.as_ref().unwrap().write_all(keys).unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        self.shown += &rest;
        self.script.wait().unwrap().code().unwrap()
    }
}

/// A failed test must not leave a program that watches for ever.
impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

const CTRL_C: &[u8] = b"\x03";

/// The processes that were called with this word. (The environment of a process that dumps no core is root's.)
fn processes_with(word: &str) -> Vec<PathBuf> {
    let ours = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line.starts_with(DISK.as_bytes())
            && line.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    };
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(ours).collect()
}

#[test]
fn ctrl_c_while_the_cloud_is_waited_for_ends_it_and_the_next_call_goes_on() {
    let test = "ctrl_c_while_the_cloud_is_waited_for_ends_it_and_the_next_call_goes_on";
    let forced = nix::unistd::geteuid().is_root().then_some("--force ");
    for force in [Some(""), forced].into_iter().flatten() {
        let node = Node::new();
        let listener = silent_cloud(&node);
        // No other test's process has it.
        let pv = format!("pv-of-{}", node.base().file_name().unwrap().to_str().unwrap());
        let line = format!("\"$DISK\" detach {force}{pv} node-a");
        let Some(mut terminal) = Terminal::begin(test, &node, &line) else { return };
        terminal.until(|shown| shown.contains("Ctrl-C is safe"));
        assert!(!processes_with(&pv).is_empty());
        let status = terminal.ends_by(CTRL_C);
        let shown = &terminal.shown;
        // It did not wait for its deadline, which is three minutes.
        assert!(!shown.contains("not done within"), "{shown}");
        if force.is_empty() {
            has(shown, &["disk: failed: detach", "SIGINT"]);
        }
        assert_ne!(status, 0, "{shown}");
        assert_eq!(processes_with(&pv), Vec::<PathBuf>::new());
        drop(listener);
        // The same folders, and a cloud that answers: a disk is plugged in.
        if !crate::support::is_root_here(test) {
            return;
        }
        node.configure("");
        node.create("vol-1", "1M");
        node.must(calls::attach("vol-1", &pv, "node-a"));
        node.must(calls::detach(&pv, "node-a"));
    }
}
