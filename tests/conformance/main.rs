//! What every cloud must do that this driver works with, whatever it is: `suite.rs`. The embedded
//! cloud passes it on loop devices, `OpenStack`'s adapter over real HTTP, and so does the smallest
//! cloud there can be (`shelf.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unused_self,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

#[path = "../openstack/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

#[macro_use]
mod suite;

mod driver;
mod local;
mod openstack;
mod shelf;
mod tagged;
