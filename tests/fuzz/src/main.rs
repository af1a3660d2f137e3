//! Garbage for one parser: `FUZZ_TARGET` names it. libFuzzer makes the inputs, and keeps those that reach
//! something new. A target panics where a promise of the parser is broken.

#![no_main]

mod clouds;
mod disks;
mod kernel;
mod told;
mod written;

use libfuzzer_sys::fuzz_target;
use nix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::Duration;

/// A parser, and what is promised of it.
type Target = fn(&[u8]);

/// Each with its name.
const TARGETS: &[(&str, Target)] = &[
    ("call", written::call),
    ("options", written::options),
    ("words", written::words),
    ("configuration", written::configuration),
    ("cloud-conf", written::cloud_conf),
    ("clouds-yaml", written::clouds_yaml),
    ("record", written::record),
    ("mountinfo", kernel::mountinfo),
    ("cgroup", kernel::cgroup),
    ("kernel-log", kernel::log),
    ("uevent", kernel::uevent),
    ("sysfs", kernel::sysfs),
    ("disk", disks::disk),
    ("journal", disks::journal),
    ("xfs-log", disks::xfs_log),
    ("config-drive", disks::config_drive),
    ("replies", clouds::replies),
    ("log", told::log),
    ("redaction", told::redaction),
    ("text", told::text),
];

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    if let Some((_, target)) = TARGETS.iter().find(|(known, _)| *known == name) {
        return *target;
    }
    for (name, _) in TARGETS {
        println!("{name}");
    }
    std::process::exit(if name == "list" { 0 } else { 2 })
}

/// What an input may take of a processor: a tenant can make a node wait with one that takes more.
const SLOWEST: Duration = Duration::from_secs(10);

/// What this process has had of a processor: a clock runs on while others have it.
fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock of the process");
    Duration::from(spent)
}

fuzz_target!(init: { TARGET.get_or_init(chosen); }, |bytes: &[u8]| {
    let Some(target) = TARGET.get() else { return };
    let before = processor_time();
    target(bytes);
    let took = processor_time().saturating_sub(before);
    assert!(took < SLOWEST, "a slow input: {took:?} of a processor");
});

/// A text, as far as the bytes are one.
fn text_of(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
