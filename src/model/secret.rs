//! Text that must not be seen: it has no way into a message, a log or a panic.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use zeroize::Zeroizing;

/// A password, a token, a credential's secret. Wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text itself, for the place that sends it, and for the one that takes it out of texts.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Serialize for Secret {
    /// That it is there, and nothing else.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(crate::report::redaction::REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing() {
        let secret = Secret::from("hunter2");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "(secret) Some((secret))");
        assert_eq!(secret.reveal(), "hunter2");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"(redacted)\"");
    }
}
