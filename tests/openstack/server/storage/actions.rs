//! `POST /volumes/{id}/action`.

use super::super::compute::host::Step;
use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::rules::{no_volume, not_reservable};
use super::{Attachment, Volume};
use serde_json::Value;
use std::time::Duration;

/// What an admin may set a volume to (F).
const STATUSES: [&str; 22] = [
    "creating",
    "available",
    "deleting",
    "error",
    "error_deleting",
    "error_managing",
    "managing",
    "attaching",
    "in-use",
    "detaching",
    "maintenance",
    "restoring-backup",
    "error_restoring",
    "reserved",
    "awaiting-transfer",
    "backing-up",
    "error_backing-up",
    "error_extending",
    "downloading",
    "uploading",
    "retyping",
    "extending",
];

/// The policy's name of an admin's action.
const ADMIN: &str = "volume_extension:volume_admin_actions";

impl World {
    /// Answers an action.
    pub fn volume_action(&mut self, asked: &Asked<'_>, id: &str) -> Answer {
        asked.writer("volume_extension:volume_actions")?;
        self.volume_asked(asked, id)?;
        let body = asked.request.json().unwrap_or_default();
        let action = body.as_object().and_then(|body| body.iter().next());
        let (name, given) = action.ok_or_else(|| Refusal::bad("There is no such action: None"))?;
        let now = self.clock.unix();
        match name.as_str() {
            "os-extend" => self.extend(asked, id, given)?,
            "os-reset_status" => self.reset_status(asked, id, given)?,
            "os-reserve" => self.reserve_bare(id)?,
            "os-unreserve" => self.on_volume(id, |volume| {
                if volume.status == "attaching" {
                    volume.settle_status();
                }
            })?,
            "os-begin_detaching" => self.storage.begin_detaching(id)?,
            "os-roll_detaching" => self.storage.roll_detaching(id),
            "os-attach" => {
                let text = |key: &str| given[key].as_str().unwrap_or_default();
                self.storage.attach(id, text("instance_uuid"), text("mountpoint"), now);
            }
            "os-force_detach" if !asked.token()?.is_admin() => {
                return Err(Refusal::policy(&format!("{ADMIN}:force_detach")));
            }
            "os-detach" | "os-force_detach" => self.detach_past_nova(id, given)?,
            "os-terminate_connection" => {
                let volume = self.volume_asked(asked, id)?;
                for attachment in &volume.attachments {
                    self.check_guard(volume, attachment)?;
                }
            }
            _ => return Err(Refusal::bad(format!("There is no such action: {name}"))),
        }
        self.on_volume(id, |volume| volume.updated = now)?;
        Ok(Reply::empty(202))
    }

    fn on_volume(&mut self, id: &str, change: impl FnOnce(&mut Volume)) -> Result<(), Refusal> {
        change(self.storage.volume_mut(id).ok_or_else(|| no_volume(id))?);
        Ok(())
    }

    /// Grows a volume; attached ones from 3.42 on (G20 to G23, G25).
    fn extend(&mut self, asked: &Asked<'_>, id: &str, given: &Value) -> Result<(), Refusal> {
        let volume = self.volume_asked(asked, id)?;
        let (size, project) = (volume.size, volume.project.clone());
        let wanted = given["new_size"].as_u64();
        let wanted = wanted.ok_or_else(|| {
            Refusal::bad("Invalid input for field/attribute new_size. Value is not an integer")
        })?;
        if wanted <= size {
            return Err(Refusal::bad(format!(
                "Invalid input received: New size for extend must be greater than current size. \
                 (current: {size}, extended: {wanted})."
            )));
        }
        let status = volume.status.clone();
        let extendable = status == "available" || (status == "in-use" && asked.minor >= 42);
        if !extendable {
            return Err(Refusal::bad(format!(
                "Invalid volume: Volume {id} status must be '{{'status': 'available'}}' to extend, \
                 currently {status}."
            )));
        }
        self.check_quota(&project, wanted - size)?;
        self.on_volume(id, |volume| volume.set_status("extending"))?;
        let delay = Duration::from_millis(self.settings.delays.extend);
        self.later(delay, Step::Extend { volume: id.to_owned(), size: wanted, back: status });
        Ok(())
    }

    /// An admin's word about a status, whatever is true (F20, F21).
    fn reset_status(&mut self, asked: &Asked<'_>, id: &str, given: &Value) -> Result<(), Refusal> {
        if !asked.token()?.is_admin() {
            return Err(Refusal::policy(&format!("{ADMIN}:reset_status")));
        }
        let status = given["status"].as_str().unwrap_or_default();
        if !STATUSES.contains(&status) {
            let valid = STATUSES.map(|status| format!("'{status}'")).join(", ");
            return Err(Refusal::bad(format!(
                "Volume status: {status} is invalid, valid statuses are: ({valid})."
            )));
        }
        let volume = self.storage.volume_mut(id).ok_or_else(|| no_volume(id))?;
        if status == "in-use" && volume.attachments.is_empty() {
            return Err(Refusal::bad(
                "Cannot reset-state to in-use because volume does not have any attachments.",
            ));
        }
        if given["attach_status"] == "detached" {
            volume.attachments.clear();
        }
        volume.set_status(status);
        Ok(())
    }

    /// The reservation of old: a status without an attachment (G26, K6).
    fn reserve_bare(&mut self, id: &str) -> Result<(), Refusal> {
        let volume = self.storage.volume_mut(id).ok_or_else(|| no_volume(id))?;
        if !matches!(volume.status.as_str(), "available" | "downloading") {
            return Err(Refusal::bad(not_reservable(volume)));
        }
        volume.set_status("attaching");
        Ok(())
    }

    /// `os-detach` and `os-force_detach`: guarded (G14, G16, H14).
    fn detach_past_nova(&mut self, id: &str, given: &Value) -> Result<(), Refusal> {
        let volume = self.storage.volume(id).ok_or_else(|| no_volume(id))?;
        let wanted = given["attachment_id"].as_str();
        let chosen = |known: &&Attachment| wanted.is_none_or(|wanted| known.id == wanted);
        let chosen: Vec<&Attachment> = volume.attachments.iter().filter(chosen).collect();
        if chosen.len() > 1 {
            return Err(Refusal::bad(
                "Invalid volume: Detach volume failed: More than one attachment, but no \
                 attachment_id provided.",
            ));
        }
        let Some(attachment) = chosen.first() else { return Ok(()) };
        self.check_guard(volume, attachment)?;
        let attachment = attachment.id.clone();
        self.storage.drop_attachment(id, &attachment);
        Ok(())
    }
}
