//! Take down volumes for which kubelet will not call again.

use crate::attachment::detach::{self, Force};
use crate::context::Context;
use crate::failpoints;
use crate::guard::{let_go_volumes, orphans};
use crate::lookup::{attachment_view, locking};
use crate::model::error::{Error, Kind, Result};
use crate::model::face::Faces;
use crate::model::ids::{ServerId, VolumeId, VolumeName};
use crate::model::kubelet::Attacher;
use crate::model::mount::folders_let_go::LetGoes;
use crate::model::mount::layout::{FolderKind, StageTarget, Target};
use crate::model::mount::orphan::Orphan;
use crate::model::record::VolumeRecord;
use crate::model::report::tear_down::TearDownWords;
use crate::mount::unmount;
use crate::operation::Outcome;
use crate::ports::cloud::CloudVolume;
use std::path::Path;
use std::time::Instant;

/// The result for one volume.
#[derive(Debug)]
pub struct TakenDown {
    pub id: VolumeId,
    /// What was done, or what went wrong.
    pub outcome: Result<&'static str>,
    /// Why no call will come for it.
    pub why: &'static str,
}

/// Takes down every released and forgotten volume, and every one that was left attached. Does nothing while no kubelet
/// runs, since the next one may still call.
pub fn end_unasked(cx: &Context<'_>) -> Vec<TakenDown> {
    let Some(kubelet) = cx.host.kubelets.running_kubelet() else { return Vec::new() };
    let kubelet_attaches = kubelet.attacher == Attacher::Kubelet;
    let one = |record: VolumeRecord| end_one(cx, record, kubelet_attaches);
    cx.store.records.list().unwrap_or_default().into_iter().filter_map(one).collect()
}

fn end_one(cx: &Context<'_>, record: VolumeRecord, kubelet_attaches: bool) -> Option<TakenDown> {
    if let_go_volumes::is_forgotten(cx, &record) {
        let outcome = take_down_forgotten(cx, &record, kubelet_attaches);
        let why = "kubelet does not know it any more, and its pods have ended";
        return Some(TakenDown { id: record.volume, outcome, why });
    }
    // Ask the cloud only if everything else agrees.
    if orphans::judge_record(cx, &record, Some(true)) != Orphan::Yes {
        return None;
    }
    let outcome = detach_orphan(cx, &record).map(|is_done| is_done.then_some("detached"));
    let why = "kubelet unmounted it and will not detach it";
    Some(TakenDown { id: record.volume, outcome: outcome.transpose()?, why })
}

fn take_down_forgotten(
    cx: &Context<'_>,
    record: &VolumeRecord,
    kubelet_attaches: bool,
) -> Result<&'static str> {
    let id = &record.volume;
    if let Some(staged) = &record.mounts.staged {
        let target = stage_target(cx.faces, &staged.folder)?;
        let unstage = words(cx).unstage;
        logged(cx, unstage, record, || unmount::unstage_forgotten(cx, id, &target))?;
        failpoints::step("forgotten.unmounted");
    }
    // A call may have come in between, and relies on its answer.
    let _lock = locking::lock(cx, id)?;
    let record = cx.store.records.load(id);
    if let_go_volumes::is_forgotten(cx, &record) {
        if kubelet_attaches && detach_here(cx, &record)? {
            return Ok("unmounted and detached");
        }
        cx.store.records.update(id, |record| record.mounts.let_go = LetGoes::default())?;
    }
    Ok("unmounted")
}

/// Returns whether the volume was still attached and is detached now.
fn detach_orphan(cx: &Context<'_>, record: &VolumeRecord) -> Result<bool> {
    let id = &record.volume;
    let _lock = locking::lock(cx, id)?;
    // A call may have come for it.
    let record = cx.store.records.load(id);
    if orphans::judge_record(cx, &record, Some(true)) != Orphan::Yes {
        return Ok(false);
    }
    let is_detached = detach_here(cx, &record)?;
    if !is_detached {
        cx.store.records.update(id, |record| record.mounts.unstaged_at = None)?;
    }
    Ok(is_detached)
}

/// Detaches the volume from this node, if it is attached here. The caller holds its lock.
fn detach_here(cx: &Context<'_>, record: &VolumeRecord) -> Result<bool> {
    let id = &record.volume;
    let server = attachment_view::existing_server(cx, cx.this_node)?;
    let state = cx.cloud.volume(id, cx.deadline)?;
    let Some(state) = state.filter(|state| is_attached(state, &server)) else {
        return Ok(false);
    };
    let here = (cx.this_node, Some(&server));
    logged(cx, words(cx).detach, record, || detach::detach_locked(cx, id, here, state, Force::No))?;
    Ok(true)
}

fn words(cx: &Context<'_>) -> TearDownWords {
    cx.faces.words_of(None)
}

/// Logs a begin and an end, as for a call.
fn logged(
    cx: &Context<'_>,
    operation: &str,
    record: &VolumeRecord,
    work: impl FnOnce() -> Result<Outcome>,
) -> Result<Outcome> {
    let (volume, name) = (&record.volume, record.name.as_ref().map(VolumeName::as_str));
    let id = cx.host.environment.new_call_id();
    let _span = tracing::error_span!("verb", id, op = operation).entered();
    let who = format!("disk {}", cx.operation);
    let begin = Instant::now();
    tracing::info!(%volume, name, who, "begin");
    let done = work();
    let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &done {
        Ok(outcome) => tracing::info!(%volume, duration_ms, ?outcome, event = "call_done", "end"),
        Err(error) => {
            tracing::error!(%volume, duration_ms, kind = error.kind.word(), reason = %error, event = "call_failed", "end");
        }
    }
    done
}

pub(crate) fn is_attached(state: &CloudVolume, server: &ServerId) -> bool {
    state.attachment_to(server).is_some()
}

/// Splits the path of a stage directory.
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
