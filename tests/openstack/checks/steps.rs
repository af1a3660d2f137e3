//! Transitions and their delays, failures after the answer, one server's queue.

use super::cloud::{Cloud, attachment, rows};
use crate::runner::Test;
use crate::server::{Delays, Failure, Host, World};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const TESTS: &[Test] = &[
    ("steps::an_attach_takes_its_time", an_attach_takes_its_time),
    ("steps::a_row_outlives_the_detach", a_row_outlives_the_detach),
    ("steps::a_long_jump_does_all_steps", a_long_jump_does_all_steps),
    ("steps::running_time_needs_no_visitor", running_time_needs_no_visitor),
    ("steps::failures_after_the_answer", failures_after_the_answer),
    ("steps::a_stuck_attach_leaves_its_traces", a_stuck_attach_leaves_its_traces),
    ("steps::an_action_is_open_until_the_end", an_action_is_open_until_the_end),
    ("steps::a_dead_host_makes_a_ghost", a_dead_host_makes_a_ghost),
    ("steps::a_dead_host_keeps_a_detach", a_dead_host_keeps_a_detach),
    ("steps::twenty_attaches_of_one_volume", twenty_attaches_of_one_volume),
    ("steps::an_extend_takes_its_time", an_extend_takes_its_time),
];

/// Delays that tell the steps apart.
fn delays() -> Delays {
    Delays {
        reserve: 0,
        record: 0,
        reserved: 10,
        attaching: 20,
        detaching: 30,
        row: 5,
        extend: 40,
        cleanup: 0,
    }
}

fn pass(cloud: &Cloud, milliseconds: u64) {
    cloud.server.advance(Duration::from_millis(milliseconds));
}

fn an_attach_takes_its_time() {
    let cloud = Cloud::of(World::demo().frozen().delays(delays()));
    assert_eq!(cloud.attach(&cloud.a).status, 200);
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("reserved", true));
    pass(&cloud, 9);
    assert_eq!(cloud.status(), "reserved");
    pass(&cloud, 1);
    assert_eq!((cloud.status().as_str(), cloud.holders()), ("attaching", vec![]));
    pass(&cloud, 20);
    assert_eq!((cloud.status().as_str(), cloud.holders()), ("in-use", vec![cloud.a.clone()]));
}

fn a_row_outlives_the_detach() {
    let cloud = Cloud::of(World::demo().frozen().delays(delays()));
    cloud.server.world().attached("data", "a");
    assert_eq!(cloud.detach(&cloud.a).status, 202);
    assert_eq!((cloud.status().as_str(), cloud.holders()), ("detaching", vec![cloud.a.clone()]));
    pass(&cloud, 30);
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("available", true));
    let gap = cloud.attach(&cloud.b);
    assert_eq!(gap.status, 400, "{}", gap.message());
    pass(&cloud, 5);
    assert!(!cloud.is_listed(&cloud.a));
    assert_eq!(cloud.attach(&cloud.b).status, 200);
}

fn a_long_jump_does_all_steps() {
    let cloud = Cloud::of(World::demo().frozen().delays(delays()));
    cloud.attach(&cloud.a);
    pass(&cloud, 30);
    assert_eq!(cloud.status(), "in-use");
    cloud.detach(&cloud.a);
    pass(&cloud, 3_600_000);
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("available", false));
}

fn running_time_needs_no_visitor() {
    let cloud = Cloud::new();
    cloud.attach(&cloud.a);
    assert!(cloud.server.wait_idle());
    let history = cloud.server.world().volume_mut("data").history.clone();
    assert_eq!(history, ["available", "reserved", "attaching", "in-use"]);
}

fn failures_after_the_answer() {
    // How it fails, what has to be first, the answer, the statuses seen, and who lists it then.
    let cases: [(Failure, bool, u16, &[&str], bool); 4] = [
        (Failure::AttachDriver, false, 200, &["reserved", "attaching", "available"], false),
        (Failure::AttachInitialize, false, 200, &["reserved", "available"], false),
        (Failure::DetachDriver, true, 202, &["detaching", "in-use"], true),
        (Failure::DetachStuck, true, 202, &["detaching"], true),
    ];
    for (how, attached, status, seen, listed) in cases {
        let cloud = Cloud::frozen();
        if attached {
            cloud.server.world().attached("data", "a");
        }
        let before = cloud.server.world().volume_mut("data").history.len();
        cloud.server.plan(how, &cloud.data);
        let answer = if attached { cloud.detach(&cloud.a) } else { cloud.attach(&cloud.a) };
        let request = answer.header("X-Openstack-Request-Id").expect("an id").to_owned();
        pass(&cloud, 1000);
        let history = cloud.server.world().volume_mut("data").history.split_off(before);
        assert_eq!(
            (answer.status, history),
            (status, seen.iter().map(ToString::to_string).collect())
        );
        assert_eq!(cloud.is_listed(&cloud.a), listed, "{how:?}");
        assert_eq!(result(&cloud, &request), "Error", "{how:?}");
        if how != Failure::DetachStuck {
            let again = if attached { cloud.detach(&cloud.a) } else { cloud.attach(&cloud.a) };
            assert_eq!(again.status, status, "{how:?}: it failed once only");
        }
    }
}

fn a_stuck_attach_leaves_its_traces() {
    let cloud = Cloud::frozen();
    cloud.server.plan(Failure::AttachStuck, &cloud.data);
    cloud.attach(&cloud.a);
    pass(&cloud, 100_000);
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("attaching", true));
    // The server is free for others all the same.
    cloud.server.world().add_volume("more", MORE, 1, "demo");
    assert_eq!(cloud.ask("POST", &rows(&cloud.a), &[], &attachment(MORE)).status, 200);
}

const MORE: &str = "33333333-3333-4333-8333-333333333333";

/// The result of an instance action, by the id of the request that began it.
fn result(cloud: &Cloud, request: &str) -> Value {
    let target = format!("/compute/v2.1/servers/{}/os-instance-actions/{request}", cloud.a);
    let version = [("OpenStack-API-Version", "compute 2.51")];
    let action = cloud.ask("GET", &target, &version, &Value::Null).json();
    action["instanceAction"]["events"][0]["result"].clone()
}

fn an_action_is_open_until_the_end() {
    let cloud = Cloud::frozen();
    let answer = cloud.attach(&cloud.a);
    let request = answer.header("X-Openstack-Request-Id").expect("an id").to_owned();
    assert_eq!(result(&cloud, &request), Value::Null);
    pass(&cloud, 1000);
    assert_eq!(result(&cloud, &request), "Success");
    let list = cloud.get(&format!("/compute/v2.1/servers/{}/os-instance-actions", cloud.a)).json();
    assert_eq!(list["instanceActions"][0]["request_id"], request);
    let target = format!("/compute/v2.1/servers/{}/os-instance-actions/req-0", cloud.a);
    assert_eq!(cloud.get(&target).status, 404);
}

fn a_dead_host_makes_a_ghost() {
    let cloud = Cloud::frozen();
    cloud.server.world().set_host(&cloud.a, Host::Dead);
    let mut connection = cloud.send_attach(&cloud.a);
    assert!(cloud.server.wait_until(Duration::from_secs(5), |w| !w.hosts.operations.is_empty()));
    pass(&cloud, 60_000);
    assert_eq!(connection.receive().expect("an answer").status, 500);
    assert!(!cloud.is_listed(&cloud.a));
    cloud.server.world().set_host(&cloud.a, Host::Up);
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("available", true));
    assert_eq!(cloud.attach(&cloud.b).status, 400);
}

fn a_dead_host_keeps_a_detach() {
    let cloud = Cloud::frozen();
    cloud.server.world().attached("data", "a");
    cloud.server.world().set_host(&cloud.a, Host::Dead);
    assert_eq!(cloud.detach(&cloud.a).status, 202);
    pass(&cloud, 100_000);
    assert_eq!(cloud.status(), "detaching");
    cloud.server.world().set_host(&cloud.a, Host::Up);
    pass(&cloud, 1000);
    assert_eq!(cloud.status(), "available");
}

fn twenty_attaches_of_one_volume() {
    let cloud = Cloud::of(World::demo().delays(Delays { reserve: 20, ..Delays::default() }));
    let connections: Vec<_> =
        (0..20).map(|n| cloud.send_attach(if n % 2 == 0 { &cloud.a } else { &cloud.b })).collect();
    let answers = connections.into_iter().map(|mut one| one.receive().expect("an answer").status);
    let (good, bad): (Vec<u16>, Vec<u16>) = answers.partition(|status| *status == 200);
    assert_eq!((good.len(), bad), (1, vec![400; 19]));
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.holders().len(), 1);
    assert_eq!(cloud.server.world().compute.servers_with(&cloud.data).len(), 1);
    assert_eq!(cloud.server.counters().attaches[&cloud.data], 20);
}

fn an_extend_takes_its_time() {
    let cloud = Cloud::of(World::demo().frozen().delays(delays()));
    cloud.server.world().attached("data", "a");
    let action = format!("{}/action", cloud.volume_path(&cloud.data));
    let grow = |size: u64, version: &str| {
        let version = [("OpenStack-API-Version", version)];
        cloud.ask("POST", &action, &version, &json!({"os-extend": {"new_size": size}})).status
    };
    assert_eq!(grow(2, "volume 3.41"), 400);
    assert_eq!(grow(2, "volume 3.42"), 202);
    assert_eq!(cloud.status(), "extending");
    pass(&cloud, 40);
    let size = |cloud: &Cloud| cloud.server.world().volume_mut("data").size;
    assert_eq!((cloud.status().as_str(), size(&cloud)), ("in-use", 2));
    cloud.server.plan(Failure::Extend, &cloud.data);
    assert_eq!(grow(3, "volume 3.70"), 202);
    pass(&cloud, 40);
    assert_eq!((cloud.status().as_str(), size(&cloud)), ("error_extending", 2));
}
