use super::*;
use crate::model::cgroup::Owner;
use crate::model::mount::disk_users::Process;
use crate::model::mount::replacement::MountIntent;
use crate::model::record::NamespaceSign;

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
