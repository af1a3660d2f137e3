//! Which mount a folder leads to is asked in one place: the mount table's text alone does not tell it.

use std::fs;
use std::path::Path;

/// What looks a mount up by the text of its path, and what takes an error for "not there".
const NOT_FOR_DECISIONS: [&str; 4] = [".top_at(", ".covering(", ".exists()", ".is_dir()"];

#[test]
fn no_decision_looks_a_mount_up_by_its_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        files += 1;
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for word in NOT_FOR_DECISIONS {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
    assert!(files > 20);
}
