//! Advice for a person: words, and remedies whose commands the front end knows.

use super::text::visible;
use serde::{Serialize, Serializer};
use std::fmt::{self, Display};
use std::sync::OnceLock;

/// Something that a person can ask the driver to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    Adopt,
    /// From the named server.
    Detach(Option<String>),
    /// By id, from this node; settles what the name means, if given.
    DetachById(Option<String>, Option<String>),
    DetachByForce,
    Doctor,
    DoctorAsRoot,
    /// Lists the processes of a lost disk that would be ended.
    EndHolders,
    EndUsers,
    Explain,
    ExplainAsRoot,
    /// Shows what would be formatted.
    Format,
    FormatAtOnce,
    Heal,
    History,
    Holders,
    /// Accepts the file system with this UUID.
    KeepFileSystem(String),
    /// Lists the local cloud's volumes.
    ListVolumes,
    Release,
}

impl Remedy {
    /// For this volume, by its id or its name.
    pub fn of(self, volume: impl Display) -> Advice {
        Advice(vec![Part::Remedy(self, volume.to_string())])
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Words(String),
    /// With the volume, if known.
    Remedy(Remedy, String),
}

/// Words and remedies, in reading order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice(Vec<Part>);

/// Replaces each `{}` by other advice.
pub fn advise<const N: usize>(words: &'static str, at: [Advice; N]) -> Advice {
    let mut at = at.into_iter();
    let all = words.split("{}").flat_map(|words| [Some(words.into()), at.next()]);
    Advice(all.flatten().flat_map(|one: Advice| one.0).collect())
}

/// Words quote tenants' paths, process names and the cloud's messages, so they are kept on one line.
impl<T: AsRef<str>> From<T> for Advice {
    fn from(words: T) -> Self {
        Self(vec![Part::Words(visible(words.as_ref()).into_owned())])
    }
}

impl From<Remedy> for Advice {
    fn from(remedy: Remedy) -> Self {
        remedy.of("")
    }
}

/// The front end's words for a remedy, and for the volume unless it is empty.
pub static REMEDY_WORDS: OnceLock<fn(&Remedy, &str) -> String> = OnceLock::new();

impl Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // For tests without a front end.
        let own: fn(&Remedy, &str) -> String = |remedy, volume| format!("{remedy:?} {volume}");
        let words = REMEDY_WORDS.get().unwrap_or(&own);
        self.0.iter().try_for_each(|part| match part {
            Part::Words(words) => f.write_str(words),
            Part::Remedy(remedy, volume) => f.write_str(words(remedy, volume).trim_end()),
        })
    }
}

impl Serialize for Advice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_in_their_line_and_remedies_are_worded_where_they_stand() {
        let both = [Remedy::Release.of("v-1"), "{}\n".into()];
        assert_eq!(advise("{}; then: {}!", both).to_string(), r"Release v-1; then: {}\n!");
        assert_eq!(Advice::from(Remedy::Heal).to_string(), "Heal");
    }
}
