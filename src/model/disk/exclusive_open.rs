//! What an exclusive open of a disk says.
//!
//! Only an open that passed says that the disk is free. Of the errors one says that it is in use,
//! and a few that it cannot be seen from here; all others say nothing, and nothing may be concluded
//! from them.

use crate::error::{Error, Kind, Result};
use nix::errno::Errno;

/// Whether a disk is in use, by the kernel's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExclusiveOpen {
    /// The open passed.
    Free,
    /// A mount in any namespace, a swap area, another device or another exclusive opener has it.
    InUse,
    /// There is no way to the disk from here; why.
    Unseen(String),
}

impl ExclusiveOpen {
    /// Whether it is free, for a caller that is about to write to it: then it must be seen.
    pub fn is_free(&self) -> Result<bool> {
        match self {
            Self::Free => Ok(true),
            Self::InUse => Ok(false),
            Self::Unseen(why) => Err(Error::new(Kind::Host, why.as_str())),
        }
    }
}

/// What an error of the exclusive open means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The disk is in use.
    InUse,
    /// The disk cannot be seen from here.
    Unseen,
    /// The question was not answered.
    Nothing,
}

/// What this error of an exclusive open means.
pub fn meaning_of(errno: Errno) -> Meaning {
    match errno {
        Errno::EBUSY => Meaning::InUse,
        // No node of that name: a container's /dev has none, or the disk has just gone.
        Errno::ENOENT
        // A node, and no such disk or no driver behind it.
        | Errno::ENXIO
        | Errno::ENODEV
        // The rules for devices of this container, or a /dev that allows none.
        | Errno::EPERM
        | Errno::EACCES => Meaning::Unseen,
        _ => Meaning::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_meaning() {
        let unseen = [Errno::ENOENT, Errno::ENXIO, Errno::ENODEV, Errno::EPERM, Errno::EACCES];
        // Linux has no error above.
        for number in 1..=133 {
            let errno = Errno::from_raw(number);
            let expected = match errno {
                Errno::EBUSY => Meaning::InUse,
                errno if unseen.contains(&errno) => Meaning::Unseen,
                _ => Meaning::Nothing,
            };
            assert_eq!(meaning_of(errno), expected, "{errno}");
        }
        // Those that an adversary or a sick disk can cause, one by one.
        for errno in [
            Errno::EIO,
            Errno::EINTR,
            Errno::EMFILE,
            Errno::ENFILE,
            Errno::ENOMEM,
            Errno::ELOOP,
            Errno::ENOTDIR,
            Errno::ENOMEDIUM,
            Errno::ENOTBLK,
            Errno::EROFS,
            Errno::ETIMEDOUT,
            Errno::EINVAL,
            Errno::EAGAIN,
            Errno::EOVERFLOW,
            Errno::UnknownErrno,
        ] {
            assert_eq!(meaning_of(errno), Meaning::Nothing, "{errno}");
        }
    }
}
