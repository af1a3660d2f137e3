use super::*;
use crate::advice;
use crate::model::advice::REMEDY_WORDS;
use crate::model::cloud::attachment_state::{VolumePhase, VolumeStatus};
use crate::model::ids::{ConsumerId, VolumeName};
use crate::model::mount::mountinfo::MountTable;
use crate::model::mount::staleness::MountVerdict;
use crate::model::report::facts::{
    CloudFact, CloudView, Disk, MountFact, PodFact, RecordFact, Role,
};
use crate::operator::rows::{check, rows};
use crate::operator::terminal::width;

fn facts(id: &str) -> VolumeFacts {
    let mount = |role, verdict, place: &str| {
        let line = format!("40 22 7:1 / {place} rw - ext4 /dev/incloud-disk/v1 rw\n");
        MountFact::new(&MountTable::parse(line.as_bytes()).unwrap().mounts()[0], role, verdict)
    };
    VolumeFacts {
        id: Some(VolumeId::parse(id).unwrap()),
        name: Some(VolumeName::parse("pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44").unwrap()),
        identity: String::new(),
        disk: DiskFact::Proven(Disk {
            name: "nvme10n1".to_owned(),
            number: "7:2".parse().unwrap(),
            size: 1,
            read_only: false,
            sequence: None,
            shows_whole_id: true,
            shows: Vec::new(),
        }),
        map: None,
        cloud: CloudFact::Known(CloudView {
            status: VolumeStatus::new(VolumePhase::Attached, "in-use"),
            size: 1,
            servers: vec![("s".to_owned(), None)],
            is_here: true,
            ..CloudView::default()
        }),
        mounts: vec![
            mount(Role::Global, Some(MountVerdict::Healthy), "/g"),
            mount(Role::Pod, Some(MountVerdict::Healthy), "/p"),
            mount(Role::Pod, Some(MountVerdict::Stale), "/q"),
        ],
        unseen_mounts: None,
        users_of_lost_disk: Vec::new(),
        unseen_users: None,
        pods: vec![PodFact {
            uid: ConsumerId::parse("u").unwrap(),
            name: Some("shop/orders-0".to_owned()),
            has_it: true,
        }],
        refused: Vec::new(),
        let_go: Vec::new(),
        left_attached: None,
        record: RecordFact::default(),
        links: Vec::new(),
        lock: None,
    }
}

fn status(facts: Vec<VolumeFacts>) -> Status {
    let row = |facts: VolumeFacts| Row { verdict: judge(&facts), facts, last_call: None };
    Status {
        format: 1,
        node: "n".to_owned(),
        at: String::new(),
        not_ours: Vec::new(),
        cloud_answered: true,
        cloud_silence: None,
        unseen: Vec::new(),
        volumes: facts.into_iter().map(row).collect(),
    }
}

fn plain(status: &Status) -> String {
    text(status, Paint { is_on: false }, 0)
}

#[test]
fn the_table_is_aligned_and_fits() {
    let mut long = facts(&"x".repeat(128));
    long.name = None;
    let text = plain(&status(vec![facts("6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5"), long]));
    // A command is whole, however long it is.
    let of_table = |line: &&str| !line.trim_start().starts_with("$ ");
    assert!(text.lines().filter(of_table).all(|line| line.chars().count() <= width()), "{text}");
    // What is cut can still be copied.
    let joined: String = text.split_whitespace().collect();
    assert!(joined.contains(&"x".repeat(128)), "{text}");
    let lines: Vec<_> = text.lines().collect();
    let head = lines[0];
    for (name, cell) in [
        ("HEALTH", "STALE "),
        ("POD", "shop/orders-0"),
        ("VOLUME", "pvc-5d0a7c3e (6f1c2d3e)"),
        ("DISK", "nvme10n1"),
    ] {
        let at = head.find(name).unwrap();
        assert!(lines[1][at..].starts_with(cell), "{name}: {text}");
    }
    // What it means comes first, then what can be done.
    assert!(
        lines[2].trim_start().starts_with("Reads and writes fail: the disk went away"),
        "{text}"
    );
    assert!(text.contains("2 volumes on n: 2 stale"), "{text}");
}

#[test]
fn names_are_shortened_where_they_end_with_a_uuid() {
    let id = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
    assert_eq!(shortened(id), "6f1c2d3e");
    assert_eq!(shortened(&format!("pvc-{id}")), "pvc-6f1c2d3e");
    for whole in
        ["orders", "", "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4ex", "磁盘磁盘磁盘磁盘磁盘磁盘磁盘"]
    {
        assert_eq!(shortened(whole), whole);
    }
    let mut one = facts(id);
    one.name = None;
    assert_eq!(called(&one), "6f1c2d3e");
    one.id = None;
    assert_eq!(called(&one), "?");
}

#[test]
fn silence_of_the_cloud_and_of_the_kernel_is_said() {
    let mut one = facts("v1");
    one.cloud = CloudFact::Unknown { why: "no route".to_owned() };
    one.unseen_mounts = Some("not root".to_owned());
    let mut status = status(vec![one]);
    status.cloud_silence = Some("no route".to_owned());
    status.unseen.push("mounts in containers: not root".to_owned());
    let text = plain(&status);
    assert!(!text.contains("detached"), "{text}");
    assert!(
        text.contains("its view is unknown: no route") && text.contains("Not seen: mounts"),
        "{text}"
    );
}

#[test]
fn colour_changes_no_width() {
    let status = status(vec![facts("v1")]);
    let painted = text(&status, Paint { is_on: true }, 0);
    assert!(painted.contains("\x1b[31mSTALE\x1b[0m"), "{painted:?}");
    let mut bare = String::new();
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        bare += before;
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(bare + rest, plain(&status));
    assert_eq!(plain(&self::status(Vec::new())), "no volume is on n\n");
}

#[test]
fn the_last_call_is_told_in_a_line() {
    let entry = Entry {
        until: Some(61_000),
        count: 38,
        pod: Some("shop/orders-0".to_owned()),
        ending: Ending::Refused,
        took_ms: Some(3),
        ..Entry::new(1000, "unmount", "why".to_owned())
    };
    assert_eq!(
        last(&entry, 73_000),
        "last: unmount for shop/orders-0 refused 38 times, 12 s ago, in 3 ms"
    );
    let failed = Entry { ending: Ending::Failed, count: 1, until: None, ..entry };
    assert_eq!(
        last(&failed, 73_000),
        "last: unmount for shop/orders-0 failed, 1 min ago, in 3 ms: why"
    );
}

#[test]
fn a_script_gets_whole_cells_and_a_line_for_each_volume() {
    let _ = REMEDY_WORDS.set(advice::command);
    let mut odd = facts("v2");
    odd.name = None;
    odd.pods.clear();
    odd.unseen_mounts = Some("a\ttab".to_owned());
    let mut status = status(vec![facts("v1"), odd]);
    status.cloud_silence = Some("no\nroute\there".to_owned());
    let text = rows(&status);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines[0], ["node", "n", "2", "no\\nroute\\there", "-"]);
    assert!(lines[1..].iter().all(|cells| cells.len() == 11 && cells[0] == "volume"), "{text}");
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[1][1..4], ["6", "stale", "shop/orders-0"]);
    assert!(
        lines[1][6].starts_with("Reads and writes fail") && lines[1][8] == "disk heal v1",
        "{text}"
    );
    assert_eq!((lines[2][3], lines[2][9], lines[2][10]), ("-", "v2", "-"), "{text}");
}

#[test]
fn a_monitor_gets_the_worst_and_an_exit_status() {
    let with = |set: &dyn Fn(&mut VolumeFacts)| {
        let mut one = facts("v1");
        one.mounts.truncate(2);
        set(&mut one);
        one
    };
    let well = || with(&|_| {});
    let unknown = || with(&|one| one.unseen_mounts = Some("not root".to_owned()));
    assert_eq!(check(&status(vec![])), ("0 volumes, none is harmed\n".to_owned(), 0));
    assert_eq!(check(&status(vec![well()])), ("1 volume, none is harmed\n".to_owned(), 0));
    let (text, exit) = check(&status(vec![unknown(), well()]));
    assert_eq!((text.as_str(), exit), ("unknown (shop/orders-0, pvc-5d0a7c3e (v1))\n", 3));
    let (text, exit) = check(&status(vec![facts("v1"), facts("v2"), unknown()]));
    assert_eq!((text.as_str(), exit), ("stale (shop/orders-0, pvc-5d0a7c3e (v1)), 1 more\n", 1));
    let mut blind = status(vec![well()]);
    blind.unseen.push("what only root may read".to_owned());
    assert_eq!(check(&blind), ("not seen: what only root may read\n".to_owned(), 3));
}
