//! Who uses a disk: each kind of holder by a real process, namespace or device.

mod kernel;
mod lack;
mod namespaces;
mod pods;

use crate::checks::{eventually, number_of};
use crate::support::{DISK, Node};
use crate::volume::Volume;
use incloud_disk::host::census::KernelCensus;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::mount::disk_users::{Answer, DeviceUses, NamespaceUses};
use incloud_disk::ports::host::Census;

/// The census of this machine, read by the driver under test.
fn census() -> KernelCensus {
    KernelCensus::default().read_by(DISK.into())
}

/// What there is to be told; that it cannot be is a failure.
#[track_caller]
fn told<T>(answer: Answer<T>) -> T {
    match answer {
        Answer::Told(told) => told,
        Answer::CannotTell(why) => panic!("cannot tell: {why}"),
    }
}

#[track_caller]
fn users_of(number: DeviceNumber) -> DeviceUses {
    told(census().device_users(&[number]))
}

/// The namespaces, by the kernel's list of them and without it: both tell the same, as soon as
/// what is about to die is dead.
#[track_caller]
fn namespaces_with(number: DeviceNumber) -> NamespaceUses {
    let listed_and_searched = || {
        let mut both = both_ways(number);
        for uses in &mut both {
            uses.namespaces.sort_by_key(|namespace| namespace.id);
        }
        both
    };
    let mut both = listed_and_searched();
    eventually("both ways tell the same", || {
        let agree = both[0].namespaces == both[1].namespaces;
        if !agree {
            both = listed_and_searched();
        }
        agree
    });
    let [listed, _] = both;
    listed
}

#[track_caller]
fn both_ways(number: DeviceNumber) -> [NamespaceUses; 2] {
    let census = census();
    let listed = told(census.namespaces_with(&[number]));
    let searched = told(census.without_the_list_of_namespaces().namespaces_with(&[number]));
    [listed, searched]
}

/// A mounted volume, and its number.
#[track_caller]
fn mounted(node: &Node, fs_type: &'static str) -> (Volume, DeviceNumber) {
    let size = if fs_type == "xfs" { "300M" } else { "16M" };
    let volume = Volume::create(node, fs_type, size);
    volume.bring();
    let number = number_of(&volume.letter());
    (volume, number)
}
