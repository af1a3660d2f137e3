//! The verbs that look, where there is little to see: no root, no disk, a cloud that is silent, a
//! machine that is not fit.

use crate::calls;
use crate::streams::on_a_terminal;
use crate::support::{Node, SEAM, copy_program, has, has_seams, is_root_here, sees_no_volume};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const VERBS: [&str; 11] = [
    "status", "explain", "history", "holders", "doctor", "report", "local", "detach", "release",
    "heal", "format",
];

/// Both streams, and the exit status.
fn said(command: &mut Command) -> (String, i32) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code().expect("no signal"))
}

#[test]
fn every_verb_has_help_with_examples() {
    let node = Node::new();
    for verb in VERBS {
        let (text, status) = said(&mut node.command([verb, "--help"]));
        assert_eq!(status, 0, "{verb}");
        has(&text, &["Usage: disk", "Examples:", &format!("disk {verb}")]);
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
}

#[test]
fn shells_and_manuals_come_from_the_same_definition() {
    let node = Node::new();
    for (shell, words) in
        [("bash", "complete -F _disk"), ("zsh", "#compdef disk"), ("fish", "complete -c disk")]
    {
        let (text, status) = said(&mut node.command(["completions", shell]));
        assert_eq!(status, 0, "{text}");
        assert!(text.contains(words), "{shell}: {text}");
        for verb in VERBS {
            assert!(text.contains(verb), "{shell}: {verb}");
        }
    }
    let script = node.base().join("completions");
    fs::write(&script, said(&mut node.command(["completions", "bash"])).0).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());

    let (page, status) = said(&mut node.command(["man"]));
    assert_eq!(status, 0);
    has(&page, &[".TH disk 8", "isattached JSON NODE"]);
    let folder = node.base().join("man");
    fs::create_dir(&folder).unwrap();
    let (names, _) = said(&mut node.command(["man", "--out", folder.to_str().unwrap()]));
    for verb in VERBS {
        assert!(names.contains(&format!("disk-{verb}.8\n")), "{names}");
        let page = fs::read_to_string(folder.join(format!("disk-{verb}.8"))).unwrap();
        has(&page, &[".SH SYNOPSIS", "Examples:"]);
    }
    assert!(!names.contains("completions"), "what is for packagers is not for people: {names}");
}

/// A cloud whose service takes connections and says nothing.
pub fn silent_cloud(node: &Node) -> TcpListener {
    silent_cloud_with(node, ("", "p"), "")
}

/// The same with what stands before its host, a password, and more of a configuration.
pub fn silent_cloud_with(
    node: &Node,
    (before_host, password): (&str, &str),
    more: &str,
) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = node.own();
    let text = format!(
        "[cloud]\nkind = \"openstack\"\n[openstack]\nauth_url = \"http://{before_host}{}/v3\"\nusername = \"u\"\n\
         password = \"{password}\"\nuser_domain_name = \"d\"\nproject_name = \"p\"\nproject_domain_name = \"d\"\n\
         proxy = \"none\"\nmetadata_url = \"none\"\n[node]\nname = \"node-a\"\n\
         server_id = \"0b5c3f0e-9a7d-4f5e-8d4b-1f2a3b4c5d6e\"\n\
         [paths]\nstate_dir = '{}'\nrun_dir = '{}'\nlog_dir = '{}'\n{more}",
        listener.local_addr().unwrap(),
        own.join("state").display(),
        own.join("run").display(),
        own.join("log").display()
    );
    fs::write(node.config_path(), text).unwrap();
    listener
}

#[test]
fn a_cloud_that_is_silent_is_unknown_and_never_detached() {
    let node = Node::new();
    let _listener = silent_cloud(&node);
    // A volume that this machine remembers to have mounted.
    let id = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
    let folder = node.own().join("state/volumes");
    fs::create_dir_all(&folder).unwrap();
    let staged = r#"{"folder":"/k/g","disk":{"number":"253:16","size":1,"boot":"b"},"fs_type":"ext4","uuid":""}"#;
    fs::write(
        folder.join(format!("{id}.json")),
        format!(r#"{{"format":1,"volume":"{id}","name":"pvc-1","staged":{staged}}}"#),
    )
    .unwrap();
    let begin = Instant::now();
    let (text, status) = said(&mut node.command(["status"]));
    // Three seconds and what a slow machine needs: far from the thirty that a request may take.
    assert!(begin.elapsed().as_secs() < 15, "{:?}", begin.elapsed());
    assert_eq!(status, 0, "{text}");
    has(&text, &["pvc-1 (6f1c2d3e)", "The cloud did not answer, so its view is unknown"]);
    has(
        &text,
        &[
            "Whether it is well is not known",
            "To do: ask again when the cloud answers; disk doctor says what keeps it from that. $ disk explain",
        ],
    );
    let row = text.lines().find(|line| line.contains("pvc-1 ")).unwrap();
    assert!(row.starts_with("UNKNOWN ") && !text.contains("detached"), "{text}");
    let (text, _) = said(&mut node.command(["status", "--json"]));
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["cloud_answered"], false);
    assert_eq!(found["volumes"][0]["cloud"]["says"], "unknown");
    let (text, _) = said(&mut node.command(["explain", "pvc-1"]));
    has(&text, &["says unknown:", "verdict unknown: where it is could not be seen"]);
    let (text, status) = said(&mut node.command(["doctor"]));
    assert_eq!(status, 2);
    has(&text, &["error cloud", "does not answer"]);
}

/// Two volumes that this machine remembers, of a cloud that says nothing.
fn two_remembered(node: &Node) -> TcpListener {
    let listener = silent_cloud(node);
    for (id, name, pod) in [(ORDERS, "pvc-orders", "shop/orders-0"), (WEB, "pvc-web", "shop/web-0")]
    {
        let folders = ["state/volumes", "run/boot"].map(|folder| node.own().join(folder));
        let contents = [
            format!(r#"{{"format":1,"volume":"{id}","name":"{name}"}}"#),
            format!(r#"{{"volume":"{id}","consumers":{{"uid-of-{name}":"{pod}"}}}}"#),
        ];
        for (folder, text) in folders.iter().zip(contents) {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(format!("{id}.json")), text).unwrap();
        }
    }
    listener
}

const ORDERS: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
const WEB: &str = "6f1c9999-4a5b-4c6d-8e7f-90a1b2c3d4e5";

/// At fee4868 `explain 6f1c2`, how an id begins: "6f1c2 verdict ok: no disk of it is here".
#[test]
fn a_name_that_is_known_here_needs_no_cloud() {
    let node = Node::new();
    let _listener = two_remembered(&node);
    let label = format!("/dev/incloud-disk/{ORDERS}");
    for name in [
        ORDERS,
        "6f1c2",
        "pvc-orders",
        "pvc-o",
        "shop/orders-0",
        "orders-0",
        "uid-of-pvc-orders",
        &label,
    ] {
        let (text, status) = said(&mut node.command(["explain", name]));
        assert_eq!(status, 0, "{name}: {text}");
        assert!(text.starts_with(&format!("{ORDERS}  pvc-orders")), "{name}: {text}");
    }
}

/// At fee4868 nothing but the answer in JSON, after as long as the call may take (180 s).
#[test]
fn a_person_who_waits_is_told_for_what() {
    let (test, node) = ("a_person_who_waits_is_told_for_what", Node::new());
    let _listener = silent_cloud(&node);
    let configured = fs::read_to_string(node.config_path()).unwrap();
    fs::write(node.config_path(), configured + "[deadline]\ndetach = 5\n").unwrap();
    // kubelet's pipe has the answer alone.
    let (line, _) = said(&mut node.command(["detach", "pv-1", "node-a"]));
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&answer["status"], line.lines().count()), (&"Failure".into(), 1));
    let Some((_, shown)) = on_a_terminal(test, &node, "detach pv-1 node-a") else { return };
    has(
        &shown,
        &["waiting for ", "at 127.0.0.1", "s of 5; Ctrl-C is safe", "disk: failed: detach"],
    );
    let (waiting, answered) = shown.rsplit_once("\x1b[K").unwrap();
    assert!(waiting.contains("Ctrl-C"), "{shown}");
    assert!(answered.starts_with("disk: failed: detach"), "{shown}");
}

/// A shell asks for them while a person types.
#[test]
fn names_are_told_without_the_cloud_and_without_a_trace() {
    let node = Node::new();
    let _listener = two_remembered(&node);
    let begin = Instant::now();
    let (text, status) = said(&mut node.command(["names"]));
    assert_eq!((status, text.lines().filter(|line| line.starts_with("pvc-")).count()), (0, 2));
    has(&text, &[ORDERS, "shop/orders-0", "shop/web-0"]);
    // The verbs that look wait three seconds for a cloud.
    assert!(begin.elapsed().as_secs() < 3, "{:?}", begin.elapsed());
    assert!(!node.own().join("log").exists());
    node.configure("[nonsense]");
    assert_eq!(said(&mut node.command(["names"])).1, 0);
}

#[test]
fn a_name_of_several_volumes_is_listed_and_nothing_is_done() {
    let node = Node::new();
    let _listener = two_remembered(&node);
    let is_root = nix::unistd::geteuid().is_root();
    let acts: &[&str] = if is_root { &["heal", "6f1c", "--dry-run"] } else { &["explain", "pvc-"] };
    for words in [&["explain", "6f1c"][..], &["holders", "pvc-"], acts] {
        let (text, status) = said(&mut node.command(words));
        assert_eq!(status, 1, "{words:?}: {text}");
        has(
            &text,
            &[
                "2 volumes go by",
                &format!("volume {ORDERS} (pvc-orders, pods shop/orders-0"),
                &format!("volume {WEB} (pvc-web, pods shop/web-0"),
                "nothing was done",
            ],
        );
    }
}

#[test]
fn a_verb_that_acts_takes_what_is_known_here_and_no_beginning_that_the_cloud_cannot_confirm() {
    let name =
        "a_verb_that_acts_takes_what_is_known_here_and_no_beginning_that_the_cloud_cannot_confirm";
    if !is_root_here(name) {
        return;
    }
    let node = Node::new();
    let _listener = two_remembered(&node);
    let (text, status) = said(&mut node.command(["heal", "shop/orders-0", "--dry-run"]));
    assert_eq!(status, 0, "{text}");
    has(&text, &[&format!("volume {ORDERS} (pvc-orders"), "no mount of it stands on a dead disk"]);
    let (text, status) = said(&mut node.command(["heal", "pvc-o", "--dry-run"]));
    assert_eq!(status, 1, "{text}");
    has(&text, &[&format!("pvc-o is how {ORDERS} begins"), "the cloud did not answer"]);
}

/// At fee4868: "verdict ok: no disk of it is here, and nothing is mounted", and exit status 0.
#[test]
fn a_name_that_nothing_here_knows_and_a_silent_cloud_is_unknown() {
    let node = Node::new();
    let _listener = two_remembered(&node);
    for verb in ["explain", "holders"] {
        let (text, status) = said(&mut node.command([verb, "pvc-oders"]));
        assert_eq!(status, 1, "{text}");
        has(
            &text,
            &[
                "unknown: no volume goes by the name pvc-oders on this machine",
                "the cloud did not answer",
                "did you mean pvc-orders?",
            ],
        );
        assert!(!text.contains("verdict"), "{text}");
    }
}

#[test]
fn a_machine_with_nothing_on_it_says_so() {
    if !sees_no_volume("a_machine_with_nothing_on_it_says_so") {
        return;
    }
    let node = Node::new();
    let (text, status) = said(&mut node.command(["status"]));
    assert_eq!(status, 0);
    has(&text, &["no volume is on node-a"]);
    let (text, status) = said(&mut node.command(["history", "vol-1"]));
    assert_eq!(status, 1);
    has(&text, &["read the log in", "paths.log_dir says where"]);
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    let (text, status) = said(&mut node.command(["history", "pv-1"]));
    assert_eq!(status, 0);
    has(&text, &["vol-1 pv-1", "attached to node-b"]);
    let (text, status) = said(&mut node.command(["history", "vol-2"]));
    assert_eq!(status, 1);
    has(&text, &["nothing about vol-2 is in the log in ", "paths.log_dir; did you mean vol-1?"]);
    // It is another machine's.
    has(&said(&mut node.command(["status"])).0, &["no volume is on node-a"]);
    has(
        &said(&mut node.command(["explain", "pv-1"])).0,
        &["attached to node-b", "no disk of it is here"],
    );
    for words in [
        &["history", "--since", "soon"][..],
        &["history", "--since", ""],
        &["history", "--since", "2026-13-45"],
        &["history", "--pod", ""],
        &["history", "--pod"],
        &["status", "--watch", "0"],
        &["status", "vol-1"],
        &["explain"],
        &["explain", ""],
        &["explain", ".."],
        &["holders", "../vol-1"],
        &["heal", ""],
        &["release", ".."],
        &["format", "--yes", "/"],
    ] {
        let (text, status) = said(&mut node.command(words));
        assert_eq!(status, 2, "{words:?}: {text}");
        assert!(text.starts_with("error: "), "{words:?}: {text}");
    }
    for verb in ["explain", "holders", "heal", "release", "format"] {
        let (text, status) = said(&mut node.command([verb, "unknown"]));
        assert_eq!(status, 1, "{verb}: {text}");
        let acts = !["explain", "holders"].contains(&verb);
        let needs_root = acts && !nix::unistd::geteuid().is_root();
        let told =
            if needs_root { "this needs root" } else { "no volume goes by the name unknown" };
        has(&text, &[told]);
    }
}

#[test]
fn colour_is_for_people_at_a_terminal() {
    let (test, node) = ("colour_is_for_people_at_a_terminal", Node::new());
    assert!(!said(&mut node.command(["doctor"])).0.contains('\x1b'));
    let Some((_, shown)) = on_a_terminal(test, &node, "doctor") else { return };
    assert!(shown.contains("\x1b["), "{shown}");
}

/// A timer's log needs no line each minute.
#[test]
fn only_people_are_told_that_there_is_nothing_to_heal() {
    let (test, node) = ("only_people_are_told_that_there_is_nothing_to_heal", Node::new());
    if !is_root_here(test) {
        return;
    }
    assert_eq!(said(&mut node.command(["heal"])), (String::new(), 0));
    let Some((status, shown)) = on_a_terminal(test, &node, "heal") else { return };
    assert_eq!(
        (status, shown.as_str()),
        (0, "no mount of any volume here stands on a dead disk\n")
    );
}

#[test]
fn watching_goes_on_until_its_output_is_closed() {
    if !sees_no_volume("watching_goes_on_until_its_output_is_closed") {
        return;
    }
    let node = Node::new();
    let mut command = node.command(["status", "--watch", "1"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    // Other tests of this machine may have mounts of theirs, which are told too.
    let mut looks = 0;
    while looks < 2 {
        let mut line = String::new();
        assert!(std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0, "it ended");
        looks += usize::from(line == "no volume is on node-a\n");
    }
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_page_for_monitoring_is_written_by_any_call() {
    let node = Node::new();
    let page = node.own().join("disk.prom");
    node.configure(&format!("[metrics]\ntextfile = '{}'", page.display()));
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    node.fails(calls::attach("vol-1", "pv-1", "node-c"));
    node.fails(["attach", "{", "node-c"]);
    let text = fs::read_to_string(&page).unwrap();
    for outcome in ["done", "already", "elsewhere", "bad-call"] {
        let row =
            format!("incloud_disk_calls_total{{operation=\"attach\",outcome=\"{outcome}\"}} 1");
        assert!(text.contains(&row), "{row}: {text}");
    }
    assert!(text.contains("incloud_disk_call_duration_seconds_count{operation=\"attach\"} 4"));
    let mode = fs::metadata(&page).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "the collector is another user");
}

/// A call that is ended by its deadline is counted too.
#[test]
fn a_call_that_hangs_is_counted() {
    if !has_seams("a_call_that_hangs_is_counted") {
        return;
    }
    let node = Node::new();
    let page = node.own().join("disk.prom");
    node.configure(&format!("[metrics]\ntextfile = '{}'\n[deadline]\nattach = 1", page.display()));
    node.create("vol-1", "1M");
    let mut command = node.command(calls::attach("vol-1", "pv-1", "node-b"));
    command.env(SEAM, "local.attach.recorded=sleep:60000");
    let answer = crate::support::Answer::of(command);
    assert_eq!(answer.json["status"], "Failure");
    // A panic is counted as a defect.
    let mut command = node.command(calls::attach("vol-1", "pv-1", "node-b"));
    command.env(SEAM, "begin=panic");
    crate::support::Answer::of(command);
    let text = fs::read_to_string(&page).unwrap();
    for outcome in ["timeout", "bug"] {
        assert!(text.contains(&format!("outcome=\"{outcome}\"}} 1")), "{outcome}: {text}");
    }
}

/// A made-up machine for the doctor.
struct Patient {
    node: Node,
    root: PathBuf,
}

impl Patient {
    fn new() -> Self {
        let node = Node::new();
        let root = node.base().join("root");
        fs::create_dir_all(root.join("proc")).unwrap();
        Self { node, root }
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn kubelet(&self, arguments: &[&str]) {
        let all = [&["/usr/bin/kubelet"], arguments].concat();
        self.file("proc/77/cmdline", &(all.join("\0") + "\0"));
        self.is_roots(77);
    }

    /// As the kernel tells of root's own process.
    fn is_roots(&self, pid: u32) {
        let status = "Uid:\t0\t0\t0\t0\nNSpid:\t77\nCapEff:\t000001ffffffffff\n";
        self.file(&format!("proc/{pid}/status"), status);
    }

    fn plugin(&self, name: &str) -> PathBuf {
        let program = self.file(&format!("plugins/{name}"), "#!/bin/sh\n");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    fn plugins(&self) -> String {
        self.root.join("plugins").display().to_string()
    }

    fn findings(&self) -> Vec<Value> {
        let mut command = self.node.command(["doctor", "--json"]);
        command
            .env("INCLOUD_DISK_ROOT", &self.root)
            .env("INCLOUD_DISK_PROC", self.root.join("proc"));
        // Else the maps of this machine are looked at, which has none.
        if self.root.join("sys").exists() {
            command.env("INCLOUD_DISK_SYSFS", self.root.join("sys"));
        }
        let output = command.output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = found["findings"].as_array().unwrap().clone();
        let worst = if findings.iter().any(|one| one["level"] == "error") { 2 } else { 1 };
        assert!(output.status.code() <= Some(worst), "{found:#}");
        for one in &findings {
            assert_eq!(one["fix"].is_null(), one["level"] == "ok", "{one:#}");
        }
        findings
    }

    /// Demands a finding of this check, level and words.
    #[track_caller]
    fn shows(&self, check: &str, level: &str, words: &str) {
        let findings = self.findings();
        let is_it = |one: &&Value| {
            one["check"] == check
                && one["level"] == level
                && one["found"].as_str().unwrap().contains(words)
        };
        assert!(findings.iter().any(|one| is_it(&one)), "{check} {level} {words}: {findings:#?}");
    }
}

#[test]
fn the_doctor_finds_what_is_wrong_with_kubelet() {
    if !has_seams("the_doctor_finds_what_is_wrong_with_kubelet") {
        return;
    }
    let patient = Patient::new();
    let (plugins, root) = (patient.plugins(), patient.node.kubelet_root().display().to_string());
    patient.shows("kubelet", "warning", "no kubelet runs here");
    patient.kubelet(&["--volume-plugin-dir", &plugins, "--root-dir", &root]);
    patient.shows("kubelet", "ok", "the controller-manager attaches");
    patient.shows("plugin folder", "error", "there is no executable incloud~disk/disk");
    patient.shows("kubelet root", "ok", "as configured");
    patient.plugin("incloud~disk/disk");
    patient.shows("plugin folder", "warning", "another build");
    copy_program(crate::support::DISK, patient.root.join("plugins/incloud~disk/disk"));
    patient.shows("plugin folder", "ok", "is there");
    patient.plugin("nodeagent~uds/other");
    patient.shows("plugin folder", "warning", "nodeagent~uds");
    patient.plugin("incloud~disk/disk.bak");
    patient.shows("plugin folder", "warning", "disk.bak");
    patient.kubelet(&["--volume-plugin-dir", &plugins, "--config=/nowhere.yaml"]);
    patient.shows("kubelet", "warning", "/nowhere.yaml");
    patient.shows("kubelet root", "error", "every mount is refused");
    let own = patient.node.name.clone();
    patient.kubelet(&["--volume-plugin-dir", &plugins, "--hostname-override=master2"]);
    patient.shows(
        "node name",
        "error",
        &format!("calls this node master2 (its flag --hostname-override), node.name is {own}"),
    );
    patient.kubelet(&["--volume-plugin-dir", &plugins, "--hostname-override", &own]);
    patient.shows("node name", "ok", &own);
    let log = Path::new(&plugins).join("incloud~disk");
    patient.node.configure("");
    let text = fs::read_to_string(patient.node.config_path()).unwrap();
    let own = patient.node.own().join("log").display().to_string();
    fs::write(patient.node.config_path(), text.replace(&own, log.to_str().unwrap())).unwrap();
    patient.shows("log", "error", "below kubelet's plugin folder");
}

/// Of two kubelets on one machine each is named, and which of them the rest is about.
#[test]
fn the_doctor_names_each_kubelet() {
    if !has_seams("the_doctor_names_each_kubelet") {
        return;
    }
    let patient = Patient::new();
    let namespace = |process: &str, number: u32| {
        let link = patient.root.join("proc").join(process).join("ns/mnt");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(format!("mnt:[{number}]"), link).unwrap();
    };
    patient.file("proc/5/comm", "kubelet\n");
    patient.is_roots(5);
    patient.file("proc/5/cmdline", "wrapper\0--volume-plugin-dir=/other\0--root-dir=/work\0");
    patient.kubelet(&["--volume-plugin-dir", &patient.plugins()]);
    patient.shows("kubelet", "warning", "2 kubelets run here");
    patient.shows("kubelet", "warning", "process 5: plugin folder /other (its flag");
    patient.shows("kubelet", "warning", "root /work; process 77: plugin folder");
    patient.shows("kubelet", "warning", "about process 5: it is the first one");
    patient.shows("plugin folder", "error", "looks in /other");
    for (process, number) in [("self", 2), ("5", 1), ("77", 2)] {
        namespace(process, number);
    }
    patient.shows("kubelet", "warning", "in another mount namespace; process 77");
    patient.shows("kubelet", "warning", "about process 77: it is the first one that lives in this");
    patient.shows("plugin folder", "error", &format!("looks in {}", patient.plugins()));
}

/// At 7ba4fed a missing timer was a warning for every kubelet.
#[test]
fn without_a_timer_a_current_kubelet_is_an_error() {
    if !has_seams("without_a_timer_a_current_kubelet_is_an_error") {
        return;
    }
    let patient = Patient::new();
    fs::create_dir_all(patient.root.join("run/systemd/system")).unwrap();
    patient.kubelet(&[]);
    patient.shows("systemd", "warning", "not installed");
    for (version, level, words) in [
        ("v1.20.2", "warning", "not installed"),
        ("v1.25.16", "warning", "not installed"),
        ("v1.26.0", "error", "kubelet 1.26 does not take down"),
        ("v1.36.2", "error", "without the timer such a volume stays"),
        ("of no version", "warning", "not installed"),
    ] {
        let program =
            patient.file("proc/77/exe", &format!("#!/bin/sh\necho Kubernetes {version}\n"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        patient.shows("systemd", level, words);
    }
    patient.file("etc/systemd/system/incloud-disk-heal@.service", "");
    patient.file("etc/systemd/system/incloud-disk-heal.timer", "");
    let program = patient.file("proc/77/exe", "#!/bin/sh\necho Kubernetes v1.36.2\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    patient.shows("systemd", "error", "is not enabled");
}

#[test]
fn the_doctor_finds_what_is_wrong_with_the_machine() {
    if !has_seams("the_doctor_finds_what_is_wrong_with_the_machine") {
        return;
    }
    let patient = Patient::new();
    patient.shows("udev", "warning", "udevd does not run");
    patient.file("run/udev/control", "");
    patient.shows("udev", "warning", "our rule is not installed");
    patient.file("etc/udev/rules.d/90-incloud-disk.rules", "# incloud-disk\n");
    patient.shows("udev", "ok", "90-incloud-disk.rules");
    patient.shows("build", "ok", "libudev");
    let manifest = patient.file("etc/kubernetes/manifests/kube-controller-manager.yaml", "");
    let level = if cfg!(feature = "udev") { "error" } else { "ok" };
    patient.shows("build", level, "libudev");
    fs::remove_file(manifest).unwrap();
    patient.shows("systemd", "ok", "this machine has none");
    fs::create_dir_all(patient.root.join("run/systemd/system")).unwrap();
    patient.shows("systemd", "warning", "not installed");
    patient.file("etc/systemd/system/incloud-disk-heal@.service", "");
    patient.file("etc/systemd/system/incloud-disk-heal.timer", "");
    patient.shows("systemd", "warning", "is not enabled");
    patient.file("etc/systemd/system/timers.target.wants/incloud-disk-heal.timer", "");
    patient.shows("systemd", "ok", "incloud-disk-heal.timer");
    let has_maps = || patient.findings().iter().any(|one| one["check"] == "maps");
    patient.file("sys/block/dm-1/dm/uuid", "LVM-of-another\n");
    assert!(!has_maps());
    patient.file("sys/block/dm-0/dm/uuid", "incloud_disk-v-1\n");
    patient.shows("maps", "warning", "is away what uses it waits: v-1");
    patient.file("proc/sys/kernel/hung_task_panic", "1\n");
    patient.shows("maps", "warning", "panics when a process waits for long");
    let is_asked_for = || patient.findings().iter().any(|one| one["check"] == "shield");
    assert!(!is_asked_for());
    patient.node.configure("[shield]\nmode = \"on\"");
    patient.shows("maps", "warning", "panics when a process waits for long");
    patient.file("proc/sys/kernel/hung_task_panic", "0\n");
    patient.shows("maps", "ok", "is away what uses it waits: v-1");
    patient.shows("shield", "warning", "no dm-multipath");
    patient.file("sys/module/dm_multipath/refcnt", "0\n");
    patient.shows("shield", "ok", "wait while their disk is away");
    let is_fine = ("ok", "wait while their disk is away");
    let takes = |value: &'static str| ("warning", value);
    let multipath = "etc/multipath.conf";
    for (file, text, (level, words)) in [
        (multipath, "# find_multipaths no", is_fine),
        (multipath, "find_multipaths no", takes("find_multipaths no)")),
        (multipath, "find_multipaths \"off\"", takes("find_multipaths off)")),
        (multipath, "find_multipaths greedy # for the SAN", takes("find_multipaths greedy)")),
        ("etc/multipath/conf.d/20.conf", "find_multipaths strict", is_fine),
        ("etc/multipath/conf.d/30.conf.old", "find_multipaths no", is_fine),
        ("etc/multipath/conf.d/30.conf", "find_multipaths no", takes("find_multipaths no)")),
    ] {
        patient.file(file, &format!("defaults {{\n\t{text}\n}}\n"));
        patient.shows("shield", level, words);
    }
    patient.file("etc/lvm/lvm.conf", "devices {\n\t# global_filter = [ \"r|.*|\" ]\n}\n");
    patient.shows("shield", "warning", "pvs, vgs and lvs wait");
    patient.shows("shield", "warning", "find_multipaths no)");
    fs::remove_dir_all(patient.root.join("etc/multipath")).unwrap();
    patient.file(multipath, "");
    let waits = ("warning", "pvs, vgs and lvs wait");
    for (file, text, (level, words)) in [
        ("lvm.conf", "global_filter = [ \"a|^/dev/sda3$|\", \"r|.*|\" ]", is_fine),
        ("lvm.conf", "filter = [ \"r|/dev/cdrom|\" ]", waits),
        ("devices/system.devices", "", is_fine),
        ("lvm.conf", "use_devicesfile = 0", waits),
    ] {
        patient.file(&format!("etc/lvm/{file}"), &format!("devices {{\n\t{text}\n}}\n"));
        patient.shows("shield", level, words);
    }
    fs::remove_dir_all(patient.root.join("etc/lvm")).unwrap();
    patient.file("proc/sys/kernel/hung_task_panic", "1\n");
    patient.shows("shield", "warning", "panics when a process waits for long");
    patient.file("proc/sys/kernel/hung_task_panic", "0\n");

    patient.node.configure("[metrics]\ntextfile = \"/nowhere/at/all.prom\"");
    patient.shows("metrics", "warning", "/nowhere/at");
    fs::set_permissions(patient.node.config_path(), fs::Permissions::from_mode(0o666)).unwrap();
    patient.shows("credentials", "error", "others may write");
    fs::write(patient.node.config_path(), "[cloud]\nkind = \"clouds\"").unwrap();
    patient.shows("configuration", "error", "line 2");
    fs::write(patient.node.config_path(), "").unwrap();
    patient.shows("cloud", "error", "names no cloud");
}

#[test]
fn credentials_that_others_may_read_are_told() {
    let node = Node::new();
    let _listener = silent_cloud(&node);
    for (mode, words) in [(0o644, "others may read it"), (0o600, "only their owner may read")] {
        fs::set_permissions(node.config_path(), fs::Permissions::from_mode(mode)).unwrap();
        has(&said(&mut node.command(["doctor"])).0, &[words]);
    }
}

/// The clock of the cloud, by the date of its answers.
#[test]
fn a_clock_that_is_off_is_told() {
    let node = Node::new();
    let listener = silent_cloud(&node);
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(1) {
            use std::io::{Read, Write};
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let answer = "HTTP/1.1 401 Unauthorized\r\nDate: Wed, 21 Oct 2015 07:28:00 GMT\r\n\
                          Content-Length: 2\r\nConnection: close\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let (text, status) = said(&mut node.command(["doctor"]));
    assert_eq!(status, 2, "{text}");
    has(&text, &["error clock", "ahead of the cloud's clock"]);
    server.join().unwrap();
}
