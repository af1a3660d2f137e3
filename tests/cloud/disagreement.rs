//! Two of the cloud's services, or two servers, say different things of a volume.

use crate::life::{Life, PODS};
use crate::machine::Machine;
use crate::scene::{PV, Scene};
use crate::server::{Fault, Server, World};
use crate::support::{Answer, options, spawn};
use serde_json::Value;
use std::time::Duration;

const MARK: &str = "incloud-disk-mounted-on";

/// The volume is attached, and then Nova loses its record of that.
fn forgotten() -> (Scene, String) {
    let scene = Scene::of_immediate();
    scene.configure("deadline.attach = 6\ndeadline.detach = 6\ndeadline.isattached = 6");
    scene.node.must(scene.attach("node-b"));
    let server = scene.server("node-b");
    scene.cloud.world().compute_forgets("data", &server);
    // Answers are shared for a moment.
    std::thread::sleep(Duration::from_millis(1600));
    (scene, server)
}

#[test]
fn an_attachment_that_nova_forgot_is_refused_with_what_mends_it() {
    let (scene, server) = forgotten();
    for message in
        [scene.node.fails(scene.attach("node-b")), scene.node.fails(scene.detach("node-b"))]
    {
        assert!(message.contains("the compute service does not know of it"), "{message}");
        assert!(message.contains("volume attachment delete"), "{message}");
        assert!(!message.contains("guest"), "{message}");
    }
    assert_eq!(scene.attached_to(), [server.as_str()]);
    let counters = scene.cloud.counters();
    assert_eq!(counters.attaches.get(&scene.volume), Some(&1), "{counters:?}");
    // A person mends it, and it goes on.
    scene.cloud.world().storage_forgets("data");
    scene.cloud.world().volume_mut("data").set_status("available");
    scene.node.must(scene.detach("node-b"));
    scene.node.must(scene.attach("node-b"));
}

/// The service hides that its database was restored for some seconds: then it knows again.
#[test]
fn an_attachment_that_nova_knows_again_is_no_error() {
    let (scene, server) = forgotten();
    scene.configure("deadline.attach = 60");
    let (child, output) = spawn(scene.node.command(scene.attach("node-b")));
    std::thread::sleep(Duration::from_secs(3));
    let attachment = scene.cloud.world().volume_mut("data").attachments[0].id.clone();
    scene.cloud.world().compute_lists("data", &server, Some(attachment));
    let answer = Answer::finish(child, output);
    assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    scene.node.must(scene.detach("node-b"));
}

/// Both servers have the volume, and neither was told to share it.
#[test]
fn a_second_server_does_not_mount_to_write() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    life.cloud.world().volume_mut("data").multiattach = true;
    life.up(here, "ext4");
    let mark = || mark_of(&life.cloud, &life.volume);
    assert_eq!(mark().as_deref(), Some(here.server.as_str()));
    // For reading alone both may have it.
    let share = options(&life.volume, PV, "").replace('}', ",\"share\":\"read-only\"}");
    there.node.must(["attach", &share, "node-b"]);
    let message = there.stage_fails();
    assert!(message.contains(&format!("attached to server {} too", here.server)), "{message}");
    assert!(message.contains("which has it mounted"), "{message}");
    assert!(message.contains(&format!("disk detach {} {}", life.volume, here.server)), "{message}");
    assert_eq!(mark().as_deref(), Some(here.server.as_str()), "its mark is not another's");
    // The first one goes on, and its mounts are what they were.
    here.unpublish(PODS[0]);
    here.publish(PODS[0]);
    // Of a forced detach a mark may be left: alone it is no reason.
    for uid in PODS {
        here.unpublish(uid);
    }
    here.unstage();
    here.node.verb(&["detach", "--force", PV, "node-a"]).unwrap();
    let left = Value::from(here.server.clone());
    life.cloud.world().volume_mut("data").metadata.insert(MARK.to_owned(), left);
    there.stage();
    assert_eq!(mark().as_deref(), Some(there.server.as_str()));
    there.unstage();
    there.node.must(["detach", &life.volume, "node-b"]);
}

/// Without the cloud's word a volume that one server alone can have is mounted.
#[test]
fn a_silent_cloud_holds_up_no_mount_of_a_volume_of_one_server() {
    needs!(mounts, seams);
    of_a_silent_cloud(false, |here| {
        here.stage();
        here.unstage();
    });
}

/// And no other: the cloud must say that no second server has it.
#[test]
fn a_silent_cloud_holds_up_the_mount_of_a_volume_that_others_may_have() {
    needs!(mounts, seams);
    of_a_silent_cloud(true, |here| {
        let message = here.stage_fails();
        assert!(message.contains("whether another server has volume"), "{message}");
    });
}

/// What is done while the cloud is silent.
fn of_a_silent_cloud(is_shareable: bool, meanwhile: impl FnOnce(&Machine)) {
    let life = Life::new("ext4");
    let here = &life.here;
    life.cloud.world().volume_mut("data").multiattach = is_shareable;
    here.mount_volume();
    here.unstage();
    life.cloud.fault(Fault::on("*", "/**").always().proxy(503));
    meanwhile(here);
}

fn mark_of(cloud: &Server, volume: &str) -> Option<String> {
    let world = cloud.world();
    let found = world.storage.volume(volume).unwrap().metadata.get(MARK);
    found.and_then(Value::as_str).map(str::to_owned)
}

/// A server that starts from a volume has one that this driver knows nothing of.
#[test]
fn the_volume_that_a_server_starts_from_is_meant_by_no_name() {
    let scene = Scene::of_immediate();
    let server = scene.server("node-b");
    scene.cloud.world().attached("data", "node-b");
    let name = "5e0cbd34-7a6c-4e0f-8d5b-0a3c1f2b4d6e";
    let message = scene.node.fails(["detach", name, "node-b"]);
    assert!(message.contains(&scene.volume), "a stranger may be meant: {message}");
    let root = Some("/dev/vda".to_owned());
    scene.cloud.world().volume_mut("data").attachments[0].device = root;
    scene.node.must(["detach", name, "node-b"]);
    assert_eq!(scene.attached_to(), [server.as_str()]);
}

/// What was seen last is told first, not that the time is over.
#[test]
fn a_deadline_tells_what_was_seen_before_it() {
    let scene = Scene::of(World::demo());
    scene.configure("deadline.attach = 3\ndeadline.detach = 3");
    // Stuck, and then the services say nothing more.
    let server = scene.server("node-b");
    scene.cloud.world().storage_lists("data", &server, "attaching");
    scene.cloud.world().compute_lists("data", &server, None);
    scene.cloud.world().volume_mut("data").set_status("attaching");
    let by_id = ["detach".to_owned(), scene.volume.clone(), "node-b".to_owned()];
    for (call, looks) in [(scene.attach("node-b"), 3), (by_id, 5)] {
        let silent = Fault::on("GET", "/volumes/*").nth(looks).always();
        scene.cloud.fault(silent.delay(Duration::from_secs(20)));
        let message = scene.node.fails(call);
        scene.cloud.world().faults.clear();
        let place = message.find(" was attaching").or_else(|| message.find("still attaching"));
        assert!(place.is_some_and(|at| at < 120), "{message}");
    }
    // The service gives a reason, and then none.
    let scene = Scene::of(World::demo());
    scene.configure("deadline.isattached = 3");
    scene.cloud.fault(Fault::on("GET", "/volumes/*").reply(
        500,
        serde_json::json!({"computeFault": {"message": "the database is gone", "code": 500}}),
    ));
    scene
        .cloud
        .fault(Fault::on("GET", "/volumes/*").nth(1).always().delay(Duration::from_secs(20)));
    let message = scene.node.fails(scene.is_attached("node-b"));
    assert!(message.contains("the database is gone; then"), "{message}");
}
