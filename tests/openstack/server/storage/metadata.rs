//! A volume's metadata: the driver keeps the PV's name there.
//!
//! The transcripts have no case of these; the shapes are those of Cinder's API reference.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::Volume;
use serde_json::{Map, Value, json};

impl World {
    /// Answers a request below `/volumes/{id}/metadata`.
    pub fn metadata_api(&mut self, asked: &Asked<'_>, id: &str, words: &[&str]) -> Answer {
        let method = asked.request.method.as_str();
        self.volume_asked(asked, id)?;
        asked.writer("volume:update_volume_metadata")?;
        let now = self.clock.unix();
        let missing = || super::rules::no_volume(id);
        let volume = self.storage.volume_mut(id).ok_or_else(missing)?;
        check_changeable(volume)?;
        volume.updated = now;
        let body = asked.request.json().unwrap_or_default();
        match (method, words) {
            ("POST", []) => {
                let mut given = texts(&body, "metadata")?;
                given.retain(|key, _| !volume.doubled.contains(key));
                volume.metadata.extend(given);
            }
            ("DELETE", [key]) => {
                let missing = || format!("Volume {id} has no metadata with key {key}.");
                volume.metadata.remove(*key).ok_or_else(|| Refusal::missing(missing()))?;
                volume.doubled.remove(*key);
                return Ok(Reply::empty(200));
            }
            _ => return Err(Refusal::missing("The resource could not be found.")),
        }
        Ok(Reply::ok(json!({"metadata": volume.metadata})))
    }
}

fn check_changeable(volume: &Volume) -> Result<(), Refusal> {
    let status = &volume.status;
    if matches!(status.as_str(), "maintenance" | "uploading") {
        return Err(Refusal::bad(format!(
            "Invalid volume: Updating volume metadata is not allowed for volumes in {status} status."
        )));
    }
    Ok(())
}

/// The texts below a name of a body; keys and values have at most 255 characters.
fn texts(body: &Value, name: &str) -> Result<Map<String, Value>, Refusal> {
    let required = || Refusal::bad(format!("'{name}' is a required property"));
    let given = body.get(name).and_then(Value::as_object).ok_or_else(required)?;
    for (key, value) in given {
        let value = value.as_str().unwrap_or_default();
        let fits = |text: &str| text.chars().count() <= 255;
        if key.is_empty() || !fits(key) || !fits(value) {
            return Err(Refusal::bad(format!(
                "Invalid input for field/attribute {name}. Value: {value}. '{value}' is too long"
            )));
        }
    }
    Ok(given.clone())
}
