//! A first mkfs is interrupted: what it left is never formatted without a person.

use crate::checks::{digest, eventually, layers_at, nothing_is_left};
use crate::crash::kill_at;
use crate::files;
use crate::holders::must_end;
use crate::stub::Stub;
use crate::support::tracer::{self, Fate};
use crate::support::{Answer, Node, output_of, spawn};
use crate::volume::{Volume, make_folder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A volume whose mkfs.xfs was killed after it had begun: it writes a mark first and takes it away last.
fn half_an_xfs(node: &Node) -> Volume {
    for number in 1..20 {
        let volume = Volume::create(node, "xfs", "320M");
        node.must(volume.attach());
        make_folder(&volume.global());
        assert!(kill_at_write(&volume, "xfs", number), "mkfs.xfs has no write {number}");
        let head: [u8; 512] = files::head(&volume.image());
        if head.starts_with(b"XFSB") && head[126] == 1 {
            return volume;
        }
        volume.take_away();
    }
    panic!("mkfs.xfs leaves no mark");
}

/// What a refusal and `disk format VOLUME` say of a disk whose mkfs was interrupted.
const INTERRUPTED: &str = "was interrupted on it, or something has written to it since";

/// The next call after a kill. If mkfs had neither begun nor ended, it refuses and names what ends that; answers
/// whether it did.
#[track_caller]
pub fn goes_on_or_is_given_up(volume: &Volume) -> bool {
    let node = &volume.node;
    let answer = node.call(volume.stage());
    let is_refused = answer.json["status"] != "Success";
    if is_refused {
        let end = format!("disk format {}", volume.id);
        assert!(answer.text.contains(INTERRUPTED) && answer.text.contains(&end), "{}", answer.text);
        node.verb(&["format", &volume.id, "--fs-type", volume.fs_type, "--yes"]).unwrap();
        node.must(volume.stage());
    }
    assert_eq!(layers_at(&volume.global()), 1);
    is_refused
}

#[test]
fn an_interrupted_mkfs_is_refused_until_a_person_decides() {
    needs!(mounts, tracer);
    let node = Node::new();
    let volume = half_an_xfs(&node);
    assert!(!volume.record()["formatting"].is_null(), "the intent is written before");
    let before = digest(&volume.image());
    for wish in ["xfs", "ext4", ""] {
        let message = node.fails(volume.stage_as(wish));
        assert!(message.contains("an unfinished xfs"), "{message}");
        assert!(message.contains(&format!("mkfs.xfs {INTERRUPTED}")), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
    }
    let told = node.verb(&["format", &volume.id]).unwrap();
    assert!(told.contains(INTERRUPTED) && told.contains("Nothing was changed"), "{told}");
    assert_eq!(digest(&volume.image()), before, "the image changed");
    assert!(goes_on_or_is_given_up(&volume));
    assert!(volume.record()["formatting"].is_null());
    volume.ends();
    volume.must_be_sound();
}

/// It may have been elsewhere meanwhile: whose bytes those are is unknown.
#[test]
fn a_half_made_file_system_that_left_and_came_back_is_refused() {
    needs!(mounts, tracer);
    let node = Node::new();
    let volume = half_an_xfs(&node);
    node.must(volume.detach());
    let before = digest(&volume.image());
    node.must(volume.attach());
    for wish in ["xfs", "ext4", ""] {
        let message = node.fails(volume.stage_as(wish));
        assert!(message.contains("unfinished xfs") && !message.contains(INTERRUPTED), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
    }
    node.must(volume.detach());
    assert_eq!(digest(&volume.image()), before, "the image changed");
    nothing_is_left(&node, &[&volume]);
}

/// The same with the record of the begun format still there, as when only the disk was pulled.
#[test]
fn a_half_made_file_system_on_another_plug_in_is_refused_whatever_is_remembered() {
    needs!(mounts, tracer);
    let node = Node::new();
    let volume = half_an_xfs(&node);
    node.verb(&["local", "yank", &volume.id]).unwrap();
    let before = digest(&volume.image());
    node.must(volume.attach());
    assert!(!volume.record()["formatting"].is_null(), "yank tells the node nothing");
    let message = node.fails(volume.stage());
    assert!(message.contains("unfinished xfs") && !message.contains(INTERRUPTED), "{message}");
    node.must(volume.detach());
    assert_eq!(digest(&volume.image()), before, "the image changed");
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn sigterm_during_mkfs_is_answered_and_ends_mkfs() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    let number = node.base().join("pid");
    // Only the end of the call can end it.
    let script = format!("echo $$ >'{}'; exec sleep 600", number.display());
    let stub = Stub::over("/usr/sbin/mkfs.ext4", &node.base(), &script);
    let (call, output) = spawn(node.command(volume.stage()));
    let mut mkfs = None;
    eventually("mkfs runs", || {
        mkfs = fs::read_to_string(&number).unwrap_or_default().trim().parse().ok();
        mkfs.is_some()
    });
    kill(Pid::from_raw(i32::try_from(call.id()).unwrap()), Signal::SIGTERM).unwrap();
    let answer = Answer::finish(call, output);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(answer.text.contains("SIGTERM"), "{}", answer.text);
    must_end(Pid::from_raw(mkfs.unwrap()));
    drop(stub);
    goes_on_or_is_given_up(&volume);
    volume.ends();
    volume.must_be_sound();
}

/// A `mountdevice` whose mkfs is killed at its n-th write; whether it came so far.
pub fn kill_at_write(volume: &Volume, fs_type: &str, number: usize) -> bool {
    // By this name mkfs.ext4 and mkfs.ext3 make themselves known too.
    let child = format!("mkfs.{fs_type}");
    let fate = Fate { child: Some(&child), killed_at: Some(number - 1), ..Fate::default() };
    let traced = tracer::run(volume.node.command(volume.stage()), fate).unwrap();
    let status = if traced.is_killed { "Failure" } else { "Success" };
    assert!(traced.text.contains(status), "{}", traced.text);
    assert!(!traced.is_killed || traced.text.contains("was killed"), "{}", traced.text);
    traced.is_killed
}

#[test]
fn a_mkfs_killed_at_its_writes_is_overwritten_by_a_person_alone() {
    needs!(mounts, tracer);
    for (fs_type, size) in [("ext4", "64M"), ("xfs", "320M"), ("btrfs", "128M")] {
        killed_at_its_writes(fs_type, size);
    }
}

fn killed_at_its_writes(fs_type: &'static str, size: &str) {
    // `MKFS_KILLS=1`: each write.
    let each = std::env::var_os("MKFS_KILLS").is_some();
    let node = Node::new();
    let formats = || node.log().matches("formatting a blank disk").count();
    let (mut number, mut killed, mut refused) = (1, 0, 0);
    loop {
        let volume = Volume::create(&node, fs_type, size);
        let blank = digest(&volume.image());
        node.must(volume.attach());
        make_folder(&volume.global());
        let what = format!("mkfs.{fs_type} at write {number}");
        let was_killed = kill_at_write(&volume, fs_type, number);
        if was_killed {
            killed += 1;
            let before = (digest(&volume.image()), formats());
            let answer = node.call(volume.stage());
            if answer.json["status"] == "Success" {
                // It was blank still, or whole already, of which the check below is the proof.
                assert_eq!(before.0 == blank, formats() > before.1, "{what}");
            } else {
                assert_eq!((digest(&volume.image()), formats()), before, "{what}");
                refused += 1;
                assert!(goes_on_or_is_given_up(&volume), "{what}");
            }
        }
        volume.ends();
        volume.must_be_sound();
        fs::remove_file(volume.image()).unwrap();
        if !was_killed {
            break;
        }
        number += if each { 1 } else { number };
    }
    assert!(refused > 2 && killed > 5, "of {killed} killed mkfs.{fs_type} {refused} were refused");
}

/// What a person does with a volume's disk.
type Put = fn(&Volume);

fn device(volume: &Volume) -> PathBuf {
    Path::new("/dev").join(volume.letter())
}

/// Writes to the disk as a program on this machine does.
fn write(volume: &Volume, at: u64, bytes: &[u8]) {
    let disk = OpenOptions::new().write(true).open(device(volume)).unwrap();
    disk.write_all_at(bytes, at).unwrap();
    disk.sync_all().unwrap();
}

/// Nothing was written yet when the call was killed; what is there is a person's.
#[test]
fn what_a_person_puts_on_the_disk_after_a_killed_format_is_kept() {
    needs!(mounts, seams);
    let by: [(&str, Put); 4] = [
        ("unknown data", |volume| write(volume, 0, b"orders/2026-11-01.csv and the rest")),
        ("unknown data", |volume| write(volume, 40 << 20, &[0xa5; 4096])),
        ("MBR", |volume| {
            let mut table = [0; 66];
            table[..16]
                .copy_from_slice(&[0, 0x20, 0x21, 0, 0x83, 8, 8, 8, 0, 8, 0, 0, 0, 0xf0, 1, 0]);
            table[64..].copy_from_slice(&[0x55, 0xaa]);
            write(volume, 446, &table);
        }),
        ("xfs, but ext4 is asked for", |volume| {
            let output = output_of(Command::new("mkfs.xfs").arg("-q").arg(device(volume)));
            assert!(output.status.success());
        }),
    ];
    for (words, put) in by {
        let (node, volume) = Volume::on_a_node("ext4", "320M");
        node.must(volume.attach());
        make_folder(&volume.global());
        kill_at(&node, &volume.stage(), "stage.format.intent");
        put(&volume);
        let before = digest(&volume.image());
        let message = node.fails(volume.stage());
        assert!(message.contains(words) || words == "MBR", "{message}");
        assert_eq!(digest(&volume.image()), before, "the disk was changed: {message}");
        let told = node.verb(&["format", &volume.id]).unwrap();
        assert!(told.contains("Nothing was changed") && !told.contains("nothing else"), "{told}");
        node.verb(&["format", &volume.id, "--yes"]).unwrap();
        node.must(volume.stage());
        volume.ends();
        volume.must_be_sound();
    }
}

/// mkfs had ended, and a person put files into the file system without a mount.
#[test]
fn a_file_system_that_was_finished_and_filled_is_mounted() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    kill_at(&node, &volume.stage(), "stage.format.made");
    let file = node.own().join("orders");
    files::write_synced(&file, b"kept");
    let mut debugfs = Command::new("debugfs");
    debugfs.args(["-w", "-R", &format!("write {} orders", file.display())]).arg(device(&volume));
    assert!(output_of(&mut debugfs).status.success());
    node.must(volume.stage());
    assert_eq!(files::read(volume.global().join("orders")).unwrap(), b"kept");
    volume.ends();
    volume.must_be_sound();
}
