//! Bad hours: many calls at once, a cloud that is full, slow or broken.

use crate::scene::Scene;
use crate::server::{Delays, Fault, Limit, World};
use crate::support::{Answer, options, spawn};
use std::time::{Duration, Instant};

#[test]
fn sixty_calls_at_once_cost_one_login_and_few_questions() {
    let scene = Scene::new();
    let started: Vec<_> =
        (0..60).map(|_| spawn(scene.node.command(scene.is_attached("node-b")))).collect();
    for (child, output) in started {
        let answer = Answer::finish(child, output);
        assert_eq!(answer.json["attached"], false, "{}", answer.text);
    }
    let counters = scene.cloud.counters();
    assert_eq!(counters.logins, 1);
    // They start over some seconds, and an answer serves for one and a half.
    assert!(counters.total < 30, "{counters:?}");
}

#[test]
fn a_cloud_that_asks_for_a_pause_gets_it_and_the_call_succeeds() {
    let scene = Scene::new();
    scene.node.must(scene.is_attached("node-b"));
    scene.cloud.fault(Fault::on("GET", "/volumes/*").proxy(429).header("Retry-After", "1"));
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], false);
}

/// The controller-manager asks for every volume of a node at once. Each volume is another one, so
/// that no answer is shared; all calls must succeed.
#[test]
fn a_storm_of_calls_keeps_to_the_limits_of_its_machine_and_of_the_cloud() {
    const OWN_LIMITS: &str = "openstack.limits = { per_second = 20, burst = 5, at_once = 4 }\n\
                              deadline.isattached = 90";
    let names: Vec<String> = (0..60).map(|n| format!("data-{n}")).collect();
    let world = names.iter().fold(World::demo(), |world, name| world.volume(name, 1));
    let limit = Limit { per_second: 15, retry_after: Some("1".to_owned()) };
    let scene = Scene::of(world.with(|world| world.settings.limit = Some(limit)));
    scene.configure(OWN_LIMITS);
    // At first answers take their time, or there would never be several at once.
    let slow = Fault::on("GET", "/**").times(40).delay(Duration::from_millis(250));
    scene.cloud.fault(slow);
    let ask = |name: &String| {
        let id = scene.cloud.world().volume_id(name);
        spawn(scene.node.command(["isattached", &options(&id, name, ""), "node-b"]))
    };
    let begin = Instant::now();
    let started: Vec<_> = names.iter().map(ask).collect();
    for (child, output) in started {
        let answer = Answer::finish(child, output);
        assert_eq!(answer.json["attached"], false, "{}", answer.text);
    }
    let counters = scene.cloud.counters();
    assert_eq!(counters.logins, 1, "{counters:?}");
    // In the long run the rate holds: whatever the machine does, it only takes longer.
    let at_least = Duration::from_millis((counters.total - 5 - 4) * 50 * 95 / 100);
    assert!(begin.elapsed() >= at_least, "{:?} for {counters:?}", begin.elapsed());
    // In any second: a burst, the rate, and those few that had their leave before and were held up
    // by the machine. They have a place each, so there are no more than may be under way at once.
    assert!(counters.peak_per_second <= 20 + 5 + 4, "{counters:?}");
    assert!(counters.peak_at_once <= 4, "{counters:?}");
    let refused = counters.statuses.get("429").copied().unwrap_or(0);
    assert!(refused > 0, "the cloud was never full: {counters:?}");
    assert!(refused < 60, "a pause that was asked for is not kept: {counters:?}");
}

/// What a call costs the cloud: requests, the login among them where there is no token yet.
#[test]
fn the_requests_of_each_call_are_counted() {
    let scene = Scene::of_immediate();
    let cost = |call: [String; 3]| {
        scene.cloud.reset_counters();
        scene.node.must(call);
        scene.cloud.counters().total
    };
    // Login, server by name, volume, mapping, note of the request, attach, volume, end of the note.
    assert_eq!(cost(scene.attach("node-b")), 8, "attach, cold");
    assert_eq!(cost(scene.attach("node-b")), 1, "attached already: the volume");
    assert_eq!(cost(scene.is_attached("node-b")), 1, "isattached: the volume");
    assert_eq!(cost(scene.is_attached("node-b")), 0, "isattached within a moment");
    // Volumes of that name, detach, volume, mapping, name record.
    assert_eq!(cost(scene.detach("node-b")), 5, "detach");
    // Volume, mapping, note of the request, attach, volume, end of the note.
    assert_eq!(cost(scene.attach("node-b")), 6, "attach, warm");
    // Long after: volume and mapping.
    std::thread::sleep(Duration::from_millis(1600));
    assert_eq!(cost(scene.attach("node-b")), 2, "attached already");
}

/// A node is drained while other volumes come: one thing after the other at its
/// server's host.
#[test]
fn attaches_and_detaches_at_once_all_succeed_in_order() {
    const EACH: usize = 15;
    let names: Vec<String> = (0..2 * EACH).map(|n| format!("data-{n}")).collect();
    let world = names.iter().fold(World::demo(), |world, name| world.volume(name, 1));
    let delays =
        Delays { reserve: 40, reserved: 10, attaching: 60, detaching: 60, ..Delays::default() };
    let scene = Scene::of(world.delays(delays));
    let ids: Vec<_> = names.iter().map(|name| scene.cloud.world().volume_id(name)).collect();
    let pv = |n: usize| format!("pv-{n}");
    {
        let mut world = scene.cloud.world();
        for (n, id) in ids.iter().enumerate().skip(EACH) {
            world.attached(id, "node-a");
            let name = serde_json::Value::from(pv(n));
            world.volume_mut(id).metadata.insert("incloud-disk-name".to_owned(), name);
        }
    }
    scene.cloud.reset_counters();
    let started: Vec<_> = (0..EACH)
        .flat_map(|n| {
            let attach = ["attach".to_owned(), options(&ids[n], &pv(n), ""), "node-a".to_owned()];
            let detach = ["detach".to_owned(), pv(n + EACH), "node-a".to_owned()];
            [attach.to_vec(), detach.to_vec()]
        })
        .map(|call| spawn(scene.node.command(call)))
        .collect();
    for (child, output) in started {
        let answer = Answer::finish(child, output);
        assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    }
    let world = scene.cloud.world();
    let servers = |id: &String| world.storage.volume(id).unwrap().servers().len();
    let attached: Vec<_> = ids.iter().map(servers).collect();
    assert_eq!(attached, [[1; EACH], [0; EACH]].concat());
    drop(world);
    let counters = scene.cloud.counters();
    assert_eq!(counters.logins, 1, "{counters:?}");
    for changes in [&counters.attaches, &counters.detaches] {
        assert!(changes.len() == EACH && changes.values().all(|count| *count == 1), "{changes:?}");
    }
}
