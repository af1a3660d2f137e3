//! The body of an attach, checked as Nova's schema does it (B38 to B42, N7).

use super::super::ids::is_uuid;
use super::super::reply::Refusal;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// What an attach asks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub volume: String,
    pub device: Option<String>,
    pub tag: Option<String>,
    pub delete_on_termination: bool,
}

/// An object with its members in the order in which they came: an error repeats them so.
struct Ordered(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Ordered;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[derive(serde::Deserialize)]
struct Outer {
    #[serde(rename = "volumeAttachment")]
    inner: Ordered,
}

/// Reads an attach's body for a minor version.
pub fn read(body: &[u8], minor: u32) -> Result<Wanted, Refusal> {
    let whole: Value =
        serde_json::from_slice(body).map_err(|_| Refusal::bad("Malformed request body"))?;
    if whole.get("volumeAttachment").is_none() {
        return Err(Refusal::bad("'volumeAttachment' is a required property"));
    }
    let not_an_object = || {
        let value = python(&whole["volumeAttachment"]);
        let text = format!("{value} is not of type 'object'");
        Refusal::bad(format!(
            "Invalid input for field/attribute volumeAttachment. Value: {value}. {text}"
        ))
    };
    let outer: Outer = serde_json::from_slice(body).map_err(|_| not_an_object())?;
    check(&outer.inner, minor)?;
    let text = |name: &str| outer.inner.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Wanted {
        volume: text("volumeId").unwrap_or_default(),
        device: text("device"),
        tag: text("tag"),
        delete_on_termination: outer.inner.get("delete_on_termination") == Some(&Value::Bool(true)),
    })
}

fn check(members: &Ordered, minor: u32) -> Result<(), Refusal> {
    let known = |name: &str| match name {
        "volumeId" | "device" => true,
        "tag" => minor >= 49,
        "delete_on_termination" => minor >= 79,
        _ => false,
    };
    let strange: Vec<String> = members
        .0
        .iter()
        .filter(|(name, _)| !known(name))
        .map(|(name, _)| format!("'{name}'"))
        .collect();
    let whole = |text: &str| {
        Refusal::bad(format!(
            "Invalid input for field/attribute volumeAttachment. Value: {}. {text}",
            members.python()
        ))
    };
    if !strange.is_empty() {
        let verb = if strange.len() == 1 { "was" } else { "were" };
        let names = strange.join(", ");
        return Err(whole(&format!(
            "Additional properties are not allowed ({names} {verb} unexpected)"
        )));
    }
    let Some(volume) = members.get("volumeId") else {
        return Err(whole("'volumeId' is a required property"));
    };
    if !volume.as_str().is_some_and(is_uuid) {
        let shown = volume.as_str().map_or_else(|| python(volume), str::to_owned);
        return Err(Refusal::bad(format!(
            "Invalid input for field/attribute volumeId. Value: {shown}. '{shown}' is not a 'uuid'"
        )));
    }
    match members.get("device") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(device)) if is_device(device) => Ok(()),
        Some(other) => {
            let shown = other.as_str().map_or_else(|| python(other), str::to_owned);
            Err(Refusal::bad(format!(
                "Invalid input for field/attribute device. Value: {shown}. '{shown}' does not \
                 match '(^/dev/x{{0,1}}[a-z]{{0,1}}d{{0,1}})([a-z]+)[0-9]*$'"
            )))
        }
    }
}

fn is_device(text: &str) -> bool {
    let name = text.strip_prefix("/dev/").unwrap_or_default();
    let letters = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    !letters.is_empty() && letters.chars().all(|letter| letter.is_ascii_lowercase())
}

impl Ordered {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn python(&self) -> String {
        let members: Vec<String> =
            self.0.iter().map(|(key, value)| format!("'{key}': {}", python(value))).collect();
        format!("{{{}}}", members.join(", "))
    }
}

/// A value as Python prints it, as far as an attach's body goes.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}
