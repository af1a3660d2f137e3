//! The report: one new private file, of whatever can be seen, without secrets.

use crate::calls;
use crate::looking::silent_cloud_with;
use crate::support::{DISK, Node, copy_program, has, is_root_here, output_of, skip};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The beginning is enough to find it cut.
const CANARY: &str = "hunter2-canary-of-a-length-that-is-broken-into-lines-0123456789";
const PART: &str = "hunter2";

/// Both streams, and the exit status.
fn said(command: &mut Command) -> (String, i32) {
    let output = output_of(command);
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code().expect("no signal"))
}

fn with_a_call() -> Node {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
    node
}

/// The report on stdout, as a page and as text.
fn both(node: &Node, change: impl Fn(&mut Command)) -> [String; 2] {
    [&["report", "--out", "-"][..], &["report", "--out", "-", "--text"]].map(|words| {
        let mut command = node.command(words);
        change(&mut command);
        let (text, status) = said(&mut command);
        assert_eq!(status, 0, "{text}");
        text
    })
}

#[track_caller]
fn has_no_canary(texts: &[String]) {
    for text in texts {
        // Lines are broken within words.
        let joined: String = text.split_whitespace().collect();
        let at = joined.find(PART).map(|at| joined[at.saturating_sub(100)..].to_owned());
        assert_eq!(at.map(|found| found.chars().take(200).collect::<String>()), None);
    }
}

/// Every file below a folder with what is in it.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap_or_default()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_report_is_one_new_private_file_and_nothing_else_changes() {
    let node = with_a_call();
    let folder = node.base().join("here");
    fs::create_dir(&folder).unwrap();
    let before = contents(&node.own());
    let (text, status) = said(node.command(["report"]).current_dir(&folder));
    assert_eq!(status, 0, "{text}");
    let path = text.trim().strip_prefix("the report is in ").unwrap();
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("incloud-disk-report-node-a-2") && name.ends_with("Z.html"), "{name}");
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(path).unwrap().starts_with("<!DOCTYPE html>"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(contents(&node.own()), before, "looking leaves no trace");
    let (text, status) = said(node.command(["report", "--text"]).current_dir(&folder));
    assert!(status == 0 && text.trim().ends_with("Z.txt"), "{text}");
}

#[test]
fn what_is_there_is_never_overwritten() {
    let node = with_a_call();
    let at = |name: &str| node.base().join(name);
    fs::write(at("there"), "old").unwrap();
    symlink(at("there"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    for name in ["there", "link", "dangling"] {
        let place = at(name);
        let (text, status) = said(&mut node.command(["report", "--out", place.to_str().unwrap()]));
        assert_eq!(status, 1, "{text}");
        has(&text, &["is there already, and is not overwritten", "--out"]);
    }
    assert_eq!(fs::read_to_string(at("there")).unwrap(), "old");
    assert!(!at("nowhere").exists());
    let (text, status) = said(&mut node.command(["report", "--out", "/nowhere/at/all"]));
    assert_eq!(status, 1, "{text}");
    has(&text, &["write /nowhere/at/all: no such file or directory"]);
}

/// A full disk, and a death at any moment: nothing with a name is left.
#[test]
fn a_report_that_cannot_be_written_leaves_nothing() {
    let name = "a_report_that_cannot_be_written_leaves_nothing";
    if !is_root_here(name) {
        return;
    }
    let node = with_a_call();
    let small = node.base().join("small");
    fs::create_dir(&small).unwrap();
    let script = "mount -t tmpfs -o size=8k small \"$1\" && cd \"$1\" && { \"$2\" report; echo \"status $? left:$(ls -A).\"; }";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&small).arg(DISK);
    command.env("INCLOUD_DISK_CONFIG", node.config_path());
    let (text, _) = said(&mut command);
    if text.contains("unshare:") || text.contains("mount:") {
        return skip(name, "needs root that may mount");
    }
    has(&text, &["write ", "no space left on device", "status 1 left:."]);
}

#[test]
fn one_that_is_ended_leaves_nothing() {
    let node = with_a_call();
    let listener = silent(&node, "");
    let folder = node.base().join("here");
    fs::create_dir(&folder).unwrap();
    let mut command = node.command(["report"]);
    // It waits for the cloud at this moment.
    let mut child = command.current_dir(&folder).stdout(Stdio::null()).spawn().unwrap();
    let (_stream, _) = listener.accept().unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(!child.wait().unwrap().success());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

/// A cloud whose service takes connections and says nothing; with more lines of TOML at its end.
fn silent(node: &Node, more: &str) -> TcpListener {
    silent_cloud_with(node, (&format!("u:{CANARY}@"), CANARY), more)
}

/// Lines that were written when more was written than should have been.
fn old_logs(node: &Node) {
    let folder = node.own().join("log");
    fs::create_dir_all(&folder).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let today = fs::read_dir(&folder).unwrap().flatten().map(|file| file.path());
    let today = today.filter(|path| path.extension().is_some_and(|is| is == "jsonl")).max();
    let today = today.expect("today's file");
    let day =
        today.file_name().unwrap().to_str().unwrap()["incloud-disk.".len()..][..10].to_owned();
    let text = |reason: &str| serde_json::to_string(reason).unwrap();
    let mut lines = fs::OpenOptions::new().append(true).open(&today).unwrap();
    for (number, reason) in [
        format!("Keystone answered 401: {{\"token\": \"{CANARY}\"}} is not valid"),
        format!("said \"X-Auth-Token: {CANARY}\" and https://admin:{CANARY}@cloud/v3"),
        format!("mount -o username=u,password={CANARY} failed"),
        format!("the password is {CANARY}"),
        format!("{} …", &CANARY[..20]),
    ]
    .iter()
    .enumerate()
    {
        let reason = text(reason);
        let line = |message: &str, level: &str, more: &str| {
            format!(
                "{{\"timestamp\":\"{day}T00:00:00.0Z\",\"level\":\"{level}\",\"fields\":{{\"message\":\"{message}\",\"volume\":\"vol-1\"{more}}},\"span\":{{\"id\":\"c{number}-{}\",\"op\":\"attach\",\"name\":\"call\"}}}}\n",
                now.as_nanos()
            )
        };
        let told = format!(",\"kind\":\"config\",\"reason\":{reason}");
        let all = [
            line("begin", "INFO", ""),
            line("strange", "WARN", &format!(",\"secret\":\"{CANARY}\",\"said\":{reason}")),
            line("end: Failure", "ERROR", &told),
        ];
        lines.write_all(all.concat().as_bytes()).unwrap();
    }
    let prose =
        format!("{day}T00:00:00Z  WARN vol-1 logged in with password={CANARY} and {CANARY}\n");
    fs::write(folder.join(format!("incloud-disk.{day}.log")), prose).unwrap();
}

#[test]
fn no_secret_is_in_a_report_whoever_quoted_it() {
    let node = with_a_call();
    let _listener = silent(&node, "");
    old_logs(&node);
    let tokens = node.own().join("run/tokens");
    fs::create_dir_all(&tokens).unwrap();
    fs::write(tokens.join("a"), format!("{{\"format\":2,\"token\":\"{CANARY}\"}}")).unwrap();
    let texts = both(&node, |command| {
        command.env("OS_PASSWORD", CANARY).args(["--since", "2d"]);
    });
    for text in &texts {
        has(
            text,
            &[
                "Keystone answered 401",
                "(redacted)",
                "the password is (redacted)",
                "logged in with",
            ],
        );
    }
    has_no_canary(&texts);
}

/// The same where only the environment or another file knows it.
#[test]
fn a_secret_of_another_source_is_a_secret_too() {
    let node = with_a_call();
    old_logs(&node);
    let texts = both(&node, |command| {
        command.env("OS_PASSWORD", CANARY).args(["--since", "2d"]);
    });
    has_no_canary(&texts);
    let conf = node.base().join("cloud.conf");
    fs::write(
        &conf,
        format!("[Global]\nauth-url=http://127.0.0.1:1\nusername=u\npassword={CANARY}\n"),
    )
    .unwrap();
    let own = fs::read_to_string(node.config_path()).unwrap();
    let own = own.replace(
        "cloud.kind = \"local\"",
        &format!("cloud.kind = \"openstack\"\nopenstack.cloud_conf = {conf:?}"),
    );
    fs::write(node.config_path(), own).unwrap();
    let texts = both(&node, |command| {
        command.args(["--since", "2d"]);
    });
    has_no_canary(&texts);
    has(&texts[1], &["openstack.cloud_conf = "]);
}

#[test]
fn a_broken_configuration_is_told_without_its_values() {
    let node = with_a_call();
    let whole = fs::read_to_string(node.config_path()).unwrap();
    for (broken, words) in [
        (format!("{whole}\n[openstack]\npassword = {CANARY}\n"), "line "),
        (format!("{whole}\n[openstack]\npassword = \"{CANARY}\n"), "line "),
        (format!("{whole}\n[openstack]\npasword = \"{CANARY}\"\n"), "pasword"),
        (format!("{whole}\n[log]\nlevel = \"{CANARY}\"\n"), "line "),
        (format!("{whole}\n[deadline]\nattach = \"{CANARY}\"\n"), "line "),
        (format!("{whole}\n[openstack]\n{CANARY}\n"), "line "),
        (format!("{whole}\n[openstack.limits]\nper_second = ['{CANARY}']\n"), "line "),
    ] {
        fs::write(node.config_path(), &broken).unwrap();
        let texts = both(&node, |_| {});
        has_no_canary(&texts);
        for text in &texts {
            has(text, &["the configuration, which is broken, so the defaults are taken", words]);
        }
    }
    fs::remove_file(node.config_path()).unwrap();
    for text in both(&node, |_| {}) {
        has(&text, &["which is broken", "is not there"]);
    }
}

#[test]
fn a_silent_cloud_is_waited_for_no_longer_than_by_the_other_verbs() {
    let node = with_a_call();
    // Doctor and status wait for three seconds each, and a request may take ten minutes.
    let _listener = silent(&node, "[openstack.timeouts]\nread = 600\n");
    let begin = Instant::now();
    let (text, status) = said(&mut node.command(["report", "--text", "--out", "-"]));
    assert_eq!(status, 0, "{text}");
    assert!(begin.elapsed().as_secs() < 400, "{:?}", begin.elapsed());
    has(&text, &["The cloud did not answer, so its view is unknown", "error cloud"]);
}

#[test]
fn who_is_not_root_is_told_what_is_not_seen() {
    let name = "who_is_not_root_is_told_what_is_not_seen";
    if !is_root_here(name) {
        return;
    }
    let node = with_a_call();
    // Where the driver was built may be closed to others too.
    let public = tempfile::tempdir().unwrap();
    fs::set_permissions(public.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let driver = public.path().join("disk");
    copy_program(DISK, &driver);
    let other_user = |command: &mut Command| {
        let mut anew = Command::new(&driver);
        let given = command.get_envs().filter_map(|(key, value)| Some((key, value?)));
        anew.args(command.get_args()).envs(given);
        anew.uid(65534).gid(65534).current_dir("/");
        *command = anew;
    };
    // The scene is closed to others.
    for open in [false, true] {
        let mode = if open { 0o755 } else { 0o700 };
        fs::set_permissions(node.base(), fs::Permissions::from_mode(mode)).unwrap();
        for text in both(&node, other_user) {
            has(&text, &["not seen", "what only root may read: run it with sudo", "disk doctor"]);
        }
    }
}

#[test]
fn a_volume_that_nothing_knows_is_a_slip_of_the_pen() {
    let node = with_a_call();
    let (text, status) = said(&mut node.command(["report", "pv-2", "--out", "-"]));
    assert_eq!(status, 1, "{text}");
    has(&text, &["no volume goes by the name pv-2"]);
    let (text, status) = said(&mut node.command(["report", "vol-1", "--text", "--out", "-"]));
    assert_eq!(status, 0, "{text}");
    has(&text, &["disk report of node-a, volume vol-1", "disk explain vol-1", "isattached"]);
}

/// What the picture shows is in the text: without eyes, and without a browser.
#[test]
fn each_row_of_the_picture_is_in_the_text() {
    let node = with_a_call();
    node.call(calls::attach("vol-1", "pv-1", "node-b"));
    node.call(calls::stage(&node, "vol-1", "pv-1"));
    let [page, _] = both(&node, |_| {});
    let text = page.split("<section id=\"picture\">").nth(1).unwrap();
    let (picture, text) = text.split_once("</section>").unwrap();
    let plain = |text: &str| {
        let signs =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        let text = signs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        text.split_whitespace().collect::<String>()
    };
    let all = plain(text);
    let rows: Vec<_> =
        picture.split("</td></tr>").filter_map(|row| row.rsplit_once("<td>")).collect();
    assert!(rows.len() >= 2, "{picture}");
    for (_, words) in rows {
        assert!(all.contains(&plain(words)), "{words}");
    }
}
