//! Copies of this node's mounts in other mount namespaces: tell them from containers that were given the volume, and
//! unmount them.

use crate::context::Context;
use crate::failpoints;
use crate::guard::free_disks::{LETS_GO, MOMENT};
use crate::guard::{flush, refusal};
use crate::lookup::{disk_numbers, find_disk};
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Kind, Result};
use crate::model::mount::disk_users::{Answer, NamespaceUse, NamespaceUses};
use crate::model::mount::ownership::Machine;
use crate::model::mount::unstage::{self, LeakedCopies, LeakedCopy, UnstageRuling};
use crate::model::report::tear_down::TearDown;
use crate::operation::Outcome;
use crate::ownership::words::{
    at_its_places, cannot_tell, end_of_users, given_to, named, namespace, pods_of,
};
use crate::ports::clock::Deadline;
use crate::snapshot::{Renewal, Snapshot};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The pause between two attempts.
const STEP: Duration = Duration::from_millis(10);

/// A copy that could not be unmounted, in words.
struct Stays(String);

/// Copies of this node's mounts that end together with the original.
#[derive(Debug, Default)]
pub(crate) struct Views {
    /// The directories that they copy.
    folders: BTreeSet<PathBuf>,
    /// Whether some are peers of this node's own mounts and disappear with them.
    pub(crate) has_peers: bool,
}

impl Views {
    /// Adds those of a later look.
    pub(crate) fn add(&mut self, later: Self) {
        self.folders.extend(later.folders);
    }
}

/// Refuses while a container uses the volume, and unmounts mere copies. Returns the copies that cannot be unmounted
/// from inside; they end with this node's own mount.
///
/// A namespace may disappear in the meantime. So a failure only means that the observation is outdated: look again, and
/// refuse only for what stays.
pub(crate) fn judge(
    snapshot: &mut Snapshot<'_>,
    tear_down: &TearDown,
    numbers: &[DeviceNumber],
    uses: NamespaceUses,
) -> Result<Views> {
    let cx = snapshot.cx;
    let (mut uses, mut views) = (uses, Views::default());
    let mut patience: Option<(Deadline, Deadline)> = None;
    loop {
        let Err(kept) = judge_once(snapshot, tear_down, numbers, &uses, &mut views)? else {
            return Ok(views);
        };
        // Counted from the first failure, so that there is always a second look.
        let moment = || cx.deadline.at_most(MOMENT);
        let (in_all, unchanged) =
            patience.get_or_insert_with(|| (cx.deadline.at_most(LETS_GO), moment()));
        if !in_all.over()
            && unchanged.pause(STEP)
            && let Answer::Told(again) = cx.host.census.namespaces_with(numbers)
        {
            if !is_same(&uses, &again) {
                *unchanged = moment();
            }
            uses = again;
            continue;
        }
        refusal::refuse(snapshot, tear_down, &kept.0)?;
        return Ok(views);
    }
}

/// Judges one observation and acts on it. Returns, in words, what could not be unmounted.
fn judge_once(
    snapshot: &mut Snapshot<'_>,
    tear_down: &TearDown,
    numbers: &[DeviceNumber],
    uses: &NamespaceUses,
    views: &mut Views,
) -> Result<std::result::Result<(), Stays>> {
    // Some supervisors hide their first process. If it uses the mount, the unmount or the exclusive open fails.
    for untold in &uses.untold {
        tracing::debug!(%untold, "not told");
    }
    if uses.namespaces.is_empty() && uses.untold.is_empty() {
        refusal::passed(snapshot, tear_down);
        return Ok(Ok(()));
    }
    snapshot.renew(Renewal::NamespacesRead);
    let (cx, id, table, record) = (snapshot.cx, snapshot.id, snapshot.table()?, snapshot.record());
    let machine = Machine::new(cx.faces, table, record.as_ref(), numbers);
    let copies = match unstage::judge(uses, &machine, table) {
        UnstageRuling::Copied(copies) => copies,
        UnstageRuling::Hidden(untold, pods) => {
            let reason = if pods.is_empty() {
                format!("a process that may have it mounted cannot be examined: {untold}")
            } else {
                let who = given_to(&pods, record.as_ref());
                format!("{who} still run, and may have it mounted: {untold}")
            };
            return refusal::refuse_for(snapshot, tear_down, Some(pods), &reason).map(Ok);
        }
        UnstageRuling::Claimed(held) => {
            let dead = disk_numbers::all_gone(cx, numbers);
            let holders = named(&held, |one| namespace(&at_its_places(one, &machine)));
            let pods = pods_of(&held);
            let who = given_to(&pods, record.as_ref());
            let way = end_of_users(id, &held);
            let reason = format!("{who} still run: {holders}{dead}{way}");
            let pods = Some(pods).filter(|pods| !pods.is_empty());
            return refusal::refuse_for(snapshot, tear_down, pods, &reason).map(Ok);
        }
    };
    let kept = take_all_down(snapshot, numbers, copies, views)?;
    if kept.is_none() && views.folders.is_empty() {
        refusal::passed(snapshot, tear_down);
    }
    Ok(kept.map_or(Ok(()), Err))
}

/// Unmounts copies from inside. Returns the rest of the first one that could not be unmounted.
fn take_all_down(
    snapshot: &Snapshot<'_>,
    numbers: &[DeviceNumber],
    copies: LeakedCopies,
    views: &mut Views,
) -> Result<Option<Stays>> {
    let Snapshot { cx, id, .. } = *snapshot;
    views.has_peers |= copies.has_peers;
    views.folders.extend(copies.folders);
    if !copies.inside.is_empty() {
        let namespaces: Vec<_> = copies.inside.iter().map(|one| one.namespace.clone()).collect();
        flush::flush_before_copies_go(cx, id, snapshot.table()?, numbers, &namespaces)?;
    }
    let mut kept = None;
    failpoints::step("guard.looked");
    for LeakedCopy { namespace: copy, covered } in copies.inside {
        match (take_down(cx, &copy), covered) {
            (Ok(()), _) => {}
            // A container can cover the path to it, and so can its root.
            (Err(error), Some(covered)) if error.kind != Kind::Busy => {
                tracing::debug!(%error, "a copy cannot be taken down from inside");
                views.folders.extend(covered);
            }
            (Err(error), _) => {
                let way = end_of_users(id, &[&copy]);
                let name = namespace(&copy);
                let reason = format!("a copy that leaked stays: {name}: {}{way}", error.cause);
                kept.get_or_insert(Stays(reason));
            }
        }
    }
    Ok(kept)
}

/// Unmounts a copy from inside; fails if a process uses it.
fn take_down(cx: &Context<'_>, leak: &NamespaceUse) -> Result<()> {
    // Services with their own mount namespace, such as udevd, follow this node's mounts, so their copy disappears with
    // the original and is not worth logging.
    let follows = leak.mounts.iter().all(|mount| mount.propagation.contains("master:"));
    let namespace = namespace(leak);
    if follows {
        tracing::debug!(namespace, "taking down a copy that follows this machine's mounts");
    } else {
        tracing::warn!(namespace, "taking down a copy of the mount that leaked");
    }
    let door = cx.host.census.open_namespace(leak)?;
    // Unmount in reverse order.
    let mut mounts = leak.mounts.clone();
    mounts.reverse();
    cx.host.mounts.unmount_inside(&door, &mounts, cx.deadline)
}

/// After this node's own mount is gone: the disk may still be kept by copies that no mount table shows (a user may hold
/// a mount tree by descriptor), or by those that a killed call had left for later.
pub(crate) fn end_views_left(
    snapshot: &mut Snapshot<'_>,
    folder: &Path,
    (disks, numbers): (&[Device], &[DeviceNumber]),
    outcome: Outcome,
) -> Result<()> {
    let cx = snapshot.cx;
    let is_free = |disk: &Device| find_disk::is_free(cx, disk).unwrap_or(true);
    if disks.iter().all(is_free) {
        return Ok(());
    }
    if outcome == Outcome::Already {
        let views = guard_stage(snapshot, numbers)?;
        end_views(snapshot, &TearDown::Unstage, &snapshot.numbers(numbers), &views)?;
    }
    renew_in_doubt(cx, folder);
    Ok(())
}

/// Ends whatever may be mounted at the directory in other namespaces. If that fails, the disk is not free, and its
/// users are reported.
pub(crate) fn renew_in_doubt(cx: &Context<'_>, folder: &Path) {
    if let Err(error) = cx.host.mounts.exchange_folder(folder) {
        tracing::warn!(folder = %folder.display(), %error, "copies of its mount may stay");
    }
}

/// Ends copies that could not be unmounted from inside, such as locked ones in a user namespace. This node's own mounts
/// are gone by now.
pub(crate) fn end_views(
    snapshot: &Snapshot<'_>,
    tear_down: &TearDown,
    numbers: &[DeviceNumber],
    views: &Views,
) -> Result<()> {
    let cx = snapshot.cx;
    if views.folders.is_empty() {
        return Ok(());
    }
    let mut why = String::new();
    for folder in &views.folders {
        tracing::warn!(folder = %folder.display(), "putting another folder in its place: that ends the copies of its mount that stay elsewhere");
        if let Err(error) = cx.host.mounts.exchange_folder(folder) {
            why = format!(": {}", error.cause);
        }
    }
    // Wait for detached mounts and exiting processes.
    let until = cx.deadline.at_most(MOMENT);
    let uses = loop {
        let uses = match cx.host.census.namespaces_with(numbers) {
            Answer::Told(uses) => uses.namespaces,
            Answer::CannotTell(_) => Vec::new(),
        };
        if uses.is_empty() {
            refusal::passed(snapshot, tear_down);
            return Ok(());
        }
        if !until.pause(STEP) {
            break uses;
        }
    };
    let left: Vec<_> = uses.iter().collect();
    let way = end_of_users(snapshot.id, &left);
    let reason =
        format!("a copy that leaked stays: {}{why}{way}", named(&left, |one| namespace(one)));
    refusal::refuse(snapshot, tear_down, &reason)
}

/// Whether the file system may be unmounted for good, which no other process may use. Unmounts copies that leaked into
/// namespaces outside pods. Returns whether some are peers of this node's own mounts; look for those once the originals
/// are gone.
pub(crate) fn guard_stage(snapshot: &mut Snapshot<'_>, mounted: &[DeviceNumber]) -> Result<Views> {
    let numbers = snapshot.numbers(mounted);
    match snapshot.cx.host.census.namespaces_with(&numbers) {
        Answer::Told(uses) => judge(snapshot, &TearDown::Unstage, &numbers, uses),
        Answer::CannotTell(why) => {
            refusal::refuse(snapshot, &TearDown::Unstage, &cannot_tell(&why))?;
            Ok(Views::default())
        }
    }
}

/// Whether two observations show the same mounts and processes.
fn is_same(one: &NamespaceUses, other: &NamespaceUses) -> bool {
    fn facts(uses: &NamespaceUses) -> impl Iterator<Item = (Vec<u32>, Vec<u32>)> {
        uses.namespaces.iter().map(|one| {
            let mounts = one.mounts.iter().map(|mount| mount.id).collect();
            (mounts, one.processes.iter().map(|process| process.pid).collect())
        })
    }
    facts(one).eq(facts(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, FakeNamespaces, MadeUp};
    use crate::model::face::OF_TESTS;
    use crate::model::ids::{ConsumerId, VolumeId};
    use crate::model::mount::disk_users::NamespaceId;
    use crate::model::mount::disk_users::{Process, Untold};
    use crate::model::mount::mountinfo::Mount;

    #[test]
    fn two_looks_are_the_same_by_their_mounts_and_processes() {
        let uses = |id, pid| {
            let mount = Mount { id, ..Mount::of_a_test("254:16", "/data", "") };
            let one = NamespaceUse::of_a_test(vec![mount], vec![Process::of_a_test(pid)]);
            NamespaceUses { namespaces: vec![one], ..NamespaceUses::default() }
        };
        assert!(is_same(&uses(40, 7), &uses(40, 7)));
        assert!(!is_same(&uses(40, 7), &uses(41, 7)));
        assert!(!is_same(&uses(40, 7), &uses(40, 8)));
        assert!(!is_same(&uses(40, 7), &NamespaceUses::default()));
    }

    #[test]
    fn the_folders_of_a_later_look_are_ended_too() {
        let views = |folder: &str| Views { folders: [folder.into()].into(), has_peers: false };
        let mut all = views("/a");
        all.add(views("/b"));
        assert_eq!(all.folders, ["/a".into(), "/b".into()].into());
    }

    /// Asks on a node where these namespaces have the volume's file system.
    fn asked<T>(namespaces: Vec<NamespaceUse>, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let namespaces =
            FakeNamespaces { namespaces: namespaces.into(), ..FakeNamespaces::default() };
        let made_up = MadeUp { namespaces, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|cx| ask(cx))
    }

    const NUMBERS: [DeviceNumber; 1] = [DeviceNumber { major: 254, minor: 16 }];

    fn id() -> VolumeId {
        VolumeId::parse("v-1").unwrap()
    }

    /// A copy of the mount, in a namespace of these processes.
    fn copy(processes: Vec<Process>) -> NamespaceUse {
        let mount = Mount::of_a_test("254:16", "/data", "");
        let one = NamespaceUse::of_a_test(vec![mount], processes);
        NamespaceUse { id: Some(NamespaceId(1)), ..one }
    }

    fn is_refused(cx: &Context<'_>) -> bool {
        cx.store.records.load(&id()).guard.refused.contains_key(&TearDown::Unstage)
    }

    #[test]
    fn views_that_do_not_end_are_refused_with_who_lives_there() {
        let end = |namespaces, folders: &[&str]| {
            let folders = folders.iter().map(PathBuf::from).collect();
            let views = Views { folders, has_peers: false };
            asked(namespaces, |cx| {
                let (id, what) = (id(), &TearDown::Unstage);
                end_views(&Snapshot::of(cx, Some(&id)), what, &NUMBERS, &views)
            })
        };
        assert_eq!(
            end(vec![copy(vec![Process::of_a_test(7)])], &[]),
            Ok(()),
            "there are none to end"
        );
        assert_eq!(end(vec![], &["/stage"]), Ok(()));
        let error = end(vec![copy(vec![Process::of_a_test(7)])], &["/stage"]).unwrap_err();
        assert_eq!(error.kind, Kind::Guarded);
        assert!(error.cause.contains("7 (sh)"), "{error}");
    }

    #[test]
    fn a_copy_that_stays_is_no_end_of_its_refusals() {
        let judge = |namespaces: Vec<NamespaceUse>| {
            asked(namespaces.clone(), |cx| {
                let (id, what, mut views) = (id(), &TearDown::Unstage, Views::default());
                let mut snapshot = Snapshot::of(cx, Some(&id));
                refusal::refuse(&snapshot, what, "why").unwrap_err();
                let uses = NamespaceUses { namespaces, ..NamespaceUses::default() };
                let judged = judge_once(&mut snapshot, what, &NUMBERS, &uses, &mut views);
                (judged.unwrap().is_ok(), is_refused(cx))
            })
        };
        assert_eq!(judge(vec![]), (true, false));
        assert_eq!(judge(vec![copy(Vec::new())]), (false, true));
    }

    /// Otherwise a copy of the directory would be taken for a container's own mount.
    #[test]
    fn a_folder_that_was_mounted_after_the_first_look_is_no_claim_of_who_sees_it() {
        const FOLDER: &str = "/root/pods/u-1/volumes/ours~disk/pv";
        let root = "20 1 254:0 / / rw - ext4 d rw";
        let folder = format!("40 20 254:16 / {FOLDER} rw - ext4 v rw");
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let mounts = FakeMounts::in_turn(&[&[root], &[root, &folder]]);
        let made_up = MadeUp { mounts, ..MadeUp::with(&cloud, &devices) };
        let ground = Mount::of_a_test("254:0", "/", "");
        let mount = Mount::of_a_test("254:16", FOLDER, "");
        let mount = Mount { parent: ground.id, id: ground.id + 1, ..mount };
        let processes = vec![Process::of_a_test(7)];
        let sees_it = NamespaceUse {
            id: Some(NamespaceId(1)),
            user: Some(1000),
            beneath: vec![ground],
            ..NamespaceUse::of_a_test(vec![mount], processes)
        };
        let uses = NamespaceUses { namespaces: vec![sees_it], ..NamespaceUses::default() };
        let views = made_up.drive(|cx| {
            let (id, cx) = (id(), Context { faces: OF_TESTS, ..*cx });
            let mut snapshot = Snapshot::of(&cx, Some(&id));
            assert!(snapshot.table().unwrap().at(Path::new(FOLDER)).next().is_none());
            judge(&mut snapshot, &TearDown::Unstage, &NUMBERS, uses).map(|views| views.folders)
        });
        assert_eq!(views, Ok([FOLDER.into()].into()));
    }

    /// Who decides without being examined: a container outside pods for every volume, whether its id is known or not; a
    /// pod for its own volumes; a user for none.
    #[test]
    fn what_cannot_be_examined_counts_by_whose_it_is() {
        let judge = |id: Option<&VolumeId>, pod: Option<&str>, is_anyones: bool| {
            asked(Vec::new(), |cx| {
                let known = ConsumerId::parse("pod-1").unwrap();
                let remembered = cx.store.records.update(&self::id(), |record| {
                    record.mounts.consumers.insert(known, String::new());
                });
                remembered.unwrap();
                let pods = pod.map(|pod| ConsumerId::parse(pod).unwrap()).into_iter().collect();
                let untold = Untold {
                    pods,
                    is_anyones,
                    way_out: Some("kill 7".to_owned()),
                    ..Untold::of_unknown("process 7".to_owned(), "it hangs".to_owned())
                };
                let uses = NamespaceUses { untold: vec![untold], ..NamespaceUses::default() };
                let mut snapshot = Snapshot::of(cx, id);
                let judged = judge(&mut snapshot, &TearDown::Unstage, &NUMBERS, uses);
                judged.err().map(|error| error.cause)
            })
        };
        let id = id();
        for id in [Some(&id), None] {
            let refused = judge(id, None, true).unwrap();
            assert!(refused.contains("cannot be examined: process 7: it hangs"), "{refused}");
            assert!(refused.contains("to end it: kill 7"), "{refused}");
            assert_eq!(judge(id, None, false), None, "a user's");
            assert_eq!(judge(id, Some("pod-2"), false), None, "another volume's pod");
        }
        let refused = judge(Some(&id), Some("pod-1"), false).unwrap();
        assert!(refused.contains("still run, and may have it mounted"), "{refused}");
    }
}
