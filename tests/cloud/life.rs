//! The whole life of a volume of the cloud, on two servers: real file systems and mounts, on disks
//! that are known by their serials alone.

use crate::files;
use crate::machine::Machine;
use crate::plug::Plug;
use crate::server::{Server, World};
use crate::support::{Node, loop_devices_below};
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::mount::mountinfo::MountTable;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const PODS: [&str; 2] =
    ["7a5c1e0b-3d52-4f0e-9a35-6f1d0c8b2e44", "0c9d7f62-51aa-4b8e-8d0e-2f6b1a3c4d5e"];

#[test]
fn an_ext4_volume_lives_on_two_servers() {
    needs!(mounts, seams);
    live("ext4");
}

#[test]
fn an_xfs_volume_lives_on_two_servers() {
    needs!(mounts, seams);
    live("xfs");
}

/// The cloud, and two servers of it. What the cloud does ends before what it does it to.
pub struct Life {
    pub cloud: Server,
    pub plug: Arc<Plug>,
    pub here: Machine,
    pub there: Machine,
    pub volume: String,
}

impl Life {
    pub fn new(fs_type: &'static str) -> Self {
        let node = Node::new();
        let plug = Plug::below(&node.base());
        let world = World::demo().hook(plug.hook());
        let cloud = Server::start(world.server("node-a").server("node-b").volume("data", 1));
        let volume = cloud.world().volume_id("data");
        let neighbour = node.neighbour("node-b");
        let machine = |node| Machine::of(node, &cloud, &plug, &volume, fs_type);
        let (here, there) = (machine(node), machine(neighbour));
        Self { cloud, plug, here, there, volume }
    }

    /// The servers that Cinder lists with the volume.
    pub fn attached_to(&self) -> Vec<String> {
        let world = self.cloud.world();
        let volume = world.storage.volume(&self.volume).unwrap();
        volume.servers().into_iter().map(str::to_owned).collect()
    }

    /// Everything until the pods run; answers the letter.
    #[track_caller]
    pub fn up(&self, machine: &Machine, fs_type: &str) -> String {
        machine.attach();
        assert_eq!(self.attached_to(), [machine.server.as_str()]);
        assert!(machine.is_attached(&machine.node));
        for hint in ["", "/dev/vdz", "/dev/loop99"] {
            machine.wait(hint);
        }
        machine.stage();
        let letter = machine.letter();
        for uid in PODS {
            machine.publish(uid);
            assert_eq!(mounted_at(&machine.pod(uid)), [(number_of(&letter), fs_type.to_owned())]);
        }
        letter
    }

    /// Everything back.
    #[track_caller]
    pub fn down(&self, machine: &Machine) {
        // A detach that comes too early is refused before the cloud is asked.
        let before = self.cloud.counters().detaches.get(&self.volume).copied();
        let message = machine.detach_fails();
        assert!(message.contains("is mounted at"), "{message}");
        assert_eq!(self.cloud.counters().detaches.get(&self.volume).copied(), before);

        machine.unpublish(PODS[0]);
        assert_eq!(mounted_at(&machine.pod(PODS[1])).len(), 1, "the other pod's is not touched");
        machine.unpublish(PODS[1]);
        machine.unstage();
        let letter = machine.letter();
        machine.detach();
        assert!(self.attached_to().is_empty());
        assert_eq!(machine.shown.name_of(&self.volume), None);
        assert_ne!(backing_file(&letter), self.plug.image(&self.volume).to_str().unwrap());
        assert!(!machine.is_attached(&machine.node));
    }
}

fn live(fs_type: &'static str) {
    let life = Life::new(fs_type);
    let (here, there) = (&life.here, &life.there);
    let data = random_bytes(5 << 20);
    let digest = digest_of(&data);
    let has_data = |machine: &Machine, uid: &str| {
        let found = files::read(machine.pod(uid).join("data")).unwrap();
        assert_eq!(digest_of(&found), digest, "the data is another");
    };

    assert!(!here.is_attached(&here.node));
    let first = life.up(here, fs_type);
    files::write_synced(&here.pod(PODS[0]).join("data"), &data);
    has_data(here, PODS[1]);

    let message = there.attach_fails();
    assert!(message.contains("Multi-Attach") && message.contains(&here.server), "{message}");
    assert_eq!(life.attached_to(), [here.server.as_str()]);
    assert_eq!(there.shown.name_of(&life.volume), None, "no disk came to the second server");
    assert!(there.is_attached(&here.node) && !there.is_attached(&there.node));
    life.down(here);

    // On the second server, and back again; each time the disk has another letter.
    let second = life.up(there, fs_type);
    has_data(there, PODS[0]);
    life.down(there);
    let third = life.up(here, fs_type);
    assert!(first != second && second != third, "{first}, {second}, {third}");
    has_data(here, PODS[1]);

    life.down(here);
    delete(&life);
    nothing_is_left(&life);
}

/// The volume is deleted, as its claim is deleted: nothing may hold it back.
#[track_caller]
fn delete(life: &Life) {
    let mut world = life.cloud.world();
    let volume = world.volume_mut("data");
    assert_eq!((volume.status.as_str(), volume.attachments.len()), ("available", 0));
    let keys: Vec<_> = volume.metadata.keys().collect();
    assert_eq!(keys, ["incloud-disk-life", "incloud-disk-tenure"]);
    world.storage.volumes.clear();
    drop(world);
    assert!(!life.here.is_attached(&life.here.node));
    life.here.detach();
    let message = life.here.attach_fails();
    assert!(message.contains("does not exist"), "{message}");
}

/// What is mounted at a place: numbers and types, the lowest layer first.
fn mounted_at(path: &Path) -> Vec<(DeviceNumber, String)> {
    let table = MountTable::parse(&fs::read("/proc/thread-self/mountinfo").unwrap()).unwrap();
    table.at(path).map(|mount| (mount.number, mount.fs_type.clone())).collect()
}

fn number_of(letter: &str) -> DeviceNumber {
    fs::read_to_string(format!("/sys/block/{letter}/dev")).unwrap().parse().unwrap()
}

fn backing_file(letter: &str) -> String {
    let file = fs::read_to_string(format!("/sys/block/{letter}/loop/backing_file"));
    file.unwrap_or_default().trim().to_owned()
}

pub fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

fn digest_of(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().to_vec()
}

/// No loop device, no mount, no link, no labelled node, no record.
#[track_caller]
pub fn nothing_is_left(life: &Life) {
    let base = life.here.node.base();
    let end = Instant::now() + Duration::from_secs(20);
    while !loop_devices_below(&base).is_empty() {
        assert!(Instant::now() < end, "{:?} are left", loop_devices_below(&base));
        std::thread::sleep(Duration::from_millis(2));
    }
    let table = MountTable::parse(&fs::read("/proc/thread-self/mountinfo").unwrap()).unwrap();
    let below = table.mounts().iter().filter(|mount| mount.target.starts_with(&base));
    assert_eq!(below.count(), 0, "mounts are left");
    for machine in [&life.here, &life.there] {
        assert_eq!(fs::read_dir(&machine.shown.by_id).unwrap().count(), 0, "links are left");
        let records = machine.node.own().join("state/volumes");
        let records = fs::read_dir(records).into_iter().flatten().flatten();
        assert_eq!(records.count(), 0, "records are left");
    }
    let label = Path::new("/dev/incloud-disk").join(&life.volume);
    assert!(fs::symlink_metadata(label).is_err(), "the labelled node is left");
}
