//! The scenes of the root ring and of the cloud ring under one name, where the files shared with them expect it.

#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../cloud/scene.rs"]
mod of_the_cloud;
#[allow(dead_code, reason = "each ring uses its own part")]
#[path = "../root/scene.rs"]
mod of_the_node;

pub use of_the_cloud::{PV, configure};
pub use of_the_node::{Scene, goes_on, pull, scene};
