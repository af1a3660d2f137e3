//! What is wrong with a configuration is said with file and line, by every call that needs it.

use crate::calls::{self, WORKING};
use crate::scene::VARIABLE;
use crate::support::Node;
use incloud_disk::configuration::Config;
use std::fs;
use std::path::Path;

/// Writes the whole configuration.
fn write(node: &Node, text: impl AsRef<[u8]>) {
    fs::write(node.config_path(), text).unwrap();
}

/// The number of the first line that holds this.
fn line_of(node: &Node, word: &str) -> usize {
    let text = fs::read_to_string(node.config_path()).unwrap();
    1 + text.lines().position(|line| line.contains(word)).unwrap()
}

/// Every call fails and names the file and these words.
#[track_caller]
fn all_name(node: &Node, words: &[&str]) {
    let file = node.config_path().to_str().unwrap();
    for call in calls::every(node, "vol-1", "pv-1") {
        let message = node.fails(&call);
        for word in words.iter().chain(&[file]) {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
}

#[test]
fn an_unknown_key_is_named_with_file_and_line() {
    let node = Node::new();
    for (more, key) in [
        ("rum_dir = \"/x\"", "rum_dir"),
        ("[deadline]\nattach = 5\nfrobnicate = 5", "frobnicate"),
        ("[nonsense]\nx = 1", "nonsense"),
        ("[log]\nlevel = \"info\"\n\n\n\nlvel = \"info\"", "lvel"),
        ("[guard]\nMode = \"off\"", "Mode"),
    ] {
        node.configure(more);
        let line = line_of(&node, key);
        all_name(&node, &[key, &format!("line {line}: ")]);
    }
}

#[test]
fn a_wrong_value_is_named_with_its_key_or_line() {
    let node = Node::new();
    for (more, word) in [
        ("[log]\nlevel = \"loud\"", "log.level: expected error or warn or info or debug or trace"),
        ("[log]\nmax_files = 0", "log.max_files"),
        ("[log]\nmax_files = -1", "log.max_files: out of range"),
        ("[guard]\nmode = \"maybe\"", "guard.mode: expected enforce or warn or off"),
        ("[heal]\nmode = \"yes\"", "heal.mode: expected auto or report or off"),
        ("[shield]\nmode = \"yes\"", "shield.mode: expected off or on"),
        ("[shield]\npatience = 3601", "shield.patience must be from 1 to 3600 seconds"),
        ("[shield]\nmode = \"on\"\n[heal]\nmode = \"off\"", "needs heal.mode \"auto\""),
        ("[deadline]\nmount = 0", "deadline.mount"),
        ("[deadline]\nmount = \"5\"", "deadline.mount: expected an integer, found a string"),
        ("[deadline]\nmount = 1.5", "deadline.mount: expected an integer, found a float"),
        ("[deadline]\ndetach = 86401", "deadline.detach"),
        ("[deadline]\nwaitforattach = 541", "deadline.waitforattach"),
        (
            "[deadline]\nattach = 99999999999999999999",
            "deadline.attach: this number has too many digits",
        ),
    ] {
        node.configure(more);
        all_name(&node, &[word]);
    }
    for (text, word) in [
        ("[cloud]\nkind = \"aws\"", "line 2: cloud.kind: expected local or openstack"),
        ("[cloud]\nkind = 7", "line 2: cloud.kind: expected local or openstack, found an integer"),
        ("[node]\nname = \"a/b\"", "node name"),
        ("[node]\nname = \"\"", "node name"),
        ("[cloud]\nkind = \"local\"\nkind = \"local\"", "line 3"),
        ("[cloud\nkind = \"local\"", "line 1"),
        ("kind = ", "line 1"),
        ("{\"cloud\":{}}", "line 1"),
    ] {
        write(&node, text);
        all_name(&node, &[word]);
    }
}

#[test]
fn a_relative_path_is_named_with_its_key() {
    let node = Node::new();
    for (text, key) in [
        ("[local]\ndir = \"cloud\"", "local.dir"),
        ("[local]\ndir = \"\"", "local.dir"),
        ("[paths]\nkubelet_root = \"./kubelet\"", "paths.kubelet_root"),
        ("[paths]\nstate_dir = \"../state\"", "paths.state_dir"),
        ("[paths]\nrun_dir = \"run\"", "paths.run_dir"),
        ("[paths]\nlog_dir = \"~/log\"", "paths.log_dir"),
    ] {
        write(&node, text);
        all_name(&node, &[key, "absolute"]);
    }
}

/// Not a single file is made by the defaults of a configuration that could not be read.
#[test]
fn a_broken_configuration_makes_nothing() {
    let node = Node::new();
    node.configure("[nonsense]");
    for call in calls::every(&node, "vol-1", "pv-1") {
        node.fails(&call);
    }
    for folder in ["log", "run", "state", "../cloud"] {
        assert!(!node.own().join(folder).exists(), "{folder}");
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let node = Node::new();
    write(&node, [b'#', 0xff, b'\n']);
    all_name(&node, &[]);
    fs::remove_file(node.config_path()).unwrap();
    all_name(&node, &["is not there", VARIABLE]);
    fs::create_dir(node.config_path()).unwrap();
    all_name(&node, &["directory"]);
}

#[test]
fn verbs_name_file_and_line_too() {
    let node = Node::new();
    node.configure("[log]\nlvl = 1");
    let complaint = node.verb(&["local", "list"]).unwrap_err();
    let line = format!("line {}: ", line_of(&node, "lvl"));
    for word in [node.config_path().to_str().unwrap(), &line, "lvl"] {
        assert!(complaint.contains(word), "{complaint}");
    }
}

/// What needs no cloud works without one; the rest says what to write into which file.
#[test]
fn a_configuration_without_a_cloud_serves_what_needs_none() {
    let node = Node::new();
    node.configure("");
    let text = fs::read_to_string(node.config_path()).unwrap();
    write(&node, text.replace("cloud.kind = \"local\"\n", ""));
    for call in [
        calls::attach("vol-1", "pv-1", "node-b"),
        calls::is_attached("vol-1", "pv-1", "node-b"),
        calls::detach("pv-1", "node-b"),
    ] {
        let message = node.fails(&call);
        assert!(message.contains(node.config_path().to_str().unwrap()), "{message}");
        assert!(
            message.contains("names no cloud") && message.contains("[cloud] kind ="),
            "{message}"
        );
    }
    fs::create_dir_all(node.global("pv-1")).unwrap();
    node.must(calls::unpublish(&node, "pv-1"));
    node.must(calls::unstage(&node, "pv-1"));
}

#[test]
fn the_keys_of_the_example_are_all_known() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/config.toml");
    let text = fs::read_to_string(example).unwrap();
    Config::parse(&text, "the example").unwrap();
    // The keys and sections in comments too, once they are not comments any more.
    let is_toml = |line: &str| {
        (line.starts_with('[') && line.ends_with(']'))
            || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    };
    let shown = |line: &str| match line.strip_prefix("# ").filter(|line| is_toml(line)) {
        Some(bare) => format!("{bare}\n"),
        None => format!("{line}\n"),
    };
    let shown: String = text.lines().map(shown).collect();
    assert!(shown.contains("\nkubelet_root = "), "{shown}");
    Config::parse(&shown, "the example").unwrap();
    // And no call is left out.
    for word in WORKING {
        assert!(shown.contains(&format!("\n{word} = ")), "{word}: {shown}");
    }
}

/// kubelet registers the node under the host's name in lower case, if it is not told another.
#[test]
fn this_machine_has_the_hosts_name_unless_another_is_configured() {
    let node = Node::new();
    let text = fs::read_to_string(node.config_path()).unwrap();
    write(&node, text.replace("node.name = \"node-a\"\n", "[node]\n"));
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap().to_lowercase();
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "not-this-machine"));
    let message = node.fails(calls::wait("vol-1", "pv-1"));
    assert!(message.contains(&format!("not attached to {host}: ")), "{message}");
}
