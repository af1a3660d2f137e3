//! `disk format`: what is there is shown first, and lost only by a person's deliberate word.

use crate::checks::{digest, only_mount_at};
use crate::files;
use crate::volume::{Volume, make_folder};

/// As a GPT and some RAIDs have a copy of their label at the end: no mkfs writes there.
const END: u64 = (320 << 20) - 512;

#[test]
fn a_disk_with_data_is_shown_and_then_formatted() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("xfs", "320M");
    files::write_at(&volume.image(), 0, b"LUKS\xba\xbe");
    files::write_at(&volume.image(), END, b"label");
    node.must(volume.attach());
    make_folder(&volume.global());
    let message = node.fails(volume.stage());
    assert!(message.contains(&format!("disk format {}", volume.id)), "{message}");

    let before = digest(&volume.image());
    let told = node.verb(&["format", &volume.id, "--fs-type", "xfs"]).unwrap();
    assert!(told.contains("LUKS") && told.contains("Nothing was changed"), "{told}");
    assert!(told.contains("--fs-type xfs --yes"), "{told}");
    assert_eq!(digest(&volume.image()), before);

    let told = node.verb(&["format", &volume.id, "--fs-type", "xfs", "--yes"]).unwrap();
    assert!(told.contains("LUKS") && told.contains("a new xfs"), "{told}");
    let log = node.log();
    assert!(log.contains("a person gives up what is on the disk") && log.contains("who="), "{log}");
    let end = files::read(volume.image()).unwrap().split_off(usize::try_from(END).unwrap());
    assert!(end.iter().all(|byte| *byte == 0), "its end is wiped too");
    node.must(volume.stage());
    assert_eq!(only_mount_at(&volume.global()).fs_type, "xfs");
    volume.ends();
    volume.must_be_sound();
}

#[test]
fn a_disk_in_use_is_not_formatted() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    files::write_synced(&volume.global().join("f"), b"kept");
    let told = node.verb(&["format", &volume.id, "--yes"]).unwrap_err();
    assert!(told.contains("in use"), "{told}");
    assert_eq!(files::read(volume.global().join("f")).unwrap(), b"kept");
    volume.take_away();
    let told = node.verb(&["format", &volume.id, "--yes"]).unwrap_err();
    assert!(told.contains("no disk of this machine"), "{told}");
    let told = node.verb(&["format", "unknown-volume"]).unwrap_err();
    assert!(told.contains("no volume goes by the name"), "{told}");
    volume.must_be_sound();
}
