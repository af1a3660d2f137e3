//! What a cloud does not allow, or not yet, or not any more.

use crate::scene::{PV, Scene, configure};
use crate::server::{Fault, World};
use crate::support::options;

#[test]
fn a_full_server_is_a_failure_that_names_limit_and_count() {
    let mut world = World::demo();
    world.settings.max_disks = Some(3);
    let scene = Scene::of(world);
    for name in ["one", "two"] {
        scene.cloud.world().add_volume(name, &format!("{name}-id"), 1, "demo");
        scene.cloud.world().attached(name, "node-b");
    }
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("has 2 volumes") && message.contains("(3)"), "{message}");
    assert!(scene.attached_to().is_empty());
}

#[test]
fn a_volume_for_several_servers_is_shared_only_by_readers() {
    let scene = Scene::new();
    scene.cloud.world().volume_mut("data").multiattach = true;
    scene.node.must(scene.attach("node-b"));
    let message = scene.node.fails(scene.attach("node-a"));
    assert!(message.contains("Multi-Attach") && message.contains("share: read-only"), "{message}");
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);

    let plain = options(&scene.volume, PV, "");
    let shared = plain.replace(",\"volumeID\"", ",\"share\":\"read-only\",\"volumeID\"");
    scene.node.must(["attach", &shared, "node-a"]);
    let mut servers = scene.attached_to();
    servers.sort();
    let mut expected = vec![scene.server("node-a"), scene.server("node-b")];
    expected.sort();
    assert_eq!(servers, expected);
    // Each detach ends its own attachment.
    scene.node.must(scene.detach("node-b"));
    assert_eq!(scene.attached_to(), [scene.server("node-a")]);
}

#[test]
fn a_cloud_without_the_newest_interface_serves_too() {
    let mut world = World::demo();
    world.settings.compute_versions = (1, 10);
    let scene = Scene::of(world);
    scene.node.must(scene.attach("node-b"));
    scene.node.must(scene.detach("node-b"));
    scene.cloud.world().volume_mut("data").multiattach = true;
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("too old") && message.contains("2.60"), "{message}");
}

#[test]
fn a_login_finds_version_3_behind_another_path() {
    let scene = Scene::new();
    let real = scene.cloud.auth_url();
    let root = real.trim_end_matches("/v3").to_owned();
    let outside = root.rsplit_once('/').map(|(host, _)| host.to_owned()).unwrap();
    // A proxy's root that only lists where the versions are.
    let list = format!(
        "{{\"versions\":{{\"values\":[{{\"id\":\"v3.14\",\"links\":[{{\"rel\":\"self\",\"href\":\"http://inner{}\"}}]}}]}}}}",
        &real[real.find("/identity").unwrap_or(real.len() - 3)..]
    );
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    scene.cloud.fault(Fault::on("GET", "/").reply(300, list));
    scene.node.configure("");
    configure(&scene.node, &scene.cloud, "");
    let text = std::fs::read_to_string(scene.node.config_path()).unwrap();
    std::fs::write(scene.node.config_path(), text.replace(&real, &outside)).unwrap();
    scene.node.must(scene.attach("node-b"));
}

#[test]
fn a_detach_leaves_an_attachment_alone_that_was_made_meanwhile() {
    let scene = Scene::of_immediate();
    scene.node.must(scene.attach("node-b"));
    let mut command = scene.node.command(scene.detach("node-b"));
    let held = scene.node.base().join("held");
    // The detach has looked and sent its request, whose effect another undoes: the volume is
    // attached anew.
    let seam = format!("detach.requested=hold:{}", held.display());
    command.env("INCLOUD_DISK_SEAM", seam);
    let (child, output) = crate::support::spawn(command);
    assert!(scene.cloud.wait_until(std::time::Duration::from_secs(10), |world| {
        world.storage.volume(&scene.volume).unwrap().servers().is_empty()
    }));
    scene.neighbour("other").must(scene.attach("node-b"));
    std::fs::remove_file(&held).unwrap();
    let answer = crate::support::Answer::finish(child, output);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(answer.text.contains("anew"), "{}", answer.text);
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
}
