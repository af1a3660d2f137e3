//! The previous version of the driver and the current one on the same node, or one on the node and the other
//! in the controller-manager: an upgrade or a rollback at any moment loses nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    clippy::unused_self,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

#[path = "../openstack/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

#[macro_use]
mod needs;
mod previous;

#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../root/checks.rs"]
mod checks;
#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../root/files.rs"]
mod files;
#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../root/holders.rs"]
mod holders;
#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../cloud/machine.rs"]
mod machine;
#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../cloud/plug.rs"]
mod plug;
mod scene;
#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../cloud/two_servers.rs"]
mod two_servers;
#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../root/volume.rs"]
mod volume;

mod controller;
mod keys;
mod killed;
mod left_attached;
mod turns;
mod wiped;
