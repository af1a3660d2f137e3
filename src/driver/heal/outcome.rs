//! The outcome of a heal, for its caller, the log and people.

use crate::heal::diagnosis::StaleMounts;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::mount::disk_users::{Answer, DeviceUses, NamespaceUse};
use crate::model::mount::replacement::{ReplacementOutcome, Switched};
use crate::model::policy::HealMode;
use crate::model::record::VolumeRecord;
use crate::model::timestamp::{Millis, text as in_full};
use crate::ownership::words;
use crate::ports::clock::now;
use std::collections::BTreeSet;
use std::path::Path;

/// How many mounts to name; tenants can have any number.
pub(crate) const NAMED: usize = 4;

pub(crate) fn place_of(one: &NamespaceUse) -> String {
    let mut places: Vec<_> =
        one.mounts.iter().take(NAMED).map(|mount| mount.target.display().to_string()).collect();
    if let Some(more @ 1..) = one.mounts.len().checked_sub(NAMED) {
        places.push(format!("and {more} more"));
    }
    let who = one.processes.first().map_or_else(|| "no process".to_owned(), ToString::to_string);
    format!("{who} at {}", places.join(", "))
}

/// How many mounts per place to log.
const LOGGED: usize = 20;

pub(crate) fn plan_of(stale: &StaleMounts) -> Vec<String> {
    let own = stale.own.iter().map(|mount| mount.target.display().to_string());
    own.chain(stale.elsewhere.iter().map(place_of)).collect()
}

/// The pods with stale mounts, by their names for people.
pub(super) fn pods_on(record: &VolumeRecord, stale: &StaleMounts) -> Vec<String> {
    let processes = stale.elsewhere.iter().flat_map(|one| &one.processes);
    let inside = processes.filter_map(|process| process.owner.pod.clone());
    let is_stale = |folder: &Path| stale.own.iter().any(|mount| mount.target == folder);
    let published = record.mounts.published_folders().filter(|(_, folder)| is_stale(folder));
    let pods: BTreeSet<_> = inside.chain(published.map(|(pod, _)| pod.clone())).collect();
    let label = |pod: &ConsumerId| match record.mounts.consumers.get(pod) {
        Some(label) if !label.is_empty() => label.clone(),
        _ => pod.to_string(),
    };
    pods.iter().map(label).collect()
}

/// The result for a volume's mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Healed {
    /// Where mounts were replaced: the namespace in words, and each mount's result.
    pub places: Vec<(String, Vec<Switched>)>,
    /// The pods of these mounts, by their names for people.
    pub pods: Vec<String>,
    /// What stays on the lost disk, in words.
    pub left: Vec<String>,
    pub progress: HealProgress,
    /// The time window of possible data loss, if anything was replaced.
    pub lost: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HealProgress {
    /// It did all it could.
    #[default]
    Finished,
    /// The disk is under the volume's map again, and paused I/O goes on.
    Resumed,
    /// The volume's disk is missing.
    Waiting,
    /// The disk is still missing, as the last heal reported a minute ago.
    StillWaiting,
}

impl Healed {
    /// A heal that waits for the disk, with what stays on the old one.
    pub(super) fn waiting(left: Vec<String>) -> Self {
        Self { left, progress: HealProgress::Waiting, ..Self::default() }
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.progress, HealProgress::Waiting | HealProgress::StillWaiting)
    }

    /// How many mounts are from the new disk now.
    pub fn switched(&self) -> usize {
        let all = self.places.iter().flat_map(|(_, done)| done);
        all.filter(|one| one.outcome.is_replaced()).count()
    }

    /// Whether this heal moved any mount to the new disk.
    pub fn has_switched(&self) -> bool {
        self.switched() > 0
    }

    /// How much stays on the lost disk: mounts that could not be replaced, and other reasons.
    pub fn still_there(&self) -> usize {
        let all = self.places.iter().flat_map(|(_, done)| done);
        let skipped = all.filter(|one| matches!(one.outcome, ReplacementOutcome::Skipped(_)));
        self.left.len() + skipped.count()
    }

    /// How many mounts were replaced.
    pub(crate) fn replaced(&self) -> u64 {
        u64::try_from(self.switched()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.places.is_empty() && self.left.is_empty()
    }

    /// Whether metrics count it. Waiting for a disk is a state rather than an event per minute, and a plan is no heal.
    pub(super) fn is_counted(&self, mode: HealMode) -> bool {
        mode == HealMode::Auto && !self.is_nothing() && !self.is_waiting()
    }
}

/// A heal that is refused while I/O waits in the map is waiting, too.
pub(super) fn waiting_is_no_failure(
    error: Error,
    waits: impl FnOnce() -> bool,
    why: impl FnOnce(Error) -> Error,
) -> Result<Healed> {
    if error.kind != Kind::Refused || !waits() {
        return Err(error);
    }
    Ok(Healed::waiting(vec![why(error).to_string()]))
}

/// Why nothing changed, for the error that the caller may run into because of it.
pub(super) fn why_as_before(done: &Result<Healed>) -> Option<String> {
    match done {
        Ok(healed) if healed.left.is_empty() => None,
        Ok(healed) => Some(healed.left.join("; ")),
        Err(error) => Some(error.to_string()),
    }
}

pub(crate) fn listed(numbers: &[DeviceNumber]) -> String {
    let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// Unwritten data is lost with the disk, and older kernels accept writes for a while. When the disk went is unknown,
/// unless a process watched.
pub(crate) fn lost_since(seen: Option<Millis>) -> String {
    let from = seen.map_or_else(|| "an unknown moment".to_owned(), in_full);
    let until = in_full(now());
    format!(
        "writes between {from}, when the disk was last seen, and {until}. What an fsync confirmed is safe (before Linux 6.5 not all of it)"
    )
}

/// Logs each mount's result.
pub(crate) fn tell(id: &VolumeId, place: &str, done: &[Switched]) {
    if done.len() > LOGGED {
        tracing::info!(volume = %id, place, count = done.len(), "heal: the first of them are named");
    }
    for one in done.iter().take(LOGGED) {
        let target = one.mount.target.display();
        tracing::info!(volume = %id, place, %target, outcome = ?one.outcome, notes = ?one.notes, "heal");
    }
}

/// Open files, memory maps, working and root directories stay on the lost disk until their process ends.
pub(crate) fn still_held(users: &Answer<DeviceUses>) -> Vec<String> {
    match users {
        Answer::Told(users) => users
            .files
            .iter()
            .map(|one| format!("on the dead disk until it is restarted: {}", words::file_use(one)))
            .collect(),
        Answer::CannotTell(why) => vec![format!("who still holds the dead disk: {why}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::Owner;
    use crate::model::mount::disk_users::Process;
    use crate::model::mount::mountinfo::Mount;

    fn mount(target: &str) -> Mount {
        Mount::of_a_test("254:16", target, "")
    }

    fn healed(outcomes: &[ReplacementOutcome], left: &[&str]) -> Healed {
        let done = outcomes.iter().map(|one| Switched::new(&mount("/data"), one.clone())).collect();
        let left = left.iter().map(|&why| why.to_owned()).collect();
        Healed { places: vec![("this machine".to_owned(), done)], left, ..Healed::default() }
    }

    #[test]
    fn what_became_of_mounts_is_counted() {
        use ReplacementOutcome::{DetachedOnly, Gone, Skipped, Stacked};
        let skipped = || Skipped("it is covered".to_owned());
        let all = [
            ReplacementOutcome::Switched,
            ReplacementOutcome::Switched,
            DetachedOnly,
            Stacked,
            Gone,
            skipped(),
            skipped(),
        ];
        let healed = healed(&all, &["one", "two", "three"]);
        assert_eq!(healed.switched(), 4);
        assert_eq!(healed.replaced(), 4);
        assert!(healed.has_switched());
        assert_eq!(healed.still_there(), 5, "what is left, and what was skipped");
    }

    #[test]
    fn a_heal_has_switched_something_only_where_a_mount_was_replaced() {
        use ReplacementOutcome::{Gone, Skipped};
        assert!(self::healed(&[Gone, ReplacementOutcome::Switched], &[]).has_switched());
        assert!(!self::healed(&[Gone, Skipped("why".to_owned())], &["one"]).has_switched());
        assert!(!Healed::default().has_switched());
    }

    #[test]
    fn a_heal_is_nothing_only_where_nothing_was_done_and_nothing_is_left() {
        assert!(Healed::default().is_nothing());
        assert!(!healed(&[], &[]).is_nothing());
        assert!(!Healed { left: vec!["why".to_owned()], ..Healed::default() }.is_nothing());
    }

    #[test]
    fn only_what_was_done_or_left_is_counted() {
        let left = Healed { left: vec!["why".to_owned()], ..Healed::default() };
        for counted in [healed(&[], &[]), left.clone()] {
            assert!(counted.is_counted(HealMode::Auto));
            assert!(!counted.is_counted(HealMode::Report), "a plan");
        }
        assert!(!Healed::default().is_counted(HealMode::Auto));
        assert!(!Healed::waiting(left.left).is_counted(HealMode::Auto));
    }

    #[test]
    fn what_waits_has_not_failed() {
        let outcome = |error: Error, waits: bool| {
            let with_why = |error: Error| Error { cause: format!("{}: why", error.cause), ..error };
            waiting_is_no_failure(error, || waits, with_why)
        };
        let refused = || Error::refused("it waits");
        let told = outcome(refused(), true).unwrap();
        assert!(told.is_waiting() && told.places.is_empty());
        assert!(told.left[0].contains("it waits: why"), "{told:?}");
        assert_eq!(outcome(refused(), false).unwrap_err().cause, "it waits");
        let failed = outcome(Error::new(Kind::Host, "it broke"), true).unwrap_err();
        assert_eq!(failed.cause, "it broke");
    }

    #[test]
    fn why_a_volume_is_as_it_was_is_told_only_where_it_is() {
        assert_eq!(why_as_before(&Ok(healed(&[ReplacementOutcome::Switched], &[]))), None);
        let left = Ok(healed(&[], &["one", "two"]));
        assert_eq!(why_as_before(&left), Some("one; two".to_owned()));
        let failed = why_as_before(&Err(Error::refused("it waits")));
        assert!(failed.is_some_and(|why| why.contains("it waits")));
    }

    #[test]
    fn a_place_names_its_first_mounts_and_who_lives_there() {
        let with = |count: usize| {
            let mounts = (0..count).map(|n| mount(&format!("/data-{n}"))).collect();
            NamespaceUse::of_a_test(mounts, Vec::new())
        };
        assert_eq!(place_of(&with(1)), "no process at /data-0");
        let four = "no process at /data-0, /data-1, /data-2, /data-3";
        assert_eq!(place_of(&with(4)), four);
        assert_eq!(place_of(&with(6)), format!("{four}, and 2 more"));
        let process = Process { command: "postgres".to_owned(), ..Process::of_a_test(7) };
        let named = NamespaceUse { processes: vec![process], ..with(1) };
        assert_eq!(place_of(&named), "7 (postgres) at /data-0");
    }

    #[test]
    fn pods_with_stale_mounts_are_called_as_people_know_them() {
        use crate::model::face::OF_TESTS;
        let pod = |uid| ConsumerId::parse(uid).unwrap();
        let mut record = VolumeRecord::new(VolumeId::parse("v-1").unwrap());
        let mut publish = |uid, folder: &str, label| {
            record.mounts.is_published(&pod(uid), Path::new(folder), OF_TESTS.0[0].name(), label);
        };
        publish("a", "/pods/a", Some("shop/orders-0"));
        publish("b", "/pods/b", None);
        publish("c", "/pods/c", Some("shop/other-0"));
        let owner = Owner { pod: Some(pod("d")), ..Owner::default() };
        let inside = Process { owner, ..Process::of_a_test(7) };
        let elsewhere = NamespaceUse::of_a_test(vec![mount("/data")], vec![inside]);
        let stale = StaleMounts {
            disk: None,
            dead: Vec::new(),
            own: vec![mount("/pods/a"), mount("/pods/b")],
            elsewhere: vec![elsewhere],
            untold: None,
            is_all_known: true,
        };
        assert_eq!(pods_on(&record, &stale), ["shop/orders-0", "b", "d"]);
        assert_eq!(plan_of(&stale), ["/pods/a", "/pods/b", "7 (sh) of pod d at /data"]);
    }

    #[test]
    fn numbers_and_moments_are_told_in_words() {
        let number = |minor| DeviceNumber { major: 254, minor };
        assert_eq!(listed(&[number(16), number(32)]), "254:16, 254:32");
        assert!(lost_since(None).starts_with("writes between an unknown moment, when"));
        let seen = now();
        let told = format!("writes between {}, when the disk was last seen, and ", in_full(seen));
        assert!(lost_since(Some(seen)).starts_with(&told));
    }

    #[test]
    fn who_cannot_be_looked_for_is_said() {
        let why = Answer::CannotTell("no time was left".to_owned());
        assert_eq!(still_held(&why), ["who still holds the dead disk: no time was left"]);
        assert!(still_held(&Answer::Told(DeviceUses::default())).is_empty());
    }
}
