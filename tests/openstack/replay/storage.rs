//! Sections F and G: the states of a volume, and Cinder itself.

use super::compute::{four_disks, leave};
use super::scene::{FOURTH, Scene};
use crate::client::ask;

pub(super) fn volume_states() {
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
        reset_status_refusals(&scene, &title);
        scene.run();
        if scene.server.world().volume_mut("vol4").status == "in-use" {
            leave(&mut scene.server.world(), "vol4", "node-a");
        }
    }
    scene.play(&["F20"]);
    scene.play_as("admin", "F21");
    for title in scene.titles("F detach when") {
        let status = title.rsplit(' ').next().expect("a status");
        scene.server.world().volume_mut("vol5").set_status(status);
        scene.play(&[&title]);
        reset_status_refusals(&scene, &title);
    }
    scene.server.world().volume_mut("vol5").set_status("in-use");
    scene.play(&["F40"]);
    scene.close();
}

/// The notes between the cases have refusals of an admin's `os-reset_status`.
fn reset_status_refusals(scene: &Scene, title: &str) {
    for note in &scene.case(title).notes {
        let Some(rest) = note.strip_prefix("os-reset_status ") else { continue };
        let (status, body) = rest.split_once(" -> 400 ").expect("a status and a body");
        leave(&mut scene.server.world(), "vol4", "node-a");
        let token = scene.server.world().token("admin", "admin");
        let path =
            format!("/volume/v3/{}/volumes/{}/action", scene.id("ADMINPROJECT"), scene.id("VOL4"));
        let asked = format!("{{\"os-reset_status\": {{\"status\": \"{status}\"}}}}");
        let headers = [("X-Auth-Token", token.as_str())];
        let answer = ask(&scene.server.url(), "POST", &path, &headers, &asked).expect("an answer");
        let mut found = Vec::new();
        scene.compare_bodies(body, &answer.body, &mut found);
        assert!(answer.status == 400 && found.is_empty(), "{note}: {found:?}");
    }
}

pub(super) fn cinder() {
    let mut scene = Scene::new('G', &["vol6", "vol7"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        world.add_volume("fourth", FOURTH, 1, "demo");
        world.attached("fourth", "node-a");
    }
    scene.play(&["G1", "G2", "G3", "G4", "G5"]);
    let other = scene.server.world().identity.project_id("other");
    scene.call("d7c57cb2872943b1801a699a6506f253", &other);
    scene.play_as("other", "G6");
    scene.play(&["G7"]);
    scene.server.world().attached("vol6", "node-a");
    for title in scene.titles("G8 in-use") {
        scene.play(&[&title]);
    }
    let attachment = scene.server.world().volume_mut("vol6").attachments[0].id.clone();
    scene.call("<ATTACHMENT>", &attachment);
    // The same one, where the recorder has not given it a name.
    scene.call("219a8cef-06c9-4e59-85b6-d175358be396", &attachment);
    scene.play(&["G9", "G10", "G11", "G12", "G13", "G14", "G14b", "G15"]);
    scene.play_as("admin", "G16");
    scene.play(&["G17", "G18", "G19", "G20"]);
    scene.play(&["G21", "G22"]);

    // The recorded project had 11 GiB by then.
    let used: u64 = scene.server.world().storage.volumes.iter().map(|volume| volume.size).sum();
    scene.server.world().add_volume("the rest", &crate::server::ids::uuid(), 11 - used, "demo");
    scene.play(&["G23", "G24", "G25", "G26", "G27", "G28"]);
    let reserved = scene.server.world().volume_mut("vol7").attachments[0].id.clone();
    scene.call("<ATTACHMENT2>", &reserved);
    scene.play(&["G29", "G30", "G31"]);
    assert_eq!(scene.server.world().volume_mut("vol7").status, "reserved");
    scene.play(&["G32"]);
    scene.run();
    scene.play(&["G33", "G34", "G35"]);
    scene.close();
}
