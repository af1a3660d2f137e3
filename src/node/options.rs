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
    (NodeWord::Rollback, "rollback", &["--plugin-dir", "--to", "--dry-run"]),
    (NodeWord::Verify, "verify", &["--plugin-dir"]),
    (NodeWord::Uninstall, "uninstall", &["--plugin-dir", "--dry-run", "--purge"]),
];

const OF_INSTALL: &[&str] = &[
    "--cloud",
    "--config",
    "--cloud-config",
    "--credentials",
    "--replace-config",
    "--plugin-dir",
    "--kubelet-root",
    "--binary",
    "--although-not-ready",
    "--dry-run",
];

/// Options without a value.
const FLAGS: [&str; 4] = ["--dry-run", "--purge", "--replace-config", "--although-not-ready"];

impl fmt::Display for NodeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = WORDS.iter().find(|(word, ..)| word == self);
        f.write_str(found.map_or("", |(_, name, _)| name))
    }
}

/// Which driver a rollback puts back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The one that was there before.
    #[default]
    Before,
    /// One of ours that is kept, the newest first.
    Kept(usize),
    /// Another maker's.
    Predecessor,
}

/// What a person takes upon themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeConsent {
    /// A configuration that is there and says something else is replaced.
    pub replace_config: bool,
    /// Another maker's driver is replaced although this one is not ready.
    pub although_not_ready: bool,
}

/// What the person wishes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeOptions {
    /// The cloud that the configuration names.
    pub cloud: Option<String>,
    /// The configuration that is to be installed.
    pub config: Option<PathBuf>,
    /// A `cloud.conf` that the configuration is to name.
    pub cloud_config: Option<PathBuf>,
    /// A `cloud.conf` that is to be kept beside the configuration.
    pub credentials: Option<PathBuf>,
    /// What is done although something speaks against it.
    pub consent: NodeConsent,
    /// Which driver is put back.
    pub to: RollbackTarget,
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
            ("--replace-config", None) => options.consent.replace_config = true,
            ("--although-not-ready", None) => options.consent.although_not_ready = true,
            (flag, Some(_)) if FLAGS.contains(&flag) => {
                return Err(Stop::misused(format!("{option} takes no value")));
            }
            (_, value) => {
                let value = value.or_else(|| rest.next().map(String::as_str)).unwrap_or_default();
                set(&mut options, option, value)?;
            }
        }
    }
    agree(&options)?;
    Ok((*word, options))
}

/// Options that say two things of one.
fn agree(options: &NodeOptions) -> NodeResult {
    let both = |one: &str, other: &str| Err(Stop::misused(format!("{one} or {other}, not both")));
    match options {
        NodeOptions { config: Some(_), cloud_config: Some(_), .. } => {
            both("--config", "--cloud-config")
        }
        NodeOptions { credentials: Some(_), cloud_config: Some(_), .. } => {
            both("--credentials", "--cloud-config")
        }
        NodeOptions { config: Some(_), cloud: Some(_), .. } => both("--config", "--cloud"),
        NodeOptions { config: Some(_), kubelet_root: Some(_), .. } => {
            both("--config", "--kubelet-root")
        }
        NodeOptions { cloud_config: Some(_), cloud: Some(cloud), .. } if cloud != "openstack" => {
            Err(Stop::misused(format!("--cloud-config is of OpenStack, and --cloud says {cloud}")))
        }
        NodeOptions { credentials: Some(_), cloud: Some(cloud), .. } if cloud != "openstack" => {
            Err(Stop::misused(format!("--credentials is of OpenStack, and --cloud says {cloud}")))
        }
        _ => Ok(()),
    }
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
        "--config" => options.config = absolute()?,
        "--cloud-config" => options.cloud_config = absolute()?,
        "--credentials" => options.credentials = absolute()?,
        "--to" => options.to = target(value)?,
        "--plugin-dir" => options.plugin_dir = absolute()?.map(|path| path.components().collect()),
        "--kubelet-root" => {
            options.kubelet_root = absolute()?.map(|path| path.components().collect());
        }
        _ => options.binary = absolute()?,
    }
    Ok(())
}

fn target(value: &str) -> NodeResult<RollbackTarget> {
    match value {
        "predecessor" => Ok(RollbackTarget::Predecessor),
        "1" | "2" | "3" => Ok(RollbackTarget::Kept(value.parse().unwrap_or(1))),
        _ => Err(Stop::misused(format!("--to is predecessor, 1, 2 or 3, not {value}"))),
    }
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
            &["rollback", "--to", "4"],
            &["install", "--to", "1"],
            &["install", "--although-not-ready=yes"],
            &["install", "--config", "/a", "--cloud", "local"],
            &["install", "--config", "/a", "--cloud-config", "/b"],
            &["install", "--cloud-config", "/b", "--cloud", "local"],
            &["install", "--credentials", "/b", "--cloud-config", "/b"],
            &["install", "--credentials", "/b", "--cloud", "local"],
            &["rollback", "--credentials", "/b"],
        ] {
            assert_eq!(read_words(words).unwrap_err().status, 2, "{words:?}");
        }
    }
}
