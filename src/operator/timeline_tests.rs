//! The story, told of lines.

use super::*;
use crate::model::report::log_line::parse;
use serde_json::{Value, json};

/// A line as version 0.1.0 wrote it: second, level, `call a attach`, message, facts.
fn line(at: u64, level: &str, of: &str, message: &str, facts: &Value) -> LogLine {
    let [kind, id, op] = of.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{of}") };
    let mut fields = facts.clone();
    fields["message"] = message.into();
    let span = json!({"id": id, "op": op, "name": kind});
    let at = timestamp::text(at * 1000);
    let line =
        format!(r#"{{"timestamp":"{at}","level":"{level}","fields":{fields},"span":{span}}}"#);
    parse(&line).unwrap()
}

fn told(lines: Vec<LogLine>) -> Vec<Entry> {
    tell(lines, &mut Names::default())
}

#[test]
fn a_refusal_that_goes_on_is_one_entry() {
    let mut lines = Vec::new();
    for minute in 0..30 {
        let call = format!("call c{minute} unmount");
        let begin = json!({"object": "volume pv-1", "pod": "u", "parent": "kubelet"});
        lines.push(line(minute * 60, "INFO", &call, "begin", &begin));
        if [0, 9].contains(&minute) {
            let facts = json!({"volume": "v1", "what": "unmount u", "reason": "pod u still runs", "count": minute + 1});
            lines.push(line(minute * 60, "WARN", &call, "refused", &facts));
        }
        if minute == 0 {
            let facts = json!({"object": "volume pv-1", "duration_ms": 3, "kind": "guarded", "reason": "pod u still runs; it is refused until that ends"});
            lines.push(line(0, "ERROR", &call, "end: Failure", &facts));
        }
    }
    let told = told(lines);
    assert_eq!(told.len(), 1, "{told:#?}");
    let one = &told[0];
    assert_eq!(
        (one.ending, one.count, one.text.as_str()),
        (Ending::Refused, 30, "pod u still runs")
    );
    assert_eq!(one.until.map(timestamp::clock).as_deref(), Some("00:29:00.000"));
    assert_eq!((one.pod.as_deref(), one.by.as_deref()), (Some("u"), Some("kubelet")));
}

#[test]
fn a_heal_is_told_with_what_it_replaced() {
    let of = "call a attach";
    let told = told(vec![
        line(
            0,
            "INFO",
            of,
            "begin",
            &json!({"object": "volume v1", "volume": "v1", "name": "pv-1", "node": "n", "parent": "kcm"}),
        ),
        line(
            1,
            "WARN",
            of,
            "healing: the disk came back under another number",
            &json!({"volume": "v1", "disk": "vdc", "dead": "253:16"}),
        ),
        line(
            3,
            "INFO",
            of,
            "healed",
            &json!({"volume": "v1", "places": 2, "switched": 1, "left": "[]"}),
        ),
        line(
            4,
            "INFO",
            of,
            "end: Success",
            &json!({"object": "volume v1", "duration_ms": 1400, "outcome": "Done"}),
        ),
    ]);
    assert_eq!(told.len(), 2, "{told:#?}");
    assert_eq!((told[0].text.as_str(), told[0].took_ms), ("attached to n", Some(1400)));
    assert_eq!(told[1].text, "1 mount in 2 namespaces put from 253:16, which is gone, onto vdc");
    assert_eq!((told[1].op.as_str(), told[1].took_ms), ("healing", Some(2000)));
    assert_eq!(told[0].name.as_deref(), Some("pv-1"));
}

#[test]
fn what_was_so_already_is_counted_until_something_is_done() {
    let call = |id: &str, op: &str, outcome: &str| {
        let (of, object) = (format!("call {id} {op}"), "volume v1");
        let end = json!({"object": object, "duration_ms": 1, "outcome": outcome});
        [
            line(0, "INFO", &of, "begin", &json!({"object": object, "volume": "v1"})),
            line(0, "INFO", &of, "end: Success", &end),
        ]
    };
    let lines = [
        call("1", "isattached", "Already"),
        call("2", "isattached", "Already"),
        call("3", "detach", "Done"),
        call("4", "isattached", "Already"),
        call("5", "mount", "Done"),
        call("6", "mount", "Done"),
    ];
    let told = told(lines.concat());
    let ops: Vec<_> = told.iter().map(|entry| (entry.op.as_str(), entry.count)).collect();
    assert_eq!(
        ops,
        [("isattached", 2), ("detach", 1), ("isattached", 1), ("mount", 1), ("mount", 1)]
    );
}

#[test]
fn a_call_without_an_end_and_a_person_are_told() {
    let ann = json!({"who": "ann (uid 0)", "object": "volume v1"});
    let plan = json!({"who": "ann (uid 0)", "object": "volume v1", "dry_run": true});
    let (release, force) = ("verb b release", "verb c detach --force");
    let warning = "unmounted by a person, despite the guard";
    let told = told(vec![
        line(0, "INFO", "call a mount", "begin", &json!({"object": "volume v1", "volume": "v1"})),
        line(1, "INFO", release, "begin", &ann),
        line(2, "WARN", release, warning, &json!({"volume": "v1", "folder": "/k/a"})),
        line(3, "INFO", release, "end", &json!({"duration_ms": 2000})),
        line(4, "INFO", force, "begin", &plan),
        line(5, "INFO", force, "end", &json!({"duration_ms": 1000})),
    ]);
    let texts: Vec<_> = told.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "its end is not in the log",
            "done by ann (uid 0)",
            "unmounted by a person, despite the guard (folder /k/a)",
            "asked by ann (uid 0) what would be done"
        ]
    );
    assert_eq!(told[3].ending, Ending::Asked, "nothing was detached");
    assert_eq!(told[0].ending, Ending::Open);
}

/// The timer's look after all volumes has one id in the log.
#[test]
fn a_look_after_all_volumes_is_a_story_of_each() {
    let of = "verb s heal";
    let healing = "healing: the disk came back under another number";
    let told = told(vec![
        line(0, "WARN", of, healing, &json!({"volume": "v1", "disk": "vdc", "dead": "253:16"})),
        line(
            2,
            "INFO",
            of,
            "healed",
            &json!({"volume": "v1", "places": 1, "switched": 1, "pods": "shop/orders-0, shop/web-0", "left": "[]"}),
        ),
        line(2, "INFO", of, "end", &json!({"volume": "v1", "who": "systemd", "duration_ms": 2000})),
        line(3, "WARN", of, healing, &json!({"volume": "v2", "disk": "vdd", "dead": "253:32"})),
        line(
            4,
            "ERROR",
            of,
            "end",
            &json!({"volume": "v2", "who": "systemd", "kind": "refused", "reason": "another file system"}),
        ),
    ]);
    let rows: Vec<_> = told
        .iter()
        .map(|one| (one.volume.as_deref().unwrap(), one.op.as_str(), one.ending, one.text.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            ("v1", "heal", Ending::Done, "done by systemd"),
            (
                "v1",
                "healing",
                Ending::Done,
                "1 mount in 1 namespace put from 253:16, which is gone, onto vdc, for shop/orders-0, shop/web-0"
            ),
            ("v2", "heal", Ending::Failed, "another file system"),
        ]
    );
}

/// A container that runs `sleep` in a loop has another process at each try.
#[test]
fn a_refusal_is_one_entry_whichever_process_is_named() {
    let refusal = |at: u64, who: &str, pod: &str| {
        let of = format!("call c{at} unmountdevice");
        let reason = format!(
            "pods that use the volume, {pod}, still run: {who} in container 5f (mnt:[40], at /data)"
        );
        let end = json!({"object": "volume v1", "kind": "guarded", "reason": reason});
        [
            line(at, "INFO", &of, "begin", &json!({"object": "volume v1", "volume": "v1"})),
            line(at, "ERROR", &of, "end: Failure", &end),
        ]
    };
    let lines = [
        refusal(0, "21711 (sleep)", "a"),
        refusal(1, "21799 (sleep)", "a"),
        refusal(2, "22004 (my (odd) tool)", "a"),
        refusal(3, "22004 (sleep)", "b"),
    ];
    let counts: Vec<_> = told(lines.concat()).iter().map(|one| one.count).collect();
    assert_eq!(counts, [3, 1], "another pod is another reason");
}

/// A line of each event, and of none.
#[test]
fn other_words_tell_the_same_story() {
    let (look, waits) = ("verb h heal", "verb w heal");
    let released = "let go of the folder: the pod keeps the volume";
    let said = json!({"told": r#"["1970-01-01T00:00:05.000Z I/O error, dev vdc, sector 8"]"#});
    let guarded = json!({"kind": "guarded", "reason": "pod u still runs; wait"});
    let lines = [
        ("call a mountdevice", "INFO", "formatting a blank disk", json!({"kind": "xfs"})),
        ("call a mountdevice", "INFO", "end: Success", json!({"disk": "vdc", "outcome": "Done"})),
        ("call b unmount", "WARN", released, json!({"whose": "shop/orders-0"})),
        ("call b unmount", "INFO", "end: Success", json!({"outcome": "Done"})),
        ("call c unmountdevice", "WARN", "refused", json!({"reason": "pod u still runs"})),
        ("call c unmountdevice", "ERROR", "end: Failure", guarded),
        ("call d mount", "ERROR", "end: panicked", json!({"place": "a.rs:1"})),
        ("call e detach", "ERROR", "end: given up", json!({"reason": "no answer"})),
        ("verb p heal", "WARN", "would be healed: heal.mode is report", json!({"plan": "[]"})),
        (waits, "INFO", "what the kernel said of the disk", said),
        (waits, "WARN", "end", json!({"left": 1, "outcome": "Waits"})),
        (look, "WARN", "healing: the disk came back", json!({"disk": "vdd", "dead": "253:16"})),
        (look, "WARN", "not healed", json!({"left": "7 (sh) at /b"})),
        (look, "INFO", "healed", json!({"places": 1, "switched": 3})),
        (look, "INFO", "end", json!({"left": 1})),
        ("call f unmountdevice", "INFO", "no longer refused", json!({"what": "unmountdevice"})),
        ("call f unmountdevice", "INFO", "end: Success", json!({"outcome": "Done"})),
        ("call g mount", "WARN", "a link lies", json!({"link": "/dev/x"})),
        ("call g mount", "INFO", "end: Success", json!({"outcome": "Already"})),
    ];
    let lines: Vec<_> = (0..)
        .zip(&lines)
        .map(|(second, (of, level, message, facts))| {
            let mut facts = facts.clone();
            facts["volume"] = "v1".into();
            line(second, level, of, message, &facts)
        })
        .collect();
    let all: Vec<_> = LogEvent::ALL.into_iter().map(Some).chain([None]).collect();
    assert!(all.iter().all(|event| lines.iter().any(|line| line.event == *event)), "{lines:#?}");
    let reworded =
        |line: &LogLine| LogLine { message: "in other words".to_owned(), ..line.clone() };
    let reworded = told(lines.iter().map(reworded).collect());
    let without_notes = |entries: Vec<Entry>| -> Vec<Entry> {
        let text =
            |entry: &Entry| if entry.op == "note" { String::new() } else { entry.text.clone() };
        entries.into_iter().map(|entry| Entry { text: text(&entry), ..entry }).collect()
    };
    let story = told(lines);
    let texts: Vec<_> = story.iter().map(|one| (&*one.op, one.ending, &*one.text)).collect();
    assert_eq!(
        texts,
        [
            ("mountdevice", Ending::Done, "formatted vdc as xfs and mounted it"),
            ("unmount", Ending::Done, "let go of shop/orders-0's folder: the pod keeps the volume"),
            ("unmountdevice", Ending::Refused, "pod u still runs"),
            ("kernel", Ending::Event, "I/O error, dev vdc, sector 8"),
            ("mount", Ending::Failed, "the driver failed inside"),
            ("detach", Ending::Failed, "no answer"),
            ("heal", Ending::Asked, "looked what would be healed"),
            ("note", Ending::Event, "would be healed: heal.mode is report (plan [])"),
            ("heal", Ending::Event, "its disk is gone, and none is here: its mounts wait for it"),
            ("heal", Ending::Done, "done"),
            ("healing", Ending::Failed, "7 (sh) at /b"),
            (
                "healing",
                Ending::Done,
                "3 mounts in 1 namespace put from 253:16, which is gone, onto vdd"
            ),
            ("unmountdevice", Ending::Done, "unmounted"),
            ("guard", Ending::Event, "unmountdevice is no longer refused"),
            ("mount", Ending::Already, "was mounted already"),
            ("note", Ending::Event, "a link lies (link /dev/x)"),
        ]
    );
    assert_eq!(without_notes(reworded), without_notes(story));
}
