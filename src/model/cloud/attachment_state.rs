//! The combined state of a volume and a server, from both services of a cloud.
//!
//! The block storage service knows each volume's status and finished attachments; the compute service knows its
//! mappings, including those in progress. Either can lag behind, and they can contradict each other permanently. This
//! is the one table that resolves them.

use serde::{Serialize, Serializer};
use std::fmt;

/// What a volume is doing, at whichever server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VolumePhase {
    /// Idle and free.
    Available,
    /// Being attached to a server.
    Attaching,
    /// Idle and attached.
    Attached,
    /// Being detached from a server.
    Detaching,
    /// The cloud is working on it. Also any status that an adapter does not know, so that it is waited for.
    #[default]
    Working,
    /// In an error state, which does not resolve itself.
    Failed,
    /// Being deleted, or transferred to another owner.
    Leaving,
}

/// A volume's phase, and the cloud's own word for it, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeStatus {
    pub phase: VolumePhase,
    pub word: String,
}

impl VolumeStatus {
    pub fn new(phase: VolumePhase, word: &str) -> Self {
        Self { phase, word: word.to_owned() }
    }
}

impl fmt::Display for VolumeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)
    }
}

impl Serialize for VolumeStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.word)
    }
}

/// Whether a volume may be attached to several servers at once. No file system of this driver survives two writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One server.
    Alone,
    /// Any number of servers, none of which writes.
    ReadOnly,
}

/// The block storage service's view of the volume, as far as it matters to one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    pub phase: VolumePhase,
    /// Whether it lists a finished attachment to this server.
    pub lists_server: bool,
    /// Whether it lists one to another server.
    pub lists_others: bool,
    /// Whether the volume is multi-attach.
    pub is_shareable: bool,
}

/// The compute service's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// The volume is mapped to the server.
    Mapped,
    NotMapped,
    /// The server does not exist.
    NoServer,
}

/// The combined state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentState {
    /// Attached nowhere: an attach may be requested, a detach is done.
    Free,
    /// Attached to this server.
    Attached,
    /// Being attached to this server.
    Attaching,
    /// Being detached from this server.
    Detaching,
    /// Attached to another server, exclusively.
    Elsewhere,
    /// Attached to another server, and this one may have it too.
    Shareable,
    /// Attached to this server while the cloud works on it (a backup, a resize): a detach waits.
    AttachedBusy,
    /// The cloud works on it, and its services do not agree yet: wait.
    Busy,
    /// The cloud works on it, and neither service has it at this server: an attach waits.
    BusyElsewhere,
    /// In an error state or being deleted, and at no server: it can never be attached.
    Unusable,
    /// Mapped, although its status says free or failed: briefly after a detach, or permanently. Wait, then refer to an
    /// operator.
    Ghost,
    /// Listed at this server, but the compute service does not know of it.
    Forgotten,
    /// Listed at a server that no longer exists.
    ServerGone,
}

impl AttachmentState {
    /// Whether it is idle, and neither service has it at this server.
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Self::Free | Self::Elsewhere | Self::Shareable)
    }
}

/// The table, with a row for every phase.
#[expect(clippy::match_same_arms, reason = "rows stand where they are read, not where they agree")]
pub fn judge(listing: &Listing, mapping: Mapping) -> AttachmentState {
    use Mapping::{Mapped, NoServer, NotMapped};
    use VolumePhase::{Attached, Attaching, Available, Detaching, Failed, Leaving};
    match (listing.phase, listing.lists_server, mapping) {
        // A detach in progress; both resolve themselves.
        (Detaching, true, Mapped | NotMapped) => AttachmentState::Detaching,
        (Attached, true, Mapped) => AttachmentState::Attached,
        (_, true, NoServer) => AttachmentState::ServerGone,
        (_, true, NotMapped) => AttachmentState::Forgotten,
        (Attaching, _, Mapped) => AttachmentState::Attaching,
        // In an error state, but certainly attached: both services say so.
        (Failed | Leaving, true, Mapped) => AttachmentState::Attached,
        (Available, true, Mapped) => AttachmentState::Busy,
        (_, true, Mapped) => AttachmentState::AttachedBusy,

        // A multi-attach volume at another server; this server's own attach may be in progress.
        (Attached, false, Mapped) => AttachmentState::Attaching,
        (Attached, false, _) if listing.is_shareable => AttachmentState::Shareable,
        (Attached, false, _) => AttachmentState::Elsewhere,
        (Available, false, Mapped) => AttachmentState::Ghost,
        (Available, false, _) if listing.lists_others => AttachmentState::BusyElsewhere,
        (Available, false, _) => AttachmentState::Free,
        (Failed | Leaving, false, Mapped) => AttachmentState::Ghost,
        (Failed | Leaving, false, _) => AttachmentState::Unusable,
        (_, false, Mapped) => AttachmentState::Busy,
        (_, false, NotMapped | NoServer) => AttachmentState::BusyElsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mapping::{Mapped, NoServer, NotMapped};
    use VolumePhase::{Attached, Attaching, Available, Detaching, Failed, Leaving, Working};

    const PHASES: [VolumePhase; 7] =
        [Available, Attaching, Attached, Detaching, Working, Failed, Leaving];

    fn judged(
        phase: VolumePhase,
        lists_server: bool,
        lists_others: bool,
        mapping: Mapping,
    ) -> AttachmentState {
        judge(&Listing { phase, lists_server, lists_others, is_shareable: false }, mapping)
    }

    #[test]
    fn the_usual_states_are_what_they_seem() {
        assert_eq!(judged(Available, false, false, NotMapped), AttachmentState::Free);
        assert_eq!(judged(Attaching, false, false, Mapped), AttachmentState::Attaching);
        assert_eq!(judged(Attached, true, false, Mapped), AttachmentState::Attached);
        assert_eq!(judged(Detaching, true, false, Mapped), AttachmentState::Detaching);
        assert_eq!(judged(Attached, false, true, NotMapped), AttachmentState::Elsewhere);
        assert_eq!(judged(Working, false, false, NotMapped), AttachmentState::BusyElsewhere);
    }

    #[test]
    fn contradictions_have_names() {
        assert_eq!(judged(Available, false, false, Mapped), AttachmentState::Ghost);
        assert_eq!(judged(Attached, true, false, NotMapped), AttachmentState::Forgotten);
        assert_eq!(judged(Attached, true, false, NoServer), AttachmentState::ServerGone);
    }

    #[test]
    fn nothing_is_free_while_a_server_is_listed_or_the_cloud_is_busy() {
        for phase in PHASES {
            for mapping in [Mapped, NotMapped, NoServer] {
                for (lists_server, lists_others) in [(true, false), (true, true), (false, true)] {
                    let found = judged(phase, lists_server, lists_others, mapping);
                    assert!(
                        phase == Available || found != AttachmentState::Free,
                        "{phase:?} {mapping:?}"
                    );
                }
                let found = judged(phase, false, false, mapping);
                assert!(
                    found != AttachmentState::Attached,
                    "{phase:?} {mapping:?}: without an attachment"
                );
            }
        }
    }
}
