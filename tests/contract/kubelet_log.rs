//! `disk history` and `disk report` with kubelet's own log: from the journal, or from a file.

use crate::scene::has_seams;
use crate::support::{Node, has, output_of};
use incloud_disk::model::timestamp::{self, Millis};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
const UID: &str = "4e51a3c2-7b1d-4f6e-9a08-5c3d2e1f0a9b";
const API: &str = "reflector.go:138] factory.go:134: Failed to watch *v1.Node: failed to list *v1.Node: Get \"https://10.0.0.1:6443/api/v1/nodes\": net/http: request canceled";

/// What kubelet wrote: so many milliseconds after its restart, which process (1 is systemd), and what.
fn words() -> Vec<(i64, u32, String)> {
    let mut all = vec![
        (-90_000, 1234, "kubelet.go:1] SyncLoop (PLEG): about nothing of ours".to_owned()),
        (0, 1, "Stopped kubelet: The Kubernetes Node Agent.".to_owned()),
        (120, 1, "Started kubelet: The Kubernetes Node Agent.".to_owned()),
        (700, 2345, "server.go:1190] Started kubelet".to_owned()),
        (
            8000,
            2345,
            format!(
                "operation_generator.go:797] UnmountVolume.TearDown succeeded for volume \"x\" (OuterVolumeSpecName: \"pv-orders\") pod \"{UID}\" (UID: \"{UID}\")."
            ),
        ),
        (8010, 2345, "reconciler.go:1] about pv-orders-2 and my-pv-orders".to_owned()),
        (8020, 2345, "x.go:1] pv-orders \u{1b}[2J<script>\u{202e}".to_owned()),
    ];
    all.extend(
        (0..37)
            .map(|nth| (-40_000 + nth * 2000, if nth < 20 { 1234 } else { 2345 }, API.to_owned())),
    );
    all.sort_by_key(|(at, ..)| *at);
    all
}

/// A node on which kubelet restarted at this moment, and unmounted the volume of a pod that runs.
struct Scene {
    node: Node,
    at: Millis,
}

impl Scene {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let scene = Self { node: Node::new(), at: (now - 3 * 3600) * 1000 };
        let call = |id: &str, op: &str, after: i64, end: &[Value]| {
            let begin = json!({"message": "begin", "object": "volume pv-orders", "volume": ID, "name": "pv-orders", "pod": UID, "parent": "kubelet"});
            let at = timestamp::text(scene.after(after));
            let span = json!({"id": id, "op": op, "name": "call"});
            let line = |fields: &Value| {
                format!(r#"{{"timestamp":"{at}","level":"INFO","fields":{fields},"span":{span}}}"#)
            };
            let lines = std::iter::once(&begin).chain(end).map(line);
            lines.map(|line| line + "\n").collect::<String>()
        };
        let done = json!({"message": "end: Success", "outcome": "Done", "duration_ms": 27});
        let let_go = json!({"message": "let go of the folder: the pod keeps the volume", "whose": "shop/orders-0"});
        let mounted = json!({"message": "x", "pod": UID, "pod_name": "shop/orders-0"});
        let log = [
            call("a", "mount", -9_000_000, &[mounted, done.clone()]),
            call("b", "unmount", 8050, &[let_go, done]),
        ];
        let folder = scene.node.own().join("log");
        fs::create_dir_all(&folder).unwrap();
        let file = format!("incloud-disk.{}.jsonl", timestamp::day(scene.at));
        fs::write(folder.join(file), log.concat()).unwrap();
        scene
    }

    fn after(&self, milliseconds: i64) -> Millis {
        self.at.checked_add_signed(milliseconds).unwrap()
    }

    /// As klog writes it, and for systemd's words syslog.
    fn klog(&self) -> String {
        let month = |at| timestamp::day(at)[5..].replace('-', "");
        let lines = words().into_iter().map(|(after, process, text)| {
            let at = self.after(after);
            if process == 1 {
                const MONTHS: [&str; 12] = [
                    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
                    "Dec",
                ];
                let day = timestamp::day(at);
                let name = MONTHS[day[5..7].parse::<usize>().unwrap() - 1];
                return format!(
                    "{name} {:>2} {} node-a systemd[1]: {text}\n",
                    day[8..].trim_start_matches('0'),
                    &timestamp::clock(at)[..8]
                );
            }
            format!("E{} {}000 {process:>7} {text}\n", month(at), timestamp::clock(at))
        });
        lines.collect()
    }

    /// A journalctl that has the lines, the newest first.
    fn journalctl(&self) -> PathBuf {
        let record = |(after, process, text): (i64, u32, String)| {
            let klog = format!("E1129 02:10:11.000000 {process:>7} {text}");
            let text = if process == 1 { text } else { klog };
            // As journald has what is no plain text.
            let message =
                if text.contains('\u{1b}') { json!(text.as_bytes()) } else { json!(text) };
            json!({"__REALTIME_TIMESTAMP": (self.after(after) * 1000).to_string(), "MESSAGE": message, "_PID": process.to_string()})
        };
        let records: Vec<_> =
            words().into_iter().rev().map(|one| record(one).to_string()).collect();
        let file = self.node.base().join("records");
        fs::write(&file, records.join("\n") + "\n").unwrap();
        self.program(&format!("echo \"$*\" >>'{0}'.asked; cat '{0}'", file.display()))
    }

    /// A journalctl that does this.
    fn program(&self, script: &str) -> PathBuf {
        let path = self.node.base().join("journalctl");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.node.base().join("kubelet.log");
        fs::write(&path, text).unwrap();
        path
    }

    /// What a verb says with this journalctl.
    fn with_journal(&self, program: &Path, words: &[&str]) -> String {
        let mut command = self.node.command(words);
        let output = output_of(command.env("INCLOUD_DISK_JOURNALCTL", program));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What the history says with this file.
    fn with_file(&self, path: &Path) -> Result<String, String> {
        self.node.verb(&["history", "pv-orders", "--kubelet-log", path.to_str().unwrap()])
    }
}

/// All that a person needs to say who triggered it.
#[track_caller]
fn says_who(scene: &Scene, text: &str) {
    let clock = |after| timestamp::clock(scene.after(after));
    has(
        text,
        &[
            &format!(
                "{} kubelet requests to the API server failed, 37 lines until {}: \"reflector.go:138]",
                clock(-40_000),
                clock(32_000)
            ),
            "kubelet \"Started kubelet: The Kubernetes Node Agent.\"",
            &format!(
                "{} kubelet \"operation_generator.go:797] UnmountVolume.TearDown succeeded",
                clock(8000)
            ),
            &format!("{} unmount 27 ms let go of shop/orders-0's folder", clock(8050)),
            " before it called unmount for pv-orders, while shop/orders-0 was still using it.",
            &format!("kubelet restarted at {} ", timestamp::day(scene.at)),
            "its log has 37 lines about failed requests to the API server.",
            r"pv-orders \u{1b}[2J<script>\u{202e}",
        ],
    );
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = |words: &str| joined.matches(words).count();
    assert_eq!((rows("about nothing of ours"), rows("my-pv-orders")), (0, 0), "{text}");
    assert_eq!(rows("Failed to watch"), 1, "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
}

/// At 7ba4fed the history has our calls alone, and three logs are needed.
#[test]
fn one_command_says_who_triggered_it() {
    let scene = Scene::new();
    says_who(&scene, &scene.with_file(&scene.file(&scene.klog())).unwrap());
    if !has_seams("one_command_says_who_triggered_it") {
        return;
    }
    let journal = scene.journalctl();
    says_who(&scene, &scene.with_journal(&journal, &["history", "pv-orders"]));
    let asked = fs::read_to_string(scene.node.base().join("records.asked")).unwrap();
    for words in [
        "--output=json",
        "--unit=kubelet",
        "--unit=k3s-agent",
        "--unit=snap.microk8s.daemon-kubelite",
    ] {
        assert!(asked.contains(words), "{asked}");
    }
    // Two spans of time: around the mount, and around the incident.
    assert_eq!(asked.lines().count(), 2, "{asked}");
}

#[test]
fn a_report_has_kubelets_words_and_no_markup_of_theirs() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog());
    let words = ["report", "--out", "-", "--kubelet-log", path.to_str().unwrap()];
    says_who(&scene, &scene.node.verb(&[&words[..], &["--text"]].concat()).unwrap());
    let page = scene.node.verb(&words).unwrap();
    assert!(
        page.contains("UnmountVolume.TearDown succeeded") && !page.contains("<script>"),
        "{page}"
    );
}

/// What was there before stays as it was.
#[test]
fn json_has_kubelets_words_under_a_key_of_their_own() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog());
    let words = ["history", "pv-orders", "--json", "--kubelet-log", path.to_str().unwrap()];
    let json: Value = serde_json::from_str(&scene.node.verb(&words).unwrap()).unwrap();
    assert_eq!(json["format"], 1);
    assert_eq!(json["entries"].as_array().unwrap().len(), 2, "{json}");
    let rows = json["kubelet"]["rows"].as_array().unwrap();
    let kinds: Vec<_> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["api", "stop", "start", "start", "volume", "volume"], "{json}");
    assert_eq!((&rows[0]["count"], &rows[0]["at_ms"]), (&37.into(), &scene.after(-40_000).into()));
    let found = &json["kubelet"]["after_restart"][0];
    assert_eq!((&found["op"], &found["kept_by"]), (&"unmount".into(), &"shop/orders-0".into()));
    assert_eq!((&found["is_restart"], &found["api_failures"]), (&true.into(), &37.into()));
}

/// klog writes local time.
#[test]
fn the_times_of_a_file_are_local() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog());
    let in_zone = |zone: &str| {
        let mut command = scene.node.command(["history", "pv-orders", "--kubelet-log"]);
        let output = output_of(command.arg(&path).env("TZ", zone));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(in_zone("UTC").contains("requests to the API server failed"));
    let east = in_zone("EAST-05:30");
    assert!(!east.contains("requests to the API server failed"), "{east}");
    has(&east, &["has no line of the time", "(UTC+05:30)"]);
}

/// The story is shown all the same, and a line says what is missing and what to type.
#[test]
fn a_journal_that_cannot_be_read_costs_a_line() {
    if !has_seams("a_journal_that_cannot_be_read_costs_a_line") {
        return;
    }
    let scene = Scene::new();
    let missing = scene.node.base().join("none");
    for (program, words) in [
        (missing, "no such file or directory"),
        (
            scene.program(
                "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1",
            ),
            "insufficient permissions",
        ),
    ] {
        let text = scene.with_journal(&program, &["history", "pv-orders"]);
        has(
            &text,
            &[
                "unmount 27 ms let go of",
                "! Not seen: kubelet's log: ",
                words,
                "--kubelet-log FILE",
            ],
        );
    }
    let none = scene.program("echo '-- No entries --'");
    has(
        &scene.with_journal(&none, &["history", "pv-orders"]),
        &["! Not seen: kubelet's log: the journal has none", "--kubelet-log"],
    );
}

#[test]
fn a_journalctl_that_hangs_or_never_ends_is_not_waited_for() {
    if !has_seams("a_journalctl_that_hangs_or_never_ends_is_not_waited_for") {
        return;
    }
    let scene = Scene::new();
    let records = scene.node.base().join("records");
    scene.journalctl();
    let endless = format!("while cat '{}'; do :; done", records.display());
    for (script, words) in [
        ("sleep 600", "journalctl did not answer within 2 s"),
        ("cat /dev/zero", "journalctl did not answer within 2 s"),
        (endless.as_str(), "there is too much of it"),
    ] {
        let program = scene.program(script);
        let begin = Instant::now();
        let text = scene.with_journal(&program, &["history", "pv-orders"]);
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
        has(&text, &["let go of", words]);
    }
}

/// A name that is mistyped is an error, and nothing that has no end is read.
#[test]
fn what_is_no_file_is_no_log_of_kubelets() {
    let scene = Scene::new();
    let base = scene.node.base();
    mkfifo(&base.join("fifo"), Mode::S_IRWXU).unwrap();
    for (path, words) in [
        (base.join("none"), "no such file or directory"),
        (base.clone(), "is not a regular file"),
        (base.join("fifo"), "is not a regular file"),
        (PathBuf::from("/dev/zero"), "is not a regular file"),
    ] {
        has(&scene.with_file(&path).unwrap_err(), &[words]);
    }
    symlink(scene.file(&scene.klog()), base.join("kubelet.INFO")).unwrap();
    says_who(&scene, &scene.with_file(&base.join("kubelet.INFO")).unwrap());
    for text in [&b""[..], b"\0\0\0\n\xff\xfe\n", b"no newline"] {
        fs::write(base.join("other"), text).unwrap();
        has(&scene.with_file(&base.join("other")).unwrap(), &["has no line of the time"]);
    }
}

/// Found by time, wherever it is in the file; and what is too much is said.
#[test]
fn a_file_of_two_gigabytes_is_read_within_a_bound() {
    let scene = Scene::new();
    let path = scene.node.base().join("large");
    let filler = |after: i64, length: usize| {
        let at = scene.after(after);
        let day = timestamp::day(at)[5..].replace('-', "");
        let line =
            format!("I{day} {}000    1234 x.go:1] {}\n", timestamp::clock(at), "y".repeat(900));
        line.repeat(length / line.len())
    };
    let mut file = File::create(&path).unwrap();
    // A line each 256 MiB or so, and holes that are read as zeros between them.
    for gib in 0..4u64 {
        file.write_all(filler(-7_200_000 + 1000 * gib.cast_signed(), 4 << 20).as_bytes()).unwrap();
        file.seek(SeekFrom::Current(1 << 28)).unwrap();
        file.write_all(b"\n").unwrap();
    }
    file.write_all(scene.klog().as_bytes()).unwrap();
    for gib in 0..4u64 {
        file.write_all(filler(3_600_000 + 1000 * gib.cast_signed(), 4 << 20).as_bytes()).unwrap();
        file.seek(SeekFrom::Current(1 << 28)).unwrap();
        file.write_all(b"\n").unwrap();
    }
    assert!(file.metadata().unwrap().len() > 2 << 30);
    let begin = Instant::now();
    says_who(&scene, &scene.with_file(&path).unwrap());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());

    // The newest of what is too much for its time.
    let path = scene.node.base().join("busy");
    let mut file = File::create(&path).unwrap();
    for second in 0..80 {
        file.write_all(filler(-200_000 + second * 2000, 1 << 20).as_bytes()).unwrap();
    }
    file.write_all(filler(60_000, 1000).as_bytes()).unwrap();
    let text = scene.with_file(&path).unwrap();
    has(&text, &["let go of", "kubelet's log before", "there is too much of it"]);
}
