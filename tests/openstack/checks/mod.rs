//! Tests of the server's own machinery: time, failures, faults, figures, scripts, the hook.

mod cloud;
mod figures;
mod hooks;
mod metadata;
mod people;
mod scripts;
mod steps;
mod storage;
mod views;
mod wire;

use crate::runner::Test;

/// The tests of this tree.
pub(crate) fn all() -> Vec<Test> {
    [
        figures::TESTS,
        hooks::TESTS,
        metadata::TESTS,
        people::TESTS,
        scripts::TESTS,
        steps::TESTS,
        storage::TESTS,
        views::TESTS,
        wire::TESTS,
    ]
    .concat()
}
