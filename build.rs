//! The commit that is built, for `disk --version`: read from git's own files, since git itself
//! refuses a folder that belongs to another user, and a builder may have none.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-env-changed=INCLOUD_DISK_COMMIT");
    let given = std::env::var("INCLOUD_DISK_COMMIT").ok().filter(|text| !text.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    let version = match given.or_else(commit) {
        Some(commit) => format!("{version} ({})", commit.get(..12).unwrap_or(&commit)),
        // An unpacked source without its history.
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=INCLOUD_DISK_VERSION={version}");
}

fn commit() -> Option<String> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let git = git_folder(&root.join(".git"))?;
    let head = watched(&git.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else { return Some(head) };
    // A worktree shares its branches with the repository that it belongs to.
    let common = fs::read_to_string(git.join("commondir")).map(|below| git.join(below.trim()));
    let common = common.unwrap_or(git);
    watched(&common.join(name)).or_else(|| packed(&common, name))
}

/// `.git` itself, or where the file of that name leads.
fn git_folder(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_path_buf());
    }
    let text = fs::read_to_string(path).ok()?;
    Some(path.parent()?.join(text.strip_prefix("gitdir: ")?.trim()))
}

fn watched(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo:rerun-if-changed={}", path.display());
    Some(text.trim().to_owned())
}

fn packed(common: &Path, name: &str) -> Option<String> {
    let text = watched(&common.join("packed-refs"))?;
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}")))?;
    line.split(' ').next().map(str::to_owned)
}
