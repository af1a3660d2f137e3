//! What tests look at: the mount table, files' contents, file systems, and what is left behind.

use crate::files;
use crate::holders::run;
use crate::support::{Node, loop_devices_below, with_files};
use crate::volume::Volume;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::mount::mountinfo::{Mount, MountTable};
use nix::sys::stat::makedev;
use nix::unistd::{Whence, lseek};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// This thread's mount table.
pub fn table() -> MountTable {
    MountTable::parse(&fs::read("/proc/thread-self/mountinfo").unwrap()).unwrap()
}

/// The one mount at this place.
#[track_caller]
pub fn only_mount_at(path: &Path) -> Mount {
    let table = table();
    let mut mounts = table.at(path);
    let mount = mounts.next().unwrap_or_else(|| panic!("nothing is mounted at {}", path.display()));
    assert_eq!(mounts.next(), None, "a second layer at {}", path.display());
    mount.clone()
}

/// How many mounts are stacked at this place.
pub fn layers_at(path: &Path) -> usize {
    table().at(path).count()
}

/// How many mounts of the file system at this place there are, wherever.
#[track_caller]
pub fn mounts_like(path: &Path) -> usize {
    table().of(only_mount_at(path).number).count()
}

pub fn number_of(letter: &str) -> DeviceNumber {
    fs::read_to_string(format!("/sys/block/{letter}/dev")).unwrap().parse().unwrap()
}

/// The file behind a loop device as the kernel shows it; empty if there is none.
pub fn backing_file(letter: &str) -> String {
    let file = fs::read_to_string(format!("/sys/block/{letter}/loop/backing_file"));
    file.unwrap_or_default().trim().to_owned()
}

/// A file's length and contents in one number. Zeros count the same whether they are a hole or
/// not, and holes are not read: images are large and sparse.
#[track_caller]
pub fn digest(path: &Path) -> u64 {
    with_files(|| digest_of_open(path))
}

fn digest_of_open(path: &Path) -> u64 {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(file.metadata().unwrap().len());
    let mut block = [0; 4096];
    let mut at = 0;
    while let Ok(data) = lseek(&file, at, Whence::SeekData) {
        let end = lseek(&file, data, Whence::SeekHole).unwrap();
        at = data;
        while at < end {
            let offset = u64::try_from(at).unwrap();
            let got = file.read_at(&mut block, offset).unwrap();
            if block[..got] != [0; 4096][..got] {
                hasher.write_u64(offset);
                hasher.write(&block[..got]);
            }
            at += 4096;
        }
    }
    hasher.finish()
}

/// Bytes that cannot be guessed.
pub fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

/// A whole check of the file system in an image that is not in use.
#[track_caller]
pub fn fsck(image: &Path) {
    let is_xfs = files::head(image) == *b"XFSB";
    let is_btrfs = files::head::<0x1_0048>(image)[0x1_0040..] == *b"_BHRfS_M";
    let image = image.to_str().unwrap();
    if is_btrfs {
        run("btrfs", &["check", "--readonly", image]);
    } else if is_xfs {
        run("xfs_repair", &["-n", image]);
    } else {
        run("e2fsck", &["-f", "-n", image]);
    }
}

/// Waits for something that the kernel does a moment later; far longer than it can take.
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    eventually_or(is_so, || what.to_owned());
}

/// The same, which looks at the machine when it was in vain.
#[track_caller]
fn eventually_or(mut is_so: impl FnMut() -> bool, what: impl FnOnce() -> String) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain: {}", what());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Of the disks of a node's one volume only the new one is left.
#[track_caller]
pub fn the_dead_disk_is_let_go(node: &Node) {
    let disks = || loop_devices_below(&node.base());
    eventually_or(
        || disks().len() == 1,
        || format!("the dead disk is let go: {}\n{}", users(&disks()), node.log()),
    );
}

/// What the kernel says of these disks, and what every thread of the machine has of them: mounts, open files, and
/// mount namespaces.
fn users(disks: &[PathBuf]) -> String {
    let numbers: Vec<_> = disks.iter().flat_map(fs::metadata).map(|disk| disk.rdev()).collect();
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let mut told = String::new();
    for disk in disks {
        let state = Path::new("/sys/block").join(disk.file_name().unwrap()).join("loop");
        let [file, clears] = ["backing_file", "autoclear"].map(|name| text(state.join(name)));
        told +=
            &format!("\n{}: {}, cleared by itself: {}", disk.display(), file.trim(), clears.trim());
    }
    let folders = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let processes = folders("/proc".into()).flat_map(|entry| folders(entry.path().join("task")));
    for thread in processes.map(|entry| entry.path()) {
        let table =
            MountTable::parse(text(thread.join("mountinfo")).as_bytes()).unwrap_or_default();
        let of = |mount: &&Mount| makedev(mount.number.major.into(), mount.number.minor.into());
        let mounts = table.mounts().iter().filter(|mount| numbers.contains(&of(mount)));
        let mut uses: Vec<_> =
            mounts.map(|it| format!("{} {}", it.number, it.target.display())).collect();
        for open in folders(thread.join("fd")).map(|open| open.path()) {
            let name = fs::read_link(&open).unwrap_or_default().to_string_lossy().into_owned();
            let found = fs::metadata(&open).map(|found| [found.dev(), found.rdev()]);
            let is_on_one = found.is_ok_and(|found| found.iter().any(|it| numbers.contains(it)));
            uses.extend((is_on_one || name.starts_with("mnt:[")).then_some(name));
        }
        if !uses.is_empty() {
            let [words, place] =
                ["cmdline", "wchan"].map(|name| text(thread.join(name)).replace('\0', " "));
            told += &format!("\n{}: {uses:?}; {place}; {words}", thread.display());
        }
    }
    told
}

/// At the end of a test nothing of it is on the machine: no loop device, no mount, no link, no
/// labelled node, no lock, no temporary file.
#[track_caller]
pub fn nothing_is_left(node: &Node, volumes: &[&Volume]) {
    let base = node.base();
    // What looks at new disks (udev) may have one open for a moment longer.
    eventually("the loop devices are gone", || loop_devices_below(&base).is_empty());
    let table = table();
    let mounts = table.mounts().iter().filter(|mount| mount.target.starts_with(&base));
    assert_eq!(mounts.collect::<Vec<_>>(), Vec::<&Mount>::new(), "mounts");
    let mut files = Vec::new();
    list_files(&base, &mut files);
    let leftover = files.iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        let by_id_or_lock = parent == "by-id" || parent == "locks";
        by_id_or_lock || name.starts_with('.') || name.ends_with(".copy")
    });
    assert_eq!(leftover.collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "files");
    for volume in volumes {
        for path in volume.label_and_lock() {
            assert!(fs::symlink_metadata(&path).is_err(), "{} is left", path.display());
        }
    }
}

fn list_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            list_files(&entry.path(), into);
        } else {
            into.push(entry.path());
        }
    }
}
