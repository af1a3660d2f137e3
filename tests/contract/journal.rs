//! The log: where each call began and how it ended, under the call's id.

use crate::calls;
use crate::support::Node;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

fn log_dir(node: &Node) -> PathBuf {
    node.own().join("log")
}

/// The names of all files in the log's folder.
fn log_files(node: &Node) -> BTreeSet<String> {
    let files = fs::read_dir(log_dir(node)).into_iter().flatten().flatten();
    files.map(|file| file.file_name().into_string().unwrap()).collect()
}

/// The value of `key=value` or `key="value"` in a line.
fn field<'a>(line: &'a str, key: &str) -> &'a str {
    let at = line.find(&format!("{key}=")).unwrap_or_else(|| panic!("no {key} in {line}"));
    let rest = &line[at + key.len() + 1..];
    rest.strip_prefix('"').map_or_else(
        || rest.split([' ', '}']).next().unwrap(),
        |quoted| quoted.split('"').next().unwrap(),
    )
}

#[test]
fn every_call_logs_its_begin_and_its_end() {
    let node = Node::new();
    node.configure("[deadline]\nwaitforattach = 1\nmountdevice = 1\nmount = 1");
    for call in calls::every(&node, "vol-1", "pv-1") {
        let word = calls::word(&call);
        let _ = fs::remove_dir_all(log_dir(&node));
        let (child, output) = crate::support::spawn(node.command(&call));
        let pid = child.id();
        let answer = crate::support::Answer::finish(child, output);

        let log = node.log();
        let of = |what: &str| {
            let lines: Vec<_> = log.lines().filter(|line| line.contains(what)).collect();
            let [line] = lines[..] else { panic!("{word}: {what}: {log}") };
            line.to_owned()
        };
        let begin = of("}: begin ");
        assert_eq!(field(&begin, "pid"), pid.to_string());
        let me = fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
        assert_eq!(field(&begin, "parent"), me.trim());
        let status = answer.json["status"].as_str().unwrap();
        let end = of(&format!("}}: end: {status} "));
        field(&end, "duration_ms").parse::<u64>().expect("a whole number");
        if status == "Success" {
            assert!(["Done", "Already"].contains(&field(&end, "outcome")), "{end}");
        } else {
            assert!(end.contains("ERROR") && !field(&end, "kind").is_empty(), "{end}");
            let message = answer.json["message"].as_str().unwrap();
            let reason = end.split_once("reason=").unwrap().1;
            assert!(message.contains(reason), "{message} | {end}");
            assert!(message.ends_with(&format!("[call {}]", field(&begin, "id"))), "{message}");
        }
        let volume =
            if answer.text.contains("pv-1") || !call_has_id(word) { "pv-1" } else { "vol-1" };
        for line in log.lines() {
            assert_eq!(field(line, "op"), word, "{line}");
            assert_eq!(field(line, "id"), field(&begin, "id"), "{line}");
        }
        for line in [begin, end] {
            assert_eq!(field(&line, "object"), format!("volume {volume}"), "{line}");
        }
    }
}

/// Calls without options know the volume by its name alone.
fn call_has_id(word: &str) -> bool {
    !["detach", "unmount", "unmountdevice"].contains(&word)
}

#[test]
fn outcomes_tell_what_was_done_from_what_was_so() {
    let node = Node::new();
    node.create("vol-1", "1M");
    let outcome = |call: &calls::Call| {
        let _ = fs::remove_dir_all(log_dir(&node));
        node.must(call);
        let log = node.log();
        field(log.lines().last().unwrap(), "outcome").to_owned()
    };
    let (attach, detach) =
        (calls::attach("vol-1", "pv-1", "node-b"), calls::detach("pv-1", "node-b"));
    assert_eq!(outcome(&attach), "Done");
    assert_eq!(outcome(&attach), "Already");
    assert_eq!(outcome(&detach), "Done");
    assert_eq!(outcome(&detach), "Already");
}

#[test]
fn a_call_that_cannot_be_read_is_logged_too() {
    let node = Node::new();
    let message = node.fails(["attach", "{", "node-b"]);
    let log = node.log();
    assert_eq!(log.lines().count(), 2, "{log}");
    let end = log.lines().last().unwrap();
    assert_eq!((field(end, "kind"), field(end, "op")), ("bad-call", "attach"));
    assert!(message.contains(field(end, "id")), "{message}");
}

#[test]
fn constant_answers_are_not_logged() {
    let node = Node::new();
    for word in ["init", "getvolumename", "expandvolume", "frobnicate"] {
        node.call([word]);
    }
    assert!(!log_dir(&node).exists());
}

#[test]
fn the_file_is_named_after_the_day() {
    let node = Node::new();
    node.must(calls::detach("pv-1", "node-b"));
    let files = log_files(&node);
    let name = files.first().expect("a log file");
    let day = name.strip_prefix("incloud-disk.").and_then(|name| name.strip_suffix(".jsonl"));
    let day = day.unwrap_or_else(|| panic!("{name}"));
    // Every line is of the file's own day.
    assert!(node.log().lines().all(|line| line.starts_with(day)), "{day}: {}", node.log());
    assert_eq!(day.len(), 10);
}

#[test]
fn the_level_decides_what_is_written() {
    let node = Node::new();
    node.create("vol-1", "1M");
    let mut counts = Vec::new();
    for level in ["error", "warn", "info", "debug", "trace"] {
        node.configure(&format!("[log]\nlevel = \"{level}\""));
        let _ = fs::remove_dir_all(log_dir(&node));
        node.must(calls::attach("vol-1", "pv-1", "node-b"));
        // Its name differs: a warning.
        node.must(calls::is_attached("vol-1", "pv-2", "node-b"));
        node.fails(calls::attach("vol-1", "pv-2", "node-c"));
        // No lock can be had: a remark for debugging.
        let run = node.own().join("run");
        fs::remove_dir_all(&run).unwrap();
        fs::write(&run, "").unwrap();
        node.must(calls::detach("pv-2", "node-b"));
        fs::remove_file(run).unwrap();
        let log = node.log();
        counts.push(
            ["ERROR", "WARN", "INFO", "DEBUG"].map(|word| log.contains(&format!(" {word} "))),
        );
    }
    assert_eq!(
        counts,
        [
            [true, false, false, false],
            [true, true, false, false],
            [true, true, true, false],
            [true, true, true, true],
            [true, true, true, true],
        ]
    );
}

/// Makes files of days long gone.
fn make_old_files(node: &Node, count: usize) {
    fs::create_dir_all(log_dir(node)).unwrap();
    for day in 1..=count {
        let file = log_dir(node).join(format!("incloud-disk.2020-01-{day:02}.log"));
        fs::write(
            file, "old
",
        )
        .unwrap();
        // Files are of an age only if the kernel's coarse clock moves between them.
        std::thread::sleep(Duration::from_millis(12));
    }
}

fn today(node: &Node) -> usize {
    log_files(node).iter().filter(|name| !name.contains(".2020-")).count()
}

#[test]
fn no_more_files_stay_than_are_asked_for() {
    for (limit, old) in [(14, 20), (14, 14), (14, 13), (3, 20), (1, 20), (1, 1), (2, 0)] {
        let node = Node::new();
        node.configure(&format!("[log]\nmax_files = {limit}"));
        make_old_files(&node, old);
        for calls in 1..=3 {
            node.must(calls::detach("pv-1", "node-b"));
            let files = log_files(&node);
            let expected = limit.min(old + 1);
            assert_eq!(
                files.len(),
                expected,
                "{old} old files, limit {limit}, call {calls}: {files:?}"
            );
            assert_eq!(today(&node), 1, "{files:?}");
        }
        assert_eq!(node.log().matches("}: begin ").count(), 3, "today's lines stay");
    }
}

#[test]
fn the_oldest_files_go_first() {
    let node = Node::new();
    node.configure("[log]\nmax_files = 5");
    make_old_files(&node, 20);
    node.must(calls::detach("pv-1", "node-b"));
    let files = log_files(&node);
    for day in 1..=15 {
        assert!(!files.contains(&format!("incloud-disk.2020-01-{day:02}.log")), "{files:?}");
    }
    assert!(files.contains("incloud-disk.2020-01-20.log"), "{files:?}");
}

#[test]
fn files_of_others_in_the_folder_are_not_touched() {
    let node = Node::new();
    node.configure("[log]\nmax_files = 1");
    make_old_files(&node, 5);
    let others = ["kubelet.log", "incloud-disk.log.gz", "notes"];
    for name in others {
        fs::write(log_dir(&node).join(name), "another's").unwrap();
    }
    node.must(calls::detach("pv-1", "node-b"));
    node.must(calls::detach("pv-1", "node-b"));
    let files = log_files(&node);
    assert!(others.iter().all(|name| files.contains(*name)), "{files:?}");
}
