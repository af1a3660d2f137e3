//! `clouds.yaml`, the file in which people keep their clouds: one entry of it, with the secrets
//! that may stand in a `secure.yaml` beside it.

use super::Written;
use crate::error::{Error, Kind, Result};
use crate::secret::Secret;
use crate::yaml;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The clouds of a file.
#[derive(Default)]
pub struct Clouds {
    clouds: Map<String, Value>,
    origin: String,
}

impl std::fmt::Debug for Clouds {
    // Its values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} clouds of {}", self.clouds.len(), self.origin)
    }
}

impl Clouds {
    /// Reads a file's text, and that of the `secure.yaml` beside it, whose values win.
    pub fn parse(text: &str, secure: Option<&str>, origin: &str) -> Result<Self> {
        let mut whole = read(text, origin)?;
        if let Some(secure) = secure {
            merge(&mut whole, read(secure, "secure.yaml")?);
        }
        match whole.get_mut("clouds").map(Value::take) {
            Some(Value::Object(clouds)) => Ok(Self { clouds, origin: origin.to_owned() }),
            _ => Err(wrong(origin, "it has no map of clouds")),
        }
    }

    /// The entry of this name; with an empty name the only one.
    pub fn entry(&self, name: &str) -> Result<Written> {
        let names: Vec<&str> = self.clouds.keys().map(String::as_str).collect();
        let name = match (name, names.as_slice()) {
            ("", [one]) => one,
            ("", _) => {
                let names = names.join(", ");
                return Err(wrong(&self.origin, &format!("which cloud of {names}?"))
                    .hint("name it in OS_CLOUD or openstack.cloud"));
            }
            (name, _) => name,
        };
        let Some(Value::Object(entry)) = self.clouds.get(name) else {
            let names = names.join(", ");
            return Err(wrong(&self.origin, &format!("no cloud {name} among {names}")));
        };
        self.written(name, entry)
    }

    fn written(&self, name: &str, entry: &Map<String, Value>) -> Result<Written> {
        let wrong = |what: &str| wrong(&self.origin, &format!("cloud {name}: {what}"));
        if entry.contains_key("profile") {
            return Err(wrong("profiles are not followed").hint("write its auth_url there"));
        }
        let nothing = Map::new();
        let auth = entry.get("auth").and_then(Value::as_object).unwrap_or(&nothing);
        let text = |map: &Map<String, Value>, keys: &[&str]| {
            keys.iter().find_map(|key| map.get(*key).and_then(plain))
        };
        let of_auth = |key: &str| text(auth, &[key]);
        let secret = |key: &str| of_auth(key).map(Secret::from);
        let version = text(entry, &["identity_api_version"]);
        if version.is_some_and(|version| version.starts_with('2')) {
            return Err(wrong("identity_api_version 2 is gone; Keystone speaks 3"));
        }
        Ok(Written {
            auth_url: of_auth("auth_url"),
            username: of_auth("username"),
            user_id: of_auth("user_id"),
            password: secret("password"),
            user_domain_name: of_auth("user_domain_name"),
            user_domain_id: of_auth("user_domain_id"),
            project_name: of_auth("project_name").or_else(|| of_auth("tenant_name")),
            project_id: of_auth("project_id").or_else(|| of_auth("tenant_id")),
            project_domain_name: of_auth("project_domain_name"),
            project_domain_id: of_auth("project_domain_id"),
            domain_name: of_auth("domain_name"),
            domain_id: of_auth("domain_id"),
            trust_id: of_auth("trust_id"),
            application_credential_id: of_auth("application_credential_id"),
            application_credential_name: of_auth("application_credential_name"),
            application_credential_secret: secret("application_credential_secret"),
            region: text(entry, &["region_name"]),
            interface: text(entry, &["interface", "endpoint_type"]),
            ca_file: text(entry, &["cacert"]).map(PathBuf::from),
            insecure: entry.get("verify").and_then(Value::as_bool).map(|verify| !verify),
            cert_file: text(entry, &["cert"]).map(PathBuf::from),
            key_file: text(entry, &["key"]).map(PathBuf::from),
            ..Written::default()
        })
    }
}

/// Text, or a number that people did not quote.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn read(text: &str, origin: &str) -> Result<Value> {
    yaml::read(text).map_err(|what| wrong(origin, &what))
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn wrong(origin: &str, what: &str) -> Error {
    Error::new(Kind::Config, format!("{origin}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::super::Login;
    use super::*;

    const FILE: &str = "\
clouds:
  home:
    auth:
      auth_url: https://k:5000/v3
      username: u
      project_name: 17
      user_domain_name: Default
    region_name: North
    interface: internal
    identity_api_version: 3
    verify: false
  away:
    auth_type: v3applicationcredential
    auth: {auth_url: \"http://k\", application_credential_id: i, application_credential_secret: s}
";

    #[test]
    fn an_entry_with_its_secret_beside_it_is_an_access() {
        let secure = "clouds: {home: {auth: {password: hunter2}}}";
        let clouds = Clouds::parse(FILE, Some(secure), "clouds.yaml").unwrap();
        let home = clouds.entry("home").unwrap().resolve("clouds.yaml").unwrap();
        assert!(home.insecure && home.region.as_deref() == Some("North"));
        assert!(matches!(home.login, Login::Password { .. }));
        let away = clouds.entry("away").unwrap().resolve("clouds.yaml").unwrap();
        assert!(matches!(away.login, Login::ApplicationCredential { .. }));
        let one = "clouds: {only: {auth: {auth_url: http://k}}}";
        assert!(Clouds::parse(one, None, "f").unwrap().entry("").unwrap().auth_url.is_some());
    }

    #[test]
    fn what_is_wrong_is_said_without_a_secret() {
        let clouds = Clouds::parse(FILE, None, "f.yaml").unwrap();
        assert!(clouds.entry("").unwrap_err().cause.contains("home"));
        assert!(clouds.entry("nowhere").unwrap_err().cause.contains("nowhere"));
        for text in
            ["", "clouds: [a]", "a: b", "clouds:\n\t- hunter2", "{", "clouds: {x: {profile: p}}"]
        {
            let error = Clouds::parse(text, None, "f.yaml").and_then(|clouds| clouds.entry("x"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("f.yaml") && !error.contains("hunter2"), "{text:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,200}") {
            let _ = Clouds::parse(&text, None, "f").and_then(|clouds| clouds.entry(""));
        }
    }
}
