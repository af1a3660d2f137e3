//! What an attach and a detach cost beside the bare requests for them, against the project's own
//! OpenStack-compatible server with the times of real services: `cargo bench --bench cloud`. Figures
//! only; nothing here passes or fails by time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unused_self,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../cloud/scene.rs"]
mod scene;
#[path = "../openstack/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

use scene::Scene;
use serde_json::{Value, json};
use server::{Delays, Fault, World};
use std::time::{Duration, Instant};
use support::{Answer, options, spawn};

const ROUNDS: usize = 7;
const STORM: usize = 40;

/// A request to any of the services, as measured on a small cloud of the Zed release.
const REQUEST: Duration = Duration::from_millis(30);

fn services() -> World {
    World::demo().delays(Delays {
        reserve: 300,
        reserved: 200,
        attaching: 750,
        detaching: 700,
        row: 30,
        ..Delays::default()
    })
}

fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let scene = Scene::of(services());
    scene.cloud.fault(Fault::on("*", "/**").always().delay(REQUEST));
    let raw = Raw::of(&scene);
    let node = "node-b";
    let server = scene.server(node);
    scene.node.must(scene.attach(node));
    scene.node.must(scene.detach(node));
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(timed(|| raw.attach(&server, &scene.volume)));
        times[1].push(timed(|| raw.detach(&server, &scene.volume)));
        times[2].push(timed(|| drop(scene.node.must(scene.attach(node)))));
        times[3].push(timed(|| drop(scene.node.must(scene.detach(node)))));
    }
    let [raw_attach, raw_detach, attach, detach] = times.map(median);
    let share = |ours: Duration, raw: Duration| ours.as_secs_f64() / raw.as_secs_f64();
    println!("seconds, medians of {ROUNDS}; every request takes {REQUEST:?}");
    println!(
        "  attach: bare requests {raw_attach:.2?}, disk {attach:.2?}, {:.2} times",
        share(attach, raw_attach)
    );
    println!(
        "  detach: bare requests {raw_detach:.2?}, disk {detach:.2?}, {:.2} times",
        share(detach, raw_detach)
    );
    let cost = |call: [String; 3]| {
        scene.cloud.reset_counters();
        let time = timed(|| drop(scene.node.must(call)));
        let counters = scene.cloud.counters();
        let routes: Vec<_> =
            counters.routes.iter().map(|(route, n)| format!("{n} {route}")).collect();
        (counters.total, time, routes.join(", "))
    };
    for (what, call) in [
        ("attach", scene.attach(node)),
        ("attached already", scene.attach(node)),
        ("isattached", scene.is_attached(node)),
        ("detach", scene.detach(node)),
    ] {
        let (requests, time, routes) = cost(call);
        println!("  {what}: {requests} requests, {time:.2?}: {routes}");
    }
    storm();
}

fn storm() {
    let names: Vec<String> = (0..2 * STORM).map(|n| format!("data-{n}")).collect();
    let scene = Scene::of(names.iter().fold(services(), |world, name| world.volume(name, 1)));
    scene.cloud.fault(Fault::on("*", "/**").always().delay(REQUEST));
    let ids: Vec<_> = names.iter().map(|name| scene.cloud.world().volume_id(name)).collect();
    for (n, id) in ids.iter().enumerate().skip(STORM) {
        let mut world = scene.cloud.world();
        world.attached(id, "node-a");
        let name = Value::from(format!("pv-{n}"));
        world.volume_mut(id).metadata.insert("incloud-disk-name".to_owned(), name);
    }
    scene.cloud.reset_counters();
    let begin = Instant::now();
    let started: Vec<_> = (0..STORM)
        .flat_map(|n| {
            let options = options(&ids[n], &format!("pv-{n}"), "");
            let attach = ["attach".to_owned(), options, "node-a".to_owned()];
            let detach = ["detach".to_owned(), format!("pv-{}", n + STORM), "node-a".to_owned()];
            [attach, detach]
        })
        .map(|call| spawn(scene.node.command(call)))
        .collect();
    let answers = started.into_iter().map(|(child, output)| Answer::finish(child, output));
    let failed = answers.filter(|answer| answer.json["status"] != "Success").count();
    let (counters, time) = (scene.cloud.counters(), begin.elapsed());
    println!(
        "  {STORM} attaches and {STORM} detaches at once on one node: {failed} failed, {time:.1?}, \
         {} requests, {} logins",
        counters.total, counters.logins
    );
}

/// The bare requests, by a client that only looks whether they are through.
struct Raw {
    client: reqwest::blocking::Client,
    url: String,
    token: String,
    project: String,
}

impl Raw {
    fn of(scene: &Scene) -> Self {
        let client = reqwest::blocking::Client::new();
        let domain = json!({"name": "Default"});
        let user = json!({"name": "demo", "password": "demopass", "domain": domain});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let scope = json!({"project": {"name": "demo", "domain": domain}});
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        let url = format!("{}/auth/tokens", scene.cloud.auth_url().trim_end_matches('/'));
        let answer = client.post(url).json(&body).send().unwrap();
        let token = answer.headers()["x-subject-token"].to_str().unwrap().to_owned();
        let body: Value = answer.json().unwrap();
        let project = body["token"]["project"]["id"].as_str().unwrap().to_owned();
        Self { client, url: scene.cloud.url(), token, project }
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let url = format!("{}{path}", self.url);
        let answer = self.client.get(url).header("x-auth-token", &self.token).send().unwrap();
        (answer.status().as_u16(), answer.json().unwrap_or_default())
    }

    fn status(&self, volume: &str) -> String {
        let (_, body) = self.get(&format!("/volume/v3/{}/volumes/{volume}", self.project));
        body["volume"]["status"].as_str().unwrap_or_default().to_owned()
    }

    fn wait(&self, volume: &str, status: &str) {
        while self.status(volume) != status {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn attach(&self, server: &str, volume: &str) {
        let url = format!("{}/compute/v2.1/servers/{server}/os-volume_attachments", self.url);
        let body = json!({"volumeAttachment": {"volumeId": volume}});
        let request = self.client.post(url).header("x-auth-token", &self.token).json(&body);
        assert_eq!(request.send().unwrap().status().as_u16(), 200);
        self.wait(volume, "in-use");
    }

    fn detach(&self, server: &str, volume: &str) {
        let path = format!("/compute/v2.1/servers/{server}/os-volume_attachments/{volume}");
        let request = self.client.delete(format!("{}{path}", self.url));
        let answer = request.header("x-auth-token", &self.token).send().unwrap();
        assert_eq!(answer.status().as_u16(), 202);
        self.wait(volume, "available");
        while self.get(&path).0 != 404 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
