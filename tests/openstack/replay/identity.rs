//! Section A: Keystone.

use super::scene::{FIRST, Scene};
use std::time::Duration;

#[test]
fn keystone() {
    let mut scene = Scene::new('A', &[]);
    set_up(&mut scene);
    scene.play(&["A1", "A3", "A5", "A9b", "A12", "A14", "A15", "A16", "A17"]);
    for case in ["A25", "A27"] {
        scene.play_as("wrong", case);
    }

    let lifetime = std::mem::replace(
        &mut scene.server.world().settings.token_lifetime,
        Duration::from_secs(3),
    );
    scene.play(&["A29"]);
    let short = token_of(&scene);
    scene.token("short", short);
    scene.pass(3000);
    scene.play_as("short", "A32");
    scene.server.world().settings.token_lifetime = lifetime;

    scene.play(&["A37"]);
    scene.close();
}

/// An application credential, a trust, and a volume.
fn set_up(scene: &mut Scene) {
    let (user, project, trustee) = (scene.id("USER"), scene.id("PROJECT"), scene.id("TRUSTEE"));
    let mut world = scene.server.world();
    world.add_volume("t1", FIRST, 1, "demo");
    let people = &mut world.identity;
    let credential = people.add_credential("incloud", "appsecret", &user, &project);
    let trust = people.add_trust(&user, &trustee, &project);
    let trustee = people.users.iter_mut().find(|user| user.id == trustee).expect("known");
    "demopass".clone_into(&mut trustee.password);
    drop(world);
    scene.call("<APPCRED>", &credential);
    // The trust that the recorder had created.
    scene.call("57c228b5658e4236b9478f487014caad", &trust);
}

/// The token of the last answer.
fn token_of(scene: &Scene) -> String {
    let answer = scene.last.as_ref().expect("an answer");
    answer.header("X-Subject-Token").expect("a token").to_owned()
}
