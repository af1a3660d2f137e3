//! What the machine remembers is a cache: it can be lost at any time, and read by any version.

use crate::checks::{nothing_is_left, only_mount_at};
use crate::files;
use crate::letters::attach_under_another_letter;
use crate::volume::{Call, POD, Volume};
use serde_json::json;
use std::fs;

/// With a `waitforattach` of the mounted volume, as after a restart of kubelet.
fn life(volume: &Volume) -> Vec<Call> {
    let mut calls = volume.life().to_vec();
    calls.insert(5, volume.wait(""));
    calls
}

#[test]
fn state_and_run_folders_can_vanish_before_every_call() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let mut first_letter: Option<String> = None;
    for round in 0..2 {
        let taken =
            first_letter.as_ref().and_then(|letter| attach_under_another_letter(&volume, letter));
        for call in life(&volume) {
            for _ in 0..2 {
                for folder in ["state", "run"] {
                    let _ = fs::remove_dir_all(node.own().join(folder));
                }
                node.must(&call);
            }
            let file = volume.pod(POD).join("f");
            match (call[0].as_str(), round) {
                ("waitforattach", 0) => first_letter = Some(volume.letter()),
                ("mount", 0) => files::write_synced(&file, b"kept"),
                ("mount", _) => assert_eq!(files::read(&file).unwrap(), b"kept"),
                _ => {}
            }
        }
        drop(taken);
    }
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn a_record_of_a_newer_version_is_used_and_keeps_its_keys() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let newer = json!({
        "format": 7, "volume": volume.id, "was_mounted": false,
        "colour": {"deep": [1, {"x": null}]}, "healed_at": "2027-01-01",
    });
    fs::create_dir_all(volume.record_path().parent().unwrap()).unwrap();
    files::write(volume.record_path(), newer.to_string()).unwrap();
    for call in life(&volume) {
        node.must(&call);
        if call[0] == "detach" {
            break;
        }
        let record = volume.record();
        for key in ["format", "colour", "healed_at"] {
            assert_eq!(record[key], newer[key], "{key} after {}", call[0]);
        }
    }
    nothing_is_left(&node, &[&volume]);
}

/// Half a file, another format, another volume's: as if nothing was remembered.
#[test]
fn a_record_that_cannot_be_read_stops_nothing() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    for call in life(&volume) {
        for text in ["", "{\"format\": 1, \"vol", "[]", "{\"format\":1,\"volume\":\"another\"}"] {
            for path in [volume.record_path(), volume.boot_record_path()] {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                files::write(path, text).unwrap();
                node.must(&call);
            }
        }
    }
    nothing_is_left(&node, &[&volume]);
}

/// That it was mounted is what forbids to format the volume: a call that finds its work done by
/// one that was killed must not lose it.
#[test]
fn a_staging_that_was_lost_is_remembered_by_the_next_call() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    let (lasting, of_the_boot) = (volume.record_path(), volume.boot_record_path());
    for lost in [vec![&lasting], vec![&of_the_boot], vec![&lasting, &of_the_boot]] {
        for path in lost {
            fs::remove_file(path).unwrap();
        }
        node.must(volume.stage());
        assert_eq!(only_mount_at(&volume.global()).fs_type, "ext4");
        assert_eq!(volume.record()["was_mounted"], true);
        assert_eq!(volume.record()["staged"]["fs_type"], "ext4");
    }
    volume.ends();
}
