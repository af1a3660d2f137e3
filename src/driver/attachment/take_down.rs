//! Volumes that kubelet let go of and has forgotten are taken down.

use crate::cloud::{Cloud, CloudVolume};
use crate::driver::attachment::detach::{Detaching, Force};
use crate::driver::guard::let_go_volumes::LetGoVolumes;
use crate::driver::lookup::attachment_view::Attachments;
use crate::driver::lookup::locking::Locking;
use crate::driver::mount::unmount::Unmounting;
use crate::failpoints;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::model::error::{Error, Kind, Result};
use crate::model::face::Faces;
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::mount::folders_let_go::LetGoes;
use crate::model::mount::layout::{FolderKind, StageTarget, Target};
use crate::model::record::VolumeRecord;
use std::path::Path;

/// What became of a volume that no call asked for.
#[derive(Debug)]
pub struct TakenDown {
    /// The volume.
    pub id: VolumeId,
    /// Whether it was detached too, or what went wrong.
    pub outcome: Result<bool>,
}

/// Volumes that kubelet has forgotten are taken down.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct TakingDown<'a> {
    pub(in crate::driver) faces: Faces,
    pub(in crate::driver) cloud: &'a dyn Cloud,
    pub(in crate::driver) records: &'a Records,
    pub(in crate::driver) this_node: &'a NodeName,
    pub(in crate::driver) deadline: Deadline,
    pub(in crate::driver) attachments: &'a Attachments<'a>,
    pub(in crate::driver) locking: &'a Locking<'a>,
    pub(in crate::driver) let_go_volumes: &'a LetGoVolumes<'a>,
    pub(in crate::driver) unmounting: &'a Unmounting<'a>,
    pub(in crate::driver) detaching: &'a Detaching<'a>,
}

impl TakingDown<'_> {
    /// Takes down every volume that was let go of and forgotten; `kubelet_attaches` is whether no
    /// controller would detach it.
    #[must_use]
    pub fn end_forgotten(&self, kubelet_attaches: bool) -> Vec<TakenDown> {
        let records = self.records.list().unwrap_or_default();
        let forgotten =
            records.into_iter().filter(|record| self.let_go_volumes.is_forgotten(record));
        let end = |record: VolumeRecord| {
            let outcome = self.take_down_forgotten(&record, kubelet_attaches);
            if let Err(error) = &outcome {
                tracing::warn!(volume = %record.volume, %error, "forgotten by kubelet, and not taken down");
            }
            TakenDown { id: record.volume, outcome }
        };
        forgotten.map(end).collect()
    }

    fn take_down_forgotten(&self, record: &VolumeRecord, kubelet_attaches: bool) -> Result<bool> {
        let id = &record.volume;
        tracing::warn!(volume = %id, "kubelet let go of it and does not know it any more, and its pods have ended: taken down");
        let name = record.name.clone().unwrap_or_else(|| id.as_name());
        if let Some(staged) = &record.staged {
            let target = stage_target(self.faces, &staged.folder)?;
            self.unmounting.unstage_forgotten(id, &target)?;
            failpoints::step("forgotten.unmounted");
        }
        // kubelet may have come to ask in between, and then counts on what it was told.
        let _lock = self.locking.lock(id)?;
        if !self.let_go_volumes.is_forgotten(&self.records.load(id)) {
            return Ok(false);
        }
        if !kubelet_attaches {
            self.records.update(id, |record| record.let_go = LetGoes::default())?;
            return Ok(false);
        }
        let server = self.attachments.existing_server(self.this_node)?;
        match self.cloud.volume(id, self.deadline)? {
            Some(state) if is_attached(&state, &server) => {
                let here = (self.this_node, Some(&server));
                self.detaching.detach_locked(id, &name, here, state, Force::No)?;
                Ok(true)
            }
            _ => {
                self.records.update(id, |record| record.let_go = LetGoes::default())?;
                Ok(false)
            }
        }
    }
}

pub(in crate::driver) fn is_attached(state: &CloudVolume, server: &ServerId) -> bool {
    state.attachment_to(server).is_some()
}

/// A stage folder, taken apart.
fn stage_target(faces: Faces, folder: &Path) -> Result<StageTarget> {
    let wrong = || {
        let place = folder.display();
        Error::new(Kind::Host, format!("{place} is no folder of the orchestrator's for a volume"))
            .hint("unmount it by hand")
    };
    let (place, _) = faces.place_of(folder).ok_or_else(wrong)?;
    let root = faces.root_above(folder).filter(|_| place == FolderKind::Stage).ok_or_else(wrong)?;
    let below = folder.strip_prefix(root).map_err(|_| wrong())?;
    Ok(StageTarget(Target { root: root.to_path_buf(), below: below.to_path_buf() }))
}
