//! Which volumes may have mounts on this machine: the one rule by which a heal knows whom to look after. The run
//! folder is a cache, so the records of the boot alone do not decide.

use crate::host::records::Records;
use crate::host::{Kubelets, Mounts, device_nodes};
use crate::lookup::other_kubelets::is_anothers;
use crate::lookup::own_maps::OwnMaps;
use crate::model::error::Result;
use crate::model::face::Faces;
use crate::model::ids::VolumeId;
use crate::model::mount::mountinfo::Mount;
use crate::model::record::VolumeRecord;
use std::collections::BTreeSet;

/// The volumes that were mounted on this machine since it started.
pub(crate) struct MountedHere<'a> {
    pub(crate) faces: Faces,
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) kubelets: &'a dyn Kubelets,
    pub(crate) records: &'a Records,
    pub(crate) own_maps: &'a OwnMaps<'a>,
}

impl MountedHere<'_> {
    /// All of them, by record, by label, or by their map: a first mount that waits in the kernel has left neither
    /// a record nor a label.
    pub(crate) fn all(&self) -> Result<BTreeSet<VolumeId>> {
        let boot = crate::host::machine::boot_id();
        let was_here = |record: &VolumeRecord| record.was_mounted_since(&boot);
        let records = self.records.list()?.into_iter().filter(was_here);
        let mut ids: BTreeSet<_> = records.map(|record| record.volume).collect();
        ids.extend(self.by_label()?);
        ids.extend(self.own_maps.volumes());
        Ok(ids)
    }

    /// Whether this volume is one of them; in doubt it is.
    pub(crate) fn has(&self, id: &VolumeId) -> bool {
        self.records.load(id).was_mounted_since(&crate::host::machine::boot_id())
            || self.by_label().map_or(true, |labels| labels.contains(id))
            || self.own_maps.volumes().contains(id)
    }

    fn by_label(&self) -> Result<BTreeSet<VolumeId>> {
        let table = self.mounts.table()?;
        let is_ours = |mount: &&Mount| !is_anothers(self.faces, self.kubelets, mount);
        Ok(table.mounts().iter().filter(is_ours).filter_map(device_nodes::owner_of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, MadeUp};
    use crate::host::machine::boot_id;
    use crate::lookup::memory::staged;
    use crate::model::record::DiskMoment;
    use std::path::Path;

    #[test]
    fn a_volume_is_known_by_its_record_of_this_boot_or_by_its_label() {
        let id = |text: &str| VolumeId::parse(text).unwrap();
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let mounts =
            FakeMounts::of(&["40 20 7:5 / /root/mounts/x rw - ext4 /dev/incloud-disk/labelled rw"]);
        let made_up = MadeUp { mounts, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|driver| {
            let records = driver.ports.records;
            let mounted = |id: &VolumeId, boot: &str| {
                let disk = DiskMoment::of_a_test(1, boot);
                let change = |record: &mut VolumeRecord| {
                    record.is_staged(staged(Path::new("/stage"), &disk, "ext4", ""));
                    record.former.clear();
                };
                records.update(id, change).unwrap();
            };
            let (now, unmounted, before) = (id("now"), id("unmounted"), id("before"));
            mounted(&now, &boot_id());
            mounted(&unmounted, &boot_id());
            records.update(&unmounted, VolumeRecord::is_unstaged).unwrap();
            mounted(&before, "before");
            let here = driver.sweep.mounted_here;
            let all: BTreeSet<_> = [id("labelled"), now, unmounted].into();
            assert_eq!(here.all().unwrap(), all);
            assert!(all.iter().all(|id| here.has(id)));
            assert!(!here.has(&before) && !here.has(&id("another")));
        });
    }
}
