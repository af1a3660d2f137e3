//! What the driver needs of a cloud and of a machine. The clouds and this machine's adapters implement
//! these traits; the driver knows nothing else of either.

pub mod clock;
pub mod cloud;
pub mod host;
pub mod store;

use incloud_disk_model as model;
