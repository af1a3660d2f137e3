use super::*;
use crate::MapShield;
use crate::driver::Store;
use crate::fakes::moment;
use crate::fakes::{FakeCloud, FakeDevices, MadeUp, records_in};
use crate::host::machine::uptime;
use crate::host::records::RecordFiles;
use crate::model::disk::journal::sights::JournalSights;
use crate::model::policy::{ShieldMode, ShieldPolicy};
use crate::model::record::{MapIntent, Staged};
use crate::model::timestamp::Uptime;
use crate::ports::store::Records as _;
use crate::tests::fake_map::{FakeJournal, FakeMap};

const ID: &str = "v-1";

fn map(has_disk: bool) -> OwnMap {
    OwnMap::of_a_test(has_disk, true, true)
}

fn with(
    maps: &FakeMap,
    devices: &FakeDevices,
    records: &RecordFiles,
    work: impl FnOnce(&Context<'_>),
) {
    let cloud = FakeCloud::default();
    let shield = ShieldPolicy { mode: ShieldMode::On, patience: 2 };
    let made_up =
        MadeUp { shield_hooks: &MapShield { maps }, shield, ..MadeUp::with(&cloud, devices) };
    made_up.drive(|cx| work(&Context { store: Store { records, ..cx.store }, ..*cx }));
}

/// Looks so often after a map that waits for so long already; answers what was done, and what is remembered.
fn looked(
    (map, devices): (OwnMap, &FakeDevices),
    waited: Option<u64>,
    times: usize,
) -> (Vec<&'static str>, Option<MapWait>) {
    let folder = tempfile::tempdir().unwrap();
    let records = records_in(&folder);
    let id = VolumeId::parse(ID).unwrap();
    let now = uptime();
    let since = |ago| Uptime { seconds: now.seconds - ago, ..now.clone() };
    let cause = WaitCause::Gone;
    let wait = waited.map(|ago| MapWait { since: since(ago), cause, not_switched: None });
    records.update(&id, |record| record.shield.map_wait = wait).unwrap();
    let maps = FakeMap::of(Some(map));
    with(&maps, devices, &records, |cx| {
        for _ in 0..times {
            assert!(matches!(
                cx.host.shield.disk_returned(cx, &id),
                Returned::Not | Returned::Fails(_)
            ));
        }
    });
    (maps.done.into_inner(), records.load(&id).shield.map_wait)
}

#[test]
fn a_wait_begins_when_it_is_seen_and_ends_with_the_patience() {
    let none = FakeDevices::default();
    let (done, wait) = looked((map(false), &none), None, 2);
    assert_eq!((done, wait.unwrap().not_switched), (vec![], None));
    let (done, wait) = looked((map(false), &none), Some(2), 1);
    assert_eq!((done, wait), (vec!["end"], None));
}

/// Where a process hangs on the disk nothing is read from it.
#[test]
fn the_time_is_kept_without_a_look_at_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let records = records_in(&folder);
    let id = VolumeId::parse(ID).unwrap();
    let (maps, devices) = (FakeMap::of(Some(map(false))), FakeDevices::default());
    with(&maps, &devices, &records, |cx| {
        assert!(shield::waits(cx, &id));
        cx.host.shield.tend_hanging(cx, &id);
        let begun = records.load(&id).shield.map_wait.unwrap();
        assert!(maps.done.borrow().is_empty(), "it has just begun");
        let since = Uptime { seconds: begun.since.seconds - 2, ..begun.since.clone() };
        records
            .update(&id, |record| record.shield.map_wait = Some(MapWait { since, ..begun }))
            .unwrap();
        cx.host.shield.tend_hanging(cx, &id);
        assert_eq!(*maps.done.borrow(), ["end"]);
    });
    let works = FakeMap::of(Some(map(true)));
    with(&works, &devices, &records, |cx| assert!(!shield::waits(cx, &id)));
    with(&FakeMap::of(None), &devices, &records, |cx| assert!(!shield::waits(cx, &id)));
}

#[test]
fn a_request_that_fails_each_time_is_waited_for_as_long_as_the_patience_is() {
    let at_path = OwnMap::of_a_test(true, false, true);
    let none = FakeDevices::default();
    let (done, wait) = looked((at_path.clone(), &none), None, 1);
    // Not told to go on, for whose disk is there now is not proven.
    let wait = wait.unwrap();
    assert_eq!((done, wait.cause), (vec![], WaitCause::Failing));
    assert_eq!(wait.not_switched.unwrap(), "its disk is gone");
    let (done, wait) = looked((at_path.clone(), &none), Some(2), 1);
    assert_eq!((done, wait), (vec!["end"], None));
    // Another volume's disk is at that place now.
    let mut others = FakeDevices::default().with("vdb", 16, "v-2");
    others.disks[0].0.number = at_path.table.unwrap().path;
    let (done, wait) = looked((at_path, &others), None, 1);
    let why = wait.unwrap().not_switched.unwrap();
    assert!(done.is_empty() && why.contains("no disk of this machine shows"), "{why}");
}

/// After its patience it is no wait any more: as without a map the next request may be tried, but not on a disk
/// that is seen to be another one.
#[test]
fn what_fails_goes_on_on_its_own_disk_alone() {
    let map = OwnMap::of_a_test(true, false, false);
    let path = map.table.unwrap().path;
    let over_it = |serial: &str| {
        let mut devices = FakeDevices::default().with("dm-0", 0, serial).with("vdb", 16, "");
        devices.disks[1].0.number = path;
        devices
    };
    let (its, others, none) = (over_it(ID), over_it("v-2"), FakeDevices::default());
    let mut elsewhere = over_it("v-2").with("vdc", 16, ID);
    elsewhere.disks[2].0.number.minor = 99;
    for (devices, done) in
        [(&its, vec!["again"]), (&others, vec![]), (&elsewhere, vec![]), (&none, vec![])]
    {
        assert_eq!(looked((map.clone(), devices), Some(1), 1), (done, None));
    }
    let unused = OwnMap { opened: 0, ..map.clone() };
    assert_eq!(looked((unused, &its), Some(1), 1), (vec![], None), "nothing asks it");
    // Where its journal is remembered, and can be told, it has to be as it was.
    let folder = tempfile::tempdir().unwrap();
    let records = records_in(&folder);
    let id = VolumeId::parse(ID).unwrap();
    let journal = JournalMark::FirstTransaction(7);
    let intent = MapIntent { map: moment(&its.disks[0].0), journal };
    records.update(&id, |record| record.shield.map_intent = Some(intent)).unwrap();
    for (told, done) in [(FakeJournal::Told, vec![]), (FakeJournal::Lost, vec!["again"])] {
        let mut maps = FakeMap::of(Some(map.clone()));
        maps.journal = told;
        with(&maps, &its, &records, |cx| {
            cx.host.shield.tend_hanging(cx, &id);
            let fails = matches!(cx.host.shield.disk_returned(cx, &id), Returned::Fails(_));
            assert_eq!(fails, done.is_empty());
        });
        assert_eq!(maps.done.into_inner(), done);
    }
}

#[test]
fn the_superblock_in_memory_is_noted_once_and_of_a_map_that_works() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let records = records_in(&folder);
    let id = VolumeId::parse(ID).unwrap();
    let devices = FakeDevices::default().with("dm-0", 0, ID);
    let now = moment(&devices.disks[0].0);
    let intent = MapIntent { map: now.clone(), journal: JournalMark::FirstTransaction(7) };
    records.update(&id, |record| record.shield.map_intent = Some(intent)).unwrap();
    let noted = |map: OwnMap| {
        let maps = FakeMap::of(Some(map));
        with(&maps, &devices, &records, |cx| cx.host.shield.tend(cx, &id));
        records.load(&id).shield.superblocks_through(&now).to_vec()
    };
    assert!(noted(OwnMap::of_a_test(false, false, true)).is_empty(), "it waits");
    records
        .update(&id, |record| record.shield.saw_superblock(now.clone(), "zero".to_owned()))
        .unwrap();
    assert_eq!(noted(map(true)), ["zero", "one"]);
    let written = || {
        let all = walk(folder.path());
        all.iter().map(|path| std::fs::metadata(path).unwrap().ino()).collect::<Vec<_>>()
    };
    let before = written();
    assert_eq!(noted(map(true)), ["zero", "one"]);
    assert_eq!(written(), before, "it is written once");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    all.collect()
}

#[test]
fn a_map_that_is_gone_has_no_wait() {
    let folder = tempfile::tempdir().unwrap();
    let records = records_in(&folder);
    let id = VolumeId::parse(ID).unwrap();
    let (since, cause) = (uptime(), WaitCause::Gone);
    let wait = Some(MapWait { since, cause, not_switched: None });
    records.update(&id, |record| record.shield.map_wait = wait).unwrap();
    with(&FakeMap::of(None), &FakeDevices::default(), &records, |cx| {
        assert!(matches!(
            cx.host.shield.disk_returned(cx, &id),
            Returned::Not | Returned::Fails(_)
        ));
    });
    assert_eq!(records.load(&id).shield.map_wait, None);
}

#[test]
fn a_map_that_works_has_no_wait() {
    let (done, wait) = looked((map(true), &FakeDevices::default()), Some(2), 1);
    assert_eq!((done, wait), (vec![], None));
}

#[test]
fn a_table_that_a_killed_call_has_loaded_is_cleared_first() {
    let none = FakeDevices::default();
    let loaded = OwnMap { has_second_table: true, ..map(false) };
    let (done, wait) = looked((loaded, &none), None, 1);
    assert_eq!((done, wait.unwrap().cause), (vec!["settle"], WaitCause::Gone));
}

#[test]
fn a_map_whose_disk_could_not_be_compared_waits_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let records = records_in(&folder);
    let id = VolumeId::parse(ID).unwrap();
    let map = map(true);
    let devices = FakeDevices::default().with("dm-0", 0, ID);
    let over = devices.disks[0].0.clone();
    assert_eq!(over.number, map.number);
    for (is_remembered, told, done) in [
        (true, FakeJournal::Lost, vec!["end"]),
        (true, FakeJournal::Told, vec![]),
        (true, FakeJournal::Unasked, vec![]),
        (false, FakeJournal::Lost, vec![]),
    ] {
        let journal = JournalMark::FirstTransaction(7);
        let intent = MapIntent { map: moment(&over), journal };
        let intent = Some(intent).filter(|_| is_remembered);
        records.update(&id, |record| record.shield.map_intent = intent).unwrap();
        let mut maps = FakeMap::of(Some(map.clone()));
        maps.journal = told;
        with(&maps, &devices, &records, |cx| {
            assert!(matches!(
                cx.host.shield.disk_returned(cx, &id),
                Returned::Not | Returned::Fails(_)
            ));
        });
        assert_eq!(maps.done.into_inner(), done, "{is_remembered} {told:?}");
    }
}

#[test]
fn a_disk_that_cannot_be_looked_at_is_not_put_under_the_map_and_it_is_said_why() {
    let disk = FakeDevices::default().with("vdc", 5, ID);
    let (done, wait) = looked((map(false), &disk), None, 2);
    let wait = wait.unwrap();
    assert_eq!(done, Vec::<&str>::new());
    // The next look may be another one.
    assert!(wait.is_for_a_look());
    let why = wait.not_switched.unwrap();
    assert!(why.contains("cannot be opened"), "{why}");
    let gone = looked((map(false), &FakeDevices::default()), None, 1).1.unwrap();
    assert!(!gone.is_for_a_look());
}

/// kubelet calls no other one once the pod is deleted, and a machine may have neither udev nor a timer.
#[test]
fn an_unmount_that_would_wait_looks_after_the_disk_itself() {
    let folder = tempfile::tempdir().unwrap();
    let records = records_in(&folder);
    let id = VolumeId::parse(ID).unwrap();
    let is_asked = |map: OwnMap, devices: &FakeDevices| {
        let maps = FakeMap::of(Some(map));
        let mut answer = Ok(());
        with(&maps, devices, &records, |cx| answer = cx.host.shield.before_unmount(cx, &id));
        (maps.done.into_inner(), answer.map_err(|error| error.cause))
    };
    let (none, back) = (FakeDevices::default(), FakeDevices::default().with("vdc", 16, ID));
    assert_eq!(is_asked(map(true), &none), (vec![], Ok(())));
    assert_eq!(records.load(&id).shield.map_wait, None, "no look at a map that works");
    let why = is_asked(map(false), &none).1.unwrap_err();
    assert!(why.ends_with("an unmount would wait too"), "{why}");
    let why = is_asked(map(false), &back).1.unwrap_err();
    assert!(why.contains("an unmount would wait too; the disk that is here is not put"), "{why}");
    let past = |record: &mut VolumeRecord| {
        let wait = record.shield.map_wait.as_mut().unwrap();
        wait.since.seconds -= 2;
    };
    records.update(&id, past).unwrap();
    assert_eq!(is_asked(map(false), &none), (vec!["end"], Ok(())), "its patience is over");
}

/// A disk that came back to a map that waits, and how the volume was mounted through that.
struct Back {
    devices: FakeDevices,
    record: VolumeRecord,
    sights: JournalSights,
}

impl Back {
    /// As it was left: after four transactions, of which 101 was the first.
    fn as_it_was() -> Self {
        let mut devices = FakeDevices::default().with("dm-0", 1 << 30, "").with("vdc", 1 << 30, ID);
        devices.opens = true;
        let sights = JournalSights::of_a_test(Some(4), 105);
        let mut record = VolumeRecord::new(VolumeId::parse(ID).unwrap());
        let over = moment(&devices.disks[0].0);
        record.is_staged(Staged {
            journal: Some(JournalMark::FirstTransaction(101)),
            transport: None,
            ..Staged::new("/g".as_ref(), &over, "ext4", &sights.uuid())
        });
        Self { devices, record, sights }
    }

    fn staged(&mut self) -> &mut Staged {
        self.record.mounts.staged.as_mut().unwrap()
    }

    /// What a look does, and what is remembered of the wait.
    fn looked(self) -> (Vec<&'static str>, Option<MapWait>) {
        let folder = tempfile::tempdir().unwrap();
        let records = records_in(&folder);
        let id = VolumeId::parse(ID).unwrap();
        records.update(&id, |record| *record = self.record).unwrap();
        let mut maps = FakeMap::of(Some(map(false)));
        maps.sights = Some(self.sights);
        with(&maps, &self.devices, &records, |cx| {
            let is_back = matches!(cx.host.shield.disk_returned(cx, &id), Returned::Back);
            assert_eq!(is_back, maps.done.borrow().as_slice() == ["switch"]);
        });
        (maps.done.into_inner(), records.load(&id).shield.map_wait)
    }

    /// Why it was not put under the map, and whether the next look may do so.
    fn refused(self) -> (String, WaitCause) {
        let (done, wait) = self.looked();
        assert_eq!(done, Vec::<&str>::new());
        let wait = wait.unwrap();
        (wait.not_switched.unwrap_or_default(), wait.cause)
    }
}

#[test]
fn a_disk_that_is_as_it_was_left_is_put_under_its_map() {
    assert_eq!(Back::as_it_was().looked(), (vec!["switch"], None));
}

#[test]
fn a_disk_that_anything_else_may_have_written_to_is_not_put_under_its_map() {
    type Change = fn(&mut Back);
    let cases: [(Change, &str); 8] = [
        (|back| back.devices.disks[1].0.read_only = true, "vdc refuses writes"),
        (|back| back.record.mark.is_shareable = Some(true), "several servers"),
        (|back| back.record.mounts.staged = None, "how the volume was mounted is not remembered"),
        (|back| back.staged().disk.sequence = Some(99), "how the volume was mounted is not"),
        (|back| back.staged().journal = None, "how far its journal was at the mount is not known"),
        (|back| back.staged().uuid = "another".to_owned(), "and not another"),
        (|back| back.sights = JournalSights::of_a_test(Some(4), 104), "an earlier state"),
        (|back| back.sights = JournalSights::of_a_test(None, 105), "not in its memory any more"),
    ];
    for (change, words) in cases {
        let mut back = Back::as_it_was();
        change(&mut back);
        let (why, cause) = back.refused();
        assert!(why.contains(words), "{words}: {why}");
        assert_eq!(cause, WaitCause::Refused, "{words}");
    }
}

#[test]
fn what_cannot_be_looked_at_now_is_looked_at_again() {
    type Change = fn(&mut Back);
    let cases: [(Change, &str); 3] = [
        (|back| back.devices.used = u32::MAX.into(), "something uses vdc"),
        (|back| back.devices.disks[0].0.number.minor = 99, "dm-0 is gone"),
        // A disk of no size is none yet.
        (|back| back.devices.disks[1].0.size = 0, ""),
    ];
    for (change, words) in cases {
        let mut back = Back::as_it_was();
        change(&mut back);
        let (why, cause) = back.refused();
        assert_eq!((why.contains(words), cause), (true, WaitCause::Gone), "{words}: {why}");
    }
}
