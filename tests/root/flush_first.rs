//! Written data reaches the disk before any mount is taken down, or its loss is told.

use crate::checks::{layers_at, nothing_is_left};
use crate::files;
use crate::holders::{Holder, run};
use crate::support::{Node, has};
use crate::switch::kinds::{bind, propagate, tmpfs};
use crate::volume::{POD, Volume, make_folder};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::io::Write;
use std::path::Path;

/// A volume whose image cannot take what is written next: the folder of the images is full.
struct Full {
    volume: Volume,
    images: std::path::PathBuf,
}

impl Full {
    /// `shares` is whether kubelet's folders are shared, as on a real machine.
    fn bring(node: &Node, shares: bool) -> Self {
        if shares {
            let root = node.kubelet_root();
            tmpfs(root.to_str().unwrap());
            propagate(root.to_str().unwrap(), MsFlags::MS_SHARED);
        }
        let images = node.base().join("cloud");
        make_folder(&images);
        let room = Some("size=12M");
        mount(Some("tmpfs"), &images, Some("tmpfs"), MsFlags::empty(), room).unwrap();
        let volume = Volume::create(node, "ext4", "64M");
        volume.bring();
        Self { volume, images }
    }

    /// Data that the page cache takes, and the image does not.
    fn write_below(folder: &Path) {
        let mut file = fs::File::create(folder.join("data")).unwrap();
        file.write_all(&vec![7; 24 << 20]).unwrap();
    }

    /// The first call tells the loss and takes nothing off, the second one goes on.
    #[track_caller]
    fn must_be_told_once(&self, call: &crate::volume::Call, folder: &Path) {
        let message = self.volume.node.fails(call);
        assert!(message.contains("did not reach the disk"), "{message}");
        assert!(layers_at(folder) > 0, "nothing was taken off");
        self.volume.node.must(call);
        assert_eq!(layers_at(folder), 0);
    }

    fn end(self) {
        let Self { volume, images } = self;
        let room = Some("size=100M");
        mount(Some("tmpfs"), &images, Some("tmpfs"), MsFlags::MS_REMOUNT, room).unwrap();
        volume.node.must(volume.detach());
        let _ = umount2(&volume.node.kubelet_root(), MntFlags::empty());
        umount2(&images, MntFlags::MNT_DETACH).unwrap();
        nothing_is_left(&volume.node, &[&volume]);
    }
}

/// Most drivers of the other kind have kubelet's folder `Bidirectional`: what is unmounted in their
/// namespace is unmounted in the machine's.
#[test]
fn a_copy_that_shares_with_the_machine_does_not_take_its_mount_along() {
    needs!(mounts);
    let node = Node::new();
    let full = Full::bring(&node, true);
    let bidirectional = Holder::of_all_mounts();
    let global = full.volume.global();
    Full::write_below(&global);
    full.must_be_told_once(&full.volume.unstage(), &global);
    assert!(!bidirectional.sees(&global.join("data")).exists(), "it went along");
    drop(bidirectional);
    full.end();
}

/// kubelet's folder is bound to a second place of the machine: one unmount takes both.
#[test]
fn a_second_view_of_kubelets_folder_is_no_second_mount() {
    needs!(mounts);
    let node = Node::new();
    let root = node.kubelet_root();
    tmpfs(root.to_str().unwrap());
    propagate(root.to_str().unwrap(), MsFlags::MS_SHARED);
    let view = node.base().join("view");
    bind(root.to_str().unwrap(), view.to_str().unwrap(), MsFlags::empty());
    let full = Full::bring(&node, false);
    let global = full.volume.global();
    let seen = view.join(global.strip_prefix(&root).unwrap());
    assert_eq!(layers_at(&seen), 1, "it is seen there too");
    Full::write_below(&global);
    full.must_be_told_once(&full.volume.unstage(), &global);
    assert_eq!(layers_at(&seen), 0);
    umount2(&view, MntFlags::empty()).unwrap();
    full.end();
}

/// The machine's own mounts were taken off by hand; the last copy lives in another namespace.
#[test]
fn the_last_copy_is_flushed_before_a_detach_takes_it_down() {
    needs!(mounts);
    let node = Node::new();
    let full = Full::bring(&node, false);
    let holder = Holder::of_all_mounts();
    let global = full.volume.global();
    run("umount", &[global.to_str().unwrap()]);
    Full::write_below(&holder.sees(&global));
    let message = node.fails(full.volume.detach());
    has(&message, &["did not reach the disk", "the next try"]);
    assert!(holder.sees(&global.join("data")).exists(), "it can still be looked at");
    full.end();
    drop(holder);
}

/// What is lost is told while all copies are there still: a person may look at it through each.
#[test]
fn a_loss_is_told_before_a_copy_that_leaked_goes() {
    needs!(mounts);
    let node = Node::new();
    let full = Full::bring(&node, false);
    let holder = Holder::of_all_mounts();
    let global = full.volume.global();
    Full::write_below(&global);
    let message = node.fails(full.volume.unstage());
    assert!(message.contains("did not reach the disk"), "{message}");
    assert!(holder.sees(&global.join("data")).exists(), "it can still be looked at");
    node.must(full.volume.unstage());
    assert!(!holder.sees(&global.join("data")).exists());
    full.end();
    drop(holder);
}

/// A file system that met an error refuses writes, and its flush succeeds all the same.
#[test]
fn a_file_system_that_stopped_is_told_before_it_goes() {
    let test = "a_file_system_that_stopped_is_told_before_it_goes";
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    volume.take_away();
    run("tune2fs", &["-e", "remount-ro", volume.image().to_str().unwrap()]);
    volume.bring_to_pod();
    let trigger = format!("/sys/fs/ext4/{}/trigger_fs_error", volume.letter());
    if !Path::new(&trigger).exists() {
        crate::support::skip(test, "this kernel makes no errors");
        volume.take_away();
        return;
    }
    files::write(volume.pod(POD).join("f"), "never written").unwrap();
    files::write(&trigger, "1").unwrap();
    node.must(volume.unpublish(POD));
    let message = node.fails(volume.unstage());
    // Newer kernels fail the flush itself.
    has(&message, &["did not reach the disk"]);
    assert_eq!(layers_at(&volume.global()), 1, "it can still be looked at");
    node.must(volume.unstage());
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// What a person takes off despite the guard is flushed too, and the loss stands in the answer.
#[test]
fn a_release_tells_what_is_lost() {
    needs!(mounts);
    let node = Node::new();
    let full = Full::bring(&node, false);
    Full::write_below(&full.volume.global());
    let told = node.verb(&["release", &full.volume.id]).unwrap();
    has(&told, &["unmounted", "did not reach the disk"]);
    assert_eq!(layers_at(&full.volume.global()), 0);
    full.end();
}
