//! What follows from kubelet's lines and our own log together.

use super::*;
use crate::model::report::log_event::LogEvent;
use crate::operator::journal::Older;
use crate::operator::timeline::Ending;
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

fn reading(lines: &[KubeletLine]) -> KubeletReading {
    let mut processes: BTreeMap<u32, (Millis, Millis)> = BTreeMap::new();
    for line in lines {
        let process = line.process.unwrap();
        processes
            .entry(process)
            .and_modify(|(_, last)| *last = line.at)
            .or_insert((line.at, line.at));
    }
    let moments = || lines.iter().map(|line| line.at);
    let seen = moments().min().zip(moments().max());
    let span = (0, Millis::MAX);
    KubeletReading { span, seen, lines: lines.to_vec(), processes }
}

fn story(entries: &[Entry]) -> Story {
    let pods = BTreeMap::from([(UID.to_owned(), "shop/orders-0".to_owned())]);
    Story { entries: entries.to_vec(), pods, ..Story::default() }
}

fn told(lines: &[KubeletLine], entries: &[Entry]) -> KubeletStory {
    told_of(lines, &story(entries))
}

fn told_of(lines: &[KubeletLine], story: &Story) -> KubeletStory {
    let mut told = KubeletStory::default();
    let terms = VolumeTerms::of(story, &Search::default());
    told.tell(&[reading(lines)], Evidence { story, terms: &terms, disks: lines });
    told
}

/// A line of klog that says only this.
fn said(second: u64, words: &str) -> KubeletLine {
    line(second, 9, Shows::Nothing, &format!("a.go:1] {words}"))
}

#[test]
fn another_process_is_a_restart_and_two_that_write_in_turn_are_none() {
    let starts = |of: &[(u64, u32)]| {
        let lines: Vec<_> =
            of.iter().map(|(at, pid)| line(*at, *pid, Shows::Nothing, "")).collect();
        reading(&lines).starts()
    };
    let at = ZERO + 20_000;
    assert_eq!(starts(&[(0, 7), (10, 7), (20, 9)]), [KubeletStart { at, is_restart: true }]);
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
    let expected = [
        KubeletStart { at, is_restart: true },
        KubeletStart { at: at + 40_000, is_restart: false },
    ];
    assert_eq!(starts, expected);
}

/// Only what both logs show: a tear-down that kubelet itself called soon after its start, and that was refused,
/// or took nothing from its pod, or came when the API could not be reached.
#[test]
fn what_follows_is_concluded_and_nothing_else() {
    let start = line(100, 9, Shows::Start, "Started kubelet");
    let failure = |at| line(at, 9, Shows::ApiFailure, "net/http: request canceled");
    let count = |lines: &[KubeletLine], entry: Entry| {
        let told = told(lines, &[entry]);
        told.tear_downs.iter().filter(|one| one.is_remarkable()).count()
    };
    let outage = [start.clone(), failure(105)];
    let unmount = |by| call(110, "unmount", by, Ending::Done);
    assert_eq!(count(&outage, unmount("kubelet")), 1);
    assert_eq!(count(&outage, unmount("k3s-server")), 1);
    assert_eq!(count(&outage, unmount("kube-controller")), 0, "another program called it");
    assert_eq!(count(&outage, Entry { is_persons: true, ..unmount("kubelet") }), 0);
    assert_eq!(count(&outage, call(110, "mount", "kubelet", Ending::Done)), 0);
    assert_eq!(count(&outage, call(99, "unmount", "kubelet", Ending::Done)), 0, "before it");
    assert_eq!(count(&outage, call(406, "unmount", "kubelet", Ending::Done)), 0, "long after it");
    assert_eq!(
        count(&[start.clone(), failure(115)], unmount("kubelet")),
        0,
        "the API failed later"
    );
    assert_eq!(count(from_ref(&start), unmount("kubelet")), 0, "an ordinary deletion");
    assert_eq!(count(from_ref(&start), call(110, "detach", "kubelet", Ending::Refused)), 1);
    let event = Some(LogEvent::FolderReleased);
    let found = told(&[start], &[Entry { event, ..unmount("kubelet") }]).tear_downs;
    assert_eq!(found[0].kept_by.as_deref(), Some("shop/orders-0"));
    let sentence = found[0].sentence();
    assert!(sentence.starts_with("kubelet called unmount for pv-1 at "), "{sentence}");
    assert!(sentence.contains(", while shop/orders-0 was still using it. It had started 10 s"));
    // One sentence for each start, with all that followed.
    let many = [
        unmount("kubelet"),
        call(120, "unmountdevice", "kubelet", Ending::Refused),
        call(125, "unmountdevice", "kubelet", Ending::Refused),
    ];
    let told = told(&outage, &many);
    assert_eq!(told.tear_downs.len(), 1);
    let sentence = told.tear_downs[0].sentence();
    assert!(sentence.contains("called unmount and unmountdevice for pv-1"), "{sentence}");
    assert!(
        sentence.contains(" (unmountdevice: refused). It had started 10 s before"),
        "{sentence}"
    );
    assert!(sentence.ends_with(": 1 line before the tear-down."), "{sentence}");
}

/// kubelet tears down once its sources are ready, which they are after the whole outage.
#[test]
fn an_outage_of_many_minutes_is_looked_back_over() {
    let unmount = |at| call(at, "unmount", "kubelet", Ending::Done);
    let count = |failures: &[u64], at| {
        let failures = failures.iter().map(|at| line(*at, 9, Shows::ApiFailure, "x"));
        let start = line(100, 9, Shows::Start, "Started kubelet");
        let lines: Vec<_> = [start].into_iter().chain(failures).collect();
        let told = told(&lines, &[unmount(at)]);
        told.tear_downs.iter().filter(|one| one.is_remarkable()).count()
    };
    assert_eq!(count(&[110, 400, 690, 980], 1270), 1);
    assert_eq!(count(&[110, 400, 690], 1270), 0, "they had ended long before");
    assert_eq!(count(&[110], 1270), 0);
    let hour: Vec<u64> = (110..5000).step_by(60).collect();
    assert_eq!((count(&hour, 3700), count(&hour, 3701)), (1, 0), "no more than an hour");
    // Of another start meanwhile it is the last one.
    let lines = [
        line(100, 9, Shows::Start, "Started kubelet"),
        line(200, 9, Shows::ApiFailure, "x"),
        line(300, 9, Shows::Start, "Started kubelet"),
        line(590, 9, Shows::ApiFailure, "x"),
    ];
    let told = told(&lines, &[unmount(700)]);
    assert_eq!(told.tear_downs[0].start_ms, Some(ZERO + 300_000));
    // Its row is there, and none of what was long before.
    let starts = told.rows.iter().filter(|row| row.kind.as_deref() == Some("start"));
    let starts: Vec<_> = starts.map(|row| row.at).collect();
    assert_eq!(starts, [ZERO + 100_000, ZERO + 300_000]);
    let lines = [line(100, 9, Shows::ApiFailure, "x"), line(3000, 9, Shows::Nothing, "")];
    assert!(super::tests::told(&lines, &[unmount(3001)]).rows.is_empty());
}

#[test]
fn a_pod_that_was_deleted_is_no_fault_of_the_restart() {
    let (unmount, start) = (
        call(200, "unmount", "kubelet", Ending::Done),
        [line(100, 9, Shows::Start, "Started kubelet"), line(105, 9, Shows::ApiFailure, "x")],
    );
    let sentence = |at, words: &str| {
        let told = told(&[&start[..], &[said(at, words)]].concat(), from_ref(&unmount));
        told.tear_downs[0].sentence()
    };
    let by_name = "\"SyncLoop DELETE\" source=\"api\" pods=[\"shop/orders-0\"]";
    let by_uid = format!("SyncLoop (REMOVE, \"api\"): \"x_y({UID})\"");
    for words in [by_name, &by_uid, "SyncLoop (DELETE, \"api\"): \"orders-0_shop(x)\""] {
        let sentence = sentence(150, words);
        assert!(sentence.contains("The pod had been deleted through the API at"), "{sentence}");
        assert!(!sentence.contains("started"), "{sentence}");
    }
    for (at, words) in [
        (150, "SyncLoop (DELETE, \"api\"): \"other-0_shop(x)\""),
        (150, "SyncLoop (ADD, \"api\"): \"orders-0_shop(x)\""),
        (150, "probe of orders-0_shop failed: SyncLoop (DELETE, \"api\")"),
        (99, by_name),
        (201, by_name),
    ] {
        let sentence = sentence(at, words);
        assert!(
            sentence.contains("It had started 100 s") || sentence.contains("It had started 1 min"),
            "{sentence}"
        );
        assert!(!sentence.contains("deleted"), "{sentence}");
    }
    // A volume's other calls name no pod.
    let detach = Entry { pod: None, ..call(200, "detach", "kubelet", Ending::Done) };
    let lines = [&start[..], &[said(150, by_name)]].concat();
    let story = told(&lines, &[call(10, "mount", "kubelet", Ending::Done), detach]);
    assert_eq!(story.tear_downs[0].deleted_ms, Some(ZERO + 150_000));
}

#[test]
fn without_a_cause_the_last_tear_down_is_told_of() {
    let told = |lines: &[KubeletLine], entries: &[Entry]| {
        let told = told(lines, entries);
        assert_eq!(told.tear_downs.len(), 1);
        told.tear_downs[0].sentence()
    };
    let detach = |second, by, ending| call(second, "detach", by, ending);
    let early = detach(1000, "kubelet", Ending::Refused);
    let sentence = told(&[], &[early.clone(), detach(9000, "kubelet", Ending::Done)]);
    assert!(!sentence.contains("refused"), "{sentence}");
    // A person who tried it too is not who began.
    let sentence = told(&[], &[early, detach(1100, "bash", Ending::Refused)]);
    assert!(sentence.starts_with("kubelet called detach for pv-1 at "), "{sentence}");
    assert!(
        told(&[], &[detach(1100, "kube-controller", Ending::Done)])
            .starts_with("the controller-manager called")
    );
    // The pod of an earlier mount is another one.
    let deleted =
        |second| said(second, "\"SyncLoop DELETE\" source=\"api\" pods=[\"shop/orders-0\"]");
    let entries =
        [call(500, "mount", "kubelet", Ending::Done), detach(1000, "kubelet", Ending::Done)];
    for (second, is_told) in [(400, false), (600, true)] {
        let lines = [deleted(second), said(2000, "x")];
        assert_eq!(told(&lines, &entries).contains("had been deleted"), is_told, "{second}");
    }
}

#[test]
fn the_claim_and_the_disks_are_named() {
    let claim = |at, name: &str| {
        let words = format!(
            "a.go:1] Error processing volume \"data\" for pod \"orders-0_shop(x)\": error processing PVC {name}: failed to fetch PVC from API server: x"
        );
        line(at, 9, Shows::ApiFailure, &words)
    };
    let disk = |at, disk: &str| Entry {
        disk: Some(disk.to_owned()),
        ..call(at, "waitforattach", "kubelet", Ending::Done)
    };
    let unmount = call(200, "unmount", "kubelet", Ending::Done);
    let entries = [disk(1, "vdb"), disk(2, "vdc"), unmount.clone(), disk(300, "vdd")];
    let start = line(190, 9, Shows::Start, "Started kubelet");
    let sentence = |lines: &[KubeletLine]| {
        told(&[from_ref(&start), lines].concat(), &entries).tear_downs[0].sentence()
    };
    let early = KubeletLine { at: ZERO - 600_000, ..said(0, "about nothing") };
    let claims = [195, 210].map(|at| claim(at, "shop/data-orders-0"));
    let text = sentence(&[&[early][..], &claims].concat());
    for words in [
        ", and could not read the claim shop/data-orders-0 from the API server (1 line before and 1 after, the first at ",
        ": 1 line before and 1 after the tear-down. The disk was vdc until then, and is vdd since ",
    ] {
        assert!(text.contains(words) && !text.contains("at least"), "{text}");
    }
    // The first line that was read is a failure: they may have begun before it.
    let failed = line(185, 9, Shows::ApiFailure, "x");
    let text = sentence(&[&[failed][..], &claims].concat());
    assert!(
        text.contains(" since at least ") && text.contains(" (not read further back)"),
        "{text}"
    );
    let many: Vec<_> = (0..9).map(|nth| claim(191, &format!("shop/claim-{nth}"))).collect();
    let text = sentence(&many);
    assert!(text.contains("the claims shop/claim-0, shop/claim-1 and shop/claim-2 from"), "{text}");
    // What was said later is no cause, and what is no name is not quoted.
    let failure = line(195, 9, Shows::ApiFailure, "x");
    for lines in [[failure.clone(), claim(210, "shop/data")], [failure, claim(195, "a/b\u{1b}[2J")]]
    {
        let text = sentence(&lines);
        assert!(!text.contains("could not read"), "{text}");
    }
    let same = [disk(2, "vdc"), unmount, disk(300, "vdc")];
    let told = told(&[start.clone(), claim(195, "shop/data")], &same);
    assert!(told.tear_downs[0].disks.is_none());
}

/// At 391468d nothing of kubelet's was looked for without a line of our own.
#[test]
fn the_words_of_an_older_driver_and_of_kubelet_are_enough() {
    let older = |line: String| Older { day: "2026-11-29".to_owned(), line };
    let path = format!("/k/pods/{UID}/volumes/incloud~disk/pv-1");
    let lines = [
        line(100, 9, Shows::Start, "Started kubelet"),
        line(105, 9, Shows::ApiFailure, "x"),
        said(
            110,
            &format!("operationExecutor.UnmountVolume started for volume \"pv-1\" pod \"{UID}\""),
        ),
        said(
            110,
            &format!("operationExecutor.UnmountVolume started for volume \"token\" pod \"{UID}\""),
        ),
        said(111, "operationExecutor.DetachVolume started for volume \"pv-1\" on node"),
        said(111, "operationExecutor.DetachVolume started for volume \"pv-2\" on node"),
    ];
    for names in [&[][..], &["pv-1"], &["pv-1", "the-id"]] {
        let story = Story {
            older: vec![older(format!("{} unmount {path}", timestamp::text(ZERO + 110_000)))],
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Story::default()
        };
        let told = told_of(&lines, &story);
        assert_eq!(told.tear_downs.len(), 1, "{:?}", told.tear_downs);
        let sentence = told.tear_downs[0].sentence();
        let words = "According to kubelet's log, kubelet called unmount and detach for pv-1 at";
        assert!(sentence.starts_with(words), "{sentence}");
        // The pod's other volume comes after this one.
        assert_eq!(told.rows.iter().filter(|row| row.kind.as_deref() == Some("volume")).count(), 3);
    }
    // Where our log has the call, it is no word of kubelet's alone.
    let entries = [call(110, "unmount", "kubelet", Ending::Done)];
    let story = told(&lines, &entries);
    assert_eq!(story.tear_downs[0].ops, ["unmount", "detach"]);
    assert!(!story.tear_downs[0].is_its_word);
    for (text, moment) in [
        ("2001-09-09T01:46:40Z  INFO verb{}: x", Some(1_000_000_000_000)),
        ("2001-09-09T01:46:40.250000Z x", Some(1_000_000_000_250)),
        ("about nothing", None),
        ("", None),
    ] {
        assert_eq!(older(text.to_owned()).moment(), moment, "{text}");
    }
    assert!(older("I1129 03:47:34.061000 7812 disk.go:83] x".to_owned()).moment().is_some());
    for text in [
        "/pods/x/volumes/a/b",
        "/pods/",
        "",
        &format!("/pods/{UID}/etc/a/b"),
        &format!("/pods/{UID}/volumes"),
    ] {
        assert_eq!(older(text.to_owned()).pod_and_name(), None, "{text}");
    }
    let of_json = older(format!("{{\"path\":\"{path}\"}}"));
    assert_eq!(of_json.pod_and_name(), Some((UID, "pv-1")));
}

#[test]
fn of_many_tear_downs_the_newest_are_told_of() {
    let outage = [line(100, 9, Shows::Start, ""), line(105, 9, Shows::ApiFailure, "x")];
    let of = |nth: u64| Entry {
        volume: Some(format!("v-{nth}")),
        name: None,
        ..call(110 + nth, "detach", "kubelet", Ending::Done)
    };
    let entries: Vec<_> = (0..30).map(of).collect();
    let mut told = told(&outage, &entries);
    told.tear_downs.sort_by_key(|one| one.called_ms);
    let all = told.conclusions();
    assert_eq!((told.tear_downs.len(), all.len()), (30, TOLD + 1));
    assert!(
        all[TOLD - 1].contains("called detach for v-29 at") && all[TOLD].contains("20 more"),
        "{all:?}"
    );
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
    // The pod's other words go first.
    let of_pod = |nth: usize| {
        let words = ["", "MountVolume ", "operationExecutor.UnmountVolume "][nth % 3];
        said(109, &format!("{words}{UID} {}", "x".repeat(nth)))
    };
    let deleted = said(111, &format!("SyncLoop (DELETE, \"api\"): \"x({UID})\""));
    let lines: Vec<_> = (0..150).map(of_pod).chain([said(112, "about pv-1"), deleted]).collect();
    let texts: Vec<_> = told(&lines, &entries).rows.into_iter().map(|row| row.text).collect();
    assert_eq!(texts.len(), MOST);
    for words in ["about pv-1", "SyncLoop (DELETE"] {
        assert!(texts.iter().any(|text| text.starts_with(words)), "{texts:?}");
    }
    let of = texts.iter().filter(|text| text.starts_with("operationExecutor")).count();
    assert_eq!(of, MOST - 2, "{texts:?}");
    // What differs in numbers alone is one row.
    let same: Vec<_> = (0..200)
        .map(|nth| line(100 + nth / 2, 9, Shows::Nothing, &format!("pv-1 try {nth}")))
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
    let wide = |is_tear_down| if is_tear_down { LONG_BEFORE } else { BEFORE };
    let of = |entries: &[Entry]| spans(&moments(&story(entries)), wide);
    assert_eq!(
        of(&entries),
        [(ZERO + 700 * second, ZERO + 1220 * second), (ZERO + 8700 * second, ZERO + 9120 * second)]
    );
    let unmount = call(10_000, "unmount", "kubelet", Ending::Done);
    let spans = of(&[at(1100), unmount, call(6000, "detach", "kubelet", Ending::Done)]);
    assert_eq!(
        spans,
        [
            (ZERO + 800 * second, ZERO + 1220 * second),
            (ZERO + 2400 * second, ZERO + 6120 * second),
            (ZERO + 6400 * second, ZERO + 10_120 * second)
        ]
    );
}
