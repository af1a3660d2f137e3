//! `POST /volumes/{id}/action`.

use super::super::compute::host::Step;
use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::Volume;
use super::rules::no_volume;
use serde_json::Value;
use std::time::Duration;

impl World {
    /// Answers `os-extend`, the only action that is asked for.
    pub fn extend_asked(&mut self, asked: &Asked<'_>, id: &str) -> Answer {
        asked.writer("volume_extension:volume_actions")?;
        self.volume_asked(asked, id)?;
        let body = asked.request.json().unwrap_or_default();
        self.extend(asked, id, &body["os-extend"])?;
        let now = self.clock.unix();
        self.on_volume(id, |volume| volume.updated = now)?;
        Ok(Reply::empty(202))
    }

    fn on_volume(&mut self, id: &str, change: impl FnOnce(&mut Volume)) -> Result<(), Refusal> {
        change(self.storage.volume_mut(id).ok_or_else(|| no_volume(id))?);
        Ok(())
    }

    /// Grows a volume; attached ones from 3.42 on (G21 to G23).
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
}
