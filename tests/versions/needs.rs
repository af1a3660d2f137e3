//! What a test of this ring needs: what the root ring's tests do, and the previous version.

#[allow(dead_code, unused_imports, reason = "each ring uses its own part")]
#[macro_use]
#[path = "../root/needs.rs"]
mod of_the_machine;

pub use crate::previous::is_built as previous;
pub use of_the_machine::{mounts, pods, seams};
