//! Which mutant this process has: put into the copy of the source by `tests/mutants`, as the module `mutant`.
#![allow(unsafe_code, missing_docs)]

use nix::libc;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The mutant's number.
pub const VARIABLE: &str = "INCLOUD_DISK_MUTANT";
/// A file with a byte for each mutant, which is set when one is reached. All processes of a test share it, also
/// those that are killed.
pub const REACHED: &str = "INCLOUD_DISK_MUTANT_REACHED";
/// The PID namespace that the tests run in, which counts as the machine's.
pub const PROCESSES: &str = "INCLOUD_DISK_MUTANT_PROCESSES";

static ACTIVE: AtomicU32 = AtomicU32::new(0);
static PLACES: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicU64 = AtomicU64::new(0);
static NAMESPACE: AtomicU64 = AtomicU64::new(0);

/// Before `main`, so that no thread and no confinement is there yet.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    ACTIVE.store(number(VARIABLE).and_then(|n| u32::try_from(n).ok()).unwrap_or(0), Relaxed);
    NAMESPACE.store(number(PROCESSES).unwrap_or(0), Relaxed);
    let Some(path) = std::env::var_os(REACHED) else { return };
    let Ok(file) = std::fs::File::options().read(true).write(true).open(path) else { return };
    let length = file.metadata().map_or(0, |found| found.len());
    // SAFETY: a new mapping of a file that is as long, and stays.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            usize::try_from(length).unwrap_or(0),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if place != libc::MAP_FAILED {
        LENGTH.store(length, Relaxed);
        PLACES.store(place.cast(), Relaxed);
    }
}

#[must_use]
pub fn on(number: u32) -> bool {
    let places = PLACES.load(Relaxed);
    if !places.is_null() && u64::from(number) < LENGTH.load(Relaxed) {
        // SAFETY: within the mapping.
        unsafe { (*places.add(number as usize)).store(1, Relaxed) };
    }
    ACTIVE.load(Relaxed) == number
}

/// The PID namespace that counts as the machine's here.
#[must_use]
pub fn processes() -> Option<u64> {
    Some(NAMESPACE.load(Relaxed)).filter(|number| *number != 0)
}

/// What a process that is begun with other variables needs of these.
#[must_use]
pub fn environment() -> Vec<(String, String)> {
    let one = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    [VARIABLE, REACHED, PROCESSES].into_iter().filter_map(one).collect()
}
