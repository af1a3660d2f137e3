//! What a person met at a terminal at night, each item with a test of its own. Above each stands what the
//! driver said at fee4868, where the test fails. More of them: `looking`, and `looking::at_night` of the
//! ring as root.

use crate::calls;
use crate::looking::silent_cloud_with;
use crate::streams::on_a_terminal;
use crate::support::{Answer, Node, has, output_of, skip};
use std::fs;
use std::process::Command;
use std::time::Instant;

/// The worst messages of fee4868, and what takes their place. Two more are in `host::census` ("change too fast
/// to list") and in `model::mount::staleness` ("now belongs to another disk").
#[test]
fn a_message_says_what_is_wrong_and_what_to_type() {
    let node = Node::new();
    node.create("vol-1", "1M");
    for (words, right) in [
        // "FOO" is no unit: K, M, G and T are
        ("local create x --size foo", "no size; try 512M, 1G or a number of bytes"),
        ("local create x --size 3X", "\"X\" is no unit: K, M, G and T are; try 512M"),
        // no whole number
        ("local create x --size 1.5G", "no whole number; try 512M, 1G or a number of bytes"),
        // unexpected argument '-1' found
        ("local create x --size -1G", "no whole number; try 512M"),
        // volume vol-1 has no disk on this machine
        ("local yank vol-1", "no disk on this machine; disk local list shows where it is attached"),
    ] {
        has(&said(&node, &words.split(' ').collect::<Vec<_>>()), &[right]);
    }
    if nix::unistd::geteuid().is_root() {
        // detached vol-1 from node-b (Already)
        let text = said(&node, &["detach", "--force", "vol-1", "node-b"]);
        has(&text, &["vol-1 was not attached to node-b"]);
        // vol-1 is mounted nowhere on this machine's own table any more
        has(&said(&node, &["release", "vol-1"]), &["no mount of vol-1 is left on this machine"]);
    }
    // unknown field `kubelet_rot`, expected one of `kubelet_root`, `state_dir`, ...
    let path = node.config_path();
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, text.replace("kubelet_root", "kubelet_rot")).unwrap();
    let text = said(&node, &["local", "list"]);
    has(&text, &["there is no key `kubelet_rot`; did you mean `kubelet_root`?"]);
    // FILE says neither who we are in the cloud nor where that is written
    fs::write(path, "[cloud]\nkind = \"openstack\"\n").unwrap();
    has(&said(&node, &["doctor"]), &["no OpenStack credentials in"]);
}

fn said(node: &Node, words: &[&str]) -> String {
    let output = node.command(words).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// At fee4868 the general help: "Usage: disk <COMMAND>".
#[test]
fn help_of_a_verb_is_asked_for_in_either_order() {
    let text = said(&Node::new(), &["help", "detach"]);
    has(&text, &["Usage: disk detach", "Only say what would break"]);
}

/// At fee4868: "Usage: disk detach [OPTIONS] --force <VOLUME> [NODE]", and not a word of the call.
#[test]
fn the_help_of_detach_says_what_it_does_without_force() {
    let text = said(&Node::new(), &["detach", "--help"]);
    has(&text, &["Usage: disk detach", "disk detach <NAME> [NODE]", "detaches only what is safe"]);
}

/// At fee4868: "error: unrecognized subcommand 'statsu'", and nothing more.
#[test]
fn a_misspelt_verb_or_flag_has_its_neighbour_proposed() {
    let (test, node) = ("a_misspelt_verb_or_flag_has_its_neighbour_proposed", Node::new());
    for (words, near) in [("statsu", "status"), ("release --dryrun x", "--dry-run")] {
        let Some((status, shown)) = on_a_terminal(test, &node, words) else { return };
        assert_eq!(status, 2, "{shown}");
        has(&shown, &[&format!("exists: '{near}'")]);
    }
}

/// What bash proposes for the last of these words.
fn proposed_by_bash(node: &Node, words: &[&str]) -> String {
    let script = node.base().join("completions");
    fs::write(&script, said(node, &["completions", "bash"])).unwrap();
    let folder = node.base().join("bin");
    fs::create_dir_all(&folder).unwrap();
    if !folder.join("disk").exists() {
        std::os::unix::fs::symlink(crate::support::DISK, folder.join("disk")).unwrap();
    }
    let line = format!(
        ". '{}'; complete_with=$(complete -p disk | sed 's/.* -F \\([^ ]*\\) .*/\\1/'); \
         COMP_WORDS=({}); COMP_CWORD={}; $complete_with disk \"${{COMP_WORDS[COMP_CWORD]}}\" \
         \"${{COMP_WORDS[COMP_CWORD-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.join(" "),
        words.len() - 1
    );
    let mut command = Command::new("bash");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.args(["-c", &line]).env("PATH", path).env("INCLOUD_DISK_CONFIG", node.config_path());
    let output = output_of(&mut command);
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// At fee4868 nothing is proposed.
#[test]
fn a_shell_proposes_the_names_of_volumes() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-of-orders", "node-b"));
    let proposed = proposed_by_bash(&node, &["disk", "explain", "pv-o"]);
    assert_eq!(proposed, "pv-of-orders\n");
}

/// At fee4868: "invalid value 'yesterday' for '--since <TIME>': write 90s, 30m, 2h, 3d, or a moment".
#[test]
fn people_say_since_yesterday() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    for since in ["yesterday", "today", "last night", "2h ago"] {
        let output = node.command(["history", "--since", since]).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(0), "{since}: {text}");
    }
}

/// At fee4868: "attached to  node-b since @1795413743".
#[test]
fn no_time_is_a_count_of_seconds() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    let text = said(&node, &["explain", "pv-1"]);
    has(&text, &["attached to node-b since 20", " UTC, "]);
    assert!(!text.contains(" @"), "{text}");
}

/// A person who reads a row of the kernel asks where it comes from.
#[test]
fn the_help_of_history_says_what_its_rows_are() {
    let text = said(&Node::new(), &["history", "--help"]);
    has(&text, &["Rows:", "kernel what the kernel's log says of the disk", "healing, note"]);
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
}

/// The formatter fills lines to paragraphs; each health must stay a line of its own. At fee4868
/// "there: disk heal" of `stale` is a line in the first column.
#[test]
fn a_table_of_a_manual_page_stays_a_table() {
    let test = "a_table_of_a_manual_page_stays_a_table";
    if Command::new("groff").arg("--version").output().is_err() {
        return skip(test, "needs groff");
    }
    let node = Node::new();
    let folder = node.base().join("man");
    fs::create_dir(&folder).unwrap();
    said(&node, &["man", "--out", folder.to_str().unwrap()]);
    let mut groff = Command::new("groff");
    groff.args(["-man", "-Tascii", "-P-c", "-P-b", "-P-u"]).arg(folder.join("disk-status.8"));
    let shown = String::from_utf8(groff.output().unwrap().stdout).unwrap();
    let help = said(&node, &["status", "--help"]);
    let (_, table) = help.split_once("Health:\n").unwrap();
    let rows: Vec<_> = table.lines().take_while(|line| !line.is_empty()).collect();
    let lines: Vec<_> = shown.lines().map(str::trim).collect();
    assert!(rows.len() >= 6, "{help}");
    for row in rows {
        assert!(lines.contains(&row.trim()), "{row}: {shown}");
    }
}

/// A person is told that the cloud is silent; kubelet's call waits up to its deadline, and has its answer with status 0.
#[test]
fn a_silent_cloud_ends_a_call_at_a_terminal_after_ten_seconds() {
    let (test, node) = ("a_silent_cloud_ends_a_call_at_a_terminal_after_ten_seconds", Node::new());
    let _listener = silent_cloud_with(&node, ("", "p"), "[deadline]\ndetach = 20\nattach = 20\n");
    let options = r#"'{"volumeID":"6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5"}'"#;
    let attach = format!("attach {options} node-a");
    // A person waits as well where only stderr is a terminal.
    for words in ["detach pv-1 node-a", &attach, "detach pv-1 node-a >/dev/null"] {
        let begin = Instant::now();
        let Some((status, shown)) = on_a_terminal(test, &node, words) else { return };
        let took = begin.elapsed().as_secs();
        assert_eq!(status, 1, "{shown}");
        assert!(shown.contains("has not answered within 10 s"), "{shown}");
        assert!((10..19).contains(&took), "{took} s: {shown}");
    }
    let begin = Instant::now();
    let answer = Answer::of(node.command(["detach", "pv-1", "node-a"]));
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(begin.elapsed().as_secs() >= 19, "{:?}", begin.elapsed());
}
