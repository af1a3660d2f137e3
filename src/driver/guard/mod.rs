//! The guard: a volume is not torn down under a pod that runs.
//!
//! The orchestrator may be wrong about what runs: after a restart in a bad hour it asks to unmount
//! the volumes of pods that never stopped (kubernetes issues 120150, 113979). The processes are
//! the truth. Every refusal ends by itself with them, or by a person's word, and never by time.

pub(in crate::driver) mod departure;
pub mod end_users;
pub(in crate::driver) mod flush;
pub mod forgotten;
pub(in crate::driver) mod letting_go;
pub(in crate::driver) mod remote_mark;

use super::Driver;
use super::ownership::{Views, way_to_end_users};
use crate::host::machine::uptime;
use crate::model::config::GuardMode;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::mount::disk_users::{
    Answer, DeviceUses, FileUse, Holder, Keeper, KernelUse, NamespaceUse, Tie, plain,
};
use crate::model::mount::mountinfo::Mount;
use crate::model::record::VolumeRecord;
use crate::model::report::refusal::{Occasion, Refusal};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Of more users than so many the rest is counted.
pub(super) const NAMED: usize = 4;

/// The way out that a person has.
const BY_HAND: &str = "it is refused until they end";

/// Whether what uses a disk could be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// Processes, mounts and the disk.
    Clear,
    /// Not from here.
    None,
}

impl Driver<'_> {
    /// Whether the file system may be unmounted for good: not while anybody else has it. Copies
    /// that leaked into namespaces of nobody's are taken down there first. Answers whether there are
    /// some that share with the machine's own mounts: they are to be looked for once those are gone.
    pub(super) fn guard_stage(
        &self,
        id: Option<&VolumeId>,
        mounted: &[DeviceNumber],
    ) -> Result<Views> {
        if self.guard.mode == GuardMode::Off {
            return Ok(Views::default());
        }
        let numbers = self.numbers_of(id, mounted);
        match self.census.namespaces_with(&numbers) {
            Answer::Told(uses) => self.judge(id, "unmountdevice", &numbers, &uses),
            Answer::CannotTell(why) => {
                self.refuse(id, "unmountdevice", &cannot_tell(&why)).map(|()| Views::default())
            }
        }
    }

    /// Whether the volume may leave this machine. The kernel's answer to an exclusive open is the
    /// last word; where neither processes nor disk can be seen (a controller's container) the
    /// orchestrator's own order of calls is all there is.
    pub(super) fn guard_attachment(&self, id: &VolumeId) -> Result<Sight> {
        self.nothing_hangs(id)?;
        self.end_leftovers(id);
        if self.guard.mode == GuardMode::Off {
            return Ok(Sight::Clear);
        }
        let disk = match self.find_disk(id) {
            Ok(Some(disk)) => disk,
            // Not here, or not visible: a controller's container may have /sys and no /dev.
            Ok(None) => return Ok(Sight::None),
            Err(error) if matches!(std::path::Path::new("/sys/block").try_exists(), Ok(false)) => {
                tracing::info!(volume = %id, %error, "this machine's disks cannot be seen from here: detaching on the orchestrator's word");
                return Ok(Sight::None);
            }
            Err(error) => return Err(error),
        };
        tracing::info!(volume = %id, disk = %disk.kernel_name, number = %disk.number, "its disk");
        self.file_systems.await_check(id, &disk, self.deadline)?;
        let table = self.mounts.table()?;
        let on_disk = |mount: &&crate::model::mount::mountinfo::Mount| mount.disk == disk.number;
        let mounts: Vec<_> = table.mounts().iter().filter(on_disk).collect();
        if let Some(mount) = mounts.first() {
            let place = mount.target.display();
            let reason = format!("disk {} is mounted at {place}", disk.kernel_name);
            self.refuse(Some(id), "detach", &reason)?;
        }
        let numbers = [disk.number];
        match self.census.namespaces_with(&numbers) {
            Answer::Told(uses) => {
                let views = self.judge(Some(id), "detach", &numbers, &uses)?;
                self.end_views(Some(id), "detach", &numbers, &views)?;
            }
            Answer::CannotTell(why) => {
                tracing::info!(volume = %id, why, "who uses the disk cannot be told from here: the kernel is asked alone");
            }
        }
        if let Some(staged) = self.records.load(id).mounted_as()
            && !self.is_free(&disk).unwrap_or(true)
        {
            self.renew_in_doubt(&staged.folder);
        }
        let is_told = self.must_let_go(id, &disk)? && self.census.sight() == Answer::Told(());
        Ok(if is_told { Sight::Clear } else { Sight::None })
    }

    /// Who makes a mount busy, and what ends that: what is mounted in it, else who uses its files.
    pub(super) fn busy(&self, id: Option<&VolumeId>, mount: &Mount, error: Error) -> Error {
        let release = id.map(|id| format!(", or: disk release {id}")).unwrap_or_default();
        let on_it = self.mounts.table().map(|table| table.standing_on(mount)).unwrap_or_default();
        let (who, end) = if on_it.is_empty() {
            let who = self.users_by_number(id, &[mount.number]);
            (who, "a process of this machine uses files below that folder: end it")
        } else {
            let words = |one: &Mount| format!("{} from {}", one.fs_type, one.source);
            let word = |one: &Mount| format!("{} (umount {})", words(one), plain(&one.target));
            (format!(": other mounts stand on it: {}", named(&on_it, word)), "take them off first")
        };
        Error { cause: error.cause + &who, ..error }.hint(format!("{end}{release}"))
    }

    /// Who uses a disk or its file system, in words. It takes longer than to find out whether.
    fn users_by_number(&self, id: Option<&VolumeId>, numbers: &[DeviceNumber]) -> String {
        match self.census.device_users(numbers) {
            Answer::Told(users) if !users.files.is_empty() => {
                let is_users = |one: &FileUse| one.process.ordinary_user().is_some();
                let is_kept = users.files.iter().any(is_users);
                let way = if is_kept { way_to_end_users(id) } else { String::new() };
                format!(": {}{way}", named(&users.files, file_use))
            }
            Answer::Told(users) if !users.kernel.is_empty() => {
                format!(": {}", named(&users.kernel, kernel_use))
            }
            Answer::Told(users) if !users.nodes.is_empty() => format!(
                ": one of those who have its node open does so alone: {}",
                named(&users.nodes, |one| one.process.to_string())
            ),
            Answer::Told(_) => ": by whom cannot be seen".to_owned(),
            Answer::CannotTell(why) => format!(": by whom cannot be told from here: {why}"),
        }
    }

    /// The numbers under which the volume's file system lives: mounted, now, and before its disk
    /// came back under another letter. A number that went to another disk since is not it.
    pub(super) fn numbers_of(
        &self,
        id: Option<&VolumeId>,
        mounted: &[DeviceNumber],
    ) -> Vec<DeviceNumber> {
        let mut numbers: BTreeSet<_> = mounted.iter().copied().collect();
        if let Some(id) = id {
            let dead = self.mounts.table().and_then(|table| self.dead_numbers_of(id, &table));
            match dead {
                Ok(dead) => numbers.extend(dead),
                Err(error) => tracing::debug!(%error, "the numbers before are not known"),
            }
            if let Ok(Some(disk)) = self.find_disk(id) {
                numbers.insert(disk.number);
            }
        }
        numbers.into_iter().collect()
    }

    pub(super) fn all_gone(&self, numbers: &[DeviceNumber]) -> &'static str {
        let gone = numbers.iter().all(|number| self.devices.is_gone(*number).unwrap_or(false));
        if gone { " (on a disk that is gone)" } else { "" }
    }

    /// The tear-down may go on: an earlier refusal of it is over.
    pub(super) fn passed(&self, id: Option<&VolumeId>, what: &str) {
        let refused = |id: &&VolumeId| self.records.load(id).refused.remove(what);
        if let Some((id, refusal)) = id.and_then(|id| Some((id, refused(&id)?))) {
            self.end_refusals(id, &[what]);
            let seconds = refusal.last.saturating_sub(refusal.since);
            tracing::info!(volume = %id, what, count = refusal.count, seconds, "no longer refused");
        }
    }

    /// The orchestrator has changed its mind: what is wanted again is not torn down any more, and
    /// whoever asks is not told that it is. The caller holds the volume's lock.
    pub(super) fn wanted_again(&self, id: &VolumeId, what: &[&str]) {
        self.end_refusals(id, what);
        self.tell_losses_anew(id);
    }

    /// These tear-downs are done, or not asked for any more: the next refusal of one begins a new
    /// series, also one that was given up.
    pub(super) fn end_refusals(&self, id: &VolumeId, what: &[&str]) {
        let refused = self.records.load(id).refused;
        let what: Vec<_> = what.iter().filter(|what| refused.contains_key(**what)).collect();
        if what.is_empty() {
            return;
        }
        let over = |record: &mut VolumeRecord| {
            record.refused.retain(|refused, _| !what.iter().any(|what| *what == refused));
        };
        match self.records.update(id, over) {
            Ok(()) => tracing::debug!(volume = %id, ?what, "its refusal is over"),
            Err(error) => tracing::warn!(%error, "the end of a refusal is not remembered"),
        }
    }

    /// Refuses for a reason that is no pod's.
    pub(super) fn refuse(&self, id: Option<&VolumeId>, what: &str, reason: &str) -> Result<()> {
        self.refuse_for(id, what, None, reason)
    }

    /// Refuses, as far as the guard's mode has it, for the sake of these pods. The same refusal again
    /// is only counted.
    pub(super) fn refuse_for(
        &self,
        id: Option<&VolumeId>,
        what: &str,
        pods: Option<BTreeSet<ConsumerId>>,
        reason: &str,
    ) -> Result<()> {
        let volume = id.map_or_else(|| "unknown".to_owned(), ToString::to_string);
        if self.guard.mode == GuardMode::Warn {
            tracing::warn!(volume, what, reason, "would be refused");
            return Ok(());
        }
        let before = id.and_then(|id| self.records.load(id).refused.get(what).cloned());
        let refusal = Refusal::after(before.as_ref(), reason, &occasion(pods));
        // The record stays as it is until the tear-down is done: this one may fail still.
        if let Some(limit) = self.guard.give_up_after
            && refusal.lasts(Duration::from_secs(limit))
        {
            tracing::error!(
                volume,
                what,
                reason,
                limit,
                "guard.give_up_after: given up, the tear-down goes on"
            );
            return Ok(());
        }
        self.tally.refused(what);
        if let Some(id) = id {
            let noted = |record: &mut VolumeRecord| {
                record.refusals = record.refusals.saturating_add(1);
                record.refused.insert(what.to_owned(), refusal.clone());
            };
            if let Err(error) = self.records.update(id, noted) {
                tracing::debug!(%error, "a refusal is not counted");
            }
        }
        if refusal.is_worth_a_line() {
            tracing::warn!(volume, what, reason, count = refusal.count, "refused");
        }
        let way = self.way_out_of(what, id);
        let mut error = Error::new(Kind::Guarded, reason).hint(format!("{BY_HAND}, {way}"));
        error.is_repeated = refusal.count > 1;
        Err(error)
    }
}

impl Driver<'_> {
    /// What a person can do who gives up what a refusal protects. A release takes off this machine's
    /// mounts, and no container's: those keep the disk until it is taken away.
    fn way_out_of(&self, what: &str, id: Option<&VolumeId>) -> String {
        let Some(id) = id else { return "or until a person unmounts it".to_owned() };
        let force = format!("disk detach --force {id}");
        match what {
            "detach" => format!("or: {force}"),
            "unmountdevice" if !self.is_mounted_here(id) => format!("or: {force}"),
            "unmountdevice" => format!("or: disk release {id} and then {force}"),
            _ => format!("or: disk release {id}"),
        }
    }

    fn is_mounted_here(&self, id: &VolumeId) -> bool {
        let numbers = self.numbers_of(Some(id), &[]);
        let table = self.mounts.table();
        table.is_ok_and(|table| table.mounts().iter().any(|one| numbers.contains(&one.disk)))
    }
}

/// This moment, in which a tear-down is refused for the sake of these pods.
fn occasion(pods: Option<BTreeSet<ConsumerId>>) -> Occasion {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Occasion { uptime: uptime(), wall, pods }
}

/// All users, in words.
pub(super) fn all_of(users: &DeviceUses) -> Vec<String> {
    let namespaces = users.namespaces.iter().map(namespace);
    let files = users.files.iter().map(file_use);
    let kernel = users.kernel.iter().map(kernel_use);
    namespaces.chain(files).chain(kernel).collect()
}

/// `shop/orders-0 (7a5c…)`, as far as it is known.
pub(super) fn labelled(pod: &ConsumerId, label: Option<&str>) -> String {
    match label {
        Some(label) if !label.is_empty() => format!("{label} ({pod})"),
        _ => pod.to_string(),
    }
}

pub(super) fn cannot_tell(why: &str) -> String {
    format!("who uses the volume cannot be told from here: {why}")
}

/// The first few in words, and how many more there are.
pub(super) fn named<T>(all: &[T], words: impl Fn(&T) -> String) -> String {
    let mut text = all.iter().take(NAMED).map(words).collect::<Vec<_>>().join("; ");
    if all.len() > NAMED {
        text += &format!("; and {} more", all.len() - NAMED);
    }
    text
}

pub(super) fn holder(one: &Holder) -> String {
    // Who lives there may have as many as he likes.
    let mut places: Vec<_> =
        one.places.iter().take(NAMED).map(|place| place.display().to_string()).collect();
    if let Some(more @ 1..) = one.places.len().checked_sub(NAMED) {
        places.push(format!("and {more} more"));
    }
    format!("{} has it at {}", one.process, places.join(", "))
}

pub(super) fn namespace(one: &NamespaceUse) -> String {
    let id = one.id.map_or_else(|| "a mount namespace".to_owned(), |id| id.to_string());
    let who = match one.processes.as_slice() {
        [] => match (one.user, one.keepers.first()) {
            (_, Some(Keeper::OpenIn { process, .. })) => format!("kept open by {process}"),
            (_, Some(Keeper::MountedAt { place, .. })) => {
                format!("kept by the mount {}", place.display())
            }
            (Some(user), None) => format!("user {user}, and no process lives there"),
            (None, None) => "nobody lives there".to_owned(),
        },
        [first] => first.to_string(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    let place = one.mounts.first().map(|mount| mount.target.display().to_string());
    format!("{who} ({id}, at {})", place.unwrap_or_default())
}

pub(super) fn file_use(one: &FileUse) -> String {
    let how = match one.tie {
        Tie::Descriptor(number) => format!("by descriptor {number}"),
        Tie::Map => "in its memory".to_owned(),
        Tie::WorkingFolder => "as its working folder".to_owned(),
        Tie::RootFolder => "as its root folder".to_owned(),
    };
    format!("{} holds {} {how}", one.process, one.path.display())
}

pub(super) fn kernel_use(one: &KernelUse) -> String {
    match one {
        KernelUse::Holder { device, name, .. } if name.is_empty() => {
            format!("{device} is made of it")
        }
        KernelUse::Holder { device, name, .. } => format!("{device} ({name}) is made of it"),
        KernelUse::Loop { device, file } => {
            format!("{device} is a loop device on {}", file.display())
        }
        KernelUse::Swap(area) => format!("{} is swapped to", area.display()),
    }
}
