//! Volumes that kubelet has unstaged but left attached: gather the facts that decide.

use crate::context::Context;
use crate::model::mount::orphan::{Orphan, UnstagedVolume};
use crate::model::record::VolumeRecord;

/// Whether the volume was left attached. For most volumes this reads neither processes nor directories.
pub(crate) fn judge_record(
    cx: &Context<'_>,
    record: &VolumeRecord,
    is_attached_here: Option<bool>,
) -> Orphan {
    let (now, mut volume) = (
        cx.host.environment.uptime(),
        UnstagedVolume {
            unstaged_at: record.mounts.unstaged_at.as_ref(),
            is_staged: record.mounts.staged.is_some(),
            is_attached_here,
            kubelet: None,
            pod_directory: Ok(false),
        },
    );
    if !volume.is_silent(&now) {
        return Orphan::No;
    }
    let kubelet = cx.host.kubelets.running_kubelet();
    if let Some(kubelet) = &kubelet {
        let name = record.name.clone().unwrap_or_else(|| record.volume.as_name());
        let found = cx.host.kubelets.has_pod_directory(&kubelet.root, cx.faces, &name);
        volume.pod_directory = found.map_err(|error| error.cause);
    }
    UnstagedVolume { kubelet: kubelet.as_ref(), ..volume }.judge(&now)
}
