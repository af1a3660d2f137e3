//! The story, told of lines.

use super::*;
use serde_json::{Value, json};

/// A line: second, level, `call a attach`, message, facts.
fn line(at: u64, level: &str, of: &str, message: &str, facts: &Value) -> LogLine {
    let [kind, id, op] = of.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{of}") };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let facts = facts.as_object().unwrap().iter();
    LogLine {
        at: at * 1000,
        level: level.to_owned(),
        id: id.to_owned(),
        op: op.to_owned(),
        is_verb: kind == "verb",
        message: message.to_owned(),
        fields: facts.map(|(name, value)| (name.clone(), text(value))).collect(),
    }
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
            1,
            "INFO",
            of,
            "heal",
            &json!({"volume": "v1", "place": "here", "outcome": "Switched"}),
        ),
        line(
            2,
            "INFO",
            of,
            "heal",
            &json!({"volume": "v1", "place": "7 (sh) at /b", "outcome": "Skipped(\"x\")"}),
        ),
        line(3, "INFO", of, "healed", &json!({"volume": "v1", "places": 2, "left": "[]"})),
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
        line(1, "INFO", of, "heal", &json!({"volume": "v1", "outcome": "Switched"})),
        line(
            2,
            "INFO",
            of,
            "healed",
            &json!({"volume": "v1", "places": 1, "pods": "shop/orders-0, shop/web-0", "left": "[]"}),
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
