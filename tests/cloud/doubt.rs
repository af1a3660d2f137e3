//! "Not found" and silence are no proof that a volume is detached.

use crate::scene::{PV, Scene};
use crate::server::compute::Server;
use crate::server::{Cut, Fault, World};
use crate::support::options;
use std::fs;
use std::time::{Duration, Instant};

/// Replaces the credentials of the node by those of another project.
fn use_project_other(scene: &Scene) {
    for path in scene.node.config_paths() {
        let text = fs::read_to_string(path).unwrap();
        let text = text.replace("\"demo\"", "\"other\"").replace("\"demopass\"", "\"otherpass\"");
        fs::write(path, text).unwrap();
    }
}

/// What no call may conclude where neither volume nor server is visible.
#[track_caller]
fn everything_is_in_doubt(scene: &Scene, node: &str, named: [&str; 2]) {
    let by_id = ["detach".to_owned(), scene.volume.clone(), node.to_owned()];
    let exactly = ["detach".to_owned(), format!("id:{}", scene.volume), node.to_owned()];
    for call in [scene.is_attached(node), scene.detach(node), by_id, exactly] {
        let message = scene.node.fails(call);
        assert!(named.iter().all(|part| message.contains(part)), "{message}");
        assert!(message.contains("check the project and the region"), "{message}");
    }
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
}

#[test]
fn credentials_of_another_project_prove_nothing() {
    let scene = Scene::of_immediate();
    scene.node.must(scene.attach("node-b"));
    let id = scene.server("node-b");
    use_project_other(&scene);
    everything_is_in_doubt(&scene, "node-b", ["project other", "every region"]);
    scene.configure(&format!("node.servers = {{ \"node-b\" = {id:?} }}"));
    use_project_other(&scene);
    everything_is_in_doubt(&scene, "node-b", ["project other", "every region"]);
    scene.configure(&format!("node.server_id = {:?}", scene.server("node-a")));
    use_project_other(&scene);
    everything_is_in_doubt(&scene, &id, ["project other", "every region"]);
    scene.configure("");
    scene.node.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
}

#[test]
fn a_wrong_region_proves_nothing() {
    let mut world = World::demo();
    world.settings.regions = vec!["North".to_owned(), "South".to_owned()];
    let scene = Scene::of(world);
    for name in ["node-a", "node-b"] {
        "South".clone_into(&mut scene.cloud.world().server_mut(name).region);
    }
    "South".clone_into(&mut scene.cloud.world().volume_mut("data").region);
    scene.configure("openstack.region = \"South\"");
    scene.node.must(scene.attach("node-b"));
    scene.configure("openstack.region = \"North\"");
    everything_is_in_doubt(&scene, "node-b", ["project demo", "region North"]);
    let id = scene.server("node-b");
    everything_is_in_doubt(&scene, &id, ["project demo", "region North"]);
    // The region of the option binds as well.
    scene.configure("openstack.region = \"South\"");
    let plain = options(&scene.volume, PV, "");
    let north = plain.replace(",\"volumeID\"", ",\"region\":\"North\",\"volumeID\"");
    let message = scene.node.fails(["isattached", &north, "node-b"]);
    assert!(message.contains("region North"), "{message}");
    scene.node.must(scene.detach("node-b"));
}

/// What was really deleted still comes to its end, by the other half of the pair or this machine's own server.
#[test]
fn a_deleted_server_or_volume_still_comes_to_its_end() {
    for written in [false, true] {
        let scene = Scene::of_immediate();
        let id = scene.server("node-b");
        if written {
            scene.configure(&format!(
                "node.server_id = {:?}\nnode.servers = {{ \"node-b\" = {id:?} }}",
                scene.server("node-a")
            ));
        }
        let ends = |scene: &Scene| {
            assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], false);
            scene.node.must(scene.detach("node-b"));
            scene.node.must(["detach", &format!("id:{}", scene.volume), "node-b"]);
        };
        // The server is deleted, and the volume visible.
        scene.node.must(scene.attach("node-b"));
        scene.cloud.world().remove_server(&id, true);
        while !scene.attached_to().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        ends(&scene);
        // Both are.
        let volume = scene.volume.clone();
        scene.cloud.world().storage.volumes.retain(|one| one.id != volume);
        ends(&scene);
        // The volume alone.
        scene.cloud.world().add_server("node-b", &id, "demo");
        ends(&scene);
        // Even the machine's own server is: by the server that the volume was at.
        let own = scene.server("node-a");
        scene.cloud.world().remove_server(&own, true);
        ends(&scene);
        scene.cloud.world().remove_server(&id, true);
        std::thread::sleep(Duration::from_millis(1600));
        scene.node.fails(scene.detach("node-b"));
        scene.node.fails(scene.is_attached("node-b"));
    }
}

/// An operator resets the status of an attached volume. A detach from another node takes no name away, so that a machine
/// that remembers nothing still finds the volume.
#[test]
fn a_mapping_at_the_recorded_server_keeps_the_name() {
    for by_mark in [false, true] {
        let scene = Scene::of_immediate();
        scene.configure("deadline.detach = 4");
        scene.node.must(scene.attach("node-b"));
        let server = scene.server("node-b");
        {
            let mut world = scene.cloud.world();
            world.storage_forgets("data");
            let volume = world.volume_mut("data");
            volume.set_status("available");
            if by_mark {
                volume.metadata.remove("incloud-disk-tenure");
                volume.metadata.insert("incloud-disk-mounted-on".to_owned(), server.into());
            }
        }
        scene.neighbour("node-c").must(scene.detach("node-a"));
        // A name without a server may be that server's node.
        scene.neighbour("node-c").fails(scene.detach("node-x"));
        let controller = scene.neighbour("controller");
        crate::scene::configure(&controller, &scene.cloud, "deadline.detach = 4");
        let message = controller.fails(scene.detach("node-b"));
        assert!(message.contains("maps volume"), "{message}");
        // The mapping goes, and then the name.
        scene.cloud.world().compute_forgets("data", "node-b");
        controller.must(scene.detach("node-b"));
        let world = scene.cloud.world();
        let metadata = &world.storage.volume(&scene.volume).unwrap().metadata;
        assert!(!metadata.contains_key("incloud-disk-name"), "{metadata:?}");
    }
}

/// A server without a host finishes no attach, and gives its volumes back at once when asked.
#[test]
fn a_shelved_server_gives_its_volume_back() {
    for attached_before in [true, false] {
        let scene = Scene::of_immediate();
        scene.configure("deadline.attach = 2\ndeadline.detach = 6");
        if attached_before {
            scene.node.must(scene.attach("node-b"));
        }
        scene.cloud.world().shelve_offloaded("node-b");
        if !attached_before {
            let message = scene.node.fails(scene.attach("node-b"));
            assert!(message.contains("still reserved"), "{message}");
        }
        assert_eq!(scene.cloud.world().volume_mut("data").status, "reserved");
        // The outcome of what was asked for is known: only the host is missing.
        scene.node.must(scene.detach("node-b"));
        assert_eq!(scene.cloud.counters().detaches.get(&scene.volume), Some(&1));
        scene.node.must(scene.attach("node-a"));
        assert_eq!(scene.attached_to(), [scene.server("node-a")]);
    }
}

/// What Nova refuses for the server's state is told at once, with what ends the state; the next call may go on.
#[test]
fn a_state_of_the_server_that_waiting_cannot_end_fails_at_once() {
    type Change = fn(&mut Server);
    let states: [(Change, &str); 6] = [
        (|server| server.locked = true, "openstack server unlock"),
        (|server| "suspended".clone_into(&mut server.vm_state), "openstack server resume"),
        (|server| "rescued".clone_into(&mut server.vm_state), "openstack server unrescue"),
        (|server| "error".clone_into(&mut server.vm_state), "only an operator"),
        (|server| server.task_state = Some("migrating".to_owned()), "ends by itself"),
        (|server| server.task_state = Some("rebooting".to_owned()), "ends by itself"),
    ];
    for (change, advice) in states {
        let scene = Scene::of_immediate();
        for is_attach in [true, false] {
            if !is_attach {
                scene.node.must(scene.attach("node-b"));
            }
            change(scene.cloud.world().server_mut("node-b"));
            let call = if is_attach { scene.attach("node-b") } else { scene.detach("node-b") };
            let message = fails_at_once(&scene, call);
            assert!(message.contains(advice) && message.contains("409"), "{message}");
            let mut world = scene.cloud.world();
            let server = world.server_mut("node-b");
            "active".clone_into(&mut server.vm_state);
            (server.locked, server.task_state) = (false, None);
        }
        scene.node.must(scene.detach("node-b"));
        assert!(scene.attached_to().is_empty());
    }
}

#[test]
fn the_volume_that_a_server_boots_from_is_refused_at_once() {
    let scene = Scene::of_immediate();
    {
        let mut world = scene.cloud.world();
        world.attached("data", "node-b");
        world.volume_mut("data").attachments[0].device = Some("/dev/vda".to_owned());
        world.server_mut("node-b").rows[0].device = "/dev/vda".to_owned();
    }
    for name in [scene.volume.clone(), format!("id:{}", scene.volume)] {
        let call = ["detach".to_owned(), name, "node-b".to_owned()];
        let message = fails_at_once(&scene, call);
        assert!(message.contains("boots from this volume"), "{message}");
    }
}

/// Far from the deadline, so that the next call of the volume does not wait for its lock.
#[track_caller]
fn fails_at_once(scene: &Scene, call: [String; 3]) -> String {
    let begin = Instant::now();
    let message = scene.node.fails(call);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}: {message}", begin.elapsed());
    message
}

/// A mapping without an attachment: no request ends it, and the message says what an operator does.
#[test]
fn a_left_mapping_is_refused_with_what_an_operator_does() {
    for status in ["available", "error"] {
        let scene = Scene::of_immediate();
        scene.configure("deadline.attach = 4\ndeadline.detach = 4");
        scene.cloud.world().compute_lists("data", "node-b", None);
        scene.cloud.world().volume_mut("data").set_status(status);
        let by_id = ["detach".to_owned(), scene.volume.clone(), "node-b".to_owned()];
        for call in [scene.attach("node-b"), by_id] {
            let message = scene.node.fails(call);
            assert!(message.contains("only an operator of the cloud"), "{message}");
            assert!(message.contains("block_device_mapping"), "{message}");
        }
        scene.cloud.world().compute_forgets("data", "node-b");
        scene.node.must(scene.detach("node-b"));
    }
}

/// Cinder lets Nova detach a volume only while it is in use.
#[test]
fn a_volume_that_failed_while_attached_is_refused_with_what_mends_it() {
    for status in ["error_extending", "error"] {
        let scene = Scene::of_immediate();
        scene.node.must(scene.attach("node-b"));
        scene.cloud.world().volume_mut("data").set_status(status);
        let message = fails_at_once(&scene, scene.detach("node-b"));
        let way = format!("openstack volume set --state in-use {}", scene.volume);
        assert!(message.contains(&way) && message.contains("only an operator"), "{message}");
        scene.cloud.world().volume_mut("data").set_status("in-use");
        scene.node.must(scene.detach("node-b"));
        assert!(scene.attached_to().is_empty());
    }
}

/// A failed live migration leaves a second attachment: the server gives the volume back, and it is not free.
#[test]
fn a_left_second_attachment_is_named_with_what_ends_it() {
    for word in ["reserved", "attaching"] {
        let scene = Scene::of_immediate();
        scene.configure("deadline.attach = 3\ndeadline.detach = 4");
        scene.node.must(scene.attach("node-b"));
        let left = scene.cloud.world().storage_lists("data", "node-b", word);
        scene.node.must(scene.detach("node-b"));
        assert_eq!(scene.cloud.world().volume_mut("data").status, word);
        let message = scene.node.fails(scene.attach("node-a"));
        assert!(message.contains(&format!("volume attachment delete {left}")), "{message}");
        scene.cloud.world().storage.drop_attachment(&scene.volume, &left);
        scene.node.must(scene.attach("node-a"));
        assert_eq!(scene.attached_to(), [scene.server("node-a")]);
    }
}

/// The request uses up the call's time: the other service, which had none left to answer, is not to blame.
#[test]
fn a_deadline_blames_the_service_that_was_silent() {
    for is_attach in [true, false] {
        let scene = Scene::of_immediate();
        if !is_attach {
            scene.node.must(scene.attach("node-b"));
        }
        scene.configure("deadline.attach = 4\ndeadline.detach = 4");
        // Cinder takes a moment for each answer, as on a busy cloud.
        let slow = Fault::on("GET", "/volumes/*").always().delay(Duration::from_millis(300));
        scene.cloud.fault(slow);
        let (method, path) = if is_attach {
            ("POST", "/servers/*/os-volume_attachments")
        } else {
            ("DELETE", "/servers/*/os-volume_attachments/*")
        };
        scene.cloud.fault(Fault::on(method, path).always().hold(Cut::Before));
        let call = if is_attach { scene.attach("node-b") } else { scene.detach("node-b") };
        let message = scene.node.fails(call);
        assert!(message.contains("Nova") && !message.contains("Cinder"), "{message}");
        assert!(message.contains(if is_attach { "available" } else { "in-use" }), "{message}");
    }
}
