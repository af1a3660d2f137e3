//! Make a file system on a blank disk, as a transaction.
//!
//! The intent is on this machine's disk before the first byte of the file system, and gone after
//! the last: so a mkfs that was killed can be told from a user's data, and only that is begun
//! again, on the same plug-in of the same disk.

use crate::failpoints;
use crate::guard::free_disks::FreeDisks;
use crate::guard::remote_mark::RemoteMarks;
use crate::heal::recovery::Recovery;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::host::{Devices, FileSystems, NewFileSystem};
use crate::lookup::find_disk::{Disks, must_be_allowed};
use crate::lookup::locking::Locking;
use crate::model::disk::contents::{Contents, FileSystem, FsType, Maker, uuid_text};
use crate::model::disk::device::Device;
use crate::model::disk::formatting::FormatRequester;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{VolumeId, is_uuid};
use crate::model::mount::mount_options::MkfsOptions;
use crate::model::record::{Formatting, VolumeRecord};
use crate::model::text::shown;
use crate::mount::format_consent::FormatConsent;
use crate::operation::{Volume, moment};
use ring::rand::{SecureRandom, SystemRandom};
use std::time::Duration;

/// How long a disk that another process still has open (a killed mkfs) is waited for.
const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// What a person sees before a disk is formatted.
#[derive(Debug, Clone)]
pub struct OnDisk {
    /// The disk.
    pub disk: Device,
    /// What stands on it, in words.
    pub contents: String,
    /// Whether this machine ever mounted the volume.
    pub was_mounted: bool,
    /// What speaks against a new file system, besides what stands on the disk.
    pub objections: Vec<String>,
}

/// What stands on a volume's disk, as far as a new file system is concerned.
pub(crate) enum DiskHolds {
    /// A file system to mount.
    FileSystem(FileSystem),
    /// Nothing.
    Blank,
    /// What our own mkfs, killed on this very plug-in of the disk, left there, and nothing else.
    Unfinished(Formatting),
    /// Anything else, in words.
    NotOurs(String),
}

/// New file systems.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Formatter<'a> {
    pub(crate) devices: &'a dyn Devices,
    pub(crate) file_systems: &'a dyn FileSystems,
    pub(crate) records: &'a Records,
    pub(crate) deadline: Deadline,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) disks: &'a Disks<'a>,
    pub(crate) free_disks: &'a FreeDisks<'a>,
    pub(crate) marks: &'a RemoteMarks<'a>,
    pub(crate) recovery: &'a Recovery<'a>,
    pub(crate) consent: &'a FormatConsent<'a>,
}

impl Formatter<'_> {
    /// Judges the disk, for mounts and for people alike. Only what this answers is ever formatted.
    pub(crate) fn found_on(&self, volume: &Volume, disk: &Device) -> Result<DiskHolds> {
        let record = self.records.load(&volume.id);
        let unfinished = unfinished_on(&record, disk);
        let contents = self.file_systems.look(disk, self.deadline)?;
        let plan = match (&contents, unfinished) {
            // A finished file system is never made again, whatever the record says.
            (Contents::FileSystem(found), _) if finished(found, unfinished) => {
                return Ok(DiskHolds::FileSystem(found.clone()));
            }
            (Contents::Blank, None) => return Ok(DiskHolds::Blank),
            (Contents::Blank, Some(plan)) => return Ok(DiskHolds::Unfinished(plan.clone())),
            (_, Some(plan)) => plan,
            (Contents::FileSystem(found), None) => {
                let kind = found.kind;
                return Ok(DiskHolds::NotOurs(format!(
                    "an unfinished {kind} that this machine did not begin"
                )));
            }
            (Contents::Foreign(what) | Contents::Unknown(what), None) => {
                return Ok(DiskHolds::NotOurs(what.clone()));
            }
        };
        // Another process may have written to the disk since our mkfs was killed.
        let options = MkfsOptions::parse(&plan.options)?;
        let new = new_file_system(plan, &options, true)?;
        let Some(strange) = self.file_systems.stranger(disk, &new, self.deadline)? else {
            return Ok(DiskHolds::Unfinished(plan.clone()));
        };
        Ok(match contents {
            // mke2fs writes the superblock at the beginning last: it came to its end, and
            // another process changed something since.
            Contents::FileSystem(found)
                if found.maker == Maker::Unknown && found.uuid == plan.uuid =>
            {
                DiskHolds::FileSystem(found)
            }
            Contents::Foreign(what) => DiskHolds::NotOurs(what),
            _ => DiskHolds::NotOurs(strange),
        })
    }

    /// What is on the volume's disk now. Nothing is changed.
    pub fn what_is_on(&self, volume: &Volume) -> Result<OnDisk> {
        let disk = self.disks.disk(&volume.id)?;
        let _held = self.disks.hold(&volume.id, &disk)?;
        let contents = match self.found_on(volume, &disk) {
            Ok(DiskHolds::Blank) => "nothing: all that was read is zero".to_owned(),
            Ok(DiskHolds::FileSystem(found)) => {
                format!("{} of {} bytes, UUID {}", found.kind, found.size, found.uuid)
            }
            Ok(DiskHolds::Unfinished(plan)) => {
                format!("what a killed mkfs.{} of ours left, and nothing else", plan.fs_type)
            }
            Ok(DiskHolds::NotOurs(what)) => what,
            Err(error) => format!("what cannot be read: {error}"),
        };
        let was_mounted = self.records.load(&volume.id).was_mounted;
        let objections = self
            .consent
            .objections(&volume.id, &disk)
            .unwrap_or_else(|error| vec![format!("the cloud was not heard: {}", error.cause)]);
        Ok(OnDisk { disk, contents, was_mounted, objections })
    }

    /// Accepts the file system with this UUID, which is on the disk, for the volume's next mount: a person
    /// says that it is the right one although another was mounted in the same attachment.
    pub fn keep(&self, volume: &Volume, uuid: &str) -> Result<OnDisk> {
        let _lock = self.locking.lock(&volume.id)?;
        let before = self.what_is_on(volume)?;
        must_be_allowed(&volume.id, &before.disk)?;
        let DiskHolds::FileSystem(found) = self.found_on(volume, &before.disk)? else {
            return Err(not_ours(volume, &before.disk, &before.contents));
        };
        if found.uuid != uuid {
            return Err(Error::refused(format!(
                "refusing to accept file system {} of {}: {} is on it",
                shown(uuid),
                before.disk.kernel_name,
                found.uuid
            ))
            .hint(format!("disk format {} shows what is on the disk", volume.id)));
        }
        tracing::warn!(volume = %volume.id, disk = %before.disk.kernel_name, uuid, "accepted by a person: another file system than at the last mount");
        self.records.update(&volume.id, |record| {
            if let Some(last) = &mut record.file_system {
                last.uuid.clone_from(&found.uuid);
            }
        })?;
        Ok(before)
    }

    /// Loses all that is on the disk and makes a file system, because a person said so. Whose disk
    /// it is, and that it is not in use, is proven as ever. Answers what was there before.
    pub fn format_for_good(
        &self,
        volume: &Volume,
        kind: FsType,
        options: &MkfsOptions,
    ) -> Result<OnDisk> {
        let _lock = self.locking.lock(&volume.id)?;
        self.recovery.end_leftovers(&volume.id);
        let before = self.what_is_on(volume)?;
        let disk = &before.disk;
        must_be_allowed(&volume.id, disk)?;
        self.file_systems.await_check(&volume.id, disk, self.deadline)?;
        let _held = self.disks.hold(&volume.id, disk)?;
        if let Some(reason) = self.devices.objection(disk)? {
            return Err(Error::refused(reason)
                .hint("only whole disks that nothing else uses are formatted"));
        }
        let plan = Formatting { by_person: true, ..plan(volume, disk, kind, options)? };
        self.rehearse(disk, &plan, options)?;
        let consent = self.consent.consent(&volume.id, disk, FormatRequester::Person)?;
        self.wait_free(disk)?;
        let (name, contents) = (&disk.kernel_name, &before.contents);
        tracing::warn!(volume = %volume.id, disk = %name, contents, "a person gives up what is on the disk");
        for objection in &consent.overridden {
            tracing::warn!(volume = %volume.id, disk = %name, objection = objection.cause, "overridden by a person");
        }
        self.consent.note_begin(&volume.id, &consent)?;
        // From here on a killed call is an unfinished format, which the next mount finishes.
        self.records.update(&volume.id, |record| {
            record.formatting = Some(plan.clone());
            record.was_mounted = false;
            record.staged = None;
            record.unstaged = None;
            record.file_system = None;
        })?;
        failpoints::step("format.intent");
        self.disks.prove_again(&volume.id, disk)?;
        self.file_systems.wipe(disk)?;
        failpoints::step("format.wiped");
        self.format(volume, disk, &plan, options)?;
        if let Err(error) = self.marks.note_data(&volume.id) {
            tracing::warn!(volume = %volume.id, %error, "the cloud was not told that the volume has data; its first mount does");
        }
        Ok(before)
    }

    /// Makes a file system on a disk that was read and is blank, if everything else agrees.
    pub(crate) fn format_blank(
        &self,
        volume: &Volume,
        disk: &Device,
        kind: FsType,
        options: &MkfsOptions,
    ) -> Result<FileSystem> {
        let consent = self.consent.consent(&volume.id, disk, FormatRequester::Mount)?;
        // Bytes that we did not look at may be known to others; what they do not find proves nothing.
        if let Some(other) = self.file_systems.second_opinion(&volume.id, disk, self.deadline)? {
            return Err(not_ours(volume, disk, &format!("{other}, by the word of blkid")));
        }
        let plan = plan(volume, disk, kind, options)?;
        self.rehearse(disk, &plan, options)?;
        self.consent.note_begin(&volume.id, &consent)?;
        self.format(volume, disk, &plan, options)
    }

    /// An error if the options would make what the driver refuses afterwards: then the disk would be foreign.
    fn rehearse(&self, disk: &Device, plan: &Formatting, options: &MkfsOptions) -> Result<()> {
        let new = new_file_system(plan, options, true)?;
        options.check_new(new.kind)?;
        match self.file_systems.rehearse(disk.size, &new, self.deadline)? {
            None => Ok(()),
            Some(Contents::FileSystem(made)) if is_made(&made, &new) => Ok(()),
            Some(made) => {
                Err(MkfsOptions::makes_no_file_system(new.kind, &options.text(), &made.to_string()))
            }
        }
    }

    /// Finishes a format of ours that was killed, on a disk that shows nothing else.
    pub(crate) fn format_again(
        &self,
        volume: &Volume,
        disk: &Device,
        plan: &Formatting,
        options: &MkfsOptions,
    ) -> Result<FileSystem> {
        self.rehearse(disk, plan, options)?;
        let asked = if plan.by_person { FormatRequester::Person } else { FormatRequester::Mount };
        let consent = self.consent.consent(&volume.id, disk, asked)?;
        self.consent.note_begin(&volume.id, &consent)?;
        self.format(volume, disk, plan, options)
    }

    /// Formats, or formats again, by plan.
    pub(crate) fn format(
        &self,
        volume: &Volume,
        disk: &Device,
        plan: &Formatting,
        options: &MkfsOptions,
    ) -> Result<FileSystem> {
        self.wait_free(disk)?;
        let record = self.records.load(&volume.id);
        let again = record.formatting.is_some();
        failpoints::step("stage.format.consented");
        let is_begun = unfinished_on(&record, disk).is_some();
        if let Some(found) = self.finished_meanwhile(volume, disk, plan, is_begun)? {
            self.records.update(&volume.id, |record| record.formatting = None)?;
            return Ok(found);
        }
        // What is made now may differ from what was killed by the options alone.
        let plan = &Formatting { options: options.text(), ..plan.clone() };
        self.records.update(&volume.id, |record| record.formatting = Some(plan.clone()))?;
        failpoints::step("stage.format.intent");
        self.disks.prove_again(&volume.id, disk)?;
        let new = new_file_system(plan, options, again)?;
        let kind = new.kind;
        tracing::info!(volume = %volume.id, disk = %disk.kernel_name, %kind, again, "formatting a blank disk");
        self.file_systems.make(&volume.id, disk, &new, self.deadline)?;
        failpoints::step("stage.format.made");
        self.disks.prove_again(&volume.id, disk)?;
        match self.file_systems.look(disk, self.deadline)? {
            Contents::FileSystem(found) if is_made(&found, &new) => {
                self.records.update(&volume.id, |record| record.formatting = None)?;
                failpoints::step("stage.format.done");
                Ok(found)
            }
            other => Err(Error::new(
                Kind::Host,
                format!("mkfs.{kind} reported success, but {} holds {other}", disk.kernel_name),
            )
            .hint(format!(
                "remove mkfsOptions from the PersistentVolume; then, if nothing on the disk is needed: disk format {}",
                volume.id
            ))),
        }
    }

    /// The last look before the first byte: since the first one the cloud was asked, which may have
    /// taken minutes, and a disk that is not mounted is free to every process. Answers the file
    /// system that a mkfs of ours made meanwhile: killed, it may have been in its last write.
    fn finished_meanwhile(
        &self,
        volume: &Volume,
        disk: &Device,
        plan: &Formatting,
        is_begun: bool,
    ) -> Result<Option<FileSystem>> {
        // What a person gave up is there still, as far as it was not wiped.
        if plan.by_person {
            return Ok(None);
        }
        let is_ours = |found: &FileSystem| {
            found.uuid == plan.uuid && found.kind.name() == plan.fs_type && found.size <= disk.size
        };
        match self.found_on(volume, disk)? {
            DiskHolds::Blank | DiskHolds::Unfinished(_) => Ok(None),
            DiskHolds::FileSystem(found) if is_begun && is_ours(&found) => Ok(Some(found)),
            DiskHolds::FileSystem(found) => Err(changed(volume, disk, &found.kind.to_string())),
            DiskHolds::NotOurs(what) => Err(changed(volume, disk, &what)),
        }
    }

    /// Waits a moment until no process uses the disk: a killed mkfs may still be on its way out.
    fn wait_free(&self, disk: &Device) -> Result<()> {
        let until = self.deadline.at_most(SETTLE_WAIT);
        while !self.disks.is_free(disk)? {
            if !until.pause(Duration::from_millis(10)) {
                let who = self.free_disks.who_has(disk, &[]);
                let cause = format!("{} is in use already{who}", disk.kernel_name);
                return Err(Error::new(Kind::Busy, cause));
            }
        }
        Ok(())
    }
}

/// Whether this is the file system that was to be made.
fn is_made(found: &FileSystem, new: &NewFileSystem) -> bool {
    found.uuid == new.uuid && found.maker != Maker::Unfinished && new.kind.accepts(found.kind)
}

fn new_file_system(plan: &Formatting, options: &MkfsOptions, again: bool) -> Result<NewFileSystem> {
    let kind = FsType::named(&plan.fs_type)
        .ok_or_else(|| Error::new(Kind::Bug, format!("a record asks for {}", plan.fs_type)))?;
    let (uuid, seed, options) = (plan.uuid.clone(), plan.seed.clone(), options.clone());
    Ok(NewFileSystem { kind, uuid, again, options, seed, at: plan.at })
}

fn plan(volume: &Volume, disk: &Device, kind: FsType, options: &MkfsOptions) -> Result<Formatting> {
    let mut seed = [0; 16];
    let random = SystemRandom::new().fill(&mut seed);
    random.map_err(|_| Error::new(Kind::Host, "the kernel gives no random number"))?;
    Ok(Formatting {
        options: options.text(),
        seed: Some(uuid_text(&seed)),
        at: crate::host::clock::seconds(),
        disk: moment(disk),
        fs_type: kind.name().to_owned(),
        uuid: file_system_uuid(&volume.id),
        by_person: false,
    })
}

/// The unfinished format of this very plug-in of the disk.
fn unfinished_on<'a>(record: &'a VolumeRecord, disk: &Device) -> Option<&'a Formatting> {
    let formatting = record.formatting.as_ref()?;
    // Without the kernel's count a disk that left and came back could not be told from one that
    // stayed: then there is no unfinished work, only data that we do not know.
    (formatting.disk == moment(disk) && disk.sequence.is_some()).then_some(formatting)
}

/// The UUID that a file system of this volume gets: the id itself where that is a UUID, else a
/// hash of it (FNV-1a, 128 bits) in the form of a custom UUID. So contents can be matched to
/// their volume later.
pub(crate) fn file_system_uuid(id: &VolumeId) -> String {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let text = id.as_str();
    if is_uuid(text) {
        return text.to_lowercase();
    }
    let hash = text.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    uuid::Builder::from_custom_bytes(hash.to_be_bytes()).into_uuid().to_string()
}

/// Whether a file system can be mounted as it is: there is no unfinished format of ours, or it
/// came to its end after all, or it is another one.
pub(crate) fn finished(found: &FileSystem, unfinished: Option<&Formatting>) -> bool {
    match (found.maker, unfinished) {
        (Maker::Unfinished, _) => false,
        (Maker::Finished, _) | (Maker::Unknown, None) => true,
        (Maker::Unknown, Some(plan)) => plan.uuid != found.uuid,
    }
}

/// The disk was written to after it was found blank.
fn changed(volume: &Volume, disk: &Device, what: &str) -> Error {
    not_ours(volume, disk, &format!("{what}, which was not there a moment ago"))
}

/// The refusal to format, with the way out.
pub(crate) fn not_ours(volume: &Volume, disk: &Device, what: &str) -> Error {
    let (name, id) = (&disk.kernel_name, &volume.id);
    Error::refused(format!("{name} holds {what}")).hint(format!(
        "only a blank disk is formatted; if the data may go: disk format {id} (shows what is there first)"
    ))
}

#[cfg(test)]
mod tests;
