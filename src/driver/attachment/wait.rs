//! Wait until the volume's disk appears on this node.
use crate::attachment::attach;
use crate::context::Context;
use crate::guard::let_go_volumes;
use crate::heal::{self, recovery};
use crate::lookup::{alias, find_disk};
use crate::model::cloud::attachment_state::Sharing;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::model::kubelet::Attacher;
use crate::model::mount::layout::{StagePlace, Target};
use crate::model::mount::mount_place::{Look, Stands};
use crate::model::mount::mountinfo::Mount;
use crate::operation::Volume;
use crate::ownership::mount_place::{belonging, strangers_on};
use crate::ports::store::Locked;
use crate::shield;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for another call of the volume, which heals as well.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long the controller may take to attach a volume that is attached nowhere. kubelet's back-off after an early
/// error would take longer.
const CONTROLLER_ATTACHES_WITHIN: Duration = Duration::from_secs(30);

/// How often the cloud is polled meanwhile.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Waits for the disk and returns its path. `hint` is the path that the orchestrator remembers; it is never followed.
///
/// Whatever is mounted at the volume's stage directory must be from this disk, because the orchestrator skips the mount
/// if the directory is a mount point.
pub fn wait_for_disk(
    cx: &Context<'_>,
    volume: &Volume,
    hint: &str,
    place: &StagePlace,
    sharing: Sharing,
) -> Result<PathBuf> {
    let soon = cx.deadline.at_most(LOCK_WAIT);
    if cx.store.records.load(&volume.id).mounts.unstaged_at.is_some()
        && let Ok(Locked::Held(_lock)) = cx.store.locks.take(&volume.id, cx.operation, soon)
    {
        let_go_volumes::note_caller(cx, &volume.id);
    }
    let disk = wait(cx, volume, sharing)?;
    alias::remember_name_if_unlocked(cx, volume);
    find_disk::report_links(cx, &volume.id);
    find_disk::report_hint(cx, &volume.id, hint, &disk);
    let link = cx.cloud.link(&volume.id);
    let soon = cx.deadline.at_most(LOCK_WAIT);
    let mut snapshot = Snapshot::of(cx, Some(&volume.id));
    let unhealed = match cx.store.locks.take(&volume.id, cx.operation, soon) {
        Ok(Locked::Held(_lock)) => {
            recovery::end_leftovers(cx, &volume.id);
            heal::heal_on_the_way(&mut snapshot, &volume.id, disk)?
        }
        Ok(Locked::Impossible(error)) | Err(error) => {
            snapshot.set_disk(disk);
            Some(error.to_string())
        }
    };
    check_staged(&mut snapshot, volume, place).map_err(|error| error.not_healed(unhealed))?;
    Ok(path_of(cx, snapshot.require_disk()?, &link))
}

fn wait(cx: &Context<'_>, volume: &Volume, sharing: Sharing) -> Result<Device> {
    let by_controller = cx.deadline.at_most(CONTROLLER_ATTACHES_WITHIN);
    let mut kubelet = None;
    find_disk::wait_while(cx, volume, cx.deadline, &mut |error| {
        let kubelet = kubelet.get_or_insert_with(|| cx.host.kubelets.running_kubelet());
        match kubelet.as_ref().map(|kubelet| &kubelet.attacher) {
            Some(Attacher::Controller) if !by_controller.over() => {
                Ok(by_controller.remaining().min(ASK_EVERY))
            }
            // Since Kubernetes 1.26, kubelet does not attach a volume again that it finds mounted after its restart.
            Some(Attacher::Kubelet) if has_lost_its_disk(cx, &volume.id) => {
                tracing::warn!(volume = %volume.id, "its mounts here lost their disk and kubelet does not ask to attach it: attaching");
                let cause = |why: Error| {
                    let cause = format!("{}; {}", error.cause, why.cause);
                    Error { cause, ..why }
                };
                attach::attach(cx, volume, cx.this_node, sharing).map_err(cause)?;
                Ok(ASK_EVERY)
            }
            _ => Err(error),
        }
    })
}

/// Whether mounts of the volume have lost their disk; false if that is uncertain.
fn has_lost_its_disk(cx: &Context<'_>, id: &VolumeId) -> bool {
    !Snapshot::of(cx, Some(id)).dead_numbers().is_empty() || shield::waits(cx, id)
}

fn check_staged(snapshot: &mut Snapshot<'_>, volume: &Volume, place: &StagePlace) -> Result<()> {
    let disk = &snapshot.require_disk()?.clone();
    let Some(root) = &place.root else {
        let table = snapshot.table()?.clone();
        let ends_so = |mount: &&Mount| mount.target.ends_with(&place.below);
        let folders: BTreeSet<_> =
            table.mounts().iter().filter(ends_so).map(|mount| &mount.target).collect();
        for folder in folders {
            let look = snapshot.look(folder)?;
            // Any of these may be a copy of the orchestrator's directory; its next call names the right one.
            if !matches!(look.stands, Stands::Covered(_)) {
                check_at(volume, disk, &look, folder)?;
            }
        }
        return Ok(());
    };
    let target = Target { root: root.clone(), below: place.below.clone() };
    let folder = snapshot.cx.host.mounts.real_path(&target)?;
    check_at(volume, disk, &snapshot.look(&folder)?, &folder)
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

/// The link if it leads to the proven disk, otherwise the kernel's own node.
fn path_of(cx: &Context<'_>, disk: &Device, link: &Path) -> PathBuf {
    let node = disk.kernel_node();
    if cx.host.devices.leads_to(link, &node) { link.to_path_buf() } else { node }
}
