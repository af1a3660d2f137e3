//! The whole life of a volume of the cloud, on two servers: real file systems and mounts, on disks
//! that are known by their serials alone.

use crate::files;
use crate::machine::Machine;
pub use crate::two_servers::{Life, PODS, nothing_is_left, random_bytes};

/// At 7ba4fed the detach said Success and left the volume attached: it was attached without a name, so the cloud
/// had its id, and mounted under a name that is another UUID.
#[test]
fn a_volume_that_was_attached_without_a_name_is_detached_by_its_mounts_name_from_anywhere() {
    needs!(mounts, seams);
    for is_elsewhere in [false, true] {
        let life = Life::new("ext4");
        let (here, there) = (&life.here, &life.there);
        here.attach_without_a_name();
        here.wait("");
        here.stage();
        let message = here.detach_fails();
        assert!(message.contains("is mounted at"), "{message}");
        here.unstage();
        assert_eq!(life.attached_to(), [here.server.as_str()]);
        let caller = if is_elsewhere { there } else { here };
        caller.detach_from(&here.node);
        assert!(life.attached_to().is_empty(), "{is_elsewhere}");
    }
}

#[test]
fn a_volume_lives_on_two_servers() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    let data = random_bytes(5 << 20);
    let digest = digest_of(&data);
    let has_data = |machine: &Machine, uid: &str| {
        let found = files::read(machine.pod(uid).join("data")).unwrap();
        assert_eq!(digest_of(&found), digest, "the data is another");
    };

    assert!(!here.is_attached(&here.node));
    let first = life.up(here, "ext4");
    files::write_synced(&here.pod(PODS[0]).join("data"), &data);
    has_data(here, PODS[1]);

    let message = there.attach_fails();
    assert!(message.contains("Multi-Attach") && message.contains(&here.server), "{message}");
    assert_eq!(life.attached_to(), [here.server.as_str()]);
    assert_eq!(there.shown.name_of(&life.volume), None, "no disk came to the second server");
    assert!(there.is_attached(&here.node) && !there.is_attached(&there.node));
    life.down(here);

    // On the second server, and back again; each time the disk has another letter.
    let second = life.up(there, "ext4");
    has_data(there, PODS[0]);
    life.down(there);
    let third = life.up(here, "ext4");
    assert!(first != second && second != third, "{first}, {second}, {third}");
    has_data(here, PODS[1]);

    life.down(here);
    delete(&life);
    nothing_is_left(&life);
}

/// The volume is deleted, as its claim is deleted: nothing may hold it back.
#[track_caller]
fn delete(life: &Life) {
    let mut world = life.cloud.world();
    let volume = world.volume_mut("data");
    assert_eq!((volume.status.as_str(), volume.attachments.len()), ("available", 0));
    let keys: Vec<_> = volume.metadata.keys().collect();
    assert_eq!(keys, ["incloud-disk-life", "incloud-disk-tenure"]);
    world.storage.volumes.clear();
    drop(world);
    assert!(!life.here.is_attached(&life.here.node));
    life.here.detach();
    let message = life.here.attach_fails();
    assert!(message.contains("does not exist"), "{message}");
}

fn digest_of(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().to_vec()
}
