//! Other programs read the same: libmount's findmnt the mount table, blkid the disk. What they say is
//! compared, and what blkid does not say, or says badly, is never "blank".

use crate::checks::{digest, layers_at, nothing_is_left, table};
use crate::corpus::trial::says_that_it_formatted;
use crate::holders::run;
use crate::stub::Stub;
use crate::support::Node;
use crate::volume::{Volume, make_folder};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const BLKID: &str = "/usr/sbin/blkid";

/// A mount as both readers tell it: id, disk, type, root, target.
type Row = (u32, String, String, PathBuf, PathBuf);

/// What findmnt writes as `\x20` is a blank.
fn plain(text: &str) -> PathBuf {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (number, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(number, 16).expect("two digits"));
        bytes.extend(rest.as_bytes());
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

fn by_findmnt() -> Vec<Row> {
    let columns = "ID,MAJ:MIN,FSTYPE,FSROOT,TARGET";
    let text = run("findmnt", &["--kernel", "--raw", "--noheadings", "-o", columns]);
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, number, fs_type, root, target] = words[..] else { panic!("{line}") };
        let id = id.parse().expect("a number");
        (id, number.to_owned(), fs_type.to_owned(), plain(root), plain(target))
    };
    let mut rows: Vec<Row> = text.lines().map(row).collect();
    rows.sort();
    rows
}

fn by_ours() -> Vec<Row> {
    let row = |mount: &incloud_disk::model::mount::mountinfo::Mount| {
        let root = mount.root.clone();
        (mount.id, mount.number.to_string(), mount.fs_type.clone(), root, mount.target.clone())
    };
    let mut rows: Vec<Row> = table().mounts().iter().map(row).collect();
    rows.sort();
    rows
}

/// Names that a tenant may give a folder; the kernel escapes some of them, and `#` since Linux 5.10 or so.
#[test]
fn findmnt_and_we_read_the_same_of_every_name() {
    needs!(mounts);
    let node = Node::new();
    let long = "n".repeat(255);
    let deep = ["d"; 12].map(|_| long.as_str()).join("/");
    let names: [&[u8]; 14] = [
        b"a blank",
        b" at both ends ",
        b"a\ttab",
        b"two\nlines",
        b"\\",
        b"back\\slash",
        b"\\040",
        b"\\x20",
        b"#hash#",
        b"quote\"'",
        b"\x01\x1b[2J",
        "\u{202e}\u{00fc}".as_bytes(),
        b"ends (deleted)",
        deep.as_bytes(),
    ];
    let nothing = None::<&str>;
    let kinds = [None, Some("tmpfs")];
    for (name, kind) in names.iter().flat_map(|name| kinds.map(|kind| (name, kind))) {
        let folder = node.base().join(if kind.is_some() { "whole" } else { "bound" });
        let target = folder.join(OsStr::from_bytes(name));
        fs::create_dir_all(&target).unwrap();
        let flags = if kind.is_some() { MsFlags::empty() } else { MsFlags::MS_BIND };
        mount(Some(&target), &target, kind, flags, nothing).unwrap();
        let ours = by_ours();
        let is_there = |row: &Row| {
            row.4 == target && (kind.is_some() || row.3.ends_with(OsStr::from_bytes(name)))
        };
        assert!(ours.iter().any(is_there), "{}: {ours:?}", target.display());
        assert_eq!(ours, by_findmnt(), "{}", target.display());
        umount2(&target, MntFlags::MNT_DETACH).unwrap();
    }
}

/// A disk that we call blank, of which blkid says this.
#[track_caller]
fn staged_with(node: &Node, script: &str) -> (Volume, String) {
    let volume = Volume::create(node, "ext4", "64M");
    let before = digest(&volume.image());
    node.must(volume.attach());
    make_folder(&volume.global());
    let stub = Stub::over(BLKID, &node.base(), script);
    let message = node.fails(volume.stage());
    assert_eq!(layers_at(&volume.global()), 0, "{script}");
    assert!(volume.record()["formatting"].is_null(), "{script}");
    assert_eq!(digest(&volume.image()), before, "{script}: it was written to: {message}");
    drop(stub);
    (volume, message)
}

#[test]
fn a_disk_that_only_blkid_knows_is_not_formatted() {
    needs!(mounts);
    let node = Node::new();
    for (script, word) in [
        ("echo DEVNAME=$5; echo TYPE=novel_fs", "novel_fs"),
        ("echo PTTYPE=novel_table", "novel_table"),
        ("echo something novel", "something novel"),
    ] {
        let (volume, message) = staged_with(&node, script);
        assert!(message.contains(word) && message.contains("by the word of blkid"), "{message}");
        node.must(volume.detach());
    }
    assert!(!says_that_it_formatted(&node));
    nothing_is_left(&node, &[]);
}

#[test]
fn a_blkid_that_fails_hangs_or_talks_nonsense_proves_no_disk_blank() {
    needs!(mounts);
    let node = Node::new();
    for (script, word) in [
        ("exit 1", "blkid"),
        ("exit 4", "blkid"),
        // Several marks, and it cannot say which counts.
        ("exit 8", "blkid"),
        ("exit 0", "blkid"),
        ("echo it is odd; exit 2", "it is odd"),
        ("kill -9 $$", "blkid"),
        ("exec /nonexistent/loader", "blkid"),
        ("head -c 300000 /dev/urandom", "blkid"),
    ] {
        let (volume, message) = staged_with(&node, script);
        assert!(message.contains(word), "{script}: {message}");
        // It speaks again: nothing of it stays.
        node.must(volume.stage());
        volume.take_away();
        volume.must_be_sound();
    }
    node.configure("[deadline]\nmountdevice = 3");
    let (volume, message) = staged_with(&node, "sleep 600");
    assert!(message.contains("blkid did not end"), "{message}");
    node.configure("");
    node.must(volume.stage());
    volume.take_away();
    nothing_is_left(&node, &[]);
}

/// What must not be refused: it finds nothing, or is not installed.
#[test]
fn a_blank_disk_is_formatted_where_blkid_finds_nothing_or_is_missing() {
    needs!(mounts);
    let node = Node::new();
    let stubs: [&dyn Fn() -> Stub; 2] =
        [&|| Stub::over(BLKID, &node.base(), "exit 2"), &|| Stub::none(BLKID)];
    for stub in stubs {
        let volume = Volume::create(&node, "ext4", "64M");
        node.must(volume.attach());
        make_folder(&volume.global());
        let stub = stub();
        node.must(volume.stage());
        drop(stub);
        assert_eq!(layers_at(&volume.global()), 1);
        volume.take_away();
    }
    assert!(node.log().contains("no second program is asked"), "{}", node.log());
    nothing_is_left(&node, &[]);
}

/// The real blkid, and a file system that this driver never mounts.
#[test]
fn a_minix_is_told_by_both_and_left_alone() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let image = volume.image();
    run("mkfs.minix", &[image.to_str().unwrap()]);
    let text = run("blkid", &["-p", "-o", "export", image.to_str().unwrap()]);
    assert!(text.contains("TYPE=minix"), "{text}");
    let before = digest(&image);
    node.must(volume.attach());
    make_folder(&volume.global());
    let message = node.fails(volume.stage());
    assert!(message.contains("minix"), "{message}");
    node.must(volume.detach());
    assert_eq!(digest(&image), before);
    nothing_is_left(&node, &[&volume]);
}
