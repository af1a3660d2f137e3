use super::*;
use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, MadeUp};
use crate::lookup::alias::record_found_name;
use crate::lookup::disk_owner::refuse_another_at;
use crate::lookup::disk_owner::volume_on;
use crate::model::cloud::request::AttachRequest;
use crate::model::disk::device::{DeviceNumber, Shown};
use crate::model::ids::VIRTIO_SERIAL_LENGTH;
use crate::ports::cloud::Attachment;
use crate::ports::store::Records;
use std::path::PathBuf;

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";
const NOWHERE: &str = "33333333-3333-4333-8333-333333333333";

fn id(text: &str) -> VolumeId {
    VolumeId::parse(text).unwrap()
}

fn name(text: &str) -> VolumeName {
    VolumeName::parse(text).unwrap()
}

fn server() -> ServerId {
    ServerId::parse("server").unwrap()
}

/// The records of a machine that has had nothing to do with any volume yet, and what is asked there.
fn asked<T>(
    (cloud, devices): (&FakeCloud, &FakeDevices),
    ask: impl FnOnce(&Context<'_>, &dyn Records) -> T,
) -> T {
    MadeUp::with(cloud, devices).drive(|cx| ask(cx, cx.store.records))
}

/// The volume that a name means at the server, "none", or the refusal.
fn meant(cloud: &FakeCloud, called: &str) -> String {
    let found = asked((cloud, &FakeDevices::default()), |cx, _| {
        volume_named(cx, &name(called), Some(&server()))
    });
    match found {
        Ok(found) => found.map_or_else(|| "none".to_owned(), |id| id.to_string()),
        Err(error) => error.cause,
    }
}

fn change(cloud: &FakeCloud, place: usize, change: impl FnOnce(&mut CloudVolume)) {
    change(&mut cloud.volumes.borrow_mut()[place]);
}

#[test]
fn a_name_is_a_volume_by_its_id_by_its_record_or_by_the_clouds_name_of_it() {
    let cloud = FakeCloud::default().with(ONE, 1, &["server"]).with("v-2", 1, &["server"]);
    assert_eq!(meant(&cloud, "v-2"), "v-2");
    assert_eq!(meant(&cloud, "data"), "none");
    change(&cloud, 0, |volume| volume.name = Some("data".to_owned()));
    assert_eq!(meant(&cloud, "data"), ONE);
    change(&cloud, 0, |volume| volume.recorded_name = Some(name("pv-7")));
    assert_eq!(meant(&cloud, "pv-7"), ONE);
    assert_eq!(meant(&cloud, "data"), "none", "attach knows it by another name");
}

#[test]
fn a_clouds_name_of_several_attached_volumes_is_refused() {
    let cloud = FakeCloud::default().with("v-1", 1, &["server"]).with("v-2", 1, &["server"]);
    let called = Some("data".to_owned());
    change(&cloud, 0, |volume| volume.name.clone_from(&called));
    change(&cloud, 1, |volume| volume.name = called);
    let why = "several volumes have that name in the cloud (data): v-1, v-2";
    assert_eq!(meant(&cloud, "data"), why);
}

#[test]
fn a_uuid_is_its_volume_unless_that_and_a_stranger_may_both_be_meant() {
    let with =
        |own: &[&str], other: &[&str]| FakeCloud::default().with(ONE, 1, own).with(OTHER, 1, other);
    let why = format!(
        "the name {ONE} is a volume's id, and it is not recorded by which name others were attached: it may mean {OTHER} or {ONE}"
    );
    assert_eq!(meant(&with(&["server"], &["server"]), ONE), why);
    assert_eq!(meant(&with(&["server"], &["other"]), ONE), ONE, "no stranger is there");
    assert_eq!(meant(&with(&[], &["server"]), ONE), ONE, "it is not there itself");
    let renamed = with(&[], &["server"]);
    change(&renamed, 0, |volume| volume.recorded_name = Some(name("pv-7")));
    assert_eq!(meant(&renamed, ONE), why, "it goes by another name");
    let known = with(&["server"], &["server"]);
    change(&known, 1, |volume| volume.recorded_name = Some(name("pv-7")));
    assert_eq!(meant(&known, ONE), ONE, "the other one is no stranger");
    let root = with(&["server"], &["server"]);
    change(&root, 1, |volume| volume.attachments[0].is_root = true);
    assert_eq!(meant(&root, ONE), ONE, "no orchestrator attached what the server starts from");
}

#[test]
fn a_uuid_that_is_no_volume_may_mean_what_was_attached_by_a_name_that_is_not_known() {
    let cloud = FakeCloud::default().with(OTHER, 1, &["server"]);
    let why = format!(
        "the name {NOWHERE} is no volume's id, and it is not recorded by which name these were attached: it may mean {OTHER}"
    );
    assert_eq!(meant(&cloud, NOWHERE), why);
    assert_eq!(meant(&cloud, "data"), "none", "what is no UUID is not meant");
    let asked_of = |recorded: &str| {
        asked((&cloud, &FakeDevices::default()), |cx, records| {
            records.note_name(&name(NOWHERE), &id(recorded)).unwrap();
            volume_named(cx, &name(NOWHERE), Some(&server())).map_err(|error| error.cause)
        })
    };
    assert_eq!(asked_of("gone"), Ok(None), "the one that it meant is gone");
    let none =
        asked((&cloud, &FakeDevices::default()), |cx, _| volume_named(cx, &name(NOWHERE), None));
    assert_eq!(none.unwrap(), None, "no server is named");
}

#[test]
fn a_record_and_an_id_that_both_are_the_name_are_a_doubt_where_both_are_there() {
    let with = |own: &[&str], recorded: &[&str]| {
        let cloud = FakeCloud::default().with(ONE, 1, own).with(OTHER, 1, recorded);
        change(&cloud, 1, |volume| volume.recorded_name = Some(name(ONE)));
        cloud
    };
    let why = format!(
        "the name {ONE} is recorded for one and is the other's id: it may mean {OTHER} or {ONE}"
    );
    assert_eq!(meant(&with(&["server"], &["server"]), ONE), why);
    assert_eq!(meant(&with(&["other"], &["server"]), ONE), OTHER);
    assert_eq!(meant(&with(&["server"], &[]), ONE), OTHER, "the own one is a stranger");
    let known = with(&["server"], &[]);
    change(&known, 0, |volume| volume.mounted_on = Some(server()));
    assert_eq!(meant(&known, ONE), why, "and now it is not");
    let renamed = with(&["server"], &["server"]);
    change(&renamed, 0, |volume| volume.recorded_name = Some(name("pv-7")));
    assert_eq!(meant(&renamed, ONE), OTHER, "the own one has a name of its own");
}

#[test]
fn of_several_that_a_name_is_recorded_for_only_what_is_at_the_server_or_comes_there_is_meant() {
    let with = |one: &[&str], other: &[&str]| {
        let cloud = FakeCloud::default().with("v-1", 1, one).with("v-2", 1, other);
        for place in 0..2 {
            change(&cloud, place, |volume| volume.recorded_name = Some(name("pv-7")));
        }
        cloud
    };
    let why = "several volumes were attached under that name (pv-7): v-1, v-2";
    assert_eq!(meant(&with(&["server"], &["server"]), "pv-7"), why);
    assert_eq!(meant(&with(&["server"], &["other"]), "pv-7"), "v-1");
    assert_eq!(meant(&with(&[], &[]), "pv-7"), "none");
    let comes = with(&[], &[]);
    let request = |to: &str| Some(AttachRequest { server: ServerId::parse(to).unwrap(), at: 0 });
    change(&comes, 1, |volume| volume.requested = request("server"));
    assert_eq!(meant(&comes, "pv-7"), "v-2");
    change(&comes, 0, |volume| volume.requested = request("other"));
    assert_eq!(meant(&comes, "pv-7"), "v-2", "that one goes elsewhere");
}

#[test]
fn what_this_driver_has_had_to_do_with_is_known() {
    let cloud = &FakeCloud::default();
    asked((cloud, &FakeDevices::default()), |cx, records| {
        let volume = FakeCloud::default().with("v-1", 1, &[]).volumes.borrow()[0].clone();
        assert!(!is_known(cx, &volume));
        let with = |change: &dyn Fn(&mut CloudVolume)| {
            let mut volume = volume.clone();
            change(&mut volume);
            is_known(cx, &volume)
        };
        assert!(with(&|volume| volume.recorded_name = Some(name("pv-7"))));
        assert!(with(&|volume| volume.life = Some(crate::model::disk::formatting::Life::HasData)));
        assert!(with(&|volume| volume.mounted_on = Some(server())));
        records.update(&volume.id, |record| record.disk.was_mounted = true).unwrap();
        assert!(is_known(cx, &volume));
    });
}

#[test]
fn a_disk_is_the_volumes_whose_whole_id_it_shows() {
    let long = "a-volume-of-twenty-c";
    assert_eq!(long.len(), VIRTIO_SERIAL_LENGTH);
    let mut devices = FakeDevices::default()
        .with("vda", 1, "v-1")
        .with("vdb", 1, long)
        .with("vdc", 1, "no id/")
        .with("loop0", 1, "");
    devices.disks[3].1 = Shown::BackingFile(PathBuf::from(format!("/images/{long}.img")));
    asked((&FakeCloud::default(), &devices), |cx, _| {
        let on = |place: usize| volume_on(cx, devices.disks[place].0.number).unwrap();
        assert_eq!(on(0), Some(id("v-1")));
        assert_eq!(on(1), None, "a longer id may be cut to it");
        assert_eq!(on(2), None);
        let none = volume_on(cx, DeviceNumber { major: 1, minor: 1 });
        assert_eq!(none.unwrap(), None);
    });
}

#[test]
fn what_a_person_says_of_a_name_is_noted_unless_it_is_recorded_for_another() {
    let cloud = FakeCloud::default().with("v-1", 1, &[]).with("v-2", 1, &[]);
    let settle = |of: &str| {
        asked((&cloud, &FakeDevices::default()), |cx, records| {
            let told = settle_name(cx, &id(of), &name("pv-7")).map_err(|error| error.cause);
            (told, records.named(&name("pv-7")))
        })
    };
    assert_eq!(settle("gone"), (Ok(()), Some(id("gone"))), "of what is gone this machine knows it");
    assert_eq!(settle("v-1"), (Ok(()), None));
    assert_eq!(cloud.volumes.borrow()[0].recorded_name, Some(name("pv-7")));
    assert_eq!(settle("v-1").0, Ok(()), "it is recorded for this one");
    let why = "the name pv-7 is recorded for volume v-1: it may mean that one too; v-2 is detached";
    assert_eq!(settle("v-2"), (Err(why.to_owned()), None));
}

#[test]
fn the_name_of_a_mount_that_was_found_is_recorded_where_none_is() {
    let cloud = FakeCloud::default().with("v-1", 1, &[]).with("v-2", 1, &[]);
    change(&cloud, 1, |volume| volume.recorded_name = Some(name("pv-2")));
    asked((&cloud, &FakeDevices::default()), |cx, records| {
        for one in ["v-1", "v-2"] {
            record_found_name(cx, &id(one), &name("found"));
            assert_eq!(records.load(&id(one)).name, Some(name("found")));
        }
        record_found_name(cx, &id("v-3"), &name("v-3"));
        assert_eq!(records.load(&id("v-3")).name, None, "its id is its name");
    });
    let recorded = |place: usize| cloud.volumes.borrow()[place].recorded_name.clone();
    assert_eq!((recorded(0), recorded(1)), (Some(name("found")), Some(name("pv-2"))));
}

#[test]
fn a_record_of_this_machine_counts_where_the_cloud_has_none_of_that_volume() {
    let cloud = FakeCloud::default().with("v-1", 1, &["server"]);
    change(&cloud, 0, |volume| volume.attachments.push(Attachment::to(server())));
    let meant = || {
        asked((&cloud, &FakeDevices::default()), |cx, records| {
            records.note_name(&name("pv-7"), &id("v-1")).unwrap();
            volume_named(cx, &name("pv-7"), Some(&server())).unwrap()
        })
    };
    assert_eq!(meant(), Some(id("v-1")));
    change(&cloud, 0, |volume| volume.recorded_name = Some(name("pv-7")));
    assert_eq!(meant(), Some(id("v-1")), "once, though both have it");
    change(&cloud, 0, |volume| volume.recorded_name = Some(name("pv-8")));
    assert_eq!(meant(), None, "the cloud has another name");
}

/// What is asked where these lines are in the mount table, and the disk at 253:0 shows `v-1`.
fn among<T>(lines: &[&str], ask: impl FnOnce(&Context<'_>) -> T) -> T {
    let (cloud, devices) = (FakeCloud::default(), FakeDevices::default().with("vda", 1, "v-1"));
    let made_up = MadeUp { mounts: FakeMounts::of(lines), ..MadeUp::with(&cloud, &devices) };
    made_up.drive(|cx| ask(cx))
}

#[test]
fn what_is_mounted_at_a_folder_is_told_by_its_disk_its_label_or_else_its_name() {
    let at = |called: &str, lines: &[&str]| {
        among(lines, |cx| volume_mounted_at(cx, &name(called), Path::new("/x")).unwrap())
    };
    let of_the_disk = "40 20 253:0 / /x rw - ext4 /dev/vda rw";
    let labelled = "40 20 7:9 / /x rw - ext4 /dev/incloud-disk/v-3 rw";
    let of_a_file = "40 20 7:9 / /x rw - ext4 /dev/loop9 rw";
    assert_eq!(at("data", &[of_the_disk]), Some(id("v-1")));
    assert_eq!(at("data", &[labelled]), Some(id("v-3")));
    assert_eq!(at("v-3", &[of_the_disk, labelled]), Some(id("v-1")), "what is told first");
    assert_eq!(at("v-3", &[labelled, of_the_disk]), Some(id("v-3")));
    assert_eq!(at("data", &[of_a_file]), None, "it is no id");
    assert_eq!(at(ONE, &[]), Some(id(ONE)), "a UUID is an id by convention");
    assert_eq!(at(ONE, &[of_a_file]), Some(id(ONE)));
    asked((&FakeCloud::default(), &FakeDevices::default()), |cx, records| {
        records.update(&id(ONE), |record| record.name = Some(name("pv-7"))).unwrap();
        assert_eq!(volume_mounted_at(cx, &name(ONE), Path::new("/x")).unwrap(), None);
    });
}

#[test]
fn a_disk_that_is_of_no_volume_by_its_whole_id_is_the_named_ones_only_if_it_may_be() {
    let line = "40 20 253:0 / /x rw - ext4 /dev/vda rw";
    let at = |serial: &str| {
        let (cloud, devices) =
            (FakeCloud::default(), FakeDevices::default().with("vda", 1, serial));
        let made_up = MadeUp { mounts: FakeMounts::of(&[line]), ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|cx| volume_mounted_at(cx, &name(ONE), Path::new("/x")).unwrap())
    };
    assert_eq!(at(&ONE[..VIRTIO_SERIAL_LENGTH]), Some(id(ONE)), "cut to what virtio shows");
    assert_eq!(at(&OTHER[..VIRTIO_SERIAL_LENGTH]), None);
}

#[test]
fn a_mount_of_another_volume_at_the_folder_is_refused() {
    let refused = |wanted: &str, line: &str| {
        among(&[line], |cx| {
            let table = cx.host.mounts.table().unwrap();
            let told = refuse_another_at(cx, &id(wanted), Path::new("/x"), &table);
            told.map_err(|error| error.cause)
        })
    };
    let of_the_disk = "40 20 253:0 / /x rw - ext4 /dev/vda rw";
    let labelled = "40 20 7:9 / /x rw - ext4 /dev/incloud-disk/v-3 rw";
    assert_eq!(refused("v-1", of_the_disk), Ok(()));
    assert_eq!(refused("v-3", labelled), Ok(()));
    assert_eq!(
        refused("v-9", "40 20 7:9 / /x rw - ext4 /dev/loop9 rw"),
        Ok(()),
        "whose it is is not known"
    );
    assert_eq!(refused("v-9", "40 20 253:0 / /y rw - ext4 /dev/vda rw"), Ok(()), "elsewhere");
    let why = |other: &str| Err(format!("at /x volume {other} is mounted, and not v-9"));
    assert_eq!(refused("v-9", of_the_disk), why("v-1"));
    assert_eq!(refused("v-9", labelled), why("v-3"));
}

#[test]
fn a_cloud_without_notes_leaves_a_name_to_this_machine_and_one_that_is_down_to_the_next_try() {
    let settle = |cloud: &FakeCloud| {
        asked((cloud, &FakeDevices::default()), |cx, records| {
            let told = settle_name(cx, &id("v-1"), &name("pv-7")).map_err(|error| error.kind);
            (told, records.named(&name("pv-7")))
        })
    };
    let with = || FakeCloud::default().with("v-1", 1, &[]);
    let forbids = FakeCloud { forbids_notes: true.into(), ..with() };
    assert_eq!(settle(&forbids), (Ok(()), Some(id("v-1"))));
    let fails = FakeCloud { fails_notes: true.into(), ..with() };
    assert_eq!(settle(&fails), (Err(Kind::Unreachable), None));
}

#[test]
fn an_image_that_is_called_by_an_id_as_long_as_a_cut_serial_is_that_volumes() {
    let long = "a-volume-of-twenty-c";
    let image = PathBuf::from(format!("/images/{long}.img"));
    let mut devices = FakeDevices::default().with("loop0", 1, "");
    devices.disks[0].1 = Shown::BackingFile(image.clone());
    let number = devices.disks[0].0.number;
    let on = |image: Option<PathBuf>| {
        let cloud = FakeCloud { image, ..FakeCloud::default() };
        asked((&cloud, &devices), |cx, _| volume_on(cx, number).unwrap())
    };
    assert_eq!(on(Some(image)), Some(id(long)));
    assert_eq!(on(Some(PathBuf::from("/other/image"))), None);
    assert_eq!(on(None), None);
}

/// What this machine remembers against what the cloud has recorded: the index, the volume's last name here,
/// the cloud's name of it, and whether it is attached there.
#[test]
fn the_index_of_this_machine_counts_until_a_later_name_contradicts_it() {
    for (last_name, in_cloud, is_attached, told) in [
        (Some("pv-1"), None, true, "v-1"),
        (Some("pv-1"), Some("pv-1"), true, "v-1"),
        // Attached without a name: the cloud has its id.
        (Some("pv-1"), Some("v-1"), true, "v-1"),
        (Some("pv-1"), Some("v-1"), false, "v-1"),
        // Another name, and nothing later: refused, unless there is nothing to detach.
        (Some("pv-1"), Some("pv-2"), true, "it may mean v-1"),
        (Some("pv-1"), Some("pv-2"), false, "none"),
        // This machine too knows it by another name since.
        (Some("pv-2"), Some("pv-2"), true, "none"),
        (Some("pv-2"), Some("v-1"), true, "none"),
        (None, Some("v-1"), true, "none"),
    ] {
        let at: &[&str] = if is_attached { &["server"] } else { &[] };
        let cloud = FakeCloud::default().with("v-1", 1, at);
        change(&cloud, 0, |volume| volume.recorded_name = in_cloud.map(name));
        let found = asked((&cloud, &FakeDevices::default()), |cx, records| {
            records.update(&id("v-1"), |record| record.name = last_name.map(name)).unwrap();
            records.note_name(&name("pv-1"), &id("v-1")).unwrap();
            volume_named(cx, &name("pv-1"), Some(&server()))
        });
        let found = match found {
            Ok(found) => found.map_or_else(|| "none".to_owned(), |id| id.to_string()),
            Err(error) => error.cause,
        };
        assert!(found.ends_with(told), "{last_name:?} {in_cloud:?} {is_attached}: {found}");
    }
}

/// In a folder of that name it is mounted now: no other name counts against that.
#[test]
fn a_volume_that_is_mounted_under_the_name_is_meant() {
    for (mounted, told) in [("pv-1", Some("v-1")), ("pv-2", None)] {
        let cloud = FakeCloud::default().with("v-1", 1, &["server"]);
        change(&cloud, 0, |volume| volume.recorded_name = Some(name("pv-3")));
        let devices = FakeDevices::default();
        let mounts = FakeMounts::of(&[&format!(
            "40 20 7:5 / /root/mounts/{mounted} rw - ext4 /dev/incloud-disk/v-1 rw"
        )]);
        let made_up = MadeUp { mounts, ..MadeUp::with(&cloud, &devices) };
        let found = made_up.drive(|cx| {
            let records = cx.store.records;
            records.update(&id("v-1"), |record| record.name = Some(name("pv-3"))).unwrap();
            records.note_name(&name("pv-1"), &id("v-1")).unwrap();
            volume_named(cx, &name("pv-1"), Some(&server())).unwrap()
        });
        assert_eq!(found.as_ref().map(VolumeId::as_str), told, "{mounted}");
    }
}
