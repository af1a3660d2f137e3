//! Volumes that the predecessor mounted: by a letter, the disk itself at both of kubelet's folders,
//! and nothing of it written down.

use crate::checks::{number_of, the_dead_disk_is_let_go};
use crate::files;
use crate::heal::{goes_on, pull, still_fails};
use crate::holders::run;
use crate::scene::Scene;
use crate::support::Node;
use crate::support::pods::{Container, Naming, Pod};
use crate::support::tracer::{self, Fate};
use crate::volume::{Volume, make_folder};
use std::fs;
use std::time::Duration;

/// The predecessor's life of a volume: made by hand, attached, formatted and mounted by its letter,
/// and in a container that writes.
fn mounted_by_the_predecessor(naming: Naming, fs_type: &'static str) -> Scene {
    let (node, pod) = (Node::new(), Pod::new(naming));
    let volume = Volume::create(&node, fs_type, if fs_type == "xfs" { "320M" } else { "64M" });
    node.must(volume.attach());
    let device = format!("/dev/{}", volume.letter());
    run(&format!("mkfs.{fs_type}"), &["-q", &device]);
    mount_by_letter(&volume, &pod);
    // It kept no records.
    forget(&node);
    let mut container = pod.container_with(&volume.pod(pod.uid()));
    container.write("/data/log", Duration::from_millis(2));
    container.must_write_on(5);
    Scene { node, volume, pod, container }
}

fn mount_by_letter(volume: &Volume, pod: &Pod) {
    let device = format!("/dev/{}", volume.letter());
    for folder in [volume.global(), volume.pod(pod.uid())] {
        make_folder(&folder);
        // xfs refuses a second one of the same id, also beside its dead self.
        let options = if volume.fs_type == "xfs" { "nouuid" } else { "defaults" };
        run("mount", &["-o", options, &device, folder.to_str().unwrap()]);
    }
}

/// Nothing is remembered of any volume.
pub fn forget(node: &Node) {
    for folder in ["state", "run"] {
        let _ = fs::remove_dir_all(node.own().join(folder));
    }
}

/// What the superblock says, 0x68 bytes into it.
fn uuid_of_ext(volume: &Volume) -> String {
    let head: [u8; 0x478] = files::head(&volume.image());
    let number = u128::from_be_bytes(*head[0x468..].first_chunk().unwrap());
    let mut uuid = format!("{number:032x}");
    for place in [20, 16, 12, 8] {
        uuid.insert(place, '-');
    }
    uuid
}

/// The whole end of a volume, as kubelet brings it about.
#[track_caller]
fn ends(volume: &Volume, pod: &Pod, container: Container) {
    let node = &volume.node;
    container.die();
    node.must(volume.unpublish(pod.uid()));
    fs::remove_dir(volume.pod(pod.uid())).unwrap();
    volume.ends();
    volume.must_be_sound();
}

#[test]
fn a_mount_whose_disk_lives_is_adopted_guarded_and_unmounted() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } =
        mounted_by_the_predecessor(Naming::Systemd, "ext4");
    // The incident's first half, before anything of ours has looked.
    let message = node.fails(volume.unstage());
    assert!(message.contains("still run"), "{message}");
    forget(&node);

    let said = node.verb(&["heal"]).unwrap();
    assert_eq!(said, format!("volume {}: adopted {}\n", volume.id, volume.global().display()));
    let record = volume.record();
    assert_eq!(record["name"], volume.pv.as_str(), "{record}");
    assert_eq!(record["staged"]["folder"], volume.global().to_str().unwrap());
    assert_eq!(record["staged"]["disk"]["number"], number_of(&volume.letter()).to_string());
    assert!(record["consumers"].get(pod.uid()).is_some(), "{record}");
    assert_eq!(node.verb(&["heal"]).unwrap(), "", "once");

    for call in [volume.unstage(), volume.detach()] {
        let message = node.fails(call);
        assert!(message.contains("still run") || message.contains("mounted at"), "{message}");
    }
    container.must_write_on(5);
    node.must(volume.unpublish(pod.uid()));
    let message = node.fails(volume.unstage());
    assert!(message.contains(pod.uid()), "{message}");
    container.must_write_on(5);
    ends(&volume, &pod, container);
}

#[test]
fn a_file_system_that_was_mounted_elsewhere_since_its_adoption_is_refused() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } =
        mounted_by_the_predecessor(Naming::Systemd, "ext4");
    node.verb(&["heal"]).unwrap();
    pull(&volume, &mut container);
    let (image, other) = (volume.image(), node.base().join("elsewhere"));
    make_folder(&other);
    run("mount", &["-o", "loop", image.to_str().unwrap(), other.to_str().unwrap()]);
    run("umount", &[other.to_str().unwrap()]);
    node.must(volume.attach());
    assert!(node.log().contains("it was mounted elsewhere since"), "{}", node.log());
    ends(&volume, &pod, container);
}

/// The folder's name is a wish. The predecessor went by letters, and may have mounted another disk.
#[test]
fn a_folder_that_holds_another_volumes_disk_is_not_adopted() {
    needs!(pods);
    let node = Node::new();
    let (wanted, other) =
        (Volume::create(&node, "ext4", "64M"), Volume::create(&node, "ext4", "64M"));
    for volume in [&wanted, &other] {
        // attach remembers which name is whose.
        node.must(volume.attach());
        run("mkfs.ext4", &["-q", &format!("/dev/{}", volume.letter())]);
    }
    make_folder(&wanted.global());
    let (device, folder) = (format!("/dev/{}", other.letter()), wanted.global());
    run("mount", &[&device, folder.to_str().unwrap()]);
    let said = node.verb(&["heal"]).unwrap_err();
    assert!(said.contains("not adopted") && said.contains(&wanted.id), "{said}");
    assert!(said.contains(&other.id), "{said}");
    assert!(wanted.record()["staged"].is_null() && other.record()["staged"].is_null());
    // Nor where the cloud alone knows whose name it is.
    forget(&node);
    let said = node.verb(&["heal"]).unwrap_err();
    assert!(said.contains("not adopted") && said.contains(&wanted.id), "{said}");
    run("umount", &[folder.to_str().unwrap()]);
    // A disk of no cloud is not a volume either.
    run("mount", &["-t", "tmpfs", "none", folder.to_str().unwrap()]);
    let said = node.verb(&["heal"]).unwrap_err();
    assert!(said.contains("not adopted"), "{said}");
    run("umount", &[folder.to_str().unwrap()]);
    node.must(wanted.detach());
    node.must(other.detach());
}

/// What is recorded of a mount is never adopted again: so it is recorded whole, or not at all.
#[test]
fn an_adoption_that_was_killed_is_finished_by_the_next_one() {
    needs!(pods, tracer);
    let Scene { node, volume, pod, container } =
        mounted_by_the_predecessor(Naming::Systemd, "ext4");
    for at in 0.. {
        forget(&node);
        let fate = Fate { killed_at: Some(at), ..Fate::default() };
        let traced = tracer::run(node.command(["heal"]), fate).unwrap();
        node.verb(&["heal"]).unwrap();
        let record = volume.record();
        let told = format!("killed at {at}, before {:?}: {record}", traced.changes.last());
        assert_eq!(record["name"], volume.pv.as_str(), "{told}");
        assert_eq!(record["staged"]["folder"], volume.global().to_str().unwrap(), "{told}");
        assert!(record["consumers"].get(pod.uid()).is_some(), "{told}");
        if !traced.is_killed {
            assert!(at > 5, "{:?}", traced.changes);
            break;
        }
    }
    ends(&volume, &pod, container);
}

/// Below a folder that something else was mounted over since there is a mount that no path leads to.
#[test]
fn of_two_mounts_at_a_folder_the_one_that_is_seen_is_adopted() {
    needs!(pods);
    let Scene { node, volume, pod, container } =
        mounted_by_the_predecessor(Naming::Cgroupfs, "ext4");
    let parent = volume.global().parent().unwrap().to_path_buf();
    run("mount", &["-t", "tmpfs", "none", parent.to_str().unwrap()]);
    make_folder(&volume.global());
    let device = format!("/dev/{}", volume.letter());
    run("mount", &[&device, volume.global().to_str().unwrap()]);
    let said = node.verb(&["heal"]).unwrap();
    assert_eq!(said, format!("volume {}: adopted {}\n", volume.id, volume.global().display()));
    for folder in [volume.global(), parent] {
        run("umount", &[folder.to_str().unwrap()]);
    }
    ends(&volume, &pod, container);
}

/// The incident under the predecessor, seen by this driver for the first time after it: the host
/// has the disk that came back, the container the dead one, and nothing is written down.
fn after_the_incident(fs_type: &'static str) -> Scene {
    let mut scene = mounted_by_the_predecessor(Naming::Systemd, fs_type);
    let Scene { node, volume, pod, container } = &mut scene;
    for folder in [volume.pod(pod.uid()), volume.global()] {
        run("umount", &[folder.to_str().unwrap()]);
    }
    pull(volume, container);
    node.must(volume.attach());
    mount_by_letter(volume, pod);
    forget(node);
    scene
}

#[test]
fn the_incident_is_healed_afterwards_by_a_persons_word() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = after_the_incident("ext4");
    // By itself the driver takes what it can prove: the mounts of the living disk.
    let said = node.verb(&["heal"]).unwrap();
    assert_eq!(said, format!("volume {}: adopted {}\n", volume.id, volume.global().display()));
    node.verb(&["heal", &volume.pv]).unwrap();
    still_fails(&mut container);

    let plan = node.verb(&["heal", "--adopt", "--dry-run", &volume.pv]).unwrap();
    assert!(plan.contains("would be adopted and healed, of dead disks: 7:"), "{plan}");
    assert!(plan.contains(&format!("To do it: disk heal --adopt {}", volume.id)), "{plan}");
    let told = node.verb(&["heal", &volume.pv]).unwrap();
    assert!(told.contains("no mount of it stands"), "a plan adopts nothing: {told}");
    still_fails(&mut container);
    let told = node.verb(&["history", &volume.pv]).unwrap();
    assert!(told.contains("what would be done"), "{told}");

    let said = node.verb(&["heal", "--adopt", &volume.pv]).unwrap();
    assert!(
        said.contains("adopted, of dead disks: ") && said.contains("switched     /data"),
        "{said}"
    );
    goes_on(&mut container, 5);
    the_dead_disk_is_let_go(&node);
    // And from here on without a word.
    pull(&volume, &mut container);
    node.must(volume.attach());
    goes_on(&mut container, 5);
    ends(&volume, &pod, container);
}

#[test]
fn what_cannot_be_proven_is_not_adopted_at_a_persons_word_either() {
    needs!(pods);
    // A dead xfs does not say whose it was.
    let Scene { node, volume, pod, container } = after_the_incident("xfs");
    let error = node.verb(&["heal", "--adopt", &volume.id]).unwrap_err();
    assert!(error.contains("restart the pods"), "{error}");
    ends(&volume, &pod, container);

    // Another volume has a copy of the same file system.
    let Scene { node, volume, pod, mut container } = after_the_incident("ext4");
    let another = Pod::new(Naming::Cgroupfs);
    let copy = Volume::create(&node, "ext4", "64M");
    let uuid = uuid_of_ext(&volume);
    node.must(copy.attach());
    let device = format!("/dev/{}", copy.letter());
    run("mkfs.ext4", &["-q", "-U", &uuid, &device]);
    mount_by_letter(&copy, &another);
    let error = node.verb(&["heal", "--adopt", &volume.id]).unwrap_err();
    assert!(error.contains("of the same id"), "{error}");
    still_fails(&mut container);
    for folder in [copy.pod(another.uid()), copy.global()] {
        run("umount", &[folder.to_str().unwrap()]);
    }
    node.must(copy.detach());
    container.die();
    for folder in [volume.pod(pod.uid()), volume.global()] {
        run("umount", &[folder.to_str().unwrap()]);
    }
    node.must(volume.detach());
}

/// kubelet calls no `mountdevice` for what it finds mounted.
#[test]
fn each_call_that_heals_adopts_while_the_disk_lives() {
    needs!(pods);
    for (by, fs_type) in [("attach", "ext4"), ("waitforattach", "ext4"), ("heal", "xfs")] {
        let Scene { node, volume, pod, mut container } =
            mounted_by_the_predecessor(Naming::Systemd, fs_type);
        match by {
            "attach" => drop(node.must(volume.attach())),
            "waitforattach" => drop(node.must(volume.wait(""))),
            _ => drop(node.verb(&["heal", &volume.id]).unwrap()),
        }
        let record = volume.record();
        assert_eq!(record["staged"]["folder"], volume.global().to_str().unwrap(), "{by}: {record}");
        assert!(record["consumers"].get(pod.uid()).is_some(), "{by}: {record}");
        pull(&volume, &mut container);
        node.must(volume.attach());
        goes_on(&mut container, 5);
        ends(&volume, &pod, container);
    }
}

/// The disk died before any call of this driver: then it takes a person's word, and that is what is told.
#[test]
fn a_heal_that_cannot_adopt_names_another_command_than_itself() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } =
        mounted_by_the_predecessor(Naming::Cgroupfs, "ext4");
    pull(&volume, &mut container);
    let said = node.verb(&["heal"]).unwrap_err();
    let command = format!("disk heal --adopt {}", volume.pv);
    assert!(said.contains("not adopted") && said.contains(&command), "{said}");
    node.must(volume.attach());
    // An attach does not know whose they are.
    still_fails(&mut container);
    let adopt = format!("$ disk heal --adopt {}\n", volume.id);
    let told = node.verb(&["heal", &volume.pv]).unwrap_err();
    assert!(
        told.contains(&adopt) && !told.contains(&format!("$ disk heal {}", volume.id)),
        "{told}"
    );
    assert!(node.verb(&["status"]).unwrap().contains(&adopt));
    node.verb(&["heal", "--adopt", &volume.id]).unwrap();
    goes_on(&mut container, 5);
    ends(&volume, &pod, container);
}
