//! What became of a heal, for its caller, the log and people.

use crate::driver::heal::diagnosis::StaleMounts;
use crate::driver::ownership::words;
use crate::host::clock::now;
use crate::model::disk::device::DeviceNumber;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, DeviceUses, NamespaceUse};
use crate::model::mount::replacement::{ReplacementOutcome, Switched};
use crate::model::timestamp::{Millis, text as in_full};

/// Who lives there may have as many mounts as he likes: no more are named.
pub(in crate::driver) const NAMED: usize = 4;

pub(in crate::driver) fn place_of(one: &NamespaceUse) -> String {
    let mut places: Vec<_> =
        one.mounts.iter().take(NAMED).map(|mount| mount.target.display().to_string()).collect();
    if let Some(more @ 1..) = one.mounts.len().checked_sub(NAMED) {
        places.push(format!("and {more} more"));
    }
    let who = one.processes.first().map_or_else(|| "no process".to_owned(), ToString::to_string);
    format!("{who} at {}", places.join(", "))
}

/// Of more mounts in one place only the number is logged.
const LOGGED: usize = 20;

pub(in crate::driver) fn plan_of(stale: &StaleMounts) -> Vec<String> {
    let own = stale.own.iter().map(|mount| mount.target.display().to_string());
    own.chain(stale.elsewhere.iter().map(place_of)).collect()
}

/// What became of a volume's mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Healed {
    /// Where mounts were replaced: the namespace in words, and what became of each mount.
    pub places: Vec<(String, Vec<Switched>)>,
    /// The pods whose mounts these are, as people know them.
    pub pods: Vec<String>,
    /// What stays on the dead disk, in words.
    pub left: Vec<String>,
    /// Whether that is because its successor is not here yet.
    pub is_waiting: bool,
    /// Whether the look of the minute before said the same.
    pub is_repeated: bool,
    /// Between which moments writes may be lost, if anything was replaced.
    pub lost: Option<String>,
}

impl Healed {
    /// How many mounts stand on the new disk now.
    #[must_use]
    pub fn switched(&self) -> usize {
        let all = self.places.iter().flat_map(|(_, done)| done);
        all.filter(|one| {
            !matches!(one.outcome, ReplacementOutcome::Skipped(_) | ReplacementOutcome::Gone)
        })
        .count()
    }

    /// How much stays on the dead disk: mounts that could not be replaced, and what else is told.
    #[must_use]
    pub fn still_there(&self) -> usize {
        let all = self.places.iter().flat_map(|(_, done)| done);
        let skipped = all.filter(|one| matches!(one.outcome, ReplacementOutcome::Skipped(_)));
        self.left.len() + skipped.count()
    }

    /// How many mounts were replaced now.
    pub(in crate::driver) fn replaced(&self) -> u64 {
        let is_new = |one: &&Switched| {
            matches!(
                one.outcome,
                ReplacementOutcome::Switched
                    | ReplacementOutcome::DetachedOnly
                    | ReplacementOutcome::Stacked
            )
        };
        let all = self.places.iter().flat_map(|(_, done)| done);
        u64::try_from(all.filter(is_new).count()).unwrap_or(u64::MAX)
    }

    pub(in crate::driver) fn is_nothing(&self) -> bool {
        self.places.is_empty() && self.left.is_empty()
    }
}

pub(in crate::driver) fn listed(numbers: &[DeviceNumber]) -> String {
    let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// A disk that goes takes with it what was not written yet, and older kernels let writes to it
/// succeed for a while. The moment when it went is unknown, unless a process watched.
pub(in crate::driver) fn lost_since(seen: Option<Millis>) -> String {
    let from = seen.map_or_else(|| "an unknown moment".to_owned(), in_full);
    let until = in_full(now());
    format!(
        "writes between {from}, when the disk was last seen, and {until}. What an fsync confirmed is safe (before Linux 6.5 not all of it)"
    )
}

/// What became of each mount, for the log.
pub(in crate::driver) fn tell(id: &VolumeId, place: &str, done: &[Switched]) {
    if done.len() > LOGGED {
        tracing::info!(volume = %id, place, count = done.len(), "heal: the first of them are named");
    }
    for one in done.iter().take(LOGGED) {
        let target = one.mount.target.display();
        tracing::info!(volume = %id, place, %target, outcome = ?one.outcome, notes = ?one.notes, "heal");
    }
}

/// Open files, maps, working and root folders stay where they are for ever: only the end of their
/// process lets go of the dead disk.
pub(in crate::driver) fn still_held(users: &Answer<DeviceUses>) -> Vec<String> {
    match users {
        Answer::Told(users) => users
            .files
            .iter()
            .map(|one| format!("on the dead disk until it is restarted: {}", words::file_use(one)))
            .collect(),
        Answer::CannotTell(why) => vec![format!("who still holds the dead disk: {why}")],
    }
}
