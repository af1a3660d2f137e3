//! The failing disk itself: its faults reach a loop device, and it leaves nothing behind.

use crate::checks::{eventually, layers_at};
use crate::files;
use crate::holders::run;
use crate::support::{FailingDisk, loop_devices_below, with_files};
use nix::errno::Errno;
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SIZE: u64 = 8 << 20;

/// Long enough for a request that goes on by mistake to be seen.
const A_WHILE: Duration = Duration::from_millis(200);

fn blank_file() -> (TempDir, PathBuf) {
    let folder = TempDir::with_prefix("incloud-disk-").unwrap();
    let path = folder.path().join("disk.img");
    with_files(|| File::create(&path).unwrap().set_len(SIZE).unwrap());
    (folder, path)
}

fn loop_device_on(disk: &Path) -> PathBuf {
    run("losetup", &["--find", "--show", disk.to_str().unwrap()]).trim().into()
}

fn read(device: &Path, offset: u64) -> Result<[u8; 512]> {
    with_files(|| sector(&File::open(device)?, offset))
}

fn sector(device: &File, offset: u64) -> Result<[u8; 512]> {
    let mut sector = [0; 512];
    device.read_exact_at(&mut sector, offset).map(|()| sector)
}

/// Writes through the device's cache to the disk itself.
fn write(device: &Path, offset: u64) -> Result<()> {
    with_files(|| {
        let device = File::options().write(true).open(device)?;
        device.write_all_at(&[7; 4096], offset)?;
        device.sync_data()
    })
}

/// Reads in a thread that is not waited for: a test that fails must come to the disk's end.
/// It is opened before: later the same number may be a disk of another test.
fn read_beside(device: &Path) -> mpsc::Receiver<Result<[u8; 512]>> {
    let (done, answer) = mpsc::channel();
    let device = with_files(|| File::open(device).unwrap());
    std::thread::spawn(move || drop(done.send(sector(&device, 0))));
    answer
}

#[track_caller]
fn is_an_io_error<T: std::fmt::Debug>(outcome: Result<T>) {
    assert_eq!(outcome.unwrap_err().raw_os_error(), Some(Errno::EIO as i32));
}

#[test]
fn bad_sectors_are_bad_on_a_loop_device_and_others_are_not() {
    needs!(fuse);
    let (_folder, path) = blank_file();
    files::write_at(&path, 0, b"head");
    let disk = FailingDisk::over(&path);
    disk.fail_reads(1_048_576..1_049_088);
    disk.fail_writes(4096..8192);
    let device = loop_device_on(&path);
    assert!(read(&device, 0).unwrap().starts_with(b"head"));
    is_an_io_error(read(&device, 1_048_576));
    is_an_io_error(write(&device, 4096));
    write(&device, 8192).unwrap();
    assert_eq!(read(&disk.below(), 8192).unwrap(), [7; 512]);
    assert_eq!(read(&disk.below(), 4096).unwrap(), [0; 512], "it was written after all");

    disk.heal();
    read(&device, 1_048_576).unwrap();
    write(&device, 4096).unwrap();
    disk.fail_flushes();
    is_an_io_error(write(&device, 16_384));
    let counts = disk.counts();
    assert!(counts.reads >= 2 && counts.writes >= 4 && counts.flushes >= 3, "{counts:?}");
}

#[test]
fn a_disk_that_hangs_answers_when_it_is_released() {
    needs!(fuse);
    let (_folder, path) = blank_file();
    let disk = FailingDisk::over(&path);
    let device = loop_device_on(&path);
    disk.hang();
    let answer = read_beside(&device);
    assert!(answer.recv_timeout(A_WHILE).is_err(), "a read of a hanging disk came back");
    assert_eq!(path.metadata().unwrap().len(), SIZE, "the file can still be looked at");
    disk.release();
    answer.recv().unwrap().unwrap();
    disk.delay(A_WHILE);
    let begin = Instant::now();
    read(&device, SIZE / 2).unwrap();
    assert!(begin.elapsed() >= A_WHILE);
}

#[test]
fn a_failing_disk_leaves_nothing_even_while_it_hangs() {
    needs!(fuse);
    let (folder, path) = blank_file();
    let disk = FailingDisk::over(&path);
    let device = loop_device_on(&path);
    disk.hang();
    let answer = read_beside(&device);
    assert!(answer.recv_timeout(A_WHILE).is_err());
    drop(disk);
    let error = answer.recv().unwrap().unwrap_err();
    // Where the loop device is cleared before the kernel reads again it has no bytes any more.
    let is_told = error.raw_os_error() == Some(Errno::EIO as i32)
        || error.kind() == std::io::ErrorKind::UnexpectedEof;
    assert!(is_told, "{error:?}");
    eventually("the loop device is gone", || loop_devices_below(folder.path()).is_empty());
    assert_eq!(layers_at(&path), 0);
    assert_eq!(path.metadata().unwrap().len(), SIZE, "the file itself is there again");
}
