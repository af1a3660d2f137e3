//! What the two halves of a cloud say of a volume and a server, put together.
//!
//! The block service (Cinder) knows the volume's status and its finished attachments; the compute
//! service (Nova) lists what it has mapped to a server, in flight included. Each can be behind,
//! and they can contradict each other for good. This is the one table that says what follows.

/// Whether a volume may be attached to several servers at once. No file system that we make
/// survives two writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// It has one server.
    Alone,
    /// Any number of servers, none of which writes.
    ReadOnly,
}

/// The volume as the block service shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockView {
    /// Its status, in the service's words.
    pub status: String,
    /// Whether the server asked about is among its finished attachments.
    pub lists_server: bool,
    /// Whether another server is.
    pub lists_others: bool,
    /// Whether several servers may have it.
    pub is_shareable: bool,
}

/// What the compute service says of the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeView {
    /// The volume is mapped to the server.
    Mapped,
    /// It is not.
    NotMapped,
    /// There is no such server.
    NoServer,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// Attached to nobody: an attach may be asked for, a detach is done.
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
    /// The cloud works on it, and its own halves do not agree yet: wait.
    Busy,
    /// The cloud works on it, and by both accounts not at this server: an attach waits.
    BusyElsewhere,
    /// The volume is in an error state, or on its way out, and at no server: no attach will come
    /// true.
    Unusable,
    /// Mapped, but free or broken by the volume's status: the moment after a detach, or a ghost.
    /// Wait, then an operator.
    Ghost,
    /// The block service lists the server, the compute service does not know of it.
    Forgotten,
    /// The block service lists a server that does not exist any more.
    ServerGone,
}

/// The table. Every status is answered for: one that nobody knows counts as busy.
#[must_use]
#[expect(clippy::match_same_arms, reason = "rows stand where they are read, not where they agree")]
pub fn judge(block: &BlockView, compute: ComputeView) -> Situation {
    use ComputeView::{Mapped, NoServer, NotMapped};
    let status = block.status.as_str();
    let is_lost = status.starts_with("error") || matches!(status, "deleting" | "awaiting-transfer");
    match (status, block.lists_server, compute) {
        // A detach that is under way ends in either of these by itself.
        ("detaching", true, Mapped | NotMapped) => Situation::Detaching,
        ("in-use", true, Mapped) => Situation::Attached,
        (_, true, NoServer) => Situation::ServerGone,
        (_, true, NotMapped) => Situation::Forgotten,
        ("reserved" | "attaching", _, Mapped) => Situation::Attaching,
        // Lost in an error, but there by both accounts: that much is certain.
        (_, true, Mapped) if is_lost => Situation::Attached,
        ("available", true, Mapped) => Situation::Busy,
        (_, true, Mapped) => Situation::AttachedBusy,

        // A shareable volume at another server: this server's own attach may be in flight.
        ("in-use", false, Mapped) => Situation::Attaching,
        ("in-use", false, _) if block.is_shareable => Situation::Shareable,
        ("in-use", false, _) => Situation::Elsewhere,
        ("available", false, Mapped) => Situation::Ghost,
        ("available", false, _) if block.lists_others => Situation::BusyElsewhere,
        ("available", false, _) => Situation::Free,
        (_, false, Mapped) if is_lost => Situation::Ghost,
        (_, false, _) if is_lost => Situation::Unusable,
        (_, false, Mapped) => Situation::Busy,
        (_, false, NotMapped | NoServer) => Situation::BusyElsewhere,
    }
}

/// Every status that the block service has, and one that it has not.
#[cfg(test)]
pub(crate) const STATUSES: [&str; 23] = [
    "creating",
    "available",
    "reserved",
    "attaching",
    "in-use",
    "detaching",
    "maintenance",
    "retyping",
    "extending",
    "downloading",
    "uploading",
    "backing-up",
    "restoring-backup",
    "awaiting-transfer",
    "managing",
    "deleting",
    "error",
    "error_deleting",
    "error_extending",
    "error_restoring",
    "error_backing-up",
    "error_managing",
    "never-heard-of",
];

#[cfg(test)]
mod tests {
    use super::*;
    use ComputeView::{Mapped, NoServer, NotMapped};

    fn judged(
        status: &str,
        lists_server: bool,
        lists_others: bool,
        compute: ComputeView,
    ) -> Situation {
        let block = BlockView {
            status: status.to_owned(),
            lists_server,
            lists_others,
            is_shareable: false,
        };
        judge(&block, compute)
    }

    #[test]
    fn the_usual_states_are_what_they_seem() {
        assert_eq!(judged("available", false, false, NotMapped), Situation::Free);
        assert_eq!(judged("reserved", false, false, Mapped), Situation::Attaching);
        assert_eq!(judged("attaching", false, false, Mapped), Situation::Attaching);
        assert_eq!(judged("in-use", true, false, Mapped), Situation::Attached);
        assert_eq!(judged("detaching", true, false, Mapped), Situation::Detaching);
        assert_eq!(judged("in-use", false, true, NotMapped), Situation::Elsewhere);
    }

    #[test]
    fn contradictions_have_names() {
        assert_eq!(judged("available", false, false, Mapped), Situation::Ghost);
        assert_eq!(judged("in-use", true, false, NotMapped), Situation::Forgotten);
        assert_eq!(judged("in-use", true, false, NoServer), Situation::ServerGone);
    }

    #[test]
    fn nothing_is_free_while_a_server_is_listed_or_the_cloud_is_busy() {
        for status in STATUSES {
            for compute in [Mapped, NotMapped, NoServer] {
                for (lists_server, lists_others) in [(true, false), (true, true), (false, true)] {
                    let found = judged(status, lists_server, lists_others, compute);
                    let may_be_free = status == "available";
                    assert!(may_be_free || found != Situation::Free, "{status} {compute:?}");
                }
                let found = judged(status, false, false, compute);
                assert!(
                    found != Situation::Attached,
                    "{status} {compute:?}: without an attachment"
                );
            }
        }
    }
}
