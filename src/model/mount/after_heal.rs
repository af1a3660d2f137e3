//! What is done once mounts were healed: programs that hold files of the dead disk stay on it until
//! they open them anew, and only their owner knows how they are told to.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `heal.after`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum After {
    /// Nothing: it is only said who holds what.
    #[default]
    Nothing,
    /// Processes of pods that still hold the dead disk get this signal.
    Signal(Wakeup),
    /// This program is run, with the facts in its environment.
    Hook(PathBuf),
}

/// The signals by which programs are told to open their files anew, or to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeup {
    Hup,
    Usr1,
    Usr2,
    Term,
    Kill,
}

const WAKEUPS: [(&str, Wakeup); 5] = [
    ("HUP", Wakeup::Hup),
    ("USR1", Wakeup::Usr1),
    ("USR2", Wakeup::Usr2),
    ("TERM", Wakeup::Term),
    ("KILL", Wakeup::Kill),
];

impl TryFrom<String> for After {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::Nothing);
        }
        if let Some(name) = text.strip_prefix("signal:") {
            let found = WAKEUPS.iter().find(|(known, _)| *known == name);
            let all: Vec<_> = WAKEUPS.iter().map(|(known, _)| *known).collect();
            return found
                .map(|(_, wakeup)| Self::Signal(*wakeup))
                .ok_or_else(|| format!("it names none of the signals {}", all.join(", ")));
        }
        if text.starts_with('/') {
            return Ok(Self::Hook(PathBuf::from(text)));
        }
        Err("it is neither signal:NAME nor the full path of a program".to_owned())
    }
}

impl From<After> for String {
    fn from(after: After) -> Self {
        match after {
            After::Nothing => Self::new(),
            After::Signal(wakeup) => {
                let known = WAKEUPS.iter().find(|(_, one)| *one == wakeup);
                format!("signal:{}", known.map_or("", |(name, _)| name))
            }
            After::Hook(path) => path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_or_a_path_or_nothing() {
        for (text, wanted) in [
            ("", Some(After::Nothing)),
            ("signal:HUP", Some(After::Signal(Wakeup::Hup))),
            ("signal:KILL", Some(After::Signal(Wakeup::Kill))),
            ("/usr/local/bin/told", Some(After::Hook(PathBuf::from("/usr/local/bin/told")))),
            ("signal:", None),
            ("signal:hup", None),
            ("signal:STOP", None),
            ("told", None),
            ("./told", None),
        ] {
            let read = After::try_from(text.to_owned()).ok();
            assert_eq!(read.clone().map(String::from), wanted.as_ref().map(|_| text.to_owned()));
            assert_eq!(read, wanted, "{text:?}");
        }
    }
}
