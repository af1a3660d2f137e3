//! Real loop devices, real file systems, real mounts; each test in a mount namespace of its own.

#[path = "../support/mod.rs"]
mod support;

mod identity;
mod life;
mod static_build;
