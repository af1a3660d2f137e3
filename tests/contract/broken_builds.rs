//! The patches of `tests/broken`: each applies to the sources as they are, and names its harness.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn each_broken_build_can_be_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Command::new("git").arg("--version").output().is_err() {
        println!("skipped: each_broken_build_can_be_made: needs git");
        return;
    }
    let mut wrong = Vec::new();
    for folder in ["histories", "rings", "steps"] {
        let mut count = 0;
        let harnesses =
            if folder == "rings" { &["cloud", "driver", "root"][..] } else { &[folder] };
        for entry in fs::read_dir(root.join("tests/broken").join(folder)).unwrap() {
            let patch = entry.unwrap().path();
            count += 1;
            let text = fs::read_to_string(&patch).unwrap();
            let called = text.lines().find_map(|line| line.strip_prefix("Harness: "));
            let called = called.and_then(|words| words.split_once(' '));
            if !called.is_some_and(|(harness, _)| harnesses.contains(&harness)) {
                wrong.push(format!("{} does not say how {folder} is called", patch.display()));
            }
            let mut git = Command::new("git");
            git.args(["apply", "--check"]).arg(&patch).current_dir(root);
            let output = git.output().unwrap();
            if !output.status.success() {
                wrong.push(String::from_utf8_lossy(&output.stderr).into_owned());
            }
        }
        assert!(count >= 8, "{folder} has {count} broken builds");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
