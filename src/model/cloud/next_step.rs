//! What a call does next that wants a volume attached to a server, or detached from it.

use super::attachment_state::{AttachmentState, Sharing};

/// How often a change is asked for: a cloud takes a request and undoes it later if its host cannot attach, or if the
/// guest does not let go.
const TRIES: u32 = 2;

/// How far the call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// How often it has asked for the change.
    pub tries: u32,
    /// Whether the cloud has had the time that it may take to show a request, or to agree with itself.
    pub is_settled: bool,
}

impl Progress {
    /// Another request, or none any more.
    fn again<T>(self, ask: T, was_undone: T, wait: T) -> T {
        match self {
            Self { tries: 0, .. } => ask,
            Self { is_settled: false, .. } => wait,
            Self { tries: TRIES.., .. } => was_undone,
            Self { .. } => ask,
        }
    }
}

/// The next step of an attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachStep {
    /// It is attached.
    Done,
    /// Ask the cloud for it, unless another server's request may still come true.
    Ask,
    /// End the attachments of servers that do not use it; refused if one does.
    TakeOver,
    /// Other servers have it, and this one may not share it.
    RefuseToShare,
    /// It has failed, or is about to go.
    RefuseUnusable,
    /// The cloud took each request and undid it.
    RefuseUndone,
    /// Only the servers' side has it: an earlier request is waited for; without one an operator is needed.
    AwaitRequest,
    /// Look again.
    Wait,
    /// Look again: what the cloud is doing may take its full time.
    WaitLonger,
}

/// `taken_over` is whether the call has ended other servers' attachments.
pub fn attach_step(
    state: AttachmentState,
    progress: Progress,
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
            progress.again(AttachStep::Ask, AttachStep::RefuseUndone, AttachStep::Wait)
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
    /// It has left the server.
    Done,
    /// It was not there when the call began, unless a request to attach it may still come true.
    NotThere,
    /// Ask the cloud for it.
    Ask,
    /// The cloud took each request and undid it.
    RefuseUndone,
    /// Only the servers' side has it: an earlier request is waited for; without one an operator is needed.
    AwaitRequest,
    /// The two sides contradict each other.
    RefuseContradiction,
    /// Look again.
    Wait,
    /// Look again: what the cloud is doing may take its full time.
    WaitLonger,
}

pub fn detach_step(state: AttachmentState, progress: Progress) -> DetachStep {
    use AttachmentState as State;
    let settled = |step| if progress.is_settled { step } else { DetachStep::Wait };
    match state {
        State::Attached => {
            progress.again(DetachStep::Ask, DetachStep::RefuseUndone, DetachStep::Wait)
        }
        _ if progress.tries > 0 && state.is_elsewhere() => DetachStep::Done,
        State::Free | State::Elsewhere | State::Shareable | State::Unusable => DetachStep::NotThere,
        // What the cloud is busy with may still come here.
        State::BusyElsewhere => settled(DetachStep::NotThere),
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

    /// The situations of a call: before its first request, with one under way, and with one, two that came to nothing.
    const SITUATIONS: [Progress; 5] = [
        Progress { tries: 0, is_settled: false },
        Progress { tries: 0, is_settled: true },
        Progress { tries: 1, is_settled: false },
        Progress { tries: 1, is_settled: true },
        Progress { tries: 2, is_settled: true },
    ];

    #[test]
    fn an_attach_goes_on_as_the_table_says() {
        use AttachStep::*;
        for (states, expected) in [
            (&[Attached, AttachedBusy][..], [Done; 5]),
            (&[Free], [Ask, Ask, Wait, Ask, RefuseUndone]),
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
            (&[Attached][..], [Ask, Ask, Wait, Ask, RefuseUndone]),
            (&[Free, Elsewhere, Shareable], [NotThere, NotThere, Done, Done, Done]),
            (&[Unusable], [NotThere; 5]),
            (&[BusyElsewhere], [Wait, NotThere, Wait, NotThere, NotThere]),
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
