//! What happened, by the name that a line of the log has for its readers.

use serde::de::IntoDeserializer;
use serde::de::value::Error;
use serde::{Deserialize, Serialize};

/// A line that is read for more than its text has one of these names as its field `event`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEvent {
    CallDone,
    /// A call failed, was refused, or was given up.
    CallFailed,
    /// A heal ended without a disk: the mounts wait for it.
    DiskAwaited,
    Refused,
    RefusalEnded,
    /// A pod's directory was unmounted on this machine; the pod keeps the volume.
    FolderReleased,
    FormatStarted,
    /// Only the plan of a heal was wanted.
    WouldHeal,
    HealStarted,
    Healed,
    /// A heal failed, or something is still on the lost disk.
    NotHealed,
    KernelMessage,
}

#[cfg(any(test, debug_assertions))]
impl LogEvent {
    pub const ALL: [Self; 12] = [
        Self::CallDone,
        Self::CallFailed,
        Self::DiskAwaited,
        Self::Refused,
        Self::RefusalEnded,
        Self::FolderReleased,
        Self::FormatStarted,
        Self::WouldHeal,
        Self::HealStarted,
        Self::Healed,
        Self::NotHealed,
        Self::KernelMessage,
    ];
}

impl LogEvent {
    /// Reads the name; nothing if this version does not know it.
    pub fn named(name: &str) -> Option<Self> {
        let name: serde::de::value::StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }

    /// The event of a line without one, from before format 2. Nothing else reads a message's words.
    pub(super) fn of_old(level: &str, message: &str) -> Option<Self> {
        Some(match message {
            "end: Success" => Self::CallDone,
            "end" if level == "INFO" => Self::CallDone,
            "end" if level == "WARN" => Self::DiskAwaited,
            "end" => Self::CallFailed,
            "refused" => Self::Refused,
            "no longer refused" => Self::RefusalEnded,
            "let go of the folder: the pod keeps the volume" => Self::FolderReleased,
            "formatting a blank disk" => Self::FormatStarted,
            "healed" => Self::Healed,
            "not healed" => Self::NotHealed,
            "what the kernel said of the disk" => Self::KernelMessage,
            _ if message.starts_with("end: ") => Self::CallFailed,
            _ if message.starts_with("would be healed") => Self::WouldHeal,
            _ if message.starts_with("healing: ") => Self::HealStarted,
            _ => return None,
        })
    }
}
