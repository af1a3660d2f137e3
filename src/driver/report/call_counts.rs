//! What is counted while a call works, for the metrics.

use crate::driver::heal::outcome::Healed;
use crate::model::mount::replacement::Outcome;
use std::cell::RefCell;

/// The counts of one call.
#[derive(Debug, Default)]
pub struct Tally {
    refusals: RefCell<Vec<String>>,
    heals: RefCell<Vec<(String, u64)>>,
}

impl Tally {
    /// The operations that were refused.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.borrow().clone()
    }

    /// What became of heals, and how many mounts each replaced.
    #[must_use]
    pub fn heals(&self) -> Vec<(String, u64)> {
        self.heals.borrow().clone()
    }

    /// A tear-down was refused; `what` begins with its operation.
    pub(in crate::driver) fn refused(&self, what: &str) {
        let operation = what.split(' ').next().unwrap_or_default();
        self.refusals.borrow_mut().push(operation.to_owned());
    }

    /// A heal came to its end.
    pub(in crate::driver) fn healed(&self, healed: &Healed) {
        let all = healed.places.iter().flat_map(|(_, done)| done);
        let is_new = |outcome: &Outcome| {
            matches!(outcome, Outcome::Switched | Outcome::DetachedOnly | Outcome::Stacked)
        };
        let replaced = all.filter(|one| is_new(&one.outcome)).count();
        let outcome = if healed.left.is_empty() { "healed" } else { "partly" };
        self.heals
            .borrow_mut()
            .push((outcome.to_owned(), u64::try_from(replaced).unwrap_or(u64::MAX)));
    }

    /// A heal was refused or failed.
    pub(in crate::driver) fn not_healed(&self) {
        self.heals.borrow_mut().push(("failed".to_owned(), 0));
    }
}
