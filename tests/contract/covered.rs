//! Which mount a folder leads to is asked in one place: the mount table's text alone does not tell it.

use std::fs;
use std::path::Path;

/// What looks a mount up by the text of its path, and what takes an error for "not there".
const NOT_FOR_DECISIONS: [&str; 4] = [".top_at(", ".covering(", ".exists()", ".is_dir()"];

#[test]
fn no_decision_looks_a_mount_up_by_its_text() {
    assert!(looked_at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver")) > 20);
}

/// How many sources there are in the folder and below.
fn looked_at(folder: &Path) -> usize {
    let mut files = 0;
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files += looked_at(&path);
        }
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
    files
}
