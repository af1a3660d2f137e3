//! Sections H, I, K, M and N: the views disagree, disks are many.

use super::compute::four_disks;
use super::scene::{AT_B, FOURTH, Scene};

#[test]
fn disagreement() {
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

    // The server goes, and Cinder is never told.
    let dead = scene.server.world().server_id("node-d");
    scene.server.world().attached("vol10", "node-d");
    scene.server.world().remove_server(&dead, false);
    scene.play(&["H6", "H7", "H8"]);
    let left = scene.server.world().volume_mut("vol10").attachments[0].id.clone();
    scene.call("<ATTACHMENT_H>", &left);
    scene.play(&["H9"]);

    // Nova forgets the row of a live server.
    scene.server.world().attached("vol10", "node-a");
    scene.server.world().compute_forgets("vol10", "node-a");
    scene.play(&["H10", "H11", "H12", "H13", "H15"]);
    scene.run();
    let old = scene.server.world().volume_mut("vol10").attachments[0].id.clone();
    scene.call("4324d54b-3628-4a26-b15e-18275ea2b1c9", &old);
    scene.play(&["H16"]);
    scene.close();
}

#[test]
fn multiattach() {
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
    scene.close();
}

/// Nova has a volume that Cinder knows nothing of: what a compute host leaves that came back too late.
#[test]
fn the_ghost_mapping() {
    let mut scene = Scene::new('K', &["vol12"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.compute_lists("vol12", "node-a", None);
        let row = world.server_mut("node-a").rows.last_mut().expect("just listed");
        "/dev/sdg".clone_into(&mut row.device);
    }
    scene.play(&["K1", "K2", "K4", "K5"]);
    scene.close();
}

#[test]
fn too_many_disks() {
    let mut scene = Scene::new('M', &["vol15", "vol16"]);
    scene.server.world().add_volume("at b", AT_B, 1, "demo");
    scene.server.world().attached("at b", "node-b");
    scene.server.world().settings.max_disks = Some(2);
    scene.play(&["M1", "M2", "M3"]);
    assert_eq!(scene.server.world().volume_mut("vol15").status, "available");
    scene.close();
}

#[test]
fn odds_and_ends() {
    let mut scene = Scene::new('N', &["vol20"]);
    scene.play(&["N1", "N2", "N3"]);
    scene.server.world().server_mut("node-a").task_state = Some("rebooting".to_owned());
    scene.play(&["N4"]);
    scene.close();
}
