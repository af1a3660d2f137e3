//! A `PersistentVolume` that is called like a volume, but has another one's `volumeID`, mounted by the
//! predecessor: what is mounted tells which volume it is.

use crate::checks::nothing_is_left;
use crate::holders::run;
use crate::support::Node;
use crate::volume::{Volume, make_folder};
use serde_json::Value;
use std::fs;

const NAME: &str = "6f1c2d3e-4a5b-4c6d-8e7f-00000000000b";

/// What the cloud knows of a volume.
fn known(node: &Node, id: &str) -> Value {
    let path = node.base().join(format!("cloud/volumes/{id}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn is_attached(node: &Node, id: &str) -> bool {
    known(node, id)["attachments"].get(&node.name).is_some()
}

/// As the predecessor left it: attached, mounted by its letter, and recorded nowhere.
fn mounted_by_the_predecessor(node: &Node, idle: &str) -> Volume {
    let volume = Volume::create(node, "ext4", "64M");
    volume.bring();
    node.must(volume.unstage());
    node.create(idle, "1M");
    node.must(["attach", &crate::support::options(idle, "pv-idle", ""), &node.name]);
    for id in [&volume.id, idle] {
        let mut file = known(node, id);
        for noted in ["recorded_name", "life", "tenure"] {
            file.as_object_mut().unwrap().remove(noted);
        }
        fs::write(node.base().join(format!("cloud/volumes/{id}.json")), file.to_string()).unwrap();
    }
    fs::remove_dir_all(node.own().join("state")).unwrap();
    make_folder(&node.global(NAME));
    let device = format!("/dev/{}", volume.letter());
    run("mount", &[&device, node.global(NAME).to_str().unwrap()]);
    volume
}

#[test]
fn the_volume_that_was_mounted_is_the_one_that_is_detached() {
    needs!(mounts);
    let node = Node::new();
    let volume = mounted_by_the_predecessor(&node, "idle-1");
    let folder = node.global(NAME);
    node.must(["unmountdevice", folder.to_str().unwrap()]);
    // The controller-manager has no memory of this machine's.
    let _ = fs::remove_dir_all(node.own().join("state"));
    node.must(["detach", NAME, &node.name]);
    assert!(!is_attached(&node, &volume.id) && is_attached(&node, "idle-1"));
    node.must(["detach", "id:idle-1"]);
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn an_idle_volume_of_that_id_is_left_alone() {
    needs!(mounts);
    let node = Node::new();
    let volume = mounted_by_the_predecessor(&node, NAME);
    // In doubt neither, while the folder is still mounted too.
    let message = node.fails(["detach", NAME]);
    assert!(message.contains(&volume.id) && message.contains("id:"), "{message}");
    node.must(["unmountdevice", node.global(NAME).to_str().unwrap()]);
    let message = node.fails(["detach", NAME]);
    assert!(message.contains(&volume.id), "{message}");
    assert!(is_attached(&node, NAME) && is_attached(&node, &volume.id));
    node.must(["detach", &format!("id:{}", volume.id)]);
    assert!(is_attached(&node, NAME) && !is_attached(&node, &volume.id));
    node.must(["detach", NAME]);
    assert!(!is_attached(&node, NAME));
    nothing_is_left(&node, &[&volume]);
}

fn without_a_name(id: &str) -> String {
    crate::support::options(id, "", "ext4").replace(",\"kubernetes.io/pvOrVolumeName\":\"\"", "")
}

/// Attached under one name, or under none, and mounted under another one.
fn mounted_as(node: &Node, attached: Option<&str>, name: &str) -> Volume {
    let mut volume = Volume::create(node, "ext4", "64M");
    let options = match attached {
        Some(first) => crate::support::options(&volume.id, first, "ext4"),
        None => without_a_name(&volume.id),
    };
    node.must(["attach", &options, &node.name]);
    name.clone_into(&mut volume.pv);
    make_folder(&volume.global());
    node.must(volume.stage());
    volume
}

#[test]
fn a_volume_that_was_attached_without_a_name_is_detached_by_the_one_it_was_mounted_under() {
    needs!(mounts);
    for name in [NAME, "pv-other"] {
        for is_elsewhere in [false, true] {
            let node = Node::new();
            let replica = node.neighbour("replica");
            let bystander = Volume::create(&node, "ext4", "64M");
            node.must(bystander.attach());
            let volume = mounted_as(&node, None, name);
            let caller = if is_elsewhere { &replica } else { &node };
            if !is_elsewhere {
                let message = node.fails(["detach", name, &node.name]);
                assert!(message.contains("is mounted at"), "{message}");
            }
            assert!(is_attached(&node, &volume.id));
            node.must(volume.unstage());
            caller.must(["detach", name, &node.name]);
            assert!(!is_attached(&node, &volume.id), "{name}");
            assert!(is_attached(&node, &bystander.id), "{name}");
            caller.must(["detach", name, &node.name]);
            node.must(bystander.detach());
            fs::remove_dir(volume.global()).unwrap();
            // The local cloud of another node leaves this one's loop device to the test.
            if !is_elsewhere {
                nothing_is_left(&node, &[&volume, &bystander]);
            }
        }
    }
}

/// The cloud has the name of the attach, this machine the one of the mount: neither is chosen.
#[test]
fn two_names_of_one_volume_are_refused_until_a_person_says_which_is_meant() {
    needs!(mounts);
    for name in [NAME, "pv-other"] {
        let node = Node::new();
        let volume = mounted_as(&node, Some("pv-first"), name);
        let message = node.fails(["detach", name, &node.name]);
        assert!(message.contains("is mounted at"), "{message}");
        node.must(volume.unstage());
        let message = node.fails(["detach", name, &node.name]);
        for words in [&volume.id, "pv-first", "it may mean", "disk detach id:"] {
            assert!(message.contains(words), "{words}: {message}");
        }
        assert!(is_attached(&node, &volume.id));
        node.must(["detach", &format!("id:{}", volume.id), &node.name, name]);
        assert!(!is_attached(&node, &volume.id));
        node.must(["detach", name, &node.name]);
        fs::remove_dir(volume.global()).unwrap();
        nothing_is_left(&node, &[&volume]);
    }
}

/// A `PersistentVolume` that replaced another one of the same volume: the old name is over, here and in the cloud.
#[test]
fn a_name_that_another_one_replaced_detaches_nothing() {
    needs!(mounts);
    let node = Node::new();
    let volume = mounted_as(&node, Some("pv-old"), "pv-old");
    node.must(volume.unstage());
    node.must(["attach", &crate::support::options(&volume.id, "pv-new", "ext4"), &node.name]);
    node.must(["detach", "pv-old", &node.name]);
    assert!(is_attached(&node, &volume.id), "pv-new has it");
    node.must(["detach", "pv-new", &node.name]);
    assert!(!is_attached(&node, &volume.id));
}

/// The name is the id of another volume, which is attached too; or how one begins.
#[test]
fn a_name_that_is_another_volumes_id_or_its_beginning_detaches_no_other() {
    needs!(mounts);
    let node = Node::new();
    let other = Volume::create(&node, "ext4", "64M");
    node.must(["attach", &without_a_name(&other.id), &node.name]);
    let volume = mounted_as(&node, None, &other.id);
    let message = node.fails(["detach", &other.id, &node.name]);
    assert!(message.contains(&volume.id) && message.contains(&other.id), "{message}");
    node.must(volume.unstage());
    let message = node.fails(["detach", &other.id, &node.name]);
    assert!(message.contains(&volume.id) && message.contains(&other.id), "{message}");
    assert!(is_attached(&node, &volume.id) && is_attached(&node, &other.id));
    node.must(["detach", &format!("id:{}", volume.id), &node.name]);
    assert!(!is_attached(&node, &volume.id) && is_attached(&node, &other.id));

    let volume = mounted_as(&node, None, &other.id[..20]);
    node.must(volume.unstage());
    node.must(["detach", &other.id[..20], &node.name]);
    assert!(!is_attached(&node, &volume.id) && is_attached(&node, &other.id));
    node.must(["detach", &format!("id:{}", other.id), &node.name]);
}

/// The volume that the index has for the name is gone: nothing is to be done, and nothing else is touched.
#[test]
fn a_name_of_a_deleted_volume_detaches_nothing() {
    needs!(mounts);
    let node = Node::new();
    let bystander = Volume::create(&node, "ext4", "64M");
    node.must(bystander.attach());
    let volume = mounted_as(&node, None, NAME);
    node.must(volume.unstage());
    node.must(["detach", &format!("id:{}", volume.id), &node.name]);
    node.verb(&["local", "delete", &volume.id]).unwrap();
    let link = node.own().join("state/names").join(NAME);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&volume.id, &link).unwrap();
    node.must(["detach", NAME, &node.name]);
    assert!(is_attached(&node, &bystander.id));
    node.must(bystander.detach());
}
