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
    /// The stage mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// The last stage mount, after its unmount. Mounts that remain on its disk are healed from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged: Option<Staged>,
    /// When a call unmounted the stage directory, until the next call for the volume. An older version that writes this
    /// record moves the key to where it is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged_at: Option<Uptime>,
    /// The directories where the volume is published, by consumer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "crate::path_text::sets")]
    pub published: BTreeMap<ConsumerId, BTreeSet<PathBuf>>,
    /// The face that asked for each directory where the volume is staged or published.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "crate::path_text::keys")]
    pub faces: BTreeMap<PathBuf, FaceName>,
    /// Every consumer that has used the volume since it came here, with its name. One whose mount was removed by force
    /// may still be running.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub consumers: BTreeMap<ConsumerId, String>,
    /// Directories that were unmounted while their consumers were using the volume.
    #[serde(default, skip_serializing_if = "LetGoes::is_empty")]
    pub let_go: LetGoes,
}

impl MountsRecord {
    /// The stage mount, or the last one.
    pub fn mounted_as(&self) -> Option<&Staged> {
        self.staged.as_ref().or(self.unstaged.as_ref())
    }

    /// Whether a consumer uses or has used the volume.
    pub fn knows(&self, pod: &ConsumerId) -> bool {
        self.consumers.contains_key(pod) || self.published.contains_key(pod)
    }

    /// Records a publication. `label` is the consumer's name for people.
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

    /// Removes a publication. The directory is identified by the end of its path, because the path may have led through
    /// another root.
    pub fn is_unpublished(&mut self, consumer: &ConsumerId, below: &Path) {
        let Some(folders) = self.published.get_mut(consumer) else { return };
        folders.retain(|folder| !folder.ends_with(below));
        if folders.is_empty() {
            self.published.remove(consumer);
        }
        self.keep_faces();
    }

    /// Removes all publications.
    pub fn is_unpublished_everywhere(&mut self) {
        self.published.clear();
        self.keep_faces();
    }

    pub fn published_folders(&self) -> impl Iterator<Item = (&ConsumerId, &Path)> {
        self.published.iter().flat_map(|(consumer, folders)| {
            folders.iter().map(move |folder| (consumer, folder.as_path()))
        })
    }

    /// Records that the stage mount is unmounted.
    pub fn is_unstaged(&mut self) {
        if self.staged.is_some() {
            self.unstaged = self.staged.take();
        }
        self.keep_faces();
    }

    /// Drops the faces of directories where the volume is no longer mounted.
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
    /// The mount options.
    #[serde(default)]
    pub options: String,
    /// The file system's mount count after this mount, if it keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<u16>,
    /// Whether nothing may be written to the disk.
    #[serde(default)]
    pub untouched: bool,
    /// The state of the journal, for a mount through a map. It shows whether a disk that comes back is unchanged.
    #[serde(default, rename = "first_transaction", skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalMark>,
    /// How the disk was connected, if its serial proved it. A heal accepts the same transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
}

impl Staged {
    /// A mount of which no more is known.
    pub fn new(folder: &Path, disk: &DiskMoment, fs_type: &str, uuid: &str) -> Self {
        Self {
            folder: folder.to_path_buf(),
            disk: disk.clone(),
            fs_type: fs_type.to_owned(),
            uuid: uuid.to_owned(),
            options: String::new(),
            mounts: None,
            untouched: false,
            journal: None,
            transport: None,
        }
    }
}
