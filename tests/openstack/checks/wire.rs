//! Faults on the wire.

use super::cloud::{Cloud, rows};
use crate::client::{Connection, ask};
use crate::runner::Test;
use crate::server::{Cut, Fault, Limit};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(super) const TESTS: &[Test] = &[
    ("wire::a_cut_before_has_no_effect", a_cut_before_has_no_effect),
    ("wire::a_lost_answer_has_its_effect", a_lost_answer_has_its_effect),
    ("wire::an_answer_is_cut_in_the_middle", an_answer_is_cut_in_the_middle),
    ("wire::a_held_request_waits_for_the_end", a_held_request_waits_for_the_end),
    ("wire::proxies_answer_in_their_way", proxies_answer_in_their_way),
    ("wire::a_lie_after_the_effect", a_lie_after_the_effect),
    ("wire::faults_meet_the_nth_request", faults_meet_the_nth_request),
    ("wire::faults_meet_what_they_name", faults_meet_what_they_name),
    ("wire::delays_and_trickles", delays_and_trickles),
    ("wire::wrong_lengths", wrong_lengths),
    ("wire::a_connection_is_kept", a_connection_is_kept),
    ("wire::more_than_the_limit_is_refused", more_than_the_limit_is_refused),
    ("wire::nonsense_does_not_hurt", nonsense_does_not_hurt),
    ("wire::the_world_is_held_once", the_world_is_held_once),
];

const ATTACH: &str = "/servers/*/os-volume_attachments";

fn a_cut_before_has_no_effect() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("POST", ATTACH).cut(Cut::Before));
    assert!(cloud.send_attach(&cloud.a).receive().is_err());
    assert_eq!(cloud.server.world().volume_mut("data").history, ["available"]);
    assert_eq!(cloud.server.counters().statuses["none"], 1);
    assert_eq!(cloud.attach(&cloud.a).status, 200, "it met one request only");
}

fn a_lost_answer_has_its_effect() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("POST", ATTACH).cut(Cut::After));
    assert!(cloud.send_attach(&cloud.a).receive().is_err());
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.status(), "in-use");
    assert_eq!(cloud.attach(&cloud.a).status, 400);
}

fn an_answer_is_cut_in_the_middle() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("GET", "/servers").cut(Cut::Middle));
    let headers = [("X-Auth-Token", cloud.token.as_str())];
    assert!(ask(&cloud.server.url(), "GET", "/compute/v2.1/servers", &headers, "").is_err());
}

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

fn proxies_answer_in_their_way() {
    let cloud = Cloud::new();
    let busy = || Fault::on("GET", "/servers").proxy(503);
    cloud.server.fault(busy().header("Retry-After", "7"));
    cloud.server.fault(busy().retry_at(60));
    cloud.server.fault(Fault::on("GET", "/servers").unauthorized());
    let seconds = cloud.get("/compute/v2.1/servers");
    assert_eq!((seconds.status, seconds.header("Retry-After")), (503, Some("7")));
    assert_eq!(seconds.header("Content-Type"), Some("text/html"));
    assert!(seconds.json().is_null());
    let date = cloud.get("/compute/v2.1/servers");
    assert!(date.header("Retry-After").is_some_and(|date| date.ends_with(" GMT")), "{date:?}");
    assert_eq!(cloud.get("/compute/v2.1/servers").json()["error"]["code"], 401);
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 200);
}

fn a_lie_after_the_effect() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("POST", ATTACH).proxy(504).after_effect());
    assert_eq!(cloud.attach(&cloud.a).status, 504);
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.status(), "in-use");
}

fn faults_meet_the_nth_request() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("*", "/servers/**").nth(2).times(2).reply(500, json!({})));
    let one = format!("/compute/v2.1/servers/{}", cloud.a);
    let statuses: Vec<u16> = (0..5).map(|_| cloud.get(&one).status).collect();
    assert_eq!(statuses, [200, 500, 500, 200, 200]);
    cloud.server.fault(Fault::on("*", "/servers/**").always().reply(500, json!({})));
    assert!((0..5).all(|_| cloud.get(&one).status == 500));
}

fn faults_meet_what_they_name() {
    let cloud = Cloud::new();
    let named = |fault: Fault| cloud.server.fault(fault.always().reply(500, Value::Null));
    named(Fault::on("GET", &format!("/servers/{}", cloud.a)));
    named(Fault::on("POST", ATTACH).containing(&cloud.data));
    named(Fault::on("GET", "/volumes").service("compute"));
    let server = |id: &str| cloud.get(&format!("/compute/v2.1/servers/{id}")).status;
    assert_eq!((server(&cloud.a), server(&cloud.b)), (500, 200));
    assert_eq!(cloud.attach(&cloud.a).status, 500);
    let other = super::cloud::attachment("33333333-3333-4333-8333-333333333333");
    assert_eq!(cloud.ask("POST", &rows(&cloud.a), &[], &other).status, 404);
    assert_eq!(cloud.get(&format!("/volume/v3/{}/volumes", cloud.project)).status, 200);
}

fn delays_and_trickles() {
    let cloud = Cloud::new();
    let pause = Duration::from_millis(20);
    cloud.server.fault(Fault::on("GET", "/servers").delay(Duration::from_millis(100)));
    cloud.server.fault(Fault::on("GET", "/servers").trickle(pause));
    let begun = Instant::now();
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(100));
    let begun = Instant::now();
    let slow = cloud.get("/compute/v2.1/servers");
    assert!(slow.json()["servers"].is_array());
    let pieces = u32::try_from(slow.body.len() / 64).expect("a short body");
    assert!(begun.elapsed() >= pause * pieces);
}

fn wrong_lengths() {
    let cloud = Cloud::new();
    let headers = [("X-Auth-Token", cloud.token.as_str())];
    let list = || ask(&cloud.server.url(), "GET", "/compute/v2.1/servers", &headers, "");
    cloud.server.fault(Fault::on("GET", "/servers").length(10));
    assert!(list().is_err(), "more is promised than comes");
    cloud.server.fault(Fault::on("GET", "/servers").length(-10));
    assert!(list().expect("an answer").json().is_null(), "less is promised than comes");
}

fn a_connection_is_kept() {
    let cloud = Cloud::new();
    let mut connection = Connection::open(&cloud.server.url()).expect("the server");
    let headers = [("X-Auth-Token", cloud.token.as_str())];
    let mut list = || connection.ask("GET", "/compute/v2.1/servers", &headers, "");
    for _ in 0..3 {
        assert_eq!(list().expect("an answer").status, 200);
    }
    cloud.server.fault(Fault::on("GET", "/servers").close());
    assert_eq!(list().expect("an answer").status, 200);
    assert!(list().is_err(), "it was closed without a word");
}

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

fn nonsense_does_not_hurt() {
    let cloud = Cloud::new();
    let address = cloud.server.url();
    let address = address.trim_start_matches("http://");
    for text in ["", "\r\n\r\n", "GET\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).expect("the server");
        stream.write_all(text.as_bytes()).expect("sent");
    }
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 200);
}

fn the_world_is_held_once() {
    let cloud = Cloud::new();
    let both = || (cloud.server.world().server_id("a"), cloud.server.world().server_id("b"));
    let silent = std::panic::AssertUnwindSafe(both);
    assert!(std::panic::catch_unwind(silent).is_err(), "a panic, and no wait for ever");
    assert_eq!(cloud.server.world().server_id("a"), cloud.a);
}
