//! The three places of the configuration, first to last: the variable, `/etc`, beside the
//! executable.

use crate::calls;
use crate::scene::{VARIABLE, copy_of_disk, own_mounts, servers, tree};
use crate::support::{Answer, Node, skip};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ETC: &str = "/etc/incloud-disk/config.toml";

/// Whether this machine's own configuration would be read instead.
fn has_etc(test: &str) -> bool {
    let is_there = Path::new(ETC).exists();
    if is_there {
        skip(test, &format!("needs a machine without {ETC}"));
    }
    is_there
}

/// A call of an executable for which the variable is not set.
fn call(executable: &Path, arguments: &[OsString]) -> Answer {
    let mut command = Command::new(executable);
    command.args(arguments).env_remove(VARIABLE).stdin(Stdio::null());
    Answer::of(command)
}

/// Puts the node's configuration beside a copy of the executable.
fn beside(node: &Node, executable: &Path) -> PathBuf {
    let path = executable.with_file_name(".config.toml");
    fs::copy(node.config_path(), &path).unwrap();
    path
}

#[test]
fn the_file_beside_the_executable_is_read_when_there_is_no_other() {
    let test = "the_file_beside_the_executable_is_read_when_there_is_no_other";
    if has_etc(test) {
        return;
    }
    let node = Node::new();
    node.create("vol-1", "1M");
    let disk = copy_of_disk(&node);
    let config = beside(&node, &disk);
    let attach = calls::attach("vol-1", "pv-1", "node-b");
    assert_eq!(call(&disk, &attach).json["status"], "Success");
    assert_eq!(servers(&node, "vol-1"), ["node-b"]);

    // A variable without a value is none.
    let mut command = Command::new(&disk);
    command.args(&attach).env(VARIABLE, "").stdin(Stdio::null());
    assert_eq!(Answer::of(command).json["status"], "Success");

    fs::write(&config, "[nonsense]\n").unwrap();
    let answer = call(&disk, &attach);
    assert_eq!(answer.json["status"], "Failure");
    assert!(answer.text.contains(config.to_str().unwrap()), "{}", answer.text);
    assert!(answer.text.contains("line 1") && answer.text.contains("nonsense"), "{}", answer.text);
}

/// kubelet may reach its plugins through a link; the file is beside the executable itself.
#[test]
fn the_file_is_found_beside_an_executable_that_is_reached_through_a_link() {
    let test = "the_file_is_found_beside_an_executable_that_is_reached_through_a_link";
    if has_etc(test) {
        return;
    }
    let node = Node::new();
    let disk = copy_of_disk(&node);
    beside(&node, &disk);
    let link = node.base().join("link");
    std::os::unix::fs::symlink(&disk, &link).unwrap();
    let answer = call(&link, &calls::is_attached("vol-1", "pv-1", "node-b"));
    assert_eq!(answer.json["attached"], false, "{}", answer.text);
}

#[test]
fn the_file_of_the_variable_is_read_before_the_one_beside_the_executable() {
    let node = Node::new();
    let disk = copy_of_disk(&node);
    let beside = beside(&node, &disk);
    fs::write(&beside, "[nonsense]\n").unwrap();
    let ask = |config: &Path| {
        let mut command = Command::new(&disk);
        command.args(calls::is_attached("vol-1", "pv-1", "node-b")).stdin(Stdio::null());
        Answer::of({
            command.env(VARIABLE, config);
            command
        })
    };
    assert_eq!(ask(node.config_path()).json["attached"], false);
    // A file that is named and not there is a mistake: another one is never taken instead.
    let missing = node.base().join("missing.toml");
    let answer = ask(&missing);
    assert_eq!(answer.json["status"], "Failure");
    assert!(answer.text.contains("missing.toml is not there"), "{}", answer.text);
    assert!(answer.text.contains(VARIABLE), "{}", answer.text);
}

#[test]
fn the_file_in_etc_stands_between_the_two() {
    if !own_mounts("the_file_in_etc_stands_between_the_two", &["/etc"]) {
        return;
    }
    let node = Node::new();
    let disk = copy_of_disk(&node);
    let beside = beside(&node, &disk);
    fs::create_dir("/etc/incloud-disk").unwrap();
    fs::write(ETC, "[from_etc]\n").unwrap();
    fs::write(&beside, "[from_beside]\n").unwrap();
    let ask = calls::is_attached("vol-1", "pv-1", "node-b");

    assert_eq!(node.must(&ask)["attached"], false, "the variable comes first");
    let answer = call(&disk, &ask);
    assert!(answer.text.contains("from_etc") && answer.text.contains(ETC), "{}", answer.text);
    fs::remove_file(ETC).unwrap();
    let answer = call(&disk, &ask);
    assert!(answer.text.contains("from_beside"), "{}", answer.text);
    // A file that cannot be read is no missing file.
    fs::create_dir(ETC).unwrap();
    let answer = call(&disk, &ask);
    assert_eq!(answer.json["status"], "Failure");
    assert!(answer.text.contains(ETC), "{}", answer.text);
}

/// The defaults are folders of the machine, so this needs folders that no other process sees.
#[test]
fn without_any_file_calls_to_the_cloud_say_what_to_write_and_the_rest_works() {
    let test = "without_any_file_calls_to_the_cloud_say_what_to_write_and_the_rest_works";
    if !own_mounts(test, &["/etc", "/run", "/var/log", "/var/lib"]) {
        return;
    }
    let node = Node::new();
    let disk = copy_of_disk(&node);
    for words in [
        calls::attach("vol-1", "pv-1", "node-b"),
        calls::is_attached("vol-1", "pv-1", "node-b"),
        calls::detach("pv-1", "node-b"),
    ] {
        let answer = call(&disk, &words);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        let message = answer.json["message"].as_str().unwrap();
        for word in ["there is no configuration", "[cloud] kind", ETC, ".config.toml"] {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
    for words in [calls::unpublish(&node, "pv-1"), calls::unstage(&node, "pv-1")] {
        fs::create_dir_all(&words[1]).unwrap();
        for _ in 0..2 {
            assert_eq!(call(&disk, &words).json["status"], "Success");
            let _ = fs::remove_dir(&words[1]);
        }
    }
    let log = tree(Path::new("/var/log/incloud-volume"));
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(!Path::new("/var/lib/incloud-disk/local").exists(), "no cloud was made up");
}
