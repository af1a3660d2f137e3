//! Whether a mount stands on a dead disk: told by what the kernel still has at the mount's number,
//! never by how the mount behaves. A dead mount answers `stat`, and on older kernels takes writes.

use crate::advice::{Advice, advise};
use crate::disk::device::DeviceNumber;
use serde::{Serialize, Serializer};
use std::fmt;

/// A disk of which it is not proven that it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    pub state: String,
    /// What a person can do about a disk of that kind, who knows more.
    pub way: Option<Advice>,
    /// Whether it is certain that what is asked of it waits, and is not lost.
    pub is_pause: bool,
}

impl Doubt {
    /// One that is ended by nothing but time.
    pub fn new(state: &str) -> Self {
        Self { state: state.to_owned(), way: None, is_pause: false }
    }
}

impl Serialize for Doubt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.state)
    }
}

/// What the kernel has at the number that a mount was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// No disk: it is gone for good, for a number is not given away while a mount pins it.
    Absent,
    /// A disk that shows that it is the volume's.
    Own,
    /// A disk that may be slow, or come back by itself.
    Halted(Doubt),
    /// A disk that shows to be another one: what it shows.
    Other(String),
}

/// The disk that shows now that it is the volume's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// None.
    Nothing,
    /// Exactly one.
    One(DeviceNumber),
    /// Two or more, or one that shows too little to tell.
    Uncertain,
}

/// What a mount of the volume is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", content = "why", rename_all = "kebab-case")]
pub enum MountVerdict {
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
    NotProvenDead(Doubt),
}

/// Judges a mount made from `number`.
pub fn judge(number: DeviceNumber, presence: &Presence, here: Here) -> MountVerdict {
    match (presence, here) {
        (_, Here::Uncertain) => MountVerdict::Ambiguous,
        (Presence::Absent, Here::One(_)) => MountVerdict::Stale,
        (Presence::Absent, Here::Nothing) => MountVerdict::Waiting,
        (Presence::Halted(doubt), _) => MountVerdict::NotProvenDead(doubt.clone()),
        (Presence::Other(shown), _) => MountVerdict::Foreign(shown.clone()),
        (Presence::Own, Here::One(now)) if now == number => MountVerdict::Healthy,
        // It shows the volume's serial, and so does another.
        (Presence::Own, Here::One(_)) => MountVerdict::Ambiguous,
        // Seen a moment ago, not now: nothing is known.
        (Presence::Own, Here::Nothing) => {
            MountVerdict::NotProvenDead(Doubt::new("coming or going"))
        }
    }
}

impl MountVerdict {
    /// Whether the mount will never be read again.
    pub fn is_dead(&self) -> bool {
        matches!(self, Self::Stale | Self::Waiting)
    }

    /// What a person can do about a mount of that number that is not replaced by itself; nothing
    /// where there is no doubt.
    pub fn hint(&self, number: DeviceNumber) -> Option<Advice> {
        match self {
            Self::Healthy | Self::Stale | Self::Waiting => None,
            Self::NotProvenDead(Doubt { way: Some(way), is_pause: true, .. }) => Some(way.clone()),
            Self::NotProvenDead(doubt) => {
                let way = doubt.way.clone().unwrap_or_else(|| {
                    "it ends when the disk answers or the kernel takes it away; until then restart \
                     the pods elsewhere"
                        .into()
                });
                Some(advise("a disk that is not proven dead is not replaced, for it may only be slow: {}; the next call heals", [way]))
            }
            Self::Foreign(_) => Some(
                format!(
                    "nothing was touched; check that cloud.kind names the cloud of this volume, and \
                     what {number} is (lsblk, the kernel's log); restart the pods only if it is another \
                     volume's disk"
                )
                .into(),
            ),
            Self::Ambiguous => Some(
                "one file system on two disks is destroyed: detach the one that does not belong to \
                 this machine"
                    .into(),
            ),
        }
    }
}

impl fmt::Display for MountVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Stale => f.write_str("stale: its disk is gone, and another one is here"),
            Self::Waiting => f.write_str("dead: its disk is gone, and none is here"),
            Self::Ambiguous => f.write_str("several disks show the volume's serial"),
            Self::Foreign(shown) => {
                write!(f, "its device number now belongs to another disk ({shown})")
            }
            Self::NotProvenDead(doubt) => {
                write!(f, "its disk is not proven dead ({})", doubt.state)
            }
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
        let halted = || Presence::Halted(Doubt::new("offline"));
        let other = || Presence::Other("serial \"x\"".to_owned());
        let not_dead = |state: &str| MountVerdict::NotProvenDead(Doubt::new(state));
        let foreign = || MountVerdict::Foreign("serial \"x\"".to_owned());
        for (presence, here, verdict) in [
            (Presence::Absent, Here::One(new), MountVerdict::Stale),
            (Presence::Absent, Here::Nothing, MountVerdict::Waiting),
            (Presence::Absent, Here::Uncertain, MountVerdict::Ambiguous),
            (Presence::Own, Here::One(old), MountVerdict::Healthy),
            (Presence::Own, Here::One(new), MountVerdict::Ambiguous),
            (Presence::Own, Here::Uncertain, MountVerdict::Ambiguous),
            (Presence::Own, Here::Nothing, not_dead("coming or going")),
            (other(), Here::One(new), foreign()),
            (other(), Here::Nothing, foreign()),
            (other(), Here::Uncertain, MountVerdict::Ambiguous),
            (halted(), Here::One(new), not_dead("offline")),
            (halted(), Here::One(old), not_dead("offline")),
            (halted(), Here::Nothing, not_dead("offline")),
            (halted(), Here::Uncertain, MountVerdict::Ambiguous),
        ] {
            assert_eq!(judge(old, &presence, here), verdict, "{presence:?} {here:?}");
            assert_eq!(
                verdict.is_dead(),
                presence == Presence::Absent && verdict != MountVerdict::Ambiguous
            );
            let is_doubtful = !verdict.is_dead() && verdict != MountVerdict::Healthy;
            assert_eq!(verdict.hint(old).is_some(), is_doubtful, "{verdict:?}");
        }
    }
}
