//! Counters of one call, for the metrics.

use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct CallCounts {
    refusals: RefCell<Vec<&'static str>>,
    heals: RefCell<Vec<(String, u64)>>,
    waits: RefCell<Vec<&'static str>>,
    healths: RefCell<Option<BTreeMap<String, u64>>>,
}

impl CallCounts {
    pub fn is_empty(&self) -> bool {
        self.refusals.borrow().is_empty()
            && self.heals.borrow().is_empty()
            && self.waits.borrow().is_empty()
            && self.healths.borrow().is_none()
    }

    /// The refused operations.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.borrow().iter().map(|one| (*one).to_owned()).collect()
    }

    /// The results of heals, with the number of replaced mounts.
    pub fn heals(&self) -> Vec<(String, u64)> {
        self.heals.borrow().clone()
    }

    /// How waits for a disk ended.
    pub fn waits(&self) -> Vec<String> {
        self.waits.borrow().iter().map(|one| (*one).to_owned()).collect()
    }

    /// How many volumes have which health; `None` if the call did not check.
    pub fn healths(&self) -> Option<BTreeMap<String, u64>> {
        self.healths.borrow().clone()
    }

    /// Every volume of the node was checked.
    pub(crate) fn saw(&self, healths: BTreeMap<String, u64>) {
        self.healths.replace(Some(healths));
    }

    /// A tear-down was refused.
    pub(crate) fn refused(&self, operation: &'static str) {
        self.refusals.borrow_mut().push(operation);
    }

    /// A wait for a disk ended: it is back under its map, or the wait timed out.
    pub fn wait_ended(&self, is_back: bool) {
        self.waits.borrow_mut().push(if is_back { "returned" } else { "patience" });
    }

    /// A heal finished; `is_whole` says whether nothing is left.
    pub(crate) fn healed(&self, replaced: u64, is_whole: bool) {
        let outcome = if is_whole { "healed" } else { "partly" };
        self.heals.borrow_mut().push((outcome.to_owned(), replaced));
    }

    /// A heal was refused or failed.
    pub(crate) fn not_healed(&self) {
        self.heals.borrow_mut().push(("failed".to_owned(), 0));
    }
}
