//! An attach that was asked for, as it is noted with the volume before the request is sent.
//!
//! The process that asked may be killed, and its answer may be lost: the cloud goes on all the same.
//! Until the outcome was seen the request is open: it may still come true.

use crate::ids::ServerId;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    pub server: ServerId,
    /// When it was asked for, in seconds since 1970 by the cloud's clock.
    pub at: u64,
}

impl AttachRequest {
    /// A request as [`fmt::Display`] writes it.
    pub fn read(text: &str) -> Option<Self> {
        let (at, server) = text.split_once(' ')?;
        Some(Self { server: ServerId::parse(server).ok()?, at: at.parse().ok()? })
    }

    /// How much longer it may come true if the server's host last worked at some moment; nothing when
    /// it cannot any more. A request that has not come true after the longest silence never arrived.
    pub fn open_for(&self, now: u64, work: Work, longest_silence: Duration) -> Option<Duration> {
        let last = match work {
            Work::UnderWay => now,
            Work::EndedAt(end) => end.max(self.at),
            Work::NoneKnown => self.at,
        };
        let silent = Duration::from_secs(now.saturating_sub(last));
        longest_silence.checked_sub(silent).filter(|left| !left.is_zero())
    }
}

impl fmt::Display for AttachRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.server)
    }
}

/// What the host of a server does: requests for the server wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// It works on something.
    UnderWay,
    /// It was through with its last work then, in seconds since 1970 by the cloud's clock.
    EndedAt(u64),
    /// It has done nothing lately, or the cloud does not tell.
    NoneKnown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> AttachRequest {
        AttachRequest { server: ServerId::parse("s").unwrap(), at: 1000 }
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        assert_eq!(AttachRequest::read(&request().to_string()), Some(request()));
        for text in ["", "1000", "x s", "1000 ", "-1 s"] {
            assert_eq!(AttachRequest::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_request_is_open_until_the_silence_is_too_long() {
        let silence = Duration::from_secs(120);
        let open_for =
            |now, work| request().open_for(now, work, silence).map(|left| left.as_secs());
        assert_eq!(open_for(1000, Work::NoneKnown), Some(120));
        assert_eq!(open_for(1119, Work::NoneKnown), Some(1));
        assert_eq!(open_for(1120, Work::NoneKnown), None);
        // The work of before does not shorten it, later work makes it longer.
        assert_eq!(open_for(1119, Work::EndedAt(10)), Some(1));
        assert_eq!(open_for(1150, Work::EndedAt(1100)), Some(70));
        assert_eq!(open_for(1220, Work::EndedAt(1100)), None);
        assert_eq!(open_for(9000, Work::UnderWay), Some(120));
        // By a clock that was set back meanwhile.
        assert_eq!(open_for(10, Work::NoneKnown), Some(120));
    }
}
