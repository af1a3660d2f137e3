//! The driver's operations on a machine that has a map.

use crate::MapShield;
use crate::driver::Context;
use crate::driver::heal::sweep::{Swept, sweep_all};
use crate::fakes::{FakeCloud, FakeDevices, FakeNamespaces, MadeUp, moment};
use crate::host::left_behind::{self, LeftProcess};
use crate::model::disk::journal::sights::JournalMark;
use crate::model::ids::VolumeId;
use crate::model::policy::{GuardMode, GuardPolicy, HealMode};
use crate::model::record::{MapWait, Staged, VolumeRecord, WaitCause};
use crate::model::shield::own_map::OwnMap;
use crate::tests::fake_map::FakeMap;
use std::collections::BTreeSet;
use std::path::Path;

/// What a detach of a volume answers that has this map, how often it asked the cloud, and what it did to the map.
fn detached(maps: &FakeMap, disk: &str, mode: GuardMode) -> (Option<String>, u32) {
    detached_from(&FakeDevices::default().with("vdb", 1 << 30, disk), maps, false, mode)
}

fn detached_from(
    devices: &FakeDevices,
    maps: &FakeMap,
    processes_are_seen: bool,
    mode: GuardMode,
) -> (Option<String>, u32) {
    let cloud = FakeCloud::default().with("v-1", 1 << 30, &["here"]);
    let made_up = MadeUp {
        shield_hooks: &MapShield { maps },
        namespaces: FakeNamespaces { is_blind: !processes_are_seen, ..FakeNamespaces::default() },
        guard: GuardPolicy { mode, ..GuardPolicy::default() },
        ..MadeUp::with(&cloud, devices)
    };
    made_up.detached()
}

/// No machine of the tests has device mapper but the virtual ones.
#[test]
fn a_disk_leaves_with_its_map_and_not_under_one_that_is_used() {
    let map = |opened, has_disk| {
        let map = OwnMap { opened, ..OwnMap::of_a_test(has_disk, true, true) };
        FakeMap::of(Some(map))
    };
    let unused = map(0, true);
    assert_eq!(detached(&unused, "v-1", GuardMode::Enforce), (None, 1));
    assert_eq!(unused.done.into_inner(), ["remove"]);
    let used = map(2, true);
    let (why, requests) = detached(&used, "v-1", GuardMode::Enforce);
    assert!(why.unwrap().ends_with("it is open 2 times, and keeps the disk"));
    assert_eq!((requests, used.done.into_inner()), (0, vec![]));
    assert_eq!(detached(&map(2, true), "v-1", GuardMode::Off), (None, 1));
    assert_eq!(detached(&map(2, true), "v-1", GuardMode::Warn), (None, 1));
    // Its disk is away already, and what has it open waits for that.
    for disk in ["v-1", "another"] {
        let (why, requests) = detached(&map(1, false), disk, GuardMode::Enforce);
        let why = why.unwrap();
        assert!(why.contains("the map dm-0 of volume v-1 waits for its disk"), "{why}");
        assert_eq!(requests, 0);
    }
    assert_eq!(detached(&map(0, false), "another", GuardMode::Enforce), (None, 1));
    // Where neither processes nor disks can be seen the orchestrator's word is all there is.
    let mut untold = map(1, false);
    untold.untold = Some("v-1");
    assert_eq!(detached(&untold, "another", GuardMode::Enforce), (None, 1));
    // Where they can be seen it is not.
    let disks = FakeDevices::default().with("vdb", 1 << 30, "another");
    let told = detached_from(&disks, &untold, true, GuardMode::Enforce);
    assert_eq!(told, (Some("it cannot be told".to_owned()), 0));
}

#[test]
fn a_map_that_cannot_be_removed_is_no_refusal_that_a_mode_leaves_out() {
    let own = OwnMap { opened: 0, ..OwnMap::of_a_test(true, true, true) };
    let mut map = FakeMap::of(Some(own));
    map.stays = true;
    for mode in [GuardMode::Enforce, GuardMode::Warn] {
        let told = detached(&map, "v-1", mode);
        assert_eq!(told, (Some("the kernel has no memory".to_owned()), 0), "{mode:?}");
    }
}

/// What a look answers on a machine where the volume's map waits, and what is remembered of its wait.
fn looked(
    devices: &FakeDevices,
    mode: HealMode,
    before: impl FnOnce(&Context<'_>, &VolumeId),
) -> (Swept, Option<MapWait>) {
    let waits = FakeMap::of(Some(OwnMap::of_a_test(false, true, true)));
    let cloud = FakeCloud::default().with("v-1", 1 << 30, &["here"]);
    let made_up =
        MadeUp { shield_hooks: &MapShield { maps: &waits }, ..MadeUp::with(&cloud, devices) };
    made_up.drive(|cx| {
        let id = VolumeId::parse("v-1").unwrap();
        before(cx, &id);
        let swept = sweep_all(cx, mode, &BTreeSet::new(), &mut |_, _| {}).unwrap();
        (swept, cx.store.records.load(&id).shield.map_wait)
    })
}

#[test]
fn a_wait_for_no_more_than_a_look_is_told_by_the_sweep_that_looked() {
    let unread = FakeDevices { unread: Some("/dev: I/O error"), ..FakeDevices::default() };
    let wait = |cx: &Context<'_>, id: &VolumeId| {
        let not_switched = Some("/dev: I/O error".to_owned());
        let since = crate::host::machine::uptime();
        let wait = MapWait { since, cause: WaitCause::Gone, not_switched };
        cx.store.records.update(id, |record| record.shield.map_wait = Some(wait)).unwrap();
    };
    let told = |devices, mode| looked(devices, mode, wait).0.waits_for_a_look;
    assert!(told(&unread, HealMode::Auto));
    assert!(!told(&unread, HealMode::Report), "a plan looks at nothing");
    assert!(!told(&FakeDevices::default(), HealMode::Auto), "the disk is not there");
}

#[test]
fn where_a_process_hangs_on_the_disk_the_time_of_the_wait_is_kept_all_the_same() {
    let devices = FakeDevices::default().with("vdb", 1 << 30, "v-1");
    let hangs = |cx: &Context<'_>, id: &VolumeId| {
        cx.store.locks.take(id, "a call", cx.deadline).unwrap().required().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let lock = cx.store.scratch.join("locks/v-1.lock");
        left_behind::note(&lock, &[LeftProcess::of(own, "unmount", 0).unwrap()]);
    };
    let (swept, wait) = looked(&devices, HealMode::Auto, hangs);
    assert!(swept.is_hanging && wait.is_some());
    let (swept, wait) = looked(&devices, HealMode::Report, hangs);
    assert!(swept.is_hanging && wait.is_none());
}

#[test]
fn the_superblock_of_a_map_that_works_is_noted_and_not_for_a_plan() {
    let noted = |mode| {
        let works = FakeMap::of(Some(OwnMap::of_a_test(true, true, true)));
        let cloud = FakeCloud::default().with("v-1", 1 << 30, &["here"]);
        // The map as a disk, at its number, and the volume's own.
        let devices = FakeDevices::default().with("dm-0", 1 << 30, "").with("vdb", 1 << 30, "v-1");
        let made_up =
            MadeUp { shield_hooks: &MapShield { maps: &works }, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|cx| {
            let id = VolumeId::parse("v-1").unwrap();
            let map = moment(&devices.disks[0].0);
            let mount = |record: &mut VolumeRecord| {
                let journal = Some(JournalMark::FirstTransaction(7));
                record.is_staged(Staged {
                    journal,
                    ..Staged::new(Path::new("/stage"), &map, "ext4", "")
                });
            };
            cx.store.records.update(&id, mount).unwrap();
            sweep_all(cx, mode, &BTreeSet::new(), &mut |_, _| {}).unwrap();
            cx.store.records.load(&id).shield.superblocks_through(&map).len()
        })
    };
    assert_eq!([HealMode::Auto, HealMode::Report].map(noted), [1, 0]);
}
