//! What the kernel refuses of a mount, as an error.

use crate::model::error::{Error, Kind};
use nix::errno::Errno;

pub(super) fn failed(doing: impl std::fmt::Display, errno: Errno) -> Error {
    let error = Error::io(doing, &errno.into());
    match errno {
        Errno::EBUSY => Error { kind: Kind::Busy, ..error },
        _ => error,
    }
}

/// Why the newer calls did not do it.
pub(super) enum Failure {
    /// This kernel or sandbox does not have them.
    Unsupported,
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}
