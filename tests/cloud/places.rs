//! Which server a node is, and in which region.

use crate::scene::{PV, Scene, configure};
use crate::server::{Cut, Fault, Server, World};
use crate::support::options;

fn configured(scene: &Scene, more: &str) {
    scene.node.configure("");
    configure(&scene.node, &scene.cloud, more);
}

/// Everything lives in the second of two regions, and none is configured.
fn in_the_south() -> Scene {
    let mut world = World::demo();
    world.settings.regions = vec!["North".to_owned(), "South".to_owned()];
    let scene = Scene::of(world);
    "South".clone_into(&mut scene.cloud.world().volume_mut("data").region);
    "South".clone_into(&mut scene.cloud.world().server_mut("node-b").region);
    configured(&scene, "deadline.attach = 20\ndeadline.detach = 20\ndeadline.isattached = 20");
    scene
}

/// A region that does not answer, and one whose certificate is another's, are not this machine's.
#[test]
fn a_configured_region_is_the_only_one_that_is_asked() {
    let scene = in_the_south();
    configured(&scene, "openstack.region = \"South\"");
    scene.node.must(scene.attach("node-b"));
    scene.node.must(scene.detach("node-b"));
    configured(&scene, "openstack.region = \"North\"");
    scene.cloud.reset_counters();
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("no server for node node-b"), "{message}");
    // A login, and the one region's list of servers.
    assert_eq!(scene.cloud.counters().total, 2, "{:?}", scene.cloud.counters());
}

/// Where no region is configured one that fails is named, and the one that has it is still found.
#[test]
fn a_region_that_fails_is_named_and_hides_no_other() {
    let scene = in_the_south();
    for service in ["compute", "volume"] {
        // The path of the first region, North, has no name of it.
        let fault = Fault::on("*", "/**").service(service).region("").always();
        scene.cloud.fault(fault.cut(Cut::Before));
    }
    scene.node.must(scene.attach("node-b"));
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    let message = scene.node.fails(scene.attach("node-of-no-region"));
    assert!(message.contains("region North") && message.contains("openstack.region"), "{message}");
}

/// The second region's services show a certificate that is not trusted here.
#[test]
fn a_region_that_is_not_trusted_is_named_or_never_asked() {
    let untrusted = Server::start_tls(World::demo());
    let mut world = World::demo();
    world.settings.regions = vec!["North".to_owned(), "South".to_owned()];
    world.settings.addresses.insert("South".to_owned(), untrusted.url());
    let scene = Scene::of(world);
    configured(&scene, "openstack.region = \"North\"\ndeadline.detach = 60");
    scene.node.must(scene.attach("node-b"));
    // A server that is gone: the configured region's word is enough.
    let message = scene.node.fails(scene.attach("node-gone"));
    assert!(message.contains("no server for node node-gone"), "{message}");
    // Whether node-b's server is its, under another name, no region tells.
    let message = scene.node.fails(scene.detach("node-gone"));
    assert!(message.contains("node.servers") && !message.contains("South"), "{message}");
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    configured(&scene, "deadline.attach = 60");
    let message = scene.node.fails(scene.attach("node-gone"));
    assert!(message.contains("region South") && message.contains("certificate"), "{message}");
    assert!(message.contains("openstack.region"), "{message}");
    scene.node.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
}

#[test]
fn a_volume_goes_to_its_server_in_whichever_region_both_are() {
    let scene = in_the_south();
    scene.node.must(scene.attach("node-b"));
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], true);
    // A detach is told no region at all.
    let replica = scene.neighbour("replica");
    configure(&replica, &scene.cloud, "");
    replica.must(scene.detach("node-a"));
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    scene.node.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
}

#[test]
fn a_region_in_the_options_is_the_only_one_looked_at() {
    let scene = in_the_south();
    let with = |region: &str| {
        let plain = options(&scene.volume, PV, "");
        plain.replace(",\"volumeID\"", &format!(",\"region\":{region:?},\"volumeID\""))
    };
    let message = scene.node.fails(["attach", &with("North"), "node-b"]);
    assert!(message.contains("no server for node node-b"), "{message}");
    let message = scene.node.fails(["attach", &with("East"), "node-b"]);
    assert!(message.contains("no compute in region East"), "{message}");
    scene.node.must(["attach", &with("South"), "node-b"]);
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
}

#[test]
fn a_node_whose_server_has_another_name_is_found_in_the_map() {
    let scene = Scene::new();
    let message = scene.node.fails(scene.attach("worker-1"));
    assert!(message.contains("no server for node worker-1"), "{message}");
    let id = scene.server("node-b");
    configured(&scene, &format!("node.servers = {{ \"worker-1\" = {id:?} }}"));
    scene.node.must(scene.attach("worker-1"));
    assert_eq!(scene.attached_to(), [id.as_str()]);
    scene.node.must(scene.detach("worker-1"));
    assert!(scene.attached_to().is_empty());
}

#[test]
fn a_name_that_two_servers_have_is_refused() {
    let scene = Scene::new();
    let twin = "11111111-2222-4333-8444-555555555555";
    scene.cloud.world().add_server("node-b", twin, "demo");
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains(twin) && message.contains("[node.servers]"), "{message}");
    let message = scene.node.fails(scene.is_attached("node-b"));
    assert!(message.contains(twin), "{message}");
    scene.node.must(scene.attach(twin));
    assert_eq!(scene.attached_to(), [twin]);
}
