//! A kubelet that let go of a folder and was restarted then does not know the volume any more: it
//! lists the folders of pods, and there is none. If the pod ends before kubelet can read its claim,
//! nobody asks for `unmountdevice` and `detach` ever again. So the timer does.

use crate::cloud::CloudVolume;
use crate::driver::Driver;
use crate::driver::attachment::detach::Force;
use crate::failpoints;
use crate::host::machine;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, ServerId, VolumeId, VolumeName};
use crate::model::mount::disk_users::Answer;
use crate::model::mount::letting_go::{LetGo, LetGoes};
use crate::model::mount::ownership::{Machine, Standing};
use crate::model::mount::target::{Place, Target, place_of, root_above};
use crate::model::record::VolumeRecord;
use crate::model::report::facts::LetGoFact;
use crate::model::timestamp::now;
use std::path::Path;
use std::time::Duration;

/// An orchestrator that can read its claims has mounted the folder again by then.
const LASTS: Duration = Duration::from_secs(600);

/// That it did is told for so long, in milliseconds.
const TOLD_FOR: u64 = 86_400_000;

/// What became of a volume that nobody asked for.
#[derive(Debug)]
pub struct Forgotten {
    /// The volume.
    pub id: VolumeId,
    /// Whether it was detached too, or what went wrong.
    pub outcome: Result<bool>,
}

impl Driver<'_> {
    /// Somebody names the volume: whoever it is, it is his to bring to its end. The caller holds the
    /// volume's lock.
    pub(in crate::driver) fn note_caller(&self, id: &VolumeId) {
        let let_go = self.records.load(id).let_go;
        let by = machine::caller();
        if let_go.is_empty() || by.is_none() || let_go.asked_by == by {
            return;
        }
        if let Err(error) = self.records.update(id, |record| record.let_go.asked_by = by) {
            tracing::warn!(volume = %id, %error, "who asked for it last is not remembered");
        }
    }

    /// Takes down every volume that was let go of and forgotten; `kubelet_attaches` is whether nobody
    /// else would detach it.
    #[must_use]
    pub fn end_forgotten(&self, kubelet_attaches: bool) -> Vec<Forgotten> {
        let records = self.records.list().unwrap_or_default();
        let forgotten = records.into_iter().filter(|record| self.is_forgotten(record));
        let end = |record: VolumeRecord| {
            let outcome = self.take_down_forgotten(&record, kubelet_attaches);
            if let Err(error) = &outcome {
                tracing::warn!(volume = %record.volume, %error, "forgotten by kubelet, and not taken down");
            }
            Forgotten { id: record.volume, outcome }
        };
        forgotten.map(end).collect()
    }

    fn take_down_forgotten(&self, record: &VolumeRecord, kubelet_attaches: bool) -> Result<bool> {
        let id = &record.volume;
        tracing::warn!(volume = %id, "kubelet let go of it and does not know it any more, and its pods have ended: taken down");
        let name = record.name.clone().unwrap_or_else(|| id.as_name());
        if let Some(staged) = &record.staged {
            let (name, target) = global_of(&staged.folder)?;
            self.unstage_forgotten(&name, &target)?;
            failpoints::step("forgotten.unmounted");
        }
        // kubelet may have come to ask in between, and then counts on what it was told.
        let _lock = self.lock(id)?;
        if !self.is_forgotten(&self.records.load(id)) {
            return Ok(false);
        }
        if !kubelet_attaches {
            self.records.update(id, |record| record.let_go = LetGoes::default())?;
            return Ok(false);
        }
        let server = self.existing_server(self.this_node)?;
        match self.cloud.volume(id, self.deadline)? {
            Some(state) if is_attached(&state, &server) => {
                let here = (self.this_node, Some(&server));
                self.detach_locked(id, &name, here, state, Force::No)?;
                Ok(true)
            }
            _ => {
                self.records.update(id, |record| record.let_go = LetGoes::default())?;
                Ok(false)
            }
        }
    }

    /// Whether nobody will ask for the volume's end: it was let go of and not mounted again, the
    /// process that named it last has ended, and so have all of the pods' that have it.
    pub(in crate::driver) fn is_forgotten(&self, record: &VolumeRecord) -> bool {
        let boot = machine::boot_id();
        let let_go = &record.let_go;
        let was_asked_by_the_dead =
            let_go.asked_by.as_ref().is_some_and(|caller| !machine::lives(caller));
        let_go.open(&boot).next().is_some() && was_asked_by_the_dead && self.is_nobodys(record)
    }

    /// Whether no pod has it: neither a folder of one, nor a container that was given it.
    fn is_nobodys(&self, record: &VolumeRecord) -> bool {
        let numbers: Vec<DeviceNumber> = self.numbers_of(Some(&record.volume), &[]);
        let Ok(table) = self.mounts.table() else { return false };
        let is_pods =
            |place: &Path| matches!(place_of(place), Some((Place::Pod(_) | Place::SubPath(_), _)));
        let mut own = table.mounts().iter().filter(|mount| numbers.contains(&mount.disk));
        if own.any(|mount| is_pods(&mount.target)) {
            return false;
        }
        match self.census.namespaces_with(&numbers) {
            Answer::Told(uses) => {
                let machine = Machine::new(&table, Some(record), &numbers);
                uses.namespaces.iter().all(|one| machine.standing(one) != Standing::Claim)
            }
            Answer::CannotTell(_) => false,
        }
    }

    /// What was let go of, for people: what is over is no news.
    pub(in crate::driver) fn let_go_facts(&self, record: &VolumeRecord) -> Vec<LetGoFact> {
        let (boot, uptime) = (machine::boot_id(), machine::uptime());
        let is_forgotten = self.is_forgotten(record);
        let fact = |(pod, one): (&ConsumerId, &LetGo)| {
            let is_back = one.back.is_some();
            LetGoFact {
                pod: pod.clone(),
                since: one.at,
                back: one.back,
                lasts: !is_back && uptime.since(&one.when).is_some_and(|gap| gap >= LASTS),
                is_forgotten: is_forgotten && !is_back,
            }
        };
        let is_news = |one: &LetGoFact| match one.back {
            Some(back) => now() < back + TOLD_FOR,
            None => one.is_forgotten || self.may_have_it(&record.volume, &one.pod),
        };
        let of_this_boot = record.let_go.folders.iter().filter(|(_, one)| one.when.boot == boot);
        of_this_boot.map(fact).filter(is_news).collect()
    }
}

fn is_attached(state: &CloudVolume, server: &ServerId) -> bool {
    state.attachment_to(server).is_some()
}

/// A global folder, taken apart.
fn global_of(folder: &Path) -> Result<(VolumeName, Target)> {
    let wrong = || {
        let place = folder.display();
        Error::new(Kind::Host, format!("{place} is no folder of kubelet's for a volume"))
            .hint("unmount it by hand")
    };
    let (place, name) = place_of(folder).ok_or_else(wrong)?;
    let root = root_above(folder).filter(|_| place == Place::Global).ok_or_else(wrong)?;
    let below = folder.strip_prefix(root).map_err(|_| wrong())?;
    Ok((name, Target { root: root.to_path_buf(), below: below.to_path_buf() }))
}
