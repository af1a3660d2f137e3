//! What a report sees of the volumes, and which of them it tells in full.

use crate::cli::TypedVolume;
use crate::driver::Context;
use crate::host::kubelet_log::KubeletLog;
use crate::model::disk::device::UdevEntry;
use crate::model::error::{Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::known_volume::KnownVolume;
use crate::model::report::health::Health;
use crate::operator::configured::Configured;
use crate::operator::holders::{self, Holding};
use crate::operator::status::{self, Row, Status};
use crate::operator::{explain, kubelet_search, naming};
use std::collections::BTreeSet;

/// So many volumes have all their facts in a report.
pub(super) const EXPLAINED: usize = 30;

/// What was seen of the volumes.
#[derive(Default)]
pub(super) struct Sight {
    pub(super) status: Option<Status>,
    /// The volumes that are told in full, by their place in it.
    pub(super) explained: Vec<(usize, Holding, Option<UdevEntry>)>,
    /// The volume that the report is about.
    pub(super) meant: Option<KnownVolume>,
    pub(super) trouble: Option<String>,
}

impl Sight {
    pub(super) fn rows(&self) -> &[Row] {
        self.status.as_ref().map(|status| status.volumes.as_slice()).unwrap_or_default()
    }

    pub(super) fn is_about(&self, row: &Row) -> bool {
        self.meant.as_ref().is_none_or(|meant| row.is(meant))
    }
}

/// Looks at the volumes; only a volume that is not known is an error, for it is a slip of the pen.
pub(super) fn look(
    configured: &Configured,
    volume: Option<&TypedVolume>,
    logs: &[KubeletLog],
    unseen: &[String],
) -> Result<Sight> {
    let config = &configured.config;
    let mut unknown = None;
    let seen = configured.with_context("report", |cx| {
        let mut sight = Sight::default();
        if let Some(TypedVolume(typed)) = volume {
            match naming::volume_to_look_at(cx, typed, config) {
                Ok(meant) => sight.meant = Some(meant),
                Err(error) if error.kind != Kind::BadCall && kubelet_search::names(logs, typed) => {
                    let names = BTreeSet::from([typed.clone()]);
                    sight.meant = Some(KnownVolume { names, ..KnownVolume::default() });
                }
                Err(error) if configured.trouble.is_none() => {
                    unknown = Some(error.clone());
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        let also: Vec<VolumeId> = sight.meant.iter().filter_map(|meant| meant.id.clone()).collect();
        let status = status::look(cx, config, unseen, &also);
        sight.explained = explained(cx, &sight, &status);
        sight.status = Some(status);
        Ok(sight)
    });
    match (seen, unknown) {
        (_, Some(error)) => Err(error),
        (Ok(sight), None) => Ok(sight),
        (Err(error), None) => Ok(Sight { trouble: Some(error.to_string()), ..Sight::default() }),
    }
}

/// Those that are not well, the worst first, or the one that was asked for.
fn explained(
    cx: &Context<'_>,
    sight: &Sight,
    status: &Status,
) -> Vec<(usize, Holding, Option<UdevEntry>)> {
    let is_asked = |row: &Row| match &sight.meant {
        Some(meant) => row.is(meant),
        None => row.verdict.health != Health::Ok,
    };
    let rows = status.volumes.iter().enumerate().filter(|(_, row)| is_asked(row));
    let seen = |(place, row)| (place, holders::look(cx, row), explain::udev_entry(cx, row));
    rows.take(EXPLAINED).map(seen).collect()
}
