use super::*;
use crate::Context;
use crate::fakes::{FakeCloud, FakeDevices, FakeNamespaces, MadeUp};
use crate::host::machine::boot_id;
use crate::model::cgroup::Owner;
use crate::model::mount::disk_users::Process;
use crate::model::mount::replacement::MountIntent;
use crate::model::record::{NamespaceSign, VolumeRecord};
use std::time::Duration;

fn mount(number: &str, target: &str) -> Mount {
    Mount::of_a_test(number, target, "")
}

/// A namespace where these pods live, and so many mounts of the dead disk are.
fn namespace(id: u64, pods: &[Option<&str>], count: usize) -> NamespaceUse {
    let process = |pod: Option<&str>| {
        let pod = pod.map(|pod| ConsumerId::parse(pod).unwrap());
        Process { owner: Owner { pod, container: None }, ..Process::of_a_test(7) }
    };
    let mounts = (0..count).map(|place| mount("254:16", &format!("/data-{place}"))).collect();
    let processes = pods.iter().copied().map(process).collect();
    NamespaceUse { id: Some(NamespaceId(id)), ..NamespaceUse::of_a_test(mounts, processes) }
}

fn consumers() -> BTreeSet<ConsumerId> {
    BTreeSet::from([ConsumerId::parse("u-1").unwrap()])
}

#[test]
fn pods_that_have_the_volume_come_before_other_pods_and_those_before_what_is_no_pod() {
    let all = [
        namespace(1, &[], 1),
        namespace(2, &[None, Some("u-2")], 1),
        namespace(3, &[Some("u-2"), Some("u-1")], 1),
        namespace(4, &[None], 1),
        namespace(5, &[Some("u-1")], 1),
        namespace(6, &[Some("u-3")], 1),
    ];
    let kinds = all.each_ref().map(|one| kind_of(one, &consumers()));
    assert_eq!(kinds, [2, 1, 0, 2, 0, 1]);
    let visits = in_order(all.to_vec(), &consumers(), &[]);
    assert_eq!(visits.iter().map(|visit| visit.kind).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    let ids: BTreeSet<_> = visits.iter().map(|visit| visit.one.id.unwrap().0).collect();
    assert_eq!(ids, BTreeSet::from([1, 2, 3, 4, 5, 6]), "each once");
    assert!(visits.iter().all(|visit| visit.kind == kind_of(&visit.one, &consumers())));
}

#[test]
fn which_of_its_equals_begins_is_left_to_chance() {
    let all: Vec<_> = (0..8).map(|id| namespace(id, &[], 8)).collect();
    let begins = || {
        let visits = in_order(all.clone(), &consumers(), &[]);
        (visits[0].one.id, visits[0].one.mounts[0].target.clone())
    };
    let seen: BTreeSet<_> = (0..200).map(|_| begins()).collect();
    let (namespaces, mounts): (BTreeSet<_>, BTreeSet<_>) = seen.into_iter().unzip();
    // That one of eight does not come in 200 tries has a chance of one in ten thousand millions.
    assert_eq!((namespaces.len(), mounts.len()), (8, 8));
    assert_eq!(by_chance(0), 0, "of none");
}

#[test]
fn the_mounts_of_a_namespace_are_replaced_in_parts_and_none_is_left_out() {
    let whole = namespace(1, &[Some("u-1")], 2 * AT_ONCE + 1);
    let visit = Visit::of(whole.clone(), &consumers(), &[]);
    assert_eq!(visit.parts.iter().map(Vec::len).collect::<Vec<_>>(), [AT_ONCE, AT_ONCE, 1]);
    let targets = |mounts: &[Mount]| -> BTreeSet<_> {
        mounts.iter().map(|mount| mount.target.clone()).collect()
    };
    let together: Vec<_> = visit.parts.iter().flatten().cloned().collect();
    assert_eq!(targets(&together), targets(&whole.mounts));
    let part = visit.with(visit.parts[2].clone());
    assert_eq!((part.mounts.len(), part.id, part.processes), (1, whole.id, whole.processes));
}

#[test]
fn what_was_skipped_in_a_namespace_that_is_no_more_is_gone() {
    let done = || {
        let skipped = ReplacementOutcome::Skipped("busy".to_owned());
        let one = |outcome| Switched::new(&mount("254:16", "/data"), outcome);
        vec![one(skipped), one(ReplacementOutcome::Switched)]
    };
    let mut replacing = Replacing {
        visited: vec![(1, NamespaceId(5)), (2, NamespaceId(6))],
        ..Replacing::default()
    };
    replacing.healed.places =
        ["this machine", "five", "six"].map(|at| (at.to_owned(), done())).into();
    replacing.has_gone_but(&[namespace(6, &[], 1)]);
    let firsts = replacing.healed.places.iter().map(|(_, done)| done[0].outcome.clone());
    let skipped = ReplacementOutcome::Skipped("busy".to_owned());
    assert_eq!(firsts.collect::<Vec<_>>(), [skipped.clone(), ReplacementOutcome::Gone, skipped]);
    let is_switched =
        |(_, done): &(String, Vec<Switched>)| done[1].outcome == ReplacementOutcome::Switched;
    assert!(replacing.healed.places.iter().all(is_switched));
}

#[test]
fn the_mounts_of_a_disk_that_cannot_be_kept_are_left_alone_and_told() {
    let mut here = namespace(1, &[], 1);
    here.mounts.push(mount("254:32", "/other"));
    let mut stale = StaleMounts {
        disk: None,
        dead: Vec::new(),
        own: vec![mount("254:16", "/data"), mount("254:32", "/other")],
        elsewhere: vec![here, namespace(2, &[], 3)],
        untold: None,
        is_all_known: true,
    };
    let number = DeviceNumber { major: 254, minor: 16 };
    let told = without(&mut stale, &[(number, Error::new(Kind::Timeout, "no time was left"))]);
    let why = "the mounts of the dead disk 254:16: none of them can be reached: no time was left";
    assert_eq!(told, [why]);
    let targets = |mounts: &[Mount]| -> Vec<_> {
        mounts.iter().map(|mount| mount.target.display().to_string()).collect()
    };
    assert_eq!(targets(&stale.own), ["/other"]);
    assert_eq!(stale.elsewhere.len(), 1, "the other namespace has none left");
    assert_eq!(targets(&stale.elsewhere[0].mounts), ["/other"]);
    assert!(without(&mut stale, &[]).is_empty());
    assert_eq!((stale.own.len(), stale.elsewhere.len()), (1, 1));
}

#[test]
fn what_is_written_down_of_a_namespace_comes_first() {
    let intent = |place: usize| MountIntent {
        id: None,
        number: DeviceNumber { major: 254, minor: 32 },
        target: format!("/data-{place}").into(),
        propagation: String::new(),
    };
    let begun = |namespace, places: &[usize]| Switching {
        boot: String::new(),
        sign: NamespaceSign::of_number(namespace),
        mounts: places.iter().copied().map(intent).collect(),
    };
    let mut one = namespace(1, &[], 5);
    put_first(&mut one, &[begun(2, &[0, 3]), begun(1, &[4, 2])]);
    let targets = |one: &NamespaceUse| -> Vec<_> {
        one.mounts.iter().map(|mount| mount.target.display().to_string()).collect()
    };
    assert_eq!(targets(&one), ["/data-2", "/data-4", "/data-0", "/data-1", "/data-3"]);
    // By chance, and not each time.
    let all = [begun(1, &[4])];
    let firsts = (0..200).map(|_| Visit::of(namespace(1, &[], 5), &consumers(), &all));
    let count = firsts.filter(|visit| visit.parts[0][0].target.ends_with("data-4")).count();
    assert!((60..180).contains(&count), "{count} of 200");
}

#[test]
fn why_something_of_a_namespace_was_left_is_what_was_said_last() {
    let mut replacing = Replacing::default();
    let one = namespace(1, &[], 1);
    replacing.is_left(&one, "no time was left");
    replacing.is_left(&one, "it is busy");
    assert_eq!(replacing.why, BTreeMap::from([(one.id, "it is busy".to_owned())]));
}

fn id() -> VolumeId {
    VolumeId::parse("v-1").unwrap()
}

fn dead() -> DeviceNumber {
    DeviceNumber { major: 254, minor: 16 }
}

/// What came of a heal of a volume whose old mounts stand in these namespaces.
struct Came {
    healed: Healed,
    /// What was done, in its order.
    done: Vec<String>,
    looks: u32,
    record: VolumeRecord,
}

impl Came {
    fn done(&self) -> Vec<&str> {
        self.done.iter().map(String::as_str).collect()
    }

    fn count(&self, what: &str) -> usize {
        self.done.iter().filter(|one| one.starts_with(what)).count()
    }
}

/// Heals all of them, of which these are known before.
fn healed(
    namespaces: FakeNamespaces,
    known: Vec<NamespaceUse>,
    is_all_known: bool,
    before: impl FnOnce(&Context<'_>),
) -> Came {
    let cloud = FakeCloud::default();
    let devices = FakeDevices::default().with("vdb", 1 << 30, "v-1");
    let disk = devices.disks[0].0.clone();
    let made_up = MadeUp { namespaces, ..MadeUp::with(&cloud, &devices) };
    let (healed, record) = made_up.drive(|cx| {
        before(cx);
        let pod = ConsumerId::parse("u-1").unwrap();
        let note_pod =
            |record: &mut VolumeRecord| drop(record.mounts.consumers.insert(pod, String::new()));
        cx.store.records.update(&id(), note_pod).unwrap();
        let (own, untold, dead) = (Vec::new(), None, vec![dead()]);
        let stale = StaleMounts { disk: None, dead, own, elsewhere: known, untold, is_all_known };
        let fresh = File::open("/dev/null").unwrap();
        let shares = TimeShares::of(Deadline::after(Duration::from_secs(20)), false);
        let healed = switch_everywhere(cx, &id(), (&stale, &disk), &fresh, false, shares);
        (healed.unwrap(), cx.store.records.load(&id()))
    });
    let namespaces = made_up.namespaces;
    Came { healed, done: namespaces.done.take(), looks: namespaces.looks.get(), record }
}

fn all_of(namespaces: &[NamespaceUse]) -> FakeNamespaces {
    FakeNamespaces { namespaces: namespaces.to_vec().into(), ..FakeNamespaces::default() }
}

#[test]
fn all_is_written_down_before_the_first_switch_and_pods_of_the_volume_are_switched_first() {
    let all = [
        namespace(3, &[None], 1),
        namespace(1, &[Some("u-1")], 2),
        namespace(2, &[Some("u-2")], 3),
    ];
    let came = healed(all_of(&all), all.to_vec(), true, |_| {});
    assert_eq!(came.healed.left, [""; 0]);
    let each = ["intend 2 in 1", "intend 3 in 2", "intend 1 in 3"];
    let switched = ["switch 2 in 1", "switch 3 in 2", "switch 1 in 3"];
    assert_eq!(came.done(), [each, switched].concat());
    assert_eq!(came.looks, 1, "whether there are others");
    assert!(came.record.heal.switching.is_empty());
}

#[test]
fn where_nothing_is_known_to_be_there_it_is_looked_for_others_unless_all_are_known() {
    assert_eq!(healed(all_of(&[]), Vec::new(), true, |_| {}).looks, 0);
    assert_eq!(healed(all_of(&[]), Vec::new(), false, |_| {}).looks, 1);
    let late = [namespace(9, &[Some("u-1")], 1)];
    let came = healed(all_of(&late), Vec::new(), false, |_| {});
    assert_eq!(came.done(), ["intend 1 in 9", "switch 1 in 9"]);
    let all = [namespace(1, &[Some("u-1")], 1), late[0].clone()];
    let came = healed(all_of(&all), all[..1].to_vec(), true, |_| {});
    assert_eq!(came.done(), ["intend 1 in 1", "switch 1 in 1", "intend 1 in 9", "switch 1 in 9"]);
}

#[test]
fn what_cannot_be_replaced_is_tried_once_and_told_after_a_second_look() {
    let all = [namespace(1, &[Some("u-1")], 1)];
    let stuck = vec!["/data-0".into()];
    let namespaces = FakeNamespaces { stuck, ..all_of(&all) };
    let came = healed(namespaces, all.to_vec(), true, |_| {});
    assert_eq!((came.count("switch"), came.looks), (1, 2));
    let left = &came.healed.left;
    assert!(left.len() == 1 && left[0].starts_with("still on the dead disk: "), "{left:?}");
    // While something goes on it is tried again: as long as this does.
    let two = [namespace(1, &[Some("u-1")], 2)];
    let namespaces = FakeNamespaces { stuck: vec!["/data-0".into()], ..all_of(&two) };
    let came = healed(namespaces, two.to_vec(), true, |_| {});
    assert_eq!(came.done()[1..], ["switch 2 in 1", "intend 1 in 1", "switch 1 in 1"]);
}

#[test]
fn a_namespace_that_opens_later_is_switched_then_and_looked_after_once_more() {
    let all = [namespace(1, &[Some("u-1")], 1), namespace(2, &[Some("u-1")], 1)];
    // Once to write down what is changed there, and in its turn.
    let closed = |tries| BTreeMap::from([(1, tries)]).into();
    let namespaces = FakeNamespaces { closed: closed(2), ..all_of(&all) };
    let came = healed(namespaces, all.to_vec(), true, |_| {});
    let done = ["intend 1 in 2", "switch 1 in 2", "intend 1 in 1", "switch 1 in 1"];
    assert_eq!(came.done()[..4], done);
    assert_eq!(came.count("set back"), 2, "{:?}", came.done);
    assert_eq!((&came.healed.left[..], came.record.heal.switching.len()), (&[][..], 0));

    let begun = |cx: &Context<'_>| {
        let mounts = vec![MountIntent {
            id: Some(7),
            number: dead(),
            target: "/".into(),
            propagation: String::new(),
        }];
        let note = |record: &mut VolumeRecord| {
            record.heal.will_switch(&boot_id(), NamespaceSign::of_number(1), mounts);
        };
        cx.store.records.update(&id(), note).unwrap();
    };
    let namespaces = FakeNamespaces { closed: closed(99), ..all_of(&all) };
    let came = healed(namespaces, all.to_vec(), true, begun);
    assert_eq!(came.count("set back"), 0, "it is not known what it has");
    assert_eq!(came.healed.left.len(), 1);
    assert!(came.healed.left[0].ends_with("it does not open"), "{:?}", came.healed.left);
    assert_eq!(came.record.heal.switching.len(), 1, "that is remembered");
}

#[test]
fn of_several_that_need_much_room_in_the_record_the_last_waits_and_is_told() {
    let all: Vec<_> = (1..=7).map(|number| namespace(number, &[None], 1)).collect();
    let much = (0, (1 << 20) - 4096);
    let changes = || BTreeMap::from([("/data-0".into(), much)]);
    let namespaces = FakeNamespaces { changes: changes(), ..all_of(&all) };
    let came = healed(namespaces, all.clone(), true, |_| {});
    assert_eq!((came.count("switch"), came.healed.left.len()), (6, 1));
    assert!(came.healed.left[0].contains("too much to remember"), "{:?}", came.healed.left);
    let first_switch = came.done.iter().position(|one| one.starts_with("switch")).unwrap();
    assert_eq!(first_switch, 7, "each was asked before");
    assert!(came.record.heal.switching.is_empty(), "the next heal has room for it");
}

#[test]
fn mounts_that_change_too_much_are_found_by_halves_and_cost_no_others() {
    let all = [namespace(1, &[Some("u-1")], 2 * AT_ONCE)];
    let changes = BTreeMap::from([
        ("/data-7".into(), (1001, 0)),
        ("/data-8".into(), (600, 0)),
        ("/data-9".into(), (600, 0)),
    ]);
    let namespaces = FakeNamespaces { changes, ..all_of(&all) };
    let came = healed(namespaces, all.to_vec(), true, |_| {});
    let left = &came.healed.left;
    assert!(
        left.len() == 1 && left[0].contains("1002 mounts would have to be put right"),
        "{left:?}"
    );
    let outcomes = came.healed.places.iter().flat_map(|(_, done)| done);
    let switched = outcomes.filter(|one| one.outcome == ReplacementOutcome::Switched).count();
    assert_eq!(switched, 2 * AT_ONCE - 1);
}

#[test]
fn a_namespace_that_does_not_open_is_not_tried_for_each_of_its_parts() {
    let all = [namespace(1, &[Some("u-1")], 3 * AT_ONCE), namespace(2, &[Some("u-1")], 1)];
    // When it is asked before, in its turn, and in that of the next round: else its third part would come through.
    let namespaces = FakeNamespaces { closed: BTreeMap::from([(1, 3)]).into(), ..all_of(&all) };
    let came = healed(namespaces, all.to_vec(), true, |_| {});
    assert_eq!((came.count("switch"), came.healed.left.len()), (1, 1));
}

#[test]
fn what_is_replaced_in_a_namespace_is_finished_there_and_what_is_skipped_is_not() {
    let one = |target: &str, outcome| Switched::new(&mount("254:16", target), outcome);
    let skipped = ReplacementOutcome::Skipped("busy".to_owned());
    let done = [one("/a", ReplacementOutcome::Switched), one("/b", skipped)];
    let mut replacing = Replacing::default();
    replacing.is_done(None, &done);
    assert!(replacing.finished.is_empty());
    replacing.is_done(Some(NamespaceId(5)), &done);
    let finished = HashSet::from([Path::new("/a").to_path_buf()]);
    assert_eq!(replacing.finished, [(NamespaceId(5), finished)].into());
}
