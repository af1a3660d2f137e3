//! What only root can check.

use crate::host::machine;
use crate::model::error::Error;
use crate::model::report::finding::Finding;

/// Whether an error says only that this user is not root.
pub(super) fn is_for_root(error: &Error) -> bool {
    !machine::is_root() && error.is_denied()
}

/// A check that failed: as root's task where that is why, else as this finding.
pub(super) fn or_for_root(error: &Error, finding: Finding) -> Finding {
    if is_for_root(error) {
        return Finding::skipped(finding.check, error.cause.clone());
    }
    finding
}

/// A check that failed: as root's task where that is why, else as the error.
pub(super) fn not_looked_at(check: &'static str, error: Error) -> Finding {
    or_for_root(&error.clone(), Finding::not_looked_at(check, error))
}
