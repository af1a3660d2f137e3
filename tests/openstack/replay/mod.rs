//! The server held against the transcripts: every recorded request is sent to it, and the answers
//! are compared by status, headers, fields and texts.
//!
//! A case of the transcripts that is not played is a failure.

mod compare;
mod compute;
mod document;
mod identity;
mod races;
mod scene;
mod storage;
mod views;

use std::collections::BTreeSet;

/// The sections, each of which has a test that closes it.
const SECTIONS: &str = "ABCDEFGHIKLMNO";

#[test]
fn no_section_is_forgotten() {
    let cases = document::cases();
    let recorded: BTreeSet<char> = cases.iter().map(|case| case.section).collect();
    assert_eq!(recorded, SECTIONS.chars().collect());
    // A heading that the reader of the document does not find would be a case left out unseen.
    let headings =
        include_str!("../transcripts.md").lines().filter(|line| line.starts_with("### "));
    assert_eq!(headings.count(), cases.len());
}
