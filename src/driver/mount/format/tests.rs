use super::*;
use crate::Driver;
use crate::fakes::{FakeCloud, FakeDevices, FakeFileSystems, MadeUp};
use crate::model::disk::device::{DeviceNumber, Proof};

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
    Formatting {
        disk: moment(disk),
        fs_type: "ext4".to_owned(),
        uuid: "of-the-plan".to_owned(),
        by_person: false,
        options: String::new(),
        seed: None,
        at: 0,
    }
}

#[test]
fn only_the_same_plugging_in_of_a_disk_has_an_unfinished_format() {
    let (here, other, uncounted) = (disk(Some(7)), disk(Some(8)), disk(None));
    let id = VolumeId::parse("v-1").unwrap();
    let of = |formatting| VolumeRecord { formatting, ..VolumeRecord::new(id.clone()) };
    let record = of(Some(formatting(&here)));
    assert_eq!(unfinished_on(&record, &here), record.formatting.as_ref());
    assert_eq!(unfinished_on(&record, &other), None);
    assert_eq!(unfinished_on(&of(None), &here), None);
    let record = of(Some(formatting(&uncounted)));
    assert_eq!(unfinished_on(&record, &uncounted), None, "another disk may be there");
}

#[test]
fn a_file_system_is_finished_unless_it_may_be_the_one_that_was_being_made() {
    let plan = formatting(&disk(Some(7)));
    for (maker, uuid, without, with) in [
        (Maker::Finished, "of-the-plan", true, true),
        (Maker::Finished, "other", true, true),
        (Maker::Unknown, "of-the-plan", true, false),
        (Maker::Unknown, "other", true, true),
        (Maker::Unfinished, "of-the-plan", false, false),
        (Maker::Unfinished, "other", false, false),
    ] {
        let found = FileSystem { maker, ..FileSystem::of_a_test(uuid, SIZE) };
        let is_finished = [None, Some(&plan)].map(|plan| finished(&found, plan));
        assert_eq!(is_finished, [without, with], "{maker:?}, {uuid}");
    }
}

const SIZE: u64 = 1 << 30;

fn volume() -> Volume {
    Volume::new(VolumeId::parse("v-1").unwrap(), None)
}

fn ext4(uuid: &str, maker: Maker) -> Contents {
    Contents::FileSystem(FileSystem { maker, ..FileSystem::of_a_test(uuid, SIZE) })
}

fn its_uuid() -> String {
    file_system_uuid(&volume().id)
}

/// A machine with the volume's disk, which holds this, and where a format was begun or was not.
fn with<T>(
    file_systems: FakeFileSystems,
    devices: FakeDevices,
    begun: Option<&str>,
    work: impl FnOnce(&Driver<'_>, &Device) -> T,
) -> T {
    let cloud = FakeCloud::default().with("v-1", SIZE, &["here"]);
    let devices = devices.with("vdb", SIZE, "v-1");
    let disk = devices.disks[0].0.clone();
    let limit = Duration::from_millis(200);
    let made_up = MadeUp { file_systems, limit, ..MadeUp::with(&cloud, &devices) };
    made_up.drive(|driver| {
        let uuid = its_uuid();
        if let Some(options) = begun {
            let plan = Formatting { uuid, options: options.to_owned(), ..formatting(&disk) };
            let note = |record: &mut VolumeRecord| record.formatting = Some(plan);
            driver.ports.records.update(&volume().id, note).unwrap();
        }
        work(driver, &disk)
    })
}

fn holds(now: Contents) -> FakeFileSystems {
    FakeFileSystems { holds: Some(now).into(), ..FakeFileSystems::default() }
}

/// What a disk is judged to hold where a format was begun, and something wrote to it since.
fn found(now: Contents, stranger: Option<&str>, begun: bool) -> String {
    let file_systems = FakeFileSystems { stranger: stranger.map(str::to_owned), ..holds(now) };
    let judged = |driver: &Driver<'_>, disk: &Device| driver.formatter.found_on(&volume(), disk);
    match with(file_systems, FakeDevices::default(), begun.then_some(""), judged).unwrap() {
        DiskHolds::FileSystem(found) => format!("file system {}", found.uuid),
        DiskHolds::Blank => "blank".to_owned(),
        DiskHolds::Unfinished(_) => "unfinished".to_owned(),
        DiskHolds::NotOurs(what) => what,
    }
}

#[test]
fn what_a_disk_holds_is_judged_by_what_was_begun_there_and_by_what_stands_beside_it() {
    let (of_us, other) = (its_uuid(), "other".to_owned());
    let foreign = || Contents::Foreign("a LUKS header".to_owned());
    let at = "unknown data at offset 7";
    let strange = Some(at);
    assert_eq!(found(Contents::Blank, None, false), "blank");
    assert_eq!(found(Contents::Blank, strange, true), "unfinished");
    assert_eq!(found(foreign(), None, false), "a LUKS header");
    assert_eq!(found(foreign(), None, true), "unfinished", "all of it is of that mkfs");
    assert_eq!(found(foreign(), strange, true), "a LUKS header");
    assert_eq!(found(Contents::Unknown("bytes".to_owned()), strange, true), at);
    let ext = |uuid: &String, maker| ext4(uuid, maker);
    let told = format!("file system {of_us}");
    assert_eq!(found(ext(&of_us, Maker::Finished), strange, true), told);
    assert_eq!(found(ext(&of_us, Maker::Unknown), None, true), "unfinished");
    assert_eq!(found(ext(&of_us, Maker::Unknown), strange, true), told, "it came to its end");
    assert_eq!(found(ext(&of_us, Maker::Unfinished), strange, true), at);
    assert_eq!(found(ext(&other, Maker::Unknown), strange, true), "file system other");
    assert_eq!(
        found(ext(&other, Maker::Unfinished), None, false),
        "an unfinished ext4 that this machine did not begin"
    );
}

/// What comes of a format of a blank disk that holds this then, and what is remembered of it.
fn formatted(then: Option<Contents>) -> (Result<FileSystem>, Option<Formatting>) {
    let file_systems = FakeFileSystems { then_holds: then.into(), ..holds(Contents::Blank) };
    with(file_systems, FakeDevices::default(), Some("-m 1"), |driver, disk| {
        let records = driver.ports.records;
        let plan = records.load(&volume().id).formatting.unwrap();
        let options = MkfsOptions::parse("-m 2").unwrap();
        let came = driver.formatter.format(&volume(), disk, &plan, &options);
        (came, records.load(&volume().id).formatting)
    })
}

#[test]
fn a_format_has_ended_when_its_file_system_is_there() {
    let (came, remembered) = formatted(Some(ext4(&its_uuid(), Maker::Finished)));
    assert_eq!((came.unwrap().uuid, remembered), (its_uuid(), None));
    for other in [
        ext4("other", Maker::Finished),
        ext4(&its_uuid(), Maker::Unfinished),
        Contents::Blank,
        Contents::Foreign("a partition table".to_owned()),
    ] {
        let (came, remembered) = formatted(Some(other));
        let error = came.unwrap_err();
        assert!(error.cause.starts_with("mkfs.ext4 reported success, but vdb holds"), "{error}");
        assert!(remembered.is_some(), "the next try goes on");
    }
    let (came, remembered) = formatted(None);
    assert_eq!(came.unwrap_err().kind, Kind::Host);
    assert_eq!(
        remembered.map(|plan| plan.options),
        Some("-m 2".to_owned()),
        "as it was begun last"
    );
}

#[test]
fn a_disk_that_a_killed_mkfs_has_open_still_is_waited_for_and_one_that_stays_in_use_is_refused() {
    let wait = |used: u32| {
        let devices = FakeDevices { used: used.into(), ..FakeDevices::default() };
        with(FakeFileSystems::default(), devices, None, |driver, disk| {
            driver.formatter.wait_free(disk)
        })
    };
    assert_eq!(wait(0), Ok(()));
    assert_eq!(wait(2), Ok(()));
    let error = wait(u32::MAX).unwrap_err();
    assert_eq!(error.kind, Kind::Busy);
    assert!(error.cause.starts_with("vdb is in use already"), "{error}");
}
