//! The heal without a call: nobody may call again after a disk came back. Whoever is told of a disk
//! (udev, a timer, a person) lets all volumes of this machine be looked after, or that disk's.

use super::Driver;
use super::heal::Healed;
use crate::host::locks::Locked;
use crate::host::nodes;
use crate::model::config::HealMode;
use crate::model::device::DeviceNumber;
use crate::model::error::{Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::record::VolumeRecord;
use crate::model::time::Deadline;
use std::collections::BTreeSet;
use std::time::Duration;

/// What became of the volumes that were looked after.
#[derive(Debug, Default)]
pub struct Tended {
    /// Those where something was done, or is to be.
    pub volumes: Vec<(VolumeId, Result<Healed>)>,
    /// Whether there are others on which a call works just now.
    pub is_busy: bool,
}

/// How long a call that works on the volume of the disk that came is waited for: most heal it
/// themselves, and nobody asks again for that disk.
const CALLS_END: Duration = Duration::from_secs(30);

impl Driver<'_> {
    /// Heals every volume that this machine has, or would.
    pub fn tend_all(&self, mode: HealMode) -> Result<Tended> {
        Ok(self.tend(self.volumes_here()?, mode, Duration::ZERO))
    }

    /// The same for the volume whose disk has this number. A disk that no volume of this machine
    /// was ever mounted from costs a look at the records, and the cloud is not asked.
    pub fn tend_disk(&self, number: DeviceNumber, mode: HealMode) -> Result<Tended> {
        let shown = self.devices.shown_by(number)?.unwrap_or_default();
        let mut ids = self.volumes_here()?;
        ids.retain(|id| self.cloud.identity(id).proven_by(&shown).is_some());
        Ok(self.tend(ids, mode, CALLS_END))
    }

    fn tend(&self, ids: BTreeSet<VolumeId>, mode: HealMode, patience: Duration) -> Tended {
        let mut tended = Tended::default();
        for id in ids {
            let patience = Deadline::after(patience);
            let lock = self.locks.take(&id, self.operation, patience).and_then(Locked::required);
            match lock.and_then(|_lock| self.counted_heal(&id, mode, None)) {
                Ok(healed) if healed == Healed::default() => {}
                Err(error) if error.kind == Kind::Busy => tended.is_busy = true,
                done => tended.volumes.push((id, done)),
            }
        }
        tended
    }

    /// The volumes that were mounted here since the machine started, by record or by label.
    fn volumes_here(&self) -> Result<BTreeSet<VolumeId>> {
        let boot = crate::host::machine::boot_id();
        let was_here = |record: &VolumeRecord| {
            let staged = record.staged.iter().map(|staged| &staged.disk);
            record.former.iter().chain(staged).any(|disk| disk.boot == boot)
        };
        let records = self.records.list()?.into_iter().filter(was_here);
        let mut ids: BTreeSet<_> = records.map(|record| record.volume).collect();
        let table = self.mounts.table()?;
        ids.extend(table.mounts().iter().filter_map(nodes::owner_of));
        Ok(ids)
    }
}
