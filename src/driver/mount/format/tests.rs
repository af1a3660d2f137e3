use super::*;
use crate::Context;
use crate::fakes::{FakeCloud, FakeDevices, FakeFileSystems, MadeUp, moment};
use crate::lookup::find_disk;
use crate::model::disk::device::{DeviceNumber, Proof};
use crate::model::record::DiskRecord;
use crate::mount::format;

fn disk(sequence: Option<u64>) -> Device {
    Device {
        kernel_name: "vdb".to_owned(),
        number: DeviceNumber { major: 254, minor: 16 },
        size: 1 << 30,
        read_only: false,
        sequence,
        proof: Proof::Whole,
        connection: None,
    }
}

fn formatting(disk: &Device) -> Formatting {
    Formatting { disk: moment(disk), fs_type: "ext4".to_owned(), uuid: its_uuid() }
}

#[test]
fn only_the_same_plug_in_of_a_disk_has_an_interrupted_format() {
    let (here, other, uncounted) = (disk(Some(7)), disk(Some(8)), disk(None));
    let id = VolumeId::parse("v-1").unwrap();
    let of = |formatting| {
        let disk = DiskRecord { formatting, ..DiskRecord::default() };
        VolumeRecord { disk, ..VolumeRecord::new(id.clone()) }
    };
    let record = of(Some(formatting(&here)));
    assert_eq!(interrupted_on(&record, &moment(&here)), record.disk.formatting.as_ref());
    assert_eq!(interrupted_on(&record, &moment(&other)), None);
    assert_eq!(interrupted_on(&of(None), &moment(&here)), None);
    let record = of(Some(formatting(&uncounted)));
    assert_eq!(interrupted_on(&record, &moment(&uncounted)), None, "another disk may be there");
}

const SIZE: u64 = 1 << 30;

fn volume() -> Volume {
    Volume::new(VolumeId::parse("v-1").unwrap(), None)
}

fn ext4(uuid: &str, is_unfinished: bool) -> Contents {
    Contents::FileSystem(FileSystem { is_unfinished, ..FileSystem::of_a_test(uuid, SIZE) })
}

fn its_uuid() -> String {
    file_system_uuid(&volume().id)
}

/// A machine with the volume's disk, which holds this, and where a format was begun or was not.
fn with<T>(
    file_systems: FakeFileSystems,
    devices: FakeDevices,
    begun: bool,
    work: impl FnOnce(&Context<'_>, &Device) -> T,
) -> T {
    let cloud = FakeCloud::default().with("v-1", SIZE, &["here"]);
    let devices = devices.with("vdb", SIZE, "v-1");
    let disk = devices.disks[0].0.clone();
    let limit = Duration::from_millis(200);
    let made_up = MadeUp { file_systems, limit, ..MadeUp::with(&cloud, &devices) };
    made_up.drive(|cx| {
        if begun {
            let note = |record: &mut VolumeRecord| record.disk.formatting = Some(formatting(&disk));
            cx.store.records.update(&volume().id, note).unwrap();
        }
        work(cx, &disk)
    })
}

fn holds(now: Contents) -> FakeFileSystems {
    FakeFileSystems { holds: Some(now).into(), ..FakeFileSystems::default() }
}

/// What a disk is judged to hold.
fn found(now: Contents, begun: bool) -> String {
    let judged = |cx: &Context<'_>, disk: &Device| format::found_on(cx, &volume(), disk);
    match with(holds(now), FakeDevices::default(), begun, judged).unwrap() {
        DiskHolds::FileSystem(found) => format!("file system {}", found.uuid),
        DiskHolds::Blank => "blank".to_owned(),
        DiskHolds::NotOurs(what) => what,
    }
}

#[test]
fn nothing_but_a_blank_disk_is_formatted_whatever_was_begun_there() {
    let luks = || Contents::Foreign("a LUKS header".to_owned());
    let unknown = || Contents::Unknown("unknown data".to_owned());
    for begun in [false, true] {
        let since = "; mkfs.ext4 was interrupted on it, or something has written to it since";
        let told = |what: &str| what.to_owned() + if begun { since } else { "" };
        assert_eq!(found(Contents::Blank, begun), "blank");
        assert_eq!(found(luks(), begun), told("a LUKS header"));
        assert_eq!(found(unknown(), begun), told("unknown data"));
        assert_eq!(found(ext4("u", true), begun), told("an unfinished ext4 (UUID u)"));
        for uuid in [&its_uuid(), "other"] {
            assert_eq!(found(ext4(uuid, false), begun), format!("file system {uuid}"));
        }
    }
}

#[test]
fn a_disk_is_judged_when_the_mkfs_that_was_interrupted_there_is_gone() {
    for (begun, left) in [(false, 3), (true, 0)] {
        let devices = FakeDevices { used: 3.into(), ..FakeDevices::default() };
        with(holds(Contents::Blank), devices, begun, |cx, disk| {
            format::found_on(cx, &volume(), disk).unwrap();
            let mut tries = 0;
            while !find_disk::is_free(cx, disk).unwrap() {
                tries += 1;
            }
            assert_eq!(tries, left, "{begun}");
        });
    }
}

/// What comes of a format of a disk that holds this, and that then; and whether it is remembered as begun.
fn formatted(now: Contents, then: Option<Contents>, force: bool) -> (Result<FileSystem>, bool) {
    let file_systems = FakeFileSystems { then_holds: then.into(), ..holds(now) };
    with(file_systems, FakeDevices::default(), force, |cx, disk| {
        let (id, options) = (volume().id, MkfsOptions::default());
        let new = NewFileSystem { force, ..new_file_system(&id, FsType::Ext4, &options) };
        let came = format::format(cx, &volume(), disk, &new);
        (came, cx.store.records.load(&id).disk.formatting.is_some())
    })
}

#[test]
fn a_format_has_ended_when_its_file_system_is_there() {
    let made = || Some(ext4(&its_uuid(), false));
    let (came, is_begun) = formatted(Contents::Blank, made(), false);
    assert_eq!((came.unwrap().uuid, is_begun), (its_uuid(), false));
    for other in [
        ext4("other", false),
        ext4(&its_uuid(), true),
        Contents::Blank,
        Contents::Foreign("a partition table".to_owned()),
    ] {
        let (came, is_begun) = formatted(Contents::Blank, Some(other), false);
        let error = came.unwrap_err();
        assert!(error.cause.starts_with("mkfs.ext4 reported success, but vdb holds"), "{error}");
        assert!(is_begun, "the begin of the format is noted");
    }
    let (came, is_begun) = formatted(Contents::Blank, None, false);
    assert_eq!((came.unwrap_err().kind, is_begun), (Kind::Host, true));
}

#[test]
fn what_is_no_longer_blank_is_formatted_for_a_person_alone() {
    let data = || Contents::Unknown("unknown data".to_owned());
    let made = || Some(ext4(&its_uuid(), false));
    let (came, is_begun) = formatted(data(), made(), false);
    let error = came.unwrap_err();
    assert_eq!(error.cause, "vdb holds unknown data, which was not there a moment ago");
    assert!(!is_begun, "nothing was begun");
    let (came, is_begun) = formatted(data(), made(), true);
    assert_eq!((came.unwrap().uuid, is_begun), (its_uuid(), false));
}

#[test]
fn a_disk_that_a_killed_mkfs_has_open_still_is_waited_for_and_one_that_stays_in_use_is_refused() {
    let wait = |used: u32| {
        let devices = FakeDevices { used: used.into(), ..FakeDevices::default() };
        with(FakeFileSystems::default(), devices, false, format::wait_free)
    };
    assert_eq!(wait(0), Ok(()));
    assert_eq!(wait(2), Ok(()));
    let error = wait(u32::MAX).unwrap_err();
    assert_eq!(error.kind, Kind::Busy);
    assert!(error.cause.starts_with("vdb is in use already"), "{error}");
}
