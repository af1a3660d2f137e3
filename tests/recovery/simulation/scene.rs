//! The scene that is played: how large the cloud is beside its fleet.

use super::cloud::CloudSetting;
use super::fleet::{Caller, Setting};
use incloud_disk::model::cloud::access::Limits;
use std::time::Duration;

/// A cloud that takes one request a second of each five nodes, and is away for ten minutes. Its other times are
/// those that real services showed.
pub fn scene(seed: u64, nodes: usize, volumes: usize, caller: Caller) -> Setting {
    Setting {
        seed,
        nodes,
        volumes,
        caller,
        limits: Limits::default(),
        cloud: CloudSetting {
            per_second: u32::try_from(nodes / 5).expect("so many nodes").max(20),
            retry_after: Duration::from_secs(1),
            latency: Duration::from_millis(30),
            login: Duration::from_millis(300),
            reserve: Duration::from_millis(300),
            attach: Duration::from_millis(950),
            slow: Duration::from_secs(20),
            outage: Duration::from_secs(600),
        },
        most: Duration::from_secs(7200),
    }
}
