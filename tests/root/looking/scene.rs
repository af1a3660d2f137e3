//! A node with one volume of each health.

use crate::checks::eventually;
use crate::holders::run;
use crate::support::Node;
use crate::support::pods::{Container, Naming, Order, Plan, Pod};
use crate::volume::{Volume, make_folder};
use std::time::Duration;

/// The volumes, and the processes that make them what they are.
#[derive(Debug)]
pub struct Scene {
    pub ok: Volume,
    pub guarded: Volume,
    pub leaked: Volume,
    pub stale: Volume,
    pub dead: Volume,
    pub ambiguous: Volume,
    pub pods: Vec<Pod>,
    pub containers: Vec<Container>,
}

/// A pod's call with the pod's own name.
pub fn publish(volume: &Volume, pod: &Pod, name: &str) {
    make_folder(&volume.pod(pod.uid()));
    let mut call = volume.publish(pod.uid());
    call[2] = call[2].replace("orders-0", name);
    volume.node.must(call);
}

/// The volume in a pod whose container writes without pause.
pub fn running(node: &Node, pod: &Pod, name: &str) -> (Volume, Container) {
    let volume = Volume::create(node, "ext4", "64M");
    volume.bring();
    publish(&volume, pod, name);
    let mut container = pod.container_with(&volume.pod(pod.uid()));
    container.write("/data/log", Duration::from_millis(5));
    container.must_write_on(2);
    (volume, container)
}

/// Takes the disk away without a warning.
pub fn pull(volume: &Volume, container: &mut Container) {
    volume.node.verb(&["local", "yank", &volume.id]).unwrap();
    let before = container.report().errors;
    eventually("the container's writes fail", || container.report().errors > before);
}

impl Scene {
    pub fn set(node: &Node) -> Self {
        // First of all: whoever copies all mounts would copy the others' too.
        let leaked = Volume::create(node, "ext4", "64M");
        leaked.bring();
        let agent = Plan::outside().copying_all_mounts().start();
        run("umount", &[leaked.global().to_str().unwrap()]);

        let pods = [Naming::Systemd, Naming::Cgroupfs, Naming::Crio, Naming::Systemd].map(Pod::new);
        let (ok, mut well) = running(node, &pods[0], "web-0");
        well.must(&Order::Open { path: "/data/log".into() });
        let (guarded, held) = running(node, &pods[1], "orders-0");
        node.must(guarded.unpublish(pods[1].uid()));
        let message = node.fails(guarded.unstage());
        assert!(message.contains("shop/orders-0"), "{message}");
        node.fails(guarded.unstage());

        let (dead, mut cut_off) = running(node, &pods[2], "mail-0");
        pull(&dead, &mut cut_off);

        let (stale, mut behind) = running(node, &pods[3], "prometheus-0");
        pull(&stale, &mut behind);
        node.configure("[heal]\nmode = \"off\"");
        node.must(stale.attach());
        node.configure("");

        let ambiguous = Volume::create(node, "ext4", "64M");
        ambiguous.bring();
        run("losetup", &["-f", "--show", ambiguous.image().to_str().unwrap()]);

        let containers = vec![agent, well, held, cut_off, behind];
        Self { ok, guarded, leaked, stale, dead, ambiguous, pods: pods.to_vec(), containers }
    }

    /// Each volume with its health.
    pub fn each(&self) -> [(&'static str, &Volume); 6] {
        [
            ("ok", &self.ok),
            ("guarded", &self.guarded),
            ("leaked", &self.leaked),
            ("stale", &self.stale),
            ("dead", &self.dead),
            ("ambiguous", &self.ambiguous),
        ]
    }
}

/// The report, once more: kubelet forgets that the pod runs, a person tries by hand, the disk goes
/// and comes back under another letter, and kubelet remembers.
#[derive(Debug)]
pub struct Incident {
    pub volume: Volume,
    pub container: Container,
    /// The letter that the disk had.
    pub old: String,
}

impl Incident {
    pub fn happens(node: &Node, pod: &Pod) -> Self {
        let (volume, mut container) = running(node, pod, "prometheus-0");
        let old = volume.letter();
        node.must(volume.unpublish(pod.uid()));
        for _ in 0..12 {
            node.fails(volume.unstage());
        }
        node.fails(volume.detach_from("1"));
        let told = node.verb(&["history", &volume.pv]).unwrap();
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in ["still refused, for", "unmountdevice (12 times)"] {
            assert!(told.contains(word), "{word}: {told}");
        }
        pull(&volume, &mut container);
        node.must(volume.attach());
        node.must(volume.wait(""));
        node.must(volume.stage());
        publish(&volume, pod, "prometheus-0");
        Self { volume, container, old }
    }
}
