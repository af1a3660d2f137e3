//! The faults that the driver's tests ask for: one that meets nothing would be a test that proves nothing.

use crate::client::ask;
use crate::cloud::{Cloud, rows};
use crate::server::{Cut, Fault, Limit};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ATTACH: &str = "/servers/*/os-volume_attachments";

#[test]
fn a_cut_before_has_no_effect() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("POST", ATTACH).cut(Cut::Before));
    assert!(cloud.send_attach(&cloud.a).receive().is_err());
    assert_eq!(cloud.server.world().volume_mut("data").history, ["available"]);
    assert_eq!(cloud.server.counters().statuses["none"], 1);
    assert_eq!(cloud.attach(&cloud.a).status, 200, "it met one request only");
}

#[test]
fn a_lost_answer_has_its_effect() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("POST", ATTACH).cut(Cut::After));
    assert!(cloud.send_attach(&cloud.a).receive().is_err());
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.status(), "in-use");
    assert_eq!(cloud.attach(&cloud.a).status, 400);
}

#[test]
fn an_answer_is_cut_in_the_middle() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("GET", "/servers").cut(Cut::Middle));
    let headers = [("X-Auth-Token", cloud.token.as_str())];
    assert!(ask(&cloud.server.url(), "GET", "/compute/v2.1/servers", &headers, "").is_err());
}

#[test]
fn a_held_request_waits_for_the_end() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("POST", ATTACH).hold(Cut::After));
    let connection = cloud.send_attach(&cloud.a);
    assert!(cloud.server.wait_held(1, Duration::from_secs(5)));
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.status(), "in-use");
    drop(connection);
    assert!(cloud.server.wait_held(0, Duration::from_secs(5)), "the client's end is noticed");
}

#[test]
fn a_lie_after_the_effect() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("POST", ATTACH).proxy(504).after_effect());
    assert_eq!(cloud.attach(&cloud.a).status, 504);
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.status(), "in-use");
}

#[test]
fn faults_meet_the_nth_request() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("*", "/servers/**").nth(2).times(2).reply(500, json!({})));
    let one = format!("/compute/v2.1/servers/{}", cloud.a);
    let statuses: Vec<u16> = (0..5).map(|_| cloud.get(&one).status).collect();
    assert_eq!(statuses, [200, 500, 500, 200, 200]);
    cloud.server.fault(Fault::on("*", "/servers/**").always().reply(500, json!({})));
    assert!((0..5).all(|_| cloud.get(&one).status == 500));
}

#[test]
fn faults_meet_what_they_name() {
    let cloud = Cloud::new();
    let named = |fault: Fault| cloud.server.fault(fault.always().reply(500, Value::Null));
    named(Fault::on("GET", &format!("/servers/{}", cloud.a)));
    named(Fault::on("POST", ATTACH).containing(&cloud.data));
    named(Fault::on("GET", "/volumes").service("compute"));
    let server = |id: &str| cloud.get(&format!("/compute/v2.1/servers/{id}")).status;
    assert_eq!((server(&cloud.a), server(&cloud.b)), (500, 200));
    assert_eq!(cloud.attach(&cloud.a).status, 500);
    let other = crate::cloud::attachment("33333333-3333-4333-8333-333333333333");
    assert_eq!(cloud.ask("POST", &rows(&cloud.a), &[], &other).status, 404);
    assert_eq!(cloud.get(&format!("/volume/v3/{}/volumes", cloud.project)).status, 200);
}

#[test]
fn more_than_the_limit_is_refused() {
    let cloud = Cloud::new();
    let retry_after = Some("1".to_owned());
    cloud.server.world().settings.limit = Some(Limit { per_second: 5, retry_after });
    let answers: Vec<_> = (0..20).map(|_| cloud.get("/compute/v2.1/servers")).collect();
    let good = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((5..20).contains(&good), "{good}");
    let refused = answers.iter().find(|answer| answer.status == 429).expect("a 429");
    assert_eq!(refused.header("Retry-After"), Some("1"));
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 200);
}

#[test]
fn a_delay_is_waited_for() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("GET", "/servers").delay(Duration::from_millis(100)));
    let begun = Instant::now();
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(100));
}
