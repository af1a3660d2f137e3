//! A node with one volume of each health.

use crate::checks::{eventually, number_of};
use crate::holders::run;
use crate::scene::{Scene, publish, scene};
use crate::support::Node;
use crate::support::pods::{Container, Naming, Order, Plan, Pod};
use crate::volume::Volume;

/// The volumes, and the processes that make them what they are.
#[derive(Debug)]
pub struct Healths {
    pub ok: Volume,
    pub guarded: Volume,
    pub leaked: Volume,
    pub stale: Volume,
    pub dead: Volume,
    pub ambiguous: Volume,
    /// The number of the disk that died and did not come back.
    pub dead_number: String,
    pub pods: Vec<Pod>,
    pub containers: Vec<Container>,
}

/// Takes the disk away without a warning.
pub fn pull(volume: &Volume, container: &mut Container) {
    volume.node.verb(&["local", "yank", &volume.id]).unwrap();
    let before = container.report().errors;
    eventually("the container's writes fail", || container.report().errors > before);
}

impl Healths {
    pub fn set(node: &Node) -> Self {
        // First of all: a copy of all mounts would have the others' too.
        let leaked = Volume::create(node, "ext4", "64M");
        leaked.bring();
        let agent = Plan::outside().copying_all_mounts().start();
        run("umount", &[leaked.global().to_str().unwrap()]);

        let start = |name, naming| scene().on(node).called(name).named(naming).start();
        let Scene { volume: ok, pod: web, container: mut well, .. } =
            start("web-0", Naming::Systemd);
        well.must(&Order::Open { path: "/data/log".into() });
        let Scene { volume: guarded, pod: orders, container: held, .. } =
            start("orders-0", Naming::Cgroupfs);
        node.must(guarded.unpublish(orders.uid()));
        let message = node.fails(guarded.unstage());
        assert!(message.contains("shop/orders-0"), "{message}");
        node.fails(guarded.unstage());

        let Scene { volume: dead, pod: mail, container: mut cut_off, .. } =
            start("mail-0", Naming::Crio);
        let dead_number = number_of(&dead.letter()).to_string();
        pull(&dead, &mut cut_off);

        let Scene { volume: stale, pod: metrics, container: mut behind, .. } =
            start("prometheus-0", Naming::Systemd);
        pull(&stale, &mut behind);
        node.configure("[heal]\nmode = \"off\"");
        node.must(stale.attach());
        node.configure("");

        let ambiguous = Volume::create(node, "ext4", "64M");
        ambiguous.bring();
        run("losetup", &["-f", "--show", ambiguous.image().to_str().unwrap()]);

        let containers = vec![agent, well, held, cut_off, behind];
        Self {
            ok,
            guarded,
            leaked,
            stale,
            dead,
            ambiguous,
            dead_number,
            pods: vec![web, orders, mail, metrics],
            containers,
        }
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
    pub pod: Pod,
    pub container: Container,
}

impl Incident {
    pub fn happens(node: &Node) -> Self {
        let Scene { volume, pod, mut container, .. } =
            scene().on(node).called("prometheus-0").start();
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
        publish(&volume, &pod, "prometheus-0");
        Self { volume, pod, container }
    }
}
