//! Only an exclusive open that passed says that a disk is free: none of its errors does, but those
//! that mean that the disk cannot be seen from here.

use crate::checks::nothing_is_left;
use crate::support::pods::{Order, Plan};
use crate::support::{Node, has};
use crate::switch::kinds::tmpfs;
use crate::volume::Volume;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::{Path, PathBuf};

const NONE: Option<&str> = None;

/// Something else stands in the place of the disk's node.
pub struct Covered(PathBuf);

impl Covered {
    fn by(other: &str, letter: &str) -> Self {
        let node = Path::new("/dev").join(letter);
        mount(Some(other), &node, NONE, MsFlags::MS_BIND, NONE).unwrap();
        Self(node)
    }

    /// The node itself, on a mount that allows no devices.
    pub fn without_devices(letter: &str) -> Self {
        let covered = Self::by(&format!("/dev/{letter}"), letter);
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_NODEV;
        mount(NONE, &covered.0, NONE, flags, NONE).unwrap();
        covered
    }
}

impl Drop for Covered {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn asked_the_cloud(node: &Node) -> bool {
    // In whatever form an older driver wrote it.
    let logs = std::fs::read_dir(node.own().join("log")).unwrap().flatten();
    let mut texts = logs.map(|log| std::fs::read_to_string(log.path()).unwrap_or_default());
    texts.any(|text| text.contains("asking the cloud to detach"))
}

/// A node of that name that is another device's, and one that is none's.
#[test]
fn a_node_that_is_not_the_disks_proves_nothing() {
    needs!(containers);
    let node = Node::new();
    let (volume, other) =
        (Volume::create(&node, "ext4", "16M"), Volume::create(&node, "ext4", "16M"));
    volume.bring();
    node.must(volume.unstage());
    node.must(other.attach());
    let mut alone = Plan::outside().seeing(Path::new("/dev"), "/dev").start();
    alone.must(&Order::OpenAlone { path: format!("/dev/{}", volume.letter()).into() });
    let another = format!("/dev/{}", other.letter());
    for (cover, words) in
        [(another.as_str(), "not the proven disk"), ("/dev/null", "no block device")]
    {
        let covered = Covered::by(cover, &volume.letter());
        for call in [volume.detach(), volume.unstage()] {
            let answer = node.call(&call).text;
            assert!(!asked_the_cloud(&node), "{cover}: the cloud was asked: {answer}");
            has(&answer, &["Failure", "is not proven free", words]);
        }
        drop(covered);
    }
    has(&node.fails(volume.detach()), &["is in use", &alone.pid().to_string()]);
    alone.must(&Order::LetGo);
    node.must(volume.detach());
    node.must(other.detach());
    nothing_is_left(&node, &[&volume, &other]);
}

/// An error that says nothing of the disk: its name leads nowhere, round and round.
#[test]
fn an_error_of_the_open_is_a_refusal_with_its_cause() {
    needs!(containers);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    node.must(volume.unstage());
    let mut alone = Plan::outside().seeing(Path::new("/dev"), "/dev").start();
    alone.must(&Order::OpenAlone { path: format!("/dev/{}", volume.letter()).into() });
    // A /dev in which the disk's name is a link to itself.
    let dev = node.base().join("dev");
    std::fs::create_dir(&dev).unwrap();
    let real = node.base().join("real");
    std::fs::create_dir(&real).unwrap();
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some("/dev"), &real, NONE, flags, NONE).unwrap();
    tmpfs("/dev");
    let own = format!("/dev/{}", volume.letter());
    std::os::unix::fs::symlink(&own, &own).unwrap();
    std::fs::write("/dev/null", "").unwrap();
    let messages = [node.call(volume.detach()).text, node.call(volume.unstage()).text];
    umount2("/dev", MntFlags::MNT_DETACH).unwrap();
    umount2(&real, MntFlags::MNT_DETACH).unwrap();
    assert!(!asked_the_cloud(&node), "the cloud was asked: {messages:?}");
    for message in messages {
        has(&message, &["Failure", "is not proven free", "symbolic link"]);
    }
    alone.must(&Order::LetGo);
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// The disk's node cannot be opened here, and its user can be seen: that is enough to refuse.
#[test]
fn what_cannot_be_opened_is_looked_for() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    let file = volume.global().join("f");
    crate::files::write_synced(&file, b"x");
    let holder = crate::holders::Holder::reading(&file);
    crate::holders::run("umount", &["-l", volume.global().to_str().unwrap()]);
    let covered = Covered::without_devices(&volume.letter());
    for call in [volume.detach(), volume.unstage()] {
        let answer = node.call(&call).text;
        assert!(!asked_the_cloud(&node), "the cloud was asked: {answer}");
        has(&answer, &["Failure", "is in use", "(sleep) holds"]);
    }
    drop(holder);
    // Nothing is found any more, and nothing is proven: unmountdevice has nothing to undo.
    crate::checks::eventually("it is let go", || {
        node.call(volume.unstage()).json["status"] == "Success"
    });
    drop(covered);
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}
