//! The stories that `install.sh demo` tells come to their ends, and leave nothing.

use crate::support::{DISK, output_of};
use std::path::Path;
use std::process::Command;

#[test]
fn the_demo_is_played_to_its_end() {
    needs!(pods);
    for story in ["life.sh", "demo.sh"] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(story);
        let output = output_of(Command::new("bash").arg(script).arg(DISK));
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{story}: {output:?}");
        assert!(told.contains("Nothing is left behind."), "{story}: {told}");
    }
}
