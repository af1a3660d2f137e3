//! A disk that has just appeared is left to udevd first, and what udev says about a disk is shown to people. udevd is a
//! socket and a database in this test's own `/run`.

use crate::checks::{nothing_is_left, number_of};
use crate::support::has;
use crate::volume::{Volume, make_folder};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const RUN: &str = "/run/udev";
const NONE: Option<&str> = None;

/// A `/run` in which no udevd runs.
pub fn hide() {
    mount(NONE, "/run", Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
}

struct Udevd;

impl Udevd {
    fn start() {
        hide();
        fs::create_dir_all(Path::new(RUN).join("data")).unwrap();
        fs::write(Path::new(RUN).join("control"), "").unwrap();
    }

    fn stop() {
        fs::remove_file(Path::new(RUN).join("control")).unwrap();
    }

    fn entry(volume: &Volume) -> PathBuf {
        Path::new(RUN).join("data").join(format!("b{}", number_of(&volume.letter())))
    }

    fn has_processed(volume: &Volume, more: &str) {
        fs::write(Self::entry(volume), format!("I:1\n{more}")).unwrap();
    }
}

/// The disk's node has just been made.
struct NewNode(PathBuf, Instant);

impl NewNode {
    fn of(volume: &Volume) -> Self {
        let (made, node) = (Path::new("/run/node"), Path::new("/dev").join(volume.letter()));
        let _ = fs::remove_file(made);
        let number = number_of(&volume.letter());
        let number = makedev(number.major.into(), number.minor.into());
        let begin = Instant::now();
        mknod(made, SFlag::S_IFBLK, Mode::S_IRUSR | Mode::S_IWUSR, number).unwrap();
        mount(Some(made), &node, NONE, MsFlags::MS_BIND, NONE).unwrap();
        Self(node, begin)
    }
}

impl Drop for NewNode {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_new_disk_is_left_to_udevd_for_a_second_at_most() {
    needs!(mounts);
    if cfg!(not(feature = "udev")) {
        return crate::support::skip("a_new_disk_is_left_to_udevd", "needs libudev");
    }
    Udevd::start();
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    let staged = |new: &NewNode| {
        node.must(volume.stage());
        let took = new.1.elapsed();
        node.must(volume.unstage());
        let given_up = node.log().matches("udevd has not processed the new disk").count();
        (took, given_up)
    };
    // udevd is stopped: it is waited for once, and a disk that is older is not left to it.
    let new = NewNode::of(&volume);
    let (took, given_up) = staged(&new);
    assert!(took > Duration::from_millis(950), "{took:?}");
    assert_eq!(given_up, 1);
    assert_eq!(staged(&new).1, 1, "a disk that is no new one");
    drop(new);

    // It comes to an end, and only then is the disk opened.
    let new = NewNode::of(&volume);
    let letter = volume.letter();
    let before = node.log().len();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            Udevd::has_processed(&volume, "");
        });
        let (took, given_up) = staged(&new);
        assert!(took > Duration::from_millis(300), "{took:?}");
        assert_eq!(given_up, 1, "{letter}: {}", &node.log()[before..]);
    });
    drop(new);

    // It has the disk in its queue again.
    fs::write(Path::new(RUN).join("queue"), "").unwrap();
    assert_eq!(staged(&NewNode::of(&volume)).1, 2);
    // No udevd runs.
    Udevd::stop();
    fs::remove_file(Udevd::entry(&volume)).unwrap();
    assert_eq!(staged(&NewNode::of(&volume)).1, 2);
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn what_udev_says_is_shown_and_sysfs_decides() {
    needs!(mounts);
    if cfg!(not(feature = "udev")) {
        return crate::support::skip("what_udev_says_is_shown", "needs libudev");
    }
    Udevd::start();
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let explain = || node.verb(&["explain", &volume.id]).unwrap();
    let doctor = || node.verb(&["doctor"]).unwrap_or_else(|text| text);
    has(&explain(), &["no serial of it", "DISAGREES", "udevd has not processed", "sysfs decides"]);
    has(&doctor(), &["udevd has not processed this disk", &volume.letter()]);
    Udevd::has_processed(&volume, "S:disk/by-id/some-link\nE:ID_SERIAL=some serial\n");
    let text = explain();
    has(&text, &["ID_SERIAL \"some serial\"", "/dev/disk/by-id/some-link"]);
    assert!(!text.contains("DISAGREES"), "{text}");
    assert!(!doctor().contains("has not processed"), "{}", doctor());
    // Without udevd its database is a former one's.
    Udevd::stop();
    assert!(!explain().contains("some-link"));
    volume.take_away();
    nothing_is_left(&node, &[&volume]);
}
