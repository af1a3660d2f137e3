//! The counters, and the comparison with the transcripts itself.

use super::cloud::Cloud;
use crate::client::ask;
use crate::runner::Test;
use crate::server::Fault;
use std::thread;
use std::time::Duration;

pub(super) const TESTS: &[Test] = &[
    ("figures::requests_are_counted", requests_are_counted),
    ("figures::logins_are_counted", logins_are_counted),
    ("figures::rates_and_requests_at_once", rates_and_requests_at_once),
    ("figures::a_reset_begins_anew", a_reset_begins_anew),
];

fn requests_are_counted() {
    let cloud = Cloud::new();
    cloud.attach(&cloud.a);
    cloud.attach(&cloud.a);
    assert!(cloud.server.wait_idle());
    cloud.detach(&cloud.a);
    cloud.get(&cloud.volume_path(&cloud.data));
    cloud.get("/RegionTwo/internal/compute/v2.1/servers");
    let counters = cloud.server.counters();
    assert_eq!(counters.total, 5);
    assert_eq!(counters.route("POST compute/servers/{server}/os-volume_attachments"), 2);
    assert_eq!(counters.route("DELETE compute/servers/{server}/os-volume_attachments/{volume}"), 1);
    assert_eq!(counters.route("GET volume/volumes/{volume}"), 1);
    assert_eq!((counters.service("compute"), counters.service("volume")), (4, 1));
    assert_eq!((counters.attaches[&cloud.data], counters.detaches[&cloud.data]), (2, 1));
    assert_eq!((counters.statuses["200"], counters.statuses["400"]), (3, 1));
    let last = cloud.server.log().pop().expect("an entry");
    assert_eq!(last.region.as_deref(), Some("RegionTwo"));
    assert_eq!(last.interface.as_deref(), Some("internal"));
}

fn logins_are_counted() {
    let cloud = Cloud::new();
    for body in ["{}", "{"] {
        ask(&cloud.server.url(), "POST", "/identity/v3/auth/tokens", &[], body).expect("an answer");
    }
    cloud.get("/identity/v3/auth/catalog");
    assert_eq!(cloud.server.counters().logins, 2);
}

fn rates_and_requests_at_once() {
    let cloud = Cloud::new();
    cloud.server.fault(Fault::on("GET", "/servers").times(4).delay(Duration::from_millis(400)));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| cloud.get("/compute/v2.1/servers"));
        }
    });
    thread::sleep(Duration::from_millis(1100));
    cloud.get("/compute/v2.1/servers");
    let counters = cloud.server.counters();
    assert_eq!((counters.total, counters.peak_at_once, counters.peak_per_second), (5, 4, 4));
}

fn a_reset_begins_anew() {
    let cloud = Cloud::new();
    cloud.attach(&cloud.a);
    cloud.server.reset_counters();
    assert_eq!((cloud.server.counters().total, cloud.server.log().len()), (0, 0));
    assert!(cloud.server.counters().attaches.is_empty());
}
