//! Places where a test build can be made to fail, die or wait, by name.
//!
//! Every step that changes something names itself here. In a debug build these variables have a
//! meaning, in a release build none of them has:
//!
//! | `INCLOUD_DISK_…` | what it does |
//! | --- | --- |
//! | `SEAM=step=action[,step=action…]` | the named step, or with `#N` for its name the N-th step of a call that has a list, panics (`panic`), uses up its stack (`overflow`), ends the process at once (`kill`), waits (`sleep:MILLISECONDS`), or makes a file and waits until it is removed (`hold:PATH`) |
//! | `SEAM_LIST` | the file to which each step that is passed is added |
//! | `SYSFS`, `BY_ID`, `BY_LABEL` | folders in the place of `/sys`, `/dev/disk/by-id` and `/dev/disk/by-label` |
//! | `SWITCH` | the method by which mounts are replaced, as an older kernel would have it |
//! | `KEEPER_HANGS` | the last one to let go of a dead disk does not come back |
//! | `PATIENT` | the log and the metrics are waited for, however busy the machine is |
//! | `JOURNALCTL` | a program in the place of `journalctl` |
//! | `NODE_AT_MOST` | how many seconds one time of `disk node --every` may take |

use incloud_disk_model::error::Result;
#[cfg(debug_assertions)]
use incloud_disk_model::error::{Error, Kind};
use std::path::PathBuf;
use std::time::Duration;

/// A folder that a test put in the place of `usual`.
pub fn folder(variable: &str, usual: &str) -> PathBuf {
    let other = cfg!(debug_assertions).then(|| std::env::var_os(variable)).flatten();
    other.map_or_else(|| PathBuf::from(usual), PathBuf::from)
}

/// What a test wishes.
pub fn wish(variable: &str) -> Option<String> {
    cfg!(debug_assertions).then(|| std::env::var(variable).ok()).flatten()
}

/// How long something is waited for that no call depends on. Tests that read it afterwards wait for it on a busy machine.
pub fn patience(usual: Duration) -> Duration {
    wish("INCLOUD_DISK_PATIENT").map_or(usual, |_| Duration::from_secs(20))
}

/// Whether this process is a worker, and its parent waits for it.
#[cfg(debug_assertions)]
static WORKER: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// From here on this process is a worker.
pub fn this_is_a_worker() {
    #[cfg(debug_assertions)]
    WORKER.store(true, std::sync::atomic::Ordering::SeqCst);
}

/// Marks a step.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn step(_name: &str) {}

/// Marks something that can fail.
#[cfg(not(debug_assertions))]
#[inline(always)]
#[allow(clippy::missing_errors_doc, clippy::unnecessary_wraps, reason = "it fails in test builds")]
pub fn effect(_name: &str) -> Result<()> {
    Ok(())
}

/// Marks something that can fail: `INCLOUD_DISK_SEAM=name=fail` makes it fail, `name=fail:N` only
/// for the N-th time.
#[cfg(debug_assertions)]
pub fn effect(name: &str) -> Result<()> {
    use std::sync::Mutex;
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let failed = || Err(Error::new(Kind::Host, format!("{name} was made to fail")));
    match action(name, passed(name)).as_deref() {
        Some("fail") => failed(),
        Some(other) => {
            let Some(wanted) = other.strip_prefix("fail:").and_then(|n| n.parse::<usize>().ok())
            else {
                act(name, other);
                return Ok(());
            };
            let Ok(mut seen) = SEEN.lock() else { return Ok(()) };
            seen.push(name.to_owned());
            if seen.iter().filter(|one| *one == name).count() == wanted { failed() } else { Ok(()) }
        }
        None => Ok(()),
    }
}

/// What the script has for a step of this name, or for the one at this place.
#[cfg(debug_assertions)]
fn action(name: &str, place: Option<usize>) -> Option<String> {
    let script = std::env::var_os("INCLOUD_DISK_SEAM")?;
    let script = script.to_string_lossy();
    let place = place.map(|place| format!("#{place}"));
    let mut rules = script.split(',').filter_map(|rule| rule.split_once('='));
    let rule = rules.find(|(step, _)| *step == name || Some(*step) == place.as_deref());
    rule.map(|(_, action)| action.to_owned())
}

/// Notes a step in the call's list; answers its place there, counted from one.
#[cfg(debug_assertions)]
fn passed(name: &str) -> Option<usize> {
    use std::io::Write;
    let list = std::env::var_os("INCLOUD_DISK_SEAM_LIST")?;
    // The processes of one call have one list, and each adds whole lines.
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&list).ok()?;
    file.write_all(format!("{name}\n").as_bytes()).ok()?;
    Some(std::fs::read_to_string(&list).ok()?.lines().count())
}

/// Marks a step.
#[cfg(debug_assertions)]
pub fn step(name: &str) {
    if let Some(action) = action(name, passed(name)) {
        act(name, &action);
    }
}

/// Comes back only where the stack has no end.
#[cfg(debug_assertions)]
fn deeper(depth: u64) -> [u64; 512] {
    let frame = std::hint::black_box([depth; 512]);
    if frame[0] == 0 { frame } else { std::hint::black_box(deeper(frame[0] + 1)) }
}

#[cfg(debug_assertions)]
#[allow(clippy::panic, reason = "panicking on demand is what it is for")]
fn act(name: &str, action: &str) {
    match action {
        "panic" => panic!("seam {name}"),
        "overflow" => drop(deeper(1)),
        "kill" => {
            if WORKER.load(std::sync::atomic::Ordering::SeqCst) {
                // The whole call is killed: the process that waits for this one too.
                let waiting = nix::unistd::getppid();
                let _ = nix::sys::signal::kill(waiting, nix::sys::signal::Signal::SIGKILL);
            }
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
        }
        other => {
            if let Some(path) = other.strip_prefix("hold:") {
                let _ = std::fs::write(path, name);
                while std::path::Path::new(path).exists() {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            } else if let Some(milliseconds) =
                other.strip_prefix("sleep:").and_then(|n| n.parse().ok())
            {
                std::thread::sleep(std::time::Duration::from_millis(milliseconds));
            }
        }
    }
}
