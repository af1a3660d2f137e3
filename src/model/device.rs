//! Block devices as facts: a number, a size, and what proves whose disk it is.

use super::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A block device's number: the one name of it that a mount cannot lie about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceNumber {
    /// The driver's half.
    pub major: u32,
    /// The device's half.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let parsed = text
            .trim()
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        match parsed {
            Some((major, minor)) => Ok(Self { major, minor }),
            None => Err(Error::bad_call(format!("{text:?} is no device number"))),
        }
    }
}

impl TryFrom<String> for DeviceNumber {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<DeviceNumber> for String {
    fn from(number: DeviceNumber) -> String {
        number.to_string()
    }
}

/// What a disk must show to be a volume's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The disk's serial number is the volume's id, whole or cut to what virtio can show.
    Serial(super::ids::VolumeId),
    /// A loop device on exactly this file: the embedded local cloud.
    BackingFile(PathBuf),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Serial(id) => write!(f, "serial {}", id.virtio_serial()),
            Identity::BackingFile(path) => write!(f, "backing file {}", path.display()),
        }
    }
}

/// A block device that was proven to be a volume's disk, at the moment of looking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The kernel's name, such as `vdb`: for people, never for decisions.
    pub kernel_name: String,
    /// The number, for decisions.
    pub number: DeviceNumber,
    /// The size in bytes.
    pub size: u64,
    /// Whether the device refuses writes.
    pub read_only: bool,
    /// The kernel's count of disks at the time this one appeared (5.15 and newer): tells two
    /// disks apart that had the same number one after the other.
    pub sequence: Option<u64>,
}

impl Device {
    /// The kernel's own node in `/dev`.
    #[must_use]
    pub fn kernel_node(&self) -> PathBuf {
        PathBuf::from("/dev").join(&self.kernel_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_round_trip() {
        let number: DeviceNumber = "253:16\n".parse().unwrap();
        assert_eq!(number.to_string(), "253:16");
        for bad in ["", "7", "7:", ":7", "a:b", "7:7:7"] {
            assert!(bad.parse::<DeviceNumber>().is_err(), "{bad:?}");
        }
    }
}
