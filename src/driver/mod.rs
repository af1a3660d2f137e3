//! The decisions about a volume: what is already done, what to wait for, what to refuse.
//!
//! The driver knows volumes, servers, disks and mounts, but not the words in which it was called. Every operation can
//! be repeated, and killed at any point: the next attempt observes the state and goes on from there.

pub mod attachment;
pub mod call_counts;
mod context;
#[cfg(test)]
mod fakes;
pub mod guard;
pub mod heal;
pub mod lookup;
pub mod mount;
pub mod names;
pub mod operation;
pub mod ownership;
pub mod report;
pub mod shield;
pub(crate) mod snapshot;

#[cfg(test)]
use incloud_disk_cloud as cloud;
use incloud_disk_failpoints as failpoints;
#[cfg(test)]
use incloud_disk_host as host;
use incloud_disk_model as model;
use incloud_disk_ports as ports;

pub use context::{Context, Host, Policy, Store};
pub use operation::{Outcome, Volume};
