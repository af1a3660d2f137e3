//! One server writes to a volume. The cloud sees to that for most volumes; one that it would give to
//! several servers is mounted read-write only while no other server has it.

use crate::cloud::{Cloud, CloudVolume};
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, VolumeId};
use std::time::Duration;

/// A mount waits no longer than this for the cloud's word.
const PATIENCE: Duration = Duration::from_secs(5);

/// One server writes to a volume.
pub(in crate::driver) struct SoleWriter<'a> {
    pub(in crate::driver) cloud: &'a dyn Cloud,
    pub(in crate::driver) records: &'a Records,
    pub(in crate::driver) this_node: &'a NodeName,
    pub(in crate::driver) deadline: Deadline,
}

impl SoleWriter<'_> {
    /// Before a mount that may write: an error if another server has the volume too. Answers how the
    /// cloud has just shown it; nothing where the cloud does not answer, and need not.
    pub(in crate::driver) fn sole_writer(&self, id: &VolumeId) -> Result<Option<CloudVolume>> {
        let deadline = self.deadline.at_most(PATIENCE);
        let seen = self.cloud.volume(id, deadline).and_then(|state| {
            let server = self.cloud.server(self.this_node, deadline)?;
            Ok(state.zip(server))
        });
        let (state, server) = match seen {
            Ok(Some(seen)) => seen,
            Ok(None) => return Ok(None),
            Err(error) => return self.sole_writer_by_memory(id, error),
        };
        self.remember_sharing(id, state.is_shareable);
        let Some(other) = state.attachments.iter().find(|one| one.server != server) else {
            return Ok(Some(state));
        };
        let view = self.cloud.server_view(&other.server, deadline).ok().flatten();
        let name = view.and_then(|view| view.name).map_or_else(String::new, |n| format!(" ({n})"));
        let has_mark = state.is_marked_by(&other.server);
        let mounted = if has_mark { ", which has it mounted" } else { "" };
        let server = &other.server;
        Err(Error::new(
            Kind::Elsewhere,
            format!(
                "volume {id} is attached to server {server} too{name}{mounted}, and no file system \
                 survives two writers: it is not mounted read-write"
            ),
        )
        .hint(format!(
            "disk detach {id} {server}; or let every node mount it read-only, with the option \
             share: read-only in the PersistentVolume"
        )))
    }

    /// The cloud does not answer. A volume that it gives to one server alone needs no word of it.
    fn sole_writer_by_memory(&self, id: &VolumeId, error: Error) -> Result<Option<CloudVolume>> {
        let is_silent = matches!(error.kind, Kind::Unreachable | Kind::Timeout | Kind::Busy);
        if is_silent && self.records.load(id).is_shareable != Some(false) {
            let cause = format!(
                "whether another server has volume {id} too is not known, and this machine has \
                 not seen yet that the cloud gives it to one alone: {}",
                error.cause
            );
            return Err(Error { cause, ..error }
                .hint("the mount goes on when the cloud answers; kubelet repeats it"));
        }
        tracing::warn!(volume = %id, %error, "mounted without the cloud's word on who has the volume");
        Ok(None)
    }

    /// Remembers whether the cloud would give the volume to several servers. The caller holds the
    /// volume's lock.
    pub(in crate::driver) fn remember_sharing(&self, id: &VolumeId, is_shareable: bool) {
        let is_shareable = Some(is_shareable);
        if self.records.load(id).is_shareable == is_shareable {
            return;
        }
        let noted = self.records.update(id, |record| record.is_shareable = is_shareable);
        if let Err(error) = noted {
            tracing::debug!(volume = %id, %error, "whether it can be shared is not remembered");
        }
    }
}
