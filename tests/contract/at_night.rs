//! What a person met at a terminal at night, each item with a test of its own. Above each stands what the
//! driver said at fee4868, where the test fails. More of them: `looking`, and `looking::at_night` of the
//! ring as root.

use crate::calls;
use crate::looking::silent_cloud_with;
use crate::streams::on_a_terminal;
use crate::support::{Answer, Node, has, output_of};
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

/// A person is told that the cloud is silent; kubelet's call waits up to its deadline, and has its answer with status 0.
#[test]
fn a_silent_cloud_ends_a_call_at_a_terminal_after_ten_seconds() {
    let (test, node) = ("a_silent_cloud_ends_a_call_at_a_terminal_after_ten_seconds", Node::new());
    let _listener = silent_cloud_with(&node, ("", "p"), "[deadline]\ndetach = 13\n");
    // A person waits as well where only stderr is a terminal.
    let words = "detach pv-1 node-a >/dev/null";
    let Some((status, shown)) = on_a_terminal(test, &node, words) else { return };
    assert_eq!(status, 1, "{shown}");
    assert!(shown.contains("has not answered within 10 s"), "{shown}");
    let begin = Instant::now();
    let answer = Answer::of(node.command(["detach", "pv-1", "node-a"]));
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(begin.elapsed().as_secs() >= 12, "{:?}", begin.elapsed());
}
