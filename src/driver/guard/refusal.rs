//! A tear-down is refused, remembered, counted, and its end noted.

use crate::call_counts::CallCounts;
use crate::host::clock;
use crate::host::machine::uptime;
use crate::host::records::Records;
use crate::lookup::disk_numbers::DiskNumbers;
use crate::model::error::{Error, Kind, Result};
use crate::model::face::Face;
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::policy::{GuardMode, GuardPolicy};
use crate::model::record::VolumeRecord;
use crate::model::report::refusal::{Occasion, Refusal};
use crate::model::report::tear_down::TearDown;
use std::collections::BTreeSet;
use std::time::Duration;

/// The way out that a person has.
const BY_HAND: &str = "it is refused until that ends";

/// This moment, in which a tear-down is refused for the sake of these pods.
fn occasion(face: &Face, pods: Option<BTreeSet<ConsumerId>>) -> Occasion {
    Occasion { uptime: uptime(), wall: clock::seconds(), pods, face: face.name() }
}

/// Tear-downs that are refused.
pub(crate) struct Refusals<'a> {
    pub(crate) records: &'a Records,
    pub(crate) policy: &'a GuardPolicy,
    pub(crate) counts: &'a CallCounts,
    pub(crate) face: &'static Face,
    pub(crate) numbers: &'a DiskNumbers<'a>,
}

impl Refusals<'_> {
    /// The tear-down may go on: an earlier refusal of it is over.
    pub(crate) fn passed(&self, id: Option<&VolumeId>, tear_down: &TearDown) {
        let refused = |id: &&VolumeId| self.records.load(id).refused.remove(tear_down);
        if let Some((id, refusal)) = id.and_then(|id| Some((id, refused(&id)?))) {
            self.end_refusals(id, std::slice::from_ref(tear_down));
            let seconds = refusal.last.saturating_sub(refusal.since);
            let what = self.face.words.name(tear_down);
            tracing::info!(volume = %id, what, count = refusal.count, seconds, "no longer refused");
        }
    }

    /// These tear-downs are done, or not asked for any more: the next refusal of one begins a new
    /// series, also one that was given up.
    pub(crate) fn end_refusals(&self, id: &VolumeId, tear_downs: &[TearDown]) {
        let refused = self.records.load(id).refused;
        let ended = tear_downs.iter().filter(|one| refused.contains_key(*one));
        let what: Vec<_> = ended.map(|one| self.face.words.name(one)).collect();
        if what.is_empty() {
            return;
        }
        let over = |record: &mut VolumeRecord| {
            record.refused.retain(|refused, _| !tear_downs.contains(refused));
        };
        match self.records.update(id, over) {
            Ok(()) => tracing::debug!(volume = %id, ?what, "its refusal is over"),
            Err(error) => tracing::warn!(%error, "the end of a refusal is not remembered"),
        }
    }

    /// Refuses for a reason that is no pod's.
    pub(crate) fn refuse(
        &self,
        id: Option<&VolumeId>,
        tear_down: &TearDown,
        reason: &str,
    ) -> Result<()> {
        self.refuse_for(id, tear_down, None, reason)
    }

    /// Refuses, as far as the guard's mode has it, for the sake of these pods. The same refusal again
    /// is only counted.
    pub(crate) fn refuse_for(
        &self,
        id: Option<&VolumeId>,
        tear_down: &TearDown,
        pods: Option<BTreeSet<ConsumerId>>,
        reason: &str,
    ) -> Result<()> {
        let volume = id.map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let what = self.face.words.name(tear_down);
        if self.policy.mode == GuardMode::Warn {
            tracing::warn!(volume, what, reason, "would be refused");
            return Ok(());
        }
        let before = id.and_then(|id| self.records.load(id).refused.get(tear_down).cloned());
        let refusal = Refusal::after(before.as_ref(), reason, &occasion(self.face, pods));
        // The record stays as it is until the tear-down is done: this one may fail still.
        if let Some(limit) = self.policy.give_up_after
            && refusal.lasts(Duration::from_secs(limit))
        {
            tracing::error!(
                volume,
                what,
                reason,
                limit,
                "guard.give_up_after: given up, the tear-down goes on"
            );
            return Ok(());
        }
        self.counts.refused(self.face.words.operation(tear_down));
        if let Some(id) = id {
            let noted = |record: &mut VolumeRecord| {
                record.refusals = record.refusals.saturating_add(1);
                record.refused.insert(tear_down.clone(), refusal.clone());
            };
            if let Err(error) = self.records.update(id, noted) {
                tracing::debug!(%error, "a refusal is not counted");
            }
        }
        if refusal.is_worth_a_line() {
            tracing::warn!(volume, what, reason, count = refusal.count, "refused");
        }
        let way = self.way_out_of(tear_down, id);
        let mut error = Error::new(Kind::Guarded, reason).hint(format!("{BY_HAND}, {way}"));
        error.is_repeated = refusal.is_repeated();
        Err(error)
    }

    /// What a person can do who gives up what a refusal protects. A release takes off this machine's
    /// mounts, and no container's: those keep the disk until it is taken away.
    fn way_out_of(&self, tear_down: &TearDown, id: Option<&VolumeId>) -> String {
        let Some(id) = id else { return "or until a person unmounts it".to_owned() };
        let or = "or, although that breaks what uses it";
        let force = format!("disk detach --force {id}");
        match tear_down {
            TearDown::Detach => format!("{or}: {force}"),
            TearDown::Unstage if !self.numbers.is_mounted_here(id) => format!("{or}: {force}"),
            TearDown::Unstage => format!("{or}: disk release {id} and then {force}"),
            TearDown::Unpublish(_) => format!("{or}: disk release {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, MadeUp};

    fn id() -> VolumeId {
        VolumeId::parse("v-1").unwrap()
    }

    fn asked<T>(mode: GuardMode, lines: &[&str], ask: impl FnOnce(&Refusals<'_>) -> T) -> T {
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let (mounts, guard) =
            (FakeMounts::of(lines), GuardPolicy { mode, ..GuardPolicy::default() });
        let made_up = MadeUp { mounts, guard, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|driver| ask(driver.unmounting.refusals))
    }

    #[test]
    fn a_refusal_is_remembered_until_the_tear_down_passes() {
        asked(GuardMode::Enforce, &[], |refusals| {
            let refuse = |what| refusals.refuse(Some(&id()), what, "a pod runs");
            let refused = || refusals.records.load(&id()).refused.into_keys().collect::<Vec<_>>();
            let first = refuse(&TearDown::Unstage).unwrap_err();
            assert_eq!((first.kind, first.is_repeated), (Kind::Guarded, false));
            assert!(refuse(&TearDown::Unstage).unwrap_err().is_repeated);
            refuse(&TearDown::Detach).unwrap_err();
            refusals.passed(None, &TearDown::Detach);
            assert_eq!(refused(), [TearDown::Unstage, TearDown::Detach]);
            refusals.passed(Some(&id()), &TearDown::Unstage);
            assert_eq!(refused(), [TearDown::Detach]);
            refusals.end_refusals(&id(), &[TearDown::Unstage, TearDown::Detach]);
            assert_eq!(refused(), []);
            assert_eq!(refusals.records.load(&id()).refusals, 3, "they are counted for good");
        });
        asked(GuardMode::Warn, &[], |refusals| {
            assert_eq!(refusals.refuse(Some(&id()), &TearDown::Detach, "a pod runs"), Ok(()));
            assert!(!refusals.records.has(&id()).unwrap());
        });
    }

    #[test]
    fn a_refusal_names_what_a_person_can_do_where_the_volume_is_mounted_and_where_it_is_not() {
        let way = |what: &TearDown, id: Option<&VolumeId>, lines: &[&str]| {
            asked(GuardMode::Enforce, lines, |refusals| refusals.way_out_of(what, id))
        };
        let (mounted, id) = ("40 20 7:5 / /x rw - ext4 /dev/incloud-disk/v-1 rw", id());
        let pod = TearDown::Unpublish(ConsumerId::parse("a").unwrap());
        let breaks = "or, although that breaks what uses it: ";
        for (what, lines, command) in [
            (&TearDown::Detach, &[mounted][..], "disk detach --force v-1"),
            (&TearDown::Unstage, &[], "disk detach --force v-1"),
            (&TearDown::Unstage, &[mounted], "disk release v-1 and then disk detach --force v-1"),
            (&pod, &[mounted], "disk release v-1"),
        ] {
            assert_eq!(way(what, Some(&id), lines), format!("{breaks}{command}"));
        }
        assert_eq!(way(&pod, None, &[]), "or until a person unmounts it");
    }
}
