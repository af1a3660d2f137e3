//! What a driver needs before it takes the place of another maker's: what is written, the cloud, and each
//! volume that is mounted now. Until then the old driver is the better one.

use super::for_root::not_looked_at;
use super::{cloud, files, kubelet, machine, written};
use crate::driver::Context;
use crate::model::report::facts::{CloudFact, MountFact, MountedOn, Role};
use crate::model::report::finding::{Finding, Level};
use crate::model::text::several;
use crate::node::kubelet::ours;
use crate::node::system::System;
use crate::operator::configured::Configured;
use crate::operator::status::{self, Row};
use std::time::Duration;

/// How long the cloud may take: no call of kubelet's waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// All of it.
pub(super) fn look(configured: &Configured) -> Vec<Finding> {
    let mut found = written::look(configured);
    if found.iter().any(|one| one.level >= Level::Skipped) {
        return found;
    }
    found.extend(files::credentials(configured));
    let root = configured.config.paths.kubelet_root.as_deref();
    let all = System::default().kubelets();
    found.extend(ours(&all, root).map(|one| kubelet::root(one, configured)));
    let seen = configured.with_patient_context("doctor", PATIENCE, |cx| {
        let mut found = cloud::look(cx);
        // A cloud that says nothing says nothing of each volume: once is enough.
        if found.iter().all(|one| one.level < Level::Skipped) {
            found.extend(mounted(cx, configured));
        }
        found.push(machine::sight(cx));
        Ok(found)
    });
    match seen {
        Ok(more) => found.extend(more),
        Err(error) => found.push(not_looked_at("driver", error)),
    }
    found
}

const CHECK: &str = "volumes";

/// Each volume that is mounted in a folder of kubelet's: it must be known, attached here, and the disk
/// under its mounts must be its own.
fn mounted(cx: &Context<'_>, configured: &Configured) -> Vec<Finding> {
    if let Err(error) = cx.host.mounts.table() {
        return vec![Finding::error(CHECK, error.cause, "is /proc mounted?")];
    }
    let status = status::look(cx, &configured.config, &[], &[]);
    let rows: Vec<_> = status.volumes.iter().filter(|row| kubelets(row).next().is_some()).collect();
    let silence = status.cloud_silence.as_deref();
    let mut found: Vec<_> = rows.iter().filter_map(|row| doubt(row, silence)).collect();
    if found.is_empty() {
        let count = several(rows.len(), "volume is", "volumes are");
        found.push(Finding::ok(CHECK, format!("{count} mounted, and this driver knows each")));
    }
    found
}

fn kubelets(row: &Row) -> impl Iterator<Item = &MountFact> {
    row.facts.mounts.iter().filter(|mount| matches!(mount.role, Role::Global | Role::Pod))
}

/// Why a volume could not be left to this driver, and what ends that.
fn doubt(row: &Row, silence: Option<&str>) -> Option<Finding> {
    let place = kubelets(row).next()?.place.display();
    let Some(id) = &row.facts.id else {
        return Some(Finding::error(
            CHECK,
            format!("which volume is mounted at {place} cannot be told by its disk"),
            "is it a volume of the cloud that the configuration names? Else end its pod, and let \
             kubelet unmount it",
        ));
    };
    let volume = format!("{id}, which is mounted at {place},");
    let (found, fix) = match &row.facts.cloud {
        CloudFact::Known(view) if !view.is_here => (
            format!("{volume} is not attached to this machine, as the cloud says"),
            format!(
                "disk explain {id}: where the cloud has it; node.server_id says which server this is"
            ),
        ),
        CloudFact::Known(_) => {
            let is_right = |mount: &MountFact| mount.on == MountedOn::Disk;
            if row.facts.disk.proven().is_some() && kubelets(row).all(is_right) {
                return None;
            }
            let verdict = &row.verdict;
            let command = || verdict.command.as_ref().map(ToString::to_string);
            let fix = verdict.next.clone().or_else(command);
            (
                format!("{volume} is {}: {}", verdict.health, verdict.because),
                fix.unwrap_or_else(|| format!("disk explain {id}")),
            )
        }
        CloudFact::Missing => (
            format!("{volume} is not known to the cloud"),
            "is it the cloud, the project and the region of this volume that the configuration names?".to_owned(),
        ),
        CloudFact::Unknown { why } => (
            format!("of {volume} the cloud says nothing: {}", silence.unwrap_or(why)),
            "let the cloud answer".to_owned(),
        ),
    };
    Some(Finding::error(CHECK, found, fix))
}
