//! Folders that the orchestrator names for mounts.

use std::path::PathBuf;

/// A folder below a root that the administrator vouches for. The root may be reached through
/// links; below it no link is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The administrator's part.
    pub root: PathBuf,
    /// The orchestrator's part: relative, without dots.
    pub below: PathBuf,
}

impl Target {
    /// The path as the orchestrator wrote it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }
}

/// Where a volume would be staged: by the tail of the path alone when the root is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagePlace {
    /// The root, when the configuration binds it.
    pub root: Option<PathBuf>,
    /// The rest of the path.
    pub below: PathBuf,
}
