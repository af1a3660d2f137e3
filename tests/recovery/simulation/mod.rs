//! A fleet of machines and a cloud on a virtual clock.
#![allow(
    clippy::expect_used,
    dead_code,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "each ring uses its own part, and fails by panicking"
)]

mod clock;
mod cloud;
pub mod fleet;
mod machine;
pub mod scene;
