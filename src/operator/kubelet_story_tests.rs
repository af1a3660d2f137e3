//! What follows from kubelet's lines and our own log together.

use super::*;
use std::slice::from_ref;

const ZERO: Millis = 1_000_000_000;
const UID: &str = "4e51a3c2-7b1d-4f6e-9a08-5c3d2e1f0a9b";

fn line(second: u64, process: u32, shows: Shows, text: &str) -> KubeletLine {
    let at = ZERO + second * 1000;
    KubeletLine { at, process: Some(process), shows, text: text.to_owned() }
}

fn call(second: u64, op: &str, by: &str, ending: Ending) -> Entry {
    let at = ZERO + second * 1000;
    let entry = row(at, "", Some("v1"), Some("pv-1".to_owned()), String::new());
    let (op, by, pod) = (op.to_owned(), Some(by.to_owned()), Some("shop/orders-0".to_owned()));
    Entry { op, by, pod, ending, call: "c".to_owned(), kind: None, ..entry }
}

fn reading(lines: &[KubeletLine]) -> Reading {
    let mut processes: BTreeMap<u32, (Millis, Millis)> = BTreeMap::new();
    for line in lines {
        let process = line.process.unwrap();
        processes
            .entry(process)
            .and_modify(|(_, last)| *last = line.at)
            .or_insert((line.at, line.at));
    }
    Reading { lines: lines.to_vec(), processes }
}

fn told(lines: &[KubeletLine], entries: &[Entry]) -> KubeletStory {
    let pods = BTreeMap::from([(UID.to_owned(), "shop/orders-0".to_owned())]);
    let mut story = KubeletStory::default();
    story.add(&reading(lines), &Terms::of(entries, &pods), entries);
    story
}

#[test]
fn another_process_is_a_restart_and_two_that_write_in_turn_are_none() {
    let starts = |of: &[(u64, u32)]| {
        let lines: Vec<_> =
            of.iter().map(|(at, pid)| line(*at, *pid, Shows::Nothing, "")).collect();
        reading(&lines).starts()
    };
    let at = ZERO + 20_000;
    assert_eq!(starts(&[(0, 7), (10, 7), (20, 9)]), [Start { at, is_restart: true }]);
    assert_eq!(starts(&[(0, 7), (10, 9), (20, 7)]), []);
    assert_eq!(starts(&[(0, 7), (10, 8), (15, 9), (20, 7)]), []);
    assert_eq!(starts(&[(0, 7), (20, 7)]), []);
    // Several lines about one start are one; the first says when it was.
    let lines = [
        line(0, 7, Shows::Nothing, ""),
        line(20, 9, Shows::Start, "Started kubelet"),
        line(21, 9, Shows::Start, "Started kubelet"),
        line(60, 9, Shows::Start, "Started kubelet"),
    ];
    let starts = reading(&lines).starts();
    let expected = [Start { at, is_restart: true }, Start { at: at + 40_000, is_restart: false }];
    assert_eq!(starts, expected);
}

/// Only what both logs show: a tear-down that kubelet itself called soon after its start, and that was refused,
/// or took nothing from its pod, or came when the API could not be reached.
#[test]
fn what_follows_is_concluded_and_nothing_else() {
    let start = line(100, 9, Shows::Start, "Started kubelet");
    let failure = |at| line(at, 9, Shows::ApiFailure, "net/http: request canceled");
    let count = |lines: &[KubeletLine], entry: Entry| told(lines, &[entry]).after_restart.len();
    let outage = [start.clone(), failure(105)];
    let unmount = |by| call(110, "unmount", by, Ending::Done);
    assert_eq!(count(&outage, unmount("kubelet")), 1);
    assert_eq!(count(&outage, unmount("k3s-server")), 1);
    assert_eq!(count(&outage, unmount("kube-controller")), 0, "another program called it");
    assert_eq!(count(&outage, Entry { is_persons: true, ..unmount("kubelet") }), 0);
    assert_eq!(count(&outage, call(110, "mount", "kubelet", Ending::Done)), 0);
    assert_eq!(count(&outage, call(99, "unmount", "kubelet", Ending::Done)), 0, "before it");
    assert_eq!(count(&outage, call(401, "unmount", "kubelet", Ending::Done)), 0, "long after it");
    assert_eq!(
        count(&[start.clone(), failure(115)], unmount("kubelet")),
        0,
        "the API failed later"
    );
    assert_eq!(count(from_ref(&start), unmount("kubelet")), 0, "an ordinary deletion");
    assert_eq!(count(from_ref(&start), call(110, "detach", "kubelet", Ending::Refused)), 1);
    let let_go = "let go of shop/orders-0's folder: the pod keeps the volume".to_owned();
    let found = told(&[start], &[Entry { text: let_go, ..unmount("kubelet") }]).after_restart;
    assert_eq!(found[0].kept_by.as_deref(), Some("shop/orders-0"));
    assert!(
        found[0]
            .sentence()
            .contains("10 s before it called unmount for pv-1, while shop/orders-0 was")
    );
    // Once for each start, however many calls follow.
    let many = [unmount("kubelet"), call(120, "unmountdevice", "kubelet", Ending::Refused)];
    assert_eq!(told(&outage, &many).after_restart.len(), 1);
}

#[test]
fn lines_that_name_the_volume_or_its_pod_are_shown() {
    let entries = [call(110, "mount", "kubelet", Ending::Done)];
    let texts = [
        ("about pv-1.", true),
        (UID, true),
        ("pod \"shop/orders-0\"", true),
        ("orders-0_shop(u)", true),
        ("/volumes/incloud~disk/pv-1/x", true),
        ("pv-1-copy and my-pv-1 and pv-12", false),
        ("prod-shop/orders-0 and orders-0 of another namespace", false),
    ];
    for (text, is_shown) in texts {
        let story = told(&[line(109, 9, Shows::Nothing, text)], &entries);
        assert_eq!(!story.rows.is_empty(), is_shown, "{text}");
    }
}

#[test]
fn a_kubelet_that_never_stops_talking_fills_no_page() {
    let entries = [call(110, "mount", "kubelet", Ending::Done)];
    let lines: Vec<_> = (0..200)
        .map(|nth| line(109, 9, Shows::Nothing, &format!("pv-1 {}", "x".repeat(nth))))
        .collect();
    let story = told(&lines, &entries);
    assert_eq!((story.rows.len(), story.unread.len()), (MOST, 1));
    assert!(story.unread[0].starts_with("160 more lines"), "{:?}", story.unread);
    // What differs in numbers alone is one row.
    let same: Vec<_> = (0..200)
        .map(|nth| line(100 + nth, 9, Shows::Nothing, &format!("pv-1 try {nth}")))
        .collect();
    let story = told(&same, &entries);
    assert_eq!((story.rows.len(), story.rows[0].count, story.unread.len()), (1, 200, 0));
    // An outage with a pause is two.
    let api: Vec<_> = [0, 10, 20, 90].map(|at| line(at, 9, Shows::ApiFailure, "x")).to_vec();
    let counts: Vec<_> = told(&api, &entries).rows.iter().map(|row| row.count).collect();
    assert_eq!(counts, [3, 1]);
}

#[test]
fn the_log_is_read_around_operations_alone() {
    let at = |second| call(second, "mount", "kubelet", Ending::Done);
    let repeated = Entry { until: Some(ZERO + 9_000_000), ..at(1000) };
    let entries = [at(1100), repeated, row(ZERO + 50_000_000, "", None, None, String::new())];
    let second = 1000;
    assert_eq!(
        spans(entries.iter()),
        [(ZERO + 700 * second, ZERO + 1220 * second), (ZERO + 8700 * second, ZERO + 9120 * second)]
    );
}
