//! `init` is a constant: it runs under a lock of kubelet's plugin manager, without a time limit.

use crate::scene::{VARIABLE, own_mounts, tree};
use crate::support::{Answer, DISK, Node, may_trace};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// All five capabilities, written out: kubelet's defaults differ per field.
const ANSWER: &str = "{\"status\":\"Success\",\"capabilities\":{\"attach\":true,\
    \"selinuxRelabel\":true,\"supportsMetrics\":true,\"fsGroup\":true,\
    \"requiresFSResize\":true}}\n";

#[test]
fn init_promises_the_same_whatever_follows() {
    let node = Node::new();
    for words in [&["init"][..], &["init", ""], &["init", "{"], &["init", "--help", "x", "y"]] {
        assert_eq!(node.call(words).text, ANSWER, "{words:?}");
    }
}

#[test]
fn init_reads_no_configuration_and_makes_no_file() {
    let node = Node::new();
    let folder = node.own().join("folder");
    fs::create_dir(&folder).unwrap();
    let broken = node.base().join("broken.toml");
    fs::write(&broken, [0xff, b'[', b'\n']).unwrap();
    let before = tree(&node.base());
    for config in [
        broken.as_path(),
        folder.as_path(),
        node.config_path(),
        Path::new("/nowhere/config.toml"),
        Path::new("relative"),
        Path::new("/dev/zero"),
        Path::new(""),
    ] {
        let mut command = node.command(["init"]);
        command.env(VARIABLE, config);
        assert_eq!(Answer::of(command).text, ANSWER, "{}", config.display());
    }
    let mut command = Command::new(DISK);
    command.arg("init").env_clear().stdin(Stdio::null());
    assert_eq!(Answer::of(command).text, ANSWER);
    assert_eq!(tree(&node.base()), before);
}

#[test]
fn init_needs_no_working_folder() {
    let node = Node::new();
    let mut command = Command::new("sh");
    command.current_dir(node.base()).stdin(Stdio::null());
    command.args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" init", DISK]);
    assert_eq!(Answer::of(command).text, ANSWER);
}

#[test]
fn init_answers_in_a_root_without_devices() {
    let test = "init_answers_in_a_root_without_devices";
    let nothing = File::open("/dev/null").unwrap();
    if !own_mounts(test, &["/dev"]) {
        return;
    }
    assert!(!Path::new("/dev/null").exists());
    let mut command = Command::new(DISK);
    command.arg("init").stdin(nothing);
    assert_eq!(Answer::of(command).text, ANSWER);
}

/// The system calls themselves: no file but those of the loader and the runtime, no thread, no
/// socket.
#[test]
fn init_opens_nothing_starts_nothing_and_connects_to_nothing() {
    if !may_trace("init_opens_nothing_starts_nothing_and_connects_to_nothing") {
        return;
    }
    let node = Node::new();
    let trace = node.base().join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-s", "4096", "-e", "trace=%file,%network,%process", "-o"]);
    command.arg(&trace).args([DISK, "init"]).env(VARIABLE, node.config_path());
    // Where cargo makes the loader look.
    command.env_remove("LD_LIBRARY_PATH");
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), ANSWER);
    let trace = fs::read_to_string(trace).unwrap();
    let mut opened = BTreeSet::new();
    for line in trace.lines() {
        let call = line.split_whitespace().nth(1).unwrap_or_default();
        let name = call.split('(').next().unwrap_or_default();
        assert!(!name.contains("clone") && !name.contains("fork"), "{line}");
        assert!(!["socket", "connect", "bind", "sendto"].contains(&name), "{line}");
        assert!(!line.contains("O_CREAT") && !line.contains("O_RDWR"), "{line}");
        if name != "execve" {
            opened.extend(line.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    // The loader's libraries, and where the runtime looks for its stack's end.
    let is_expected = |path: &String| {
        ["/lib", "/usr/lib", "/etc/ld.so"].iter().any(|start| path.starts_with(start))
            || ["", "/dev/null", "/proc/self/maps", "/proc/self/exe", DISK].contains(&path.as_str())
    };
    opened.retain(|path| !is_expected(path));
    assert!(opened.is_empty(), "{opened:?}");
}
