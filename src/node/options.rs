//! The words that change a machine, and their options.

use super::console::{NodeResult, Stop};
use clap::{Args, Parser};
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

impl fmt::Display for NodeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub struct NodeConsent {
    /// A configuration that is there and says something else is replaced.
    #[arg(long)]
    pub replace_config: bool,
    /// Another maker's driver is replaced although this one is not ready.
    #[arg(long)]
    pub although_not_ready: bool,
}

/// What the person wishes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct NodeOptions {
    /// The cloud that the configuration names.
    #[arg(long, value_parser = ["local", "openstack"])]
    pub cloud: Option<String>,
    /// The configuration that is to be installed.
    #[arg(long, value_parser = absolute, conflicts_with_all = ["cloud", "cloud_config", "kubelet_root"])]
    pub config: Option<PathBuf>,
    /// A `cloud.conf` that the configuration is to name.
    #[arg(long, value_parser = absolute)]
    pub cloud_config: Option<PathBuf>,
    /// A `cloud.conf` that is to be kept beside the configuration.
    #[arg(long, value_parser = absolute, conflicts_with = "cloud_config")]
    pub credentials: Option<PathBuf>,
    /// What is done although something speaks against it.
    #[command(flatten)]
    pub consent: NodeConsent,
    /// Which driver is put back.
    #[arg(skip)]
    pub to: RollbackTarget,
    /// Where kubelet looks for plugins.
    #[arg(long, value_parser = absolute)]
    pub plugin_dir: Option<PathBuf>,
    /// Where kubelet works.
    #[arg(long, value_parser = absolute)]
    pub kubelet_root: Option<PathBuf>,
    /// The driver to be put there; without one it is the program that runs.
    #[arg(long, value_parser = absolute)]
    pub binary: Option<PathBuf>,
    /// Nothing is changed.
    #[arg(long)]
    pub dry_run: bool,
    /// Configuration and state go too.
    #[arg(skip)]
    pub purge: bool,
}

/// Each word with the options that it takes.
#[derive(Parser)]
#[command(
    no_binary_name = true,
    args_override_self = true,
    disable_help_flag = true,
    disable_help_subcommand = true
)]
enum Line {
    Install(NodeOptions),
    Upgrade(NodeOptions),
    Rollback {
        #[arg(long, value_parser = absolute)]
        plugin_dir: Option<PathBuf>,
        #[arg(long, value_parser = target)]
        to: Option<RollbackTarget>,
        #[arg(long)]
        dry_run: bool,
    },
    Verify {
        #[arg(long, value_parser = absolute)]
        plugin_dir: Option<PathBuf>,
    },
    Uninstall {
        #[arg(long, value_parser = absolute)]
        plugin_dir: Option<PathBuf>,
        #[arg(long)]
        dry_run: bool,
        #[arg(long)]
        purge: bool,
    },
}

/// Reads a word and what follows it.
pub fn read(words: &[String]) -> NodeResult<(NodeWord, NodeOptions)> {
    // What is noted of an installation, the configuration and the units have one line for it.
    if let Some(word) = words.iter().find(|word| word.contains(char::is_control)) {
        return Err(Stop::misused(format!("no option takes control characters: {word:?}")));
    }
    let line = Line::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let text = text.split("\n\nUsage:").next().unwrap_or_default();
        Stop::misused(text.trim_start_matches("error: ").trim_end())
    })?;
    let none = NodeOptions::default;
    let (word, options) = match line {
        Line::Install(options) => (NodeWord::Install, options),
        Line::Upgrade(options) => (NodeWord::Upgrade, options),
        Line::Rollback { plugin_dir, to, dry_run } => {
            let to = to.unwrap_or_default();
            (NodeWord::Rollback, NodeOptions { to, plugin_dir, dry_run, ..none() })
        }
        Line::Verify { plugin_dir } => (NodeWord::Verify, NodeOptions { plugin_dir, ..none() }),
        Line::Uninstall { plugin_dir, dry_run, purge } => {
            (NodeWord::Uninstall, NodeOptions { plugin_dir, dry_run, purge, ..none() })
        }
    };
    if let NodeOptions { cloud: Some(cloud), cloud_config, credentials, .. } = &options
        && cloud != "openstack"
        && cloud_config.as_ref().or(credentials.as_ref()).is_some()
    {
        return Err(Stop::misused(format!(
            "a cloud.conf is of OpenStack, and --cloud says {cloud}"
        )));
    }
    Ok((word, options))
}

/// A relative path is one from where the person is.
fn absolute(text: &str) -> std::io::Result<PathBuf> {
    Ok(std::path::absolute(text)?.components().collect())
}

fn target(text: &str) -> Result<RollbackTarget, &'static str> {
    match text {
        "predecessor" => Ok(RollbackTarget::Predecessor),
        "1" | "2" | "3" => Ok(RollbackTarget::Kept(text.parse().unwrap_or(1))),
        _ => Err("it is predecessor, 1, 2 or 3"),
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
        let (_, options) = read_words(&["rollback", "--to", "1", "--to=2"]).unwrap();
        assert_eq!(options.to, RollbackTarget::Kept(2), "the last one counts");
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
            &["install", "--help"],
            &["help"],
            &["--cloud", "local"],
            &["install", "--config", "/a", "--kubelet-root", "/b"],
            &["install", "--plugin-dir", ""],
            &["install", "--config", "/a", "--cloud", "local"],
            &["install", "--config", "/a", "--cloud-config", "/b"],
            &["install", "--cloud-config", "/b", "--cloud", "local"],
            &["install", "--credentials", "/b", "--cloud-config", "/b"],
            &["install", "--credentials", "/b", "--cloud", "local"],
            &["rollback", "--credentials", "/b"],
        ] {
            assert_eq!(read_words(words).unwrap_err().status, 2, "{words:?}");
        }
        for (words, told) in [
            (&["instal"][..], "'install'"),
            (&["verify", "--cloud", "local"], "unexpected argument '--cloud' found\nRun"),
            (&["install", "--cloud", "azure"], "[possible values: local, openstack]\nRun"),
        ] {
            let text = read_words(words).unwrap_err().text;
            assert!(text.contains(told) && !text.contains("error:"), "{text}");
        }
    }
}
