//! What stands behind a verb, as clap reads it.

use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, VolumeId, VolumeName};
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

/// A volume's name or id as clap reads it.
#[derive(Debug, Clone)]
pub struct VolumeNameArgument(pub VolumeName);

impl std::str::FromStr for VolumeNameArgument {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        VolumeName::parse(text).map(Self)
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
#[allow(missing_docs, reason = "each is its own description")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
