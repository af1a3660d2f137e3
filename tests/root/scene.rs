//! Where most tests of the guard and of the heal begin: a volume in a pod whose container has it.
//! `scene()` is the usual one; a test says what is different in its own.

use crate::checks::eventually;
use crate::files;
use crate::holders::run;
use crate::support::Node;
use crate::support::pods::{Container, Naming, Pod, Report};
use crate::volume::{Volume, make_folder};
use std::path::PathBuf;
use std::time::Duration;

/// A node with a volume, attached, staged, and in the folder of a pod, whose container has it at
/// `/data`. There is a file `kept` on it.
#[derive(Debug)]
pub struct Scene {
    pub node: Node,
    pub volume: Volume,
    pub pod: Pod,
    pub container: Container,
}

/// What a scene is made of.
#[derive(Debug, Clone)]
#[must_use]
pub struct Setting {
    node: Option<Node>,
    configuration: String,
    fs_type: &'static str,
    maker: Vec<String>,
    naming: Naming,
    name: &'static str,
    writes: bool,
}

/// An ext4 on a node of its own, and a container that writes to it without pause.
pub fn scene() -> Setting {
    Setting {
        node: None,
        configuration: String::new(),
        fs_type: "ext4",
        maker: Vec::new(),
        naming: Naming::Systemd,
        name: "orders-0",
        writes: true,
    }
}

impl Scene {
    /// The pod ends, the volume goes, and nothing is left.
    #[track_caller]
    pub fn ends(self) {
        self.volume.ends_with(&self.pod, self.container);
    }
}

impl Setting {
    /// On a node that is there already.
    pub fn on(self, node: &Node) -> Self {
        Self { node: Some(node.clone()), ..self }
    }

    /// With these lines in its node's configuration.
    pub fn configured(self, configuration: &str) -> Self {
        Self { configuration: configuration.to_owned(), ..self }
    }

    /// With this file system, as large as it must be.
    pub fn of(self, fs_type: &'static str) -> Self {
        Self { fs_type, ..self }
    }

    /// Not formatted by the driver, but by this program with these arguments.
    pub fn made_by(self, maker: &[&str]) -> Self {
        Self { maker: maker.iter().map(|word| (*word).to_owned()).collect(), ..self }
    }

    /// With cgroups that are named so.
    pub fn named(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    /// With a pod of this name.
    pub fn called(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// With a container that has the volume and does nothing.
    pub fn idle(self) -> Self {
        Self { writes: false, ..self }
    }

    #[track_caller]
    pub fn start(self) -> Scene {
        let (node, volume) = self.volume();
        let pod = Pod::new(self.naming);
        let container = self.enter(&volume, &pod);
        Scene { node, volume, pod, container }
    }

    /// The same with so many pods of one node.
    #[track_caller]
    pub fn start_in(self, count: usize) -> (Node, Volume, Vec<(Pod, Container)>) {
        let (node, volume) = self.volume();
        let first = Pod::new(self.naming);
        let pods = (0..count)
            .map(|nth| if nth == 0 { first.clone() } else { first.neighbour(self.naming) });
        let running = pods
            .map(|pod| {
                let container = self.enter(&volume, &pod);
                (pod, container)
            })
            .collect();
        (node, volume, running)
    }

    /// The volume, staged.
    #[track_caller]
    fn volume(&self) -> (Node, Volume) {
        let node = self.node.clone().unwrap_or_else(Node::new);
        if !self.configuration.is_empty() {
            node.configure(&self.configuration);
        }
        let size = match self.fs_type {
            "xfs" => "320M",
            "btrfs" => "256M",
            _ => "64M",
        };
        let volume = Volume::create(&node, self.fs_type, size);
        if let [program, arguments @ ..] = &self.maker[..] {
            let image = volume.image();
            let mut words: Vec<_> = arguments.iter().map(String::as_str).collect();
            words.push(image.to_str().expect("UTF-8"));
            run(program, &words);
        }
        volume.bring();
        (node, volume)
    }

    /// The volume comes into a pod, and into its container.
    #[track_caller]
    fn enter(&self, volume: &Volume, pod: &Pod) -> Container {
        let folder = publish(volume, pod, self.name);
        files::write_synced(&folder.join("kept"), b"from before");
        let mut container = pod.container_with(&folder);
        if self.writes {
            container.write("/data/log", Duration::from_millis(2));
            container.must_write_on(5);
        }
        container
    }
}

/// kubelet's call for a pod of this name.
#[track_caller]
pub fn publish(volume: &Volume, pod: &Pod, name: &str) -> PathBuf {
    let folder = volume.pod(pod.uid());
    make_folder(&folder);
    let mut call = volume.publish(pod.uid());
    call[2] = call[2].replace("orders-0", name);
    volume.node.must(call);
    folder
}

/// The disk goes without a warning, and every write fails from then on.
pub fn pull(volume: &Volume, container: &mut Container) -> String {
    let old = volume.letter();
    volume.node.verb(&["local", "yank", &volume.id]).unwrap();
    let before = container.report().errors;
    eventually("the container's writes fail", || container.report().errors > before + 3);
    old
}

/// It is as before: no write succeeds.
#[track_caller]
pub fn still_fails(container: &mut Container) {
    let before = container.report();
    eventually("writes fail", || container.report().errors > before.errors + 3);
    assert_eq!(container.report().writes, before.writes, "a write succeeded");
}

/// Its writes succeed again, and none fails any more.
#[track_caller]
pub fn goes_on(container: &mut Container, count: u64) -> Report {
    let before = container.report();
    eventually("the container's writes go on", || {
        container.report().writes >= before.writes + count
    });
    let after = container.report();
    assert_eq!(after.errors, before.errors, "a write failed after the heal");
    after
}
