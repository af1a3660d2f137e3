//! `disk history` and `disk report` with kubelet's own log: from the journal, or from a file.

use crate::support::{Node, has, has_seams, output_of};
use incloud_disk::model::timestamp::{self, Millis};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
pub const UID: &str = "4e51a3c2-7b1d-4f6e-9a08-5c3d2e1f0a9b";
pub const API: &str = "reflector.go:138] factory.go:134: Failed to watch *v1.Node: failed to list *v1.Node: Get \"https://10.0.0.1:6443/api/v1/nodes\": net/http: request canceled";

/// What kubelet wrote: so many milliseconds after its restart, which process (1 is systemd), and what.
fn words() -> Vec<(i64, u32, String)> {
    let mut all = vec![
        (-400_000, 1234, "kubelet.go:1] SyncLoop (PLEG): about nothing of ours".to_owned()),
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
pub struct Scene {
    pub node: Node,
    pub at: Millis,
}

impl Scene {
    pub fn new() -> Self {
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

    pub fn after(&self, milliseconds: i64) -> Millis {
        self.at.checked_add_signed(milliseconds).unwrap()
    }

    /// As klog writes it, and for systemd's words syslog.
    pub fn klog(&self) -> String {
        self.klog_of(words())
    }

    pub fn klog_of(&self, words: Vec<(i64, u32, String)>) -> String {
        let month = |at| timestamp::day(at)[5..].replace('-', "");
        let lines = words.into_iter().map(|(after, process, text)| {
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
    pub fn program(&self, script: &str) -> PathBuf {
        let path = self.node.base().join("journalctl");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub fn file(&self, text: &str) -> PathBuf {
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
    pub fn with_file(&self, path: &Path) -> Result<String, String> {
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
                "{} kubelet API requests failed, 37 lines until {}: \"factory.go:134: Failed to watch",
                clock(-40_000),
                clock(32_000)
            ),
            "kubelet \"Started kubelet: The Kubernetes Node Agent.\"",
            &format!("{} kubelet \"UnmountVolume.TearDown succeeded for volume", clock(8000)),
            &format!(
                "{} unmount 27 ms let go of shop/orders-0's folder: the pod keeps the volume (by kubelet)",
                clock(8050)
            ),
            &format!(
                "kubelet called unmount for pv-orders at {} {}, while shop/orders-0 was still using it.",
                timestamp::day(scene.after(8050)),
                clock(8050)
            ),
            " s before, at ",
            &format!(
                "had failed since {}: 25 lines before and 12 after the tear-down.",
                clock(-40_000)
            ),
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
    // Both are known from the log alone.
    for name in ["pv-orders", "shop/orders-0"] {
        says_who(&scene, &scene.node.verb(&[&words[..], &["--text", name]].concat()).unwrap());
    }
    let page = scene.node.verb(&words).unwrap();
    assert!(
        page.contains("UnmountVolume.TearDown succeeded") && !page.contains("<script>"),
        "{page}"
    );
}

/// What kubelet 1.20 wrote of the incident.
pub fn incident() -> Vec<(i64, u32, String)> {
    let pod = format!("orders-0_shop({UID})");
    let unread = format!(
        "desired_state_of_world_populator.go:350] Error processing volume \"data\" for pod \"{pod}\": error processing PVC shop/data-orders-0: failed to fetch PVC from API server: Get \"https://10.0.0.1:6443/api/v1/namespaces/shop/persistentvolumeclaims/data-orders-0\": context deadline exceeded"
    );
    let name = "(UniqueName: \"incloud/disk/pv-orders\")";
    let started = |after, place: &str, operation: &str, on: &str| {
        (
            after,
            2345,
            format!(
                "reconciler.go:{place}] operationExecutor.{operation} started for volume \"pv-orders\" {name} {on}"
            ),
        )
    };
    let mut all: Vec<_> = (0..20).map(|nth| (-40_000 + nth * 2000, 1234, API.to_owned())).collect();
    all.extend([
        (0, 2345, "server.go:416] Version: v1.20.2".to_owned()),
        (900, 2345, "server.go:1176] Started kubelet".to_owned()),
        (3000, 2345, unread.clone()),
        started(3600, "196", "UnmountVolume", &format!("pod \"{UID}\" (UID: \"{UID}\") ")),
        started(3800, "312", "UnmountDevice", "on node \"node-a\" "),
        started(4300, "333", "DetachVolume", "on node \"node-a\" "),
        (8000, 2345, unread),
    ]);
    all
}

/// Of the incident itself there is only the log of the driver before this one.
#[test]
fn the_log_of_another_makers_driver_is_enough() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog_of(incident()));
    let log = scene.node.own().join("log");
    for file in fs::read_dir(&log).unwrap().flatten() {
        fs::remove_file(file.path()).unwrap();
    }
    let day = |at| timestamp::day(at).replace('-', "");
    let line = |after, words: String| {
        let at = scene.after(after);
        format!("I{} {}000    7812 disk.go:83] {words}\n", &day(at)[4..], timestamp::clock(at))
    };
    let text = [
        line(3650, format!("unmount /var/lib/kubelet/pods/{UID}/volumes/incloud~disk/pv-orders")),
        line(4350, "detach pv-orders node-a".to_owned()),
    ];
    let name = format!("disk.node-a.root.log.INFO.{}-000000.7812", day(scene.at));
    fs::write(log.join(&name), text.concat()).unwrap();
    let words = [
        "According to kubelet's log, kubelet called unmount, unmountdevice and detach for pv-orders at",
        " It had restarted 3.6 s before, at ",
        "could not read the claim shop/data-orders-0 from the API server (1 line before and 1 after, the first at ",
        " had failed since at least ",
        " (not read further back): 21 lines before and 1 after the tear-down.",
        "kubelet a new process; ",
        "kubelet \"operationExecutor.DetachVolume started for volume \"pv-orders\" on node \"node-a\"\"",
    ];
    let told = scene.with_file(&path).unwrap();
    assert!(told.starts_with("According to kubelet's log"), "{told}");
    has(&told, &words);
    for name in [&["pv-orders"][..], &[]] {
        let kubelet = ["--text", "--out", "-", "--kubelet-log", path.to_str().unwrap()];
        has(&scene.node.verb(&[&["report"], name, &kubelet[..]].concat()).unwrap(), &words);
    }
    // Without a moment a file is searched, and the journal is not.
    fs::write(log.join(&name), "about pv-orders\n").unwrap();
    has(&scene.with_file(&path).unwrap(), &words[..2]);
    let text = scene.node.verb(&["history", "pv-orders"]).unwrap();
    has(&text, &["! Not seen: kubelet's log was not searched: no line"]);
}

/// kubelet 1.20 begins a file with each process.
#[test]
fn a_file_that_covers_one_side_of_a_call_is_named() {
    let scene = Scene::new();
    let of = |process: u32, name: &str| {
        let words = incident().into_iter().filter(|(_, of, _)| *of == process).collect();
        let path = scene.node.base().join(name);
        fs::write(&path, scene.klog_of(words)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (old, new) = (of(1234, "kubelet.INFO.1"), of(2345, "kubelet.INFO.2"));
    let with = |files: &[&str]| {
        let files = files.iter().flat_map(|file| ["--kubelet-log", file]);
        let words: Vec<_> = ["history", "pv-orders"].into_iter().chain(files).collect();
        scene.node.verb(&words).unwrap()
    };
    let edge = |word: &str, after| format!("{word} at {}", timestamp::text(scene.after(after)));
    let text = with(&[&old]);
    has(
        &text,
        &["! Not seen: the rest of kubelet's log: ", "kubelet.INFO.1", &edge("ends", -2000)],
    );
    let text = with(&[&new]);
    has(&text, &["kubelet.INFO.2", &edge("begins", 0), "It had started "]);
    let text = with(&[&new, &old]);
    has(&text, &["kubelet called unmountdevice, detach and unmount", "It had restarted "]);
    assert!(!text.contains(&edge("ends", -2000)) && !text.contains(&edge("begins", 0)), "{text}");
    let report = ["report", "--text", "--out", "-", "--kubelet-log", &new, "--kubelet-log", &old];
    has(&scene.node.verb(&report).unwrap(), &["It had restarted "]);
}

/// At 391468d only those that were not kubelet or the controller-manager.
#[test]
fn a_tear_down_says_who_called_it() {
    let scene = Scene::new();
    let file =
        scene.node.own().join(format!("log/incloud-disk.{}.jsonl", timestamp::day(scene.at)));
    let log = fs::read_to_string(&file).unwrap();
    for (parent, words) in [
        ("\"parent\":\"kubelet\",", "keeps the volume (by kubelet)"),
        ("\"parent\":\"kube-controller\",", "keeps the volume (by the controller-manager)"),
        ("\"parent\":\"hyperkube\",", "keeps the volume (by hyperkube)"),
        ("\"parent\":\"bash\\u001b\",", r"keeps the volume (by bash\u{1b})"),
        ("\"parent\":\"?\",", "keeps the volume (caller unknown)"),
        ("", "keeps the volume (caller unknown)"),
    ] {
        let of = log.replace("\"parent\":\"kubelet\",", parent);
        assert!(parent.contains("kubelet") || of != log, "{log}");
        fs::write(&file, of).unwrap();
        let text = scene.node.verb(&["history", "pv-orders"]).unwrap();
        has(&text, &[words]);
        assert!(!text.contains("mounted for shop/orders-0 (caller"), "{text}");
    }
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
    let found = &json["kubelet"]["tear_downs"][0];
    assert_eq!((&found["ops"], &found["kept_by"]), (&json!(["unmount"]), &"shop/orders-0".into()));
    assert_eq!((&found["is_restart"], &found["api_failures"]), (&true.into(), &25.into()));
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
