//! Where a volume is mounted, and for whom.

use super::disk::DiskMoment;
use crate::disk::journal::sights::JournalMark;
use crate::disk::transport::Transport;
use crate::face::FaceName;
use crate::ids::ConsumerId;
use crate::mount::folders_let_go::LetGoes;
use crate::timestamp::Uptime;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The volume's mounts on this machine, and its consumers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MountsRecord {
    /// The stage mount as it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// The last one, once it was taken off: a mount that still stands on its disk is healed by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged: Option<Staged>,
    /// When a call unmounted the stage directory; gone with the next call for the volume. A previous version that
    /// writes this record moves the key to where it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged_at: Option<Uptime>,
    /// The folders it was published at, by consumer: one may have it at several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "crate::path_text::sets")]
    pub published: BTreeMap<ConsumerId, BTreeSet<PathBuf>>,
    /// Through which face a folder was asked for, of those where it is staged or published.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "crate::path_text::keys")]
    pub faces: BTreeMap<PathBuf, FaceName>,
    /// Every consumer that had it since it came here, with the name that people know it by: one that
    /// was unmounted by force may still run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub consumers: BTreeMap<ConsumerId, String>,
    /// Folders that were unmounted while processes of their consumers had the volume.
    #[serde(default, skip_serializing_if = "LetGoes::is_empty")]
    pub let_go: LetGoes,
}

impl MountsRecord {
    /// How the volume was mounted, by what is staged or was last.
    #[must_use]
    pub fn mounted_as(&self) -> Option<&Staged> {
        self.staged.as_ref().or(self.unstaged.as_ref())
    }

    /// Whether a consumer has or had the volume.
    #[must_use]
    pub fn knows(&self, pod: &ConsumerId) -> bool {
        self.consumers.contains_key(pod) || self.published.contains_key(pod)
    }

    /// The volume is at this folder of a consumer, which is known by that name.
    pub fn is_published(
        &mut self,
        consumer: &ConsumerId,
        folder: &Path,
        face: FaceName,
        label: Option<&str>,
    ) {
        self.published.entry(consumer.clone()).or_default().insert(folder.to_path_buf());
        self.faces.insert(folder.to_path_buf(), face);
        let known = self.consumers.entry(consumer.clone()).or_default();
        if let Some(label) = label {
            label.clone_into(known);
        }
    }

    /// It is not at the consumer's folder any more; the way to it may have been another one, so its end,
    /// which the orchestrator names, tells which it is.
    pub fn is_unpublished(&mut self, consumer: &ConsumerId, below: &Path) {
        let Some(folders) = self.published.get_mut(consumer) else { return };
        folders.retain(|folder| !folder.ends_with(below));
        if folders.is_empty() {
            self.published.remove(consumer);
        }
        self.keep_faces();
    }

    /// It is at no folder of a consumer.
    pub fn is_unpublished_everywhere(&mut self) {
        self.published.clear();
        self.keep_faces();
    }

    pub fn published_folders(&self) -> impl Iterator<Item = (&ConsumerId, &Path)> {
        self.published.iter().flat_map(|(consumer, folders)| {
            folders.iter().map(move |folder| (consumer, folder.as_path()))
        })
    }

    /// The stage mount was taken off.
    pub fn is_unstaged(&mut self) {
        if self.staged.is_some() {
            self.unstaged = self.staged.take();
        }
        self.keep_faces();
    }

    /// What asked for folders that it is not at is not kept.
    fn keep_faces(&mut self) {
        let staged = self.staged.as_ref().map(|staged| &staged.folder);
        let published = &self.published;
        self.faces.retain(|folder, _| {
            staged == Some(folder) || published.values().any(|folders| folders.contains(folder))
        });
    }
}

/// A stage mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    #[serde(with = "crate::path_text")]
    pub folder: PathBuf,
    pub disk: DiskMoment,
    /// The file system's type.
    pub fs_type: String,
    /// The file system's UUID.
    pub uuid: String,
    /// The options that it was mounted with.
    #[serde(default)]
    pub options: String,
    /// How often the file system had been mounted then, this time included, where it counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<u16>,
    /// Whether nothing might be written to the disk.
    #[serde(default)]
    pub untouched: bool,
    /// What is remembered of the journal, where it is mounted through a map: by it a disk that comes back is known to
    /// be as it was left.
    #[serde(default, rename = "first_transaction", skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalMark>,
    /// How the disk was connected, where its serial proved it. A heal accepts the same again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
}
