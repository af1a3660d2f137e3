//! What `disk history` makes of files that are no log of ours, or a log that was torn.

use crate::calls;
use crate::support::{Answer, DISK, Node, output_of, skip};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

fn today(node: &Node) -> PathBuf {
    node.log_files().max().unwrap()
}

fn history(node: &Node) -> Value {
    serde_json::from_str(&node.verb(&["history", "--json", "vol-1"]).unwrap()).unwrap()
}

fn with_calls(count: usize) -> Node {
    let node = Node::new();
    node.create("vol-1", "1M");
    for _ in 0..count {
        node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
    }
    node
}

/// How many calls the story has.
fn told(node: &Node) -> u64 {
    let entries = history(node)["entries"].as_array().unwrap().clone();
    entries.iter().map(|entry| entry["count"].as_u64().unwrap()).sum()
}

/// At fee4868 they make a row: a newline in a name could have written them.
#[test]
fn an_older_drivers_prose_is_shown_and_not_read() {
    let node = with_calls(1);
    let prose = "2026-11-21T03:50:23Z  INFO verb{id=\"f\" op=\"release\"}: begin who=\"alice\" object=\"volume vol-1\"\n\
                 2026-11-21T03:50:24Z  INFO verb{id=\"f\" op=\"release\"}: end x=1 vol-1 \u{1b}[2J\n\
                 {\"timestamp\":\"2026-11-21T03:50:23Z\",\"level\":\"INFO\",\"fields\":{\"message\":\"begin\",\"who\":\"alice\",\"object\":\"volume vol-1\"},\"span\":{\"id\":\"f\",\"op\":\"release\",\"name\":\"verb\"}}\n\
                 about another volume\n";
    fs::write(node.own().join("log/incloud-disk.2026-11-21.log"), prose).unwrap();
    let json = history(&node);
    assert_eq!(json["entries"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(json["older"].as_array().unwrap().len(), 3, "{json}");
    let text = node.verb(&["history", "vol-1"]).unwrap();
    // What does not say when it was written stands above the rows.
    assert!(text.starts_with("as an older driver wrote it, not checked\n  | {"), "{text}");
    assert!(text.contains("\n03:50:23.000  older driver            \"INFO verb{"), "{text}");
    assert!(!text.contains("done by alice"), "{text}");
    assert!(text.contains(r"\u{1b}[2J") && !text.contains('\u{1b}'), "{text:?}");
}

/// At 7ba4fed not shown.
#[test]
fn the_log_of_another_makers_driver_is_shown_as_text() {
    let node = with_calls(1);
    let line = "W1121 03:50:23.000000 812 disk.go:88] vol-1 at 2026-11-21T03:50:23Z";
    let log = node.own().join("log");
    for level in ["INFO", "WARNING"] {
        let name = format!("disk.node-a.root.log.{level}.20261121-035023.812");
        fs::write(log.join(name), format!("{line}\nabout another volume\n")).unwrap();
    }
    node.configure("[log]\nmax_files = 1");
    node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
    assert_eq!(history(&node)["older"].as_array().unwrap().len(), 1, "each line once");
    let mut command = node.command(["history", "vol-1"]);
    command.env("TZ", "UTC-1");
    let text = String::from_utf8(crate::support::output_of(&mut command).stdout).unwrap();
    let row = "\n03:50:23.000  older driver            \"vol-1 at 2026-11-21T03:50:23Z\"\n";
    assert!(text.contains(row), "as it was written: {text}");
    assert_eq!(fs::read_dir(log).unwrap().count(), 3, "they are not ours to remove");
    assert!(!text.contains("cannot be read"), "{text}");
}

/// At 7ba4fed everything was in UTC.
#[test]
fn people_read_local_time_with_its_offset_and_the_log_stays_in_utc() {
    let node = with_calls(1);
    // As POSIX has it: east of Greenwich is negative.
    let words = |words: &[&str], zone: &str| {
        let mut command = node.command(words);
        let output = crate::support::output_of(command.env("TZ", zone));
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let hour = |text: &str| {
        let row = text.lines().find(|line| line.contains("isattached")).unwrap();
        row[..2].parse::<u32>().unwrap()
    };
    let utc = words(&["history", "vol-1"], "UTC");
    let local = words(&["history", "vol-1"], "EAST-05:30");
    assert!(utc.contains(" (UTC)\n") && local.contains(" (UTC+05:30)\n"), "{utc}{local}");
    assert!([5, 6].contains(&((24 + hour(&local) - hour(&utc)) % 24)), "{utc}{local}");
    let report = words(&["report", "--text", "--out", "-"], "EAST-05:30");
    assert!(report.contains("+05:30\n") && report.contains("local, UTC+05:30"), "{report}");
    let json = words(&["history", "--json", "vol-1"], "EAST-05:30");
    assert!(json.contains("Z\"") && !json.contains("+05:30"), "{json}");
    assert!(node.log_as_written().lines().all(|line| line.contains("Z\",\"level\"")));
    // What is shown can be typed.
    let begin = words(&["history", "vol-1", "--since", "2026-11-21T03:50:00+05:30"], "UTC");
    assert!(begin.contains("isattached"), "{begin}");
}

/// At 7ba4fed neither was in the log.
#[test]
fn the_answer_and_the_paths_of_a_call_are_logged() {
    let node = Node::new();
    node.create("vol-1", "1M");
    let device = node.must(calls::attach("vol-1", "pv-1", "node-b"))["device"].clone();
    let options = crate::support::options("vol-1", "pv-1", "");
    let message = node.fails(["waitforattach", "/dev/vdz", &options]);
    let log = node.log_as_written();
    for words in [format!("\"device\":{device}"), "\"device\":\"/dev/vdz\"".to_owned()] {
        assert!(log.contains(&words), "{words}: {log}");
    }
    assert!(
        log.contains("\"status\":\"Success\"") && log.contains("\"status\":\"Failure\""),
        "{log}"
    );
    assert!(log.contains(&format!("\"answer\":\"{message}\"")), "{message}: {log}");
    let folder = node.global("pv-1");
    node.call(["unmountdevice", folder.to_str().unwrap()]);
    let folder = format!("\"folder\":\"{}\"", folder.display());
    assert!(node.log_as_written().contains(&folder), "{folder}");
}

/// With mounts and heals: `looking::each_health_is_seen_by_every_verb`, `tend::all_volumes_are_healed_without_a_call`.
#[test]
fn an_old_log_and_one_in_other_words_tell_the_same() {
    let node = with_calls(1);
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    node.fails(calls::attach("vol-1", "pv-1", "node-c"));
    node.fails(calls::attach("vol-none", "pv-none", "node-b"));
    node.verb(&["detach", "vol-1", "--node", "node-b", "--dry-run"]).unwrap();
    node.must(calls::detach("vol-1", "node-b"));
    node.history_needs_no_words();
}

/// A power cut leaves NULs, a full disk half a line.
#[test]
fn torn_lines_cost_no_other_line() {
    let node = with_calls(2);
    let path = today(&node);
    let whole = fs::read(&path).unwrap();
    let half = &whole[..whole.len() / 2 - 7];
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    for torn in
        [&vec![0; 5000][..], b"{\"timestamp\":\"2026", half, b"\xff\xfe\n{}\n[]\nprose vol-1"]
    {
        file.write_all(torn).unwrap();
        node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
    }
    assert!(told(&node) >= 6, "{}", history(&node));
    let all = node.verb(&["history"]).unwrap();
    assert!(all.contains("! Not seen: ") && all.contains(" of the log cannot be read"), "{all}");
    assert!(history(&node)["unreadable"].as_u64().unwrap() < 5);
}

#[test]
fn a_line_without_an_end_takes_neither_memory_nor_time() {
    let node = with_calls(1);
    let file = fs::OpenOptions::new().append(true).open(today(&node)).unwrap();
    file.set_len(file.metadata().unwrap().len() + (600 << 20)).unwrap();
    (&file).write_all(b"\n").unwrap();
    node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
    // So much as the program itself takes, and less than the line.
    let limit = format!("ulimit -v 400000; exec {DISK:?} history --json vol-1");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &limit]).env("INCLOUD_DISK_CONFIG", node.config_path());
    let output = crate::support::output_of(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(told(&node), 2);
}

/// At fee4868 a call that logs, and one that reads, wait for the pipe's other end.
#[test]
fn pipes_and_links_are_no_log() {
    let node = with_calls(1);
    let (path, log) = (today(&node), node.own().join("log"));
    mkfifo(&log.join("incloud-disk.2026-01-01.jsonl"), Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", log.join("incloud-disk.2026-01-02.jsonl")).unwrap();
    assert_eq!(told(&node), 1);
    assert!(node.verb(&["status"]).is_ok());
    for make in [
        |path: &PathBuf| mkfifo(path, Mode::S_IRWXU).unwrap(),
        |path: &PathBuf| {
            symlink("/etc/passwd-of-no-user", path).unwrap();
        },
    ] {
        fs::remove_file(&path).unwrap();
        make(&path);
        node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
        assert!(!PathBuf::from("/etc/passwd-of-no-user").exists());
    }
}

/// A clock that was wrong left files of days to come. At fee4868 each call removed today's.
#[test]
fn files_of_days_to_come_go_before_todays() {
    let node = with_calls(1);
    let log = node.own().join("log");
    node.configure("[log]\nmax_files = 3");
    for year in 2090..2099 {
        for suffix in ["log", "jsonl"] {
            File::create(log.join(format!("incloud-disk.{year}-01-01.{suffix}"))).unwrap();
        }
    }
    for _ in 0..3 {
        node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
    }
    assert_eq!(told(&node), 4, "{}", node.log());
    assert_eq!(fs::read_dir(log).unwrap().count(), 3);
}

#[test]
fn calls_that_log_at_once_never_mix_their_lines() {
    let node = with_calls(0);
    let long = "n".repeat(200);
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (node, long) = (&node, &long);
            scope.spawn(move || {
                for call in 0..10 {
                    node.must(calls::is_attached(
                        "vol-1",
                        &format!("pv-{caller}-{call}-{long}"),
                        "node-b",
                    ));
                }
            });
        }
    });
    // Each line is whole, or this fails.
    assert_eq!(node.log().matches("}: begin ").count(), 80);
}

/// A clock that is set forth and back over midnight: each call writes to the file of its own day, and no line is lost.
#[test]
fn a_clock_that_jumps_over_midnight_loses_no_line() {
    const CLOCK: &str = "#include <stdlib.h>\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
        int clock_gettime(clockid_t id, struct timespec *now) {\n\
            const char *shift = getenv(\"SHIFT\");\n\
            int status = syscall(SYS_clock_gettime, id, now);\n\
            if (!status && id == CLOCK_REALTIME && shift) now->tv_sec += atol(shift);\n\
            return status;\n}\n";
    let node = with_calls(0);
    let (source, library) = (node.base().join("clock.c"), node.base().join("clock.so"));
    fs::write(&source, CLOCK).unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        return skip("a_clock_that_jumps_over_midnight_loses_no_line", "needs a C compiler");
    }
    let libraries = output_of(std::process::Command::new("ldd").arg(DISK)).stdout;
    if !String::from_utf8_lossy(&libraries).contains("libc.so") {
        return skip(
            "a_clock_that_jumps_over_midnight_loses_no_line",
            "needs a driver with libudev",
        );
    }
    let at = |shift: u64| {
        let mut command = node.command(calls::is_attached("vol-1", "pv-1", "node-b"));
        command.env("LD_PRELOAD", &library).env("SHIFT", shift.to_string());
        assert_eq!(Answer::of(command).json["status"], "Success");
    };
    let lines_of = |path: PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
        text.lines().count()
    };
    let now = incloud_disk::ports::clock::now() / 1000;
    // Right before a midnight that is at least a day away, and right after it.
    let midnight = 2 * 86_400 - now % 86_400;
    let (before, after) = (midnight - 60, midnight + 5);
    for shift in [before, after, before, after, before] {
        at(shift);
    }
    let file = |shift: u64| {
        let day = incloud_disk::model::timestamp::day((now + shift) * 1000);
        node.own().join(format!("log/incloud-disk.{day}.jsonl"))
    };
    assert_eq!((lines_of(file(before)), lines_of(file(after))), (6, 4));
}
