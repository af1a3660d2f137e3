//! What is around a volume when the guard and the heal look: processes, containers, mounts; each grows by itself. In
//! each crowd both are measured, the guard first.

use crate::Run;
use crate::figures::Row;
use crate::node::{Machine, Volume};
use crate::support::pods::{Container, Naming, Plan, Pod, pods_are_possible};
use crate::{guard, heal};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// So many mounts sees a container, as those of a runtime do.
const MOUNTS_OF_ONE: usize = 22;
/// In so many containers are the processes, where their number grows.
const CONTAINERS: usize = 25;

/// What grows, and to which sizes; the last ones where the run is a long one.
const GROWING: [(Kind, &[usize], &[usize]); 3] = [
    (Kind::Processes, &[50, 150, 500], &[1500, 5000]),
    (Kind::Containers, &[10, 50, 100], &[250, 500]),
    (Kind::Mounts, &[100, 300, 1000], &[3000, 10_000]),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Of other pods; one container has the volume.
    Processes,
    /// All of them have the volume.
    Containers,
    /// Of the machine; one container has the volume.
    Mounts,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Containers => "containers",
            Self::Mounts => "mounts",
        }
    }
}

pub fn measure(run: &mut Run, wants: impl Fn(&str) -> bool) {
    if !run.is_root || !pods_are_possible("bench") {
        let why = "needs root, and a cgroup tree that can be written";
        run.add([
            Row::missing(guard::GROUP, "500 processes", why),
            Row::missing(heal::GROUP, "500 processes", why),
        ]);
        return;
    }
    for (kind, short, long) in GROWING {
        let long = if run.is_long { long } else { &[] };
        for size in short.iter().chain(long) {
            let name = format!("{size} {}", kind.word());
            run.tell(&format!("guard and heal: {name}"));
            let crowd = Crowd::of(kind, *size);
            if wants(guard::GROUP) {
                guard::measure(run, &crowd, &name);
            }
            if wants(heal::GROUP) {
                heal::measure(run, &crowd, &name);
            }
            crowd.ends();
        }
    }
    if wants(heal::GROUP) {
        heal::methods(run);
    }
}

/// A volume that containers have, and what is around it.
pub struct Crowd {
    pub machine: Machine,
    pub volume: Volume,
    /// How many containers have the volume.
    pub holders: usize,
    pods: Vec<Pod>,
    containers: Vec<Container>,
    mounts: Option<PathBuf>,
    _other: TempDir,
}

impl Crowd {
    fn of(kind: Kind, size: usize) -> Self {
        let machine = Machine::new();
        let volume = machine.bring("ext4", "64M");
        let other = tempfile::tempdir().unwrap();
        let count = match kind {
            Kind::Processes => CONTAINERS,
            Kind::Containers => size,
            Kind::Mounts => 1,
        };
        let children = match kind {
            Kind::Processes => size / CONTAINERS - 1,
            Kind::Containers | Kind::Mounts => 0,
        };
        let holders = if matches!(kind, Kind::Containers) { count } else { 1 };
        let first = Pod::new(Naming::Cgroupfs);
        let mut pods = vec![first];
        pods.extend((1..count).map(|_| pods[0].neighbour(Naming::Cgroupfs)).collect::<Vec<_>>());
        for pod in &pods[..holders] {
            std::fs::create_dir_all(machine.pod(&volume, pod.uid())).unwrap();
            machine.node.must(machine.publish(&volume, pod.uid()));
        }
        let plans = pods.iter().enumerate().map(|(nth, pod)| {
            let seen = if nth < holders {
                machine.pod(&volume, pod.uid())
            } else {
                other.path().to_owned()
            };
            (1..MOUNTS_OF_ONE)
                .fold(pod.container().seeing(&seen, "/data"), |plan, mount| {
                    plan.seeing(other.path(), &format!("/{mount}"))
                })
                .with_children(u32::try_from(children).unwrap())
        });
        let containers = Plan::start_all(plans);
        let mounts = matches!(kind, Kind::Mounts).then(|| many_mounts(other.path(), size));
        Self { machine, volume, holders, pods, containers, mounts, _other: other }
    }

    fn ends(self) {
        drop(self.containers);
        while !self.pods[0].is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if let Some(mounts) = self.mounts {
            umount2(&mounts, MntFlags::MNT_DETACH).unwrap();
        }
        for pod in &self.pods[..self.holders] {
            self.machine.node.must(self.machine.unpublish(&self.volume, pod.uid()));
        }
        self.machine.take(&self.volume);
    }
}

/// So many mounts of this machine, below one that takes them along when it goes.
fn many_mounts(folder: &Path, count: usize) -> PathBuf {
    let (root, none) = (folder.join("mounts"), None::<&str>);
    std::fs::create_dir(&root).unwrap();
    mount(Some("mounts"), &root, Some("tmpfs"), MsFlags::empty(), none).unwrap();
    let one = root.join("one");
    std::fs::create_dir(&one).unwrap();
    for nth in 1..count {
        let place = root.join(nth.to_string());
        std::fs::create_dir(&place).unwrap();
        mount(Some(&one), &place, none, MsFlags::MS_BIND, none).unwrap();
    }
    root
}
