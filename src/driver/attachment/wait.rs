//! Wait until this machine sees the volume's disk.

use crate::attachment::attach::Attaching;
use crate::cloud::Cloud;
use crate::guard::let_go_volumes::LetGoVolumes;
use crate::heal::Healing;
use crate::host::clock::Deadline;
use crate::host::device_nodes;
use crate::host::locks::{Locked, Locks};
use crate::host::records::Records;
use crate::host::{Kubelets, Mounts};
use crate::lookup::disk_numbers::DiskNumbers;
use crate::lookup::find_disk::Disks;
use crate::lookup::memory::Memory;
use crate::lookup::own_maps::OwnMaps;
use crate::model::cloud::attachment_state::Sharing;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, VolumeId};
use crate::model::kubelet::Attacher;
use crate::model::mount::layout::{StagePlace, Target};
use crate::model::mount::mount_place::{Look, Stands};
use crate::model::mount::mountinfo::Mount;
use crate::operation::Volume;
use crate::ownership::mount_place::{belonging, strangers_on};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Another call of the volume heals as well: it is waited for this long.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a volume that is attached nowhere may still be attached by the controller. kubelet's back-off after an
/// early error would outlive that.
const CONTROLLER_ATTACHES_WITHIN: Duration = Duration::from_secs(30);

/// How often the cloud is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_secs(10);

#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct DiskWait<'a> {
    pub(crate) cloud: &'a dyn Cloud,
    pub(crate) kubelets: &'a dyn Kubelets,
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) records: &'a Records,
    pub(crate) locks: &'a Locks,
    pub(crate) this_node: &'a NodeName,
    pub(crate) operation: &'a str,
    pub(crate) deadline: Deadline,
    pub(crate) attaching: &'a Attaching<'a>,
    pub(crate) disks: &'a Disks<'a>,
    pub(crate) numbers: &'a DiskNumbers<'a>,
    pub(crate) own_maps: &'a OwnMaps<'a>,
    pub(crate) memory: &'a Memory<'a>,
    pub(crate) let_go_volumes: &'a LetGoVolumes<'a>,
    pub(crate) healing: &'a Healing<'a>,
}

impl DiskWait<'_> {
    /// Waits for the disk and answers its path. `hint` is what the orchestrator remembers; it is
    /// never followed.
    ///
    /// What is mounted at the volume's stage place must be this disk: the orchestrator skips the
    /// mount when the folder is a mount point, whatever is mounted there.
    pub fn wait_for_disk(
        &self,
        volume: &Volume,
        hint: &str,
        place: &StagePlace,
        sharing: Sharing,
    ) -> Result<PathBuf> {
        let soon = self.deadline.at_most(LOCK_WAIT);
        if self.records.load(&volume.id).unstaged_at.is_some()
            && let Ok(Locked::Held(_lock)) = self.locks.take(&volume.id, self.operation, soon)
        {
            self.let_go_volumes.note_caller(&volume.id);
        }
        let disk = self.wait(volume, sharing)?;
        self.memory.remember_name_if_unlocked(volume);
        self.disks.report_links(&volume.id);
        self.disks.report_hint(&volume.id, hint, &disk);
        let link = self.cloud.link(&volume.id);
        let soon = self.deadline.at_most(LOCK_WAIT);
        let (disk, unhealed) = match self.locks.take(&volume.id, self.operation, soon) {
            Ok(Locked::Held(_lock)) => self.healing.heal_on_the_way(&volume.id, disk)?,
            Ok(Locked::Impossible(error)) | Err(error) => (disk, Some(error.to_string())),
        };
        self.check_staged(volume, &disk, place).map_err(|error| error.not_healed(unhealed))?;
        Ok(path_of(&disk, &link))
    }

    fn wait(&self, volume: &Volume, sharing: Sharing) -> Result<Device> {
        let by_controller = self.deadline.at_most(CONTROLLER_ATTACHES_WITHIN);
        let mut kubelet = None;
        self.disks.wait_while(volume, self.deadline, &mut |error| {
            let kubelet = kubelet.get_or_insert_with(|| self.kubelets.running_kubelet());
            match kubelet.as_ref().map(|kubelet| &kubelet.attacher) {
                Some(Attacher::Controller) if !by_controller.over() => {
                    Ok(by_controller.remaining().min(ASK_EVERY))
                }
                // Since Kubernetes 1.26 kubelet does not attach again what it finds mounted after its restart.
                Some(Attacher::Kubelet) if self.has_lost_its_disk(&volume.id) => {
                    tracing::warn!(volume = %volume.id, "its mounts here lost their disk and kubelet does not ask to attach it: attaching");
                    let cause = |why: Error| {
                        let cause = format!("{}; {}", error.cause, why.cause);
                        Error { cause, ..why }
                    };
                    self.attaching.attach(volume, self.this_node, sharing).map_err(cause)?;
                    Ok(ASK_EVERY)
                }
                _ => Err(error),
            }
        })
    }

    /// Whether mounts of the volume are here whose disk is gone. In doubt they are not.
    fn has_lost_its_disk(&self, id: &VolumeId) -> bool {
        let table = self.mounts.table();
        table
            .and_then(|table| self.numbers.dead_numbers_of(id, &table))
            .is_ok_and(|dead| !dead.is_empty())
            || self.own_maps.seen(id).is_some_and(|map| map.state().waits())
    }

    fn check_staged(&self, volume: &Volume, disk: &Device, place: &StagePlace) -> Result<()> {
        let Some(root) = &place.root else {
            let table = self.mounts.table()?;
            let ends_so = |mount: &&Mount| mount.target.ends_with(&place.below);
            let folders: BTreeSet<_> =
                table.mounts().iter().filter(ends_so).map(|mount| &mount.target).collect();
            for folder in folders {
                let look = self.mounts.standing_at(folder)?;
                // Which of them is the orchestrator's is not known here: it may be a copy of its
                // folders. Its next call names the folder.
                if !matches!(look.stands, Stands::Covered(_)) {
                    check_at(volume, disk, &look, folder)?;
                }
            }
            return Ok(());
        };
        let target = Target { root: root.clone(), below: place.below.clone() };
        let folder = self.mounts.real_path(&target)?;
        check_at(volume, disk, &self.mounts.standing_at(&folder)?, &folder)
    }
}

fn check_at(volume: &Volume, disk: &Device, look: &Look, folder: &Path) -> Result<()> {
    let Err(error) = belonging(look, disk, folder) else { return Ok(()) };
    if matches!(look.stands, Stands::Covered(_)) || strangers_on(look, disk).is_some() {
        return Err(error);
    }
    Err(error.hint(format!(
        "the disk of volume {} came back under another name; restart the pods that use it",
        volume.id
    )))
}

/// The link, if it points to the proven disk; else the kernel's own node.
fn path_of(disk: &Device, link: &Path) -> PathBuf {
    let node = disk.kernel_node();
    if device_nodes::leads_to(link, &node) { link.to_path_buf() } else { node }
}
