//! What the driver needs from a cloud and from a node: traits that adapters implement, and all that the driver knows
//! about either.

pub mod clock;
pub mod cloud;
pub mod host;
pub mod store;

use incloud_disk_model as model;
