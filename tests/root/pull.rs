//! Detach of a volume that is in use: refused; with the guard off the disk is pulled.

use crate::checks::{
    backing_file, digest, eventually, layers_at, nothing_is_left, number_of, only_mount_at,
    random_bytes,
};
use crate::crash::kill_at;
use crate::files;
use crate::holders::Holder;
use crate::support::{Node, loop_devices_below};
use crate::volume::{POD, Volume};
use nix::errno::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const GUARD_OFF: &str = "[guard]\nmode = \"off\"\n[heal]\nmode = \"off\"";
const HEAL_OFF: &str = "[heal]\nmode = \"off\"";

#[test]
fn detach_of_a_mounted_volume_is_refused() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let pod = volume.bring_to_pod();
    let letter = volume.letter();
    let stays = |message: String| {
        assert!(message.contains(&letter) && message.contains("mounted at"), "{message}");
        assert_eq!(node.must(volume.is_attached())["attached"], true);
        assert_eq!(volume.letter(), letter);
    };
    stays(node.fails(volume.detach()));
    files::write_synced(&pod.join("f"), b"it works");

    // A copy in a namespace of no pod goes with the last mount here; one that came later goes
    // before the disk.
    let early = Holder::of_all_mounts();
    node.must(volume.unpublish(POD));
    let late = Holder::of_all_mounts();
    node.must(volume.unstage());
    assert!(!early.sees(&pod.join("f")).exists() && !late.sees(&pod.join("f")).exists());
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// udev opens a new disk to look at it, an administrator to read it: no exclusive use.
#[test]
fn a_disk_that_is_only_read_is_detached_for_good() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    files::write_synced(&volume.bring_to_pod().join("f"), b"kept");
    node.must(volume.unpublish(POD));
    node.must(volume.unstage());
    let reader = File::open(Path::new("/dev").join(volume.letter())).unwrap();
    node.must(volume.detach());
    assert_eq!(node.must(volume.is_attached())["attached"], false);
    volume.bring();
    drop(reader);
    // What the reader kept alive was the old plug-in, not the new one.
    assert_eq!(node.must(volume.is_attached())["attached"], true);
    node.must(volume.unstage());
    node.must(volume.wait(""));
    node.must(volume.stage());
    assert_eq!(files::read(volume.global().join("f")).unwrap(), b"kept");
    volume.ends();
    volume.must_be_sound();
}

#[test]
fn with_the_guard_off_detach_pulls_the_disk() {
    needs!(mounts);
    pulled_and_back("ext4", "64M", |volume| {
        volume.node.configure(GUARD_OFF);
        volume.node.must(volume.detach());
        volume.node.configure(HEAL_OFF);
    });
}

#[test]
fn a_guard_that_only_warns_says_what_it_would_have_refused() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    node.configure("[guard]\nmode = \"warn\"");
    node.must(volume.detach());
    assert!(node.log().contains("would be refused"), "{}", node.log());
    node.must(volume.unstage());
    nothing_is_left(&node, &[&volume]);
}

/// A volume with data is pulled while a pod uses it, and comes back: the data is there, and
/// nothing that the old side still writes gets to the new one.
pub fn pulled_and_back(fs_type: &'static str, size: &str, pull: impl Fn(&Volume)) {
    let node = Node::new();
    // What lives on the dead disk is looked at here, not healed.
    node.configure(HEAL_OFF);
    let volume = Volume::create(&node, fs_type, size);
    let pod = volume.bring_to_pod();
    let data = random_bytes(2 << 20);
    files::write_synced(&pod.join("data"), &data);
    let late = File::create(pod.join("late")).unwrap();
    let old = volume.letter();
    let raw = OpenOptions::new().write(true).open(Path::new("/dev").join(&old)).unwrap();

    pull(&volume);
    assert!(backing_file(&old).ends_with(" (deleted)"), "{}", backing_file(&old));
    assert!(fs::symlink_metadata(volume.link()).is_err(), "the link is left");
    assert_eq!(node.must(volume.is_attached())["attached"], false);
    let list = node.verb(&["local", "list"]).unwrap();
    let row = [volume.id.as_str(), "SIZE", "-", "-", "-"];
    let is_free = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns.len() == row.len() && columns[0] == row[0] && columns[2..] == row[2..]
    };
    assert!(list.lines().any(is_free), "not detached, or still with a disk: {list}");
    let error = File::create(pod.join("new")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EIO as i32), "the file system is dead");

    node.must(volume.attach());
    let new = volume.letter();
    assert_ne!(old, new, "the dead file system keeps its letter");
    let before = digest(&volume.image());
    let written = (&late).write_all(&data).and_then(|()| late.sync_all());
    assert!(written.is_err(), "a dead file system took data");
    for offset in [0, 1 << 20, 5 << 20] {
        raw.write_all_at(&data, offset).unwrap();
    }
    raw.sync_all().unwrap();
    assert_eq!(digest(&volume.image()), before, "the old side reached the new disk");

    // The dead mounts are in the way, and are not touched unasked.
    for call in [volume.wait(""), volume.stage(), volume.publish(POD)] {
        let message = node.fails(call);
        assert!(message.contains("which is not the volume's disk"), "{message}");
    }
    assert_eq!((layers_at(&volume.global()), layers_at(&pod)), (1, 1));
    drop(late);
    node.must(volume.unpublish(POD));
    node.must(volume.unstage());
    drop(raw);
    eventually("the old disk is gone", || loop_devices_below(&node.base()).len() == 1);

    node.must(volume.wait(""));
    node.must(volume.publish(POD));
    assert_eq!(only_mount_at(&pod).number, number_of(&new));
    assert!(files::read(pod.join("data")).unwrap() == data, "the data is another");
    volume.ends();
    volume.must_be_sound();
}

#[test]
fn a_pull_that_broke_off_is_finished_by_the_same_detach() {
    needs!(mounts, seams);
    for step in [
        "local.pull.shut-down",
        "local.pull.let-go",
        "local.pull.copied",
        "local.detach.unplugged",
        "detach.requested",
    ] {
        pulled_and_back("ext4", "16M", |volume| {
            volume.node.configure(GUARD_OFF);
            kill_at(&volume.node, &volume.detach(), step);
            volume.node.must(volume.detach());
            volume.node.configure(HEAL_OFF);
        });
    }
}
