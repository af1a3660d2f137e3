//! The order of a heal: one bad mount costs only itself, and one bad tenant only himself.
//!
//! This node's own mounts come first, then the containers of pods with the volume, then other pods, then everything
//! else. Each kind has a share of the time and each namespace a limit, because tenants decide how long it takes: they
//! may have thousands of mounts, or a directory on the path that does not answer. The next heal, at the latest the
//! timer's, continues, and starts at a random one, so that none can arrange to be always first.

use crate::context::Context;
use crate::heal::diagnosis::StaleMounts;
use crate::heal::outcome::{Healed, place_of, tell};
use crate::heal::peer_groups;
use crate::heal::recovery::{self, Finished, bytes_of};
use crate::heal::time_shares::{EACH, TimeShares};
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::mount::disk_users::{Answer, NAMESPACE_GOES_WITHIN, NamespaceId, NamespaceUse};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::{ReplacementOutcome, Switched};
use crate::model::record::Switching;
use crate::model::sorting::sort_by_key;
use crate::ports::clock::Deadline;
use crate::{failpoints, ownership};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

/// A runtime may bind the stale mount for a new container meanwhile, so the census is repeated, but not for ever.
const ROUNDS: u32 = 5;

/// How many mounts are replaced at once: each takes a few descriptors, of which a process may have only 1024.
const AT_ONCE: usize = 100;

/// A namespace with its mounts, in parts that are replaced together.
struct Visit {
    one: NamespaceUse,
    kind: usize,
    parts: VecDeque<Vec<Mount>>,
    /// Whether the changes of the first part are recorded.
    is_known: bool,
}

impl Visit {
    fn of(mut one: NamespaceUse, consumers: &BTreeSet<ConsumerId>, begun: &[Switching]) -> Self {
        let kind = kind_of(&one, consumers);
        // Random, so that one that takes all the time is not always before the same others.
        let first = by_chance(one.mounts.len());
        one.mounts.rotate_left(first);
        // Recorded changes have their room, so a full record empties. Not every time, since they may be what keeps the
        // others waiting.
        if by_chance(2) == 0 {
            put_first(&mut one, begun);
        }
        let parts = one.mounts.chunks(AT_ONCE).map(<[Mount]>::to_vec).collect();
        Self { one, kind, parts, is_known: false }
    }

    fn with(&self, mounts: Vec<Mount>) -> NamespaceUse {
        NamespaceUse { mounts, ..self.one.clone() }
    }
}

/// Moves mounts with recorded changes to the front.
fn put_first(one: &mut NamespaceUse, begun: &[Switching]) {
    let of_it = begun.iter().filter(|begun| Some(NamespaceId(begun.sign.namespace)) == one.id);
    let targets: HashSet<&Path> =
        of_it.flat_map(|begun| &begun.mounts).map(|mount| mount.target.as_path()).collect();
    sort_by_key(&mut one.mounts, |mount| !targets.contains(mount.target.as_path()));
}

fn kind_of(one: &NamespaceUse, consumers: &BTreeSet<ConsumerId>) -> usize {
    let mut pods = one.processes.iter().filter_map(|process| process.owner.pod.as_ref());
    match (pods.clone().any(|pod| consumers.contains(pod)), pods.next()) {
        (true, _) => 0,
        (false, Some(_)) => 1,
        (false, None) => 2,
    }
}

fn by_chance(below: usize) -> usize {
    let chance = usize::try_from(RandomState::new().hash_one(0) % 1_000_003).unwrap_or_default();
    chance.checked_rem(below).unwrap_or_default()
}

/// Sorts, with equal ones in random order.
fn in_order(
    mut all: Vec<NamespaceUse>,
    consumers: &BTreeSet<ConsumerId>,
    begun: &[Switching],
) -> Vec<Visit> {
    let middle = by_chance(all.len());
    all.rotate_left(middle);
    let mut visits: Vec<_> = all.into_iter().map(|one| Visit::of(one, consumers, begun)).collect();
    sort_by_key(&mut visits, |visit| visit.kind);
    visits
}

/// The progress so far.
#[derive(Default)]
struct Replacing {
    healed: Healed,
    /// Which namespace each place is in.
    visited: Vec<(usize, NamespaceId)>,
    /// Namespaces whose contents are unknown.
    unknown: Vec<NamespaceId>,
    finished: Finished,
    /// Why something was left in a namespace at the last attempt.
    why: BTreeMap<Option<NamespaceId>, String>,
    progress: bool,
}

impl Replacing {
    fn is_left(&mut self, one: &NamespaceUse, why: &str) {
        self.why.insert(one.id, why.to_owned());
    }

    fn is_done(&mut self, namespace: Option<NamespaceId>, done: &[Switched]) {
        let Some(namespace) = namespace else { return };
        let replaced = done.iter().filter(|one| one.outcome.is_replaced());
        let targets = replaced.map(|one| one.mount.target.clone());
        self.finished.entry(namespace).or_default().extend(targets);
    }

    /// Drops failures in namespaces that a later look did not find any more.
    fn has_gone_but(&mut self, still: &[NamespaceUse]) {
        let is_there = |id: &NamespaceId| still.iter().any(|one| one.id == Some(*id));
        for (place, _) in self.visited.iter().filter(|(_, id)| !is_there(id)) {
            let Some((_, done)) = self.healed.places.get_mut(*place) else { continue };
            for one in done {
                if matches!(one.outcome, ReplacementOutcome::Skipped(_)) {
                    one.outcome = ReplacementOutcome::Gone;
                }
            }
        }
    }
}

/// Replaces everything that can be reached in time, round by round until nothing is stale.
pub(crate) fn switch_everywhere(
    cx: &Context<'_>,
    id: &VolumeId,
    (stale, disk): (&StaleMounts, &Device),
    fresh: &File,
    again: bool,
    shares: TimeShares,
) -> Result<Healed> {
    let consumers = ownership::consumers_of(cx, id);
    let mut replacing = Replacing::default();
    let mut not_reached: Vec<NamespaceId> = Vec::new();
    let begun = recovery::begun(cx, id);
    let mut visits = in_order(stale.elsewhere.clone(), &consumers, &begun);
    // First record as much as possible: peers and masters are visible only until the first replacement.
    recovery::intend_own(cx, id, &stale.own, fresh, shares)?;
    intend_all(cx, id, &mut visits, fresh, shares.part(0.25))?;
    if !stale.own.is_empty() {
        match peer_groups::switch_own(cx, id, disk, &stale.own, fresh, shares.until) {
            Ok(done) => {
                tell(id, "this machine", &done);
                replacing.healed.places.push(("this machine".to_owned(), done));
            }
            Err(error) => {
                tracing::warn!(volume = %id, %error, "this machine's own mounts are not switched");
                replacing.healed.left.push(format!("this machine's own mounts: {error}"));
                not_reached.extend(cx.host.census.own_namespace().ok());
            }
        }
        failpoints::step("heal.own");
    }
    let mut next = stale.elsewhere.clone();
    // While there is time, do not report what no round has tried: it may be a process that is gone at the next look.
    let mut tried = BTreeSet::new();
    for round in 0..ROUNDS {
        if round > 0 {
            visits = in_order(next.clone(), &consumers, &begun);
        }
        tried.extend(visits.iter().map(|visit| visit.one.id));
        let group_state = peer_groups::group_state(cx, id, disk);
        replacing.progress = false;
        for kind in 0..EACH.len() {
            let limit = shares.of_kind(kind);
            for visit in visits.iter_mut().filter(|visit| visit.kind == kind) {
                if limit.over() {
                    break;
                }
                let limit = limit.at_most(shares.of_one(kind));
                visit_namespace(cx, id, visit, fresh, limit, &mut replacing, &group_state);
            }
        }
        if visits.is_empty() && round == 0 && stale.is_all_known {
            break;
        }
        let look = || {
            let census = shares.part(0.25);
            match cx.host.census.namespaces_in_time(&stale.dead, &consumers, census) {
                Answer::Told(uses) => Some(uses.namespaces),
                Answer::CannotTell(_) => None,
            }
        };
        let is_all_tried = |next: &[NamespaceUse]| next.iter().all(|one| tried.contains(&one.id));
        let Some(found) = look() else { break };
        next = found;
        // Report what cannot be replaced if it is still there at a second look.
        if !next.is_empty() && is_all_tried(&next) && !replacing.progress {
            failpoints::step("heal.left");
            if !shares.until.pause(NAMESPACE_GOES_WITHIN) {
                break;
            }
            let Some(found) = look() else { break };
            next = found;
            if is_all_tried(&next) {
                break;
            }
        }
        if next.is_empty() || shares.until.over() {
            break;
        }
    }
    replacing.has_gone_but(&next);
    let Replacing { mut healed, unknown, why, finished, .. } = replacing;
    let is_left = |id: &NamespaceId| next.iter().any(|one| one.id == Some(*id));
    let (left, reached_later): (Vec<_>, Vec<_>) = unknown.into_iter().partition(is_left);
    not_reached.extend(left);
    let again = again || !reached_later.is_empty();
    recovery::is_switched(cx, id, again, not_reached, &finished);
    let still = next.iter().map(|one| {
        let why = why.get(&one.id).map(|why| format!(": {why}")).unwrap_or_default();
        format!("still on the dead disk: {}{why}", place_of(one))
    });
    healed.left.extend(still);
    Ok(healed)
}

/// Records the changes of the first parts, as far as time allows.
fn intend_all(
    cx: &Context<'_>,
    id: &VolumeId,
    visits: &mut [Visit],
    fresh: &File,
    until: Deadline,
) -> Result<()> {
    let mut all = Vec::new();
    let mut bytes = 0;
    for visit in visits.iter_mut() {
        if until.over() {
            break;
        }
        let Some(first) = visit.parts.front() else { continue };
        let part = visit.with(first.clone());
        match recovery::changes_in(cx, &part, fresh, until.at_most(EACH[visit.kind])) {
            Ok(known) if !recovery::has_room_for(cx, id, &known, visit.kind, bytes) => {}
            Ok(known) => {
                bytes += bytes_of(&known.1);
                visit.is_known = true;
                all.push(known);
            }
            Err(error) => {
                tracing::debug!(volume = %id, namespace = ?part.id, %error, "asked again in its turn");
            }
        }
    }
    recovery::write_down(cx, id, all)
}

/// Replaces the mounts of one namespace, part by part.
fn visit_namespace(
    cx: &Context<'_>,
    id: &VolumeId,
    visit: &mut Visit,
    fresh: &File,
    limit: Deadline,
    replacing: &mut Replacing,
    group_state: &super::peer_groups::PeerGroupState,
) {
    let place = place_of(&visit.one);
    while let Some(mounts) = visit.parts.pop_front() {
        if limit.over() {
            tracing::warn!(volume = %id, place, "no time was left for all of its mounts: the next heal goes on");
            replacing.is_left(&visit.one, "no time was left for all of its mounts");
            break;
        }
        let part = visit.with(mounts);
        let is_known = std::mem::take(&mut visit.is_known);
        let intended = || intend_in(cx, id, &part, visit.kind, fresh, limit);
        let done = if is_known { Ok(()) } else { intended() };
        let done = done.and_then(|()| failpoints::effect("heal.reach"));
        match done.and_then(|()| peer_groups::switch_in(cx, group_state, &part, fresh, limit)) {
            Ok(done) => {
                tell(id, &place, &done);
                replacing.progress |=
                    done.iter().any(|one| one.outcome == ReplacementOutcome::Switched);
                replacing.is_done(part.id, &done);
                replacing.visited.extend(part.id.map(|id| (replacing.healed.places.len(), id)));
                replacing.healed.places.push((place.clone(), done));
            }
            // Halve the part to isolate the mounts that change too much.
            Err(error) if error.kind == Kind::Refused && part.mounts.len() > 1 => {
                let (one, other) = part.mounts.split_at(part.mounts.len() / 2);
                visit.parts.push_front(other.to_vec());
                visit.parts.push_front(one.to_vec());
                continue;
            }
            Err(error) => {
                tracing::warn!(volume = %id, place, %error, "a namespace was not reached");
                replacing.is_left(&part, &error.to_string());
                replacing.unknown.extend(part.id);
                // A mount that is only too much must not cost the others.
                if error.kind != Kind::Refused {
                    break;
                }
            }
        }
        failpoints::step("heal.namespace");
    }
}

fn intend_in(
    cx: &Context<'_>,
    id: &VolumeId,
    part: &NamespaceUse,
    kind: usize,
    fresh: &File,
    limit: Deadline,
) -> Result<()> {
    let known = recovery::changes_in(cx, part, fresh, limit)?;
    if !recovery::has_room_for(cx, id, &known, kind, 0) {
        return Err(Error::new(Kind::Host, "what it changes for a moment is too much to remember")
            .hint("the next heal goes on; or restart the container"));
    }
    recovery::write_down(cx, id, vec![known])
}

/// Leaves out the numbers of lost file systems that could not be kept open.
pub(crate) fn without(stale: &mut StaleMounts, unkept: &[(DeviceNumber, Error)]) -> Vec<String> {
    let is_kept = |mount: &Mount| unkept.iter().all(|(number, _)| *number != mount.number);
    stale.own.retain(is_kept);
    for one in &mut stale.elsewhere {
        one.mounts.retain(is_kept);
    }
    stale.elsewhere.retain(|one| !one.mounts.is_empty());
    let words = |(number, error): &(DeviceNumber, Error)| {
        format!("the mounts of the dead disk {number}: none of them can be reached: {error}")
    };
    unkept.iter().map(words).collect()
}

#[cfg(test)]
mod tests;
