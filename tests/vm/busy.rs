//! A machine that others use too is slower: there a person lets everything be waited for longer.

use std::time::Duration;

/// So many times as long.
const PATIENCE: &str = "INCLOUD_DISK_VM_PATIENCE";

pub(crate) fn longer(limit: Duration) -> Duration {
    let times = std::env::var(PATIENCE).ok().and_then(|text| text.parse().ok());
    limit * std::cmp::max(times.unwrap_or(1), 1)
}
