use super::*;
use crate::model::facts::{CloudView, Disk, ProcessFact, RecordFact, RefusalFact};
use crate::model::ids::VolumeId;

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

fn mount(role: Role, on: Standing) -> MountFact {
    MountFact {
        role,
        place: "/p".into(),
        on,
        number: "7:1".parse().unwrap(),
        root: "/".into(),
        fs_type: "ext4".to_owned(),
        options: "rw".to_owned(),
        super_options: "rw".to_owned(),
        source: "/dev/incloud-disk/v1".to_owned(),
        namespace: None,
        pod: None,
        processes: Vec::new(),
    }
}

fn facts(disk: DiskFact, mounts: Vec<MountFact>) -> VolumeFacts {
    VolumeFacts {
        id: Some(VolumeId::parse("v1").unwrap()),
        name: None,
        identity: "serial v1".to_owned(),
        disk,
        cloud: CloudFact::Unknown { why: "it does not answer".to_owned() },
        mounts,
        unseen_mounts: None,
        pods: Vec::new(),
        refused: Vec::new(),
        record: RecordFact::default(),
        links: Vec::new(),
        lock: None,
    }
}

fn refusal(is_current: bool) -> RefusalFact {
    RefusalFact {
        what: "unmount u".to_owned(),
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
    let all = format!("{verdict:?}");
    for word in words {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert_eq!(verdict.next.is_none(), health == Health::Ok, "{verdict:?}");
    verdict
}

const ALL: [Role; 3] = [Role::Global, Role::Pod, Role::Container];

fn three(on: Standing) -> Vec<MountFact> {
    ALL.map(|role| mount(role, on)).to_vec()
}

#[test]
fn a_volume_on_its_disk_is_well() {
    is(&facts(disk("7:1"), three(Standing::Disk)), Health::Ok, &["1 pod's, 1 container's"]);
    is(&facts(disk("7:1"), Vec::new()), Health::Ok, &["mounted nowhere"]);
    is(&facts(DiskFact::None, Vec::new()), Health::Ok, &["no disk of it is here"]);
}

#[test]
fn off_its_disk_it_is_stale_or_dead() {
    let words = ["3 mounts stand", "7:1", "1 of them inside", "vdc (7:2)", "disk heal v1"];
    is(&facts(disk("7:2"), three(Standing::Gone)), Health::Stale, &words);
    is(&facts(DiskFact::None, three(Standing::Gone)), Health::Dead, &["no other disk"]);
    // One that was left behind is enough.
    let mut left = three(Standing::Disk);
    left[2].on = Standing::Gone;
    is(&facts(disk("7:2"), left), Health::Stale, &["1 mount stands"]);
}

#[test]
fn what_cannot_be_told_is_ambiguous_before_all_else() {
    let several = DiskFact::Ambiguous { why: "shown by loop1 and loop2".to_owned() };
    let mut seen = facts(several, three(Standing::Gone));
    seen.refused.push(refusal(true));
    is(&seen, Health::Ambiguous, &["loop1 and loop2", "by guess"]);
    let other = facts(disk("7:2"), vec![mount(Role::Pod, Standing::Other)]);
    is(&other, Health::Ambiguous, &["7:1, which the kernel still has", "vdc (7:2)"]);
}

#[test]
fn a_refusal_guards_as_long_as_it_is_asked_for() {
    let mut seen = facts(disk("7:1"), three(Standing::Disk));
    seen.refused.push(refusal(true));
    is(&seen, Health::Guarded, &["unmount for u", "38 times", "orders-0", "disk release v1"]);
    seen.mounts[1].on = Standing::Gone;
    is(&seen, Health::Stale, &[]);
    let mut over = facts(disk("7:1"), three(Standing::Disk));
    over.refused.push(refusal(false));
    is(&over, Health::Ok, &["no longer asked for"]);
}

#[test]
fn a_copy_that_is_all_that_is_left_has_leaked() {
    let mut copy = mount(Role::Stranger, Standing::Disk);
    let process = ProcessFact { pid: 42, command: "agent".to_owned(), container: None, pod: None };
    copy.processes.push(process);
    is(&facts(disk("7:1"), vec![copy.clone()]), Health::Leaked, &["42 (agent)", "restart what"]);
    is(
        &facts(disk("7:1"), vec![mount(Role::Container, Standing::Disk)]),
        Health::Leaked,
        &["end the pods"],
    );
    is(&facts(disk("7:1"), vec![mount(Role::Global, Standing::Disk), copy]), Health::Ok, &[]);
}

#[test]
fn what_disagrees_is_noted() {
    let mut seen = facts(disk("7:1"), three(Standing::Disk));
    seen.cloud = CloudFact::Known(CloudView {
        status: "in-use".to_owned(),
        size: 1,
        name: None,
        recorded_name: None,
        mounted_on: None,
        servers: vec![("other".to_owned(), None)],
        is_here: false,
    });
    seen.mounts[0].super_options = "ro,errors=remount-ro".to_owned();
    is(&seen, Health::Ok, &["attached to other", "read-only although"]);
}
