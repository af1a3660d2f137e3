//! Who and where this machine is.

use crate::model::error::{Error, Kind, Result};
use crate::model::ids::NodeName;
use crate::model::mount::folders_let_go::Caller;
use crate::model::timestamp::Uptime;
use crate::ports::host::Environment;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The host's name as Kubernetes makes a node name of it: in lower case.
pub fn node_name() -> Result<NodeName> {
    let name = nix::unistd::gethostname().map_err(|errno| {
        Error::new(Kind::Host, format!("read the host's name: {}", errno.desc()))
    })?;
    NodeName::parse(&name.to_string_lossy().to_lowercase()).map_err(|error| {
        Error::new(Kind::Config, format!("the host's name is no node name: {}", error.cause))
            .hint("set node.name in the configuration")
    })
}

/// A text that differs after each boot: device numbers and disk counts begin anew with it.
pub fn boot_id() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BOOT.get_or_init(|| read().trim().to_owned()).clone()
}

/// This moment, by the boot and the time since then.
pub fn uptime() -> Uptime {
    Uptime { boot: boot_id(), seconds: crate::ports::clock::since_boot().as_secs() }
}

/// The variables that a process was started with, by its folder in /proc; none of one that cannot be seen.
pub fn variables_of(process: &Path) -> Vec<(OsString, OsString)> {
    let text = std::fs::read(process.join("environ")).unwrap_or_default();
    let pairs = text.split(|byte| *byte == 0).filter_map(|word| {
        let sign = word.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        let text = |part: &[u8]| OsStr::from_bytes(part).to_owned();
        Some((text(&word[..sign]), text(&word[sign + 1..])))
    });
    pairs.collect()
}

/// The name of the process that called us, for the log.
pub fn parent_name() -> String {
    let path = format!("/proc/{}/comm", super::worker::caller());
    std::fs::read_to_string(path).map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

/// The process that called us, so that it can be told from a later one of its number.
pub fn caller() -> Option<Caller> {
    let pid = u32::try_from(super::worker::caller().as_raw()).ok()?;
    Some(Caller { pid, began: state_of(pid)?.1 })
}

/// Whether that process still lives.
pub fn lives(caller: &Caller) -> bool {
    let is_same = |(state, began)| began == caller.began && !matches!(state, 'Z' | 'X');
    state_of(caller.pid).is_some_and(is_same)
}

/// The state of a process that may be one of this machine's own or of this user's, and when it began. Of others nothing
/// is read that may wait for them: the number may be theirs by now.
pub fn state_of(pid: u32) -> Option<(char, u64)> {
    let status = super::files::read_proc(&format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let words =
        |key| status.lines().find_map(|line| line.strip_prefix(key)).map(str::split_whitespace);
    let user: u32 = words("Uid:")?.next()?.parse().ok()?;
    // In a PID namespace of its own it has more numbers than one.
    let is_contained = words("NSpid:").is_some_and(|numbers| numbers.count() > 1);
    if is_contained || user != 0 && user != self::user() {
        return None;
    }
    state_in(&super::files::read_proc(&format!("/proc/{pid}/stat")).ok()?)
}

/// The state of a process and when it began, read from the bytes of `/proc/PID/stat` (proc(5)).
pub(super) fn state_in(stat: &[u8]) -> Option<(char, u64)> {
    let text = String::from_utf8_lossy(stat);
    // Its name is in brackets, and may hold any: the rest begins behind the last one.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is the third field, the start the 22nd.
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// How long after the machine's start a process began, from the bytes of its `stat`.
pub fn start_of(stat: &[u8]) -> Option<Duration> {
    /// `USER_HZ`, which is the same on every architecture that this is built for.
    const TICKS: u64 = 100;
    let (_, began) = state_in(stat)?;
    Some(Duration::from_millis(began.saturating_mul(1000 / TICKS)))
}

/// A short id that no other call of this machine has: time and process, in base 36.
pub fn new_call_id() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = crate::ports::clock::now();
    let after = |last: u64| Some(now.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or(0);
    format!("{}-{}", base36(now.max(last + 1)), base36(u64::from(std::process::id())))
}

fn base36(mut number: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    loop {
        let digit = usize::try_from(number % 36).unwrap_or_default();
        digits.push(char::from(DIGITS[digit]));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Who called us, for acts that a person answers for: behind sudo the one who typed.
pub fn who_asks() -> String {
    let user = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER")).unwrap_or_default();
    let plain: String =
        user.chars().filter(|c| c.is_alphanumeric() || "-_.".contains(*c)).collect();
    let uid = nix::unistd::getuid();
    if plain.is_empty() { format!("uid {uid}") } else { format!("{plain} (uid {uid})") }
}

/// The user that this process acts as.
pub fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether this process may grow a mounted ext4. Where that cannot be determined, the kernel decides when it is asked.
pub fn may_grow_mounted() -> bool {
    /// `CAP_SYS_RESOURCE`.
    const RIGHT: u64 = 1 << 24;
    let status = super::files::read_proc("/proc/self/status").unwrap_or_default();
    capabilities(&String::from_utf8_lossy(&status)).is_none_or(|rights| rights & RIGHT != 0)
}

/// The effective capabilities of a process, from its `status`.
pub fn capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
}

/// Whether this process may mount.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The adapter of [`Environment`] to this machine.
#[derive(Debug, Clone, Copy)]
pub struct ThisMachine;

impl Environment for ThisMachine {
    fn boot_id(&self) -> String {
        boot_id()
    }

    fn caller(&self) -> Option<Caller> {
        caller()
    }

    fn lives(&self, caller: &Caller) -> bool {
        lives(caller)
    }

    fn is_root(&self) -> bool {
        is_root()
    }

    fn may_grow_mounted(&self) -> bool {
        may_grow_mounted()
    }

    fn new_call_id(&self) -> String {
        new_call_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_base_36() {
        assert_eq!(base36(0), "0");
        assert_eq!(base36(35), "z");
        assert_eq!(base36(36 * 36), "100");
    }

    #[test]
    fn no_two_calls_of_a_process_have_one_id() {
        let ids: std::collections::BTreeSet<_> = (0..100).map(|_| new_call_id()).collect();
        assert_eq!(ids.len(), 100);
    }
}
