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

/// At fee4868 the idle volume of that id is detached, and the one that was mounted stays.
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
