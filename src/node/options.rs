//! The words that change a machine, and their options.

use super::console::{NodeResult, Stop};
use std::fmt;
use std::path::PathBuf;

/// What is to be done on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeWord {
    /// Puts a driver there.
    Install,
    /// Puts another one in its place.
    Upgrade,
    /// Puts back the one before.
    Rollback,
    /// Says what is not as it was installed.
    Verify,
    /// Takes the driver away.
    Uninstall,
}

/// Each with its name and the options that it takes.
const WORDS: [(NodeWord, &str, &[&str]); 5] = [
    (NodeWord::Install, "install", OF_INSTALL),
    (NodeWord::Upgrade, "upgrade", OF_INSTALL),
    (NodeWord::Rollback, "rollback", &["--plugin-dir", "--dry-run"]),
    (NodeWord::Verify, "verify", &["--plugin-dir"]),
    (NodeWord::Uninstall, "uninstall", &["--plugin-dir", "--dry-run", "--purge"]),
];

const OF_INSTALL: &[&str] = &["--cloud", "--plugin-dir", "--kubelet-root", "--binary", "--dry-run"];

impl fmt::Display for NodeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = WORDS.iter().find(|(word, ..)| word == self);
        f.write_str(found.map_or("", |(_, name, _)| name))
    }
}

/// What the person wishes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeOptions {
    /// The cloud that the configuration names.
    pub cloud: Option<String>,
    /// Where kubelet looks for plugins.
    pub plugin_dir: Option<PathBuf>,
    /// Where kubelet works.
    pub kubelet_root: Option<PathBuf>,
    /// The driver to be put there; without one it is the program that runs.
    pub binary: Option<PathBuf>,
    /// Nothing is changed.
    pub dry_run: bool,
    /// Configuration and state go too.
    pub purge: bool,
}

/// Reads a word and what follows it.
pub fn read(words: &[String]) -> NodeResult<(NodeWord, NodeOptions)> {
    let name = words.first().map_or("", String::as_str);
    let found = WORDS.iter().find(|(_, known, _)| *known == name);
    let Some((word, _, allowed)) = found else {
        return Err(Stop::misused(format!("unknown word: {name}")));
    };
    let mut options = NodeOptions::default();
    let mut rest = words[1..].iter();
    while let Some(given) = rest.next() {
        let (option, value) = match given.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (given.as_str(), None),
        };
        if !allowed.contains(&option) {
            return Err(Stop::misused(format!("{name} does not take {given}")));
        }
        match (option, value) {
            ("--dry-run", None) => options.dry_run = true,
            ("--purge", None) => options.purge = true,
            ("--dry-run" | "--purge", Some(_)) => {
                return Err(Stop::misused(format!("{option} takes no value")));
            }
            (_, value) => {
                let value = value.or_else(|| rest.next().map(String::as_str)).unwrap_or_default();
                set(&mut options, option, value)?;
            }
        }
    }
    Ok((*word, options))
}

fn set(options: &mut NodeOptions, option: &str, value: &str) -> NodeResult {
    if value.is_empty() {
        return Err(Stop::misused(format!("{option} needs a value")));
    }
    // What is noted of an installation, the configuration and the units have one line for it.
    if value.contains(char::is_control) {
        return Err(Stop::misused(format!("{option} takes no control characters: {value:?}")));
    }
    // A relative path is one from where the person is.
    let absolute = || {
        let path = std::path::absolute(value);
        path.map(Some).map_err(|error| Stop::new(format!("{option} {value}: {error}")))
    };
    match option {
        "--cloud" if matches!(value, "local" | "openstack") => {
            options.cloud = Some(value.to_owned());
        }
        "--cloud" => {
            return Err(Stop::misused(format!("--cloud is local or openstack, not {value}")));
        }
        "--plugin-dir" => options.plugin_dir = absolute()?.map(|path| path.components().collect()),
        "--kubelet-root" => {
            options.kubelet_root = absolute()?.map(|path| path.components().collect());
        }
        _ => options.binary = absolute()?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_words(words: &[&str]) -> NodeResult<(NodeWord, NodeOptions)> {
        read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_come_with_their_values_in_either_way() {
        for words in [
            &["install", "--cloud=local", "--plugin-dir", "/a b/", "--dry-run"][..],
            &["install", "--dry-run", "--plugin-dir=/a b", "--cloud", "local"],
        ] {
            let (word, options) = read_words(words).unwrap();
            assert_eq!((word, options.cloud.as_deref()), (NodeWord::Install, Some("local")));
            assert_eq!(options.plugin_dir.unwrap(), std::path::Path::new("/a b"));
            assert!(options.dry_run && !options.purge);
        }
        assert_eq!(read_words(&["verify"]).unwrap().0.to_string(), "verify");
        let (_, options) = read_words(&["upgrade", "--binary", "x"]).unwrap();
        assert_eq!(options.binary.unwrap(), std::env::current_dir().unwrap().join("x"));
    }

    #[test]
    fn a_wrong_word_is_told() {
        for words in [
            &[][..],
            &["remove"],
            &["install", "--cloud", "azure"],
            &["install", "--cloud"],
            &["install", "--binary="],
            &["install", "--purge"],
            &["install", "--dry-run=yes"],
            &["rollback", "--binary", "x"],
            &["install", "--plugin-dir", "/a\nb"],
            &["install", "--kubelet-root=/a\tb"],
            &["verify", "here"],
        ] {
            assert_eq!(read_words(words).unwrap_err().status, 2, "{words:?}");
        }
    }
}
