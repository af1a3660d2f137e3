//! A cloud behind TLS: whom the driver trusts, and what it says when it does not.

use crate::scene::Scene;
use crate::server::{Server, Tls, World};
use std::fs;
use std::path::PathBuf;

/// A short deadline: what a certificate lacks does not come while one waits.
const SOON: &str = "deadline.attach = 40";

fn scene_of(tls: Tls) -> Scene {
    Scene::served(World::demo(), |world| Server::start_with(world, tls))
}

/// Writes a file of authorities and points the node at it.
fn trust(scene: &Scene, pem: &str) -> PathBuf {
    let path = scene.node.base().join("ca.pem");
    fs::write(&path, pem).unwrap();
    scene.configure(&format!("openstack.ca_file = \"{}\"\n{SOON}", path.display()));
    path
}

#[track_caller]
fn attaches_and_detaches(scene: &Scene) {
    scene.node.must(scene.attach("node-b"));
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    scene.node.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
}

/// The attach fails with these words, and nothing was asked of the cloud.
#[track_caller]
fn is_not_trusted(scene: &Scene, words: &[&str]) {
    let message = scene.node.fails(scene.attach("node-b"));
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert_eq!(scene.cloud.counters().total, 0, "a password went to an unknown host");
}

#[test]
fn one_of_several_authorities_in_a_file_is_enough() {
    let scene = Scene::served(World::demo(), Server::start_tls);
    let other = Server::start_tls(World::demo());
    trust(&scene, &format!("# ours\n{}\n{}", other.ca_pem(), scene.cloud.ca_pem()));
    attaches_and_detaches(&scene);
}

#[test]
fn a_cloud_of_an_old_load_balancer_is_spoken_with() {
    let scene = scene_of(Tls::old());
    trust(&scene, scene.cloud.ca_pem());
    attaches_and_detaches(&scene);
}

/// Only because the configuration says so.
#[test]
fn without_checks_every_certificate_will_do() {
    for tls in [Tls::new(), Tls::of_another_host(), Tls::expired()] {
        let scene = scene_of(tls);
        scene.configure("openstack.insecure = true");
        attaches_and_detaches(&scene);
    }
}

#[test]
fn a_broken_file_of_authorities_is_named() {
    let scene = Scene::served(World::demo(), Server::start_tls);
    let whole = scene.cloud.ca_pem();
    let torn = &whole[..whole.len() / 2];
    for pem in ["", "certificate\n", torn] {
        let path = trust(&scene, pem);
        is_not_trusted(&scene, &["ca_file", path.to_str().unwrap()]);
    }
    // The frame is right, what it holds is no certificate.
    trust(&scene, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    is_not_trusted(&scene, &["ca_file", "certificate", "BadEncoding"]);
    let path = trust(&scene, "");
    fs::remove_file(&path).unwrap();
    is_not_trusted(&scene, &["ca_file", path.to_str().unwrap(), "no such file"]);
}

#[test]
fn what_is_not_certain_to_be_the_cloud_is_not_trusted() {
    let other = Server::start_tls(World::demo());
    let named: fn(&Scene) -> String = |scene| scene.cloud.ca_pem().to_owned();
    for (tls, authority, words) in [
        (Tls::new(), None, "UnknownIssuer"),
        (Tls::new(), Some(other.ca_pem().to_owned()), "UnknownIssuer"),
        (Tls::of_another_host(), Some(String::new()), "elsewhere.test"),
        (Tls::expired(), Some(String::new()), "expired"),
    ] {
        let scene = scene_of(tls);
        match authority {
            None => scene.configure(SOON),
            // Its own one.
            Some(pem) if pem.is_empty() => drop(trust(&scene, &named(&scene))),
            Some(pem) => drop(trust(&scene, &pem)),
        }
        is_not_trusted(&scene, &["certificate", words]);
    }
}
