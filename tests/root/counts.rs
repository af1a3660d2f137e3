//! What calls read and write that have work to do: how often, whatever the machine's speed.

use crate::budgets::{counted, node, readings};
use crate::scene::{Scene, scene};
use crate::support::counter::{Counted, KernelCall};
use crate::support::{DISK, Node};
use crate::volume::{Call, POD, Volume, make_folder};
use nix::libc;
use std::collections::BTreeMap;
use std::path::Path;

/// How often a call does what takes time on a busy machine: reads this machine's mount table, looks for the volume's
/// disk among all disks, opens a disk exclusively, reads each file of the record, writes what outlives the boot and waits
/// for that disk, writes what ends with the boot.
type Work = [usize; 6];

/// The most of it, by call.
const MOST: [(&str, Work); 12] = [
    ("attach", [2, 3, 0, 0, 1, 1]),
    ("isattached", [0, 1, 0, 1, 0, 0]),
    ("waitforattach", [2, 1, 0, 1, 0, 0]),
    ("mountdevice", [3, 6, 1, 1, 1, 1]),
    ("mount", [2, 4, 0, 1, 0, 1]),
    ("unmount", [8, 5, 0, 1, 0, 1]),
    ("unmountdevice", [5, 6, 2, 1, 0, 1]),
    ("detach", [4, 4, 2, 1, 0, 0]),
    // The table is read before the lock and with it, by the census, and to judge what that found.
    ("unmountdevice, refused", [4, 6, 0, 1, 0, 1]),
    ("unmountdevice, refused again", [4, 6, 0, 1, 0, 1]),
    ("detach, refused", [1, 2, 0, 1, 0, 1]),
    ("attach that heals", [15, 5, 2, 1, 0, 3]),
];

fn work_of(found: &Counted, volume: &Volume) -> Work {
    let record = format!("{}.json", volume.id);
    let written = format!(".{record}.new");
    let opened = |folder: &str, name: &str| {
        let is_opened = |call: &&KernelCall| {
            let path = call.path.as_deref().filter(|_| call.opens && call.result >= Some(0));
            path.is_some_and(|path| path.ends_with(Path::new(folder).join(name)))
        };
        found.calls.iter().filter(is_opened).count()
    };
    let is_disk = |path: &Path| path.starts_with("/sys") && path.ends_with("loop/backing_file");
    let searches = found.opened().into_iter().filter(|(path, _)| is_disk(path));
    let is_exclusive = |call: &&KernelCall| {
        let flags = u64::from(libc::O_EXCL.unsigned_abs());
        let path = call.path.as_deref().filter(|_| call.number == libc::SYS_openat);
        let is_node = |path: &Path| path.starts_with("/dev") || path.starts_with("/proc");
        call.arguments[2] & flags != 0 && path.is_some_and(is_node)
    };
    [
        readings(found),
        searches.map(|(_, times)| times).max().unwrap_or_default(),
        found.calls.iter().filter(is_exclusive).count(),
        opened("state/volumes", &record).max(opened("run/boot", &record)),
        opened("state/volumes", &written),
        opened("run/boot", &written),
    ]
}

/// Mounts of other tests make a call look once more now and then, so the least of some tries counts.
#[test]
fn each_call_reads_and_writes_no_more_than_it_must() {
    needs!(pods, tracer);
    let mut least: BTreeMap<&str, Work> = BTreeMap::new();
    let mut play = |node: &Node, volume: &Volume, name: &'static str, call: &Call| {
        let found = counted(Path::new(DISK), node, call);
        let expected = if name.contains("refused") { "Failure" } else { "Success" };
        assert!(found.text.contains(expected), "{name}: {}", found.text);
        let work = work_of(&found, volume);
        println!("{name}: {work:?}, {} system calls", found.calls.len());
        let best = least.entry(name).or_insert(work);
        *best = std::array::from_fn(|at| best[at].min(work[at]));
    };
    for _ in 0..3 {
        let node = node();
        let volume = Volume::create(&node, "ext4", "64M");
        // A new file system is made by a program that is not followed.
        volume.bring();
        volume.take_away();
        make_folder(&volume.global());
        make_folder(&volume.pod(POD));
        for (name, call) in [
            ("attach", volume.attach()),
            ("isattached", volume.is_attached()),
            ("waitforattach", volume.wait("")),
            ("mountdevice", volume.stage()),
            ("mount", volume.publish(POD)),
            ("unmount", volume.unpublish(POD)),
            ("unmountdevice", volume.unstage()),
            ("detach", volume.detach()),
        ] {
            play(&node, &volume, name, &call);
        }
        let Scene { node, volume, pod, container } = scene().idle().on(&node).start();
        play(&node, &volume, "unmountdevice, refused", &volume.unstage());
        play(&node, &volume, "unmountdevice, refused again", &volume.unstage());
        play(&node, &volume, "detach, refused", &volume.detach());
        node.verb(&["local", "yank", &volume.id]).unwrap();
        play(&node, &volume, "attach that heals", &volume.attach());
        volume.take_away_with(&pod, container);
    }
    // What is never met is not counted any more.
    let is_wrong = |(is, most): (&usize, &usize)| is > most || (*is == 0) != (*most == 0);
    let over = MOST.iter().filter(|(name, most)| least[name].iter().zip(most).any(is_wrong));
    let over: Vec<_> = over.map(|(name, most)| (name, least[name], most)).collect();
    assert!(over.is_empty(), "{over:#?}");
}
