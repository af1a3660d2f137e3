use super::*;
use crate::advice::advise;
use crate::cloud::attachment_state::{VolumePhase, VolumeStatus};
use crate::ids::{ConsumerId, VolumeId};
use crate::mount::mountinfo::MountTable;
use crate::mount::staleness::{Doubt, Here, MountVerdict, Presence, judge as judge_mount};
use crate::report::facts::{
    CloudView, Disk, LeftAttached, LetGoFact, MapFact, PodFact, ProcessFact, RecordFact,
    RefusalFact, WaitFact,
};
use crate::shield::own_map::MapState;

fn disk(number: &str) -> DiskFact {
    DiskFact::Proven(Disk {
        name: "vdc".to_owned(),
        number: number.parse().unwrap(),
        size: 1 << 30,
        read_only: false,
        sequence: Some(3),
        shows_whole_id: false,
        shows: Vec::new(),
    })
}

fn mount(role: Role, verdict: MountVerdict) -> MountFact {
    let table = MountTable::parse(b"40 22 7:1 / /p rw - ext4 /dev/incloud-disk/v1 rw\n").unwrap();
    MountFact::new(&table.mounts()[0], role, Some(verdict))
}

fn facts(disk: DiskFact, mounts: Vec<MountFact>) -> VolumeFacts {
    VolumeFacts {
        id: Some(VolumeId::parse("v1").unwrap()),
        name: None,
        identity: "serial v1".to_owned(),
        disk,
        map: None,
        cloud: CloudFact::Unknown { why: "it does not answer".to_owned() },
        mounts,
        unseen_mounts: None,
        users_of_lost_disk: Vec::new(),
        unseen_users: None,
        pods: Vec::new(),
        refused: Vec::new(),
        let_go: Vec::new(),
        left_attached: None,
        record: RecordFact::default(),
        links: Vec::new(),
        lock: None,
    }
}

fn refusal(is_current: bool) -> RefusalFact {
    RefusalFact {
        tear_down: TearDown::Unpublish(ConsumerId::parse("u").unwrap()),
        what: "unmount u".to_owned(),
        told: "unmount for u".to_owned(),
        operation: "unmount",
        reason: "pod shop/orders-0 still runs".to_owned(),
        since: 1,
        last: 2,
        count: 38,
        is_current,
    }
}

#[track_caller]
fn is(facts: &VolumeFacts, health: Health, words: &[&str]) -> Verdict {
    let verdict = judge(facts);
    assert_eq!(verdict.health, health, "{verdict:?}");
    let command = verdict.command.as_ref().map(ToString::to_string);
    let all = format!("{verdict:?} {command:?}");
    for word in words {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert_eq!(verdict.next.is_none(), health == Health::Ok, "{verdict:?}");
    verdict
}

const ALL: [Role; 3] = [Role::Global, Role::Pod, Role::Container];

fn three(verdict: &MountVerdict) -> Vec<MountFact> {
    ALL.map(|role| mount(role, verdict.clone())).to_vec()
}

#[test]
fn a_volume_on_its_disk_is_well() {
    is(&facts(disk("7:1"), three(&MountVerdict::Healthy)), Health::Ok, &["1 pod's, 1 container's"]);
    is(&facts(disk("7:1"), Vec::new()), Health::Ok, &["mounted nowhere"]);
    let mut elsewhere = facts(DiskFact::None, Vec::new());
    elsewhere.cloud = CloudFact::Known(CloudView::default());
    is(&elsewhere, Health::Ok, &["no disk of it is here"]);
}

#[test]
fn off_its_disk_it_is_stale_or_dead() {
    let words = ["3 mounts stand", "7:1", "1 of them inside", "vdc (7:2)", "Heal v1"];
    is(&facts(disk("7:2"), three(&MountVerdict::Stale)), Health::Stale, &words);
    is(&facts(DiskFact::None, three(&MountVerdict::Waiting)), Health::Dead, &["no other disk"]);
    // One that was left behind is enough.
    let mut left = three(&MountVerdict::Healthy);
    left[2] = mount(Role::Container, MountVerdict::Stale);
    is(&facts(disk("7:2"), left), Health::Stale, &["1 mount stands"]);
}

/// No heal moves a btrfs: to be told to heal it would lead nowhere.
#[test]
fn a_btrfs_off_its_disk_ends_with_its_pods() {
    let mut mounts = three(&MountVerdict::Stale);
    for mount in &mut mounts {
        mount.fs_type = "btrfs".to_owned();
    }
    let mut seen = facts(disk("7:2"), mounts);
    let verdict = is(&seen, Health::Stale, &["a btrfs cannot be mounted beside its dead self"]);
    assert_eq!(verdict.command, Some(Remedy::Holders.of("v1")));
    seen.pods = vec![PodFact {
        uid: ConsumerId::parse("u").unwrap(),
        name: Some("shop/db-0".to_owned()),
        has_it: true,
    }];
    let verdict = is(&seen, Health::Stale, &["restart shop/db-0"]);
    assert_eq!(verdict.command, Some("kubectl delete pod -n shop db-0".into()));
    seen.disk = DiskFact::None;
    for mount in &mut seen.mounts {
        mount.verdict = Some(MountVerdict::Waiting);
    }
    is(&seen, Health::Dead, &["then restart its pods, for no heal moves a btrfs"]);
}

#[test]
fn what_cannot_be_told_is_ambiguous_before_all_else() {
    let several = |among: [&str; 2]| DiskFact::Ambiguous {
        why: "shown by loop1 and loop2".to_owned(),
        among: among.map(|number| number.parse().unwrap()).to_vec(),
    };
    let mut seen = facts(several(["7:1", "7:2"]), three(&MountVerdict::Ambiguous));
    seen.refused.push(refusal(true));
    is(
        &seen,
        Health::Ambiguous,
        &[
            "loop1 and loop2",
            "Until that is settled the driver mounts",
            "number 7:1 is mounted",
            "leave the one with the number 7:1",
        ],
    );
    // What is mounted is none of them: it may be dead.
    seen.disk = several(["7:2", "7:3"]);
    let verdict = is(&seen, Health::Ambiguous, &["compare them", "never one that is mounted"]);
    assert!(!verdict.consequence.unwrap().contains("goes on"));
    let other = MountVerdict::Foreign("serial v2".to_owned());
    let other = facts(disk("7:2"), vec![mount(Role::Pod, other)]);
    let words =
        ["/p is mounted from 7:1", "now belongs to another disk (serial v2)", "vdc (7:2)", "lsblk"];
    is(&other, Health::Ambiguous, &words);
    let way = Some("echo 1 > /sys/x removes it".into());
    let halted = MountVerdict::NotProvenDead(Doubt { way, ..Doubt::new("vdc is offline") });
    let halted = facts(disk("7:1"), vec![mount(Role::Pod, halted)]);
    is(&halted, Health::Ambiguous, &["not proven dead (vdc is offline)", "/sys/x"]);
}

#[test]
fn a_map_that_waits_is_a_pause_and_says_what_ends_it() {
    let way = Some(advise("{} ends the wait", [Remedy::Release.of("v1")]));
    let doubt = Doubt { way, is_pause: true, ..Doubt::new("dm-0 waits for its disk") };
    let mounts = vec![mount(Role::Global, MountVerdict::NotProvenDead(doubt))];
    let mut seen = facts(DiskFact::None, mounts);
    seen.map = Some(MapFact {
        name: "dm-0".to_owned(),
        number: "7:1".parse().unwrap(),
        state: MapState::WaitsForDisk,
        path: Some("254:16".parse().unwrap()),
        opened: 1,
        wait: None,
    });
    let words = ["Reads and writes wait", "none has failed", "Release v1 ends the wait"];
    let verdict = is(&seen, Health::Ambiguous, &words);
    assert!(!verdict.consequence.unwrap().contains("wrong one"), "it is the right disk");
    let note = &verdict.notes[0];
    assert!(note.contains("dm-0 (7:1) on 254:16, which waits for its disk"), "{note}");
    let not_switched = Some("vdc: it was written elsewhere".to_owned());
    if let Some(map) = &mut seen.map {
        map.wait = Some(WaitFact { paused: 70, patience_left: 230, not_switched });
    }
    is(&seen, Health::Ambiguous, &["not put there: vdc: it was written", "for 70 s", "in 230 s"]);
}

/// Its mounts stand on the volume's own disk, and yet nothing is well.
#[test]
fn a_map_that_fails_over_its_disk_is_told_with_the_command_that_looks() {
    let mut seen = facts(disk("7:1"), vec![mount(Role::Global, MountVerdict::Healthy)]);
    let map = |state, opened| MapFact {
        name: "dm-0".to_owned(),
        number: "7:1".parse().unwrap(),
        state,
        path: Some("254:16".parse().unwrap()),
        opened,
        wait: None,
    };
    seen.map = Some(map(MapState::Fails, 1));
    let words = ["Reads and writes fail", "not proven", "Heal v1"];
    is(&seen, Health::Ambiguous, &words);
    for (state, opened) in
        [(MapState::Fails, 0), (MapState::Works, 1), (MapState::WorksUnshielded, 1)]
    {
        seen.map = Some(map(state, opened));
        is(&seen, Health::Ok, &[]);
    }
}

/// What the heal would do, and what people see, are one rule.
#[test]
fn every_verdict_of_the_heal_has_its_health() {
    let other = || Presence::Other("serial v2".to_owned());
    let halted = || Presence::Halted(Doubt::new("vdc is offline"));
    let several = || DiskFact::Ambiguous { why: "several".to_owned(), among: Vec::new() };
    for (presence, disk, health) in [
        (Presence::Own, disk("7:1"), Health::Ok),
        (Presence::Own, disk("7:2"), Health::Ambiguous),
        (Presence::Own, DiskFact::None, Health::Ambiguous),
        (Presence::Own, several(), Health::Ambiguous),
        (Presence::Absent, disk("7:2"), Health::Stale),
        (Presence::Absent, DiskFact::None, Health::Dead),
        (Presence::Absent, several(), Health::Ambiguous),
        (halted(), disk("7:1"), Health::Ambiguous),
        (halted(), disk("7:2"), Health::Ambiguous),
        (halted(), DiskFact::None, Health::Ambiguous),
        (halted(), several(), Health::Ambiguous),
        (other(), disk("7:2"), Health::Ambiguous),
        (other(), DiskFact::None, Health::Ambiguous),
        (other(), several(), Health::Ambiguous),
    ] {
        let verdict = judge_mount("7:1".parse().unwrap(), &presence, disk.here().unwrap());
        let seen = facts(disk, three(&verdict));
        is(&seen, health, &[]);
        let heals = matches!(health, Health::Stale | Health::Dead);
        assert_eq!(heals, verdict.is_dead(), "{verdict:?}");
    }
    assert_eq!(DiskFact::Unseen { why: String::new(), check: None }.here(), None::<Here>);
}

#[test]
fn a_refusal_guards_as_long_as_it_is_asked_for() {
    let mut seen = facts(disk("7:1"), three(&MountVerdict::Healthy));
    seen.refused.push(refusal(true));
    is(&seen, Health::Guarded, &["unmount for u", "38 times", "orders-0", "Release v1"]);
    // kubelet 1.20 neglects a pod whose unmount was refused; of other calls it has no memory.
    is(&seen, Health::Guarded, &["restart kubelet once when the API answers again", "issue 41522"]);
    seen.refused[0].tear_down = TearDown::Unstage;
    is(&seen, Health::Guarded, &["if it should run, do nothing"]);
    seen.disk = disk("7:2");
    seen.mounts[1] = mount(Role::Pod, MountVerdict::Stale);
    is(&seen, Health::Stale, &[]);
    let mut over = facts(disk("7:1"), three(&MountVerdict::Healthy));
    over.refused.push(refusal(false));
    is(&over, Health::Ok, &["no longer asked for"]);
}

#[test]
fn a_copy_that_is_all_that_is_left_has_leaked() {
    let mut copy = mount(Role::Stranger, MountVerdict::Healthy);
    let process = ProcessFact { pid: 42, command: "agent".to_owned(), container: None, pod: None };
    copy.processes.push(process);
    is(
        &facts(disk("7:1"), vec![copy.clone()]),
        Health::Leaked,
        &["42 (agent)", "restart the process"],
    );
    is(
        &facts(disk("7:1"), vec![mount(Role::Container, MountVerdict::Healthy)]),
        Health::Leaked,
        &["end the pods"],
    );
    is(
        &facts(disk("7:1"), vec![mount(Role::Global, MountVerdict::Healthy), copy]),
        Health::Ok,
        &[],
    );
}

#[test]
fn what_disagrees_is_noted() {
    let mut seen = facts(disk("7:1"), three(&MountVerdict::Healthy));
    seen.cloud = CloudFact::Known(CloudView {
        status: VolumeStatus::new(VolumePhase::Attached, "in-use"),
        size: 1,
        servers: vec![("other".to_owned(), None)],
        is_here: false,
        ..CloudView::default()
    });
    seen.mounts[0].super_options = "ro,errors=remount-ro".to_owned();
    is(&seen, Health::Ok, &["attached to other", "read-only although"]);
}

#[test]
fn what_was_let_go_is_told_and_is_no_alarm_until_it_lasts() {
    let pod = ConsumerId::parse("u").unwrap();
    let one = LetGoFact {
        pod: pod.clone(),
        since: 7_860_000,
        back: None,
        lasts: false,
        is_forgotten: false,
    };
    let with = |one: &LetGoFact, has_it: bool| {
        let pods = vec![PodFact { uid: pod.clone(), name: Some("shop/orders-0".into()), has_it }];
        judge(&VolumeFacts { let_go: vec![one.clone()], pods, ..facts(disk("7:1"), Vec::new()) })
    };
    let verdict = with(&one, true);
    let told = "kubelet let go of shop/orders-0's folder at 1970-01-01T02:11:00.000Z; ";
    assert_eq!(verdict.health, Health::Ok);
    let still = "the pod has the volume; kubelet has not mounted it there again yet";
    assert_eq!(verdict.notes, [format!("{told}{still}")]);
    let back = LetGoFact { back: Some(7_920_000), ..one.clone() };
    let again = "the pod kept the volume; mounted again at 1970-01-01T02:12:00.000Z";
    assert_eq!(with(&back, true).notes, [format!("{told}{again}")]);
    let verdict = with(&LetGoFact { lasts: true, ..one.clone() }, true);
    assert_eq!((verdict.health, verdict.notes.len()), (Health::LetGo, 0));
    assert!(verdict.because.contains(still), "{verdict:?}");
    let verdict = with(&LetGoFact { is_forgotten: true, ..one }, false);
    assert_eq!((verdict.health, verdict.command), (Health::LetGo, Some(Remedy::Heal.into())));
}

fn user(pid: u32, command: &str, pod: Option<&str>) -> HolderFact {
    HolderFact {
        process: Some(ProcessFact {
            pid,
            command: command.to_owned(),
            container: None,
            pod: pod.map(|_| ConsumerId::parse("u").unwrap()),
        }),
        pod_name: pod.map(str::to_owned),
        how: "file",
        what: "/data/wal (descriptor 7)".to_owned(),
        is_on_gone_disk: true,
        namespace: None,
    }
}

/// The heal moves mounts; what a program has open writes to the lost disk until it ends.
#[test]
fn a_process_with_files_of_the_lost_disk_makes_it_half_healed() {
    let mut facts = facts(disk("7:2"), three(&MountVerdict::Healthy));
    facts.users_of_lost_disk = vec![
        user(41, "mysqld", Some("shop/db-0")),
        user(41, "mysqld", Some("shop/db-0")),
        user(9, "rsync", None),
    ];
    let verdict = is(
        &facts,
        Health::HalfHealed,
        &[
            "41 (mysqld) of shop/db-0",
            "kubectl delete pod -n shop db-0",
            "restart what runs as process 9",
        ],
    );
    assert_eq!(verdict.command, Some(Remedy::EndHolders.of("v1")));
    assert!(verdict.consequence.unwrap().contains("is lost"));
    // While mounts stand there too, that is what is told.
    facts.mounts = three(&MountVerdict::Stale);
    is(&facts, Health::Stale, &[]);
}

/// Without root, or without an answer of the cloud where nothing else speaks for it, it is not well: it
/// is not known.
#[test]
fn what_could_not_be_seen_is_not_well() {
    let mut unseen = facts(disk("7:1"), three(&MountVerdict::Healthy));
    unseen.unseen_mounts = Some("only root sees all processes".to_owned());
    is(&unseen, Health::Unknown, &["only root sees", "ExplainAsRoot v1"]);
    is(&facts(DiskFact::None, Vec::new()), Health::Unknown, &["it does not answer"]);
    let here = facts(disk("7:1"), three(&MountVerdict::Healthy));
    is(&here, Health::Ok, &[]);
    let mut no_users = here;
    no_users.unseen_users = Some("too many processes".to_owned());
    is(&no_users, Health::Unknown, &["too many processes"]);
    // What is wrong for all to see is told.
    let mut dead = facts(DiskFact::None, three(&MountVerdict::Waiting));
    dead.unseen_mounts = Some("only root".to_owned());
    is(&dead, Health::Dead, &[]);
}

/// A refused detach says where it is mounted, and hides which pod has it.
#[test]
fn of_several_refusals_the_one_that_names_the_pod_is_told() {
    let mut facts = facts(disk("7:1"), three(&MountVerdict::Healthy));
    let detach = RefusalFact {
        tear_down: TearDown::Detach,
        told: "detach".to_owned(),
        reason: "mounted at /g".to_owned(),
        ..refusal(true)
    };
    facts.refused = vec![detach, refusal(true)];
    facts.pods = vec![PodFact {
        uid: ConsumerId::parse("u").unwrap(),
        name: Some("shop/orders-0".to_owned()),
        has_it: true,
    }];
    let verdict = is(&facts, Health::Guarded, &["pod shop/orders-0 still runs"]);
    let consequence = verdict.consequence.unwrap();
    assert_eq!(
        consequence,
        "No harm: shop/orders-0 uses it and goes on. Unmount for u was refused 38 times."
    );
}

#[test]
fn a_volume_that_kubelet_left_attached_is_orphaned() {
    let left = |doubt: Option<&str>| VolumeFacts {
        left_attached: Some(LeftAttached { silent_for: 420, doubt: doubt.map(str::to_owned) }),
        ..facts(disk("7:1"), Vec::new())
    };
    let seen = left(None);
    is(
        &seen,
        Health::Orphaned,
        &["7 minutes ago", "a pod on another node cannot start", "the timer detaches it"],
    );
    assert_eq!(judge(&seen).command, Some(Remedy::Heal.into()));
    let seen = left(Some("its configuration cannot be read"));
    is(
        &seen,
        Health::Orphaned,
        &["nothing does so automatically", "its configuration cannot be read"],
    );
    assert!(
        judge(&seen)
            .command
            .is_some_and(|command| command.to_string().starts_with("Detach(None) "))
    );
}

#[test]
fn ranks_of_earlier_versions_stay() {
    let ranks = Health::ALL.map(|health| (health.word(), health.rank()));
    let stays = [
        "ok",
        "let-go",
        "guarded",
        "leaked",
        "unknown",
        "half-healed",
        "stale",
        "dead",
        "covered",
        "ambiguous",
    ];
    for (rank, word) in stays.iter().enumerate() {
        assert!(ranks.contains(&(word, u8::try_from(rank).unwrap())), "{word}: {ranks:?}");
    }
    assert_eq!(Health::Orphaned.rank(), Health::LetGo.rank());
}
