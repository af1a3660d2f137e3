//! Which volumes may be mounted on this node, so that a heal looks after them. The run directory is a cache, so the
//! records of this boot alone do not decide.

use crate::context::Context;
use crate::lookup::other_kubelets::is_anothers;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::label;
use crate::model::mount::mountinfo::Mount;
use crate::model::record::VolumeRecord;
use crate::shield;
use std::collections::BTreeSet;

/// All of them, by record, label or map; a first mount that hangs in the kernel has left neither record nor label.
pub(crate) fn all(cx: &Context<'_>) -> Result<BTreeSet<VolumeId>> {
    let boot = cx.host.environment.boot_id();
    let was_here = |record: &VolumeRecord| record.was_mounted_since(&boot);
    let records = cx.store.records.list()?.into_iter().filter(was_here);
    let mut ids: BTreeSet<_> = records.map(|record| record.volume).collect();
    ids.extend(by_label(cx)?);
    ids.extend(shield::volumes(cx));
    Ok(ids)
}

/// Whether this volume is one of them; true if that is uncertain.
pub(crate) fn has(cx: &Context<'_>, id: &VolumeId) -> bool {
    cx.store.records.load(id).was_mounted_since(&cx.host.environment.boot_id())
        || by_label(cx).map_or(true, |labels| labels.contains(id))
        || shield::volumes(cx).contains(id)
}

fn by_label(cx: &Context<'_>) -> Result<BTreeSet<VolumeId>> {
    let table = cx.host.mounts.table()?;
    let is_ours = |mount: &&Mount| !is_anothers(cx.faces, cx.host.kubelets, mount);
    Ok(table.mounts().iter().filter(is_ours).filter_map(label::owner_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, MadeUp};
    use crate::host::machine::boot_id;
    use crate::model::record::{DiskMoment, Staged};
    use std::path::Path;

    #[test]
    fn a_volume_is_known_by_its_record_of_this_boot_or_by_its_label() {
        let id = |text: &str| VolumeId::parse(text).unwrap();
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let mounts =
            FakeMounts::of(&["40 20 7:5 / /root/mounts/x rw - ext4 /dev/incloud-disk/labelled rw"]);
        let made_up = MadeUp { mounts, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|cx| {
            let records = cx.store.records;
            let mounted = |id: &VolumeId, boot: &str| {
                let disk = DiskMoment::of_a_test(1, boot);
                let change = |record: &mut VolumeRecord| {
                    record.is_staged(Staged::new(Path::new("/stage"), &disk, "ext4", ""));
                    record.disk.former.clear();
                };
                records.update(id, change).unwrap();
            };
            let (now, unmounted, before) = (id("now"), id("unmounted"), id("before"));
            mounted(&now, &boot_id());
            mounted(&unmounted, &boot_id());
            records.update(&unmounted, |record| record.mounts.is_unstaged()).unwrap();
            mounted(&before, "before");
            let here = cx;
            let expected: BTreeSet<_> = [id("labelled"), now, unmounted].into();
            assert_eq!(all(here).unwrap(), expected);
            assert!(expected.iter().all(|id| has(here, id)));
            assert!(!has(here, &before) && !has(here, &id("another")));
        });
    }
}
