//! What this machine remembers of a volume: a cache of facts, never the truth.
//!
//! Everything here can be lost: kernel and cloud are asked again. Keys that this version does not
//! know are kept when a record is written back, so that a newer and an older program can take
//! turns.

use super::disk::device::DeviceNumber;
use super::disk::journal::sights::JournalMark;
use super::disk::transport::Transport;
use super::face::FaceName;
use super::ids::{ConsumerId, ServerId, VolumeId, VolumeName};
use super::mount::folders_let_go::LetGoes;
use super::mount::orphan::SILENT_FOR;
use super::mount::replacement::MountIntent;
use super::report::refusal::Refusal;
use super::report::tear_down::{TearDown, by_tear_down};
use super::timestamp::Uptime;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The format that this version writes. Readers accept any: unknown keys are carried along.
pub const FORMAT: u32 = 1;

/// The keys of what ends with the boot: mounts, and who has them. They are kept apart from the rest,
/// where writing is quick, so that no mount waits for a busy disk of the machine.
pub const OF_THE_BOOT: [&str; 22] = [
    "seen",
    "staged",
    "unstaged",
    "unstaged_at",
    "file_system",
    "former",
    "tenure",
    "mark_asked_at",
    "healing",
    "healing_from",
    "switching",
    "not_healed",
    "map_wait",
    "map_intent",
    "superblocks",
    "told_lost_writes",
    "refused",
    REFUSALS,
    "published",
    "faces",
    "consumers",
    "let_go",
];

/// The key of a count that is told also where it is 0. Where what ends with the boot does not tell it, an
/// older version wrote that, and the count stands with the rest.
pub const REFUSALS: &str = "refusals";

/// One volume as remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// The format of the writer.
    #[serde(default)]
    pub format: u32,
    pub volume: VolumeId,
    /// The orchestrator's name of it, if another than the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<VolumeName>,
    /// A format that was begun; gone when it was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formatting: Option<Formatting>,
    /// The stage mount as it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// When its disk was last proven, in milliseconds since 1970: what was written later may be lost
    /// with the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// The last one, once it was taken off: a mount that still stands on its disk is healed by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged: Option<Staged>,
    /// When a call unmounted the stage directory; gone with the next call for the volume. A previous version that
    /// writes this record moves the key to where it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged_at: Option<Uptime>,
    /// The file system that was mounted last, or that a person accepted since. Unlike what is staged it
    /// outlives the unmount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<LastFileSystem>,
    /// The disks of this boot that the volume was mounted from: their mounts may live on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<DiskMoment>,
    /// How often the volume had gone to another server when it was mounted here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenure: Option<u64>,
    /// What the file system counts once the mount of a heal was made that may have been killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing: Option<u16>,
    /// What it counted before: a heal that was killed may not have come to its mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing_from: Option<u16>,
    /// Mounts of other places that a heal changes for a moment: there until it has put them right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switching: Vec<Switching>,
    /// Why the volume could not be healed when no call asked for it, as the log has it: the look of the
    /// next minute does not say it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_healed: Option<String>,
    /// Since when its map waits for its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_wait: Option<MapWait>,
    /// The mount through a map that was made last, or was about to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_intent: Option<MapIntent>,
    /// The superblocks of the mount through the map, as they were in the kernel's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superblocks: Option<SeenSuperblocks>,
    /// The mount whose lost writes were told to the tear-down that is under way: it is told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_lost_writes: Option<u32>,
    /// Whether the cloud would give the volume to several servers, as it was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_shareable: Option<bool>,
    /// Whether the cloud was told that the volume is mounted here.
    #[serde(default)]
    pub is_marked: bool,
    /// When the disk was lost, in milliseconds since the boot: the mark may have gone with it, and the cloud was not
    /// asked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_doubted_at: Option<u64>,
    /// As which server this one told it beside another, of a volume that readers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked_beside: Option<ServerId>,
    /// As which server this one asked the cloud to keep a mark of it, and has no answer yet: the mark may
    /// be there. It outlives the boot, as the mark does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_asked: Option<ServerId>,
    /// When it asked, in milliseconds since the boot: the mark may come later still. It is known before the
    /// other, which waits for a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_asked_at: Option<u64>,
    /// Whether the cloud was told that the volume has data.
    #[serde(default)]
    pub is_life_told: bool,
    /// What the cloud says when notes with the volume are not allowed; nothing if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes_forbidden: Option<String>,
    /// Tear-downs that are refused now.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_tear_down"
    )]
    pub refused: BTreeMap<TearDown, Refusal>,
    /// How many tear-downs were refused since the machine was started.
    #[serde(default)]
    pub refusals: u64,
    /// Whether this machine ever mounted the volume: then it is never formatted again.
    #[serde(default)]
    pub was_mounted: bool,
    /// The folders it was published at, by consumer: one may have it at several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "super::path_text::sets")]
    pub published: BTreeMap<ConsumerId, BTreeSet<PathBuf>>,
    /// Through which face a folder was asked for, of those where it is staged or published.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "super::path_text::keys")]
    pub faces: BTreeMap<PathBuf, FaceName>,
    /// Every consumer that had it since it came here, with the name that people know it by: one that
    /// was unmounted by force may still run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub consumers: BTreeMap<ConsumerId, String>,
    /// Folders that were unmounted while processes of their consumers had the volume.
    #[serde(default, skip_serializing_if = "LetGoes::is_empty")]
    pub let_go: LetGoes,
    /// Keys of other versions.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// A mark that the cloud did not take is not asked for again before so many milliseconds.
const MARK_AGAIN: u64 = 600_000;

/// More former disks are not remembered.
const MOST_FORMER: usize = 16;

/// A volume that grows makes some at once.
const MOST_SUPERBLOCKS: usize = 8;

impl VolumeRecord {
    /// Whether the cloud was told that the volume is mounted here, by either mark.
    #[must_use]
    pub fn has_mark(&self) -> bool {
        self.is_marked || self.marked_beside.is_some()
    }

    /// Whether it may have been told so.
    #[must_use]
    pub fn may_have_mark(&self) -> bool {
        self.has_mark() || self.mark_asked.is_some() || self.mark_asked_at.is_some()
    }

    /// Whether the cloud may have been told so of a mount that is over.
    #[must_use]
    pub fn may_lose_mark(&self) -> bool {
        self.may_have_mark() && self.staged.is_none()
    }

    /// The cloud tells it no more.
    pub fn is_unmarked(&mut self) {
        self.mark_is_answered();
        self.shows_no_mark();
    }

    /// Whether the cloud is yet to be told of the mount, or to be asked whether it still has the mark; so many
    /// milliseconds after the boot.
    #[must_use]
    pub fn owes_mark(&self, now: u64) -> bool {
        if self.staged.is_none() || self.notes_forbidden.is_some() {
            return false;
        }
        if self.has_mark() {
            return self.mark_doubted_at.is_some();
        }
        // One that was asked for later than now was asked for before the boot.
        let since = self.mark_asked_at.and_then(|asked| now.checked_sub(asked));
        since.is_none_or(|since| since >= MARK_AGAIN)
    }

    /// Its disk is gone, and the mark may be.
    pub fn doubts_mark(&mut self, now: u64) {
        if self.has_mark() {
            self.mark_doubted_at.get_or_insert(now);
        }
    }

    /// The cloud does not tell it now; what was asked for and not answered may still come.
    pub fn shows_no_mark(&mut self) {
        (self.is_marked, self.mark_doubted_at) = (false, None);
        self.marked_beside = None;
    }

    /// What became of the mark that was asked for is known.
    pub fn mark_is_answered(&mut self) {
        (self.mark_asked, self.mark_asked_at) = (None, None);
    }

    /// Whether the timer should have looked at the volume long ago: kubelet let go of it, or unmounted it and left it
    /// attached.
    #[must_use]
    pub fn waits_for_timer(&self, now: &Uptime) -> bool {
        const LONG: Duration = Duration::from_secs(120);
        let is_old = |at: &Uptime, least| now.since(at).is_some_and(|gap| gap >= least);
        self.let_go.open(&now.boot).any(|(_, one)| is_old(&one.when, LONG))
            || self.unstaged_at.as_ref().is_some_and(|at| is_old(at, SILENT_FOR + LONG))
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

    /// What asked for folders that it is not at is not kept.
    fn keep_faces(&mut self) {
        let staged = self.staged.as_ref().map(|staged| &staged.folder);
        let published = &self.published;
        self.faces.retain(|folder, _| {
            staged == Some(folder) || published.values().any(|folders| folders.contains(folder))
        });
    }

    /// Remembers a stage mount, and the disk that it was made from for as long as numbers mean the
    /// same.
    pub fn is_staged(&mut self, staged: Staged) {
        self.is_mounted_from(staged.disk.clone());
        self.was_mounted = true;
        self.formatting = None;
        self.healing = None;
        self.healing_from = None;
        self.saw_file_system(&staged);
        self.staged = Some(staged);
        self.unstaged = None;
        // The kernel gives the number of a mount that went to the next one.
        self.told_lost_writes = None;
    }

    /// A mount of this disk is made now, or will be: it may live on in whatever namespace.
    fn is_mounted_from(&mut self, disk: DiskMoment) {
        // While a mount stands no other disk has its number: of those that had it only the last one may have any.
        self.former.retain(|former| former.boot == disk.boot && former.number != disk.number);
        self.former.push(disk);
        let surplus = self.former.len().saturating_sub(MOST_FORMER);
        self.former.drain(..surplus);
    }

    /// Remembers which file system is mounted; of one that is known already also in which attachment.
    fn saw_file_system(&mut self, staged: &Staged) {
        let Staged { uuid, disk, .. } = staged;
        let before = self.file_system.take();
        let same = before.filter(|last| last.uuid == *uuid && last.disk.is_of(disk));
        let attachment = same.and_then(|last| last.attachment);
        let (uuid, disk) = (uuid.clone(), disk.clone());
        self.file_system = (!uuid.is_empty()).then_some(LastFileSystem { uuid, disk, attachment });
    }

    /// The numbers of the disks that it was mounted from since this boot.
    pub fn former_numbers(&self, boot: &str) -> impl Iterator<Item = DeviceNumber> {
        self.former.iter().filter(move |former| former.boot == boot).map(|former| former.number)
    }

    /// Whether it was mounted since this boot: mounts of it may stand on a disk that it had.
    #[must_use]
    pub fn was_mounted_since(&self, boot: &str) -> bool {
        let last = self.mounted_as().map(|staged| &staged.disk);
        self.former.iter().chain(last).any(|disk| disk.boot == boot)
    }

    /// The stage mount was taken off.
    pub fn is_unstaged(&mut self) {
        if self.staged.is_some() {
            self.unstaged = self.staged.take();
        }
        self.keep_faces();
    }

    /// What is known of the journal at the last mount through this map, whether or not its call came to its end.
    #[must_use]
    pub fn journal_through(&self, map: &DiskMoment) -> Option<JournalMark> {
        let told = self.mounted_as().filter(|staged| staged.disk.is_of(map));
        let intended = || self.map_intent.as_ref().filter(|intent| intent.map.is_of(map));
        told.and_then(|staged| staged.journal.clone())
            .or_else(|| intended().map(|intent| intent.journal.clone()))
    }

    /// The superblocks that were seen of the mount through this map.
    #[must_use]
    pub fn superblocks_through(&self, map: &DiskMoment) -> &[String] {
        let seen = self.superblocks.as_ref().filter(|seen| seen.map.is_of(map));
        seen.map_or(&[], |seen| &seen.fingerprints)
    }

    /// This one was in memory.
    pub fn saw_superblock(&mut self, map: DiskMoment, fingerprint: String) {
        let mut fingerprints = self.superblocks_through(&map).to_vec();
        fingerprints.retain(|one| *one != fingerprint);
        fingerprints.push(fingerprint);
        let surplus = fingerprints.len().saturating_sub(MOST_SUPERBLOCKS);
        fingerprints.drain(..surplus);
        self.superblocks = Some(SeenSuperblocks { map, fingerprints });
    }

    /// How the volume was mounted, by what is staged or was last.
    #[must_use]
    pub fn mounted_as(&self) -> Option<&Staged> {
        self.staged.as_ref().or(self.unstaged.as_ref())
    }

    /// All that stood on a dead disk stands on this one now.
    pub fn is_healed(&mut self, disk: DiskMoment, uuid: String, mounts: Option<u16>) {
        let Some(before) = self.mounted_as().cloned() else { return };
        let was_staged = self.staged.is_some();
        self.is_staged(Staged { disk, uuid, mounts, journal: None, ..before });
        if !was_staged {
            self.is_unstaged();
        }
    }

    /// A heal is about to make the file system count this, from what it counts now.
    pub fn is_healing(&mut self, from: Option<u16>, to: Option<u16>) {
        (self.healing_from, self.healing) = (from, to);
    }

    /// A heal is about to mount this disk. If it is killed when all is moved, nothing else tells of the disk
    /// later on: the next heal finds nothing to do.
    pub fn will_be_healed_by(&mut self, disk: DiskMoment, from: Option<u16>, to: Option<u16>) {
        self.is_mounted_from(disk);
        self.is_healing(from, to);
    }

    /// Whether a heal that was killed explains this count.
    #[must_use]
    pub fn counted_by_a_heal(&self, now: u16) -> bool {
        [self.healing, self.healing_from].contains(&Some(now))
    }

    /// Remembers what a heal is about to change in one mount namespace. What an earlier one wrote
    /// of a mount stays: that one may have been killed, and what is there now is its half of the
    /// work.
    pub fn will_switch(&mut self, boot: &str, sign: NamespaceSign, mounts: Vec<MountIntent>) {
        self.switching.retain(|one| one.boot == boot);
        let known = self.switching.iter_mut().find(|one| one.sign == sign);
        let Some(known) = known else {
            let boot = boot.to_owned();
            self.switching.push(Switching { boot, sign, mounts });
            return;
        };
        for mount in mounts {
            if !known.tells_of(&mount) {
                known.mounts.push(mount);
            }
        }
    }

    /// An empty record.
    #[must_use]
    pub fn new(volume: VolumeId) -> Self {
        Self {
            format: FORMAT,
            volume,
            name: None,
            formatting: None,
            staged: None,
            seen: None,
            unstaged: None,
            unstaged_at: None,
            file_system: None,
            former: Vec::new(),
            tenure: None,
            healing: None,
            healing_from: None,
            switching: Vec::new(),
            not_healed: None,
            map_wait: None,
            map_intent: None,
            superblocks: None,
            told_lost_writes: None,
            is_shareable: None,
            is_marked: false,
            mark_doubted_at: None,
            marked_beside: None,
            mark_asked: None,
            mark_asked_at: None,
            is_life_told: false,
            notes_forbidden: None,
            refused: BTreeMap::new(),
            refusals: 0,
            was_mounted: false,
            published: BTreeMap::new(),
            faces: BTreeMap::new(),
            consumers: BTreeMap::new(),
            let_go: LetGoes::default(),
            other: BTreeMap::new(),
        }
    }
}

/// What a map waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCause {
    /// Its disk, which is gone, or cannot be looked at yet.
    #[default]
    Gone,
    /// A disk to which nothing else wrote: the one that is here is refused.
    Refused,
    /// A request that does not fail: the disk is here.
    Failing,
}

impl WaitCause {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Failing => "failing",
        }
    }
}

/// A mount through a map. It is written down before the mount: of one whose call is killed nothing else tells how far
/// its journal was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapIntent {
    /// The map, as the disk that is mounted.
    pub map: DiskMoment,
    /// What the mount will be remembered by.
    #[serde(rename = "first_transaction")]
    pub journal: JournalMark,
}

/// Superblocks of one mount through a map, the newest last. The kernel changes one in memory first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenSuperblocks {
    pub map: DiskMoment,
    /// What tells each from the others.
    pub fingerprints: Vec<String>,
}

/// The wait of a volume's map for its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapWait {
    /// When it was seen first.
    pub since: Uptime,
    #[serde(default)]
    pub cause: WaitCause,
    /// Why the disk that is here was not put under the map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_switched: Option<String>,
}

impl MapWait {
    /// Whether it is for no more than a look at the disk, which is here: what hinders that may end any moment. What was
    /// seen of a disk that is refused stays.
    #[must_use]
    pub const fn is_for_a_look(&self) -> bool {
        matches!(self.cause, WaitCause::Gone) && self.not_switched.is_some()
    }
}

/// Mounts of one mount namespace that a heal changes for a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switching {
    /// The boot of the machine: namespaces and mounts are numbered anew with each.
    pub boot: String,
    #[serde(flatten)]
    pub sign: NamespaceSign,
    /// What is to be in the end.
    pub mounts: Vec<MountIntent>,
}

impl Switching {
    /// Whether this mount is written down already.
    #[must_use]
    pub fn tells_of(&self, mount: &MountIntent) -> bool {
        self.mounts.iter().any(|one| (one.id, &one.target) == (mount.id, &mount.target))
    }
}

/// By what a mount namespace is known again. Its number is given away when it has gone: so there is
/// something beside it that no later one has. What an older version wrote has the number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSign {
    pub namespace: u64,
    /// The kernel's count of mount namespaces, where it tells that (Linux 6.11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Else one who lives there: the process, and when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dweller: Option<(u32, u64)>,
}

impl NamespaceSign {
    /// One of which the number alone is known.
    #[must_use]
    pub fn of_number(namespace: u64) -> Self {
        Self { namespace, count: None, dweller: None }
    }

    /// Whether a namespace that has the number is that one. `now` is what it shows: its count, and
    /// when the process that was noted began, if that lives there.
    #[must_use]
    pub fn is_of(&self, count: Option<u64>, began: Option<u64>) -> bool {
        match (self.count, self.dweller) {
            (Some(noted), _) => count == Some(noted),
            (None, Some((_, noted))) => began == Some(noted),
            (None, None) => true,
        }
    }
}

/// The disk as it was when something was begun on it: the same disk is the same plug-in of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskMoment {
    /// The number it had.
    pub number: DeviceNumber,
    /// The kernel's count of disks, where it keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The size it had.
    pub size: u64,
    /// The boot of the machine: numbers and counts begin anew with each.
    pub boot: String,
}

impl DiskMoment {
    /// Whether both are moments of one plug-in of a disk, or of one map: it may have grown in between.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        (self.number, self.sequence, &self.boot) == (other.number, other.sequence, &other.boot)
    }
}

#[cfg(any(test, feature = "test-values"))]
impl DiskMoment {
    /// A disk of this minor number, in this boot.
    #[must_use]
    pub fn of_a_test(minor: u32, boot: &str) -> Self {
        let number = DeviceNumber { major: 7, minor };
        Self { number, sequence: None, size: 1 << 20, boot: boot.to_owned() }
    }
}

/// A format that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formatting {
    pub disk: DiskMoment,
    /// The file system that is being made.
    pub fs_type: String,
    /// Its UUID, without which earlier versions do not read the record.
    pub uuid: String,
}

/// A stage mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    #[serde(with = "super::path_text")]
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

/// A file system that was mounted, and in which attachment of the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFileSystem {
    pub uuid: String,
    pub disk: DiskMoment,
    /// The cloud's own mark of the attachment, where it was asked: a later attachment has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<String>,
}

impl LastFileSystem {
    /// Whether a mount now is one in the same attachment: by the cloud's word where both are known, else
    /// by the disk, which is the same plug-in then.
    #[must_use]
    pub fn is_same_attachment(&self, attachment: Option<&str>, disk: &DiskMoment) -> bool {
        match (self.attachment.as_deref(), attachment) {
            (Some(then), Some(now)) => then == now,
            _ => self.disk.is_of(disk),
        }
    }
}

#[cfg(test)]
mod tests;
