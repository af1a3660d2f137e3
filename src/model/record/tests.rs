use super::*;
use crate::disk::device::DeviceNumber;
use crate::face::OF_TESTS;
use crate::ids::ConsumerId;
use crate::mount::replacement::MountIntent;
use std::path::Path;

#[test]
fn an_attachment_is_the_same_by_the_clouds_word_else_by_the_disk() {
    let disk = DiskMoment::of_a_test(1, "boot");
    let other = DiskMoment::of_a_test(2, "boot");
    let with = |attachment: Option<&str>| LastFileSystem {
        uuid: "uuid".to_owned(),
        disk: disk.clone(),
        attachment: attachment.map(str::to_owned),
    };
    for (then, now, of, is_same) in [
        (Some("a"), Some("a"), &other, true),
        (Some("a"), Some("b"), &disk, false),
        (None, Some("b"), &disk, true),
        (Some("a"), None, &disk, true),
        (None, None, &other, false),
    ] {
        assert_eq!(with(then).is_same_attachment(now, of), is_same, "{then:?} {now:?}");
    }
}

#[test]
fn a_newer_record_is_read_and_its_keys_survive() {
    let text = r#"{"format": 9, "volume": "v1", "was_mounted": true, "colour": {"a": [1]}}"#;
    let record: VolumeRecord = serde_json::from_str(text).unwrap();
    assert!(record.disk.was_mounted);
    let again = serde_json::to_value(&record).unwrap();
    assert_eq!(again["colour"]["a"][0], 1);
    assert_eq!(again["format"], 9);
}

#[test]
fn an_earlier_version_reads_which_format_was_begun() {
    let disk = DiskMoment::of_a_test(1, "boot");
    let (fs_type, uuid) = ("ext4".to_owned(), "u".to_owned());
    let formatting = Formatting { disk: disk.clone(), fs_type, uuid };
    let keys = serde_json::json!({ "disk": disk, "fs_type": "ext4", "uuid": "u" });
    assert_eq!(serde_json::to_value(&formatting).unwrap(), keys);
    let mut earlier = keys;
    for (key, value) in [("options", "-m 1".into()), ("seed", "5eed".into()), ("at", 7.into())] {
        earlier[key] = value;
    }
    assert_eq!(serde_json::from_value::<Formatting>(earlier).unwrap(), formatting);
}

/// Without `float_roundtrip` the reader is quick, and one digit off.
#[test]
fn a_number_under_an_unknown_key_is_written_as_it_was() {
    for number in [
        "0.1",
        "-0.0",
        "1.7976931348623157e308",
        "5e-324",
        "2.2250738585072014e-308",
        "9007199254740993.0",
        "123456789.12345678",
        "51.24817837550540",
        "8.98846567431158e307",
        "0.30000000000000004",
        "18446744073709551615",
        "-9223372036854775808",
    ] {
        let text = format!(r#"{{"format":9,"volume":"v1","colour":[{number}]}}"#);
        let record: VolumeRecord = serde_json::from_str(&text).unwrap();
        let written = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<VolumeRecord>(&written).unwrap(), record, "{number}");
        let of_colour = |value: &serde_json::Value| value["colour"][0].as_f64().unwrap().to_bits();
        let read = serde_json::to_value(&record).unwrap();
        assert_eq!(of_colour(&read), number.parse::<f64>().unwrap().to_bits(), "{number}");
    }
}

proptest::proptest! {
    #[test]
    fn any_fraction_under_an_unknown_key_is_kept(bits in proptest::prelude::any::<u64>()) {
        let number = f64::from_bits(bits);
        proptest::prop_assume!(number.is_finite());
        let text = format!(r#"{{"volume":"v1","colour":{}}}"#, serde_json::json!(number));
        let record: VolumeRecord = serde_json::from_str(&text).unwrap();
        proptest::prop_assert_eq!(record.other["colour"].as_f64().unwrap().to_bits(), bits);
    }
}

#[test]
fn a_consumer_has_it_at_several_folders() {
    let old = r#"{"format": 1, "volume": "v1", "published": {"u-1": "/k/pods/u-1/ours/a"}}"#;
    let mut record: VolumeRecord = serde_json::from_str(old).unwrap();
    let consumer = ConsumerId::parse("u-1").unwrap();
    let second = Path::new("/k/pods/u-1/second/b");
    record.mounts.is_published(&consumer, second, OF_TESTS.0[1].name(), Some("shop/orders-0"));
    let folders: Vec<_> = record.mounts.published_folders().map(|(_, folder)| folder).collect();
    assert_eq!(folders, [Path::new("/k/pods/u-1/ours/a"), second]);
    let written = serde_json::to_value(&record).unwrap();
    assert_eq!(written["faces"][second.to_str().unwrap()], "second");
    assert_eq!(serde_json::from_value::<VolumeRecord>(written).unwrap(), record);
    // By the root's other name.
    record.mounts.is_unpublished(&consumer, Path::new("pods/u-1/second/b"));
    assert!(record.mounts.faces.is_empty());
    let written = serde_json::to_value(&record).unwrap();
    assert_eq!(written["published"]["u-1"], "/k/pods/u-1/ours/a", "as older versions read it");
    record.mounts.is_unpublished(&consumer, Path::new("pods/u-1/ours/a"));
    assert!(record.mounts.published.is_empty());
}

#[test]
fn what_ends_with_the_boot_can_be_left_out() {
    let text = r#"{"format": 1, "volume": "v1", "refused": {"p": {"since": 1, "times": 1, "last": 1, "text": ""}}}"#;
    let full: serde_json::Value = serde_json::from_str(text).unwrap();
    let mut lasting = full.as_object().unwrap().clone();
    lasting.retain(|key, _| !OF_THE_BOOT.contains(&key.as_str()));
    let record: VolumeRecord = serde_json::from_value(lasting.into()).unwrap();
    assert_eq!(record, VolumeRecord::new(record.volume.clone()));
}

#[test]
fn what_the_first_of_two_heals_found_is_what_is_to_be() {
    let mut record = VolumeRecord::new(VolumeId::parse("v1").unwrap());
    let number = DeviceNumber { major: 7, minor: 1 };
    let intent = |id, target: &str, propagation: &str| MountIntent {
        id,
        number,
        target: target.into(),
        propagation: propagation.to_owned(),
    };
    record.heal.will_switch(
        "b1",
        NamespaceSign::of_number(5),
        vec![intent(Some(3), "/", "master:1 ")],
    );
    record.heal.will_switch(
        "b1",
        NamespaceSign::of_number(5),
        vec![intent(Some(3), "/", "shared:9 "), intent(None, "/data", "")],
    );
    record.heal.will_switch("b1", NamespaceSign::of_number(6), vec![intent(Some(4), "/", "")]);
    assert_eq!(record.heal.switching.len(), 2);
    assert_eq!(
        record.heal.switching[0].mounts,
        [intent(Some(3), "/", "master:1 "), intent(None, "/data", "")]
    );
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<VolumeRecord>(&text).unwrap(), record);
    // After a reboot all of it is gone.
    record.heal.will_switch("b2", NamespaceSign::of_number(5), Vec::new());
    assert_eq!((record.heal.switching.len(), record.heal.switching[0].mounts.len()), (1, 0));
}

#[test]
fn a_record_with_an_unsafe_id_is_no_record() {
    assert!(serde_json::from_str::<VolumeRecord>(r#"{"format":1,"volume":"../x"}"#).is_err());
}

#[test]
fn a_namespace_is_known_by_more_than_its_number() {
    let old = NamespaceSign::of_number(5);
    let counted = NamespaceSign { count: Some(7), ..old };
    let dwelt = NamespaceSign { dweller: Some((12, 99)), ..old };
    for (sign, count, began, is_it) in [
        (old, None, None, true),
        (old, Some(8), None, true),
        (counted, Some(7), None, true),
        (counted, Some(8), None, false),
        (counted, None, None, false),
        (dwelt, None, Some(99), true),
        (dwelt, None, Some(100), false),
        (dwelt, None, None, false),
    ] {
        assert_eq!(sign.is_of(count, began), is_it, "{sign:?} {count:?} {began:?}");
    }
    let text = r#"{"boot": "b", "namespace": 5, "mounts": []}"#;
    let read: Switching = serde_json::from_str(text).unwrap();
    assert_eq!(read.sign, old);
    assert_eq!(serde_json::to_string(&read).unwrap(), text.replace(' ', ""));
    let new = Switching { sign: counted, ..read };
    let text = serde_json::to_string(&new).unwrap();
    assert_eq!(serde_json::from_str::<Switching>(&text).unwrap(), new);
}

/// Heals that fail again and again, on disks that come and go, must not make it forget where mounts stand.
#[test]
fn a_number_is_remembered_once_and_the_first_one_is_kept() {
    let mut record = VolumeRecord::new(VolumeId::parse("v1").unwrap());
    let disk = |minor: u32, sequence: u64| DiskMoment {
        number: DeviceNumber { major: 253, minor },
        sequence: Some(sequence),
        size: 1,
        boot: "b".to_owned(),
    };
    record.will_be_healed_by(disk(0, 1), None, None);
    for round in 0..40 {
        record.will_be_healed_by(disk(16 + 16 * (round % 2), 2 + u64::from(round)), None, None);
    }
    let known: Vec<_> =
        record.disk.former.iter().map(|disk| (disk.number.minor, disk.sequence)).collect();
    assert_eq!(known, [(0, Some(1)), (16, Some(40)), (32, Some(41))]);
    record.will_be_healed_by(DiskMoment { boot: "c".to_owned(), ..disk(0, 3) }, None, None);
    assert_eq!(record.disk.former.len(), 1, "numbers mean nothing after a boot");
}

fn map_of(minor: u32) -> DiskMoment {
    let number = DeviceNumber { major: 254, minor };
    DiskMoment { number, sequence: Some(1), size: 1, boot: "b".to_owned() }
}

fn staged(disk: &DiskMoment) -> Staged {
    Staged::new(Path::new("/k/global"), disk, "ext4", "")
}

#[test]
fn a_mark_is_owed_while_it_is_mounted_and_the_cloud_was_not_told_or_asked() {
    let now = 10_000_000;
    let mut record = VolumeRecord::new(VolumeId::parse("v-1").unwrap());
    assert!(!record.owes_mark(now), "not mounted");
    record.is_staged(staged(&map_of(5)));
    assert!(record.owes_mark(now), "never told");
    for (asked, is_owed) in
        [(now, false), (now - MARK_AGAIN + 1, false), (now - MARK_AGAIN, true), (now + 1, true)]
    {
        record.mark.requested_at = Some(asked);
        assert_eq!(record.owes_mark(now), is_owed, "asked at {asked}");
    }
    let mut forbidden = record.clone();
    forbidden.mark.notes_forbidden = Some("policy".to_owned());
    assert!(record.owes_mark(now) && !forbidden.owes_mark(now));

    record.mark.doubt(now);
    assert_eq!(record.mark.doubted_at, None, "there is none to doubt");
    record.mark.is_set = true;
    assert!(!record.owes_mark(now));
    record.mark.doubt(now);
    record.mark.doubt(now + 1);
    assert_eq!(record.mark.doubted_at, Some(now), "since the first loss");
    assert!(record.owes_mark(now));
    record.mark.clear();
    assert_eq!(record.mark.doubted_at, None);
}

#[test]
fn the_journal_of_a_killed_mount_is_the_one_that_was_intended() {
    let mut record = VolumeRecord::new(VolumeId::parse("v-1").unwrap());
    let (map, other) = (map_of(5), map_of(6));
    let [seven, nine] = [7, 9].map(JournalMark::FirstTransaction);
    record.shield.map_intent = Some(MapIntent { map: map.clone(), journal: seven.clone() });
    assert_eq!(record.journal_through(&map), Some(seven.clone()));
    assert_eq!(record.journal_through(&other), None);
    record.is_staged(staged(&map));
    assert_eq!(
        record.journal_through(&map),
        Some(seven.clone()),
        "its call was killed before it looked"
    );
    record.mounts.staged.as_mut().unwrap().journal = Some(nine.clone());
    assert_eq!(record.journal_through(&map), Some(nine.clone()));
    let grown = DiskMoment { size: 2, ..map.clone() };
    assert_eq!(record.journal_through(&grown), Some(nine), "it is the same mount");
    for next in [
        DiskMoment { sequence: Some(2), ..map.clone() },
        DiskMoment { boot: "c".to_owned(), ..map },
    ] {
        assert_eq!(record.journal_through(&next), None, "the next map may have its number");
    }
}

#[test]
fn what_is_remembered_of_a_journal_is_read_as_it_is_written() {
    use crate::disk::journal::xfs_moment::XfsMark;
    use crate::disk::journal::xfs_place::LogPlace;
    const XFS_MARK: &str = r#"{"place":{"at":4096,"sectors":20480},"head":20482,"first":7,"buffer":64,"counted_from":16386}"#;
    let place = LogPlace { at: 4096, sectors: 20_480 };
    let counted_from = Some(16_386);
    let log = XfsMark { place, head: 20_482, first: 7, buffer: 64, counted_from };
    for (mark, text) in
        [(JournalMark::FirstTransaction(7), "7"), (JournalMark::XfsLog(log), XFS_MARK)]
    {
        assert_eq!(serde_json::to_string(&mark).unwrap(), text);
        assert_eq!(serde_json::from_str::<JournalMark>(text).unwrap(), mark);
    }
}

#[test]
fn the_last_superblocks_of_a_mount_are_known_and_none_of_another() {
    let mut record = VolumeRecord::new(VolumeId::parse("v-1").unwrap());
    let (map, next) = (map_of(5), map_of(6));
    for number in 0..10 {
        record.shield.saw_superblock(map.clone(), number.to_string());
    }
    record.shield.saw_superblock(map.clone(), "4".to_owned());
    assert_eq!(record.shield.superblocks_through(&map), ["2", "3", "5", "6", "7", "8", "9", "4"]);
    assert!(record.shield.superblocks_through(&next).is_empty());
    record.shield.saw_superblock(next.clone(), "10".to_owned());
    assert!(record.shield.superblocks_through(&map).is_empty());
    assert_eq!(record.shield.superblocks_through(&next), ["10"]);
}

#[test]
fn a_wait_is_for_a_look_where_a_disk_is_here_and_was_not_refused() {
    let since = Uptime { boot: "b".to_owned(), seconds: 1 };
    let waits = |cause, why: Option<&str>| {
        let not_switched = why.map(str::to_owned);
        MapWait { since: since.clone(), cause, not_switched }.is_for_a_look()
    };
    assert!(waits(WaitCause::Gone, Some("something uses vdc")));
    assert!(!waits(WaitCause::Gone, None), "no disk is here");
    assert!(!waits(WaitCause::Refused, Some("vdc: it was written elsewhere")));
    assert!(!waits(WaitCause::Failing, Some("vdc does not answer")));
}

/// Other versions read these keys, and write them.
#[test]
fn each_key_is_read_and_written_as_it_always_was() {
    let disk = serde_json::json!({ "number": "7:1", "sequence": 3, "size": 4096, "boot": "b" });
    let uptime = serde_json::json!({ "boot": "b", "seconds": 5 });
    let staged = serde_json::json!({
        "folder": "/stage", "disk": disk, "fs_type": "ext4", "uuid": "u", "options": "", "untouched": false,
    });
    let keys = serde_json::json!({
        "format": 1, "volume": "v1", "name": "pv-1",
        "formatting": { "disk": disk, "fs_type": "ext4", "uuid": "u" },
        "was_mounted": true, "seen": 7, "former": [disk],
        "file_system": { "uuid": "u", "disk": disk },
        "staged": staged, "unstaged": staged, "unstaged_at": uptime,
        "published": { "u-1": "/pods/u-1/a" }, "faces": { "/stage": "ours" }, "consumers": { "u-1": "shop/orders-0" },
        "let_go": { "folders": { "u-1": { "at": 7, "when": uptime } } },
        "tenure": 2, "is_shareable": false, "is_marked": true, "mark_doubted_at": 8, "marked_beside": "s-1",
        "mark_asked": "s-2", "mark_asked_at": 9, "is_life_told": true, "notes_forbidden": "policy",
        "refused": { "detach": { "reason": "r", "since": 1, "last": 2, "count": 3 } }, "refusals": 3, "told_lost_writes": 40,
        "healing": 11, "healing_from": 10, "not_healed": "why",
        "switching": [{ "boot": "b", "namespace": 4, "mounts": [{ "number": "7:1", "target": "/data", "propagation": "" }] }],
        "map_wait": { "since": uptime, "cause": "gone" },
        "superblocks": { "map": disk, "fingerprints": ["f"] },
    });
    let record: VolumeRecord = serde_json::from_value(keys.clone()).unwrap();
    assert!(record.other.is_empty(), "{:?}", record.other);
    assert_eq!(serde_json::to_value(&record).unwrap(), keys);
}
