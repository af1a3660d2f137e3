//! What stands behind a verb, as clap reads it.

use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, VolumeId};
use crate::model::text::is_hidden;
use clap::ValueEnum;

/// A node's name as clap reads it.
#[derive(Debug, Clone)]
pub struct NodeNameArgument(pub NodeName);

impl std::str::FromStr for NodeNameArgument {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        NodeName::parse(text).map(Self)
    }
}

/// What a person calls a volume, as clap reads it: a name, an id, a pod, or a device.
#[derive(Debug, Clone)]
pub struct TypedVolume(pub String);

impl std::str::FromStr for TypedVolume {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        /// No path, and no pod's name with its namespace, that is longer leads to a volume.
        const LONGEST: usize = 512;
        let is_allowed = |sign: char| sign.is_ascii_alphanumeric() || "._:-".contains(sign);
        let is_name = |part: &str| {
            part.starts_with(|sign: char| sign.is_ascii_alphanumeric())
                && part.chars().all(is_allowed)
        };
        let is_path = text.starts_with("/dev/") && !text.chars().any(is_hidden);
        let is_called = text.split('/').count() <= 2 && text.split('/').all(is_name);
        if text.len() > LONGEST || !is_path && !is_called {
            return Err(Error::bad_call("no volume, pod or device can have that name"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A volume id as clap reads it.
#[derive(Debug, Clone)]
pub struct VolumeIdArgument(pub VolumeId);

impl std::str::FromStr for VolumeIdArgument {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        VolumeId::parse(text).map(Self)
    }
}

/// Shells that can complete what is typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
