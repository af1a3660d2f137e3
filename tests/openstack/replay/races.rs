//! Sections C, D, L and O: what overlaps, what fails after the answer, what takes long.

use super::compute::{four_disks, leave};
use super::document::Racer;
use super::scene::{Scene, THIRD};
use crate::client::{Answer, Connection};
use crate::server::Failure;

#[test]
fn transitions() {
    let mut scene = Scene::new('C', &["vol3"]);
    two_disks(&scene);
    scene.play(&["C1"]);
    scene.pass(100);
    scene.play(&["C2", "C3", "C6"]);
    scene.run();
    scene.play(&["C8", "C9", "C12"]);
    scene.run();
    scene.play(&["C15", "C16"]);
    leave(&mut scene.server.world(), "vol3", "node-b");

    // Both pass Nova's look at its own rows before either has made one.
    scene.server.world().settings.delays.reserve = 10;
    let answers = race(&scene, ["SERVER_B", "SERVER_A"]);
    end_race(&mut scene, "C17", answers);
    scene.run();
    leave(&mut scene.server.world(), "vol3", "node-b");
    let answers = race(&scene, ["SERVER_A", "SERVER_A"]);
    end_race(&mut scene, "C20", answers);
    scene.run();
    let answers = [detach(&scene), detach(&scene)];
    end_race(&mut scene, "C22", answers);
    scene.run();
    scene.close();
}

fn two_disks(scene: &Scene) {
    let mut world = scene.server.world();
    four_disks(&mut world);
    leave(&mut world, THIRD, "node-a");
}

/// Two attaches of VOL3 that overlap; the first one to come is a millisecond ahead.
fn race(scene: &Scene, servers: [&str; 2]) -> [Answer; 2] {
    let connections = servers.map(|server| {
        let before = scene.server.world().hosts.operations.len();
        let mut connection = Connection::open(&scene.server.url()).expect("the server");
        let volume = scene.id("VOL3");
        let body = format!("{{\"volumeAttachment\": {{\"volumeId\": \"{volume}\"}}}}");
        let path = format!("/compute/v2.1/servers/{}/os-volume_attachments", scene.id(server));
        let token = scene.server.world().token("demo", "demo");
        connection.send("POST", &path, &[("X-Auth-Token", &token)], &body).expect("sent");
        scene.wait_for_operations(before + 1);
        scene.pass(1);
        connection
    });
    scene.pass(8);
    let [mut first, mut second] = connections;
    let first = first.receive().expect("an answer");
    scene.pass(20);
    [first, second.receive().expect("an answer")]
}

fn detach(scene: &Scene) -> Answer {
    let token = scene.server.world().token("demo", "demo");
    let (server, volume) = (scene.id("SERVER_A"), scene.id("VOL3"));
    let path = format!("/compute/v2.1/servers/{server}/os-volume_attachments/{volume}");
    let mut connection = Connection::open(&scene.server.url()).expect("the server");
    connection.ask("DELETE", &path, &[("X-Auth-Token", &token)], "").expect("an answer")
}

/// Compares two answers with the recorded two; who of them was first is not recorded.
fn end_race(scene: &mut Scene, name: &str, mut answers: [Answer; 2]) {
    let case = scene.case(name);
    let mut recorded: Vec<&Racer> = case.race.iter().collect();
    recorded.sort_by_key(|racer| racer.status);
    answers.sort_by_key(|answer| answer.status);
    for (recorded, answer) in recorded.iter().zip(&answers) {
        let mut found = Vec::new();
        if recorded.status != answer.status {
            found.push(format!("status: recorded {}, ours {}", recorded.status, answer.status));
        }
        scene.compare_bodies(&recorded.reply, &answer.body, &mut found);
        assert!(
            found.is_empty(),
            "{}: {} {}: {found:?}",
            case.title,
            recorded.method,
            recorded.path
        );
    }
    scene.played(&case);
}

#[test]
fn failures() {
    let mut scene = Scene::new('D', &["vol3"]);
    two_disks(&scene);
    let volume = scene.id("VOL3");
    scene.server.plan(Failure::AttachDriver, &volume);
    scene.play(&["D1"]);
    let request = scene.last.as_ref().and_then(|answer| answer.header("X-Openstack-Request-Id"));
    let request = request.expect("an id").to_owned();
    scene.call("req-a3dc6d5d-d77d-48c9-8016-c76bf6982c27", &request);
    scene.play(&["D2", "D3", "D4"]);
    scene.server.world().attached("vol3", "node-a");
    scene.server.plan(Failure::DetachDriver, &volume);
    scene.play(&["D9", "D10"]);
    scene.close();
}

/// The client sends an attach and hangs up: it is done all the same.
#[test]
fn client_gives_up() {
    let mut scene = Scene::new('L', &["vol14", "vol15", "vol16"]);
    {
        let mut world = scene.server.world();
        four_disks(&mut world);
        for (name, device) in [("vol15", "/dev/sde"), ("vol16", "/dev/sdf")] {
            world.attached(name, "node-a");
            let row = world.server_mut("node-a").rows.last_mut().expect("just attached");
            device.clone_into(&mut row.device);
        }
        world.add_volume("seventh", SEVENTH, 1, "demo");
        world.attached("seventh", "node-a");
    }
    let case = scene.case("L2");
    let (connection, watch) = scene.begin("demo", &case);
    drop(connection);
    let watch = watch.expect("a volume");
    let taken = scene.server.wait_until(std::time::Duration::from_secs(10), |world| {
        world.storage.volumes.iter().any(|volume| volume.status == "reserved")
    });
    assert!(taken, "the request came in");
    scene.run();
    assert_eq!(watch.passed(&scene), ["available", "reserved", "attaching", "in-use"]);
    scene.play(&["L1", "L2"]);
    scene.close();
}

const SEVENTH: &str = "77777777-7777-4777-8777-777777777777";

/// One server's operations queue at its host.
#[test]
fn slow_host() {
    let mut scene = Scene::new('O', &["vol30", "vol31", "vol32"]);
    {
        let mut world = scene.server.world();
        world.attached("vol32", "node-a");
        world.settings.delays.attaching = 20_000;
        world.settings.delays.detaching = 15_000;
    }
    scene.play(&["O1"]);
    let second = scene.case("O2");
    let (mut connection, watch) = scene.begin("demo", &second);
    scene.wait_for_operations(2);
    scene.pass(19_000);
    let waiting = scene.server.world().volume_mut("vol31").status.clone();
    assert_eq!(waiting, "available", "the second attach waits for the first");
    scene.pass(1_200);
    let answer = connection.receive().expect("an answer");
    scene.end(&second, answer);
    scene.run();
    assert_eq!(watch.expect("a volume").passed(&scene).last().map(String::as_str), Some("in-use"));

    let begun = scene.server.world().clock.now();
    scene.play(&["O3", "O4"]);
    scene.run();
    // Two detaches of 15 s one after the other, and the end of each row.
    let took = scene.server.world().clock.now().saturating_sub(begun);
    assert!((30_000..30_100).contains(&took.as_millis()), "{took:?}");
    scene.close();
}
