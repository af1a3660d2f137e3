//! The next step of an attach or a detach call, decided from the attachment's state and the call's progress.

use super::attachment_state::{AttachmentState, Sharing};

/// How often a call requests the change. The cloud may accept a request and roll it back later, if its host cannot
/// attach the volume or the guest does not release it.
const TRIES: u32 = 2;

/// How far the call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestProgress {
    /// How often it has requested the change.
    pub tries: u32,
    /// Whether the cloud has had enough time to show the request, or to become consistent.
    pub is_settled: bool,
}

impl RequestProgress {
    /// Whether to request the change now, give up because each request was rolled back, or wait.
    fn request_or<T>(self, request: T, give_up: T, wait: T) -> T {
        match self {
            Self { tries: 0, .. } => request,
            Self { is_settled: false, .. } => wait,
            Self { tries: TRIES.., .. } => give_up,
            Self { .. } => request,
        }
    }
}

/// The next step of an attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachStep {
    /// The volume is attached.
    Done,
    /// Request it, unless another server's pending request may still succeed.
    Request,
    /// End the attachments of servers that do not use the volume; refuse if one of them does.
    TakeOver,
    /// Refuse: other servers have the volume, and this one may not share it.
    RefuseToShare,
    /// Refuse: the volume is in an error state or is being deleted.
    RefuseUnusable,
    /// Refuse: the cloud accepted each request and rolled it back.
    RefuseRolledBack,
    /// Only the compute service has the attachment: wait for an earlier request, or refuse if there is none.
    AwaitRequest,
    /// Poll again.
    Wait,
    /// Poll again, and give the operation in progress its full time.
    WaitLonger,
}

/// `taken_over` says whether this call has already ended other servers' attachments.
pub fn attach_step(
    state: AttachmentState,
    progress: RequestProgress,
    sharing: Sharing,
    taken_over: bool,
) -> AttachStep {
    use AttachmentState as State;
    let settled = |step| if progress.is_settled { step } else { AttachStep::Wait };
    match state {
        State::Attached | State::AttachedBusy => AttachStep::Done,
        State::Elsewhere if taken_over => settled(AttachStep::TakeOver),
        State::Elsewhere => AttachStep::TakeOver,
        State::Shareable if sharing == Sharing::Alone => AttachStep::RefuseToShare,
        State::Unusable => AttachStep::RefuseUnusable,
        State::Free | State::Shareable => {
            progress.request_or(AttachStep::Request, AttachStep::RefuseRolledBack, AttachStep::Wait)
        }
        State::Ghost => settled(AttachStep::AwaitRequest),
        State::Forgotten | State::ServerGone => settled(AttachStep::TakeOver),
        State::Attaching | State::Detaching | State::Busy | State::BusyElsewhere => {
            AttachStep::WaitLonger
        }
    }
}

/// The next step of a detach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachStep {
    /// The volume has left the server.
    Done,
    /// The volume was not attached there, unless a pending request may still attach it.
    NotAttached,
    /// Request it.
    Request,
    /// Refuse: the cloud accepted each request and rolled it back.
    RefuseRolledBack,
    /// Only the compute service has the attachment: wait for an earlier request, or refuse if there is none.
    AwaitRequest,
    /// Refuse: compute and block storage service contradict each other.
    RefuseContradiction,
    /// Poll again.
    Wait,
    /// Poll again, and give the operation in progress its full time.
    WaitLonger,
}

pub fn detach_step(state: AttachmentState, progress: RequestProgress) -> DetachStep {
    use AttachmentState as State;
    let settled = |step| if progress.is_settled { step } else { DetachStep::Wait };
    match state {
        State::Attached => {
            progress.request_or(DetachStep::Request, DetachStep::RefuseRolledBack, DetachStep::Wait)
        }
        _ if progress.tries > 0 && state.is_elsewhere() => DetachStep::Done,
        State::Free | State::Elsewhere | State::Shareable | State::Unusable => {
            DetachStep::NotAttached
        }
        // The operation in progress may still attach it here.
        State::BusyElsewhere => settled(DetachStep::NotAttached),
        State::Ghost => settled(DetachStep::AwaitRequest),
        State::Forgotten | State::ServerGone => settled(DetachStep::RefuseContradiction),
        State::Attaching | State::AttachedBusy | State::Detaching | State::Busy => {
            DetachStep::WaitLonger
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::attachment_state::AttachmentState::*;

    /// A call before its first request, with a pending request, and after one and two requests that were rolled back.
    const SITUATIONS: [RequestProgress; 5] = [
        RequestProgress { tries: 0, is_settled: false },
        RequestProgress { tries: 0, is_settled: true },
        RequestProgress { tries: 1, is_settled: false },
        RequestProgress { tries: 1, is_settled: true },
        RequestProgress { tries: 2, is_settled: true },
    ];

    #[test]
    fn an_attach_goes_on_as_the_table_says() {
        use AttachStep::*;
        for (states, expected) in [
            (&[Attached, AttachedBusy][..], [Done; 5]),
            (&[Free], [Request, Request, Wait, Request, RefuseRolledBack]),
            (&[Elsewhere], [TakeOver; 5]),
            (&[Shareable], [RefuseToShare; 5]),
            (&[Unusable], [RefuseUnusable; 5]),
            (&[Ghost], [Wait, AwaitRequest, Wait, AwaitRequest, AwaitRequest]),
            (&[Forgotten, ServerGone], [Wait, TakeOver, Wait, TakeOver, TakeOver]),
            (&[Attaching, Detaching, Busy, BusyElsewhere], [WaitLonger; 5]),
        ] {
            for state in states {
                let steps =
                    SITUATIONS.map(|progress| attach_step(*state, progress, Sharing::Alone, false));
                assert_eq!(steps, expected, "{state:?}");
            }
        }
    }

    #[test]
    fn a_volume_that_is_shared_is_asked_for_beside_others() {
        for (shared, alone) in [(Shareable, Free), (Free, Free), (Elsewhere, Elsewhere)] {
            for progress in SITUATIONS {
                let of = |state, sharing| attach_step(state, progress, sharing, false);
                assert_eq!(
                    of(shared, Sharing::ReadOnly),
                    of(alone, Sharing::Alone),
                    "{progress:?}"
                );
            }
        }
    }

    #[test]
    fn other_servers_have_time_to_let_go_after_a_takeover() {
        for (progress, then) in SITUATIONS.map(|one| (one, one.is_settled)) {
            let expected = if then { AttachStep::TakeOver } else { AttachStep::Wait };
            assert_eq!(attach_step(Elsewhere, progress, Sharing::Alone, true), expected);
        }
    }

    #[test]
    fn a_detach_goes_on_as_the_table_says() {
        use DetachStep::*;
        for (states, expected) in [
            (&[Attached][..], [Request, Request, Wait, Request, RefuseRolledBack]),
            (&[Free, Elsewhere, Shareable], [NotAttached, NotAttached, Done, Done, Done]),
            (&[Unusable], [NotAttached; 5]),
            (&[BusyElsewhere], [Wait, NotAttached, Wait, NotAttached, NotAttached]),
            (&[Ghost], [Wait, AwaitRequest, Wait, AwaitRequest, AwaitRequest]),
            (
                &[Forgotten, ServerGone],
                [Wait, RefuseContradiction, Wait, RefuseContradiction, RefuseContradiction],
            ),
            (&[Attaching, AttachedBusy, Detaching, Busy], [WaitLonger; 5]),
        ] {
            for state in states {
                let steps = SITUATIONS.map(|progress| detach_step(*state, progress));
                assert_eq!(steps, expected, "{state:?}");
            }
        }
    }
}
