//! What does not wobble: system calls, files read, children, threads, page faults, memory.

use crate::figures::Counts;
use crate::program::Program;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What counts here.
#[derive(Debug)]
pub struct Counters {
    folder: PathBuf,
    launcher: Option<PathBuf>,
    strace: bool,
}

impl Counters {
    pub fn in_folder(folder: &Path, launcher: Option<PathBuf>) -> Self {
        let works = |words: &[&str]| {
            let mut probe = Command::new(words[0]);
            probe.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        };
        let strace = works(&["strace", "-o", "/dev/null", "true"]);
        Self { folder: folder.to_owned(), launcher, strace }
    }

    /// All that can be counted; the program runs some times, and `undo` follows each.
    pub fn of(&self, program: &Program, undo: &dyn Fn()) -> Counts {
        let mut counts = Counts::default();
        if let Some(trace) = self.trace(program, undo) {
            count_calls(&trace, &mut counts);
        }
        if let Some((memory, faults)) = self.memory(program, undo) {
            (counts.memory_kib, counts.faults) = (Some(memory), Some(faults));
        }
        counts
    }

    /// Its memory and page faults alone.
    pub fn memory(&self, program: &Program, undo: &dyn Fn()) -> Option<(u64, u64)> {
        let told = self.folder.join("launched");
        let launcher = self.launcher.as_ref()?;
        program
            .below(&[launcher.into(), told.clone().into()])
            .unwrap_or_else(|why| panic!("{program:?}: {why}"));
        undo();
        let text = fs::read_to_string(told).unwrap();
        let (memory, faults) = text.trim().split_once(' ').unwrap();
        Some((memory.parse().unwrap(), faults.parse().unwrap()))
    }

    fn trace(&self, program: &Program, undo: &dyn Fn()) -> Option<String> {
        if !self.strace {
            return None;
        }
        let trace = self.folder.join("trace");
        let words = ["strace", "-f", "-qq", "-y", "-s", "0", "-o"].map(OsString::from);
        let counter: Vec<OsString> = words.into_iter().chain([trace.clone().into()]).collect();
        program.below(&counter).unwrap_or_else(|why| panic!("{program:?}: {why}"));
        undo();
        Some(fs::read_to_string(trace).unwrap())
    }
}

/// Reads what strace wrote.
fn count_calls(trace: &str, counts: &mut Counts) {
    let mut opened = BTreeSet::new();
    let (mut calls, mut bytes, mut again, mut tables, mut children, mut threads) =
        (0, 0, 0, 0, 0, 0);
    for line in trace.lines() {
        let Some((_, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // Signals and ends are no calls; what was interrupted by another line is counted where it began.
        if call.starts_with(['+', '-']) {
            continue;
        }
        let is_rest = call.starts_with("<...");
        let name = call.trim_start_matches("<... ").split(['(', ' ']).next().unwrap_or_default();
        if !is_rest {
            calls += 1;
            if ["clone", "clone3", "fork", "vfork"].contains(&name) {
                let is_thread = call.contains("CLONE_THREAD");
                threads += u64::from(is_thread);
                children += u64::from(!is_thread);
            }
        }
        let Some((_, result)) = call.rsplit_once(" = ") else { continue };
        if ["read", "pread64", "readv", "preadv", "recvfrom", "recvmsg"].contains(&name) {
            bytes +=
                result.split([' ', '<']).next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        let is_looked_into =
            !["O_DIRECTORY", "O_PATH", "O_CREAT"].iter().any(|flag| call.contains(flag));
        if name == "openat"
            && is_looked_into
            && let Some((_, file)) = result.split_once('<')
        {
            let file = file.trim_end_matches('>');
            tables += u64::from(file.ends_with("/mountinfo"));
            again += u64::from(!file.starts_with("/dev/") && !opened.insert(file.to_owned()));
        }
    }
    counts.system_calls = Some(calls);
    counts.bytes_read = Some(bytes);
    counts.opened_again = Some(again);
    counts.mount_tables = Some(tables);
    counts.children = Some(children);
    counts.threads = Some(threads);
}
