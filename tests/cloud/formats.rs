//! What the cloud knows of a volume decides too whether its blank disk gets a file system.

use crate::life::{Life, PODS};
use crate::machine::Machine;
use crate::scene::{PV, configure};
use crate::server::Fault;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

const MIB: i64 = 1 << 20;

const KEY: &str = "incloud-disk-life";
const METADATA: &str = "/volumes/*/metadata";

fn life_of(life: &Life) -> Option<String> {
    let world = life.cloud.world();
    let volume = world.storage.volume(&life.volume).unwrap();
    volume.metadata.get(KEY).and_then(Value::as_str).map(str::to_owned)
}

/// The disk reads blank: a storage that lost what it had, or shows another image.
fn lose_all(life: &Life) {
    let image = OpenOptions::new().write(true).open(life.plug.image(&life.volume)).unwrap();
    let length = image.metadata().unwrap().len();
    image.set_len(0).and_then(|()| image.set_len(length)).unwrap();
}

#[track_caller]
fn down(machine: &Machine) {
    machine.unpublish(PODS[0]);
    machine.unpublish(PODS[1]);
    machine.unstage();
    machine.detach();
}

#[track_caller]
fn is_blank(life: &Life) {
    // The image is sparse: what was never written takes no block.
    let image = fs::metadata(life.plug.image(&life.volume)).unwrap();
    assert_eq!(image.blocks(), 0, "the disk was written to");
}

#[test]
fn what_was_mounted_once_is_formatted_on_no_node() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    life.up(here, "ext4");
    assert_eq!(life_of(&life).as_deref(), Some("has data"));
    down(here);
    assert_eq!(life_of(&life).as_deref(), Some("has data"), "it outlives the mark");
    lose_all(&life);
    // Another node; and the same one, which remembers nothing.
    for machine in [there, here] {
        fs::remove_dir_all(machine.node.own().join("state")).ok();
        machine.attach();
        let message = machine.stage_fails();
        assert!(message.contains("the volume has data"), "{message}");
        assert!(message.contains(&format!("disk format {}", life.volume)), "{message}");
        let page = machine.look(&["explain", PV]);
        assert!(page.contains("noted        has data"), "{page}");
        assert!(page.contains("it stays blank: by its metadata"), "{page}");
        is_blank(&life);
        if machine.node.name == there.node.name {
            machine.detach();
        }
    }
    // A person may, and reads what is overridden.
    let (_, shown) = here.verb(&["format", PV]);
    assert!(shown.contains("against by its metadata in the cloud the volume has data"), "{shown}");
    let (done, said) = here.verb(&["format", PV, "--yes"]);
    assert!(done && said.contains("the volume has data"), "{said}");
    assert!(here.node.log().contains("overridden by a person"));
    assert_eq!(life_of(&life).as_deref(), Some("has data"), "also before the first mount");
    here.stage();
    here.unstage();
    here.detach();
}

/// Neither switch of the guard is about formats.
#[test]
fn the_note_is_left_without_the_guard_too() {
    needs!(mounts, seams);
    for without in ["guard.mode = \"off\"", "guard.remote = false"] {
        let life = Life::new("ext4");
        let here = &life.here;
        configure(&here.node, &life.cloud, without);
        here.bring_disk();
        life.cloud.reset_counters();
        here.stage();
        assert_eq!(life_of(&life).as_deref(), Some("has data"), "{without}");
        let posts = life.cloud.counters().route("POST volume/volumes/{volume}/metadata");
        assert_eq!(posts, 2, "begun, and has data: not again by the second call");
        here.unstage();
        here.detach();
        lose_all(&life);
        life.there.attach();
        let message = life.there.stage_fails();
        assert!(message.contains("the volume has data"), "{message}");
        life.there.detach();
    }
}

#[test]
fn what_the_cloud_made_from_something_is_not_formatted_by_itself() {
    needs!(mounts, seams);
    let life = Life::new("xfs");
    let here = &life.here;
    here.attach();
    let origins = [
        ("snapshot 5f0e", json!(["5f0e", null, null, false, null])),
        ("volume 77aa", json!([null, "77aa", null, false, null])),
        ("image c0de", json!([null, null, "c0de", true, null])),
        ("something bootable", json!([null, null, null, true, null])),
        ("backup b0b0", json!([null, null, null, false, "b0b0"])),
    ];
    for (words, origin) in origins {
        {
            let mut world = life.cloud.world();
            let volume = world.volume_mut("data");
            let text = |at: usize| origin[at].as_str().map(str::to_owned);
            (volume.snapshot, volume.source) = (text(0), text(1));
            volume.image.clear();
            volume.image.extend(text(2).map(|id| ("image_id".to_owned(), Value::from(id))));
            volume.bootable = origin[3] == true;
            volume.metadata.remove("src_backup_id");
            volume.metadata.extend(text(4).map(|id| ("src_backup_id".to_owned(), Value::from(id))));
        }
        let message = here.stage_fails();
        assert!(message.contains(&format!("made the volume from {words}")), "{message}");
        assert!(message.contains("disk format"), "{message}");
        is_blank(&life);
        assert_eq!(life_of(&life), None, "nothing is begun");
        let page = here.look(&["explain", PV]);
        assert!(page.contains(&format!("made from    {words}")), "{page}");
    }
    let (done, said) = here.verb(&["format", PV, "--fs-type", "xfs", "--yes"]);
    assert!(done && said.contains("made the volume from backup b0b0"), "{said}");
    here.stage();
    here.unstage();
    here.detach();
}

#[test]
fn an_encrypted_volumes_disk_may_be_smaller() {
    needs!(mounts, seams);
    // By how much, whether the volume is encrypted, and whether it is formatted by itself.
    let cases = [
        (-2 * MIB, true, true),
        (-16 * MIB, true, true),
        (-17 * MIB, true, false),
        (-2 * MIB, false, false),
        (2 * MIB, true, false),
        (2 * MIB, false, false),
    ];
    for (larger, encrypted, by_itself) in cases {
        let life = Life::new("ext4");
        let here = &life.here;
        life.plug.larger_by.store(larger, Ordering::Relaxed);
        life.cloud.world().volume_mut("data").encrypted = encrypted;
        here.attach();
        if by_itself {
            here.stage();
        } else {
            let message = here.stage_fails();
            let size = (1_i64 << 30) + larger;
            assert!(message.contains(&format!("has {size} bytes, the volume")), "{message}");
            assert!(message.contains("1073741824 in the cloud"), "{message}");
            is_blank(&life);
            let (_, shown) = here.verb(&["format", PV]);
            assert!(shown.contains(&format!("has {size} bytes, the volume")), "{shown}");
            let (done, said) = here.verb(&["format", PV, "--yes"]);
            assert!(done, "{said}");
            here.stage();
        }
        here.unstage();
        here.detach();
    }
}

#[test]
fn another_servers_unfinished_format_is_taken_over_once_it_is_detached() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    let begun = format!("format begun by {}", there.server);
    {
        let mut world = life.cloud.world();
        let volume = world.volume_mut("data");
        volume.multiattach = true;
        volume.metadata.insert(KEY.to_owned(), Value::from(begun.clone()));
    }
    here.attach();
    // Both have it: the other one may be at it.
    let other = there.server.clone();
    life.cloud.world().storage_lists("data", &other, "attached");
    let message = here.stage_fails();
    assert!(message.contains(&format!("attached to server {other} too")), "{message}");
    assert!(message.contains(&format!("disk detach {} {other}", life.volume)), "{message}");
    let (done, said) = here.verb(&["format", PV, "--yes"]);
    assert!(!done && said.contains("attached to server"), "{said}");
    is_blank(&life);
    assert_eq!(life_of(&life), Some(begun));
    let mut world = life.cloud.world();
    world.volume_mut("data").attachments.retain(|one| one.server != other);
    drop(world);
    here.stage();
    assert_eq!(life_of(&life).as_deref(), Some("has data"));
    here.unstage();
    here.detach();
}

#[test]
fn words_that_are_not_known_are_not_taken_for_blank() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    here.attach();
    for (key, value, words) in [
        (KEY, "hat Daten", "\"hat Daten\""),
        ("incloud-disk-mounted-on", "5a5a", "is mounted on 5a5a"),
    ] {
        let mut world = life.cloud.world();
        world.volume_mut("data").metadata.insert(key.to_owned(), Value::from(value));
        drop(world);
        let message = here.stage_fails();
        assert!(message.contains(words), "{message}");
        life.cloud.world().volume_mut("data").metadata.remove(key);
        is_blank(&life);
    }
    here.detach();
}

/// Without notes the other proofs decide; a cloud that only fails is waited for.
#[test]
fn a_cloud_that_allows_no_notes_is_told_by_doctor() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    here.attach();
    life.cloud.fault(Fault::on("POST", METADATA).proxy(400));
    let message = here.stage_fails();
    assert!(message.contains("before the cloud has a note"), "{message}");
    is_blank(&life);
    life.cloud.fault(Fault::on("POST", METADATA).always().proxy(403));
    here.stage();
    assert_eq!(life_of(&life), None);
    assert!(here.node.log().contains("allows no notes"), "{}", here.node.log());
    let doctor: Value = serde_json::from_str(&here.look(&["doctor", "--json"])).unwrap();
    let findings = doctor["findings"].as_array().unwrap();
    let notes = findings.iter().find(|one| one["check"] == "notes").expect("a finding");
    assert_eq!(notes["level"], "warning");
    assert!(notes["found"].as_str().unwrap().contains("403"), "{notes}");
    // Once it is allowed, the unmount makes up for it.
    life.cloud.world().faults.clear();
    here.unstage();
    here.stage();
    assert_eq!(life_of(&life).as_deref(), Some("has data"));
    let doctor: Value = serde_json::from_str(&here.look(&["doctor", "--json"])).unwrap();
    let findings = doctor["findings"].as_array().unwrap();
    assert!(findings.iter().all(|one| one["check"] != "notes"), "{doctor:#}");
    here.unstage();
    here.detach();
}
