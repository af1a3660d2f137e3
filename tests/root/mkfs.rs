//! mkfs is stopped in the middle, and its caller killed or told to end.

use crate::checks::{digest, layers_at, nothing_is_left};
use crate::crash::{interrupted_at, kill_at};
use crate::files;
use crate::holders::{must_end, run, state_of};
use crate::support::{Answer, Node, spawn};
use crate::volume::{Volume, make_folder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::PipeReader;
use std::process::Child;
use std::time::Duration;

/// Large enough that mkfs takes some milliseconds; sparse.
const SIZE: &str = "64G";

/// A `mountdevice` whose mkfs stands still.
#[derive(Debug)]
struct Caught {
    call: Child,
    output: PipeReader,
    mkfs: Pid,
}

impl Caught {
    /// The call is killed; its mkfs dies with it.
    fn kill(mut self) {
        self.call.kill().unwrap();
        self.call.wait().unwrap();
        must_end(self.mkfs);
    }
}

/// Catches the mkfs of a new volume where `is_there` says so. The window may be missed: then
/// another volume is tried.
fn catch(
    node: &Node,
    fs_type: &'static str,
    is_there: impl Fn(&Volume) -> bool,
) -> (Volume, Caught) {
    for _ in 0..100 {
        let volume = Volume::create(node, fs_type, SIZE);
        node.must(volume.attach());
        make_folder(&volume.global());
        let (call, output) = spawn(node.command(volume.stage()));
        if let Some(mkfs) = stop_mkfs(&volume, &call, &is_there) {
            return (volume, Caught { call, output, mkfs });
        }
        let answer = Answer::finish(call, output);
        assert_eq!(answer.json["status"], "Success", "{}", answer.text);
        volume.take_away();
        fs::remove_file(volume.image()).unwrap();
    }
    panic!("no mkfs.{fs_type} was caught");
}

fn stop_mkfs(volume: &Volume, call: &Child, is_there: impl Fn(&Volume) -> bool) -> Option<Pid> {
    let caller = Pid::from_raw(i32::try_from(call.id()).unwrap());
    let has_ended = || state_of(caller) == Some('Z');
    wait_for_intent(volume, has_ended);
    let mkfs = loop {
        if let Some(mkfs) = mkfs_of(volume) {
            break mkfs;
        }
        if has_ended() {
            return None;
        }
    };
    loop {
        kill(mkfs, Signal::SIGSTOP).ok()?;
        // Only a stopped process leaves what we look at as it is.
        while state_of(mkfs)? != 'T' {
            if state_of(mkfs)? == 'Z' {
                return None;
            }
        }
        if is_there(volume) {
            return Some(mkfs);
        }
        kill(mkfs, Signal::SIGCONT).ok()?;
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// The process that makes the file system of this volume.
fn mkfs_of(volume: &Volume) -> Option<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.split('\0').next().is_some_and(|program| program.contains("/mkfs."))
            && line.contains(&volume.id)
    })
    .map(Pid::from_raw)
}

/// mkfs.xfs writes this mark first and takes it away last.
fn is_half_an_xfs(volume: &Volume) -> bool {
    let head: [u8; 512] = files::head(&volume.image());
    head.starts_with(b"XFSB") && head[126] == 1
}

#[test]
fn a_killed_mkfs_is_redone_on_the_same_disk() {
    needs!(mounts);
    for (fs_type, only_half) in [("ext4", false), ("xfs", false), ("xfs", true)] {
        let node = Node::new();
        let is_there = |volume: &Volume| !only_half || is_half_an_xfs(volume);
        let (volume, caught) = catch(&node, fs_type, is_there);
        caught.kill();
        assert!(!volume.record()["formatting"].is_null(), "the intent is written before");
        node.must(volume.stage());
        assert_eq!(layers_at(&volume.global()), 1);
        assert!(volume.record()["formatting"].is_null());
        volume.ends();
        volume.must_be_sound();
    }
}

/// It may have been elsewhere meanwhile: whose bytes those are is unknown.
#[test]
fn a_half_made_file_system_that_left_and_came_back_is_refused() {
    needs!(mounts);
    let node = Node::new();
    let (volume, caught) = catch(&node, "xfs", is_half_an_xfs);
    caught.kill();
    node.must(volume.detach());
    let before = digest(&volume.image());
    node.must(volume.attach());
    for wish in ["xfs", "ext4", ""] {
        let message = node.fails(volume.stage_as(wish));
        assert!(message.contains("unfinished xfs"), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
    }
    node.must(volume.detach());
    assert_eq!(digest(&volume.image()), before, "the image changed");
    nothing_is_left(&node, &[&volume]);
}

/// The same with the record of the begun format still there, as when only the disk was pulled.
#[test]
fn a_half_made_file_system_on_another_plug_in_is_refused_whatever_is_remembered() {
    needs!(mounts);
    let node = Node::new();
    let (volume, caught) = catch(&node, "xfs", is_half_an_xfs);
    caught.kill();
    node.verb(&["local", "yank", &volume.id]).unwrap();
    let before = digest(&volume.image());
    node.must(volume.attach());
    assert!(!volume.record()["formatting"].is_null(), "yank tells the node nothing");
    let message = node.fails(volume.stage());
    assert!(message.contains("unfinished xfs"), "{message}");
    node.must(volume.detach());
    assert_eq!(digest(&volume.image()), before, "the image changed");
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn sigterm_during_mkfs_is_answered_and_ends_mkfs() {
    needs!(mounts);
    for fs_type in ["ext4", "xfs"] {
        let node = Node::new();
        let (volume, Caught { call, output, mkfs }) = catch(&node, fs_type, |_| true);
        kill(Pid::from_raw(i32::try_from(call.id()).unwrap()), Signal::SIGTERM).unwrap();
        // mkfs stands still for ever: only the call's own end can end it.
        let answer = Answer::finish(call, output);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        assert!(answer.text.contains("SIGTERM"), "{}", answer.text);
        must_end(mkfs);
        assert_eq!(mkfs_of(&volume), None, "a mkfs is left");
        node.must(volume.stage());
        volume.ends();
        volume.must_be_sound();
    }
}

/// How many moments of a format are struck; with `MKFS_KILLS=1` more.
fn points() -> u32 {
    if std::env::var_os("MKFS_KILLS").is_some() { 40 } else { 8 }
}

/// Kills a `mountdevice` so long after its start; says whether it had not ended by then.
fn kill_after(volume: &Volume, delay: Duration) -> bool {
    let (call, _output) = spawn(volume.node.command(volume.stage()));
    kill_later(call, delay)
}

/// The same after the moment in which the disk was read and mkfs begins.
fn kill_format_after(volume: &Volume, delay: Duration) -> bool {
    let (mut call, _output) = spawn(volume.node.command(volume.stage()));
    wait_for_intent(volume, || call.try_wait().unwrap().is_some());
    kill_later(call, delay)
}

fn wait_for_intent(volume: &Volume, mut has_ended: impl FnMut() -> bool) {
    let is_intended = || {
        let record = fs::read_to_string(volume.record_path()).unwrap_or_default();
        record.contains("\"formatting\": {")
    };
    while !is_intended() && !has_ended() {
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn kill_later(mut call: Child, delay: Duration) -> bool {
    std::thread::sleep(delay);
    let is_running = call.try_wait().unwrap().is_none();
    call.kill().unwrap();
    call.wait().unwrap();
    is_running
}

#[test]
fn a_format_of_ext4_killed_at_any_moment_is_finished_by_the_next_call() {
    needs!(mounts);
    killed_at_any_moment("ext4", "64M");
}

#[test]
fn a_format_of_xfs_killed_at_any_moment_is_finished_by_the_next_call() {
    needs!(mounts);
    killed_at_any_moment("xfs", "16G");
}

#[test]
fn a_format_of_btrfs_killed_at_any_moment_is_finished_by_the_next_call() {
    needs!(mounts);
    killed_at_any_moment("btrfs", "128M");
}

fn killed_at_any_moment(fs_type: &'static str, size: &str) {
    let points = points();
    let node = Node::new();
    // The shortest of three: a machine that is busy for a moment would put the kills behind the end.
    let measured = (0..3).map(|_| {
        let volume = Volume::create(&node, fs_type, size);
        node.must(volume.attach());
        make_folder(&volume.global());
        let (mut call, output) = spawn(node.command(volume.stage()));
        wait_for_intent(&volume, || call.try_wait().unwrap().is_some());
        let begin = std::time::Instant::now();
        let answer = Answer::finish(call, output);
        let whole = begin.elapsed();
        assert_eq!(answer.json["status"], "Success", "{}", answer.text);
        volume.take_away();
        whole
    });
    let whole = measured.min().unwrap();
    let mut struck = 0;
    for point in 0..points {
        let volume = Volume::create(&node, fs_type, size);
        node.must(volume.attach());
        make_folder(&volume.global());
        struck += u32::from(kill_format_after(&volume, whole * point / points));
        node.must(volume.stage());
        files::write_synced(&volume.global().join("f"), b"works");
        assert_eq!(layers_at(&volume.global()), 1, "{fs_type}, point {point}");
        volume.ends();
        volume.must_be_sound();
        fs::remove_file(volume.image()).unwrap();
    }
    assert!(struck >= points / 4, "only {struck} calls of {fs_type} were killed in time");
}

/// A killed mkfs may be in its last write: what the first look found unfinished is finished when it
/// is gone, and the same call takes it as it is. Of another disk's id it is a stranger's.
#[test]
fn a_killed_mkfs_that_comes_to_its_end_during_the_next_call_is_taken() {
    needs!(mounts, seams);
    for (kind, size) in [("ext4", "256M"), ("xfs", "320M")] {
        // The last is of the volume's id, and another kind than was begun.
        for (is_ours, made) in [(true, kind), (false, kind), (false, "btrfs")] {
            let (node, volume) = Volume::on_a_node(kind, size);
            node.must(volume.attach());
            make_folder(&volume.global());
            kill_at(&node, &volume.stage(), "stage.format.intent");
            let disk = format!("/dev/{}", volume.letter());
            let ours = volume.record()["formatting"]["uuid"].as_str().unwrap().to_owned();
            let uuid = match (is_ours, made) {
                (false, made) if made == kind => "11112222-3333-4444-8555-666677778888".to_owned(),
                _ => ours,
            };
            let answer = interrupted_at(&node, volume.stage(), "stage.format.consented", || {
                let (option, value) = match made {
                    "xfs" => ("-m", format!("uuid={uuid}")),
                    _ => ("-U", uuid),
                };
                drop(run(&format!("mkfs.{made}"), &["-q", option, &value, &disk]));
            });
            if is_ours {
                assert_eq!(answer.json["status"], "Success", "{kind}: {}", answer.text);
                assert_eq!(volume.record()["formatting"], serde_json::Value::Null);
                assert_eq!(layers_at(&volume.global()), 1);
            } else {
                assert!(
                    answer.text.contains("which was not there a moment ago"),
                    "{}",
                    answer.text
                );
                run("wipefs", &["-a", &disk]);
                node.verb(&["format", &volume.id, "--fs-type", kind, "--yes"]).unwrap();
                node.must(volume.stage());
            }
            volume.ends();
        }
    }
}

#[test]
fn a_disk_with_data_is_refused_after_a_kill_at_any_moment() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16G");
    files::write_at(&volume.image(), 9_999_999, b"another's");
    let before = digest(&volume.image());
    node.must(volume.attach());
    make_folder(&volume.global());
    for point in 0..20 {
        kill_after(&volume, Duration::from_millis(1) * point);
        let message = node.fails(volume.stage());
        assert!(message.contains("offset 9999999"), "{message}");
        assert_eq!(digest(&volume.image()), before, "point {point}");
    }
    volume.ends();
}
