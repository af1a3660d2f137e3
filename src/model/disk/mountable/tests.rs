use super::*;
use crate::disk::device::DeviceNumber;

const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
const GIB: u64 = 1 << 30;

fn disk(proof: Proof) -> Device {
    let number = DeviceNumber { major: 253, minor: 16 };
    Device {
        kernel_name: "vdb".to_owned(),
        number,
        size: 2 * GIB,
        read_only: false,
        sequence: None,
        proof,
        connection: None,
    }
}

/// What is decided of a file system of this kind, UUID and size, where the facts are these.
fn decided(
    (kind, uuid, size): (FsType, &str, u64),
    change: impl FnOnce(&mut MountableFacts<'_>, &mut Device),
) -> std::result::Result<bool, String> {
    let volume = VolumeId::parse(ID).unwrap();
    let mut found = FileSystem::of_a_test(uuid, size);
    found.kind = kind;
    let mut changed = disk(Proof::Whole);
    let mut facts = MountableFacts {
        volume: &volume,
        disk: &disk(Proof::Whole),
        wished: None,
        untouched: false,
        last: None,
        may_grow_mounted: true,
    };
    change(&mut facts, &mut changed);
    let facts = MountableFacts { disk: &changed, ..facts };
    match prepare(&facts, DiskHolds::FileSystem(found.clone())) {
        Ok(Preparation::Mount { found: mounted, grow }) => {
            assert_eq!(mounted, found);
            Ok(grow)
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.cause),
    }
}

fn refused(answer: &std::result::Result<bool, String>, words: &str) {
    let cause = answer.as_ref().unwrap_err();
    assert!(cause.contains(words), "{cause}");
}

const OURS: (FsType, &str, u64) = (FsType::Ext4, ID, 2 * GIB);

#[test]
fn only_what_is_blank_is_formatted_and_only_where_it_may_be_written_to() {
    let volume = VolumeId::parse(ID).unwrap();
    let disk = disk(Proof::Whole);
    let of = |holds, wished, untouched| {
        let facts = MountableFacts {
            volume: &volume,
            disk: &disk,
            wished,
            untouched,
            last: None,
            may_grow_mounted: true,
        };
        prepare(&facts, holds).map_err(|error| error.cause)
    };
    assert_eq!(of(DiskHolds::Blank, None, false), Ok(Preparation::Make(FsType::Ext4)));
    let xfs = Some(FsType::Xfs);
    assert_eq!(of(DiskHolds::Blank, xfs, false), Ok(Preparation::Make(FsType::Xfs)));
    let shared = of(DiskHolds::Blank, None, true).unwrap_err();
    assert_eq!(shared, "vdb is blank, and the volume is shared: it may not be written to");
    let foreign = of(DiskHolds::NotOurs("a LUKS header".to_owned()), xfs, false).unwrap_err();
    assert_eq!(foreign, "vdb holds a LUKS header");
}

#[test]
fn a_file_system_is_mounted_as_the_one_that_is_asked_for_or_not_at_all() {
    let of = |kind, wished| decided((kind, ID, 2 * GIB), |facts, _| facts.wished = wished);
    assert_eq!(of(FsType::Xfs, None), Ok(false));
    assert_eq!(of(FsType::Ext3, Some(FsType::Ext4)), Ok(false));
    refused(&of(FsType::Ext4, Some(FsType::Ext3)), "vdb holds ext4, but ext3 is asked for");
}

#[test]
fn a_cut_serial_with_another_volumes_file_system_is_refused() {
    let of = |uuid: &str, proof| decided((FsType::Ext4, uuid, GIB), |_, disk| disk.proof = proof);
    let rival = format!("{}999-90a1b2c3d4e5", &ID[..20]);
    refused(&of(&rival, Proof::Cut), "was made for volume 6f1c2d3e-4a5b-4c6d-8999");
    assert_eq!(of(&rival, Proof::Whole), Ok(false), "a copy of that volume");
    assert_eq!(of(ID, Proof::Cut), Ok(false));
    assert_eq!(of("11111111-4a5b-4c6d-8e7f-90a1b2c3d4e5", Proof::Cut), Ok(false), "made elsewhere");
}

#[test]
fn another_file_system_than_before_is_refused_while_the_volume_stays_attached() {
    let of = |last| decided(OURS, |facts, _| facts.last = last);
    assert_eq!(of(None), Ok(false));
    assert_eq!(of(Some(ID)), Ok(false));
    refused(&of(Some("another")), "its file system is 6f1c2d3e");
}

#[test]
fn a_file_system_larger_than_its_disk_is_refused_and_a_smaller_one_grows_where_only_now_it_can() {
    let of = |kind, size, change: &dyn Fn(&mut MountableFacts<'_>, &mut Device)| {
        decided((kind, ID, size), |facts, disk| {
            facts.may_grow_mounted = false;
            change(facts, disk);
        })
    };
    let as_it_is = |_: &mut MountableFacts<'_>, _: &mut Device| {};
    refused(
        &of(FsType::Ext4, 3 * GIB, &as_it_is),
        "needs 3221225472 bytes, the disk has 2147483648",
    );
    assert_eq!(of(FsType::Ext4, GIB, &as_it_is), Ok(true));
    assert_eq!(of(FsType::Ext3, GIB, &as_it_is), Ok(true));
    assert_eq!(of(FsType::Xfs, GIB, &as_it_is), Ok(false), "it grows only while it is mounted");
    assert_eq!(of(FsType::Ext4, 2 * GIB, &as_it_is), Ok(false));
    assert_eq!(of(FsType::Ext4, GIB, &|facts, _| facts.untouched = true), Ok(false));
    assert_eq!(of(FsType::Ext4, GIB, &|facts, _| facts.may_grow_mounted = true), Ok(false));
    assert_eq!(of(FsType::Ext4, GIB, &|_, disk| disk.read_only = true), Ok(false));
}

#[test]
fn file_systems_are_named_after_their_volume() {
    let uuid = "6F1C2D3E-4a5b-4c6d-8e7f-90a1b2c3d4e5";
    let id = |text| VolumeId::parse(text).unwrap();
    assert_eq!(file_system_uuid(&id(uuid)), uuid.to_lowercase());
    let (one, two) = (file_system_uuid(&id("vol-1")), file_system_uuid(&id("vol-2")));
    assert!(is_uuid(&one) && one != two);
    assert_eq!((&one[14..15], &one[19..20] >= "8"), ("8", true), "{one}");
    // A later version must find what an earlier one has made.
    for (name, uuid) in [
        ("vol-1", "e018a2b7-5283-894f-b081-6f5d90ac4be4"),
        ("disk.data_7", "69ad0e6c-154f-830b-936f-03fd43221d0c"),
        ("a", "d228cb69-6f1a-8caf-b891-2b704e4a8964"),
    ] {
        assert_eq!(file_system_uuid(&id(name)), uuid);
    }
}
