//! The old mounts of one namespace, each in its turn; or, by propagation, many at once.

use super::by_mount::{self, Origin, Workshop};
use super::detached::{New, is_peer};
use super::known_mounts::{KnownMounts, in_its_place};
use super::lower_mount::{copies, doubles, draw_out, missing};
use super::mount_tree::{ancestors, children, descendants, ground, has, ids_below, in_order};
use super::namespace::{Inside, attach, failed};
use super::nested::Nested;
use super::parent_mounts::Ready;
use super::propagation;
use super::told_by_table::{
    AfterSwitch, astray, has_come, is_counterpart, is_covered_by, is_new_one_of, needs_settling,
    shown_by_table,
};
use super::tuck;
use crate::failpoints;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::replacement::{Method, Propagation, ReplacementOutcome, Switched};
use crate::ports::clock::Deadline;
use nix::mount::MsFlags;
use rustix::mount::MoveMountFlags;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;

pub(in crate::remount) struct NamespaceWork<'a> {
    pub(in crate::remount) inside: &'a Inside,
    /// The mounts there: before the work, then before each switch.
    pub(in crate::remount) table: MountTable,
    /// The old ones among them.
    pub(in crate::remount) stale: &'a [Mount],
    /// A new mount for each, or why there is none.
    pub(in crate::remount) news: BTreeMap<u32, New>,
    pub(in crate::remount) refusals: HashMap<u32, String>,
    /// The root of the new file system.
    pub(in crate::remount) root: OwnedFd,
    pub(in crate::remount) fresh: DeviceNumber,
    /// The peer group for which its mount stands.
    pub(in crate::remount) group: Option<u32>,
    /// What it was mounted from, where it is to be mounted once more.
    pub(in crate::remount) origin: Option<Origin>,
    pub(in crate::remount) method: Method,
    /// When the rest is left as it is: so that of what was done is told.
    pub(in crate::remount) until: Deadline,
    /// The lines of the table of which each can be asked for by itself.
    pub(in crate::remount) known: Option<KnownMounts>,
}

/// So many old mounts are worth to be asked for one by one: to know how is as much work as some readings of
/// the table.
const MANY: usize = 8;

/// What one switch came to.
struct Done {
    outcome: ReplacementOutcome,
    notes: Vec<String>,
    /// Nested old mounts that went the same way.
    with: Vec<u32>,
}

impl Done {
    fn only(outcome: ReplacementOutcome) -> Self {
        Self { outcome, notes: Vec::new(), with: Vec::new() }
    }
}

/// What is to be done with an old mount.
enum Step<'a> {
    Done(Done),
    Switch(Ready<'a>),
}

impl<'a> NamespaceWork<'a> {
    pub(in crate::remount) fn run(mut self) -> Vec<Switched> {
        let mut answers: HashMap<u32, Switched> = HashMap::new();
        let before = self.table.of(self.fresh).map(|mount| mount.id).collect();
        self.uncover(&mut answers);
        let order = in_order(&self.table, self.stale);
        let order: Vec<_> =
            order.into_iter().filter(|old| !answers.contains_key(&old.id)).collect();
        let is_current = !self.all_at_once(&order, &mut answers);
        // The other methods tell by the whole table what came astray.
        if self.method == Method::Beneath && order.len() > MANY {
            self.known = Some(KnownMounts::of(&self.table));
        }
        for (nth, old) in order.into_iter().enumerate() {
            if !answers.contains_key(&old.id) {
                let done = if self.until.over() {
                    Err(Error::new(Kind::Timeout, "no time was left for it"))
                } else {
                    self.one(old, is_current && nth == 0)
                };
                self.note(old, done, &mut answers);
            }
        }
        let mut answers: Vec<_> = answers.into_values().collect();
        self.look_after(&before, &mut answers);
        answers
    }

    fn note(&self, old: &Mount, done: Result<Done>, answers: &mut HashMap<u32, Switched>) {
        let done =
            done.unwrap_or_else(|error| Done::only(ReplacementOutcome::Skipped(error.to_string())));
        for with in self.stale.iter().filter(|mount| done.with.contains(&mount.id)) {
            answers.insert(with.id, Switched::new(with, done.outcome.clone()));
        }
        let mount = old.clone();
        answers.insert(old.id, Switched { mount, outcome: done.outcome, notes: done.notes });
    }

    /// A switch was killed before its end, and then its new disk died too: of two dead mounts on
    /// each other the upper one goes first. A process that looks meets a dead one before and after.
    fn uncover(&mut self, answers: &mut HashMap<u32, Switched>) {
        let covers: Vec<_> = in_order(&self.table, self.stale)
            .into_iter()
            // Those that are there still: ids that became free are given again.
            .filter(|old| has(&self.table, old))
            .filter(|old| self.stale.iter().any(|below| is_covered_by(below, old)))
            .collect();
        for old in covers.iter().rev() {
            let done = self.inside.pin(old).and_then(|at| self.take_off(old, &at));
            let with = ids_below(&self.table, old);
            let done = done.map(|()| Done { with, ..Done::only(ReplacementOutcome::DetachedOnly) });
            self.note(old, done, answers);
        }
        if !covers.is_empty()
            && let Ok(now) = self.inside.table()
        {
            self.table = now;
        }
    }

    /// Switches by propagation all old mounts that have nothing to do with each other; the others
    /// have their own turn then. Says whether anything was done.
    fn all_at_once(&mut self, order: &[&'a Mount], answers: &mut HashMap<u32, Switched>) -> bool {
        let stale: HashSet<u32> = self.stale.iter().map(|mount| mount.id).collect();
        let stands_free = |old: &&Mount| {
            // What is mounted in a shared place also comes to others, perhaps of these.
            let parent = self.parent_of(old);
            parent.is_some_and(|parent| !Propagation::of(parent).is_shared)
                && ancestors(&self.table, old).all(|id| !stale.contains(&id))
        };
        if !self.method.shares_parents() {
            return false;
        }
        let free: Vec<_> = order.iter().copied().filter(stands_free).collect();
        if free.len() < 2 {
            return false;
        }
        let mut ready = Vec::new();
        for old in free {
            match self.prepare(old) {
                Ok(Step::Switch(one)) => ready.push(one),
                Ok(Step::Done(done)) => self.note(old, Ok(done), answers),
                Err(error) => self.note(old, Err(error), answers),
            }
        }
        for (old, done) in self.tuck(ready) {
            self.note(old, done, answers);
        }
        true
    }

    fn parent_of(&self, old: &Mount) -> Option<&Mount> {
        ground(&self.table, old)
    }

    /// A new mount that lies beneath an old one already.
    fn lower(&self, old: &Mount) -> Option<&Mount> {
        self.parent_of(old).filter(|parent| self.is_fresh_twin(parent, old))
    }

    /// What is mounted in an old mount, and not in the other one: of an old disk or of the new one.
    fn missing(&self, old: &Mount, other: &Mount) -> Vec<&Mount> {
        let is_same =
            |one: &Mount, there: &Mount| is_counterpart(one, there, self.stale, self.fresh);
        missing(&self.table, old, other, &is_same)
    }

    fn is_fresh_twin(&self, mount: &Mount, old: &Mount) -> bool {
        is_new_one_of(mount, old, self.fresh)
    }

    fn one(&mut self, old: &'a Mount, is_current: bool) -> Result<Done> {
        // Each switch may have reached others, and ids that became free are given again: so the kernel is asked
        // anew before each, for this mount alone if it can be.
        if !is_current {
            let still = self.known.as_ref().and_then(|known| known.still(old));
            self.table = still.map_or_else(|| self.inside.table(), Ok)?;
        }
        let one = match self.prepare(old)? {
            Step::Done(done) => return Ok(done),
            Step::Switch(one) => one,
        };
        if self.method != Method::Beneath {
            let (_, done) = self.tuck(vec![one]).remove(0);
            return done;
        }
        failpoints::effect("heal.beneath")?;
        let tree = one.tree.as_ref().ok_or_else(|| Error::new(Kind::Bug, "no new mount"))?;
        attach(tree, &one.at, MoveMountFlags::MOVE_MOUNT_BENEATH).map_err(wrong(old))?;
        failpoints::step("heal.attached");
        self.finish(one)
    }

    /// Finds out what is to be done with an old mount, and makes all that is needed for it.
    fn prepare(&mut self, old: &'a Mount) -> Result<Step<'a>> {
        if !has(&self.table, old) {
            // What came in its place with the switch of another one shares as that one does.
            let top = self.table.top_at(&old.target);
            let has_come = top.is_some_and(|top| self.is_fresh_twin(top, old));
            let like = || propagation::like(self.inside, &self.table, &[old]);
            let notes = has_come.then(like).unwrap_or_default();
            return Ok(Step::Done(Done { notes, ..Done::only(ReplacementOutcome::Gone) }));
        }
        if children(&self.table, old.id).any(|mount| self.is_fresh_twin(mount, old)) {
            let with = ids_below(&self.table, old);
            return Ok(Step::Done(Done { with, ..Done::only(ReplacementOutcome::Stacked) }));
        }
        let at = self.inside.pin(old)?;
        if let Some(done) = self.take_over(old, &at)? {
            return Ok(Step::Done(done));
        }
        self.comes_to_no_other(old)?;
        let parent = self.parent_of(old).cloned();
        let new = self.news.remove(&old.id).ok_or_else(|| {
            let why = self.refusals.get(&old.id).cloned();
            Error::new(Kind::Host, why.unwrap_or_else(|| "no new mount".to_owned()))
        })?;
        let news = &self.news;
        let old_of = |mount: &Mount| news.contains_key(&mount.id).then_some(mount.id);
        let mut nested = Nested::of(self.inside, &self.table, old, &old_of);
        let (with, has_nested) = (nested.replaced(), !nested.is_empty());
        // Found out before, not by a failure: a tucked one could not be taken back.
        let is_locked = self.inside.is_locked(&at);
        let tree = match new {
            New::Tree(tree) => {
                let tree = nested.put_into(
                    self.inside,
                    tree,
                    &old.target,
                    is_peer(old, self.group),
                    &mut self.news,
                )?;
                if is_locked {
                    let outcome = put_on(old, &at, &tree)?;
                    return Ok(Step::Done(Done { outcome, notes: nested.notes, with }));
                }
                Some(tree)
            }
            New::ToMake if self.method == Method::Stack || is_locked => {
                return self.cover(old, &at).map(Done::only).map(Step::Done);
            }
            New::ToMake => {
                // It is made where it is needed, and what does not come along is told there.
                nested.notes.clear();
                self.news.insert(old.id, New::ToMake);
                None
            }
        };
        let parent = match (parent, self.method) {
            (Some(parent), _) => Some(parent),
            (None, Method::Beneath) => None,
            (None, _) => {
                return Err(Error::refused("the mount that it stands on cannot be seen from here"));
            }
        };
        let mut all = descendants(&self.table, old.id);
        all.push(old);
        let of = |mount: &Mount| Propagation::of(mount);
        let shares = all.iter().any(|mount| of(mount).is_shared);
        let changes = has_nested
            || needs_settling((self.method, self.inside.is_own()), &all, parent.as_ref());
        let notes = nested.notes;
        Ok(Step::Switch(Ready { old, at, parent, tree, shares, changes, notes, with }))
    }

    /// Where a new mount lies beneath an old one already, that is taken off if the new one has all that is mounted
    /// in it. Else the new one is taken off from there: one more on it would be two, of which an unmount takes
    /// one off.
    fn take_over(&mut self, old: &Mount, at: &OwnedFd) -> Result<Option<Done>> {
        let Some(lower) = self.lower(old) else { return Ok(None) };
        let lacking = self.missing(old, lower);
        if lacking.is_empty() {
            let with = ids_below(&self.table, old);
            self.take_off(old, at)?;
            let notes = self.settle(old, None)?;
            return Ok(Some(Done { outcome: ReplacementOutcome::DetachedOnly, notes, with }));
        }
        let why = format!("the new mount beneath it came without {}", listed(&lacking));
        let stays = |error: Error| Error::refused(format!("{why}: {}", error.cause)).hint(WAY_OUT);
        self.table = draw_out(self.inside, &self.table, old, lower).map_err(stays)?;
        match self.lower(old) {
            Some(_) => Err(stays(Error::refused("it could not be taken off there"))),
            None => Ok(None),
        }
    }

    /// What is put beneath an old mount comes to each copy of it on what shares with its ground, with all that is mounted
    /// in it: so they must have that too.
    fn comes_to_no_other(&self, old: &Mount) -> Result<()> {
        let copies = self.parent_of(old).map(|ground| copies(&self.table, ground, old));
        for copy in copies.unwrap_or_default() {
            let lacking = self.missing(old, copy);
            if !lacking.is_empty() {
                let (place, lacking) = (copy.target.display(), listed(&lacking));
                let why = format!("what is put beneath it comes to {place} too, with {lacking}");
                return Err(Error::refused(why).hint(WAY_OUT));
            }
        }
        Ok(())
    }

    /// Puts new mounts beneath old ones by propagation, and takes those off.
    fn tuck(&self, mut ready: Vec<Ready<'a>>) -> Vec<(&'a Mount, Result<Done>)> {
        // What one needs, all that stand on the same have.
        let sharing: HashSet<Option<u32>> =
            ready.iter().filter(|one| one.shares).map(Ready::ground).collect();
        for one in &mut ready {
            one.shares = sharing.contains(&one.ground());
            one.changes |= one.shares;
        }
        let all: Vec<&Mount> = ready.iter().map(|one| one.old).collect();
        if let Err(error) = failpoints::effect("heal.tuck") {
            return all.into_iter().map(|old| (old, Err(error.clone()))).collect();
        }
        let workshop = self.origin.as_ref().map(|origin| Workshop {
            origin,
            stale: self.stale,
            news: &self.news,
            notes: RefCell::default(),
        });
        let sent = tuck::beneath(self.inside, &ready, workshop.as_ref());
        let mut notes = workshop.map(|workshop| workshop.notes.into_inner()).unwrap_or_default();
        let now = self.inside.table();
        let mut done = Vec::new();
        for (mut one, sent) in ready.into_iter().zip(sent) {
            let old = one.old;
            one.notes.extend(notes.remove(&old.id).unwrap_or_default());
            let result = match (sent, one.tree.as_ref()) {
                (Ok(true), _) => {
                    failpoints::step("heal.attached");
                    let now = now.as_ref().map_err(Clone::clone);
                    now.and_then(|now| self.came(now, old, &all)).and_then(|()| self.finish(one))
                }
                (Ok(false), Some(tree)) => put_on(old, &one.at, tree).map(|outcome| Done {
                    outcome,
                    notes: one.notes,
                    with: one.with,
                }),
                (Ok(false), None) => Err(Error::refused("it cannot be replaced from here")),
                (Err(error), _) => Err(error),
            };
            done.push((old, result));
        }
        done
    }

    /// Those who live here may have renamed a folder on the way: then the new mount came elsewhere,
    /// and the old one must stay.
    fn came(&self, now: &MountTable, old: &Mount, all: &[&Mount]) -> Result<()> {
        if has_come(now, old, self.fresh) {
            return Ok(());
        }
        // Takes off what came to a place where it was not sent.
        for mount in astray(now, &self.table, all, self.fresh) {
            let _ = self.inside.pin(mount).and_then(|at| self.inside.detach(&at));
        }
        Err(Error::new(Kind::Host, "the new mount did not come to its place"))
    }

    /// The new mount is under the old one.
    fn finish(&self, one: Ready<'a>) -> Result<Done> {
        let Ready { old, at, tree, changes, mut notes, with, .. } = one;
        self.take_off(old, &at)?;
        if changes {
            notes.extend(self.settle(old, tree.as_ref())?);
        }
        Ok(Done { outcome: ReplacementOutcome::Switched, notes, with })
    }

    /// Gives what is at the old one's place, and in it, the propagation that was there.
    fn settle(&self, old: &Mount, tree: Option<&OwnedFd>) -> Result<Vec<String>> {
        let mut all = descendants(&self.table, old.id);
        let alone = tree.filter(|_| all.is_empty() && self.method == Method::Beneath);
        let now = alone.and_then(|tree| in_its_place(tree, old));
        all.insert(0, old);
        let now = now.map_or_else(|| self.inside.table(), Ok)?;
        Ok(propagation::like(self.inside, &now, &all))
    }

    /// Where the kernel has no way to put a mount beneath another one.
    fn cover(&self, old: &Mount, at: &OwnedFd) -> Result<ReplacementOutcome> {
        if !self.inside.is_own() {
            let why = "this kernel has no way to replace this mount inside a container";
            return Err(Error::new(Kind::Host, why).hint("restart the container"));
        }
        failpoints::effect("heal.stack")?;
        by_mount::put_on(self.inside, &self.root, old, at)?;
        Ok(ReplacementOutcome::Stacked)
    }

    fn take_off(&self, old: &Mount, at: &OwnedFd) -> Result<()> {
        // One whose new mount follows another new one goes with the old one that lies on that.
        let has_gone = || self.inside.table().is_ok_and(|now| !has(&now, old));
        match self.take_off_there(old, at) {
            Err(_) if has_gone() => Ok(()),
            done => done,
        }
    }

    fn take_off_there(&self, old: &Mount, at: &OwnedFd) -> Result<()> {
        if Propagation::of(old).is_shared {
            // Its peers keep what is mounted in them until their own turn.
            self.inside.propagate(at, MsFlags::MS_PRIVATE)?;
        }
        failpoints::effect("heal.detach")?;
        self.inside.detach(at)?;
        failpoints::step("heal.detached");
        Ok(())
    }

    /// The switch of one mount lets a new one come beneath another new one too, whose turn was before and in which
    /// something is mounted. Says whether there was such a one.
    fn undouble(&self, now: &MountTable, before: &HashSet<u32>, answers: &mut [Switched]) -> bool {
        let doubles = doubles(now, self.fresh, before);
        for (upper, lower) in &doubles {
            let Err(error) = draw_out(self.inside, now, upper, lower) else { continue };
            let place = &upper.target;
            let note = format!("the disk is mounted twice at {}: {}", place.display(), error.cause);
            if let Some(answer) = answers.iter_mut().find(|one| one.mount.target == *place) {
                answer.notes.push(note);
            }
        }
        !doubles.is_empty()
    }

    /// Success is told from the mount table.
    fn look_after(&self, before: &HashSet<u32>, answers: &mut [Switched]) {
        let now = self.inside.table().and_then(|now| {
            let is_other = self.undouble(&now, before, answers);
            if is_other { self.inside.table() } else { Ok(now) }
        });
        let now = match now {
            Ok(now) => now,
            Err(error) => {
                for answer in answers {
                    answer.notes.push(format!("not looked after: {}", error.cause));
                }
                return;
            }
        };
        let there: HashSet<_> = now.mounts().iter().map(|one| (one.id, one.number)).collect();
        let tops = now.tops();
        for answer in answers {
            let Switched { mount: old, outcome, notes } = answer;
            let is_there = there.contains(&(old.id, old.number));
            let is_new =
                tops.get(old.target.as_path()).is_some_and(|top| self.is_fresh_twin(top, old));
            match shown_by_table(outcome, is_there, is_new) {
                AfterSwitch::AsTold => {}
                // Of nested ones whose folder is missing it was noted at the one they stood in.
                AfterSwitch::Nothing if notes.is_empty() => {
                    notes.push(format!("nothing of the new disk is at {}", old.target.display()));
                }
                AfterSwitch::Nothing | AfterSwitch::Otherwise => {
                    *outcome = ReplacementOutcome::Skipped(
                        "the mount table does not show the change".to_owned(),
                    );
                }
            }
        }
    }
}

/// What ends it when an old mount has to stay.
const WAY_OUT: &str =
    "take off what is mounted in it, and the next heal goes on; or restart the container";

fn listed(mounts: &[&Mount]) -> String {
    let all = mounts.iter().map(|mount| mount.target.display().to_string());
    format!("what is mounted at {}", all.collect::<Vec<_>>().join(", "))
}

fn put_on(old: &Mount, at: &OwnedFd, tree: &OwnedFd) -> Result<ReplacementOutcome> {
    failpoints::effect("heal.stack")?;
    attach(tree, at, MoveMountFlags::empty()).map_err(wrong(old))?;
    Ok(ReplacementOutcome::Stacked)
}

fn wrong(old: &Mount) -> impl Fn(rustix::io::Errno) -> Error {
    move |errno| {
        let error = failed(format!("mount the new disk at {}", old.target.display()), errno);
        if errno == rustix::io::Errno::NOSPC {
            return error.hint("that mount namespace is full: see the sysctl fs.mount-max");
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remount::namespace::number_of;
    use crate::remount::tests::{Machine, alone};
    use crate::safe_path::Way;
    use std::time::Duration;

    #[test]
    fn a_namespace_that_is_full_is_told_with_what_ends_it() {
        let hint = |errno| wrong(&Mount::of_a_test("7:1", "/data", ""))(errno).hint;
        let full = hint(rustix::io::Errno::NOSPC);
        assert!(full.is_some_and(|hint| hint.to_string().contains("fs.mount-max")));
        assert_eq!(hint(rustix::io::Errno::PERM), None);
    }

    #[test]
    fn mounts_are_listed_by_their_places() {
        let [one, other] = ["/a", "/b"].map(|at| Mount::of_a_test("7:1", at, ""));
        assert_eq!(listed(&[&one, &other]), "what is mounted at /a, /b");
    }

    /// The work in this thread's namespace, by the method that tells by the whole table.
    fn work<'a>(machine: &Machine, inside: &'a Inside, stale: &'a [Mount]) -> NamespaceWork<'a> {
        let root = inside.way.open(&machine.folder.join("fresh")).unwrap();
        NamespaceWork {
            inside,
            table: inside.table().unwrap(),
            stale,
            news: BTreeMap::new(),
            refusals: HashMap::new(),
            fresh: number_of(&root).unwrap(),
            root,
            group: None,
            origin: None,
            method: Method::Tuck,
            until: Deadline::after(Duration::from_secs(5)),
            known: None,
        }
    }

    #[test]
    fn what_is_not_taken_off_and_stays_is_an_error_and_what_has_gone_is_none() {
        alone(|machine| {
            let place = machine.place("a");
            machine.bind("old", &place);
            let inside = &Inside::here(Way::OnFoot).unwrap();
            let old = inside.table().unwrap().top_at(&place).unwrap().clone();
            let stale = [old.clone()];
            let work = work(machine, inside, &stale);
            let no_mount = inside.way.open(&machine.place("b")).unwrap();
            assert!(work.take_off(&old, &no_mount).is_err());
            let at = inside.pin(&old).unwrap();
            for _ in 0..2 {
                assert_eq!(work.take_off(&old, &at), Ok(()));
            }
        });
    }

    #[test]
    fn what_the_table_does_not_show_is_told() {
        alone(|machine| {
            let places = ["a", "b", "c"].map(|name| machine.place(name));
            for place in &places {
                machine.bind("old", place);
            }
            let inside = &Inside::here(Way::OnFoot).unwrap();
            let table = inside.table().unwrap();
            let olds = places.each_ref().map(|at| table.top_at(at).unwrap().clone());
            for old in &olds[..2] {
                inside.detach(&inside.pin(old).unwrap()).unwrap();
            }
            let mut answers: Vec<_> =
                olds.iter().map(|old| Switched::new(old, ReplacementOutcome::Switched)).collect();
            answers[1].notes.push("told".to_owned());
            work(machine, inside, &olds).look_after(&HashSet::new(), &mut answers);
            let nothing = format!("nothing of the new disk is at {}", places[0].display());
            assert_eq!(
                (&answers[0].outcome, &answers[0].notes),
                (&ReplacementOutcome::Switched, &vec![nothing])
            );
            for other in &answers[1..] {
                assert!(matches!(other.outcome, ReplacementOutcome::Skipped(_)), "{other:?}");
            }
        });
    }

    #[test]
    fn a_new_mount_that_came_elsewhere_is_taken_off_there_and_the_old_one_stays() {
        alone(|machine| {
            let [sent, other, renamed] = ["a", "b", "c"].map(|name| machine.place(name));
            machine.bind("old", &sent);
            machine.bind("fresh", &other);
            machine.bind("old", &other);
            let inside = &Inside::here(Way::OnFoot).unwrap();
            let before = inside.table().unwrap();
            let olds = [&sent, &other].map(|at| before.top_at(at).unwrap().clone());
            machine.bind("fresh", &renamed);
            let work = NamespaceWork { table: before, ..work(machine, inside, &olds) };
            let now = inside.table().unwrap();
            let all = [&olds[0], &olds[1]];
            assert_eq!(work.came(&now, &olds[1], &all), Ok(()), "it lies beneath that one");
            assert!(renamed.join("which").exists());
            let error = work.came(&now, &olds[0], &all).unwrap_err();
            assert_eq!(error.cause, "the new mount did not come to its place");
            assert!(!renamed.join("which").exists());
        });
    }
}
