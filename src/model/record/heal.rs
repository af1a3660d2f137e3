//! What a heal that is killed leaves to the next one.

use crate::mount::replacement::MountIntent;
use serde::{Deserialize, Serialize};

/// A heal that is under way, or was killed; and why the last one did not heal the volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HealRecord {
    /// What the file system counts once the mount of a heal was made that may have been killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing: Option<u16>,
    /// What it counted before: a heal that was killed may not have come to its mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing_from: Option<u16>,
    /// Mounts of other places that a heal changes for a moment: there until it has put them right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switching: Vec<Switching>,
    /// Why the volume could not be healed when no call asked for it, as the log has it: the look of the
    /// next minute does not say it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_healed: Option<String>,
}

impl HealRecord {
    /// A heal is about to make the file system count this, from what it counts now.
    pub fn is_healing(&mut self, from: Option<u16>, to: Option<u16>) {
        (self.healing_from, self.healing) = (from, to);
    }

    /// Whether a heal that was killed explains this count.
    #[must_use]
    pub fn counted_by_a_heal(&self, now: u16) -> bool {
        [self.healing, self.healing_from].contains(&Some(now))
    }

    /// Remembers what a heal is about to change in one mount namespace. What an earlier one wrote
    /// of a mount stays: that one may have been killed, and what is there now is its half of the
    /// work.
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

/// Mounts of one mount namespace that a heal changes for a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switching {
    /// The boot of the machine: namespaces and mounts are numbered anew with each.
    pub boot: String,
    #[serde(flatten)]
    pub sign: NamespaceSign,
    /// What is to be in the end.
    pub mounts: Vec<MountIntent>,
}

impl Switching {
    /// Whether this mount is written down already.
    #[must_use]
    pub fn tells_of(&self, mount: &MountIntent) -> bool {
        self.mounts.iter().any(|one| (one.id, &one.target) == (mount.id, &mount.target))
    }
}

/// By what a mount namespace is known again. Its number is given away when it has gone: so there is
/// something beside it that no later one has. What an older version wrote has the number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSign {
    pub namespace: u64,
    /// The kernel's count of mount namespaces, where it tells that (Linux 6.11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Else one who lives there: the process, and when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dweller: Option<(u32, u64)>,
}

impl NamespaceSign {
    /// One of which the number alone is known.
    #[must_use]
    pub fn of_number(namespace: u64) -> Self {
        Self { namespace, count: None, dweller: None }
    }

    /// Whether a namespace that has the number is that one. `now` is what it shows: its count, and
    /// when the process that was noted began, if that lives there.
    #[must_use]
    pub fn is_of(&self, count: Option<u64>, began: Option<u64>) -> bool {
        match (self.count, self.dweller) {
            (Some(noted), _) => count == Some(noted),
            (None, Some((_, noted))) => began == Some(noted),
            (None, None) => true,
        }
    }
}
