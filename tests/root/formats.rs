//! What is known of a volume decides whether its blank disk gets a file system: the local cloud's
//! notes, what a volume was made from, and its size.

use crate::checks::{layers_at, nothing_is_left};
use crate::crash::kill_at;
use crate::files;
use crate::support::Node;
use crate::volume::{Volume, make_folder};
use std::fs::{self, OpenOptions};

const SIZE: u64 = 64 << 20;

/// What the local cloud notes of the volume.
fn life_of(volume: &Volume) -> Option<String> {
    let text = files::read_to_string(volume.image().with_extension("json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    file["life"].as_str().map(str::to_owned)
}

/// The storage lost everything: the disk reads blank.
fn lose_all(volume: &Volume) {
    let image = OpenOptions::new().write(true).open(volume.image()).unwrap();
    let length = image.metadata().unwrap().len();
    image.set_len(0).and_then(|()| image.set_len(length)).unwrap();
}

#[track_caller]
fn is_blank(volume: &Volume) {
    assert!(files::read(volume.image()).unwrap().iter().all(|byte| *byte == 0), "written to");
}

#[test]
fn a_volume_that_had_data_is_formatted_by_no_node_that_forgot_it() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let other = node.neighbour("node-b");
    let there = volume.seen_from(&other);
    volume.bring();
    assert_eq!(life_of(&volume).as_deref(), Some("has data"));
    volume.take_away();
    lose_all(&volume);
    for seen in [&there, &volume] {
        fs::remove_dir_all(seen.node.own().join("state")).ok();
        seen.node.must(seen.attach());
        make_folder(&seen.global());
        let message = seen.node.fails(seen.stage());
        assert!(message.contains("the volume has data"), "{message}");
        assert!(message.contains(&format!("disk format {}", volume.id)), "{message}");
        assert_eq!(layers_at(&seen.global()), 0);
        is_blank(&volume);
        seen.node.must(seen.detach());
    }
    node.must(volume.attach());
    let said = node.verb(&["format", &volume.id, "--yes"]).unwrap();
    assert!(said.contains("against by its metadata in the cloud the volume has data"), "{said}");
    node.must(volume.stage());
    volume.ends();
    volume.must_be_sound();
}

#[test]
fn a_copy_of_a_volume_is_not_formatted_by_itself() {
    needs!(mounts);
    let node = Node::new();
    let source = Volume::create(&node, "ext4", "64M");
    source.bring();
    files::write_synced(&source.global().join("f"), b"copied");
    source.take_away();
    let copy = Volume::create(&node, "ext4", "64M");
    node.verb(&["local", "delete", &copy.id]).unwrap();
    node.verb(&["local", "create", &copy.id, "--from", &source.id]).unwrap();
    // What is there is mounted as ever.
    copy.bring();
    assert_eq!(files::read(copy.global().join("f")).unwrap(), b"copied");
    copy.take_away();
    node.verb(&["local", "delete", &copy.id]).unwrap();
    node.verb(&["local", "create", &copy.id, "--from", &source.id]).unwrap();
    lose_all(&copy);
    node.must(copy.attach());
    make_folder(&copy.global());
    let message = node.fails(copy.stage());
    assert!(message.contains(&format!("made the volume from volume {}", source.id)), "{message}");
    is_blank(&copy);
    let said = node.verb(&["format", &copy.id, "--yes"]).unwrap();
    assert!(said.contains("against the cloud made the volume from"), "{said}");
    node.must(copy.stage());
    copy.take_away();
    copy.must_be_sound();
    let busy = node.must(source.attach());
    let told = node.verb(&["local", "create", "another", "--from", &source.id]).unwrap_err();
    assert!(told.contains("is attached to node-a"), "{told}: {busy}");
    node.must(source.detach());
    nothing_is_left(&node, &[&copy, &source]);
}

#[test]
fn a_disk_of_another_size_is_formatted_by_a_person_alone() {
    needs!(mounts);
    for size in [SIZE - (2 << 20), SIZE + (2 << 20)] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        OpenOptions::new().write(true).open(volume.image()).unwrap().set_len(size).unwrap();
        node.must(volume.attach());
        make_folder(&volume.global());
        let words = format!("has {size} bytes, the volume has {SIZE} in the cloud");
        let message = node.fails(volume.stage());
        assert!(message.contains(&words) && message.contains("disk format"), "{message}");
        is_blank(&volume);
        let shown = node.verb(&["format", &volume.id]).unwrap();
        assert!(shown.contains(&format!("against {}", volume.letter())), "{shown}");
        assert!(shown.contains(&words) && shown.contains("Nothing was changed"), "{shown}");
        is_blank(&volume);
        node.verb(&["format", &volume.id, "--yes"]).unwrap();
        node.must(volume.stage());
        volume.ends();
        volume.must_be_sound();
    }
}

/// The cloud is told before the first byte is written; a format killed before that, or after the last, goes on.
#[test]
fn a_format_killed_before_or_after_mkfs_is_noted_and_goes_on() {
    needs!(mounts, seams);
    for step in ["stage.format.intent", "stage.format.made", "stage.format.done"] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        node.must(volume.attach());
        make_folder(&volume.global());
        kill_at(&node, &volume.stage(), step);
        assert_eq!(life_of(&volume).as_deref(), Some("format begun by node-a"), "{step}");
        node.must(volume.stage());
        assert_eq!(life_of(&volume).as_deref(), Some("has data"), "{step}");
        volume.ends();
        volume.must_be_sound();
    }
}

/// What a person overrides is overridden once.
#[test]
fn a_persons_killed_format_is_repeated_by_that_person() {
    needs!(mounts, seams);
    let node = Node::new();
    let source = Volume::create(&node, "ext4", "64M");
    let copy = Volume::create(&node, "ext4", "64M");
    node.verb(&["local", "delete", &copy.id]).unwrap();
    node.verb(&["local", "create", &copy.id, "--from", &source.id]).unwrap();
    node.must(copy.attach());
    make_folder(&copy.global());
    node.fails(copy.stage());
    let mut command = node.command(["format", &copy.id, "--yes"]);
    command.env("INCLOUD_DISK_SEAM", "format.wiped=kill");
    assert!(!crate::support::output_of(&mut command).status.success());
    let message = node.fails(copy.stage());
    assert!(message.contains(&format!("made the volume from volume {}", source.id)), "{message}");
    node.verb(&["format", &copy.id, "--yes"]).unwrap();
    node.must(copy.stage());
    copy.take_away();
    copy.must_be_sound();
    nothing_is_left(&node, &[&copy]);
}
