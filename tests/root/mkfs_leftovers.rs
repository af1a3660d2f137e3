//! mkfs is killed at its writes, and another writes to the disk before the next call: only what that
//! mkfs wrote is ever overwritten.

use crate::checks::{digest, layers_at};
use crate::crash::kill_at;
use crate::files;
use crate::support::tracer::{self, Fate};
use crate::support::{Node, output_of};
use crate::volume::{Volume, make_folder};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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

fn read(volume: &Volume, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    File::open(device(volume)).unwrap().read_exact_at(&mut bytes, at).unwrap();
    bytes
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

/// Another's bytes at each of these places make the leftovers of the mkfs data; without them it is
/// finished.
#[track_caller]
fn refused_with_a_stranger(volume: &Volume, size: u64, what: &str, round: usize) {
    let node = &volume.node;
    // The beginning, beside a mark of the file system, in its first sector where a partition table
    // lies, between what mkfs writes, in the middle, and at the end.
    let places = [0, 257, 446, 5000, size / 2 + 4096 + 7, size - 700];
    // Three of them with each kill.
    for at in places.into_iter().skip(round % 2).step_by(2) {
        let strange = b"a user's archive";
        let before = read(volume, at, strange.len());
        write(volume, at, strange);
        let image = digest(&volume.image());
        let message = node.fails(volume.stage());
        assert!(message.contains("disk format"), "{what}, {at}: {message}");
        assert_eq!(layers_at(&volume.global()), 0);
        assert_eq!(digest(&volume.image()), image, "{what}, {at}: the disk was changed");
        // A person is told the same by the verb.
        let told = node.verb(&["format", &volume.id]).unwrap();
        assert!(!told.contains("and nothing else"), "{what}, {at}: {told}");
        write(volume, at, &before);
    }
}

#[test]
fn a_mkfs_ext4_killed_at_its_writes_is_finished_unless_the_disk_was_written_to_since() {
    needs!(mounts, tracer);
    killed_at_its_writes("ext4", 64);
}

#[test]
fn a_mkfs_ext3_killed_at_its_writes_is_finished_unless_the_disk_was_written_to_since() {
    needs!(mounts, tracer);
    killed_at_its_writes("ext3", 64);
}

#[test]
fn a_mkfs_xfs_killed_at_its_writes_is_finished_unless_the_disk_was_written_to_since() {
    needs!(mounts, tracer);
    killed_at_its_writes("xfs", 320);
}

#[test]
fn a_mkfs_btrfs_killed_at_its_writes_is_finished_unless_the_disk_was_written_to_since() {
    needs!(mounts, tracer);
    killed_at_its_writes("btrfs", 128);
}

fn killed_at_its_writes(fs_type: &'static str, size: u64) {
    // `MKFS_KILLS=1`: each write.
    let each = std::env::var_os("MKFS_KILLS").is_some();
    let node = Node::new();
    let (mut number, mut killed) = (1, 0);
    loop {
        let volume = Volume::create(&node, fs_type, &format!("{size}M"));
        node.must(volume.attach());
        make_folder(&volume.global());
        let what = format!("mkfs.{fs_type} at write {number}");
        let was_killed = kill_at_write(&volume, fs_type, number);
        if was_killed {
            killed += 1;
            if number % 3 == 1 || !each {
                refused_with_a_stranger(&volume, size << 20, &what, killed);
            }
            let told = node.verb(&["format", &volume.id]).unwrap();
            assert!(
                told.contains("and nothing else")
                    || told.contains("UUID")
                    || told.contains("all that was read is zero"),
                "{what}: {told}"
            );
            node.must(volume.stage());
            assert_eq!(layers_at(&volume.global()), 1, "{what}");
        }
        volume.ends();
        volume.must_be_sound();
        std::fs::remove_file(volume.image()).unwrap();
        if !was_killed {
            break;
        }
        number += if each { 1 } else { number };
    }
    assert!(killed > 5, "only {killed} of mkfs.{fs_type} were killed");
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

/// As a blank disk is: who knows the fixed places cannot know those at random.
#[test]
fn data_between_the_fixed_places_is_kept_after_a_killed_format_too() {
    const SIZE: u64 = 8 << 30;
    const BLOCK: u64 = 4096;
    needs!(mounts, seams);
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (node, volume) = Volume::on_a_node(fs_type, &SIZE.to_string());
        node.must(volume.attach());
        make_folder(&volume.global());
        kill_at(&node, &volume.stage(), "stage.format.intent");
        let image = volume.image();
        let stride = SIZE / 16_384;
        let run = vec![0x5a; usize::try_from(stride - BLOCK).unwrap()];
        // No copy of a superblock is looked for there.
        let strange = |bytes: &[u8]| {
            for n in 7220..7300 {
                files::write_at(&image, n * stride + BLOCK, bytes);
            }
        };
        strange(&run);
        let message = node.fails(volume.stage());
        assert!(message.contains("unknown data at offset"), "{fs_type}: {message}");
        assert_eq!(layers_at(&volume.global()), 0);
        strange(&vec![0; run.len()]);
        // The kernel keeps what it has read of the disk.
        node.must(volume.detach());
        node.must(volume.attach());
        node.must(volume.stage());
        volume.ends();
    }
}
