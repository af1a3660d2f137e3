use super::*;
use crate::fakes::boot_id;
use crate::fakes::{FakeCloud, FakeDevices, FakeNamespaces, MadeUp, records_in};
use crate::host::files::LONGEST;
use crate::ports::store::Records as _;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn intent(id: Option<u32>, target: &[u8]) -> MountIntent {
    let target = PathBuf::from(OsStr::from_bytes(target));
    let number = DeviceNumber { major: 4095, minor: (1 << 20) - 1 };
    let propagation = "shared:2147483647 master:2147483647 ".to_owned();
    MountIntent { id, number, target, propagation }
}

#[test]
fn what_is_noted_of_a_namespace_is_forgotten_once_that_has_gone() {
    let noted = |namespace| Switching {
        boot: "boot".to_owned(),
        sign: NamespaceSign::of_number(namespace),
        mounts: vec![intent(None, b"/data")],
    };
    let mut all = vec![noted(1), noted(2), noted(3)];
    forget_gone(&mut all, &[noted(1).sign, noted(3).sign]);
    assert_eq!(all, [noted(2)]);
}

#[test]
fn a_heal_that_was_killed_or_a_mark_without_its_mount_is_left_over() {
    let record = || VolumeRecord::new(id());
    let mut switching = record();
    switching.heal.will_switch(&boot_id(), NamespaceSign::of_number(1), vec![intent(None, b"/")]);
    assert!(has_leftovers(&switching));
    let mut marked = record();
    marked.mark.is_set = true;
    assert!(has_leftovers(&marked));
    assert!(!has_leftovers(&record()));
}

#[test]
fn of_a_namespace_so_many_changes_are_remembered_and_so_many_bytes() {
    let short = |count: usize| is_too_much(&vec![intent(None, b"/"); count]);
    assert!(!short(0) && !short(1) && !short(MOST_CHANGES));
    assert!(short(MOST_CHANGES + 1));
    let each = bytes_of(&[intent(None, &[b'a'; 4000])]);
    let long = |count: usize| is_too_much(&vec![intent(None, &[b'a'; 4000]); count]);
    let most = MOST_BYTES / each;
    assert!(most < MOST_CHANGES);
    assert!(!long(most) && long(most + 1));
    // To the byte.
    let left = MOST_BYTES - most * each;
    let filled = |more: usize| {
        let mut all = vec![intent(None, &[b'a'; 4000]); most - 1];
        all.push(intent(None, &vec![b'a'; 4000 + more]));
        (bytes_of(&all), is_too_much(&all))
    };
    let step = filled(1).0 - filled(0).0;
    assert_eq!(left % step, 0, "each sign takes {step}");
    assert_eq!(filled(left / step), (MOST_BYTES, false));
    assert!(filled(left / step + 1).1);
}

/// The records of a machine where these changes are written down, and how long that file is.
fn noted(changes: Vec<MountIntent>) -> (tempfile::TempDir, u64) {
    let folder = tempfile::tempdir().unwrap();
    let sign = NamespaceSign { namespace: u64::MAX, count: Some(u64::MAX), dweller: None };
    let note = |record: &mut VolumeRecord| record.heal.will_switch(&boot_id(), sign, changes);
    records_in(&folder).update(&id(), note).unwrap();
    let length = folder.path().join("run/boot/v-1.json").metadata().unwrap().len();
    (folder, length)
}

fn switching_of(record: &VolumeRecord) -> Vec<Switching> {
    let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
    MadeUp::with(&cloud, &devices).drive(|cx| switching(cx, record))
}

fn id() -> VolumeId {
    VolumeId::parse("v-1").unwrap()
}

/// What a tenant may call a mount, from its number on.
const NAMES: [&[u8]; 5] = [b"plain", b"\x01\x1f", b"\"\\", b"\xff\xfe", "é磁".as_bytes()];

fn target(name: &[u8], length: usize, number: usize) -> Vec<u8> {
    let rest = name.iter().copied().cycle().take(length);
    format!("/{number}/").into_bytes().into_iter().chain(rest).collect()
}

#[test]
fn a_record_takes_no_more_for_a_change_than_is_counted() {
    for name in NAMES {
        let change = |number| intent(Some(u32::MAX), &target(name, 4000, number));
        let (_, one) = noted(vec![change(1)]);
        let (_, two) = noted(vec![change(1), change(2)]);
        let counted = bytes_of(&[change(2)]);
        assert!(two - one <= counted as u64, "{name:?}: {} > {counted}", two - one);
        assert_eq!(bytes_of(&[change(1), change(2)]), 2 * counted);
    }
    assert_eq!(bytes_of(&[]), 0);
}

/// One that is too long is not written, and no mount of the volume is switched.
#[test]
fn a_record_with_all_that_has_room_is_read_again() {
    for name in NAMES {
        let change = |number| intent(None, &target(name, 4000, number));
        let count = MOST_BYTES_OF_ALL[0] / bytes_of(&[change(0)]);
        let (folder, length) = noted((0..count).map(change).collect());
        assert!(length < LONGEST, "{name:?}: {length} bytes");
        let known = switching_of(&records_in(&folder).load(&id()));
        assert_eq!(known[0].mounts.len(), count, "{name:?}");
    }
}

#[test]
fn what_is_written_down_of_a_change_takes_no_room_again() {
    let change = |number| intent(None, &target(b"x", 4000, number));
    let most = MOST_BYTES_OF_ALL[2];
    let count = most / bytes_of(&[change(0)]);
    let (sign, other) = (NamespaceSign::of_number(1), NamespaceSign::of_number(2));
    let mounts = (0..count).map(change).collect();
    let known = [Switching { boot: String::new(), sign, mounts }];
    assert!(has_room(&known, &sign, &[change(0), change(1)], most));
    assert!(!has_room(&known, &sign, &[change(0), change(count)], most), "a further one");
    assert!(!has_room(&known, &other, &[change(0)], most), "that of another namespace");
    assert!(has_room(&known, &other, &[change(0)], MOST_BYTES_OF_ALL[1]), "a pod's");
    assert!(has_room(&[], &sign, &[change(0)], most));
    assert!(!has_room(&[], &sign, &[change(0)], 0));
}

#[test]
fn of_a_namespace_of_which_nothing_is_known_what_is_finished_is_forgotten_all_the_same() {
    let mounts = || vec![intent(None, b"/a"), intent(None, b"/b"), intent(Some(3), b"/a")];
    let of = |namespace| {
        let sign = NamespaceSign::of_number(namespace);
        Switching { boot: String::new(), sign, mounts: mounts() }
    };
    let mut switching = vec![of(1), of(2), of(3)];
    let finished = Finished::from([(NamespaceId(1), HashSet::from([PathBuf::from("/a")]))]);
    forget(&mut switching, &[NamespaceId(1), NamespaceId(2)], &finished);
    assert_eq!(switching.len(), 2);
    assert_eq!(switching[0].mounts, mounts()[1..]);
    assert_eq!(switching[1].mounts, mounts());
    let all = HashSet::from(["/a", "/b"].map(PathBuf::from));
    switching[1].mounts.pop();
    forget(&mut switching, &[NamespaceId(2)], &Finished::from([(NamespaceId(2), all)]));
    assert_eq!(switching, []);
}

#[test]
fn what_another_boot_has_begun_means_nothing() {
    let (folder, _) = noted(vec![intent(None, b"/data")]);
    let mut record = records_in(&folder).load(&id());
    assert_eq!(switching_of(&record), record.heal.switching);
    record.heal.switching[0].boot = "another".to_owned();
    assert_eq!(switching_of(&record), []);
}

fn mount(number: &str, target: &str) -> Mount {
    Mount::of_a_test(number, target, "")
}

fn namespace(number: u64, mounts: Vec<Mount>) -> NamespaceUse {
    NamespaceUse { id: Some(NamespaceId(number)), ..NamespaceUse::of_a_test(mounts, Vec::new()) }
}

/// What is done on a machine with these namespaces, where killed heals left something in these; and what was done to them.
fn after_a_kill<T>(
    namespaces: FakeNamespaces,
    left_in: &[u64],
    work: impl FnOnce(&Context<'_>) -> T,
) -> (T, Vec<String>, usize) {
    let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
    let made_up = MadeUp { namespaces, ..MadeUp::with(&cloud, &devices) };
    let (answer, count) = made_up.drive(|cx| {
        for number in left_in {
            let (sign, changes) = (NamespaceSign::of_number(*number), vec![intent(None, b"/data")]);
            let note =
                |record: &mut VolumeRecord| record.heal.will_switch(&boot_id(), sign, changes);
            cx.store.records.update(&id(), note).unwrap();
        }
        let answer = work(cx);
        (answer, cx.store.records.load(&id()).heal.switching.len())
    });
    (answer, made_up.namespaces.done.take(), count)
}

fn with(numbers: &[u64], is_broken: bool) -> FakeNamespaces {
    let all = numbers.iter().map(|number| namespace(*number, vec![mount("7:1", "/a")]));
    let namespaces = all.collect::<Vec<_>>().into();
    FakeNamespaces { namespaces, is_broken, ..FakeNamespaces::default() }
}

#[test]
fn what_a_killed_heal_left_is_put_right_and_what_has_gone_is_forgotten() {
    let set_back = |cx: &Context<'_>| set_back(cx, &id());
    assert_eq!(after_a_kill(with(&[1], false), &[], set_back), (None, vec![], 0));
    let (failed, done, remembered) = after_a_kill(with(&[1, 2], false), &[1, 2, 3], set_back);
    assert_eq!((failed, remembered), (Some(vec![]), 2), "that of the third is no more");
    assert_eq!(done, ["set back 1 in 1", "set back 1 in 2"]);
    let (failed, _, remembered) = after_a_kill(with(&[1], true), &[1], set_back);
    assert_eq!((failed, remembered), (Some(vec![NamespaceId(1)]), 1));
}

#[test]
fn where_nothing_is_switched_any_more_only_what_is_not_put_right_is_remembered() {
    let for_good = |cx: &Context<'_>| set_back_for_good(cx, &id());
    let ((), done, remembered) = after_a_kill(with(&[1], false), &[1], for_good);
    assert_eq!((done.len(), remembered), (1, 0));
    let ((), _, remembered) = after_a_kill(with(&[1], true), &[1], for_good);
    assert_eq!(remembered, 1);
}

#[test]
fn a_record_that_is_full_has_no_room_for_more() {
    let much = |bytes: usize| MountIntent { propagation: "x".repeat(bytes), ..intent(None, b"/b") };
    let one = (NamespaceSign::of_number(1), vec![much(1 << 20)]);
    let (rooms, ..) = after_a_kill(FakeNamespaces::default(), &[2], |cx| {
        [0, 5 << 20, 6 << 20].map(|more| has_room_for(cx, &id(), &one, 2, more))
    });
    assert_eq!(rooms, [true, false, false]);
    let (begun, ..) = after_a_kill(FakeNamespaces::default(), &[2], |cx| begun(cx, &id()));
    assert_eq!(begun.len(), 1);
}

#[test]
fn a_dead_disk_is_kept_by_one_of_its_own_mounts_wherever_that_is() {
    let mounts = || vec![mount("7:1", "/a"), mount("7:2", "/b"), mount("7:2", "/c")];
    let number = |minor| DeviceNumber { major: 7, minor };
    let stale = StaleMounts {
        disk: None,
        dead: vec![number(1), number(2)],
        own: mounts(),
        elsewhere: vec![namespace(5, mounts()), namespace(6, vec![mount("7:1", "/d")])],
        untold: None,
        is_all_known: true,
    };
    let soon = Deadline::after(Duration::from_secs(5));
    let ((kept, unkept), done, _) =
        after_a_kill(FakeNamespaces::default(), &[], |cx| keep_dead(cx, &stale, soon));
    assert_eq!(done, ["keep 1 in 0", "keep 1 in 5", "keep 1 in 6", "keep 2 in 0", "keep 2 in 5"]);
    assert!(kept.is_empty());
    let numbers: Vec<_> = unkept.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [number(1), number(2)]);
}
