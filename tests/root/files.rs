//! Files of mounts under test: read and written while no process is started, for that would keep
//! them open for a moment longer.

use crate::support::with_files;
use std::fs::{self, File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    with_files(|| fs::read(path))
}

pub fn read_to_string(path: impl AsRef<Path>) -> Result<String> {
    with_files(|| fs::read_to_string(path))
}

pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
    with_files(|| fs::write(path, bytes))
}

/// Makes a new file and brings it to the disk.
#[track_caller]
pub fn write_synced(path: &Path, bytes: &[u8]) {
    let written = with_files(|| {
        fs::write(path, bytes)?;
        File::open(path)?.sync_all()
    });
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Writes bytes into a file at an offset, and to the disk.
#[track_caller]
pub fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    let written = with_files(|| {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, offset)?;
        file.sync_all()
    });
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The first bytes of a file.
#[track_caller]
pub fn head<const N: usize>(path: &Path) -> [u8; N] {
    let mut bytes = [0; N];
    let got = with_files(|| File::open(path)?.read_exact_at(&mut bytes, 0));
    got.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}

/// Whether nothing else uses a device, as kubelet asks after `unmountdevice`.
pub fn can_be_opened_alone(device: &Path) -> bool {
    let alone = || OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(device);
    with_files(|| alone().is_ok())
}
