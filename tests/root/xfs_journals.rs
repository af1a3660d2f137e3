//! Real xfs on loop devices: whether a disk that comes back is as it was left. What the kernel tells is noted at
//! the moment of the loss; the disk of that moment is a copy of the loop device's file, and strangers work on it.

use crate::support::{Node, detach_loops_below, output_of};
use incloud_disk::host::device_mapper::KernelMaps;
use incloud_disk::model::disk::device::{Device, Proof};
use incloud_disk::model::disk::journal::one_moment::Sameness;
use incloud_disk::model::disk::journal::sights::{JournalMark, JournalSights};
use incloud_disk::model::disk::journal::xfs_log::LogStretch;
use incloud_disk::model::disk::journal::xfs_moment::{
    XfsKernel, XfsMark, XfsMounted, XfsSight, compare_logs, stretch_around,
};
use incloud_disk::model::disk::journal::xfs_place::{XFS_UUID, log_place};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::host::{AboveDisk, Maps};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A log that a test can fill.
const LOG: &str = "size=64m";

fn run(program: &str, arguments: &[&str]) -> String {
    let output = output_of(Command::new(program).args(arguments));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn new_disk(dir: &Path, name: &str) -> PathBuf {
    let image = dir.join(name);
    File::create(&image).unwrap().set_len(320 << 20).unwrap();
    run("mkfs.xfs", &["-q", "-l", LOG, path(&image)]);
    image
}

fn copy(from: &Path, to: &str) -> PathBuf {
    let to = from.with_file_name(to);
    run("cp", &["--sparse=always", path(from), path(&to)]);
    to
}

/// An xfs of this image, mounted from a loop device.
struct Xfs {
    image: PathBuf,
    device: Device,
    place: PathBuf,
}

impl Xfs {
    fn mounted(image: &Path, options: &str) -> Self {
        let device = run("losetup", &["-f", "--show", path(image)]).trim().to_owned();
        let name = device.trim_start_matches("/dev/").to_owned();
        let place = image.with_extension("mount");
        fs::create_dir_all(&place).unwrap();
        run("mount", &["-t", "xfs", "-o", options, &device, path(&place)]);
        let number = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
        let device = Device {
            kernel_name: name,
            number: number.trim().parse().unwrap(),
            size: image.metadata().unwrap().len(),
            read_only: false,
            sequence: None,
            proof: Proof::Whole,
            connection: None,
        };
        Self { image: image.to_owned(), device, place }
    }

    fn unmounted(self) -> PathBuf {
        run("umount", &[path(&self.place)]);
        run("losetup", &["-d", path(&self.device.kernel_node())]);
        self.image
    }

    /// The disk is pulled out: what is on it then.
    fn pulled(self) -> PathBuf {
        let copied = copy(&self.image, "pulled");
        let image = self.unmounted();
        fs::rename(copied, &image).unwrap();
        image
    }

    fn sights(&self, above: &AboveDisk<'_>) -> JournalSights {
        let deadline = Deadline::after(Duration::from_secs(20));
        KernelMaps::default().journals(&self.device, above, deadline).unwrap()
    }

    /// A loop device has no count. Nothing is under way here, so all has been written.
    fn counted(&self, kernel: XfsKernel) -> XfsKernel {
        let log = log_place(&head(&self.image)).unwrap().1;
        XfsKernel { written: Some(log.position_of(kernel.head) - log.sectors), ..kernel }
    }

    fn marked(&self) -> Result<XfsMark, String> {
        let mut sights = self.sights(&AboveDisk::WorkingMap(&self.device));
        if let JournalSights::Xfs(sight) = &mut sights
            && let Some(mounted) = &mut sight.mounted
        {
            mounted.kernel = self.counted(mounted.kernel);
            mounted.before = mounted.before.map(|before| self.counted(before));
        }
        match sights.agreed(None, None)? {
            JournalMark::XfsLog(mark) => Ok(mark),
            other @ JournalMark::FirstTransaction(_) => Err(format!("{other:?}")),
        }
    }

    fn told(&self) -> XfsKernel {
        let JournalSights::Xfs(sight) = self.sights(&AboveDisk::Map(&self.device, None)) else {
            panic!("no xfs");
        };
        self.counted(sight.mounted.unwrap().kernel)
    }

    /// So many records at least, of a few sectors each.
    fn writes(&self, name: &str, count: usize) {
        for number in 0..count {
            let file = File::create(self.place.join(format!("{name}-{number}"))).unwrap();
            file.set_len(1).unwrap();
            file.sync_all().unwrap();
        }
    }

    /// Until the log has gone on by so many sectors.
    fn writes_much(&self, sectors: u64) {
        let log = log_place(&head(&self.image)).unwrap().1;
        let until = log.position_of(self.told().head) + sectors;
        let mut round = 0;
        while log.position_of(self.told().head) < until {
            let folder = self.place.join(format!("much-{}", round % 4));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            for number in 0..150 {
                File::create(folder.join(format!("{number:0>60}"))).unwrap();
            }
            run("sync", &["-f", path(&self.place)]);
            round += 1;
        }
    }

    /// What was written goes to its place: the log's tail follows.
    fn settles(&self) -> XfsKernel {
        run("xfs_freeze", &["-f", path(&self.place)]);
        run("xfs_freeze", &["-u", path(&self.place)]);
        self.told()
    }
}

fn head(image: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    File::open(image).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The disk that came, and the kernel of the moment of the loss.
fn compared(image: &Path, kernel: XfsKernel, mark: &XfsMark) -> Sameness {
    let superblock = head(image);
    let (uuid, place) = match log_place(&superblock) {
        Ok(found) => found,
        Err(why) => return Sameness::Unknown(why),
    };
    let file = File::open(image).unwrap();
    let read = |from: u64, count: u64| {
        let mut bytes = Vec::new();
        for position in from..from + count {
            let mut sector = [0; 512];
            let at = place.at + place.cycle_and_sector(position).1 * 512;
            file.read_exact_at(&mut sector, at).unwrap();
            bytes.extend(sector);
        }
        LogStretch::parse(&bytes, &place, from, &superblock[XFS_UUID])
    };
    let (from, count) = stretch_around(&place, kernel.head).unwrap();
    let mounted = XfsMounted {
        kernel,
        before: None,
        log: read(from, count),
        at_tail: read(place.position_of(kernel.tail), 1).sectors.pop(),
        at_head: read(mark.head, 1).sectors.pop(),
    };
    compare_logs(&XfsSight { uuid, place, mounted: Some(mounted) }, mark)
}

#[track_caller]
fn differs(sameness: &Sameness, stranger: &str) {
    println!("{stranger}: {sameness:?}");
    assert!(matches!(sameness, Sameness::Differs(_)), "{stranger}: {sameness:?}");
}

fn scene() -> (Node, PathBuf) {
    let node = Node::new();
    let dir = node.base().join("xfs");
    fs::create_dir(&dir).unwrap();
    (node, dir)
}

/// What a stranger does to a disk, in words too.
type Stranger = (&'static str, fn(&Path));

/// Each leaves its traces in the log.
fn strangers() -> [Stranger; 11] {
    [
        ("mounts and unmounts", |disk| {
            Xfs::mounted(disk, "nouuid").unmounted();
        }),
        ("mounts, writes and unmounts", |disk| {
            let its = Xfs::mounted(disk, "nouuid");
            its.writes("its", 5);
            its.unmounted();
        }),
        ("mounts and crashes", |disk| {
            Xfs::mounted(disk, "nouuid").pulled();
        }),
        ("mounts, writes and crashes", |disk| {
            let its = Xfs::mounted(disk, "nouuid");
            its.writes("its", 5);
            its.pulled();
        }),
        ("mounts to read", |disk| {
            Xfs::mounted(disk, "nouuid,ro").unmounted();
        }),
        ("mounts, writes much and crashes", |disk| {
            let its = Xfs::mounted(disk, "nouuid");
            its.writes_much(5000);
            its.pulled();
        }),
        ("repairs by force", |disk| {
            output_of(Command::new("xfs_repair").arg("-L").arg(disk));
        }),
        ("repairs by force, mounts and crashes", |disk| {
            output_of(Command::new("xfs_repair").arg("-L").arg(disk));
            let its = Xfs::mounted(disk, "nouuid");
            its.writes("its", 60);
            its.pulled();
        }),
        ("repairs after a mount", |disk| {
            Xfs::mounted(disk, "nouuid").unmounted();
            run("xfs_repair", &[path(disk)]);
        }),
        ("makes it grow", |disk| {
            File::options().write(true).open(disk).unwrap().set_len(400 << 20).unwrap();
            let its = Xfs::mounted(disk, "nouuid");
            run("xfs_growfs", &[path(&its.place)]);
            its.unmounted();
        }),
        ("gives it another UUID", |disk| {
            Xfs::mounted(disk, "nouuid").unmounted();
            run("xfs_admin", &["-U", "generate", path(disk)]);
        }),
    ]
}

/// A disk that was left after so many records, or sectors, and what strangers did to it.
fn strangers_are_seen(settles: bool, records: usize, sectors: u64) {
    let (_node, dir) = scene();
    let image = new_disk(&dir, "disk");
    let before_mount = copy(&image, "before");
    let ours = Xfs::mounted(&image, "defaults");
    let mark = ours.marked().unwrap();
    let soon = copy(&image, "soon");
    ours.writes_much(sectors);
    let minute = copy(&image, "minute");
    ours.writes("more", records);
    if settles {
        ours.settles();
        ours.writes("again", 10);
    }
    let moment = copy(&image, "moment");
    ours.writes("last", 1);
    let kernel = ours.told();
    println!("{mark:?} {kernel:?}");
    let lost = copy(&image, "lost");
    assert_eq!(compared(&lost, kernel, &mark), Sameness::Same, "{kernel:?}");
    output_of(Command::new("xfs_repair").arg(&lost));
    assert_eq!(compared(&lost, kernel, &mark), Sameness::Same, "it refuses such a log");
    for (what, stranger) in strangers() {
        let disk = copy(&lost, "stranger");
        stranger(&disk);
        differs(&compared(&disk, kernel, &mark), what);
    }
    // Eight buffers are under way, as many as there can be.
    let written = kernel.written.map(|written| written.saturating_sub(8 * mark.buffer));
    let busy = XfsKernel { written, ..kernel };
    for (what, disk) in [("before the mount", &before_mount), ("soon after it", &soon)] {
        differs(&compared(disk, kernel, &mark), what);
        if settles {
            differs(&compared(disk, busy, &mark), what);
        }
        // Set back, and used by another server from there on.
        for (way, stranger) in strangers() {
            let forked = copy(disk, "forked");
            stranger(&forked);
            differs(&compared(&forked, busy, &mark), &format!("{what}, {way}"));
        }
    }
    differs(&compared(&minute, kernel, &mark), "a minute ago, and nothing waits");
    differs(&compared(&moment, kernel, &mark), "one record ago, and nothing waits");
    if settles {
        differs(&compared(&minute, busy, &mark), "a minute ago, and all is at its place");
    }
    ours.unmounted();
    detach_loops_below(&dir);
}

#[test]
fn an_xfs_that_a_stranger_had_soon_after_our_mount_is_seen() {
    needs!(mounts);
    strangers_are_seen(false, 12, 0);
}

#[test]
fn an_xfs_that_a_stranger_had_is_seen() {
    needs!(mounts);
    strangers_are_seen(true, 40, 3000);
}

#[test]
fn an_xfs_that_a_stranger_had_is_seen_when_the_log_went_around() {
    needs!(mounts);
    strangers_are_seen(true, 20, 140_000);
}
