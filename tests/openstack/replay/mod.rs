//! The server held against the transcripts: every recorded request is sent to it, and the answers
//! are compared by status, headers, fields and texts.
//!
//! A case of the transcripts that is neither played nor left out for a reason is a failure.

mod compare;
mod compute;
mod document;
mod identity;
mod races;
mod scene;
mod storage;
mod views;

use crate::runner::Test;
use std::collections::BTreeSet;

/// Cases that are not played, and why.
const LEFT_OUT: [(&str, &str); 1] = [(
    "A36",
    "the driver never creates a trust: A37 and A38 use one that the test has put into the world",
)];

/// The tests, each with the letters of its sections.
const SECTIONS: [(&str, &str, fn()); 14] = [
    ("replay::keystone", "A", identity::keystone),
    ("replay::attach_and_detach", "B", compute::attach_and_detach),
    ("replay::transitions", "C", races::transitions),
    ("replay::failures", "D", races::failures),
    ("replay::server_states", "E", compute::server_states),
    ("replay::volume_states", "F", storage::volume_states),
    ("replay::cinder", "G", storage::cinder),
    ("replay::disagreement", "H", views::disagreement),
    ("replay::multiattach", "I", views::multiattach),
    ("replay::services_down_and_the_ghost", "JK", views::services_down),
    ("replay::client_gives_up", "L", races::client_gives_up),
    ("replay::too_many_disks", "M", views::too_many_disks),
    ("replay::odds_and_ends", "N", views::odds_and_ends),
    ("replay::slow_host", "O", races::slow_host),
];

pub(crate) fn all() -> Vec<Test> {
    let mut tests: Vec<Test> = SECTIONS.iter().map(|(name, _, test)| (*name, *test)).collect();
    tests.push(("replay::no_section_is_forgotten", no_section_is_forgotten));
    tests.push(("replay::the_comparison_bites", compare::bites));
    tests
}

/// A section closes only when all its cases are played; here all sections have a test.
fn no_section_is_forgotten() {
    let cases = document::cases();
    let recorded: BTreeSet<char> = cases.iter().map(|case| case.section).collect();
    let played: BTreeSet<char> =
        SECTIONS.iter().flat_map(|(_, letters, _)| letters.chars()).collect();
    assert_eq!(recorded, played);
    for (name, _) in LEFT_OUT {
        assert!(cases.iter().any(|case| case.name() == name), "{name} is no case");
    }
    // A heading that the reader of the document does not find would be a case left out unseen.
    let headings =
        include_str!("../transcripts.md").lines().filter(|line| line.starts_with("### "));
    assert_eq!(headings.count(), cases.len());
}
