//! What a person can do about a trouble: words, and actions that a front end has the commands for.

use super::text::visible;
use serde::{Serialize, Serializer};
use std::fmt::{self, Display};
use std::sync::OnceLock;

/// What the driver does for a person who asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    Adopt,
    /// From the server, if it is named.
    Detach(Option<String>),
    /// By the id alone, from this node; with the name that is settled so.
    DetachById(Option<String>, Option<String>),
    DetachByForce,
    Doctor,
    DoctorAsRoot,
    /// Shows which processes of a lost disk would be ended.
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
    /// Takes the file system of this UUID for the volume's.
    KeepFileSystem(String),
    /// Of the local cloud.
    ListVolumes,
    Release,
}

impl Remedy {
    /// Done to this volume, by its id or its name.
    pub fn of(self, volume: impl Display) -> Advice {
        Advice(vec![Part::Remedy(self, volume.to_string())])
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Words(String),
    /// With the volume, if it is known.
    Remedy(Remedy, String),
}

/// Words and remedies, in the order in which they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice(Vec<Part>);

/// Advice with other advice at each `{}`.
pub fn advise<const N: usize>(words: &'static str, at: [Advice; N]) -> Advice {
    let mut at = at.into_iter();
    let all = words.split("{}").flat_map(|words| [Some(words.into()), at.next()]);
    Advice(all.flatten().flat_map(|one: Advice| one.0).collect())
}

/// Words quote paths of tenants, names of processes, words of the cloud: they stay in one line.
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

/// The words of this process's front end for a remedy, and for the volume if it is not empty.
pub static REMEDY_WORDS: OnceLock<fn(&Remedy, &str) -> String> = OnceLock::new();

impl Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a front end a remedy is called as it is here.
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
