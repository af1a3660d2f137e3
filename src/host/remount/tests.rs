//! Switches by each method that needs no disk, of file systems in memory, in a mount namespace of the test's own.

use super::*;
use crate::model::disk::device::DeviceNumber;
use crate::model::mount::mountinfo::MountTable;
use crate::model::mount::replacement::ReplacementOutcome::{
    self, DetachedOnly, Gone, Skipped, Stacked,
};
use crate::ports::host::PeerGroup;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Those that leave nothing of the old mount.
const WHOLE: [Method; 3] = [Method::Beneath, Method::Tuck, Method::TuckRemounted];

/// Those of them that this kernel has: it has all that come after its best one.
fn whole() -> impl Iterator<Item = Method> {
    WHOLE.into_iter().skip_while(|method| *method != probe::best())
}

const SWITCHED: ReplacementOutcome = ReplacementOutcome::Switched;

/// A mount namespace with the folders of an old and of a new file system, and with one in whose folders those are mounted.
pub(in crate::remount) struct Machine {
    pub(in crate::remount) folder: PathBuf,
    old: DeviceNumber,
}

/// Works in a mount namespace of its own, where nothing shares with the machine's. The kernel makes such ones for root
/// alone.
pub(in crate::remount) fn apart(work: impl FnOnce() + Send) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    thread::scope(|scope| {
        let done = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            propagate(Path::new("/"), MsFlags::MS_REC | MsFlags::MS_PRIVATE);
            work();
        });
        done.join().unwrap();
    });
}

/// The same where file systems are.
pub(in crate::remount) fn alone(work: impl FnOnce(&Machine) + Send) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    apart(|| {
        tmpfs(folder);
        for name in ["ground", "old", "fresh", "other"] {
            file_system(&folder.join(name), name);
        }
        let old = table().top_at(&folder.join("old")).unwrap().number;
        work(&Machine { folder: folder.to_path_buf(), old });
    });
}

pub(in crate::remount) fn tmpfs(at: &Path) {
    mount(Some("none"), at, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
}

/// One that says which it is.
fn file_system(at: &Path, name: &str) {
    fs::create_dir(at).unwrap();
    tmpfs(at);
    fs::write(at.join("which"), name).unwrap();
    fs::create_dir(at.join("sub")).unwrap();
}

pub(in crate::remount) fn propagate(at: &Path, how: MsFlags) {
    mount(None::<&str>, at, None::<&str>, how, None::<&str>).unwrap();
}

fn bind(from: &Path, to: &Path) {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

fn table() -> MountTable {
    MountTable::parse(&fs::read("/proc/thread-self/mountinfo").unwrap()).unwrap()
}

/// Which file system is seen there.
fn seen_at(at: &Path) -> String {
    fs::read_to_string(at.join("which")).unwrap()
}

impl Machine {
    /// A folder of the common ground.
    pub(in crate::remount) fn place(&self, name: &str) -> PathBuf {
        let place = self.folder.join("ground").join(name);
        fs::create_dir_all(&place).unwrap();
        place
    }

    pub(in crate::remount) fn bind(&self, name: &str, to: &Path) {
        bind(&self.folder.join(name), to);
    }

    /// Old mounts at these folders of the ground.
    fn with_old_at(&self, names: &[&str]) -> Vec<PathBuf> {
        let places: Vec<_> = names.iter().map(|name| self.place(name)).collect();
        for place in &places {
            self.bind("old", place);
        }
        places
    }

    /// The ground, and a copy that shares with it.
    fn with_a_peer(&self) -> (PathBuf, PathBuf) {
        let (ground, copy) = (self.folder.join("ground"), self.folder.join("copy"));
        fs::create_dir(&copy).unwrap();
        propagate(&ground, MsFlags::MS_SHARED);
        bind(&ground, &copy);
        (ground, copy)
    }

    /// The old mounts on the ground and on what shares with it.
    fn stale(&self) -> Vec<Mount> {
        let first = self.folder.join("old");
        table().of(self.old).filter(|mount| mount.target != first).cloned().collect()
    }

    fn switch_these(&self, method: Method, stale: &[Mount]) -> BTreeMap<u32, Switched> {
        let root = File::open(self.folder.join("fresh")).unwrap();
        let (fresh, deadline) = (root.as_fd(), Deadline::after(Duration::from_secs(20)));
        let request = SwitchRequest { namespace: None, stale, fresh, group: None, deadline };
        let done = KernelRemounts::by(method).switch(&request).unwrap();
        assert_eq!(done.len(), stale.len(), "one answer for each");
        done.into_iter().map(|one| (one.mount.id, one)).collect()
    }

    /// Switches all old mounts; what became of each, in the order in which they were made, which is that of the table.
    fn switch(&self, method: Method) -> Vec<Switched> {
        let stale = self.stale();
        let mut done = self.switch_these(method, &stale);
        stale.iter().map(|mount| done.remove(&mount.id).unwrap()).collect()
    }
}

fn outcomes(done: &[Switched]) -> Vec<ReplacementOutcome> {
    done.iter().map(|one| one.outcome.clone()).collect()
}

fn no_notes(done: &[Switched]) {
    let all: Vec<_> = done.iter().flat_map(|one| &one.notes).collect();
    assert!(all.is_empty(), "{all:?}");
}

#[test]
fn an_old_mount_is_replaced_or_covered_and_nothing_else_is_touched() {
    for method in whole().chain([Method::Stack]) {
        alone(|machine| {
            let place = &machine.with_old_at(&["a"])[0];
            let beside = machine.place("b");
            machine.bind("other", &beside);
            let before = table().mounts().len();
            let done = machine.switch(method);
            let stays = usize::from(method == Method::Stack);
            assert_eq!(outcomes(&done), [if stays > 0 { Stacked } else { SWITCHED }], "{method}");
            no_notes(&done);
            assert_eq!((seen_at(place), seen_at(&beside)), ("fresh".into(), "other".into()));
            assert_eq!((machine.stale().len(), table().mounts().len()), (stays, before + stays));
            umount2(place, MntFlags::empty()).unwrap();
            let below = if stays > 0 { "old" } else { "none" };
            let seen = fs::read_to_string(place.join("which")).unwrap_or("none".into());
            assert_eq!(seen, below, "{method}");
        });
    }
}

#[test]
fn many_are_replaced_each_in_its_turn_or_at_once() {
    for method in whole() {
        alone(|machine| {
            let names: Vec<_> = (0..12).map(|nth| format!("place-{nth}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let places = machine.with_old_at(&names);
            let before = table().mounts().len();
            let done = machine.switch(method);
            assert_eq!(outcomes(&done), vec![SWITCHED; 12], "{method}");
            no_notes(&done);
            assert!(places.iter().all(|place| seen_at(place) == "fresh"));
            assert_eq!((machine.stale().len(), table().mounts().len()), (0, before));
            // Nothing of how it was done stays.
            assert!(table().mounts().iter().all(|mount| mount.propagation.is_empty()));
        });
    }
}

#[test]
fn what_is_mounted_in_an_old_mount_is_in_the_new_one() {
    for method in whole() {
        alone(|machine| {
            let places = machine.with_old_at(&["a", "b"]);
            let nested = places[0].join("sub");
            machine.bind("other", &nested);
            // Those in which other old ones are.
            let old_in_old = places[1].join("sub");
            machine.bind("old", &old_in_old);
            let third = machine.with_old_at(&["c"])[0].join("sub");
            machine.bind("old", &third);
            propagate(&nested, MsFlags::MS_SHARED);
            let before = table().mounts().len();
            let done = machine.switch(method);
            assert_eq!(outcomes(&done), vec![SWITCHED; 5], "{method}");
            no_notes(&done);
            let now = table();
            let shares = now.top_at(&nested).unwrap().propagation.starts_with("shared:");
            assert!(shares, "{method}: as before");
            assert_eq!(seen_at(&third), "fresh");
            assert_eq!((seen_at(&places[0]), seen_at(&nested)), ("fresh".into(), "other".into()));
            let both = (seen_at(&places[1]), seen_at(&old_in_old));
            assert_eq!(both, ("fresh".into(), "fresh".into()));
            assert_eq!((machine.stale().len(), table().mounts().len()), (0, before));
        });
    }
}

#[test]
fn of_two_dead_ones_on_each_other_the_upper_one_is_taken_off() {
    for method in whole() {
        alone(|machine| {
            let place = &machine.with_old_at(&["a"])[0];
            machine.bind("old", place);
            machine.bind("old", &place.join("sub"));
            let done = machine.switch(method);
            assert_eq!(outcomes(&done), [SWITCHED, DetachedOnly, DetachedOnly], "{method}");
            no_notes(&done[..2]);
            let nothing = format!("nothing of the new disk is at {}", place.join("sub").display());
            assert_eq!(done[2].notes, [nothing]);
            assert_eq!((seen_at(place), machine.stale().len()), ("fresh".into(), 0));
            umount2(place, MntFlags::empty()).unwrap();
            assert!(!place.join("which").exists(), "there is one of it");
        });
    }
}

#[test]
fn what_a_killed_switch_left_beneath_is_uncovered_and_what_lies_on_the_old_one_stays() {
    for method in whole().chain([Method::Stack]) {
        alone(|machine| {
            let [begun, covered] = ["a", "b"].map(|name| machine.place(name));
            machine.bind("fresh", &begun);
            machine.bind("old", &begun);
            machine.bind("old", &covered);
            // What is mounted in that one is covered too.
            machine.bind("old", &covered.join("sub"));
            machine.bind("fresh", &covered);
            let done = machine.switch(method);
            let unseen = Skipped("the mount table does not show the change".to_owned());
            assert_eq!(outcomes(&done), [DetachedOnly, Stacked, unseen], "{method}");
            no_notes(&done);
            assert_eq!((seen_at(&begun), seen_at(&covered)), ("fresh".into(), "fresh".into()));
            assert_eq!(machine.stale().len(), 2);
            umount2(&begun, MntFlags::empty()).unwrap();
            assert!(!begun.join("which").exists(), "there is one of it");
        });
    }
}

#[test]
fn one_beneath_that_lacks_what_is_mounted_in_the_old_one_is_taken_off_first() {
    for method in whole() {
        alone(|machine| {
            let place = machine.place("a");
            machine.bind("fresh", &place);
            machine.bind("old", &place);
            let nested = place.join("sub");
            machine.bind("other", &nested);
            let before = table().mounts().len();
            let done = machine.switch(method);
            assert_eq!(outcomes(&done), [SWITCHED], "{method}");
            assert_eq!((seen_at(&place), seen_at(&nested)), ("fresh".into(), "other".into()));
            assert_eq!(table().mounts().len(), before - 1, "{method}: there is one of it");
        });
    }
}

#[test]
fn what_has_gone_meanwhile_is_told_so() {
    for method in whole() {
        alone(|machine| {
            let places = machine.with_old_at(&["a", "b", "c"]);
            let stale = machine.stale();
            umount2(&places[1], MntFlags::empty()).unwrap();
            let done = machine.switch_these(method, &stale);
            let by_place: BTreeMap<_, _> =
                done.values().map(|one| (one.mount.target.clone(), &one.outcome)).collect();
            let each = places.iter().map(|place| by_place[place].clone()).collect::<Vec<_>>();
            assert_eq!(each, [SWITCHED, Gone, SWITCHED], "{method}");
        });
    }
}

#[test]
fn on_a_ground_that_shares_all_copies_are_replaced_and_share_as_before() {
    for method in whole() {
        alone(|machine| {
            let (ground, copy) = machine.with_a_peer();
            let place = machine.with_old_at(&["a"])[0].clone();
            let there = copy.join("a");
            let private = machine.place("p");
            machine.bind("old", &private);
            for one in [&private, &copy.join("p")] {
                propagate(one, MsFlags::MS_PRIVATE);
            }
            let done = machine.switch(method);
            let replaced = |one: &Switched| one.outcome.is_replaced() || one.outcome == Gone;
            assert!(done.len() == 4 && done.iter().all(replaced), "{method}: {done:?}");
            for at in [&place, &there, &private, &copy.join("p")] {
                assert_eq!(seen_at(at), "fresh", "{method}");
            }
            assert!(machine.stale().is_empty());
            let now = table();
            let shares = |at: &Path| !now.top_at(at).unwrap().propagation.is_empty();
            assert!(shares(&ground) && shares(&copy), "{method}");
            assert!(!shares(&private) && !shares(&copy.join("p")), "{method}");
        });
    }
}

#[test]
fn a_new_mount_that_would_bring_to_a_copy_what_is_not_there_is_refused() {
    for method in whole() {
        alone(|machine| {
            let (_, copy) = machine.with_a_peer();
            let place = machine.with_old_at(&["a"])[0].clone();
            propagate(&place, MsFlags::MS_PRIVATE);
            machine.bind("other", &place.join("sub"));
            let mut stale = machine.stale();
            stale.retain(|mount| mount.target == place);
            let done = machine.switch_these(method, &stale);
            let one = done.into_values().next().unwrap();
            let Skipped(why) = &one.outcome else { panic!("{method}: {one:?}") };
            assert!(why.contains("what is put beneath it comes to"), "{why}");
            assert_eq!((seen_at(&place), seen_at(&copy.join("a"))), ("old".into(), "old".into()));
        });
    }
}

#[test]
fn what_shared_with_a_group_of_the_machines_shares_with_it_again() {
    for method in whole() {
        alone(|machine| {
            let fresh = machine.folder.join("fresh");
            propagate(&machine.folder.join("old"), MsFlags::MS_SHARED);
            let places = machine.with_old_at(&["peer", "slave"]);
            propagate(&places[1], MsFlags::MS_SLAVE);
            let stale = machine.stale();
            let group = table().top_at(&places[0]).unwrap().propagation.clone();
            let number = group.trim().strip_prefix("shared:").unwrap().parse().unwrap();
            let root = File::open(&fresh).unwrap();
            let request = SwitchRequest {
                namespace: None,
                stale: &stale,
                fresh: root.as_fd(),
                group: Some(PeerGroup { number, place: root.as_fd() }),
                deadline: Deadline::after(Duration::from_secs(20)),
            };
            let done = KernelRemounts::by(method).switch(&request).unwrap();
            assert!(done.iter().all(|one| one.outcome == SWITCHED), "{method}: {done:?}");
            no_notes(&done);
            let now = table();
            let fields = |at: &Path| now.top_at(at).unwrap().propagation.trim().to_owned();
            let group = fields(&fresh);
            assert!(group.starts_with("shared:"), "{method}: {group}");
            assert_eq!(fields(&places[0]), group, "{method}");
            assert_eq!(fields(&places[1]), group.replace("shared", "master"), "{method}");
        });
    }
}

#[test]
fn what_stood_in_a_folder_that_the_new_file_system_lacks_is_told() {
    for method in whole() {
        alone(|machine| {
            let place = machine.with_old_at(&["a"])[0].clone();
            fs::create_dir(place.join("gone")).unwrap();
            machine.bind("old", &place.join("gone"));
            let done = machine.switch(method);
            assert_eq!(outcomes(&done), vec![SWITCHED; 2], "{method}");
            let expected =
                format!("nothing of the new disk is at {}", place.join("gone").display());
            assert_eq!(done[1].notes, [expected], "{method}");
            assert_eq!((seen_at(&place), machine.stale().len()), ("fresh".into(), 0));
        });
    }
}

/// Old mounts at one place of the ground, and of a copy that follows it, with another mount in the second or in both.
fn with_a_copy_that_follows(machine: &Machine, in_both: bool) -> [PathBuf; 2] {
    let (_, copy) = machine.with_a_peer();
    propagate(&copy, MsFlags::MS_SLAVE);
    let place = machine.with_old_at(&["a"])[0].clone();
    let both = [place, copy.join("a")];
    for at in &both {
        propagate(at, MsFlags::MS_PRIVATE);
        if in_both || *at == both[1] {
            machine.bind("other", &at.join("sub"));
        }
    }
    both
}

/// The copy's old mount has its turn before the one that it is a copy of.
fn copy_first(machine: &Machine, [place, there]: &[PathBuf; 2]) -> Vec<Mount> {
    let mut stale = machine.stale();
    stale.retain(|mount| mount.target == *place || mount.target == *there);
    stale.sort_by_key(|mount| mount.target == *place);
    assert_eq!(stale.len(), 2);
    stale
}

#[test]
fn a_new_mount_that_comes_beneath_another_new_one_is_taken_off_there() {
    for method in whole() {
        alone(|machine| {
            let both = with_a_copy_that_follows(machine, false);
            let before = table().mounts().len();
            let done = machine.switch_these(method, &copy_first(machine, &both));
            assert!(done.values().all(|one| one.outcome == SWITCHED), "{method}: {done:?}");
            no_notes(&done.into_values().collect::<Vec<_>>());
            assert_eq!(both.each_ref().map(|at| seen_at(at)), ["fresh", "fresh"]);
            assert_eq!(seen_at(&both[1].join("sub")), "other");
            assert_eq!(table().mounts().len(), before, "{method}: there is one of each");
        });
    }
}

#[test]
fn a_new_mount_that_cannot_be_taken_off_beneath_another_one_is_told_at_its_place() {
    // What is mounted in it keeps it; or others follow the copy, and would lose it.
    for (method, in_both) in whole().flat_map(|method| [(method, true), (method, false)]) {
        alone(|machine| {
            let both = with_a_copy_that_follows(machine, in_both);
            if !in_both {
                propagate(&machine.folder.join("copy"), MsFlags::MS_SHARED);
            }
            let done = machine.switch_these(method, &copy_first(machine, &both));
            for one in done.values() {
                assert_eq!(one.outcome, SWITCHED, "{method}");
                let told = one.notes.iter().filter(|note| note.contains("is mounted twice at"));
                let is_copy = one.mount.target == both[1];
                assert_eq!(told.count(), usize::from(is_copy), "{method} {in_both}: {done:?}");
            }
        });
    }
}
