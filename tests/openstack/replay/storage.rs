//! Sections F and G: the states of a volume, and Cinder itself.

use super::compute::{four_disks, leave};
use super::scene::{FOURTH, Scene};

#[test]
fn volume_states() {
    let mut scene = Scene::new('F', &["vol4", "vol5"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.attached("vol5", "node-a");
    }
    for title in scene.titles("F attach when") {
        let status = title.rsplit(' ').next().expect("a status");
        scene.server.world().volume_mut("vol4").set_status(status);
        scene.play(&[&title]);
        scene.run();
        if scene.server.world().volume_mut("vol4").status == "in-use" {
            leave(&mut scene.server.world(), "vol4", "node-a");
        }
    }
    for title in scene.titles("F detach when") {
        let status = title.rsplit(' ').next().expect("a status");
        scene.server.world().volume_mut("vol5").set_status(status);
        scene.play(&[&title]);
    }
    scene.close();
}

#[test]
fn cinder() {
    let mut scene = Scene::new('G', &["vol6"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.add_volume("fourth", FOURTH, 1, "demo");
        world.attached("fourth", "node-a");
    }
    scene.play(&["G2", "G3"]);
    let other = scene.server.world().identity.project_id("other");
    scene.call("d7c57cb2872943b1801a699a6506f253", &other);
    scene.play_as("other", "G6");
    scene.play(&["G7"]);
    scene.server.world().attached("vol6", "node-a");
    let attachment = scene.server.world().volume_mut("vol6").attachments[0].id.clone();
    scene.call("<ATTACHMENT>", &attachment);
    // The same one, where the recorder has not given it a name.
    scene.call("219a8cef-06c9-4e59-85b6-d175358be396", &attachment);
    scene.play(&["G10", "G13", "G21", "G22"]);

    // The recorded project had 11 GiB by then.
    let used: u64 = scene.server.world().storage.volumes.iter().map(|volume| volume.size).sum();
    scene.server.world().add_volume("the rest", &crate::server::ids::uuid(), 11 - used, "demo");
    scene.play(&["G23"]);
    scene.close();
}
