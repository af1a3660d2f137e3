//! What a heal that is killed leaves to the next one.

use crate::mount::replacement::MountIntent;
use serde::{Deserialize, Serialize};

/// A heal that is running or was killed, and why the last one failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HealRecord {
    /// The file system's mount count after the mount of a heal that may have been killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing: Option<u16>,
    /// The mount count before it: the heal may have been killed before its mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing_from: Option<u16>,
    /// Mounts that a heal changes temporarily, until it has restored them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switching: Vec<Switching>,
    /// Why the timer could not heal the volume, as it is logged. The timer does not log the same reason every minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_healed: Option<String>,
}

impl HealRecord {
    /// Records the mount count that a heal is about to change, and what it will be.
    pub fn is_healing(&mut self, from: Option<u16>, to: Option<u16>) {
        (self.healing_from, self.healing) = (from, to);
    }

    /// Whether a killed heal explains this mount count.
    pub fn counted_by_a_heal(&self, now: u16) -> bool {
        [self.healing, self.healing_from].contains(&Some(now))
    }

    /// Records what a heal is about to change in one mount namespace. An earlier entry for a mount is kept: that heal
    /// may have been killed halfway, so the mount's present state is not the one to restore.
    pub fn will_switch(&mut self, boot: &str, sign: NamespaceSign, mounts: Vec<MountIntent>) {
        self.switching.retain(|one| one.boot == boot);
        let known = self.switching.iter_mut().find(|one| one.sign == sign);
        let Some(known) = known else {
            let boot = boot.to_owned();
            self.switching.push(Switching { boot, sign, mounts });
            return;
        };
        for mount in mounts {
            if !known.tells_of(&mount) {
                known.mounts.push(mount);
            }
        }
    }
}

/// Mounts of one mount namespace that a heal changes temporarily.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switching {
    /// The boot id: namespace and mount numbers are reused after a reboot.
    pub boot: String,
    #[serde(flatten)]
    pub sign: NamespaceSign,
    /// How each mount must be in the end.
    pub mounts: Vec<MountIntent>,
}

impl Switching {
    /// Whether this mount is recorded already.
    pub fn tells_of(&self, mount: &MountIntent) -> bool {
        self.mounts.iter().any(|one| (one.id, &one.target) == (mount.id, &mount.target))
    }
}

/// Identifies a mount namespace. Its number is reused once it is gone, so something unique is recorded with it; records
/// of older versions have only the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSign {
    pub namespace: u64,
    /// The kernel's unique id of the namespace (Linux 6.11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// On older kernels, a process in the namespace and its start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dweller: Option<(u32, u64)>,
}

impl NamespaceSign {
    /// A namespace of which only the number is known.
    pub fn of_number(namespace: u64) -> Self {
        Self { namespace, count: None, dweller: None }
    }

    /// Whether a namespace with this number is the recorded one, by its unique id, or by when the recorded process began
    /// if that is in it.
    pub fn is_of(&self, count: Option<u64>, began: Option<u64>) -> bool {
        match (self.count, self.dweller) {
            (Some(noted), _) => count == Some(noted),
            (None, Some((_, noted))) => began == Some(noted),
            (None, None) => true,
        }
    }
}
