//! Poll the cloud for a volume's attachment until a decision or the deadline ends the wait.

use crate::attachment::open_requests::OpenRequest;
use crate::context::Context;
use crate::lookup::attachment_view::{self, after_all, in_time};
use crate::model::cloud::attachment_state::AttachmentState;
use crate::model::cloud::next_step::RequestProgress;
use crate::model::error::{Error, Result};
use crate::model::ids::ServerId;
use crate::model::pauses::Looks;
use crate::ports::clock::Deadline;
use crate::ports::cloud::CloudVolume;
use crate::ports::store::Change;
use std::ops::ControlFlow;
use std::time::Instant;

/// What a call that changes an attachment has seen and requested so far.
pub(super) struct CloudWait<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) server: &'a ServerId,
    /// The volume as last seen.
    pub(super) state: CloudVolume,
    /// Until when the cloud may not show a request yet, or may be inconsistent.
    settle: Deadline,
    looks: Looks,
    looked: Instant,
    /// How often this call requested the change.
    pub(super) tries: u32,
    asked: Option<Instant>,
    /// The cloud's answer to the last request, if it was not a plain success.
    pub(super) refusal: Option<Error>,
    /// Another call's attach that this call waits for.
    pub(super) awaited: Option<OpenRequest>,
}

impl<'a> CloudWait<'a> {
    pub(super) fn new(cx: &'a Context<'a>, server: &'a ServerId, state: CloudVolume) -> Self {
        Self {
            cx,
            server,
            state,
            settle: attachment_view::settle(cx),
            looks: attachment_view::looks(cx),
            looked: Instant::now(),
            tries: 0,
            asked: None,
            refusal: None,
            awaited: None,
        }
    }

    /// Polls, judges and decides until a decision breaks. `judge` also gets the previous state. Returns `None` at the
    /// deadline, and the result of `gone` if the volume no longer exists.
    pub(super) fn until<T>(
        &mut self,
        judge: impl Fn(&Self, Option<AttachmentState>) -> Result<AttachmentState>,
        mut decide: impl FnMut(&mut Self, AttachmentState) -> Result<ControlFlow<T>>,
        gone: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let cx = self.cx;
        let mut last = None;
        loop {
            let Some(situation) = self.seen(in_time(cx, || judge(self, last)))? else {
                return Ok(None);
            };
            if last.replace(situation) != Some(situation) {
                let (volume, server, status) =
                    (&self.state.id, self.server, &self.state.status.word);
                tracing::info!(%volume, %server, status, ?situation, "looked");
            }
            let tries_before = self.tries;
            if let ControlFlow::Break(done) = decide(self, situation)? {
                return Ok(Some(done));
            }
            let pause = self.looks.next().unwrap_or_default();
            if !cx.deadline.pause(pause) && self.tries == tries_before {
                return Ok(None);
            }
            self.looked = Instant::now();
            let now = in_time(cx, || cx.cloud.volume(&self.state.id, cx.deadline));
            match self.seen(now)? {
                Some(Some(now)) => self.state = now,
                Some(None) => return gone().map(Some),
                None => return Ok(None),
            }
        }
    }

    /// At the deadline, a failed poll while another request is pending is not the reason to report.
    fn seen<T>(&self, look: Result<Option<T>>) -> Result<Option<T>> {
        match look {
            Err(_) if self.awaited.is_some() && self.cx.deadline.over() => Ok(None),
            Err(error) => Err(after_all(&self.state, self.refusal.as_ref(), error)),
            look => look,
        }
    }

    pub(super) fn progress(&self) -> RequestProgress {
        RequestProgress { tries: self.tries, is_settled: self.settle.over() }
    }

    /// Gives the cloud time to show a change.
    pub(super) fn settle_again(&mut self) {
        self.settle = attachment_view::settle(self.cx);
    }

    /// Records that this call has just requested the change.
    pub(super) fn has_asked(&mut self, change: Change) {
        self.settle_again();
        self.looks = attachment_view::looks_at(self.cx, change);
        self.asked = Some(Instant::now());
    }

    /// Records how long the cloud took for the change.
    pub(super) fn note_pace(&self, change: Change) {
        if let Some(asked) = self.asked {
            attachment_view::note_pace(self.cx, change, asked, self.looked);
        }
    }
}
