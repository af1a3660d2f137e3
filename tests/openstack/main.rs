//! The project's own OpenStack-compatible server, held against recorded replies of real services.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "test code fails by panicking, and says so"
)]

mod client;
mod cloud;
mod faults;
mod replay;
mod serve;
mod server;
