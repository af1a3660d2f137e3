//! Mounts that are covered: the table has them at their folder, and the path leads elsewhere.

use crate::checks::{eventually, layers_at, nothing_is_left, number_of, only_mount_at, table};
use crate::crash::interrupted_at;
use crate::files;
use crate::holders::run;
use crate::support::{Answer, Node, has, with_files};
use crate::volume::{Call, POD, Volume, make_folder};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OTHER_POD: &str = "0b1f2d3c-9a35-4f0e-8d52-7a5c1e0b6f1d";

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn tmpfs(place: &Path) {
    run("mount", &["-t", "tmpfs", "stranger", text(place)]);
}

/// Takes off what the test has put there. The drivers of other tests look at all mounts that they see, and one that is
/// looked at just now is busy.
#[track_caller]
fn umount(place: &Path) {
    eventually("what was mounted there is taken off", || {
        Command::new("umount").arg(place).stderr(Stdio::null()).status().unwrap().success()
    });
}

/// Calls that a cover must fail: those that name the folder that it hides.
fn at_global(volume: &Volume) -> Vec<Call> {
    vec![volume.wait(""), volume.stage(), volume.publish(OTHER_POD), volume.unstage()]
}

fn at_pod(volume: &Volume) -> Vec<Call> {
    vec![volume.publish(POD), volume.expand(1 << 40), volume.unpublish(POD)]
}

/// The mounts of the volume, by id and place.
fn mounts_of(volume: &Volume) -> Vec<(u32, PathBuf)> {
    let number = number_of(&volume.letter());
    table().of(number).map(|mount| (mount.id, mount.target.clone())).collect()
}

/// Each call fails, says what covers and what ends that, and changes nothing.
#[track_caller]
fn all_refuse(volume: &Volume, calls: &[Call], over: &Path) {
    let before = mounts_of(volume);
    for call in calls {
        let message = volume.node.fails(call);
        has(&message, &["is covered by mount", &format!("umount {}", over.display())]);
        assert_eq!(mounts_of(volume), before, "{call:?}");
    }
}

/// What is mounted over kubelet's folders, or anywhere between them and the volume, as a person or
/// another program does it.
#[test]
fn a_volume_that_is_covered_at_any_height_is_neither_mounted_nor_unmounted() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let pod = volume.bring_to_pod();
    files::write_synced(&pod.join("data"), b"kept");
    let root = node.kubelet_root();
    let global = volume.global();
    let heights = |folder: &Path| -> Vec<PathBuf> {
        let above = folder.ancestors().skip(1).take_while(|above| above.starts_with(&root));
        above.map(Path::to_path_buf).collect()
    };
    for (folder, calls) in [(&global, at_global(&volume)), (&pod, at_pod(&volume))] {
        for over in heights(folder) {
            tmpfs(&over);
            all_refuse(&volume, &calls, &over);
            // As kubelet makes them again, for it finds none.
            make_folder(folder);
            all_refuse(&volume, &calls, &over);
            assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "nothing was written there");
            umount(&over);
        }
    }
    for call in [volume.wait(""), volume.stage(), volume.publish(POD)] {
        volume.node.must(call);
    }
    assert_eq!(files::read(pod.join("data")).unwrap(), b"kept");
    volume.ends();
    volume.must_be_sound();
}

/// The same with other things than a tmpfs, and with several on each other.
#[test]
fn whatever_covers_is_named() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let pod = volume.bring_to_pod();
    let (root, uid) = (node.kubelet_root(), node.kubelet_root().join("pods").join(POD));
    let empty = node.base().join("empty");
    for part in ["upper", "work", "lower"] {
        make_folder(&empty.join(part));
    }
    run("mount", &["--bind", text(&empty), text(&uid)]);
    all_refuse(&volume, &at_pod(&volume), &uid);
    // The upper one is what a look-up meets.
    tmpfs(&uid);
    assert!(node.fails(volume.unpublish(POD)).contains("tmpfs from stranger"));
    umount(&uid);
    umount(&uid);

    let beneath = node.base().join("beneath");
    tmpfs_with_parts(&beneath);
    let at = |part: &str| beneath.join(part).display().to_string();
    let options =
        format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    run("mount", &["-t", "overlay", "over", "-o", &options, text(&root)]);
    let message = node.fails(volume.unstage());
    has(&message, &["overlay from over"]);
    all_refuse(&volume, &at_global(&volume), &root);
    all_refuse(&volume, &at_pod(&volume), &root);
    umount(&root);
    umount(&beneath);

    // Another folder of the volume itself.
    make_folder(&pod.join("sub"));
    run("mount", &["--bind", text(&pod.join("sub")), text(&pod)]);
    has(&node.fails(volume.publish(POD)), &["is covered by mount"]);
    umount(&pod);
    fs::remove_dir(pod.join("sub")).unwrap();

    // A bind of kubelet's root onto itself, made without the mounts below.
    run("mount", &["--bind", text(&root), text(&root)]);
    all_refuse(&volume, &at_pod(&volume), &root);
    umount(&root);
    assert_eq!(layers_at(&pod), 1);
    volume.ends();
}

/// An overlay's upper folder cannot be on every file system.
fn tmpfs_with_parts(place: &Path) {
    make_folder(place);
    tmpfs(place);
    for part in ["lower", "upper", "work"] {
        make_folder(&place.join(part));
    }
}

/// What a program wrote into it is that program's.
#[test]
fn a_strangers_mount_on_the_volumes_own_is_never_taken_off() {
    needs!(mounts);
    let node = Node::new();
    node.configure("[guard]\nmode = \"off\"");
    let volume = Volume::create(&node, "ext4", "16M");
    let pod = volume.bring_to_pod();
    for (folder, calls) in [(volume.global(), at_global(&volume)), (pod, at_pod(&volume))] {
        tmpfs(&folder);
        files::write(folder.join("theirs"), "kept").unwrap();
        all_refuse(&volume, &calls, &folder);
        let said = node.verb(&["release", &volume.id]).unwrap_err();
        assert!(said.contains("is covered by mount"), "{said}");
        assert_eq!(files::read_to_string(folder.join("theirs")).unwrap(), "kept");
        umount(&folder);
        volume.bring_to_pod();
    }
    volume.ends();
}

#[track_caller]
fn is_refused(answer: &Answer, over: &Path) {
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    has(&answer.text, &["is covered by mount", &format!("umount {}", over.display())]);
}

#[test]
fn what_comes_over_it_during_a_mount_is_noticed() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    let root = node.kubelet_root();
    for folder in [volume.global(), volume.pod(POD)] {
        make_folder(&folder);
    }
    // Before it is attached, and after: the first is taken off again, by its descriptor.
    for (step, is_left) in [("mounts.attach", false), ("stage.mounted", true)] {
        is_refused(&interrupted_at(&node, volume.stage(), step, || tmpfs(&root)), &root);
        assert_eq!(mounts_of(&volume).len(), usize::from(is_left), "{step}");
        umount(&root);
        node.must(volume.stage());
        assert_eq!(mounts_of(&volume).len(), 1, "{step}");
        node.must(volume.unstage());
    }
    node.must(volume.stage());
    let over = root.join("pods").join(POD);
    for (step, is_left) in [("mounts.bind.attach", false), ("publish.bound", true)] {
        is_refused(&interrupted_at(&node, volume.publish(POD), step, || tmpfs(&over)), &over);
        assert_eq!(mounts_of(&volume).len(), 1 + usize::from(is_left), "{step}");
        umount(&over);
        node.must(volume.publish(POD));
        only_mount_at(&volume.pod(POD));
        node.must(volume.unpublish(POD));
    }
    volume.ends();
}

#[test]
fn what_comes_over_it_during_an_unmount_is_not_taken_off_in_its_place() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let pod = volume.bring_to_pod();
    for over in [pod.clone(), pod.parent().unwrap().to_path_buf(), node.kubelet_root()] {
        for step in ["unmount.guarded", "mounts.unmount"] {
            let answer = interrupted_at(&node, volume.unpublish(POD), step, || tmpfs(&over));
            is_refused(&answer, &over);
            assert_eq!(
                (layers_at(&pod), only_seen(&over)),
                (1 + usize::from(over == pod), "tmpfs".into())
            );
            umount(&over);
        }
    }
    // The flush and the unmount are of one mount, whatever comes between.
    node.must(volume.unpublish(POD));
    fs::remove_dir(&pod).unwrap();
    let answer =
        interrupted_at(&node, volume.unstage(), "mounts.flush", || tmpfs(&volume.global()));
    is_refused(&answer, &volume.global());
    umount(&volume.global());
    volume.ends();
}

/// The cloud takes its time: what covers the folder by then is not what grows.
#[test]
fn what_comes_over_it_during_an_expansion_does_not_grow_in_its_place() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("xfs", "320M");
    let pod = volume.bring_to_pod();
    // Another's file system on a disk that has room for it to grow.
    let image = node.base().join("stranger.img");
    File::create(&image).unwrap().set_len(320 << 20).unwrap();
    run("mkfs.xfs", &["-q", text(&image)]);
    File::options().write(true).open(&image).unwrap().set_len(400 << 20).unwrap();
    let size = |place: &Path| nix::sys::statvfs::statvfs(place).unwrap().blocks();
    let mut before = 0;
    let answer = interrupted_at(&node, volume.expand(400 << 20), "expand.sized", || {
        run("mount", &["-o", "loop", text(&image), text(&pod)]);
        before = size(&pod);
    });
    assert_eq!(size(&pod), before, "the stranger's grew: {}", answer.text);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    umount(&pod);
    node.must(volume.expand(400 << 20));
    assert!(size(&pod) > before);
    volume.ends();
    volume.must_be_sound();
}

/// The type of what a look-up meets there.
fn only_seen(place: &Path) -> String {
    run("findmnt", &["-n", "-o", "FSTYPE", "--target", text(place)])
        .lines()
        .last()
        .unwrap()
        .to_owned()
}

/// A life of a volume with every call of it made again.
#[track_caller]
fn lives(node: &Node) {
    let volume = Volume::create(node, "ext4", "16M");
    let pod = volume.bring_to_pod();
    for call in [volume.wait(""), volume.stage(), volume.publish(POD)] {
        node.must(call);
    }
    files::write_synced(&pod.join("data"), b"kept");
    has(&status(node), &["1 volume on node-a: 1 ok"]);
    volume.take_away();
}

/// The cover is there first: then what kubelet sees is on it, and nothing is hidden.
#[test]
fn file_systems_beneath_are_normal() {
    needs!(mounts);
    for at in ["", "pods", "plugins", "both"] {
        let node = Node::new();
        let root = node.kubelet_root();
        let places: Vec<PathBuf> = match at {
            "both" => vec![root.clone(), root.join("pods")],
            below => vec![root.join(below)],
        };
        for place in &places {
            make_folder(place);
            tmpfs(place);
        }
        lives(&node);
        for place in places.iter().rev() {
            umount(place);
        }
        nothing_is_left(&node, &[]);
    }
}

/// As kubelet in a container, `mount --rbind`, and systems with a shared root have it.
#[test]
fn copies_of_kubelets_folders_are_normal() {
    needs!(mounts);
    for onto_itself in [false, true] {
        for how in ["shared", "private"] {
            let node = Node::new();
            let (root, base) = (node.kubelet_root(), node.base());
            run("mount", &["--bind", text(&base), text(&base)]);
            run("mount", &[&format!("--make-{how}"), text(&base)]);
            let place = if onto_itself { root.clone() } else { base.join("copy") };
            make_folder(&place);
            run("mount", &["--rbind", text(&root), text(&place)]);
            lives(&node);
            umount(&place);
            umount(&base);
            nothing_is_left(&node, &[]);
        }
    }
}

/// A private copy onto itself hides the first mounts under their twins: they are used, and when
/// the twins are off the first ones are told.
#[test]
fn a_private_copy_onto_itself_hides_twins_which_are_told_at_the_end() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let pod = volume.bring_to_pod();
    let root = node.kubelet_root();
    run("mount", &["--rbind", text(&root), text(&root)]);
    for call in [volume.wait(""), volume.stage(), volume.publish(POD)] {
        node.must(call);
    }
    for (call, folder) in [(volume.unpublish(POD), &pod), (volume.unstage(), &volume.global())] {
        for _ in 0..2 {
            let message = node.fails(&call);
            has(&message, &["is covered by mount", &format!("umount {}", root.display())]);
            assert_eq!(layers_at(folder), 1, "the twin was taken off");
        }
    }
    umount(&root);
    volume.ends();
}

#[test]
fn a_root_behind_a_link_is_normal_until_the_link_leads_elsewhere() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let (root, data) = (node.kubelet_root(), node.own().join("data"));
    let leads_to = |place: &str| {
        let _ = fs::remove_file(&root);
        symlink(place, &root).unwrap();
    };
    fs::rename(&root, &data).unwrap();
    leads_to("data");
    volume.bring_to_pod();
    for call in [volume.wait(""), volume.stage(), volume.publish(POD)] {
        node.must(call);
    }
    make_folder(&node.own().join("other"));
    for elsewhere in ["other", "nowhere"] {
        leads_to(elsewhere);
        for call in [volume.unpublish(POD), volume.unstage()] {
            let message = node.fails(&call);
            has(&message, &["the volume is mounted at", text(&data), "umount"]);
        }
        assert_eq!(mounts_of(&volume).len(), 2);
    }
    fs::remove_file(&root).unwrap();
    for call in [volume.unpublish(POD), volume.unstage()] {
        node.fails(&call);
    }
    // The folder itself was moved away, and an empty one is in its place.
    fs::rename(&data, node.own().join("moved")).unwrap();
    make_folder(&data);
    leads_to("data");
    for call in [volume.unpublish(POD), volume.unstage()] {
        has(&node.fails(&call), &["the volume is mounted at", "moved"]);
    }
    fs::remove_dir(&data).unwrap();
    fs::rename(node.own().join("moved"), &data).unwrap();
    volume.ends();
}

#[test]
fn links_below_the_root_are_never_followed_by_a_tear_down() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let pod = volume.bring_to_pod();
    let (pods, moved) = (node.kubelet_root().join("pods"), node.kubelet_root().join("moved"));
    fs::rename(&pods, &moved).unwrap();
    symlink("moved", &pods).unwrap();
    for call in [volume.publish(POD), volume.unpublish(POD)] {
        assert!(node.fails(&call).contains("is a symbolic link"));
    }
    assert_eq!(mounts_of(&volume).len(), 2);
    fs::remove_file(&pods).unwrap();
    fs::rename(&moved, &pods).unwrap();
    only_mount_at(&pod);
    volume.ends();
}

/// A loop device with a file system of its own for kubelet's root.
fn own_disk(node: &Node, fs_type: &str, size: u64) -> PathBuf {
    let image = node.base().join("kubelet.img");
    with_files(|| File::create(&image).unwrap().set_len(size).unwrap());
    run(&format!("mkfs.{fs_type}"), &["-q", text(&image)]);
    let root = node.kubelet_root();
    run("mount", &["-o", "loop", text(&image), text(&root)]);
    root
}

/// `exists()` says no of what answers with an error.
#[test]
fn a_root_that_answers_with_an_error_is_not_taken_for_absent() {
    needs!(mounts);
    for (fs_type, size) in [("ext4", 32 << 20), ("xfs", 320 << 20)] {
        let node = Node::new();
        let root = own_disk(&node, fs_type, size);
        let volume = Volume::create(&node, "ext4", "16M");
        volume.bring_to_pod();
        let calls = [volume.unpublish(POD), volume.unstage()];
        with_files(|| {
            let root = File::open(&root).unwrap();
            incloud_disk::host::kernel::shutdown_file_system(&root).unwrap();
        });
        // The way there is still in the kernel's memory: it may be done. What is not, is not said.
        for (left, call) in calls.iter().enumerate().map(|(done, call)| (1 - done, call)) {
            let answer = node.call(call);
            let is_said = answer.json["status"] == "Success";
            let is_done = mounts_of(&volume).len() == left;
            assert_eq!(is_said, is_done, "{fs_type}: {}", answer.text);
            assert!(is_said, "{fs_type}: {}", answer.text);
        }
        // What was never looked at cannot be told to be absent.
        let unknown = node.pod(OTHER_POD, &volume.pv);
        if fs::symlink_metadata(&unknown).is_err_and(|e| e.kind() != std::io::ErrorKind::NotFound) {
            let message = node.fails(["unmount", text(&unknown)]);
            has(&message, &["input/output error", "cannot be told: mend"]);
        } else {
            assert_eq!(fs_type, "ext4", "a dead xfs answers nothing");
        }
        node.must(volume.detach());
        umount(&root);
        nothing_is_left(&node, &[&volume]);
    }
}

fn status(node: &Node) -> String {
    node.verb(&["status"]).unwrap_or_else(|said| said)
}

#[test]
fn status_explain_and_doctor_say_covered_and_what_ends_it() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring_to_pod();
    let uid = node.kubelet_root().join("pods").join(POD);
    for over in [volume.pod(POD), uid, node.kubelet_root()] {
        tmpfs(&over);
        let end = format!("umount {}", over.display());
        has(&status(&node), &["1 covered", "is covered by mount", "tmpfs from stranger"]);
        // Long paths are broken into lines.
        for words in [&["explain", &volume.id][..], &["doctor"]] {
            let text = node.verb(words).unwrap_or_else(|said| said);
            let text: String = text.split_whitespace().collect();
            assert!(text.contains("covered") && text.contains(&end.replace(' ', "")), "{text}");
        }
        umount(&over);
    }
    has(&status(&node), &["1 ok"]);
    volume.ends();
}

/// A part of the volume at the place of the whole: "already" would let the pod write elsewhere.
#[test]
fn a_folder_of_the_volume_is_not_the_volume() {
    needs!(mounts);
    let node = Node::new();
    for fs_type in ["ext4", "btrfs"] {
        let volume = Volume::create(&node, fs_type, "256M");
        volume.bring();
        let (global, pod) = (volume.global(), volume.pod(POD));
        fs::create_dir(global.join("sub")).unwrap();
        make_folder(&pod);
        let bind = |from: &Path, to: &Path| {
            run("mount", &["--bind", from.to_str().unwrap(), to.to_str().unwrap()]);
        };
        bind(&global.join("sub"), &pod);
        let message = node.fails(volume.publish(POD));
        let end = format!("umount {}", pod.display());
        assert!(message.contains("the folder /sub of the volume") && message.contains(&end));
        run("umount", &[pod.to_str().unwrap()]);
        node.must(volume.publish(POD));
        assert_eq!(only_mount_at(&pod).root, Path::new("/"));
        if fs_type == "ext4" {
            run("umount", &[global.to_str().unwrap()]);
            bind(&pod.join("sub"), &global);
            for call in [volume.stage(), volume.publish(POD)] {
                let message = node.fails(call);
                assert!(message.contains("the folder /sub of the volume"), "{message}");
            }
            run("umount", &[global.to_str().unwrap()]);
            node.must(volume.stage());
        }
        volume.ends();
    }
}
