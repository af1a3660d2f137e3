//! What a system call is about, in words that are the same in each run: what a run alone has (its
//! folder, ids, numbers) is left out of them.

use super::calls::About;
use nix::libc;
use nix::unistd::Pid;
use regex_lite::Regex;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What is no point: where the machine's own libraries and words are, and what the kernel has in its
/// memory alone and never fails.
const PASSED_OVER: [&str; 9] = [
    "anon_inode:[eventfd]",
    "anon_inode:[eventpoll]",
    "anon_inode:[signalfd]",
    "/lib",
    "/usr/lib",
    "/etc/ld.so.",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
    "/usr/lib/locale",
];

/// The loader looks for libraries wherever `LD_LIBRARY_PATH` says, and cargo says a lot: none of our program
/// runs before it has them.
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("lib") && name.split('.').any(|part| part == "so")
}

#[derive(Debug)]
pub struct Objects {
    base: String,
    known: HashMap<String, String>,
    rules: Vec<(Regex, &'static str)>,
}

impl Objects {
    /// For a run in this folder.
    pub fn in_folder(base: &str) -> Self {
        let rules = [
            (r" \(deleted\)$", ""),
            // Another test's.
            (r"/tmp/incloud-[a-z]+-[A-Za-z0-9]{6}", "/tmp/T"),
            (r"[0-9a-f]{8}-[0-9a-f]{4}[0-9a-f-]*", "U"),
            (r"[0-9a-f]{32,}", "U"),
            (r"[0-9]+", "N"),
            (r"(\.tmp\.?|tmp\.)[A-Za-z0-9]{6,}", "T"),
        ];
        let rules = rules.map(|(text, word)| (Regex::new(text).expect("a rule"), word));
        Self { base: base.to_owned(), known: HashMap::new(), rules: rules.into() }
    }

    /// What the call of a process is about; nothing if it is one of the loader's.
    pub fn of(&mut self, pid: Pid, about: About, arguments: &[u64; 6]) -> Option<String> {
        let raw = match about {
            About::Nothing => return Some(String::new()),
            About::Address(at) => return Some(address(pid, arguments[at])),
            About::Path(at) => text(pid, arguments[at]),
            About::File(at) => file(pid, arguments[at]),
            About::Wish(at, wish) => format!("{} {:#x}", file(pid, arguments[at]), arguments[wish]),
            About::At(folder, at) => {
                let path = text(pid, arguments[at]);
                #[allow(clippy::cast_possible_truncation, reason = "a descriptor is an int")]
                let has_folder = (arguments[folder] as u32).cast_signed() != libc::AT_FDCWD;
                match (path.as_str(), has_folder) {
                    ("", true) => file(pid, arguments[folder]),
                    (path, true) if !path.starts_with('/') => {
                        format!("{}/{path}", file(pid, arguments[folder]))
                    }
                    _ => path,
                }
            }
        };
        let is_point = !PASSED_OVER.iter().any(|begin| raw.starts_with(begin)) && !is_library(&raw);
        is_point.then(|| self.plain(raw))
    }

    fn plain(&mut self, raw: String) -> String {
        if let Some(known) = self.known.get(&raw) {
            return known.clone();
        }
        let mut plain =
            if self.base.is_empty() { raw.clone() } else { raw.replace(&self.base, "~") };
        let wish = plain.rfind(" 0x").map(|at| plain.split_off(at)).unwrap_or_default();
        for (rule, word) in &self.rules {
            plain = rule.replace_all(&plain, *word).into_owned();
        }
        plain += &wish.replace(' ', ":");
        let plain = plain.replace([' ', '\n'], "_");
        self.known.insert(raw, plain.clone());
        plain
    }
}

/// The program that a process runs.
pub fn program(pid: Pid) -> String {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.trim_end_matches(" (deleted)").to_owned()
}

fn file(pid: Pid, number: u64) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "a descriptor is an int")]
    let number = (number as u32).cast_signed();
    let path: PathBuf = std::fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap_or_default();
    path.to_string_lossy().into_owned()
}

fn bytes(pid: Pid, at: u64) -> Vec<u8> {
    let mut found = vec![0; 512];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"));
    // A page's end may be the end of what can be read.
    let to_end = usize::try_from(4096 - at % 4096).unwrap_or(1).min(512);
    let got = memory.and_then(|memory| {
        let first = memory.read_at(&mut found[..to_end], at)?;
        let rest = memory.read_at(&mut found[first..], at + first as u64).unwrap_or(0);
        Ok(first + rest)
    });
    found.truncate(got.unwrap_or(0));
    found
}

fn text(pid: Pid, at: u64) -> String {
    if at == 0 {
        return String::new();
    }
    let found = bytes(pid, at);
    let end = found.iter().position(|byte| *byte == 0).unwrap_or(found.len());
    String::from_utf8_lossy(&found[..end]).into_owned()
}

fn address(pid: Pid, at: u64) -> String {
    let family = bytes(pid, at).first().copied().map_or(0, i32::from);
    match family {
        libc::AF_INET | libc::AF_INET6 => "network".to_owned(),
        libc::AF_UNIX => "unix".to_owned(),
        other => format!("family-{other}"),
    }
}
