//! Release a consumer's directory while its processes still use the volume, and record that.
//!
//! kubelet 1.20 does not recover from a refused `unmount`: it waits for the existing mount until it is restarted. A
//! successful one takes nothing from a container, and kubelet mounts again once it knows that the pod wants the volume.
//! Only the volume itself must stay: its unstage and `detach` are refused until the last process has ended. See
//! docs/rules/letting-go.md.
use crate::context::Context;
use crate::guard::{refusal, remote_mark};
use crate::lookup::disk_numbers::all_gone;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::mount::disk_users::{Answer, Holder, NamespaceId, NamespaceUse};
use crate::model::mount::letting_go::{Kept, Ruling, in_the_way, judge};
use crate::model::mount::ownership::Machine;
use crate::model::record::NamespaceSign;
use crate::model::report::tear_down::TearDown;
use crate::ownership;
use crate::ownership::words::{cannot_tell, file_use, holder, labelled, named, namespace};
use crate::ports::clock::now;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::path::Path;

/// The consumer's directory and its mounts.
pub(crate) struct ConsumerFolder<'a> {
    pub(crate) consumer: &'a ConsumerId,
    pub(crate) folder: &'a Path,
    pub(crate) mounted: &'a [DeviceNumber],
}

impl ConsumerFolder<'_> {
    fn tear_down(&self) -> TearDown {
        TearDown::Unpublish(self.consumer.clone())
    }
}

/// Whether the directory may be unmounted: not if a process of the consumer uses the volume through a mount that would
/// go along. Returns the users that keep the volume.
pub(crate) fn guard_folder(snapshot: &Snapshot<'_>, one: &ConsumerFolder<'_>) -> Result<Vec<Kept>> {
    let cx = snapshot.cx;
    let tear_down = one.tear_down();
    let numbers = snapshot.numbers(one.mounted);
    let uses = match uses_of(snapshot, one, &numbers) {
        Answer::Told(Users { unplaced, .. }) if !unplaced.is_empty() => {
            let who = named(&unplaced, holder);
            let reason = format!("pod {} still runs: {who}", label_of(snapshot, one));
            return refuse_for_it(snapshot, one, &reason).map(|()| Vec::new());
        }
        Answer::Told(Users { uses, .. }) => uses,
        Answer::CannotTell(why) => {
            return refusal::refuse(snapshot, &tear_down, &cannot_tell(&why)).map(|()| Vec::new());
        }
    };
    let (own, record) = (snapshot.table()?, snapshot.record());
    let machine = Machine::new(cx.faces, own, record.as_ref(), &numbers);
    let kept = match judge(one.folder, own, &machine, &uses) {
        Ruling::Free => Vec::new(),
        Ruling::LetGo(kept) => {
            must_be_marked(snapshot, one)?;
            kept
        }
        Ruling::Takes(lost) => {
            let lost = named(&lost, |one| namespace(one));
            let dead = all_gone(cx, &numbers);
            let reason = format!(
                "pod {} still runs, and would lose its mount with the folder's: {lost}{dead}",
                label_of(snapshot, one)
            );
            return refuse_for_it(snapshot, one, &reason).map(|()| Vec::new());
        }
    };
    refusal::passed(snapshot, &tear_down);
    Ok(kept)
}

/// After the unmount: whether processes of the consumer still use the volume. An error if one of them lost it, or if
/// the mark in the cloud is missing; then the mount must be restored.
pub(crate) fn look_again(
    snapshot: &Snapshot<'_>,
    one: &ConsumerFolder<'_>,
    kept: &[Kept],
) -> Result<bool> {
    let cx = snapshot.cx;
    let numbers = snapshot.numbers(one.mounted);
    let Users { uses, .. } = match uses_of(snapshot, one, &numbers) {
        Answer::Told(users) => users,
        Answer::CannotTell(why) => {
            return refusal::refuse(snapshot, &one.tear_down(), &cannot_tell(&why)).map(|()| true);
        }
    };
    let is_there = |namespace: NamespaceId| {
        let sign = NamespaceSign::of_number(namespace.0);
        !matches!(cx.host.census.find_namespace(&sign), Ok(None))
    };
    let lost = |kept: &&Kept| !kept.is_in(&uses) && kept.namespace.is_none_or(is_there);
    if let Some(lost) = kept.iter().find(lost) {
        let place = lost.mount.target.display();
        let reason = format!(
            "pod {} still runs, and its mount at {place} went with the folder's: that is put back",
            label_of(snapshot, one)
        );
        refuse_for_it(snapshot, one, &reason)?;
    }
    if came_in_between(&uses, kept) {
        must_be_marked(snapshot, one)?;
    }
    Ok(!uses.is_empty())
}

/// The mount is busy. If a process of the consumer uses the volume through this very mount, that is the guard's
/// refusal.
pub(crate) fn refuse_who_is_in_the_way(
    snapshot: &Snapshot<'_>,
    one: &ConsumerFolder<'_>,
    error: Error,
) -> Error {
    if error.kind != Kind::Busy {
        return error;
    }
    let numbers = snapshot.numbers(one.mounted);
    let Answer::Told(users) = snapshot.cx.host.census.device_users(&numbers) else { return error };
    let files = in_the_way(one.consumer, &users.files, &users.namespaces);
    if files.is_empty() {
        return error;
    }
    let who = named(&files, |file| file_use(file));
    let label = label_of(snapshot, one);
    let reason = format!("pod {label} still uses the folder on the machine itself: {who}");
    refuse_for_it(snapshot, one, &reason).err().unwrap_or(error)
}

/// Records the release before it happens, in case the call is killed right after the unmount. The guard does not rely
/// on it; it checks the processes.
pub(crate) fn note_letting_go(cx: &Context<'_>, id: &VolumeId, consumer: &ConsumerId) {
    let (at, when, by) = (now(), cx.host.environment.uptime(), cx.host.environment.caller());
    let noted = cx.store.records.update(id, |record| {
        record.mounts.let_go.note(consumer, at, &when, by);
        // Without its directory nothing else shows that this driver bound the volume for that pod.
        record.mounts.consumers.entry(consumer.clone()).or_default();
    });
    if let Err(error) = noted {
        tracing::warn!(volume = %id, %error, "that the folder is let go of is not remembered");
    }
}

/// The release did not happen.
pub(crate) fn forget_letting_go(cx: &Context<'_>, id: &VolumeId, consumer: &ConsumerId) {
    let forgotten = cx.store.records.update(id, |record| {
        record.mounts.let_go.folders.remove(consumer);
    });
    if let Err(error) = forgotten {
        tracing::debug!(volume = %id, %error, "the folder is still called let go of");
    }
}

/// The consumer's processes that use the volume, by their mount namespaces.
fn uses_of(
    snapshot: &Snapshot<'_>,
    one: &ConsumerFolder<'_>,
    numbers: &[DeviceNumber],
) -> Answer<Users> {
    let cx = snapshot.cx;
    let ask = || ownership::holders_of(snapshot, one.consumer, numbers);
    let holders = match ask() {
        Answer::Told(holders) if holders.is_empty() => return Answer::Told(Users::default()),
        Answer::Told(holders) => holders,
        Answer::CannotTell(why) => return Answer::CannotTell(why),
    };
    let mut uses = match cx.host.census.namespaces_with(numbers) {
        Answer::Told(uses) => uses.namespaces,
        Answer::CannotTell(why) => return Answer::CannotTell(why),
    };
    let pids: BTreeSet<u32> = holders.iter().map(|one| one.process.pid).collect();
    uses.retain(|here| is_lived_in(here, one.consumer, &pids));
    // A process that has ended uses nothing; of any other one the namespace must be known.
    let mut unplaced = outside_of(&uses, holders);
    if !unplaced.is_empty() {
        match ask() {
            Answer::Told(now) => unplaced.retain(|one| is_among(one, &now)),
            Answer::CannotTell(why) => return Answer::CannotTell(why),
        }
    }
    Answer::Told(Users { uses, unplaced })
}

/// Until kubelet mounts again, the mark in the cloud may be all that stops a controller's detach, so it must be there.
/// Where the cloud forbids marks, the pod goes without.
fn must_be_marked(snapshot: &Snapshot<'_>, one: &ConsumerFolder<'_>) -> Result<()> {
    let label = || label_of(snapshot, one);
    let Some(id) = snapshot.id else {
        let reason = format!("pod {} still runs, and which volume it has cannot be told", label());
        return refuse_for_it(snapshot, one, &reason);
    };
    if remote_mark::is_marked_or_cannot_be(snapshot.cx, id) {
        return Ok(());
    }
    let reason = format!(
        "pod {} still runs, and the cloud could not be told that it has the volume: see the log",
        label()
    );
    refuse_for_it(snapshot, one, &reason)
}

fn refuse_for_it(snapshot: &Snapshot<'_>, one: &ConsumerFolder<'_>, reason: &str) -> Result<()> {
    let pods = BTreeSet::from([one.consumer.clone()]);
    refusal::refuse_for(snapshot, &one.tear_down(), Some(pods), reason)
}

fn label_of(snapshot: &Snapshot<'_>, one: &ConsumerFolder<'_>) -> String {
    labelled(one.consumer, label(snapshot, one.consumer).as_deref())
}

/// The consumer's name for people, if known.
pub(crate) fn label(snapshot: &Snapshot<'_>, consumer: &ConsumerId) -> Option<String> {
    snapshot.record()?.mounts.consumers.remove(consumer)
}

/// The consumer's processes that use the volume.
#[derive(Default)]
struct Users {
    uses: Vec<NamespaceUse>,
    /// Processes whose namespace is unknown.
    unplaced: Vec<Holder>,
}

/// Whether a process uses the volume now that did not before the unmount, so that it has a mount of its own.
fn came_in_between(uses: &[NamespaceUse], kept: &[Kept]) -> bool {
    !uses.is_empty() && kept.is_empty()
}

/// Whether one of these processes, or another one of the consumer, is in that namespace.
fn is_lived_in(here: &NamespaceUse, consumer: &ConsumerId, pids: &BTreeSet<u32>) -> bool {
    here.processes
        .iter()
        .any(|one| pids.contains(&one.pid) || one.owner.pod.as_ref() == Some(consumer))
}

/// The processes that are in none of the namespaces.
fn outside_of(uses: &[NamespaceUse], mut holders: Vec<Holder>) -> Vec<Holder> {
    let within: BTreeSet<u32> =
        uses.iter().flat_map(|one| &one.processes).map(|one| one.pid).collect();
    holders.retain(|one| !within.contains(&one.process.pid));
    holders
}

fn is_among(one: &Holder, others: &[Holder]) -> bool {
    others.iter().any(|other| other.process.pid == one.process.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeNamespaces, MadeUp};
    use crate::model::cgroup::Owner;
    use crate::model::mount::disk_users::{PodUsers, Process};
    use crate::model::mount::mountinfo::Mount;
    use std::collections::VecDeque;

    fn pod(name: &str) -> ConsumerId {
        ConsumerId::parse(name).unwrap()
    }

    fn process(pid: u32, of: Option<&str>) -> Process {
        let owner = Owner { pod: of.map(pod), ..Owner::default() };
        Process { owner, ..Process::of_a_test(pid) }
    }

    #[test]
    fn a_namespace_is_a_consumers_by_a_holder_or_by_another_process_of_it() {
        let here = NamespaceUse::of_a_test(
            Vec::new(),
            vec![process(7, None), process(8, Some("a")), process(9, Some("b"))],
        );
        let is_its =
            |name, pids: &[u32]| is_lived_in(&here, &pod(name), &pids.iter().copied().collect());
        assert!(is_its("a", &[]));
        assert!(is_its("c", &[7]));
        assert!(!is_its("c", &[10]));
    }

    #[test]
    fn who_has_the_volume_after_an_unmount_that_kept_none_came_in_between() {
        let mount = Mount::of_a_test("7:1", "/data", "");
        let kept = || vec![Kept { namespace: None, mount: mount.clone() }];
        let uses = || vec![NamespaceUse::of_a_test(vec![mount.clone()], vec![process(7, None)])];
        assert!(came_in_between(&uses(), &[]));
        assert!(!came_in_between(&uses(), &kept()));
        assert!(!came_in_between(&[], &[]));
        assert!(!came_in_between(&[], &kept()));
    }

    #[test]
    fn who_lives_in_none_of_the_namespaces_is_told() {
        let holder = |pid| Holder { process: process(pid, None), places: Vec::new() };
        let uses = [
            NamespaceUse::of_a_test(Vec::new(), vec![process(7, None)]),
            NamespaceUse::of_a_test(Vec::new(), vec![process(8, None)]),
        ];
        let outside = outside_of(&uses, vec![holder(7), holder(9), holder(8)]);
        assert_eq!(outside, [holder(9)]);
        assert!(is_among(&holder(9), &[holder(7), holder(9)]));
        assert!(!is_among(&holder(9), &[holder(7)]));
    }

    /// Asks about the directory of pod `a`, whose processes use the volume as observed in turn, in these namespaces.
    fn asked<T>(
        looks: &[&[u32]],
        namespaces: Vec<NamespaceUse>,
        ask: impl FnOnce(&Snapshot<'_>, &ConsumerFolder<'_>) -> T,
    ) -> T {
        let places = vec!["/data".into()];
        let of = |pid: &u32| Holder { process: process(*pid, Some("a")), places: places.clone() };
        let look = |holders: &&[u32]| {
            let holders = holders.iter().map(of).collect();
            PodUsers { holders, has_cgroup: true }
        };
        let pod_users = looks.iter().map(look).collect::<VecDeque<_>>().into();
        let namespaces = namespaces.into();
        let namespaces = FakeNamespaces { namespaces, pod_users, ..FakeNamespaces::default() };
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let (consumer, mounted) = (pod("a"), [DeviceNumber { major: 7, minor: 1 }]);
        let folder = Path::new("/root/pods/a/volumes/ours~disk/pv");
        let id = VolumeId::parse("v-1").unwrap();
        let one = ConsumerFolder { consumer: &consumer, folder, mounted: &mounted };
        let made_up = MadeUp { namespaces, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|cx| ask(&Snapshot::of(cx, Some(&id)), &one))
    }

    /// A container of pod `a` with the volume at a place of its own.
    fn container(pid: u32) -> NamespaceUse {
        let mount = Mount::of_a_test("7:1", "/data", "");
        let beneath = vec![Mount { id: mount.parent, ..Mount::of_a_test("0:5", "/", "") }];
        let one = NamespaceUse::of_a_test(vec![mount], vec![process(pid, Some("a"))]);
        NamespaceUse { id: Some(NamespaceId(1)), beneath, ..one }
    }

    #[test]
    fn a_folder_is_let_go_of_while_a_container_keeps_its_own_mount() {
        let guard = |looks: &[&[u32]], namespaces| asked(looks, namespaces, guard_folder);
        assert_eq!(guard(&[&[]], vec![]).unwrap(), []);
        assert_eq!(guard(&[&[7]], vec![container(7)]).unwrap().len(), 1);
        assert_eq!(guard(&[&[]], vec![container(7)]).unwrap(), [], "none of the pod has it");
        assert_eq!(guard(&[&[10], &[]], vec![]).unwrap(), [], "it has ended meanwhile");
        let error = guard(&[&[9]], vec![container(7)]).unwrap_err();
        assert_eq!(error.kind, Kind::Guarded, "where that one lives is not known");
        assert!(error.cause.starts_with("pod a still runs: 9 "), "{error}");
    }

    #[test]
    fn after_the_unmount_it_is_told_whether_the_pod_has_the_volume_still() {
        let mount = Mount::of_a_test("7:1", "/data", "");
        let kept = [Kept { namespace: Some(NamespaceId(1)), mount }];
        let again = |holders: &[u32], namespaces, kept: &[Kept]| {
            asked(&[holders], namespaces, |snapshot, one| look_again(snapshot, one, kept))
        };
        assert_eq!(again(&[7], vec![container(7)], &kept), Ok(true));
        assert_eq!(again(&[], vec![], &[]), Ok(false));
        assert_eq!(again(&[], vec![], &kept), Ok(false), "its namespace has gone");
        let error = again(&[], vec![container(7)], &kept).unwrap_err();
        assert!(error.cause.contains("went with the folder's"), "{error}");
    }
}
