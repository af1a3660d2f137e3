//! The driver against an `OpenStack`-compatible server: the real binary, real HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unused_self,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

#[path = "../openstack/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, unused_imports, reason = "each ring uses its own part")]
#[macro_use]
#[path = "../root/needs.rs"]
mod needs;

#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../root/files.rs"]
mod files;
mod machine;
mod names;
mod plug;
mod scene;
mod two_servers;

mod attach;
mod canaries;
mod current_kubelet;
mod detached;
mod disagreement;
mod doubt;
mod endless;
mod formats;
mod grow;
mod hard_hours;
mod hostile;
mod impostors;
mod life;
mod limits;
mod login;
mod looking;
mod marks;
mod node_names;
mod node_servers;
mod places;
mod requests;
mod static_build;
mod storms;
mod takeover;
mod tls;
mod whoami;
