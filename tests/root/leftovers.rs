//! A disk is free when the kernel says so, and what a killed call left is ended by the next one.

use crate::checks::{layers_at, nothing_is_left, table};
use crate::crash::kill_at;
use crate::files;
use crate::heal::{goes_on, pull};
use crate::holders::{Holder, run};
use crate::scene::{Scene, scene};
use crate::support::{Node, has};
use crate::switch::kinds::{propagate, tmpfs};
use crate::volume::{POD, Volume};
use nix::mount::MsFlags;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// kubelet's own question after `unmountdevice`.
fn is_free(letter: &str) -> bool {
    let mut alone = OpenOptions::new();
    alone.read(true).custom_flags(nix::libc::O_EXCL);
    alone.open(Path::new("/dev").join(letter)).is_ok()
}

fn scratch(volume: &Volume) -> PathBuf {
    volume.node.own().join("run/scratch").join(&volume.id)
}

/// A heal that was killed when its scratch mount had just been made.
fn killed_heal() -> Scene {
    let mut scene = scene().start();
    let Scene { node, volume, container, .. } = &mut scene;
    pull(volume, container);
    kill_at(node, &volume.attach(), "heal.mounted");
    assert!(layers_at(&scratch(volume)) > 0, "the killed heal left its mount");
    scene
}

/// The pod is deleted before anything heals: kubelet does not call `unmountdevice` as long as any
/// other mount of the disk stands, so `unmount` must end it already.
#[test]
fn what_a_killed_heal_left_goes_with_the_unmount() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = killed_heal();
    container.die();
    node.must(volume.unpublish(pod.uid()));
    assert_eq!(layers_at(&scratch(&volume)), 0, "GetDeviceMountRefs would find it");
    node.must(volume.unstage());
    assert!(is_free(&volume.letter()));
    node.must(volume.detach());
    volume.must_be_sound_after_a_replay();
    nothing_is_left(&node, &[&volume]);
}

/// Its mounts were taken off by hand: `detach` took the scratch mount for another's.
#[test]
fn what_a_killed_heal_left_goes_with_the_detach() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = killed_heal();
    container.die();
    for folder in [volume.pod(pod.uid()), volume.global()] {
        run("umount", &["-l", folder.to_str().unwrap()]);
    }
    node.must(volume.detach());
    assert_eq!(layers_at(&scratch(&volume)), 0);
    volume.must_be_sound_after_a_replay();
    nothing_is_left(&node, &[&volume]);
}

/// A call that is killed on a server to which no call comes back for the volume.
#[test]
fn the_lock_of_a_killed_call_goes_with_the_timer() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    kill_at(&node, &volume.attach(), "attach.named");
    let lock = node.own().join("run/locks").join(format!("{}.lock", volume.id));
    assert!(lock.exists(), "the killed call left it");
    node.verb(&["heal"]).unwrap();
    assert!(!lock.exists());
    node.must(volume.attach());
    node.must(volume.detach());
}

/// No call comes at all, and heals have been switched off since.
#[test]
fn what_a_killed_heal_left_goes_with_the_timer() {
    needs!(pods, seams);
    for mode in ["off", "report"] {
        let Scene { node, volume, pod, container } = killed_heal();
        node.configure(&format!("[heal]\nmode = {mode:?}"));
        if mode == "report" {
            node.verb(&["heal", "--dry-run"]).unwrap();
            assert!(layers_at(&scratch(&volume)) > 0, "a plan changes nothing");
        }
        node.verb(&["heal"]).unwrap();
        assert_eq!(layers_at(&scratch(&volume)), 0, "{mode}");
        volume.take_away_with(&pod, container);
        volume.must_be_sound_after_a_replay();
        nothing_is_left(&node, &[&volume]);
    }
}

/// A program uses what the killed heal left: the call goes on, and the program is named.
#[test]
fn a_scratch_mount_that_is_used_is_named() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = killed_heal();
    let holder = Holder::working_in(&scratch(&volume));
    container.die();
    node.must(volume.unpublish(pod.uid()));
    let message = node.fails(volume.unstage());
    has(&message, &["is in use", "(sleep) holds", "as its working folder (kill "]);
    assert!(!is_free(&volume.letter()));
    drop(holder);
    node.must(volume.unstage());
    assert!(is_free(&volume.letter()));
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn a_file_that_is_open_through_a_lazy_unmount_keeps_the_disk() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    let file = volume.global().join("f");
    files::write_synced(&file, b"x");
    let holder = Holder::reading(&file);
    run("umount", &["-l", volume.global().to_str().unwrap()]);
    for _ in 0..2 {
        let message = node.fails(volume.unstage());
        has(&message, &["is in use", "(sleep) holds", "by descriptor 0 (kill "]);
        assert!(!is_free(&volume.letter()));
        let message = node.fails(volume.detach());
        has(&message, &["is in use", "(sleep) holds", "detach --force"]);
    }
    drop(holder);
    node.must(volume.unstage());
    assert!(is_free(&volume.letter()));
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// The folder of a pod still has it: kubelet does not call then, but others do.
#[test]
fn a_pods_bind_keeps_the_disk_until_it_goes() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring_to_pod();
    let place = format!("mounted on this machine (umount {})", volume.pod(POD).display());
    for _ in 0..2 {
        let message = node.fails(volume.unstage());
        has(&message, &["is in use", &place]);
    }
    node.must(volume.unpublish(POD));
    node.must(volume.unstage());
    volume.ends();
}

/// Nothing is mounted any more, and the kernel itself has the disk.
#[test]
fn a_disk_that_is_swapped_to_is_not_free() {
    let test = "a_disk_that_is_swapped_to_is_not_free";
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    node.must(volume.unstage());
    let disk = format!("/dev/{}", volume.letter());
    run("mkswap", &[&disk]);
    let swapped = std::process::Command::new("swapon").arg(&disk).output().unwrap();
    if !swapped.status.success() {
        crate::support::skip(test, "needs to be allowed to swap");
        node.must(volume.detach());
        return;
    }
    let messages = [node.call(volume.unstage()).text, node.call(volume.detach()).text];
    run("swapoff", &[&disk]);
    for message in messages {
        has(&message, &["Failure", "is swapped to", &format!("(swapoff {disk})")]);
    }
    node.must(volume.unstage());
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// What stands on a dead disk is the heal's: it keeps no volume from leaving.
#[test]
fn a_disk_that_is_gone_is_free() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    for folder in [volume.pod(pod.uid()), volume.global()] {
        run("umount", &["-l", folder.to_str().unwrap()]);
    }
    node.must(volume.unstage());
    container.die();
    assert_eq!(
        table().mounts().iter().filter(|m| m.source == volume.label().to_str().unwrap()).count(),
        0
    );
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// `/run` is shared on a real machine: who has a copy of it during a heal would have the volume for
/// as long as it lives.
#[test]
fn what_a_heal_mounts_for_a_moment_is_seen_nowhere_else() {
    needs!(pods, seams);
    let node = Node::new();
    let run = node.own().join("run");
    std::fs::create_dir_all(&run).unwrap();
    tmpfs(run.to_str().unwrap());
    propagate(run.to_str().unwrap(), MsFlags::MS_SHARED);
    let Scene { volume, pod, mut container, .. } = scene().on(&node).start();
    let agent = Holder::of_all_mounts();
    pull(&volume, &mut container);
    kill_at(&node, &volume.attach(), "heal.mounted");
    let place = scratch(&volume).join("kept");
    assert!(place.exists() && !agent.sees(&place).exists(), "the agent has the volume");
    node.must(volume.attach());
    goes_on(&mut container, 3);
    assert_eq!(layers_at(&scratch(&volume)), 0);
    drop(agent);
    volume.take_away_with(&pod, container);
    nix::mount::umount2(&run, nix::mount::MntFlags::MNT_DETACH).unwrap();
    nothing_is_left(&node, &[&volume]);
}
