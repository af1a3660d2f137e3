//! The tear-downs of a volume that the guard refuses.

use crate::report::refusal::Refusal;
use crate::report::tear_down::{TearDown, by_tear_down};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The guard's refusals.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GuardRecord {
    /// The tear-downs that are currently refused.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_tear_down"
    )]
    pub refused: BTreeMap<TearDown, Refusal>,
    /// How many tear-downs were refused since the machine was started.
    #[serde(default)]
    pub refusals: u64,
    /// The mount whose lost writes the current tear-down has reported: they are reported once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_lost_writes: Option<u32>,
}
