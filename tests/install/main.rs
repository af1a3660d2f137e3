//! The operator's words of `install.sh`, on a machine that is a folder: `DESTDIR` and a plugin
//! folder of its own, and another `/proc` where it matters. The driver is the real one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

#[path = "../support/mod.rs"]
mod support;

mod machine;
mod watch;

mod building;
mod drift;
mod folders;
mod kills;
mod node;
mod node_name;
mod pages;
mod predecessor;
mod readiness;
mod refusals;
mod releases;
mod switching;
mod trigger;
mod uninstalling;
