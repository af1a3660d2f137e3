//! Sections B and E: Nova, and the states of a server.

use super::scene::{FIRST, SECOND, Scene, THIRD};
use crate::server::World;

#[test]
fn attach_and_detach() {
    let mut scene = Scene::new('B', &["vol1", "vol2"]);
    scene.server.world().add_volume("t1", FIRST, 1, "demo");
    scene.server.world().attached(FIRST, "node-a");
    scene.play(&["B2", "B4", "B5", "B7", "B8", "B9"]);
    scene.play_as("other", "B10");
    scene.play(&["B11", "B12", "B13", "B14"]);
    scene.run();
    scene.play(&["B16", "B17", "B21", "B23", "B24"]);
    scene.play(&["B27", "B28", "B29", "B30"]);
    scene.run();
    scene.play(&["B34", "B35"]);
    scene.play_as("other", "B48");
    scene.close();
}

#[test]
fn server_states() {
    let mut scene = Scene::new('E', &["vol4", "vol5"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.attached("vol5", "node-a");
    }
    set_state(&scene, "stopped");
    scene.play(&["E1a"]);
    scene.run();
    leave(&mut scene.server.world(), "vol4", "node-a");
    scene.play(&["E1b"]);
    scene.run();
    scene.server.world().attached("vol5", "node-a");
    set_state(&scene, "suspended");
    scene.play(&["E3a", "E3b"]);
    set_state(&scene, "active");
    scene.server.world().server_mut("node-a").locked = true;
    scene.play(&["E4a", "E4b"]);
    scene.server.world().server_mut("node-a").locked = false;
    set_state(&scene, "error");
    scene.play(&["E6a", "E6b"]);
    set_state(&scene, "shelved");
    scene.play(&["E7a", "E7b", "E7c"]);
    scene.run();
    scene.play(&["E7d", "E7f"]);
    scene.close();
}

fn set_state(scene: &Scene, state: &str) {
    state.clone_into(&mut scene.server.world().server_mut("node-a").vm_state);
}

/// The disks that server A had in the later sections: `sdb`, `sdd`, `sdc`; with a fourth the next
/// free name is `sdf`.
pub(super) fn four_disks(world: &mut World) {
    for (id, device) in [(FIRST, "/dev/sdb"), (SECOND, "/dev/sdd"), (THIRD, "/dev/sdc")] {
        world.add_volume(&id[..8], id, 1, "demo");
        world.attached(id, "node-a");
        let row = world.server_mut("node-a").rows.last_mut().expect("just attached");
        device.clone_into(&mut row.device);
    }
}

/// A volume leaves a server at once, in both views.
pub(super) fn leave(world: &mut World, volume: &str, server: &str) {
    world.compute_forgets(volume, server);
    world.storage_forgets(volume);
    world.volume_mut(volume).set_status("available");
}
