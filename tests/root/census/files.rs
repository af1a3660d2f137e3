//! Processes that hold a file of a file system, alive or dead, or have its disk open.

use super::{mounted, users_of};
use crate::checks::{eventually, number_of};
use crate::files;
use crate::support::Node;
use crate::support::pods::{Container, Order, Plan};
use crate::volume::Volume;
use incloud_disk::host::devices::SysfsDevices;
use incloud_disk::host::kernel::shutdown_file_system;
use incloud_disk::model::disk::device::{Device, DeviceNumber, Proof};
use incloud_disk::model::mount::disk_users::{DeviceUses, Tie};
use incloud_disk::ports::host::Devices;
use nix::mount::{MntFlags, umount2};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A file of the volume, with enough in it to be mapped.
fn file_of(volume: &Volume) -> PathBuf {
    let file = volume.global().join("file");
    files::write_synced(&file, &[7; 8192]);
    file
}

/// What a process holds, and by which paths.
fn ties(found: &DeviceUses, holder: &Container) -> Vec<(Tie, String)> {
    let uses = found.files.iter().filter(|file| file.process.pid == holder.pid());
    let mut ties: Vec<_> = uses
        .map(|file| {
            let tie = match file.tie {
                Tie::Descriptor(number) => {
                    assert_eq!(link_of(holder, number), file.path);
                    SOME
                }
                tie => tie,
            };
            (tie, file.path.to_string_lossy().into_owned())
        })
        .collect();
    ties.sort();
    ties
}

/// Which number it has is the holder's affair.
const SOME: Tie = Tie::Descriptor(0);

fn link_of(holder: &Container, descriptor: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{}/fd/{descriptor}", holder.pid())).unwrap()
}

fn in_our_namespace() -> Container {
    Plan::outside().in_our_namespace().start()
}

#[test]
fn every_way_to_hold_a_file_is_told() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let path = file_of(&volume);
    let name = path.to_string_lossy().into_owned();
    let folder = volume.global();
    let folder_name = folder.to_string_lossy().into_owned();
    assert_eq!(users_of(number).files, []);
    for (order, tie, shown) in [
        (Order::Open { path: path.clone() }, SOME, &name),
        (Order::Open { path: folder.clone() }, SOME, &folder_name),
        (Order::Map { path: path.clone() }, Tie::Map, &name),
        (Order::ChangeFolder { path: folder.clone() }, Tie::WorkingFolder, &folder_name),
        (Order::ChangeRoot { path: folder.clone() }, Tie::RootFolder, &folder_name),
    ] {
        let mut holder = in_our_namespace();
        holder.must(&order);
        let found = users_of(number);
        assert_eq!(ties(&found, &holder), [(tie, shown.clone())], "{order:?}");
        assert_eq!(found.files.len(), 1, "{found:?}");
        assert_eq!(found.namespaces, [], "it lives where we do");
        holder.die();
        assert_eq!(users_of(number).files, []);
    }
    volume.take_away();
}

/// The mount is in no list any more; what was opened by it is.
#[test]
fn what_was_opened_by_a_mount_that_is_gone_is_told() {
    needs!(containers);
    for fs_type in ["ext4", "xfs"] {
        let node = Node::new();
        let (volume, number) = mounted(&node, fs_type);
        let path = file_of(&volume);
        let mut holder = in_our_namespace();
        holder.must(&Order::Open { path: path.clone() });
        holder.must(&Order::Map { path });
        holder.must(&Order::ChangeFolder { path: volume.global() });
        let mut root = in_our_namespace();
        root.must(&Order::ChangeRoot { path: volume.global() });
        umount2(&volume.global(), MntFlags::MNT_DETACH).unwrap();
        let found = users_of(number);
        let held: Vec<_> = ties(&found, &holder).into_iter().map(|(tie, _)| tie).collect();
        assert_eq!(held, [SOME, Tie::Map, Tie::WorkingFolder], "{found:?}");
        assert_eq!(ties(&found, &root)[0].0, Tie::RootFolder);
        drop((holder, root));
        eventually("it is free", || is_free(&volume));
        assert_eq!(users_of(number).files, []);
        node.must(volume.detach());
    }
}

/// A file system that died with its disk is still held, and asked nothing.
#[test]
fn a_dead_file_system_is_told_like_a_living_one() {
    needs!(containers);
    for fs_type in ["ext4", "xfs"] {
        let node = Node::new();
        let (volume, number) = mounted(&node, fs_type);
        let path = file_of(&volume);
        let mut holder = in_our_namespace();
        holder.must(&Order::Open { path: path.clone() });
        holder.must(&Order::Map { path });
        holder.must(&Order::ChangeFolder { path: volume.global() });
        let mut root = in_our_namespace();
        root.must(&Order::ChangeRoot { path: volume.global() });
        shutdown_file_system(&File::open(volume.global()).unwrap()).unwrap();
        let found = users_of(number);
        let held: Vec<_> = ties(&found, &holder).into_iter().map(|(tie, _)| tie).collect();
        assert_eq!(held, [SOME, Tie::Map, Tie::WorkingFolder], "{fs_type}: {found:?}");
        assert_eq!(ties(&found, &root)[0].0, Tie::RootFolder, "{fs_type}: {found:?}");
        drop((holder, root));
        // The first time it tells what is lost.
        node.fails(volume.unstage());
        volume.take_away();
    }
}

/// What a container has open is told besides its namespace, by the paths that it uses.
#[test]
fn a_containers_files_are_told() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    file_of(&volume);
    let mut container = Plan::outside().seeing(&volume.global(), "/data").start();
    container.must(&Order::Open { path: "/data/file".into() });
    container.must(&Order::ChangeFolder { path: "/data".into() });
    let found = users_of(number);
    let expected = [(SOME, "/data/file".to_owned()), (Tie::WorkingFolder, "/data".to_owned())];
    assert_eq!(ties(&found, &container), expected);
    assert_eq!(found.namespaces.len(), 1);
    container.die_without_a_funeral();
    eventually("a zombie holds nothing", || users_of(number).namespaces.is_empty());
    assert_eq!(users_of(number).files, []);
    drop(container);
    volume.take_away();
}

fn device_of(volume: &Volume) -> Device {
    let (kernel_name, number) = (volume.letter(), number_of(&volume.letter()));
    Device {
        kernel_name,
        number,
        size: 0,
        read_only: false,
        sequence: None,
        proof: Proof::Whole,
        connection: None,
    }
}

fn is_free(volume: &Volume) -> bool {
    crate::support::with_files(|| {
        SysfsDevices::default().exclusive_open(&device_of(volume)).unwrap().is_free().unwrap()
    })
}

/// The two are named alike; which of them keeps the disk busy is the kernel's secret, and its
/// answer to an exclusive open.
#[test]
fn who_has_the_disk_open_is_told() {
    needs!(containers);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    let number = number_of(&volume.letter());
    let path = Path::new("/dev").join(volume.letter());
    assert!(is_free(&volume));
    for (order, stays_free) in [
        (Order::Open { path: path.clone() }, true),
        (Order::OpenAlone { path: path.clone() }, false),
    ] {
        let mut opener = in_our_namespace();
        opener.must(&order);
        let found = users_of(number);
        assert_eq!(found.nodes.len(), 1, "{found:?}");
        assert_eq!(found.nodes[0].process.pid, opener.pid());
        assert_eq!(found.nodes[0].path, path);
        assert_eq!(link_of(&opener, found.nodes[0].descriptor), path);
        assert_eq!(is_free(&volume), stays_free, "{order:?}");
        assert_eq!((found.files.len(), found.namespaces.len()), (0, 0));
        opener.must(&Order::LetGo);
        eventually("it is free", || is_free(&volume));
        assert_eq!(users_of(number).nodes, []);
    }
    node.must(volume.detach());
}

#[test]
fn an_answer_is_about_the_disks_that_were_asked_for() {
    needs!(containers);
    let node = Node::new();
    let (one, number) = mounted(&node, "ext4");
    let (two, other) = mounted(&node, "ext4");
    let mut holder = in_our_namespace();
    holder.must(&Order::ChangeFolder { path: one.global() });
    let both = |numbers: &[DeviceNumber]| {
        use incloud_disk::ports::host::Census;
        let census = super::census();
        super::told(census.device_users(numbers)).files.len()
    };
    assert_eq!(both(&[other]), 0);
    // After a change of letters: the old number and the new one.
    assert_eq!(both(&[other, number]), 1);
    drop(holder);
    one.take_away();
    two.take_away();
}
