//! A cloud with one volume and two servers that can attach it.

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
        let neighbour = node.neighbour("node-b");
        Self::on(node, neighbour, fs_type)
    }

    /// On these nodes, `node-a` and `node-b`.
    pub fn on(node: Node, neighbour: Node, fs_type: &'static str) -> Self {
        let plug = Plug::below(&node.base());
        let world = World::demo().hook(plug.hook());
        let cloud = Server::start(world.server("node-a").server("node-b").volume("data", 1));
        let volume = cloud.world().volume_id("data");
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
