//! Detach a volume from a server.

use super::{Driver, Outcome};
use crate::model::config::GuardMode;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, VolumeId, VolumeName};
use crate::seam;

impl Driver<'_> {
    /// Detaches the volume of this name from the node's server, without a node from this machine.
    ///
    /// Not attached there, or no such volume: it is so already, and no other attachment is
    /// touched.
    pub fn detach(&self, name: &VolumeName, node: Option<&NodeName>) -> Result<Outcome> {
        let node = node.unwrap_or(self.this_node);
        let server = self.cloud.server(node, self.deadline)?;
        let Some(id) = self.volume_named(name, server.as_ref())? else {
            return Ok(Outcome::Already);
        };
        let _lock = self.lock_if_possible(&id)?;
        let (Some(state), Some(server)) = (self.cloud.volume(&id, self.deadline)?, server) else {
            self.forget(&id, name);
            return Ok(Outcome::Already);
        };
        if state.attachment_to(&server).is_none() {
            if let Some(other) = state.attachments.first() {
                tracing::info!(volume = %id, %server, attached_to = %other.server, "not attached there");
            } else {
                self.forget_everywhere(&id, name)?;
            }
            return Ok(Outcome::Already);
        }
        if node == self.this_node {
            self.refuse_if_in_use(&id)?;
        }
        tracing::info!(volume = %id, %server, "asking the cloud to detach");
        self.cloud.detach(&id, &server, self.deadline)?;
        seam::step("detach.requested");
        let settled = self.wait_settled(&id, &server)?;
        if settled.attachment_to(&server).is_some() {
            return Err(Error::new(
                Kind::Unreachable,
                format!("the cloud took the detach of volume {id} and undid it"),
            ));
        }
        self.forget_everywhere(&id, name)?;
        Ok(Outcome::Done)
    }

    /// The kernel's own answer to "does anybody use the disk": in any namespace, mounted, swapped
    /// on, or part of another device.
    fn refuse_if_in_use(&self, id: &VolumeId) -> Result<()> {
        if self.guard == GuardMode::Off {
            return Ok(());
        }
        // Without the disk in sight (a controller's container) the orchestrator's own order of
        // calls is all there is.
        let Some(disk) = self.find_disk(id)? else { return Ok(()) };
        let is_free = match self.devices.is_free(&disk) {
            Ok(is_free) => is_free,
            Err(error) => {
                tracing::warn!(volume = %id, %error, "cannot tell whether the disk is in use");
                return Ok(());
            }
        };
        if is_free {
            return Ok(());
        }
        if self.guard == GuardMode::Warn {
            tracing::warn!(volume = %id, disk = %disk.kernel_name, "would be refused: the disk is in use");
            return Ok(());
        }
        Err(Error::new(
            Kind::Busy,
            format!("disk {} of volume {id} is in use on this machine", disk.kernel_name),
        )
        .hint("unmount it first; it may be mounted in a container's namespace"))
    }

    fn forget_everywhere(&self, id: &VolumeId, name: &VolumeName) -> Result<()> {
        let state = self.cloud.volume(id, self.deadline)?;
        if state.is_some_and(|state| state.recorded_name.is_some() && state.attachments.is_empty())
        {
            self.cloud.record_name(id, None, self.deadline)?;
        }
        self.forget(id, name);
        Ok(())
    }

    fn forget(&self, id: &VolumeId, name: &VolumeName) {
        if let Err(error) = self.records.forget(id) {
            tracing::debug!(volume = %id, %name, %error, "the record stays");
        }
    }
}
