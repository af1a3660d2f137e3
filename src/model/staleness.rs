//! Whether a mount stands on a dead disk: told by what the kernel still has at the mount's number,
//! never by how the mount behaves. A dead mount answers `stat`, and on older kernels takes writes.

use super::device::DeviceNumber;
use std::fmt;

/// What the kernel has at the number that a mount was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// No disk: it is gone for good, for a number is not given away while a mount pins it.
    Absent,
    /// A disk that shows that it is the volume's.
    Own,
    /// A disk that may be slow, or come back by itself: in which state it is.
    Halted(String),
    /// A disk that shows to be another one: what it shows.
    Other(String),
}

/// The disks that show now that they are the volume's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here<'a> {
    /// None.
    Nothing,
    /// Exactly one.
    One(DeviceNumber),
    /// Two or more.
    Several(&'a [DeviceNumber]),
}

/// What a mount of the volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It stands on the volume's disk. If that fails, it is broken, and nothing to be replaced.
    Healthy,
    /// Its disk is gone, and the volume is back on another one.
    Stale,
    /// Its disk is gone, and the volume is not here.
    Waiting,
    /// Several disks show that they are the volume's: two ways to it, or two attachments. One
    /// file system on both would be destroyed.
    Ambiguous,
    /// The number is another disk's: the mount is not the volume's, or it was made from a wrong
    /// disk.
    Foreign(String),
    /// The old disk may live.
    NotProvenDead(String),
}

/// Judges a mount made from `number`.
#[must_use]
pub fn judge(number: DeviceNumber, presence: &Presence, here: Here<'_>) -> Verdict {
    match (presence, here) {
        (_, Here::Several(_)) => Verdict::Ambiguous,
        (Presence::Absent, Here::One(_)) => Verdict::Stale,
        (Presence::Absent, Here::Nothing) => Verdict::Waiting,
        (Presence::Halted(state), _) => Verdict::NotProvenDead(state.clone()),
        (Presence::Other(shown), _) => Verdict::Foreign(shown.clone()),
        (Presence::Own, Here::One(now)) if now == number => Verdict::Healthy,
        // It shows the volume's serial, and so does another.
        (Presence::Own, Here::One(_)) => Verdict::Ambiguous,
        // Seen a moment ago, not now: nothing is known.
        (Presence::Own, Here::Nothing) => Verdict::NotProvenDead("coming or going".to_owned()),
    }
}

impl Verdict {
    /// Whether the mount will never be read again.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self, Self::Stale | Self::Waiting)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Stale => f.write_str("stale: its disk is gone, and another one is here"),
            Self::Waiting => f.write_str("dead: its disk is gone, and none is here"),
            Self::Ambiguous => f.write_str("several disks show the volume's serial"),
            Self::Foreign(shown) => write!(f, "its number is another disk's ({shown})"),
            Self::NotProvenDead(state) => write!(f, "its disk is not proven dead ({state})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        let (old, new) =
            (DeviceNumber { major: 8, minor: 0 }, DeviceNumber { major: 8, minor: 16 });
        let halted = || Presence::Halted("offline".to_owned());
        let other = || Presence::Other("serial \"x\"".to_owned());
        let both = [old, new];
        let not_dead = |state: &str| Verdict::NotProvenDead(state.to_owned());
        let foreign = || Verdict::Foreign("serial \"x\"".to_owned());
        for (presence, here, verdict) in [
            (Presence::Absent, Here::One(new), Verdict::Stale),
            (Presence::Absent, Here::Nothing, Verdict::Waiting),
            (Presence::Absent, Here::Several(&both), Verdict::Ambiguous),
            (Presence::Own, Here::One(old), Verdict::Healthy),
            (Presence::Own, Here::One(new), Verdict::Ambiguous),
            (Presence::Own, Here::Several(&both), Verdict::Ambiguous),
            (Presence::Own, Here::Nothing, not_dead("coming or going")),
            (other(), Here::One(new), foreign()),
            (other(), Here::Nothing, foreign()),
            (other(), Here::Several(&both), Verdict::Ambiguous),
            (halted(), Here::One(new), not_dead("offline")),
            (halted(), Here::One(old), not_dead("offline")),
            (halted(), Here::Nothing, not_dead("offline")),
            (halted(), Here::Several(&both), Verdict::Ambiguous),
        ] {
            assert_eq!(judge(old, &presence, here), verdict, "{presence:?} {here:?}");
            assert_eq!(
                verdict.is_dead(),
                presence == Presence::Absent && verdict != Verdict::Ambiguous
            );
        }
    }
}
