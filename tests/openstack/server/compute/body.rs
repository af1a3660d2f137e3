//! The body of an attach.

use super::super::ids::is_uuid;
use super::super::reply::Refusal;
use serde_json::Value;

/// Reads which volume an attach asks for.
pub fn read(body: &[u8]) -> Result<String, Refusal> {
    let whole: Value =
        serde_json::from_slice(body).map_err(|_| Refusal::bad("Malformed request body"))?;
    let volume = whole["volumeAttachment"]["volumeId"].as_str().unwrap_or_default();
    if !is_uuid(volume) {
        return Err(Refusal::bad(format!(
            "Invalid input for field/attribute volumeId. Value: {volume}. '{volume}' is not a 'uuid'"
        )));
    }
    Ok(volume.to_owned())
}
