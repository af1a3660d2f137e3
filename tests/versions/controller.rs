//! The controller-manager and the nodes are upgraded one after the other: they share the cloud and nothing else.

use crate::checks::{eventually, layers_at};
use crate::killed::is_killed_at;
use crate::machine::Machine;
use crate::previous::{ORDERS, Version, driven_by};
use crate::scene::{PV, configure};
use crate::server::{Delays, Fault};
use crate::support::{Node, options, spawn};
use crate::two_servers::{Life, PODS, nothing_is_left};
use serde_json::Value;
use std::fs;

/// Where the cloud is told that the volume is mounted.
const MARK: &str = "incloud-disk-mounted-on";

fn mark(life: &Life) -> Option<String> {
    let world = life.cloud.world();
    let volume = world.storage.volume(&life.volume).unwrap();
    volume.metadata.get(MARK).and_then(Value::as_str).map(str::to_owned)
}

/// A node of one version; the controller, which is elsewhere, and the other node of another one.
pub fn two_servers([node, controller]: [Version; 2]) -> Life {
    let scene = Node::new();
    let neighbour = driven_by(&scene.neighbour("node-b"), [controller]);
    Life::on(driven_by(&scene, [node]), neighbour, "ext4")
}

fn attach_to(life: &Life, node: &str) -> [String; 3] {
    ["attach".to_owned(), options(&life.volume, PV, "ext4"), node.to_owned()]
}

fn detach_from(node: &str) -> [&str; 3] {
    ["detach", PV, node]
}

#[test]
fn the_controller_and_the_node_are_of_different_versions() {
    needs!(mounts, seams, previous);
    for order in ORDERS {
        let life = two_servers(order);
        let (here, there) = (&life.here, &life.there);
        let controller = &there.node;
        controller.must(attach_to(&life, "node-a"));
        assert!(here.is_attached(&here.node) && there.is_attached(&here.node));
        here.wait("");
        here.stage();
        here.publish(PODS[0]);
        crate::files::write_synced(&here.pod(PODS[0]).join("kept"), b"from before");
        assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));

        // Six minutes later, by force, and for another node.
        let message = controller.fails(detach_from("node-a"));
        assert!(message.contains(&here.server), "{message}");
        controller.fails(attach_to(&life, "node-b"));
        assert_eq!(life.attached_to(), [here.server.as_str()]);

        here.unpublish(PODS[0]);
        here.unstage();
        assert_eq!(mark(&life), None);
        controller.must(detach_from("node-a"));
        assert!(life.attached_to().is_empty());

        // The other node finds the data, and its mark counts for this one.
        there.mount_volume();
        assert_eq!(crate::files::read(there.global().join("kept")).unwrap(), b"from before");
        here.node.fails(detach_from("node-b"));
        assert!(here.attach_fails().contains("node-b"));
        there.unstage();
        here.node.must(detach_from("node-b"));
    }
}

/// Each call is made twice, by one version and then by the other, and both answers must be the same.
#[test]
fn both_versions_on_one_server_give_the_same_answers() {
    needs!(mounts, seams, previous);
    for order in ORDERS {
        let node = driven_by(&Node::new(), order);
        let neighbour = node.neighbour("node-b");
        let life = Life::on(node, driven_by(&neighbour, order), "ext4");
        for machine in [&life.here, &life.there, &life.here] {
            life.up(machine, "ext4");
            assert_eq!(mark(&life).as_deref(), Some(machine.server.as_str()));
            life.down(machine);
            assert_eq!(mark(&life), None);
        }
        nothing_is_left(&life);
    }
}

/// The same server with the driver of another version.
fn replaced(life: &Life, machine: &Machine, version: Version) -> Machine {
    let node = driven_by(&machine.node, [version]);
    Machine::of(node, &life.cloud, &life.plug, &life.volume, "ext4")
}

/// What one version owes the cloud the other one's timer pays.
#[test]
fn a_mark_that_one_version_owes_is_left_and_taken_back_by_the_other() {
    needs!(mounts, seams, previous);
    for [first, second] in ORDERS {
        let life = two_servers([first, second]);
        let (here, there) = (&life.here, &life.there);
        let next = replaced(&life, here, second);
        here.bring_disk();
        // The cloud does not take the mark.
        let marking = || Fault::on("POST", "/volumes/*/metadata").containing("mounted-on");
        life.cloud.fault(marking().times(99).proxy(502));
        here.stage();
        assert_eq!(mark(&life), None);
        life.cloud.world().faults.clear();
        let run = here.node.own().join(format!("run/boot/{}.json", life.volume));
        let mut record: Value = serde_json::from_slice(&fs::read(&run).unwrap()).unwrap();
        // Ten minutes pass.
        assert!(record["mark_asked_at"].is_u64(), "{record}");
        record.as_object_mut().unwrap().remove("mark_asked_at");
        fs::write(&run, record.to_string()).unwrap();
        next.verb(&["heal"]);
        assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
        here.unstage();
        assert_eq!(mark(&life), None);

        // It takes it, but the call that asked is killed and the node restarts.
        here.stage_killed_at("mark.left");
        nix::mount::umount(&here.global()).unwrap();
        fs::remove_dir_all(here.node.own().join("run")).unwrap();
        assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
        there.node.fails(detach_from("node-a"));
        next.verb(&["heal"]);
        assert_eq!(mark(&life), None);

        // It takes it, and the call that asked is killed; the other version unmounts.
        here.stage_killed_at("mark.left");
        next.unstage();
        assert_eq!((mark(&life), layers_at(&here.global())), (None, 0));
        there.node.must(detach_from("node-a"));
    }
}

/// Controllers of both versions, one after the other with the same state directory, and a node.
fn upgraded_controller(order: [Version; 2]) -> (Life, [Node; 2]) {
    let life = two_servers(order);
    let controllers = order.map(|version| {
        let node = driven_by(&life.there.node, [version]);
        configure(&node, &life.cloud, "");
        node
    });
    (life, controllers)
}

#[test]
fn a_controller_killed_at_any_step_is_replaced_by_the_other_version() {
    needs!(mounts, seams, previous);
    for order in ORDERS {
        let (life, [first, second]) = upgraded_controller(order);
        life.cloud.world().settings.delays = Delays::none();
        let attach = attach_to(&life, "node-a");
        let mut steps = [0; 2];
        loop {
            let nth = steps[0].max(steps[1]) + 1;
            let attach_is_killed = is_killed_at(first.command(&attach), nth, &first);
            second.must(&attach);
            assert_eq!(life.attached_to(), [life.here.server.as_str()], "step {nth}");
            let detach_is_killed = is_killed_at(first.command(detach_from("node-a")), nth, &first);
            second.must(detach_from("node-a"));
            assert!(life.attached_to().is_empty(), "step {nth}");
            steps[0] += usize::from(attach_is_killed);
            steps[1] += usize::from(detach_is_killed);
            if !attach_is_killed && !detach_is_killed {
                break;
            }
        }
        println!("{order:?}: attach killed at {} steps, detach at {}", steps[0], steps[1]);
        assert!(steps.iter().all(|steps| *steps > 3), "{steps:?}");
    }
}

/// The cloud has it in a queue and does not show it yet. The other controller knows of the request, and of the name of
/// the volume, from the cloud alone.
#[test]
fn an_attach_that_one_version_asked_for_is_undone_by_the_other() {
    needs!(mounts, seams, previous);
    for order in ORDERS {
        let (life, [first, second]) = upgraded_controller(order);
        life.cloud.world().settings.delays.reserve = 4_000;
        let (mut call, _output) = spawn(first.command(attach_to(&life, "node-a")));
        eventually("the attach is asked for", || {
            life.cloud.counters().attaches.contains_key(&life.volume)
        });
        call.kill().unwrap();
        call.wait().unwrap();
        assert!(life.attached_to().is_empty(), "it came too early for this test");
        fs::remove_dir_all(first.own().join("state")).unwrap();
        second.must(detach_from("node-a"));
        assert_eq!(life.cloud.counters().detaches.get(&life.volume), Some(&1));
        eventually("the cloud is done", || life.cloud.world().hosts.is_idle());
        assert!(life.attached_to().is_empty());
    }
}
