//! Every status that `OpenStack` has for a volume, with every listing and every answer of the servers'
//! side: what attach, detach and "is it attached" answer. No cell is left out.

use crate::Context;
use crate::attachment::attach;
use crate::attachment::detach::Force;
use crate::cloud::openstack::words::{STATUSES, volume_status};
use crate::fakes::{FakeCloud, FakeDevices, FakeNamespaces, MadeUp};
use crate::model::cloud::attachment_state::{Mapping, Sharing};
use crate::model::error::{Error, Kind};
use crate::model::ids::{NodeName, VolumeId};
use crate::names;
use crate::operation::Volume;
use std::time::Duration;

/// Short, so that "wait" ends soon; the driver's own patience follows it.
const DEADLINE: Duration = Duration::from_millis(240);

/// For what was not as expected: on a machine that is busy the short one may pass before the driver
/// has come to its answer, and no answer depends on how long it may take.
const PATIENT: Duration = Duration::from_secs(5);

/// Which finished attachments the volume lists.
const LISTINGS: [(&str, &[&str]); 3] =
    [("none", &[]), ("here", &["server"]), ("other", &["other"])];

const VIEWS: [(&str, Mapping); 3] =
    [("mapped", Mapping::Mapped), ("not", Mapping::NotMapped), ("no-server", Mapping::NoServer)];

/// attach and detach: `ok` already so, `ask` one request and then so, `wait` not settled within
/// the deadline, `refuse` an error that a person must look at, `else` another server has it.
/// "Is it attached": `yes`, `no`, `doubt`.
fn answers(status: &str, servers: &[&str], view: Mapping, deadline: Duration) -> String {
    let call = |run: &dyn Fn(&Context<'_>, &Volume, &NodeName) -> Result<bool, Error>| {
        let cloud = FakeCloud::default().with("volume", 1, servers);
        cloud.volumes.borrow_mut()[0].status = volume_status(status);
        cloud.mapping.set(Some(view));
        let devices = FakeDevices::default();
        let made_up = MadeUp {
            namespaces: FakeNamespaces::blind(),
            node: "another-node",
            limit: deadline,
            ..MadeUp::with(&cloud, &devices)
        };
        let volume = Volume::new(VolumeId::parse("volume").unwrap(), None);
        let server = NodeName::parse("server").unwrap();
        let answer = made_up.drive(|cx| run(cx, &volume, &server));
        (answer, cloud.requests.get())
    };
    let changed = |(answer, requests): (Result<bool, Error>, u32)| match answer {
        Ok(_) if requests == 0 => "ok",
        Ok(_) if requests == 1 => "ask",
        Err(error) if requests == 0 => match error.kind {
            Kind::Timeout => "wait",
            Kind::Elsewhere => "else",
            Kind::Refused => "refuse",
            other => panic!("{status}: {other:?} {error}"),
        },
        other => panic!("{status}: {requests} requests, {other:?}"),
    };
    let attach = changed(call(&|cx, volume, node| {
        attach::attach(cx, volume, node, Sharing::Alone).map(|_| true)
    }));
    let detach = changed(call(&|cx, volume, node| {
        names::detach(cx, &volume.id.as_name(), Some(node), Force::No).map(|_| true)
    }));
    let is_attached = match call(&|cx, volume, node| attach::is_attached(cx, volume, node)).0 {
        Ok(true) => "yes",
        Ok(false) => "no",
        Err(_) => "doubt",
    };
    format!("{attach} {detach} {is_attached}")
}

/// The answers under each view, in the order of `VIEWS`.
fn row(status: &str, (listing, servers): (&str, &[&str]), deadline: Duration) -> String {
    let cells: Vec<_> = VIEWS
        .iter()
        .map(|(name, view)| format!("{name}: {}", answers(status, servers, *view, deadline)))
        .collect();
    format!("{status}, {listing} | {}", cells.join(" | "))
}

#[test]
fn every_cell_has_the_expected_answer() {
    let expected: Vec<&str> = include_str!("cloud_table.txt").lines().collect();
    assert_eq!(expected.len(), STATUSES.len() * LISTINGS.len());
    std::thread::scope(|scope| {
        for (status, expected) in STATUSES.iter().zip(expected.chunks(LISTINGS.len())) {
            scope.spawn(move || {
                for (listing, expected) in LISTINGS.iter().zip(expected) {
                    if row(status, *listing, DEADLINE) != *expected {
                        assert_eq!(row(status, *listing, PATIENT), *expected);
                    }
                }
            });
        }
    });
}
