//! What a disk must show, and how much of it is read, before it is called blank: sparse images of
//! real sizes, with little data at places that an earlier reading did not meet.

use crate::checks::{digest, layers_at, nothing_is_left, random_bytes};
use crate::corpus::trial::says_that_it_formatted;
use crate::crash::interrupted_at;
use crate::files;
use crate::holders::run;
use crate::support::{FailingDisk, Node, with_files};
use crate::volume::{Volume, make_folder};
use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A run of bytes of which none is zero.
fn put_run(image: &Path, offset: u64, length: u64) {
    let bytes = vec![0x5a; usize::try_from(MIB).unwrap()];
    for at in (0..length).step_by(bytes.len()) {
        let piece = usize::try_from(MIB.min(length - at)).unwrap();
        with_files(|| {
            use std::os::unix::fs::FileExt;
            let file = File::options().write(true).open(image).unwrap();
            file.write_all_at(&bytes[..piece], offset + at).unwrap();
        });
    }
}

/// Makes a stretch of the image zeros again, without writing them.
fn forget(image: &Path, offset: u64, length: u64) {
    with_files(|| {
        let file = File::options().write(true).open(image).unwrap();
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let number = |n: u64| i64::try_from(n).unwrap();
        fallocate(&file, flags, number(offset), number(length)).unwrap();
    });
}

/// Makes a disk of this size, lets data be put on it, and demands that it is refused and left as
/// it is. Answers what was said.
#[track_caller]
fn is_refused(size: u64, put: impl FnOnce(&Path)) -> String {
    let (node, volume) = Volume::on_a_node("ext4", &size.to_string());
    put(&volume.image());
    let before = digest(&volume.image());
    node.must(volume.attach());
    make_folder(&volume.global());
    let message = node.fails(volume.stage());
    assert_eq!(layers_at(&volume.global()), 0);
    assert!(!says_that_it_formatted(&node), "FORMATTED: {message}");
    assert!(volume.record()["formatting"].is_null());
    node.must(volume.detach());
    assert_eq!(digest(&volume.image()), before, "the image changed");
    nothing_is_left(&node, &[&volume]);
    message
}

#[test]
fn a_run_of_data_as_long_as_a_stride_is_found_wherever_it_lies() {
    needs!(mounts);
    // Of 1 TiB and of 100 GiB, at places of no round number.
    for (size, begin) in [
        (1024 * GIB, 301 * GIB),
        (1024 * GIB, 777 * GIB + 12_345_678),
        (100 * GIB, 61 * GIB + 3_333_333),
        (GIB + 512, 700 * MIB + 77_777),
    ] {
        let message = is_refused(size, |image| put_run(image, begin, size / 16_384));
        assert!(message.contains("unknown data"), "{message}");
    }
}

/// The label of a file system is gone, and so is all that stands at the ends of its disk.
#[test]
fn copies_of_superblocks_in_a_partition_are_found() {
    needs!(mounts);
    let kinds = [("mkfs.ext4", "-qF"), ("mkfs.xfs", "-qf")];
    for (start, (program, quiet)) in
        [MIB, 63 * 512].into_iter().flat_map(|start| kinds.map(|kind| (start, kind)))
    {
        let message = is_refused(1024 * GIB, |image| {
            let end = 1024 * GIB - MIB;
            let path = image.to_str().unwrap();
            let (at, length) = (start.to_string(), (end - start).to_string());
            let found =
                run("losetup", &["--find", "--show", "-o", &at, "--sizelimit", &length, path]);
            run(program, &[quiet, found.trim()]);
            run("losetup", &["-d", found.trim()]);
            forget(image, 0, 16 * MIB);
            forget(image, end, MIB);
        });
        assert!(message.contains("unknown data"), "{program} at {start}: {message}");
    }
}

/// The cloud made the disk larger: the copy of the GPT, or the mark of a RAID, is in its midst now.
#[test]
fn marks_at_the_end_that_a_disk_had_before_it_grew_are_found() {
    needs!(mounts);
    for before_the_end in [512, 8 * KIB, 64 * KIB] {
        let message = is_refused(500 * GIB, |image| {
            files::write_at(image, 37 * GIB - before_the_end, b"EFI PART");
        });
        assert!(message.contains("unknown data"), "{message}");
    }
}

/// Who knows the fixed places can avoid all of them, but not the random ones.
#[test]
fn data_between_the_fixed_places_does_not_escape() {
    needs!(mounts);
    let size = 8 * GIB;
    let message = is_refused(size, |image| {
        let stride = size / 16_384;
        // No copy of a superblock is looked for there.
        for n in 7220..7300 {
            put_run(image, n * stride + 4 * KIB, stride - 4 * KIB);
        }
    });
    assert!(message.contains("unknown data"), "{message}");
}

/// What this machine remembers of a disk is not what stands there now.
#[test]
fn a_disk_that_was_written_elsewhere_meanwhile_is_read_anew() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "4G");
    node.must(volume.attach());
    let device = format!("/dev/{}", volume.letter());
    // As long as a program has the disk open, the kernel keeps what was read of it.
    let open = with_files(|| File::open(&device).unwrap());
    run("dd", &[&format!("if={device}"), "of=/dev/null", "bs=1M", "count=64"]);
    files::write_at(&volume.image(), 40 * MIB, &random_bytes(1 << 20));
    make_folder(&volume.global());
    let message = node.fails(volume.stage());
    assert!(message.contains("unknown data"), "{message}");
    drop(open);
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// One that answers too slowly to be read at all the fixed places is not blank, and not formatted;
/// the call ends all the same, and says what a person can do.
#[test]
fn a_disk_too_slow_to_be_read_is_not_blank() {
    needs!(fuse);
    let node = Node::new();
    node.configure("[deadline]\nmountdevice = 6");
    let volume = Volume::create(&node, "ext4", "100G");
    let disk = FailingDisk::over(&volume.image());
    node.must(volume.attach());
    make_folder(&volume.global());
    disk.delay(Duration::from_millis(2));
    let message = node.fails(volume.stage());
    assert!(message.contains("reads within") && message.contains("not proven"), "{message}");
    assert!(message.contains("disk format"), "{message}");
    assert_eq!(layers_at(&volume.global()), 0);
    assert_eq!(disk.counts().writes, 0, "it was written to");
    disk.release();
    node.configure("");
    node.must(volume.stage());
    volume.take_away();
    drop(disk);
    nothing_is_left(&node, &[&volume]);
}

/// Between the first look and mkfs the cloud is asked, which may take minutes: what another writes
/// meanwhile is his data.
#[test]
fn what_was_written_after_the_first_look_is_not_formatted() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "320M");
    node.must(volume.attach());
    make_folder(&volume.global());
    let disk = Path::new(&format!("/dev/{}", volume.letter())).to_owned();
    let interrupted =
        |write: &dyn Fn()| interrupted_at(&node, volume.stage(), "stage.format.consented", write);
    let archive = b"an archive of another tool";
    let answer = interrupted(&|| files::write_at(&disk, 3 << 20, archive));
    assert!(answer.text.contains("unknown data") && answer.text.contains("not there a moment ago"));
    assert_eq!(answer.json["status"], "Failure");
    node.fails(volume.stage());
    assert_eq!(volume.record()["formatting"], serde_json::Value::Null);
    files::write_at(&disk, 3 << 20, &vec![0; archive.len()]);
    // A whole file system of his.
    let answer = interrupted(&|| drop(run("mkfs.xfs", &["-q", disk.to_str().unwrap()])));
    let is_told =
        answer.text.contains("holds xfs") && answer.text.contains("not there a moment ago");
    assert!(is_told, "{}", answer.text);
    run("wipefs", &["-a", disk.to_str().unwrap()]);
    node.verb(&["format", &volume.id, "--yes"]).unwrap();
    node.must(volume.stage());
    volume.ends();
}
