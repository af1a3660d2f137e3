//! What the administrator lets the driver do: to refuse, to repair, to take over.

use serde::{Deserialize, Serialize};

/// `attach.takeover`: a volume that is wanted here may still be on the books of a server that
/// cannot use it any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Takeover {
    /// From none.
    #[default]
    Off,
    /// From servers that the compute service has deleted.
    Deleted,
    /// From those, and from servers that are shut off.
    Stopped,
}

/// `[guard]`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardPolicy {
    /// Whether tear-downs of volumes in use are refused.
    pub mode: GuardMode,
    /// Seconds after which refusals without a break, for the same pods, turn into consent; never if
    /// not given.
    pub give_up_after: Option<u64>,
    /// Whether other machines are told, through the cloud, where a volume is mounted.
    pub remote: bool,
}

impl GuardPolicy {
    /// Whether a tear-down is guarded: asked once, before its first step. With the guard off no process is looked for.
    pub fn is_on(&self) -> bool {
        self.mode != GuardMode::Off
    }

    /// Whether a tear-down that was guarded met no objection. With `warn`, or a limit, it may have, and went on.
    pub fn has_no_exceptions(&self) -> bool {
        self.mode == GuardMode::Enforce && self.give_up_after.is_none()
    }
}

impl Default for GuardPolicy {
    fn default() -> Self {
        Self { mode: GuardMode::Enforce, give_up_after: None, remote: true }
    }
}

/// `guard.mode`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuardMode {
    /// Refuse.
    #[default]
    Enforce,
    /// Log what would have been refused.
    Warn,
    /// Neither.
    Off,
}

/// `[shield]`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShieldPolicy {
    /// Whether new mounts are made through a map that waits while the disk is away.
    pub mode: ShieldMode,
    /// Seconds after which such a wait ends, and what waits fails.
    pub patience: u64,
}

impl Default for ShieldPolicy {
    fn default() -> Self {
        Self { mode: ShieldMode::Off, patience: 300 }
    }
}

/// `shield.mode`, and a volume's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShieldMode {
    /// A disk is mounted itself.
    #[default]
    Off,
    /// It is mounted through a map.
    On,
}

/// `heal.mode`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealMode {
    /// Repair.
    #[default]
    Auto,
    /// Say what would be done.
    Report,
    /// Neither.
    Off,
}
