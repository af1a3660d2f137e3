//! Which mount a folder leads to is asked in one place: the mount table's text alone does not tell it.

use crate::source::{files, tests_at};
use std::fs;
use std::path::Path;

/// What looks a mount up by the text of its path, and what takes an error for "not there".
const NOT_FOR_DECISIONS: [&str; 4] = [".top_at(", ".covering(", ".exists()", ".is_dir()"];

#[test]
fn no_decision_looks_a_mount_up_by_its_text() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver"));
    assert!(files.len() > 20);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let text = &text[..tests_at(&text)];
        for word in NOT_FOR_DECISIONS {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}
