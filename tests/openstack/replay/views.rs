//! Sections H, I, J with K, M and N: the views disagree, services are down, disks are many.

use super::compute::{four_disks, leave};
use super::scene::{AT_B, FOURTH, Scene};
use crate::server::Host;

pub(super) fn disagreement() {
    let mut scene = Scene::new('H', &["vol10", "vol11"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.add_volume("fourth", FOURTH, 1, "demo");
        world.attached("fourth", "node-a");
        for name in ["node-c", "node-d"] {
            world.add_server(name, &crate::server::ids::uuid(), "demo");
        }
    }
    for (name, server) in [("<NODE-C>", "node-c"), ("<NODE-D>", "node-d")] {
        let id = scene.server.world().server_id(server);
        scene.call(name, &id);
    }
    "building".clone_into(&mut scene.server.world().server_mut("node-c").vm_state);
    scene.play(&["H1"]);
    "active".clone_into(&mut scene.server.world().server_mut("node-c").vm_state);
    scene.server.world().attached("vol10", "node-c");
    scene.play(&["H2"]);
    assert_eq!(scene.server.world().volume_mut("vol10").status, "in-use");
    scene.run();
    assert_eq!(scene.server.world().volume_mut("vol10").status, "available");
    scene.play(&["H3", "H4", "H5"]);

    // The server goes, and Cinder is never told.
    let dead = scene.server.world().server_id("node-d");
    scene.server.world().attached("vol10", "node-d");
    scene.server.world().remove_server(&dead, false);
    scene.play(&["H6", "H7", "H8"]);
    let left = scene.server.world().volume_mut("vol10").attachments[0].id.clone();
    scene.call("<ATTACHMENT_H>", &left);
    scene.play(&["H9"]);

    // Nova forgets the row of a live server.
    let forgotten = |scene: &Scene| {
        let mut world = scene.server.world();
        world.attached("vol10", "node-a");
        let row = world.server_mut("node-a").rows.last().expect("just attached").clone();
        world.volume_mut("vol10").attachments[0].device = Some(row.device);
        world.compute_forgets("vol10", "node-a");
    };
    forgotten(&scene);
    scene.play(&["H10", "H11", "H12", "H13", "H14"]);
    forgotten(&scene);
    scene.play(&["H15"]);
    scene.run();
    let old = scene.server.world().volume_mut("vol10").attachments[0].id.clone();
    scene.call("4324d54b-3628-4a26-b15e-18275ea2b1c9", &old);
    scene.play(&["H16", "H17", "H18", "H19", "H20"]);
    scene.play(&["H21", "H22", "H23"]);
    scene.close();
}

pub(super) fn multiattach() {
    let mut scene = Scene::new('I', &["mvol"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.add_volume("fourth", FOURTH, 1, "demo");
        world.attached("fourth", "node-a");
        world.add_volume("at b", AT_B, 1, "demo");
        world.attached("at b", "node-b");
        let shared = world.volume_mut("mvol");
        shared.multiattach = true;
        "multi".clone_into(&mut shared.kind);
    }
    scene.play(&["I1", "I2"]);
    scene.run();
    scene.play(&["I3"]);
    scene.run();
    scene.play(&["I4", "I5", "I6"]);
    scene.run();
    let left = scene.server.world().volume_mut("mvol").clone();
    assert_eq!(
        (left.status.as_str(), left.servers()),
        ("in-use", vec![scene.id("SERVER_B").as_str()])
    );
    scene.play(&["I7"]);
    scene.run();
    assert_eq!(scene.server.world().volume_mut("mvol").status, "available");
    scene.close();
}

/// J and K are one story: the host is down, and the ghost that comes of it.
pub(super) fn services_down() {
    let mut scene = Scene::new('J', &["vol12", "vol13"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.add_volume("fourth", FOURTH, 1, "demo");
        world.attached("fourth", "node-a");
        world.attached("vol13", "node-a");
    }
    scene.server.world().settings.storage_down = true;
    scene.play(&["J1", "J2", "J3"]);
    scene.server.world().settings.storage_down = false;
    let server = scene.id("SERVER_A");
    scene.server.world().set_host(&server, Host::Dead);
    let waits = |scene: &mut Scene, name: &str, operations: usize| {
        let case = scene.case(name);
        let (mut connection, _) = scene.begin("demo", &case, &[]);
        scene.wait_for_operations(operations);
        scene.pass(60_000);
        let answer = connection.receive().expect("an answer");
        scene.end(&case, answer);
    };
    waits(&mut scene, "J4", 1);
    scene.play(&["J5"]);
    scene.server.world().set_host(&server, Host::Down);
    waits(&mut scene, "J6", 2);
    scene.play(&["J7", "J7b"]);
    scene.server.world().set_host(&server, Host::Up);
    scene.run();
    scene.play(&["J8"]);
    scene.next_section('K');
    scene.play(&["K1", "K2", "K3", "K4", "K5", "K6", "K7"]);
    assert_eq!(scene.server.world().volume_mut("vol12").status, "in-use");
    scene.play(&["K8", "K9", "K10", "K11"]);
    scene.close();
}

pub(super) fn too_many_disks() {
    let mut scene = Scene::new('M', &["vol15", "vol16"]);
    scene.server.world().add_volume("at b", AT_B, 1, "demo");
    scene.server.world().attached("at b", "node-b");
    scene.server.world().settings.max_disks = Some(2);
    scene.play(&["M1", "M2", "M3"]);
    assert_eq!(scene.server.world().volume_mut("vol15").status, "available");
    scene.close();
}

pub(super) fn odds_and_ends() {
    let mut scene = Scene::new('N', &["vol20"]);
    scene.play(&["N1", "N2", "N3"]);
    let task = |scene: &Scene, task: Option<&str>| {
        scene.server.world().server_mut("node-a").task_state = task.map(str::to_owned);
    };
    task(&scene, Some("rebooting"));
    scene.play(&["N4"]);
    task(&scene, None);
    // The transcript does not print the header of old, the case is about nothing else.
    let case = scene.case("N5");
    let old = [("X-OpenStack-Nova-API-Version", "2.79")];
    let (mut connection, _) = scene.begin("demo", &case, &old);
    let answer = connection.receive().expect("an answer");
    scene.end(&case, answer);
    scene.run();
    task(&scene, Some("rebooting_hard"));
    scene.play(&["N6"]);
    task(&scene, None);
    leave(&mut scene.server.world(), "vol20", "node-a");
    scene.play(&["N7", "N8", "N9"]);
    scene.close();
}
