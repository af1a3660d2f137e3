//! Which mount a folder leads to is asked in one place: the mount table's text alone does not tell it.

use crate::source::{folder, without_tests};

/// What looks a mount up by the text of its path, and what takes an error for "not there".
const NOT_FOR_DECISIONS: [&str; 4] = [".top_at(", ".covering(", ".exists()", ".is_dir()"];

#[test]
fn no_decision_looks_a_mount_up_by_its_text() {
    let files = without_tests(&folder().join("driver"));
    assert!(files.len() > 20);
    for (path, text) in files {
        for word in NOT_FOR_DECISIONS {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}
