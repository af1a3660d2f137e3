//! Whether a file system is sound, by its own checker.

use std::path::Path;
use std::process::Command;

/// The file system in the image, unmounted, has no flaw.
#[track_caller]
pub fn fsck(image: &Path) {
    let kind = Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE"]).arg(image).output();
    let kind = String::from_utf8(kind.expect("blkid").stdout).expect("a name");
    let mut checker = match kind.trim() {
        "xfs" => Command::new("xfs_repair"),
        kind => Command::new(format!("fsck.{kind}")),
    };
    let output = checker.args(["-n", "-f"]).arg(image).output().expect("a checker");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{checker:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
