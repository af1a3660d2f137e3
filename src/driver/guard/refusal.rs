//! Refuse a tear-down; record, count and end refusals.

use crate::context::Context;
use crate::model::advice::{Advice, Remedy, advise};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::policy::GuardMode;
use crate::model::record::VolumeRecord;
use crate::model::report::refusal::{Occasion, Refusal};
use crate::model::report::tear_down::TearDown;
use crate::ports::clock;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::time::Duration;

/// The way out for a person.
const BY_HAND: &str = "it is refused until that ends";

/// A refusal at this moment because of these pods.
fn occasion(cx: &Context<'_>, pods: Option<BTreeSet<ConsumerId>>) -> Occasion {
    let uptime = cx.host.environment.uptime();
    Occasion { uptime, wall: clock::seconds(), pods, face: cx.face.name() }
}

/// The tear-down may go on: ends its earlier refusal.
pub(crate) fn passed(snapshot: &Snapshot<'_>, tear_down: &TearDown) {
    let cx = snapshot.cx;
    let refused = |id: &&VolumeId| cx.store.records.load(id).guard.refused.remove(tear_down);
    if let Some((id, refusal)) = snapshot.id.and_then(|id| Some((id, refused(&id)?))) {
        end_refusals(cx, id, std::slice::from_ref(tear_down));
        let seconds = refusal.last.saturating_sub(refusal.since);
        let what = cx.face.words.name(tear_down);
        tracing::info!(volume = %id, what, count = refusal.count, seconds, event = "refusal_ended", "no longer refused");
    }
}

/// These tear-downs are done or no longer requested: the next refusal starts a new series, even of one that was given
/// up.
pub(crate) fn end_refusals(cx: &Context<'_>, id: &VolumeId, tear_downs: &[TearDown]) {
    let refused = cx.store.records.load(id).guard.refused;
    let ended = tear_downs.iter().filter(|one| refused.contains_key(*one));
    let what: Vec<_> = ended.map(|one| cx.face.words.name(one)).collect();
    if what.is_empty() {
        return;
    }
    let over = |record: &mut VolumeRecord| {
        record.guard.refused.retain(|refused, _| !tear_downs.contains(refused));
    };
    match cx.store.records.update(id, over) {
        Ok(()) => tracing::debug!(volume = %id, ?what, "its refusal is over"),
        Err(error) => tracing::warn!(%error, "the end of a refusal is not remembered"),
    }
}

/// Refuses for a reason that is not about pods.
pub(crate) fn refuse(snapshot: &Snapshot<'_>, tear_down: &TearDown, reason: &str) -> Result<()> {
    refuse_for(snapshot, tear_down, None, reason)
}

/// Refuses because of these pods, as far as the guard's mode enforces it. A repeated refusal is only counted.
pub(crate) fn refuse_for(
    snapshot: &Snapshot<'_>,
    tear_down: &TearDown,
    pods: Option<BTreeSet<ConsumerId>>,
    reason: &str,
) -> Result<()> {
    let Snapshot { cx, id, .. } = *snapshot;
    let volume = id.map_or_else(|| "unknown".to_owned(), ToString::to_string);
    let what = cx.face.words.name(tear_down);
    match cx.policy.guard.mode {
        GuardMode::Enforce => {}
        GuardMode::Warn => {
            tracing::warn!(volume, what, reason, "would be refused");
            return Ok(());
        }
        GuardMode::Off => return Ok(()),
    }
    let before = id.and_then(|id| cx.store.records.load(id).guard.refused.get(tear_down).cloned());
    let refusal = Refusal::after(before.as_ref(), reason, &occasion(cx, pods));
    // Keep the record until the tear-down is done; it may still fail.
    if let Some(limit) = cx.policy.guard.give_up_after
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
    cx.counts.refused(cx.face.words.operation(tear_down));
    if let Some(id) = id {
        let noted = |record: &mut VolumeRecord| {
            record.guard.refusals = record.guard.refusals.saturating_add(1);
            record.guard.refused.insert(tear_down.clone(), refusal.clone());
        };
        if let Err(error) = cx.store.records.update(id, noted) {
            tracing::debug!(%error, "a refusal is not counted");
        }
    }
    if refusal.is_worth_a_line() {
        tracing::warn!(volume, what, reason, count = refusal.count, event = "refused", "refused");
    }
    let way = way_out_of(snapshot, tear_down);
    let mut error = Error::new(Kind::Guarded, reason).hint(advise("{}, {}", [BY_HAND.into(), way]));
    error.is_repeated = refusal.is_repeated();
    Err(error)
}

/// What a person can do who overrides a refusal. A release unmounts only this node's mounts; containers keep the disk
/// busy until it is taken away.
fn way_out_of(snapshot: &Snapshot<'_>, tear_down: &TearDown) -> Advice {
    let Some(id) = snapshot.id else { return "or until a person unmounts it".into() };
    let (force, release) = (Remedy::DetachByForce.of(id), Remedy::Release.of(id));
    let way = match tear_down {
        TearDown::Detach => force,
        TearDown::Unstage if snapshot.mounts().map_or(true, |mounts| mounts.is_empty()) => force,
        TearDown::Unstage => advise("{} and then {}", [release, force]),
        TearDown::Unpublish(_) => release,
    };
    advise("or, although that breaks what uses it: {}", [way])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, MadeUp};
    use crate::model::policy::GuardPolicy;

    fn id() -> VolumeId {
        VolumeId::parse("v-1").unwrap()
    }

    fn asked<T>(mode: GuardMode, lines: &[&str], ask: impl FnOnce(&Context<'_>) -> T) -> T {
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let (mounts, guard) =
            (FakeMounts::of(lines), GuardPolicy { mode, ..GuardPolicy::default() });
        let made_up = MadeUp { mounts, guard, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|cx| ask(cx))
    }

    fn refused(cx: &Context<'_>, what: &TearDown) -> Result<()> {
        refuse(&Snapshot::of(cx, Some(&id())), what, "a pod runs")
    }

    #[test]
    fn a_refusal_is_remembered_until_the_tear_down_passes() {
        asked(GuardMode::Enforce, &[], |cx| {
            let kept =
                || cx.store.records.load(&id()).guard.refused.into_keys().collect::<Vec<_>>();
            let first = refused(cx, &TearDown::Unstage).unwrap_err();
            assert_eq!((first.kind, first.is_repeated), (Kind::Guarded, false));
            assert!(refused(cx, &TearDown::Unstage).unwrap_err().is_repeated);
            refused(cx, &TearDown::Detach).unwrap_err();
            passed(&Snapshot::of(cx, None), &TearDown::Detach);
            assert_eq!(kept(), [TearDown::Unstage, TearDown::Detach]);
            passed(&Snapshot::of(cx, Some(&id())), &TearDown::Unstage);
            assert_eq!(kept(), [TearDown::Detach]);
            end_refusals(cx, &id(), &[TearDown::Unstage, TearDown::Detach]);
            assert_eq!(kept(), []);
            assert_eq!(cx.store.records.load(&id()).guard.refusals, 3, "they are counted for good");
        });
        asked(GuardMode::Warn, &[], |cx| {
            assert_eq!(refused(cx, &TearDown::Detach), Ok(()));
            assert!(!cx.store.records.has(&id()).unwrap());
        });
    }

    #[test]
    fn a_refusal_names_what_a_person_can_do_where_the_volume_is_mounted_and_where_it_is_not() {
        let way = |what: &TearDown, id: Option<&VolumeId>, lines: &[&str]| {
            asked(GuardMode::Enforce, lines, |cx| {
                way_out_of(&Snapshot::of(cx, id), what).to_string()
            })
        };
        let (mounted, id) = ("40 20 7:5 / /x rw - ext4 /dev/incloud-disk/v-1 rw", id());
        let pod = TearDown::Unpublish(ConsumerId::parse("a").unwrap());
        let breaks = "or, although that breaks what uses it: ";
        for (what, lines, command) in [
            (&TearDown::Detach, &[mounted][..], "DetachByForce v-1"),
            (&TearDown::Unstage, &[], "DetachByForce v-1"),
            (&TearDown::Unstage, &[mounted], "Release v-1 and then DetachByForce v-1"),
            (&pod, &[mounted], "Release v-1"),
        ] {
            assert_eq!(way(what, Some(&id), lines), format!("{breaks}{command}"));
        }
        assert_eq!(way(&pod, None, &[]), "or until a person unmounts it");
    }
}
