//! Records of volumes, and an index of names: `names/<name>` is a link whose text is the volume's
//! id. A link is made in one system call, so the index cannot be half-written.
//!
//! A record is two files. What must outlive the machine's power is synced below the state folder;
//! what ends with the boot lies below the run folder, where no write waits for a disk: under the
//! load that begins an incident a sync takes as long as the disk likes.

use super::{files, worker};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::record::{FORMAT, OF_THE_BOOT, REFUSALS, VolumeRecord};
use crate::model::sorting::sort_by;
use crate::ports::store::Records;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The records of this machine.
#[derive(Debug, Clone)]
pub struct RecordFiles {
    volumes: PathBuf,
    names: PathBuf,
    of_the_boot: PathBuf,
    /// The record that was read or written last, and by which files: a call asks for its volume's many
    /// times.
    last: RefCell<Option<(Stamps, VolumeRecord)>>,
}

/// By what both files are known again; nothing for one that is not there. Records are replaced, never
/// written in place.
type Stamps = [Option<files::Stamp>; 2];

impl RecordFiles {
    /// Records below the state folder, and below the run folder what ends with the boot.
    pub fn below(state_dir: &Path, run_dir: &Path) -> Self {
        Self {
            volumes: state_dir.join("volumes"),
            names: state_dir.join("names"),
            of_the_boot: run_dir.join("boot"),
            last: RefCell::new(None),
        }
    }

    /// The same, and an error where this process lacked what it takes to read it.
    fn known(&self, id: &VolumeId) -> Result<VolumeRecord> {
        let stamps = self.stamps(id);
        if let Some((of, record)) = self.last.borrow().as_ref()
            && *of == stamps
            && record.volume == *id
        {
            return Ok(record.clone());
        }
        let record = self.read(id)?;
        // Looked at before they were read: what changed meanwhile is read again.
        self.last.replace(Some((stamps, record.clone())));
        Ok(record)
    }

    fn read(&self, id: &VolumeId) -> Result<VolumeRecord> {
        let mut keys = read(&self.path(id), id)?.unwrap_or_default();
        if let Some(passing) = read(&self.passing_path(id), id)? {
            // Also keys that are not there tell something, but for the one that is told always.
            let is_told = passing.contains_key(REFUSALS);
            keys.retain(|key, _| {
                !OF_THE_BOOT.contains(&key.as_str()) || (key == REFUSALS && !is_told)
            });
            keys.extend(passing);
        }
        if keys.is_empty() {
            return Ok(VolumeRecord::new(id.clone()));
        }
        Ok(serde_json::from_value(keys.into()).unwrap_or_else(|error| {
            tracing::warn!(volume = %id, %error, "a record cannot be read and is left out");
            VolumeRecord::new(id.clone())
        }))
    }

    /// Changes what is remembered. The caller holds the volume's lock.
    pub fn update(&self, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) -> Result<()> {
        crate::failpoints::effect("records.update")?;
        // What could not be read must not be overwritten with what is known without it.
        let before = self.known(id)?;
        // Of the files that it was read from: those that are there now may be another writer's.
        let mut stamps = self.last.borrow().as_ref().map_or([None; 2], |(stamps, _)| *stamps);
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(());
        }
        after.format = after.format.max(FORMAT);
        let (before, after_keys) = (Parts::of(&before)?, Parts::of(&after)?);
        // Nothing waits for a disk that has nothing to remember, also where no record is there yet.
        if before.lasting != after_keys.lasting {
            files::make_private_folder(&self.volumes)?;
            stamps[0] = Some(files::replace(&self.path(id), &text(&after_keys.lasting)?)?);
        }
        if before.passing != after_keys.passing || stamps[1].is_none() {
            files::make_private_folder(&self.of_the_boot)?;
            let text = text(&after_keys.passing)?;
            stamps[1] = Some(files::replace_until_boot(&self.passing_path(id), &text)?);
        }
        // What was written need not be read: who replaces it later leaves other stamps.
        self.last.replace(Some((stamps, after.clone())));
        match &after.name {
            Some(name) => self.note_name(name, id),
            None => Ok(()),
        }
    }

    fn stamps(&self, id: &VolumeId) -> Stamps {
        [files::stamp(&self.path(id)), files::stamp(&self.passing_path(id))]
    }

    fn path(&self, id: &VolumeId) -> PathBuf {
        self.volumes.join(format!("{id}.json"))
    }

    fn passing_path(&self, id: &VolumeId) -> PathBuf {
        self.of_the_boot.join(format!("{id}.json"))
    }
}

impl Records for RecordFiles {
    fn load(&self, id: &VolumeId) -> VolumeRecord {
        self.known(id).unwrap_or_else(|error| {
            tracing::warn!(volume = %id, %error, "a record cannot be read now and is left out");
            VolumeRecord::new(id.clone())
        })
    }

    fn list(&self) -> Result<Vec<VolumeRecord>> {
        let mut ids = ids_in(&self.volumes)?;
        // A volume of which nothing lasts that would have to be written down.
        ids.extend(ids_in(&self.of_the_boot)?);
        let mut all: Vec<_> = ids.iter().map(|id| self.load(id)).collect();
        sort_by(&mut all, |one, other| one.volume.cmp(&other.volume));
        Ok(all)
    }

    fn file(&self, id: &VolumeId) -> PathBuf {
        self.path(id)
    }

    fn has(&self, id: &VolumeId) -> Result<bool> {
        let path = self.path(id);
        path.try_exists().map_err(|error| Error::io(format!("look at {}", path.display()), &error))
    }

    fn change(&self, id: &VolumeId, change: &mut dyn FnMut(&mut VolumeRecord)) -> Result<()> {
        self.update(id, change)
    }

    fn forget(&self, id: &VolumeId) -> Result<()> {
        if let Some(name) = self.load(id).name
            && self.named(&name).as_ref() == Some(id)
        {
            files::remove_if_there(&self.names.join(name.as_str()))?;
        }
        files::remove_if_there(&self.passing_path(id))?;
        files::remove_if_there(&self.path(id))
    }

    fn named(&self, name: &VolumeName) -> Option<VolumeId> {
        let path = self.names.join(name.as_str());
        let text = fs::read_link(path).ok()?;
        VolumeId::parse(text.to_str()?).ok()
    }

    fn names(&self) -> Vec<(VolumeName, VolumeId)> {
        let _using = worker::uses(&self.names);
        let entries = fs::read_dir(&self.names).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            let name = VolumeName::parse(entry.file_name().to_str()?).ok()?;
            let id = self.named(&name)?;
            Some((name, id))
        });
        names.collect()
    }

    fn note_name(&self, name: &VolumeName, id: &VolumeId) -> Result<()> {
        if self.named(name).as_ref() == Some(id) {
            return Ok(());
        }
        files::make_private_folder(&self.names)?;
        let path = self.names.join(name.as_str());
        files::remove_if_there(&path)?;
        match std::os::unix::fs::symlink(id.as_str(), &path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Error::io(format!("write {}", path.display()), &error))
            }
            _ => Ok(()),
        }
    }

    fn others_with_serial(&self, id: &VolumeId) -> Vec<VolumeId> {
        let serial = id.virtio_serial();
        if serial.len() == id.as_str().len() {
            return Vec::new();
        }
        let _using = worker::uses(&self.volumes);
        let entries = fs::read_dir(&self.volumes).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| {
            VolumeId::parse(entry.file_name().to_str()?.strip_suffix(".json")?).ok()
        });
        ids.filter(|other| other != id && other.virtio_serial() == serial).collect()
    }
}

/// The volumes whose records are in a folder; none if it is not there.
fn ids_in(folder: &Path) -> Result<BTreeSet<VolumeId>> {
    let _using = worker::uses(folder);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(BTreeSet::new());
        }
        Err(error) => return Err(Error::io(format!("read {}", folder.display()), &error)),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|name| VolumeId::parse(name.strip_suffix(".json")?).ok()).collect())
}

/// A record's two files. Both name the volume.
#[derive(PartialEq)]
struct Parts {
    lasting: Map<String, Value>,
    passing: Map<String, Value>,
}

impl Parts {
    fn of(record: &VolumeRecord) -> Result<Self> {
        let Value::Object(all) =
            serde_json::to_value(record).map_err(|error| bug(&error.to_string()))?
        else {
            return Err(bug("a record is no object"));
        };
        let (passing, lasting): (Map<_, _>, Map<_, _>) =
            all.into_iter().partition(|(key, _)| OF_THE_BOOT.contains(&key.as_str()));
        let named = std::iter::once((VOLUME.to_owned(), lasting[VOLUME].clone()));
        Ok(Self { passing: named.chain(passing).collect(), lasting })
    }
}

const VOLUME: &str = "volume";

fn text(keys: &Map<String, Value>) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(keys).map_err(|error| bug(&error.to_string()))
}

fn bug(what: &str) -> Error {
    Error::new(Kind::Bug, what)
}

/// The keys in a file, if they are this volume's; an error where this process lacked what it takes to
/// read it, and a later one may not.
fn read(path: &Path, id: &VolumeId) -> Result<Option<Map<String, Value>>> {
    let text = match files::read_text(path) {
        Ok(text) => text,
        Err(error) if files::is_lack(&error) => {
            let error = Error::io(format!("read {}", path.display()), &error);
            let hint =
                "call again; if it stays so, remove that file: what it remembers is asked anew";
            return Err(error.hint(hint));
        }
        Err(_) => return Ok(None),
    };
    match serde_json::from_str::<Map<String, Value>>(&text) {
        Ok(keys) => {
            let is_its = keys.get(VOLUME).and_then(Value::as_str) == Some(id.as_str());
            Ok(is_its.then_some(keys))
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a record cannot be read and is left out");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_was_written_is_not_read_again_and_what_another_wrote_is() {
        let folder = tempfile::tempdir().unwrap();
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let (one, other) = (RecordFiles::below(&state, &run), RecordFiles::below(&state, &run));
        let id = VolumeId::parse("v1").unwrap();
        one.update(&id, |record| record.guard.refusals = 1).unwrap();
        let file = fs::OpenOptions::new().write(true).open(one.passing_path(&id)).unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        file.set_len(0).unwrap();
        file.set_modified(written).unwrap();
        assert_eq!(one.load(&id).guard.refusals, 1, "it is known what the file of that stamp said");
        assert_eq!(other.load(&id).guard.refusals, 0);
        other.update(&id, |record| record.guard.refusals = 5).unwrap();
        assert_eq!(one.load(&id).guard.refusals, 5);
        one.update(&id, |record| record.heal.healing = Some(2)).unwrap();
        assert_eq!((other.load(&id).guard.refusals, other.load(&id).heal.healing), (5, Some(2)));
    }

    #[test]
    fn records_come_back_and_names_follow() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordFiles::below(&folder.path().join("state"), &folder.path().join("run"));
        let (one, two) = (VolumeId::parse("v1").unwrap(), VolumeId::parse("v2").unwrap());
        let name = VolumeName::parse("pv-1").unwrap();
        records.update(&one, |record| record.name = Some(name.clone())).unwrap();
        assert_eq!(records.named(&name), Some(one.clone()));
        records.update(&two, |record| record.name = Some(name.clone())).unwrap();
        assert_eq!(records.named(&name), Some(two.clone()), "the last pair seen counts");
        records.forget(&one).unwrap();
        assert_eq!(records.named(&name), Some(two.clone()), "the name was no longer its own");
        records.forget(&two).unwrap();
        assert_eq!(records.named(&name), None);
        assert_eq!(records.load(&two), VolumeRecord::new(two));
    }

    #[test]
    fn what_ends_with_the_boot_does_not_touch_what_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let records = RecordFiles::below(&state, &run);
        let id = VolumeId::parse("v1").unwrap();
        records.update(&id, |record| record.disk.was_mounted = true).unwrap();
        let inode = || fs::metadata(state.join("volumes/v1.json")).unwrap().ino();
        let before = inode();
        records.update(&id, |record| record.heal.healing = Some(7)).unwrap();
        assert_eq!((inode(), records.load(&id).heal.healing), (before, Some(7)));
        records.update(&id, |record| record.heal.healing = None).unwrap();
        assert_eq!(records.load(&id).heal.healing, None);
        records.update(&id, |record| record.heal.healing = Some(8)).unwrap();
        fs::remove_dir_all(&run).unwrap();
        let after_boot = records.load(&id);
        assert_eq!((after_boot.disk.was_mounted, after_boot.heal.healing), (true, None));
    }

    #[test]
    fn a_record_of_one_file_is_read_and_parted() {
        let folder = tempfile::tempdir().unwrap();
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let records = RecordFiles::below(&state, &run);
        let id = VolumeId::parse("v1").unwrap();
        fs::create_dir_all(state.join("volumes")).unwrap();
        let old = r#"{"format":1,"volume":"v1","healing":3,"refusals":2}"#;
        fs::write(state.join("volumes/v1.json"), old).unwrap();
        assert_eq!(records.load(&id).heal.healing, Some(3));
        records.update(&id, |record| record.guard.refusals = 3).unwrap();
        assert_eq!(
            (records.load(&id).heal.healing, records.load(&id).guard.refusals),
            (Some(3), 3)
        );
        // What stands there still is not believed, and goes with the next thing that lasts.
        records.update(&id, |record| record.disk.was_mounted = true).unwrap();
        let lasting = fs::read_to_string(state.join("volumes/v1.json")).unwrap();
        assert!(!lasting.contains("healing") && !lasting.contains("refusals"), "{lasting}");
        assert_eq!(
            (records.load(&id).heal.healing, records.load(&id).guard.refusals),
            (Some(3), 3)
        );
    }

    /// An older version keeps the count with what lasts, and may take turns with this one.
    #[test]
    fn a_count_that_an_older_version_keeps_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let id = VolumeId::parse("v1").unwrap();
        let older = |count: u64| {
            fs::create_dir_all(state.join("volumes")).unwrap();
            fs::create_dir_all(run.join("boot")).unwrap();
            let lasting = format!(r#"{{"format":1,"volume":"v1","refusals":{count}}}"#);
            fs::write(state.join("volumes/v1.json"), lasting).unwrap();
            let passing = r#"{"volume":"v1","healing":3}"#;
            fs::write(run.join("boot/v1.json"), passing).unwrap();
        };
        for count in [7, 12] {
            older(count);
            let records = RecordFiles::below(&state, &run);
            assert_eq!(
                (records.load(&id).guard.refusals, records.load(&id).heal.healing),
                (count, Some(3))
            );
            records.update(&id, |record| record.guard.refusals += 1).unwrap();
            let again = RecordFiles::below(&state, &run);
            assert_eq!(
                (again.load(&id).guard.refusals, again.load(&id).heal.healing),
                (count + 1, Some(3))
            );
        }
    }

    /// The load that begins an incident may keep that folder's disk busy for minutes.
    #[test]
    fn a_refusal_and_the_begin_of_a_heal_touch_nothing_that_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let id = VolumeId::parse("v1").unwrap();
        let change = |records: &RecordFiles| {
            let refused = |record: &mut VolumeRecord| {
                record.guard.refusals += 1;
                record.heal.is_healing(Some(1), Some(2));
            };
            records.update(&id, refused).unwrap();
        };
        // Of a volume without a record, as its predecessor leaves it.
        change(&RecordFiles::below(&state, &run));
        assert!(!state.exists());
        let records = RecordFiles::below(&state, &run);
        let known: Vec<_> = records.list().unwrap().into_iter().map(|one| one.volume).collect();
        assert_eq!(known, std::slice::from_ref(&id));
        records.update(&id, |record| record.disk.was_mounted = true).unwrap();
        let inode = || fs::metadata(records.file(&id)).unwrap().ino();
        let before = inode();
        change(&records);
        assert_eq!((inode(), records.load(&id).guard.refusals), (before, 2));
        assert_eq!(records.list().unwrap().len(), 1);
    }

    #[test]
    fn a_record_that_cannot_be_read_now_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (state, run) = (folder.path().join("state"), folder.path().join("run"));
        let records = RecordFiles::below(&state, &run);
        let id = VolumeId::parse("v1").unwrap();
        records.update(&id, |record| record.disk.was_mounted = true).unwrap();
        let (file, aside) = (records.file(&id), state.join("aside"));
        fs::rename(&file, &aside).unwrap();
        // A regular file whose first page is never there.
        std::os::unix::fs::symlink("/proc/self/mem", &file).unwrap();
        let error = records.update(&id, |record| record.guard.refusals = 1).unwrap_err();
        assert!(error.to_string().contains("v1.json"), "{error}");
        assert!(!records.load(&id).disk.was_mounted);
        fs::rename(&aside, &file).unwrap();
        records.update(&id, |record| record.guard.refusals = 1).unwrap();
        assert!(records.load(&id).disk.was_mounted);
    }

    #[test]
    fn a_broken_record_is_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordFiles::below(&folder.path().join("state"), &folder.path().join("run"));
        let id = VolumeId::parse("v1").unwrap();
        fs::create_dir_all(folder.path().join("state/volumes")).unwrap();
        for text in ["", "{", "[]", r#"{"format":1,"volume":"v2","was_mounted":true}"#] {
            fs::write(folder.path().join("state/volumes/v1.json"), text).unwrap();
            assert!(!records.load(&id).disk.was_mounted);
        }
        records.update(&id, |record| record.disk.was_mounted = true).unwrap();
        assert!(records.load(&id).disk.was_mounted);
    }
}
