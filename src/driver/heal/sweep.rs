//! Heal without a kubelet call, since none may follow when a disk comes back: udev, a timer or a person asks to look
//! after all volumes of this node, or those of one disk.

use crate::context::Context;
use crate::heal;
use crate::heal::diagnosis::HealOccasion;
use crate::heal::outcome::{HealProgress, Healed};
use crate::lookup::{locking, mounted_here};
use crate::model::disk::device::{Device, DeviceNumber, Identity};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::policy::HealMode;
use crate::model::text::{kept, without_digits};
use crate::operation::moment;
use crate::ports::clock::Deadline;
use crate::ports::store::Locked;
use std::collections::BTreeSet;
use std::time::Duration;

/// Called for each volume as soon as its result is known.
pub type Tell<'a> = &'a mut dyn FnMut(&VolumeId, Result<Healed>);

/// Which volumes were skipped.
#[derive(Debug, Default, Clone, Copy)]
pub struct Swept {
    /// Whether a call is working on some.
    pub is_busy: bool,
    /// Whether an earlier call's process hangs on the disks of some.
    pub is_hanging: bool,
    /// Whether the maps of some wait although their disks are here.
    pub waits_for_a_look: bool,
}

/// How long to wait for a call that works on the disk's volume: most calls heal it themselves, and no event follows.
const CALLS_END: Duration = Duration::from_secs(30);

/// Heals every volume of this node, or reports the plan; postponed volumes come last.
pub fn sweep_all(
    cx: &Context<'_>,
    mode: HealMode,
    put_off: &BTreeSet<String>,
    tell: Tell<'_>,
) -> Result<Swept> {
    let (last, first): (Vec<_>, Vec<_>) =
        mounted_here::all(cx)?.into_iter().partition(|id| put_off.contains(id.as_str()));
    Ok(sweep(cx, first.into_iter().chain(last), mode, Duration::ZERO, tell))
}

/// Heals the volume whose disk has this number. For a disk that was never mounted here this only reads the records, and
/// does not ask the cloud.
pub fn sweep_disk(
    cx: &Context<'_>,
    number: DeviceNumber,
    mode: HealMode,
    tell: Tell<'_>,
) -> Result<Swept> {
    let shown = cx.host.devices.shown_by(number)?.unwrap_or_default();
    let mut ids = mounted_here::all(cx)?;
    ids.retain(|id| cx.cloud.identity(id).proven_by(&shown).is_some());
    Ok(sweep(cx, ids, mode, CALLS_END, tell))
}

fn sweep(
    cx: &Context<'_>,
    ids: impl IntoIterator<Item = VolumeId>,
    mode: HealMode,
    patience: Duration,
    tell: Tell<'_>,
) -> Swept {
    let mut swept = Swept::default();
    for id in ids {
        let patience = Deadline::after(patience);
        let lock = cx.store.locks.take(&id, cx.operation, patience).and_then(Locked::required);
        // Report a hung disk without making the others wait.
        if let (Ok(_), Err(error)) = (&lock, locking::nothing_hangs(cx, &id)) {
            swept.is_hanging = true;
            if mode == HealMode::Auto {
                cx.host.shield.tend_hanging(cx, &id);
            }
            tell(&id, Err(error));
            continue;
        }
        let done = lock.and_then(|_lock| {
            if mode == HealMode::Auto {
                cx.host.shield.tend(cx, &id);
                note_transport(cx, &id);
            }
            heal::look_after(cx, &id, mode, HealOccasion::Sweep)
        });
        match done {
            Err(error) if error.kind == Kind::Busy => swept.is_busy = true,
            done => {
                let wait =
                    cx.store.records.load(&id).shield.map_wait.filter(|_| mode == HealMode::Auto);
                swept.waits_for_a_look |= wait.is_some_and(|wait| wait.is_for_a_look());
                let done = remembered(cx, &id, mode, done);
                if !matches!(&done, Ok(healed) if *healed == Healed::default()) {
                    tell(&id, done);
                }
            }
        }
    }
    swept
}

/// Records the transport of a disk that an earlier version mounted; once the disk is lost, nothing else shows which
/// transport may replace it.
fn note_transport(cx: &Context<'_>, id: &VolumeId) {
    let wanted = cx.cloud.identity(id);
    let Some(staged) = cx.store.records.load(id).mounts.staged else { return };
    if staged.transport.is_some() || !matches!(wanted, Identity::Serial(_)) {
        return;
    }
    let disks = cx.host.devices.claimants(&wanted).unwrap_or_default();
    let disk = disks.iter().find(|disk| moment(cx, disk).is_of(&staged.disk));
    let Some(transport) = disk.and_then(Device::transport) else { return };
    let noted = cx.store.records.update(id, |record| {
        if let Some(staged) = &mut record.mounts.staged {
            staged.transport = Some(transport.clone());
        }
    });
    if let Err(error) = noted {
        tracing::debug!(volume = %id, %error, "its disk's transport is not remembered");
    }
}

/// The timer asks every minute: report a failure or wait only when its reason changes.
fn remembered(
    cx: &Context<'_>,
    id: &VolumeId,
    mode: HealMode,
    done: Result<Healed>,
) -> Result<Healed> {
    let why = why_it_fails_or_waits(&done);
    // Process ids and durations differ each time.
    let why = why.map(|why| kept(&without_digits(&why)));
    let before = cx.store.records.load(id).heal.not_healed;
    if before == why {
        return repeated(done);
    }
    if mode == HealMode::Auto
        && cx.store.records.has(id).unwrap_or(false)
        && let Err(error) = cx.store.records.update(id, |record| record.heal.not_healed = why)
    {
        tracing::debug!(volume = %id, %error, "why it is not healed is not remembered");
    }
    done
}

/// Marks an outcome as a repetition of the last one.
fn repeated(done: Result<Healed>) -> Result<Healed> {
    match done {
        Ok(healed) if healed.is_waiting() => {
            Ok(Healed { progress: HealProgress::StillWaiting, ..healed })
        }
        done => done.map_err(|error| Error { is_repeated: true, ..error }),
    }
}

fn why_it_fails_or_waits(done: &Result<Healed>) -> Option<String> {
    match done {
        Ok(healed) if healed.is_waiting() => Some(healed.left.join("; ")),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::fakes::{FakeCloud, FakeDevices, MadeUp};
    use crate::model::record::{DiskMoment, Staged, VolumeRecord};
    use crate::ports::store::Lock;
    use std::path::Path;

    #[test]
    fn what_fails_or_waits_is_told_with_its_cause_and_what_is_left_besides_is_not() {
        let waiting = Healed::waiting(vec!["one".to_owned(), "two".to_owned()]);
        let finished = Healed { progress: HealProgress::Finished, ..waiting.clone() };
        assert_eq!(why_it_fails_or_waits(&Ok(waiting)), Some("one; two".to_owned()));
        assert_eq!(why_it_fails_or_waits(&Ok(finished)), None);
        let failed = why_it_fails_or_waits(&Err(Error::refused("why")));
        assert!(failed.is_some_and(|text| text.contains("why")));
    }

    #[test]
    fn what_waits_or_fails_again_is_no_news_and_what_was_healed_is() {
        let told = |done: Result<Healed>| match repeated(done) {
            Ok(healed) => healed.progress == HealProgress::StillWaiting,
            Err(error) => error.is_repeated,
        };
        assert!(told(Ok(Healed::waiting(Vec::new()))));
        assert!(told(Err(Error::refused("why"))));
        assert!(!told(Ok(Healed::default())));
    }

    /// What a sweep reports on a node with one mounted volume.
    fn swept(
        devices: &FakeDevices,
        mode: HealMode,
        looks: usize,
        before: impl FnOnce(&Context<'_>) -> Option<Lock>,
    ) -> (Vec<(bool, String)>, bool) {
        let cloud = FakeCloud::default().with("v-1", 1 << 30, &["here"]);
        MadeUp::with(&cloud, devices).drive(|cx| {
            let disk = DiskMoment::of_a_test(1, &crate::host::machine::boot_id());
            let id = VolumeId::parse("v-1").unwrap();
            let mount = |record: &mut VolumeRecord| {
                record.is_staged(Staged::new(Path::new("/stage"), &disk, "ext4", ""));
            };
            cx.store.records.update(&id, mount).unwrap();
            let _lock = before(cx);
            let (mut told, mut is_busy) = (Vec::new(), false);
            for _ in 0..looks {
                let mut tell = |_: &VolumeId, done: Result<Healed>| {
                    let error = done.unwrap_err();
                    told.push((error.is_repeated, error.cause));
                };
                let swept = sweep_all(cx, mode, &BTreeSet::new(), &mut tell).unwrap();
                is_busy |= swept.is_busy;
            }
            (told, is_busy)
        })
    }

    #[test]
    fn why_a_volume_is_not_healed_is_news_once() {
        let devices = FakeDevices { unread: Some("/dev: I/O error"), ..FakeDevices::default() };
        let told = |mode| swept(&devices, mode, 2, |_| None);
        let why = || "/dev: I/O error".to_owned();
        assert_eq!(told(HealMode::Auto), (vec![(false, why()), (true, why())], false));
        let planned = told(HealMode::Report);
        assert_eq!(planned, (vec![(false, why()), (false, why())], false), "a plan notes nothing");
    }

    #[test]
    fn a_volume_that_a_call_works_on_is_busy_and_no_news() {
        let locked = |cx: &Context<'_>| {
            let (id, now) = (VolumeId::parse("v-1").unwrap(), Deadline::after(Duration::ZERO));
            Some(cx.store.locks.take(&id, "a call", now).unwrap().required().unwrap())
        };
        let none = (Vec::new(), true);
        assert_eq!(swept(&FakeDevices::default(), HealMode::Auto, 1, locked), none);
        let free = swept(&FakeDevices::default(), HealMode::Auto, 1, |_| None);
        assert_eq!(free, (Vec::new(), false));
    }
}
