//! What `disk history` and `disk report` say first: who tore the volume down, whichever log has it.

use crate::kubelet_log::{API, ID, Scene, UID, incident};
use crate::support::{has, output_of};
use incloud_disk::model::timestamp;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A line of kubelet's: so many milliseconds after its restart.
fn line(after: i64, words: &str) -> (i64, u32, String) {
    (after, 2345, format!("a.go:1] {words}"))
}

fn started(after: i64, operation: &str) -> (i64, u32, String) {
    let name = "(UniqueName: \"incloud/disk/pv-orders\")";
    line(
        after,
        &format!(
            "operationExecutor.{operation} started for volume \"pv-orders\" {name} on node \"node-a\" "
        ),
    )
}

/// Lines about nothing before and behind a moment.
fn quiet(from: i64, to: i64) -> Vec<(i64, u32, String)> {
    [from, to].map(|after| line(after, "about nothing")).to_vec()
}

impl Scene {
    fn log(&self) -> PathBuf {
        self.node.own().join("log")
    }

    /// Our own log has nothing any more.
    fn forget(&self) {
        for file in fs::read_dir(self.log()).unwrap().flatten() {
            fs::remove_file(file.path()).unwrap();
        }
    }

    /// Our own log with the unmount of another caller, and refused or not.
    fn called_by(&self, parent: Option<&str>) {
        self.forget();
        let at = timestamp::text(self.after(8050));
        let line = |fields: &Value| {
            let span = json!({"id": "b", "op": "detach", "name": "call"});
            format!(
                "{{\"timestamp\":\"{at}\",\"level\":\"INFO\",\"fields\":{fields},\"span\":{span}}}\n"
            )
        };
        let begin = json!({"message": "begin", "object": "volume pv-orders", "volume": ID, "name": "pv-orders", "parent": parent.unwrap_or("?")});
        let done = json!({"message": "end: Success", "outcome": "Done", "duration_ms": 27});
        let file = format!("incloud-disk.{}.jsonl", timestamp::day(self.at));
        fs::write(self.log().join(file), [line(&begin), line(&done)].concat()).unwrap();
    }

    /// The older driver's log with these lines, so many milliseconds after the restart.
    fn older(&self, lines: &[(i64, String)]) {
        let day = |at| timestamp::day(at).replace('-', "");
        let line = |(after, words): &(i64, String)| {
            let at = self.after(*after);
            format!("I{} {}000    7812 disk.go:83] {words}\n", &day(at)[4..], timestamp::clock(at))
        };
        let head = "Log file created at: 2026/11/29 03:47:34\nRunning on machine: pv-orders\nLog line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n";
        let name = format!("disk.node-a.root.log.INFO.{}-000000.7812", day(self.at));
        let lines: String = lines.iter().map(line).collect();
        fs::write(self.log().join(name), head.to_owned() + &lines).unwrap();
    }

    fn history(&self, path: &Path, words: &[&str]) -> Result<String, String> {
        let file = ["--kubelet-log", path.to_str().unwrap()];
        self.node.verb(&[&["history"], words, &file].concat())
    }

    fn report(&self, path: &Path, words: &[&str]) -> Result<String, String> {
        let file = ["--text", "--out", "-", "--kubelet-log", path.to_str().unwrap()];
        self.node.verb(&[&["report"], words, &file].concat())
    }

    fn clock(&self, after: i64) -> String {
        timestamp::clock(self.after(after))
    }

    fn moment(&self, after: i64) -> String {
        format!("{} {}", timestamp::day(self.after(after)), self.clock(after))
    }
}

/// At 1794e8fc "the log in … tells nothing of that", with exit status 0.
#[test]
fn kubelets_log_alone_is_enough() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog_of(incident()));
    scene.forget();
    let words = [
        "According to kubelet's log, kubelet called unmount, unmountdevice and detach for pv-orders at",
    ];
    for asked in [
        &["pv-orders"][..],
        &["shop/orders-0"],
        &[UID],
        &["--pod", UID],
        &["--pod", "shop/orders-0"],
        &["--since", "6h"],
    ] {
        let text = scene.history(&path, asked).unwrap();
        has(&text, &words);
        assert!(text.starts_with("According to"), "{asked:?}: {text}");
    }
    for asked in [&["pv-orders"][..], &["shop/orders-0"], &["--since", "6h"], &[]] {
        has(&scene.report(&path, asked).unwrap(), &words);
    }
    // Neither what it says of other volumes, nor a name that nobody has.
    let secret = incident().into_iter().map(|(after, process, text)| {
        (after, process, text.replace("incloud/disk/pv-orders", "kubernetes.io/secret/x"))
    });
    let other = scene.node.base().join("other.log");
    fs::write(&other, scene.klog_of(secret.collect())).unwrap();
    assert!(scene.history(&other, &["--since", "6h"]).is_err());
    let error = scene.history(&path, &["pv-none"]).unwrap_err();
    let log = scene.log().display().to_string();
    has(&error, &["nothing about pv-none", &log, "kubelet.log", "paths.log_dir"]);
    assert!(scene.report(&path, &["pv-none"]).is_err());
    fs::remove_dir(scene.log()).unwrap();
    has(&scene.history(&path, &["pv-orders"]).unwrap(), &words);
}

/// At 1794e8fc it began 5 minutes before the restart, whenever it had begun.
#[test]
fn an_outage_is_followed_back_to_its_beginning() {
    let scene = Scene::new();
    let of = |more: &[(i64, u32, String)]| {
        let mut all = [incident(), more.to_vec()].concat();
        all.sort_by_key(|(at, ..)| *at);
        scene.history(&scene.file(&scene.klog_of(all)), &["pv-orders"]).unwrap()
    };
    let failures: Vec<_> =
        (2..=12).map(|minute| (-60_000 * minute, 1234, API.to_owned())).collect();
    let quiet = [(-1_500_000, 1110, "a.go:1] about nothing".to_owned())];
    let since = |after| format!("had failed since {}: ", scene.clock(after));
    has(&of(&[&failures[..], &quiet].concat()), &[&since(-720_000)]);
    let least = format!("since at least {} (not read further back): ", scene.clock(-720_000));
    has(&of(&failures), &[&least]);
    // One that had ended is another one.
    let earlier = [(-1_020_000 - 60_000, 1234, API.to_owned())];
    has(&of(&[&failures[..], &earlier, &quiet].concat()), &[&since(-720_000)]);
    // Several starts in it.
    let restarts = [
        (-600_000, 1111, "server.go:1176] Started kubelet".to_owned()),
        (-300_000, 1112, "server.go:1176] Started kubelet".to_owned()),
    ];
    let failures = failures.into_iter().map(|(at, _, text)| {
        (
            at,
            if at < -600_000 {
                1110
            } else if at < -300_000 {
                1111
            } else {
                1112
            },
            text,
        )
    });
    let text = of(&[&failures.collect::<Vec<_>>()[..], &quiet, &restarts].concat());
    has(
        &text,
        &[
            "It had restarted 3.8 s before, at ",
            "(4 starts in this outage, the first at ",
            &since(-720_000),
        ],
    );
}

/// At 1794e8fc there was none where requests to the API server had not failed.
#[test]
fn there_is_always_a_verdict() {
    let scene = Scene::new();
    let call = format!("detach for pv-orders at {}", scene.moment(8050));
    let [covers, covers_not] = ["now.log", "then.log"].map(|name| scene.node.base().join(name));
    fs::write(&covers, scene.klog_of(quiet(-400_000, 100_000))).unwrap();
    fs::write(&covers_not, scene.klog_of(quiet(-9_000_000, -8_000_000))).unwrap();
    for (parent, path, words) in [
        (
            Some("kubelet"),
            &covers,
            [
                &format!("kubelet called {call}. Its log shows neither a restart")[..],
                "it was read from",
            ],
        ),
        (
            Some("kubelet"),
            &covers_not,
            [&format!("kubelet called {call}. Why is not known: "), "--kubelet-log FILE"],
        ),
        (Some("kube-controller"), &covers, [&format!("the controller-manager called {call}."), ""]),
        (Some("bash"), &covers, [&format!("bash called {call}."), ""]),
        (
            None,
            &covers_not,
            [
                &format!(
                    "Who called {call} is not known: kubelet's log of that time was not found; "
                ),
                "--kubelet-log FILE",
            ],
        ),
        (
            None,
            &covers,
            [
                &format!(
                    "Who called {call} is not known: kubelet's log covers that time, and does not show that kubelet called it."
                ),
                "",
            ],
        ),
    ] {
        scene.called_by(parent);
        let text = scene.history(path, &["pv-orders"]).unwrap();
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.starts_with(words[0]) && joined.contains(words[1]), "{parent:?}: {text}");
    }
    // A start, and nothing wrong with the API server.
    scene.called_by(Some("kubelet"));
    let start = (7000, 2345, "server.go:1176] Started kubelet".to_owned());
    let mut lines = [&quiet(-400_000, 100_000)[..], &[start]].concat();
    lines[0].1 = 1234;
    lines.sort_by_key(|(at, ..)| *at);
    let text = scene.history(&scene.file(&scene.klog_of(lines.clone())), &["pv-orders"]).unwrap();
    has(&text, &[&format!("kubelet called {call}. It had restarted 1.0 s before, at ")]);
    // What kubelet itself says of a call whose caller our log does not have.
    scene.called_by(None);
    lines.insert(2, started(8000, "DetachVolume"));
    let text = scene.history(&scene.file(&scene.klog_of(lines)), &["pv-orders"]).unwrap();
    has(&text, &[&format!("According to kubelet's log, kubelet called {call}. It had restarted")]);
    // An older driver's word is none where our log has the caller.
    scene.called_by(Some("kubelet"));
    scene.older(&[(8060, "detach pv-orders node-a".to_owned())]);
    let text = scene.history(&covers, &["pv-orders"]).unwrap();
    assert!(text.starts_with(&format!("kubelet called {}", &call[..20])), "{text}");
    // Of an older driver's calls too.
    scene.forget();
    scene.older(&[(8050, "detach pv-orders node-a".to_owned())]);
    let text = scene.history(&covers, &["pv-orders"]).unwrap();
    has(&text, &[&format!("Who called {call} is not known: kubelet's log covers")]);
}

/// At 1794e8fc nothing was said: the file covers the time.
#[test]
fn a_file_of_another_zone_is_recognized() {
    let scene = Scene::new();
    let hour = 3_600_000;
    let shifted = incident().into_iter().map(|(after, process, text)| {
        // Our unmount is of 8050, and kubelet's word comes before it.
        (after + 4400 - hour, process, text)
    });
    let lines: Vec<_> = shifted.chain(quiet(-5 * hour, 3 * hour)).collect();
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(at, ..)| *at);
    let path = scene.file(&scene.klog_of(lines));
    let text = scene.history(&path, &["pv-orders"]).unwrap();
    assert!(text.starts_with("The times in kubelet's log look 1 h off"), "{text}");
    assert!(!text.contains("  kubelet  ") && !text.contains("kubelet called"), "{text}");
    has(&text, &["TZ='<-0100>+01:00' disk history pv-orders --kubelet-log "]);
    has(&scene.report(&path, &["pv-orders"]).unwrap(), &["look 1 h off", "disk report"]);
    let mut right = scene.node.command(["history", "pv-orders", "--kubelet-log"]);
    let output = output_of(right.arg(&path).env("TZ", "<-0100>+01:00"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("kubelet called unmount"), "{text}");
    has(&text, &["API requests failed", "(UTC-01:00)"]);
}

/// At 1794e8fc the value of PWD was taken for a secret.
#[test]
fn the_working_directory_is_no_secret() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog());
    let report = |name: &str| {
        let mut command: Command = scene.node.command(["report", "--text", "--out", "-"]);
        command.arg("--kubelet-log").arg(&path).env(name, scene.node.base());
        String::from_utf8(output_of(&mut command).stdout).unwrap()
    };
    let folder = scene.log().display().to_string();
    for name in ["PWD", "OLDPWD"] {
        has(&report(name), &[&folder]);
    }
    for name in ["PGPWD", "MYSQL_PWD", "DB_PASSWORD"] {
        assert!(!report(name).contains(&folder), "{name}");
    }
}

/// At 1794e8fc our own log alone named disks, and with --since only what it had since then.
#[test]
fn the_disks_before_and_after_are_kubelets_where_our_log_has_none() {
    let scene = Scene::new();
    scene.forget();
    let mounted = |after: i64, disk: &str| {
        line(
            after,
            &format!(
                "MountVolume.WaitForAttach succeeded for volume \"data\" (UniqueName: \"incloud/disk/pv-orders\") pod \"orders-0\" (UID: \"{UID}\") DevicePath \"/dev/{disk}\""
            ),
        )
    };
    let of = |more: Vec<(i64, u32, String)>, words: &[&str]| {
        let mut all = [incident(), more].concat();
        all.sort_by_key(|(at, ..)| *at);
        scene.history(&scene.file(&scene.klog_of(all)), words).unwrap()
    };
    let is = format!("The disk was vdc until then, and is vdd since {}.", scene.clock(70_000));
    let before = mounted(-3 * 3_600_000, "vdc");
    for words in [&["pv-orders"][..], &["pv-orders", "--since", "4h"], &["--since", "4h"]] {
        has(&of(vec![before.clone(), mounted(70_000, "vdd")], words), &[&is]);
    }
    let detached = line(
        7000,
        "Volume detached for volume \"pv-orders\" (UniqueName: \"incloud/disk/pv-orders\") on node \"node-a\" DevicePath \"/dev/vdc\"",
    );
    has(&of(vec![detached, mounted(70_000, "vdd")], &["pv-orders"]), &[&is]);
    let same = of(vec![before, mounted(70_000, "vdc")], &["pv-orders"]);
    assert!(!same.contains("The disk was"), "{same}");
}

/// At 1794e8fc a line that two files have counted twice, and one of after the tear-down not at all.
#[test]
fn a_line_of_two_files_counts_once() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog());
    let copy = scene.node.base().join("copy.log");
    fs::copy(&path, &copy).unwrap();
    let text =
        scene.history(&path, &["pv-orders", "--kubelet-log", copy.to_str().unwrap()]).unwrap();
    has(&text, &["25 lines before and 12 after the tear-down.", "failed, 37 lines until "]);
    // An outage that goes on behind what is shown is not cut without a word.
    let mut all = incident();
    all.extend((0..100).map(|nth| (-9_200_000 + nth * 60_000, 1234, API.to_owned())));
    all.sort_by_key(|(at, ..)| *at);
    let text = scene.history(&scene.file(&scene.klog_of(all)), &["pv-orders"]).unwrap();
    has(&text, &["kubelet its log is not shown until "]);
}

/// At 1794e8fc behind "The volume is well.", and of an earlier day nothing.
#[test]
fn a_report_says_first_who_tore_the_volume_down() {
    let scene = Scene::new();
    let path = scene.file(&scene.klog());
    for text in [
        scene.report(&path, &[]).unwrap(),
        scene
            .node
            .verb(&["report", "--out", "-", "--kubelet-log", path.to_str().unwrap()])
            .unwrap(),
    ] {
        let verdict = text.find("kubelet called unmount").unwrap();
        assert!(verdict < text.find("No volume is on this node.").unwrap_or(usize::MAX), "{text}");
    }
    let before = format!("--since {}", scene.moment(8050)[..16].replace(' ', "T"));
    for words in [&[][..], &["pv-orders"]] {
        for verb in ["history", "report"] {
            let more: &[&str] = if verb == "report" { &["--text", "--out", "-"] } else { &[] };
            let since = ["--since", "1h", "--kubelet-log", path.to_str().unwrap()];
            let text = scene.node.verb(&[&[verb], words, &since, more].concat()).unwrap();
            has(&text, &["No volume was torn down since ", &before]);
        }
    }
    // Where only kubelet's log has it.
    scene.forget();
    let path = scene.file(&scene.klog_of(incident()));
    let text = scene.history(&path, &["pv-orders", "--since", "1h"]).unwrap();
    has(&text, &[&format!("--since {}", scene.moment(4300)[..16].replace(' ', "T"))]);
}

/// At 1794e8fc whole lines stood above the story, with the heads of their files, whenever they were written.
#[test]
fn lines_of_the_driver_before_are_rows_of_their_time() {
    let scene = Scene::new();
    scene.forget();
    let path = format!("/var/lib/kubelet/pods/{UID}/volumes/incloud~disk/pv-orders");
    scene.older(&[
        (-7_200_000, "attach pv-orders node-a".to_owned()),
        (3650, format!("unmount {path}")),
        (4350, "detach pv-orders node-a".to_owned()),
    ]);
    let file = scene.file(&scene.klog_of(incident()));
    for words in [&["pv-orders"][..], &[]] {
        let text = scene.history(&file, words).unwrap();
        let row = |after, words: &str| {
            let begin = format!("{}  older driver", scene.clock(after));
            let row = text.lines().find(|line| line.starts_with(&begin)).expect(&text);
            assert!(row.trim_end().ends_with(words), "{row}");
        };
        row(-7_200_000, "\"attach pv-orders node-a\"");
        row(3650, "\"unmount …/pv-orders\"");
        assert!(!text.contains("Log line format") && !text.contains("Running on"), "{text}");
        assert!(!text.contains("  | "), "{text}");
    }
    let text = scene.history(&file, &["pv-orders", "--since", "3h"]).unwrap();
    let since = scene.history(&file, &["pv-orders", "--since", &scene.moment(-60_000)]).unwrap();
    assert!(text.contains("unmount …") && since.contains("unmount …"), "{text}{since}");
    assert!(!since.contains("attach pv-orders"), "{since}");
    has(&scene.report(&file, &["pv-orders"]).unwrap(), &["older driver \"unmount …/pv-orders\""]);
}
