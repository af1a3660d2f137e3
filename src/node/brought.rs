//! Files that a person brings to an installation. They are read where the program was called: the machine's
//! root may be another.

use super::options::NodeOptions;
use crate::host::files;
use crate::model::error::{Error, Kind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a person brings.
#[derive(Debug, Default)]
pub(super) struct BroughtFiles {
    pub(super) config: Option<BroughtFile>,
    /// A `cloud.conf`, which a configuration names.
    pub(super) credentials: Option<BroughtFile>,
}

impl BroughtFiles {
    /// Reads those that the options name.
    pub(super) fn read(options: &NodeOptions) -> Result<Self> {
        let read = |path: &Option<PathBuf>| path.as_deref().map(BroughtFile::read).transpose();
        Ok(Self { config: read(&options.config)?, credentials: read(&options.credentials)? })
    }
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct BroughtFile {
    /// Its path, for people.
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Who else can read or change it.
    pub(super) doubt: Option<&'static str>,
}

impl BroughtFile {
    /// Reads it once: what is tried is what is installed.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text =
            files::read_if_there(path).map_err(|error| Error { kind: Kind::Config, ..error })?;
        let none = || Error::new(Kind::Config, format!("there is no file {}", path.display()));
        let text = text.ok_or_else(none)?;
        let found = std::fs::metadata(path).ok();
        let doubt = found.and_then(|found| match (found.uid(), found.mode()) {
            (_, mode) if mode & 0o022 != 0 => Some("others may write"),
            (_, mode) if mode & 0o004 != 0 => Some("everyone may read"),
            (uid, _) if uid != 0 => Some("another user owns"),
            _ => None,
        });
        Ok(Self { path: path.to_path_buf(), text, doubt })
    }

    /// What speaks against leaving it where it is.
    pub(super) fn warning(&self) -> Option<String> {
        let (doubt, path) = (self.doubt?, self.path.display());
        Some(format!(
            "{doubt} {path}, which may hold credentials; what is installed is root's alone: remove {path} then"
        ))
    }
}
