//! What Cinder allows in which state, for all who ask: Nova, a user, an admin.

use super::super::reply::Refusal;
use super::{Attachment, Storage, Volume};

impl Storage {
    /// Reserves a volume for a server; gives the attachment's id.
    ///
    /// A volume whose attachments are all of that very server may be reserved again in any state:
    /// the rule is for live migration, and lets H15 through.
    pub fn reserve(&mut self, volume: &str, server: &str) -> Result<String, Refusal> {
        let volume = self.volume_mut(volume).ok_or_else(|| no_volume(volume))?;
        let Volume { id, status, .. } = &*volume;
        if status.starts_with("error") {
            // Two blanks, as recorded (F).
            return Err(Refusal::bad(format!(
                "Invalid volume: Volume attachments can not be created if the volume is in an \
                 error state. The Volume {id} currently has a status of: {status} "
            )));
        }
        let shared = volume.multiattach && status == "in-use";
        let own = !volume.attachments.is_empty()
            && volume.attachments.iter().all(|attachment| attachment.server == server);
        if matches!(status.as_str(), "available" | "downloading") || shared {
            volume.set_status("reserved");
        } else if !own {
            return Err(Refusal::bad(not_reservable(volume)));
        }
        let attachment = Attachment::reserved(server);
        let id = attachment.id.clone();
        volume.attachments.push(attachment);
        Ok(id)
    }

    /// The host has the volume's connection: `attaching`.
    pub fn connect(&mut self, volume: &str, attachment: &str) {
        let Some(volume) = self.volume_mut(volume) else { return };
        let Some(known) = volume.attachment(attachment) else { return };
        "attaching".clone_into(&mut known.status);
        known.connected = true;
        volume.set_status("attaching");
    }

    /// The disk is in the guest: `in-use`.
    pub fn complete(&mut self, volume: &str, attachment: &str, device: &str, now: i64) {
        let Some(volume) = self.volume_mut(volume) else { return };
        volume.updated = now;
        let Some(known) = volume.attachment(attachment) else { return };
        "attached".clone_into(&mut known.status);
        known.connected = true;
        known.device = Some(device.to_owned());
        known.attached_at = Some(now);
        volume.set_status("in-use");
    }

    /// An attachment ends, whatever it was.
    pub fn drop_attachment(&mut self, volume: &str, attachment: &str) {
        let Some(volume) = self.volume_mut(volume) else { return };
        volume.attachments.retain(|known| known.id != attachment);
        volume.settle_status();
    }

    /// A detach begins; everything but a whole attachment is refused (C6, F, K5).
    pub fn begin_detaching(&mut self, volume: &str) -> Result<(), Refusal> {
        let volume = self.volume_mut(volume).ok_or_else(|| no_volume(volume))?;
        let attached = volume.attachments.iter().any(|known| known.status == "attached");
        if volume.status != "in-use" || !attached {
            return Err(Refusal::bad(
                "Invalid volume: Unable to detach volume. Volume status must be 'in-use' and \
                 attach_status must be 'attached' to detach.",
            ));
        }
        volume.set_status("detaching");
        Ok(())
    }

    /// A detach is given up: back to `in-use` (D9).
    pub fn roll_detaching(&mut self, volume: &str) {
        let Some(volume) = self.volume_mut(volume) else { return };
        if volume.status == "detaching" {
            volume.set_status("in-use");
        }
    }
}

/// Why a volume cannot be reserved.
pub fn not_reservable(volume: &Volume) -> String {
    let Volume { id, status, .. } = volume;
    format!(
        "Invalid volume: Volume {id} status must be available or downloading to reserve, but the \
         current status is {status}."
    )
}

/// The 404 of a volume: unknown, deleted, another project's, or no id at all (G3, G6).
pub fn no_volume(id: &str) -> Refusal {
    Refusal::missing(format!("Volume {id} could not be found."))
}
