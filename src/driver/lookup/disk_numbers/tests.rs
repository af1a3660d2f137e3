use super::*;
use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, FakeNamespaces, MadeUp, boot_id};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::Untold;
use crate::model::record::{DiskMoment, Staged};
use crate::snapshot::Snapshot;

const UUID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";

fn mounts(lines: &[&str]) -> Vec<Mount> {
    MountTable::parse(lines.join("\n").as_bytes()).unwrap().mounts().to_vec()
}

fn its() -> VolumeId {
    VolumeId::parse("v-1").unwrap()
}

fn number(minor: u32) -> DeviceNumber {
    DeviceNumber { major: 7, minor }
}

fn line(minor: u32, source: &str) -> String {
    format!("40 20 7:{minor} / /x rw - ext4 {source} rw")
}

/// A namespace with these mounts.
fn namespace(lines: &[String]) -> NamespaceUse {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    NamespaceUse::of_a_test(mounts(&lines), Vec::new())
}

/// A machine that remembers mounts of the volume from these disks, has these mounts, and other namespaces that have
/// these. The disk at 7:1 is another volume's.
fn asked<T>(
    (remembered, own): (&[u32], &[String]),
    namespaces: FakeNamespaces,
    ask: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let cloud = FakeCloud::default();
    let mut devices = FakeDevices::default().with("vda", 1, "v-1").with("loop1", 1, "v-2");
    devices.disks[1].0.number = number(1);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let mounts = FakeMounts::of(&own);
    let made_up = MadeUp { mounts, namespaces, ..MadeUp::with(&cloud, &devices) };
    made_up.drive(|cx| {
        for minor in remembered {
            let disk = DiskMoment::of_a_test(*minor, &boot_id());
            let staged = Staged::new(Path::new("/stage"), &disk, "ext4", UUID);
            cx.store.records.update(&its(), |record| record.is_staged(staged)).unwrap();
        }
        ask(cx)
    })
}

#[test]
fn a_volume_lives_at_its_disk_and_at_dead_ones_that_its_mounts_stand_on() {
    let ours = line(5, "/dev/incloud-disk/v-1");
    let all = |own: &[String]| {
        asked((&[], own), FakeNamespaces::default(), |cx| {
            let id = its();
            let snapshot = Snapshot::of(cx, Some(&id));
            (snapshot.numbers(&[number(9)]), snapshot.dead_numbers())
        })
    };
    let now = DeviceNumber { major: 253, minor: 0 };
    assert_eq!(all(&[]), (vec![number(9), now], vec![]));
    assert_eq!(all(&[ours]), (vec![number(5), number(9), now], vec![number(5)]));
    asked((&[], &[]), FakeNamespaces::default(), |cx| {
        assert_eq!(all_gone(cx, &[number(5)]), " (on a disk that is gone)");
        assert_eq!(all_gone(cx, &[number(5), now]), "");
    });
}

#[test]
fn a_dead_number_that_only_other_namespaces_have_is_the_volumes_if_they_say_so() {
    let dead = |source: &str| {
        let namespaces = vec![namespace(&[line(5, source)])].into();
        let census = FakeNamespaces { namespaces, ..FakeNamespaces::default() };
        asked((&[5], &[]), census, |cx| {
            dead_numbers_of(cx, &its(), &MountTable::default()).unwrap()
        })
    };
    assert_eq!(dead("/dev/incloud-disk/v-1"), [number(5)]);
    assert_eq!(dead("/dev/incloud-disk/v-2"), []);
    assert_eq!(dead("/dev/vdb"), [], "it shows neither");
    let blind = asked((&[5], &[]), FakeNamespaces::blind(), |cx| {
        dead_numbers_of(cx, &its(), &MountTable::default()).unwrap_err()
    });
    assert_eq!(blind.kind, Kind::Refused);
}

#[test]
fn a_number_that_went_to_another_disk_is_the_volumes_no_more_unless_its_mounts_have_it() {
    let verdicts = |remembered: &[u32], own: &[String], elsewhere: &[DeviceNumber]| {
        asked((remembered, own), FakeNamespaces::default(), |cx| {
            let table = cx.host.mounts.table().unwrap();
            let of = |matters: fn(&MountVerdict) -> bool| {
                let at = (&table, elsewhere);
                let all = verdicts(cx, &its(), at, Here::Nothing, matters).unwrap();
                all.into_iter().map(|(number, _)| number.minor).collect::<Vec<_>>()
            };
            (of(|_| true), of(MountVerdict::is_dead))
        })
    };
    let anothers = line(1, "/dev/incloud-disk/v-1");
    assert_eq!(verdicts(&[5], &[], &[]), (vec![5], vec![5]));
    assert_eq!(verdicts(&[1, 5], &[], &[]), (vec![5], vec![5]));
    assert_eq!(verdicts(&[1], &[anothers], &[]), (vec![1], vec![]));
    assert_eq!(verdicts(&[], &[], &[number(1), number(6)]), (vec![1, 6], vec![6]));
}

#[test]
fn what_may_be_left_of_a_volume_is_told_from_what_is_anothers() {
    let left = |remembered: &[u32], own: &[String], census: FakeNamespaces| {
        asked((remembered, own), census, |cx| {
            let pod = ConsumerId::parse("1d5c9c9e-1f55-4b1b-8a53-9c6c5a3e0001").unwrap();
            let knows = |record: &mut VolumeRecord| {
                drop(record.mounts.consumers.insert(pod, String::new()));
            };
            cx.store.records.update(&its(), knows).unwrap();
            is_left_behind(cx, &its())
        })
    };
    let has = |source: &str| {
        let namespaces = vec![namespace(&[line(5, source)])].into();
        FakeNamespaces { namespaces, ..FakeNamespaces::default() }
    };
    let hidden = |pod: &str| {
        let pods = [ConsumerId::parse(pod).unwrap()].into();
        let untold = vec![Untold {
            what: "a".to_owned(),
            why: "b".to_owned(),
            pods,
            is_anyones: false,
            way_out: None,
        }];
        FakeNamespaces { untold, ..FakeNamespaces::default() }
    };
    assert!(!left(&[], &[], FakeNamespaces::blind()), "it was never mounted");
    assert!(left(&[], &[line(5, "/dev/incloud-disk/v-1")], FakeNamespaces::default()));
    assert!(left(&[5], &[], FakeNamespaces::blind()), "it cannot be told");
    assert!(!left(&[5], &[line(5, "/dev/incloud-disk/v-2")], FakeNamespaces::default()));
    assert!(left(&[5], &[], has("/dev/incloud-disk/v-1")));
    assert!(!left(&[5], &[], has("/dev/incloud-disk/v-2")));
    assert!(left(&[5], &[], hidden("1d5c9c9e-1f55-4b1b-8a53-9c6c5a3e0001")));
    assert!(!left(&[5], &[], hidden("1d5c9c9e-1f55-4b1b-8a53-9c6c5a3e0002")));
}

#[test]
fn mounts_elsewhere_that_show_the_label_are_told_by_their_numbers() {
    let ours = |minor| line(minor, "/dev/incloud-disk/v-1");
    let of_btrfs = "41 20 0:9 / /y rw - btrfs /dev/incloud-disk/v-1 rw".to_owned();
    let lines = [ours(5), ours(5), line(5, "/dev/vdb"), of_btrfs, line(6, "/dev/vdc")];
    let census =
        FakeNamespaces { namespaces: vec![namespace(&lines)].into(), ..FakeNamespaces::default() };
    let told = asked((&[], &[]), census, |cx| labelled_elsewhere(cx, &its()).unwrap());
    assert_eq!(told, [number(5), number(5)]);
}
