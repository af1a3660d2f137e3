//! What the cloud is told of mounts, by a cloud that is made up and keeps marks.

use super::*;
use crate::fakes::{FakeCloud, FakeDevices, MadeUp};
use crate::model::policy::{GuardMode, GuardPolicy};
use crate::model::record::{DiskMoment, Staged};
use std::path::Path;

const SIZE: u64 = 1 << 30;

fn id() -> VolumeId {
    VolumeId::parse("v-1").unwrap()
}

fn server(name: &str) -> ServerId {
    ServerId::parse(name).unwrap()
}

/// A volume that is attached to these servers, in a cloud that keeps marks.
fn cloud(servers: &[&str]) -> FakeCloud {
    FakeCloud { keeps_marks: true, ..FakeCloud::default() }.with("v-1", SIZE, servers)
}

/// What this machine, on which nothing is mounted, does with a cloud's marks.
fn on_a_machine<T>(
    cloud: &FakeCloud,
    guard: &GuardPolicy,
    devices: &FakeDevices,
    work: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let made_up = MadeUp { guard: guard.clone(), ..MadeUp::with(cloud, devices) };
    made_up.drive(|cx| work(cx))
}

fn with<T>(cloud: &FakeCloud, work: impl FnOnce(&Context<'_>) -> T) -> T {
    on_a_machine(cloud, &GuardPolicy::default(), &FakeDevices::default(), work)
}

/// The record of a volume that is mounted, as far as marks go.
fn mount(cx: &Context<'_>) {
    let staged = mounted().mounts.staged.unwrap();
    cx.store.records.update(&id(), |record| record.is_staged(staged)).unwrap();
}

fn unmount(cx: &Context<'_>) {
    cx.store.records.update(&id(), |record| record.mounts.is_unstaged()).unwrap();
}

fn remembered(cx: &Context<'_>) -> VolumeRecord {
    cx.store.records.load(&id())
}

fn volume(cloud: &FakeCloud) -> CloudVolume {
    cloud.volumes.borrow()[0].clone()
}

fn change(cloud: &FakeCloud, change: impl FnOnce(&mut CloudVolume)) {
    change(&mut cloud.volumes.borrow_mut()[0]);
}

#[test]
fn a_mount_leaves_its_mark_once_and_its_unmount_takes_it_back() {
    let cloud = cloud(&["here"]);
    with(&cloud, |cx| {
        mount(cx);
        assert!(owes_mark(cx, &remembered(cx)));
        mark_mounted(cx, &id());
        assert_eq!(volume(&cloud).mounted_on, Some(server("here")));
        assert_eq!(volume(&cloud).life, Some(Life::HasData), "with the same note");
        let record = remembered(cx);
        assert!(
            record.mark.is_set
                && record.mark.is_data_reported
                && record.mark.requested_as.is_none()
        );
        assert!(!owes_mark(cx, &record));
        assert!(is_marked_or_cannot_be(cx, &id()));
        assert_eq!(cloud.notes.get(), 1);
        // While it is mounted it stays.
        unmark_mounted(cx, &id());
        assert!(volume(&cloud).is_marked() && remembered(cx).mark.is_set);
        unmount(cx);
        unmark_mounted(cx, &id());
        assert!(!volume(&cloud).is_marked() && !remembered(cx).mark.may_exist());
        assert_eq!(cloud.notes.get(), 2);
        unmark_mounted(cx, &id());
        assert_eq!(cloud.notes.get(), 2, "there is none");
    });
}

#[test]
fn a_mark_stays_while_the_disk_is_used() {
    let cloud = cloud(&["here"]);
    for used in [u32::MAX, 0] {
        let disk =
            FakeDevices { used: used.into(), ..FakeDevices::default().with("vdb", SIZE, "v-1") };
        on_a_machine(&cloud, &GuardPolicy::default(), &disk, |cx| {
            mount(cx);
            mark_mounted(cx, &id());
            unmount(cx);
            unmark_mounted(cx, &id());
        });
        assert_eq!(volume(&cloud).is_marked(), used > 0);
    }
}

#[test]
fn a_machine_that_leaves_no_marks_tells_of_data_alone() {
    let off = GuardPolicy { mode: GuardMode::Off, ..GuardPolicy::default() };
    let not_remote = GuardPolicy { remote: false, ..GuardPolicy::default() };
    for (policy, why) in [(off, "guard.mode is off"), (not_remote, "guard.remote is off")] {
        let cloud = cloud(&["here"]);
        on_a_machine(&cloud, &policy, &FakeDevices::default(), |cx| {
            assert_eq!(why_no_marks(cx), Some(why));
            mount(cx);
            mark_mounted(cx, &id());
            assert!(!volume(&cloud).is_marked() && !remembered(cx).mark.may_exist());
            assert_eq!(volume(&cloud).life, Some(Life::HasData));
            assert!(remembered(cx).mark.is_data_reported);
            mark_mounted(cx, &id());
            assert_eq!(cloud.notes.get(), 1, "that is told once");
            assert!(!owes_mark(cx, &remembered(cx)) && is_marked_or_cannot_be(cx, &id()));
            // A mark that is there is not this machine's to take away.
            change(&cloud, |volume| volume.mounted_on = Some(server("here")));
            change(&cloud, |volume| volume.attachments.clear());
            end_mark_of_before(cx, &volume(&cloud), &server("here"));
            assert!(volume(&cloud).is_marked());
        });
    }
    let no_marks = FakeCloud::default().with("v-1", SIZE, &["here"]);
    with(&no_marks, |cx| {
        assert_eq!(why_no_marks(cx), Some("this cloud keeps no marks"));
        mark_mounted(cx, &id());
        assert_eq!(volume(&no_marks).life, Some(Life::HasData));
        assert!(!remembered(cx).mark.is_data_reported, "it is repeated rather than remembered");
    });
    with(&cloud(&[]), |cx| assert_eq!(why_no_marks(cx), None));
}

#[test]
fn a_cloud_that_allows_no_notes_is_remembered_until_it_does() {
    let cloud = cloud(&["here"]);
    with(&cloud, |cx| {
        cloud.forbids_notes.set(true);
        mount(cx);
        assert!(is_marked_or_cannot_be(cx, &id()), "the pod must do without");
        let record = remembered(cx);
        assert_eq!(record.mark.notes_forbidden.as_deref(), Some("no notes for this user"));
        assert!(!record.mark.is_set && !owes_mark(cx, &record));
        cloud.forbids_notes.set(false);
        mark_mounted(cx, &id());
        assert_eq!(remembered(cx).mark.notes_forbidden, None);
        assert!(volume(&cloud).is_marked());
    });
}

#[test]
fn a_cloud_that_is_down_is_told_later() {
    let cloud = cloud(&["here"]);
    with(&cloud, |cx| {
        cloud.is_down.set(true);
        mount(cx);
        assert!(!is_marked_or_cannot_be(cx, &id()));
        assert!(note_data(cx, &id()).is_err());
        assert!(owes_mark(cx, &remembered(cx)));
        unmount(cx);
        cloud.is_down.set(false);
        unmark_mounted(cx, &id());
        assert_eq!(volume(&cloud).life, Some(Life::HasData), "what it wrote stays");
        assert!(!volume(&cloud).is_marked());
    });
}

#[test]
fn after_a_heal_a_mark_that_went_with_the_disk_is_left_anew() {
    let cloud = cloud(&["here"]);
    with(&cloud, |cx| {
        mount(cx);
        mark_healed(cx, &id());
        assert_eq!(cloud.notes.get(), 0, "it had none");
        mark_mounted(cx, &id());
        mark_healed(cx, &id());
        assert_eq!(cloud.notes.get(), 1, "it is there still");
        change(&cloud, |volume| volume.mounted_on = None);
        doubt_mark(cx, &id());
        assert!(owes_mark(cx, &remembered(cx)));
        mark_healed(cx, &id());
        assert_eq!(volume(&cloud).mounted_on, Some(server("here")));
        assert!(!owes_mark(cx, &remembered(cx)), "what was in doubt is known");
        // Where it cannot be asked for it is asked for later.
        cloud.is_down.set(true);
        mark_healed(cx, &id());
        assert!(owes_mark(cx, &remembered(cx)));
    });
}

#[test]
fn each_reader_of_a_shared_volume_has_its_own_mark() {
    let cloud = cloud(&["here", "there"]);
    change(&cloud, |volume| volume.mounted_on = Some(server("there")));
    with(&cloud, |cx| {
        mount(cx);
        mark_mounted(cx, &id());
        let (now, record) = (volume(&cloud), remembered(cx));
        assert_eq!(now.mounted_on, Some(server("there")));
        assert!(now.mounted_beside.contains(&server("here")));
        assert_eq!((record.mark.is_set, record.mark.set_beside), (false, Some(server("here"))));
        // A detach by force takes it away without a word.
        change(&cloud, |volume| volume.mounted_beside.clear());
        mark_healed(cx, &id());
        assert!(volume(&cloud).mounted_beside.contains(&server("here")));
        unmount(cx);
        unmark_mounted(cx, &id());
        let now = volume(&cloud);
        assert!(now.mounted_beside.is_empty() && now.mounted_on == Some(server("there")));
    });
    // The mark of a server that does not have the volume any more is not kept.
    let cloud = self::cloud(&["here"]);
    change(&cloud, |volume| volume.mounted_on = Some(server("there")));
    with(&cloud, |cx| {
        mark_mounted(cx, &id());
        assert_eq!(volume(&cloud).mounted_on, Some(server("here")));
    });
}

#[test]
fn the_mark_of_an_earlier_life_ends_before_an_attach() {
    for (servers, is_kept) in [(&["here"][..], true), (&[], false)] {
        let cloud = cloud(servers);
        change(&cloud, |volume| volume.mounted_on = Some(server("here")));
        with(&cloud, |cx| end_mark_of_before(cx, &volume(&cloud), &server("here")));
        assert_eq!(volume(&cloud).is_marked(), is_kept);
    }
    let cloud = cloud(&[]);
    with(&cloud, |cx| end_mark_of_before(cx, &volume(&cloud), &server("here")));
    assert_eq!(cloud.notes.get(), 0, "there is none");
}

#[test]
fn a_mark_that_was_asked_for_and_not_answered_may_still_come() {
    let cloud = cloud(&["here"]);
    with(&cloud, |cx| {
        mount(cx);
        let ask = |at: u64| {
            cx.store.records.update(&id(), |record| {
                record.mark.requested_at = Some(at);
                record.mark.requested_as = Some(server("here"));
            })
        };
        let now = millis_since_boot();
        unmount(cx);
        ask(now).unwrap();
        unmark_mounted(cx, &id());
        assert!(remembered(cx).mark.may_exist(), "the timer looks for it once more");
        for at in [now.saturating_sub(600_000), now + 600_000] {
            ask(at).unwrap();
            unmark_mounted(cx, &id());
            assert!(!remembered(cx).mark.may_exist(), "{at}: it has had its time");
        }
    });
}

fn record() -> VolumeRecord {
    VolumeRecord::new(id())
}

fn mounted() -> VolumeRecord {
    let disk = DiskMoment::of_a_test(1, "boot");
    let mut record = record();
    record.is_staged(Staged::new(Path::new("/stage"), &disk, "ext4", ""));
    record
}

fn unmounted() -> VolumeRecord {
    let mut record = mounted();
    record.mounts.is_unstaged();
    record
}

#[test]
fn a_mark_that_is_remembered_and_not_seen_is_lost() {
    let own = || ServerId::parse("own").unwrap();
    let lost = |is_marked, is_beside: bool, first, beside| {
        let set_beside = is_beside.then(own);
        let seen = Marks { first, beside };
        seen.lacks_one_of(&MarkRecord { is_set: is_marked, set_beside, ..MarkRecord::default() })
    };
    assert!(lost(true, false, false, true), "the other one is no mark of this mount");
    assert!(lost(false, true, true, false));
    assert!(lost(true, true, true, false));
    assert!(!lost(true, true, true, true));
    assert!(!lost(true, false, true, false));
    assert!(!lost(false, true, false, true));
    assert!(!lost(false, false, false, false));
}

#[test]
fn the_cloud_is_told_of_data_once_a_mount_is_over_that_it_was_not_told_of() {
    assert!(owes_note(&unmounted()));
    assert!(!owes_note(&mounted()), "the next call tells it");
    assert!(!owes_note(&record()), "it was never mounted");
    let with = |mark| VolumeRecord { mark, ..unmounted() };
    assert!(!owes_note(&with(MarkRecord { is_data_reported: true, ..MarkRecord::default() })));
    let notes_forbidden = Some("403".to_owned());
    assert!(!owes_note(&with(MarkRecord { notes_forbidden, ..MarkRecord::default() })));
}

#[test]
fn a_mark_stays_while_the_volume_is_mounted() {
    let marked = |record| {
        let mark = MarkRecord { is_set: true, ..MarkRecord::default() };
        VolumeRecord { mark, ..record }
    };
    assert!(marked(unmounted()).may_lose_mark());
    assert!(!marked(mounted()).may_lose_mark());
    assert!(!unmounted().may_lose_mark(), "there is none");
}
