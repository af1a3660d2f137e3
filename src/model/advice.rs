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
    /// By the id alone; with the name that is told apart so.
    DetachById {
        from: Option<String>,
        called: Option<String>,
    },
    DetachByForce,
    Doctor {
        as_root: bool,
    },
    /// Shows which processes of a lost disk would be ended.
    EndHolders,
    EndUsers,
    Explain {
        as_root: bool,
    },
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
    #[must_use]
    pub fn of(self, volume: impl Display) -> Advice {
        Advice(vec![Part::Remedy(self, Some(volume.to_string()))])
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Words(String),
    Remedy(Remedy, Option<String>),
}

/// Words and remedies, in the order in which they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice(Vec<Part>);

impl Advice {
    #[must_use]
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }
}

/// Words quote paths of tenants, names of processes, words of the cloud: they stay in one line.
impl From<&str> for Advice {
    fn from(words: &str) -> Self {
        Self(vec![Part::Words(visible(words).into_owned())])
    }
}

impl From<String> for Advice {
    fn from(words: String) -> Self {
        words.as_str().into()
    }
}

impl From<Remedy> for Advice {
    fn from(remedy: Remedy) -> Self {
        Self(vec![Part::Remedy(remedy, None)])
    }
}

/// How a front end words a remedy, and the volume that it is for if one is known.
pub type RemedyWords = fn(&Remedy, Option<&str>) -> String;

static WORDS: OnceLock<RemedyWords> = OnceLock::new();

/// Has all advice of this process worded by its front end.
pub fn word_remedies_by(words: RemedyWords) {
    let _ = WORDS.set(words);
}

/// What is said where no front end is.
fn unworded(remedy: &Remedy, volume: Option<&str>) -> String {
    volume.map_or_else(|| format!("{remedy:?}"), |volume| format!("{remedy:?} {volume}"))
}

impl Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = WORDS.get().unwrap_or(&(unworded as RemedyWords));
        self.0.iter().try_for_each(|part| match part {
            Part::Words(words) => f.write_str(words),
            Part::Remedy(remedy, volume) => f.write_str(&words(remedy, volume.as_deref())),
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
        let advice = Advice::from("first\n").and(Remedy::Release.of("v-1")).and("; then\r");
        assert_eq!(advice.to_string(), r"first\nRelease v-1; then\r");
        assert_eq!(Advice::from(Remedy::Heal).to_string(), "Heal");
    }
}
