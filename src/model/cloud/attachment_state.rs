//! What the two sides of a cloud say of a volume and a server, put together.
//!
//! The volumes' side knows what each volume is doing and its finished attachments; the servers' side
//! knows what it has mapped to a server, in flight included. Each can be behind, and they can
//! contradict each other for good. This is the one table that says what follows.

use serde::{Serialize, Serializer};
use std::fmt;

/// What a volume is doing, at whichever server it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VolumePhase {
    /// It is at rest, and free to be attached.
    Available,
    /// It is on its way to a server.
    Attaching,
    /// It is at rest, attached.
    Attached,
    /// It is leaving a server.
    Detaching,
    /// The cloud works on it. What an adapter does not know counts as this: it is waited for.
    #[default]
    Working,
    /// Something went wrong with it, and it does not come right by itself.
    Failed,
    /// It is about to go, or to be another owner's.
    Leaving,
}

/// A volume's phase, and the cloud's own word for it: that one is for people alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeStatus {
    /// What it is doing.
    pub phase: VolumePhase,
    /// What the cloud calls that.
    pub word: String,
}

impl VolumeStatus {
    /// A phase under the cloud's word for it.
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

/// Whether a volume may be attached to several servers at once. No file system that we make
/// survives two writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// It has one server.
    Alone,
    /// Any number of servers, none of which writes.
    ReadOnly,
}

/// What the volumes' side says of the volume, as far as it matters to one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// What the volume is doing.
    pub phase: VolumePhase,
    /// Whether the server asked about is among its finished attachments.
    pub lists_server: bool,
    /// Whether another server is.
    pub lists_others: bool,
    /// Whether several servers may have it.
    pub is_shareable: bool,
}

/// What the servers' side says of the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// The volume is mapped to the server.
    Mapped,
    /// It is not.
    NotMapped,
    /// There is no such server.
    NoServer,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentState {
    /// Attached to no server: an attach may be asked for, a detach is done.
    Free,
    /// Attached to the server.
    Attached,
    /// On its way to the server.
    Attaching,
    /// Still at the server, leaving it.
    Detaching,
    /// Another server has it, alone.
    Elsewhere,
    /// Another server has it, and this one may have it too.
    Shareable,
    /// Attached to the server, while the cloud works on it (a backup, a new size): a detach waits.
    AttachedBusy,
    /// The cloud works on it, and its two sides do not agree yet: wait.
    Busy,
    /// The cloud works on it, and by both accounts not at this server: an attach waits.
    BusyElsewhere,
    /// The volume has failed, or is about to go, and is at no server: no attach will come true.
    Unusable,
    /// Mapped, but free or failed by the volume's phase: the moment after a detach, or a ghost.
    /// Wait, then an operator.
    Ghost,
    /// The volumes' side lists the server, the servers' side does not know of it.
    Forgotten,
    /// The volumes' side lists a server that does not exist any more.
    ServerGone,
}

impl AttachmentState {
    /// Whether it is at rest, and by both accounts not at the server.
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Self::Free | Self::Elsewhere | Self::Shareable)
    }
}

/// The table. Every phase is answered for.
#[expect(clippy::match_same_arms, reason = "rows stand where they are read, not where they agree")]
pub fn judge(listing: &Listing, mapping: Mapping) -> AttachmentState {
    use Mapping::{Mapped, NoServer, NotMapped};
    use VolumePhase::{Attached, Attaching, Available, Detaching, Failed, Leaving};
    match (listing.phase, listing.lists_server, mapping) {
        // A detach that is under way ends in either of these by itself.
        (Detaching, true, Mapped | NotMapped) => AttachmentState::Detaching,
        (Attached, true, Mapped) => AttachmentState::Attached,
        (_, true, NoServer) => AttachmentState::ServerGone,
        (_, true, NotMapped) => AttachmentState::Forgotten,
        (Attaching, _, Mapped) => AttachmentState::Attaching,
        // Lost in an error, but there by both accounts: that much is certain.
        (Failed | Leaving, true, Mapped) => AttachmentState::Attached,
        (Available, true, Mapped) => AttachmentState::Busy,
        (_, true, Mapped) => AttachmentState::AttachedBusy,

        // A shareable volume at another server: this server's own attach may be in flight.
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
