//! Names as types: each can only be made by a parser that proved it safe as one path segment.

use super::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// How many characters of a volume id a virtio disk can show: the serial field of the virtio
/// block device has 20 bytes, and `OpenStack` cuts the id to fit.
pub const VIRTIO_SERIAL_LENGTH: usize = 20;

fn safe_segment(what: &str, text: &str, longest: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::bad_call(format!("the {what} is empty")));
    }
    if text.len() > longest {
        return Err(Error::bad_call(format!("the {what} is longer than {longest} bytes")));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(bad) = text.chars().find(|&c| !allowed(c)) {
        return Err(Error::bad_call(format!("the {what} holds {bad:?}"))
            .hint("only letters, digits, dot, dash and underscore are possible"));
    }
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(Error::bad_call(format!("the {what} does not begin with a letter or digit")));
    }
    Ok(())
}

macro_rules! segment_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $longest:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Proves the text safe, or says what is wrong with it.
            pub fn parse(text: &str) -> Result<Self> {
                safe_segment($what, text, $longest)?;
                Ok(Self(text.to_owned()))
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

segment_type! {
    /// The cloud's id of a volume.
    VolumeId, "volume id", 128
}
segment_type! {
    /// The orchestrator's name of a volume (for Kubernetes: the `PersistentVolume`'s).
    VolumeName, "volume name", 253
}
segment_type! {
    /// The orchestrator's name of a machine.
    NodeName, "node name", 253
}
segment_type! {
    /// The cloud's id of a machine.
    ServerId, "server id", 253
}
segment_type! {
    /// Who uses a published volume (for Kubernetes: the pod's UID).
    ConsumerId, "consumer id", 128
}

impl VolumeId {
    /// The serial number that a virtio disk of this volume shows.
    pub fn virtio_serial(&self) -> &str {
        let text = self.as_str();
        &text[..text.len().min(VIRTIO_SERIAL_LENGTH)]
    }

    /// The name of the link that udev makes for a virtio disk of this volume.
    pub fn link_name(&self) -> String {
        format!("virtio-{}", self.virtio_serial())
    }
}

impl VolumeName {
    /// The name as a volume id, if it is a UUID: then the two are the same by convention.
    pub fn as_volume_id(&self) -> Option<VolumeId> {
        is_uuid(self.as_str()).then(|| VolumeId(self.0.clone()))
    }

    /// Whether the name says nothing that the id does not say.
    pub fn is(&self, id: &VolumeId) -> bool {
        self.0 == id.0
    }
}

impl VolumeId {
    /// The id as an orchestrator's name: both obey the same rules, and names may be longer.
    pub fn as_name(&self) -> VolumeName {
        VolumeName(self.0.clone())
    }
}

/// Whether the text is a UUID in its usual form with dashes.
pub fn is_uuid(text: &str) -> bool {
    text.len() == Hyphenated::LENGTH && Uuid::try_parse(text).is_ok()
}

/// Whether an id, or as much of one as a virtio disk can show, stands anywhere in what a disk shows.
pub fn shows_a_uuid(text: &str) -> bool {
    const DIGITS: usize = 32;
    let fits = |part: &[u8]| {
        part.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    let bytes = text.as_bytes();
    bytes.windows(VIRTIO_SERIAL_LENGTH).any(fits)
        || bytes.windows(DIGITS).any(|part| part.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_segments_are_named_and_refused() {
        for text in ["", ".", "..", "-rf", "a/b", "a b", "a\nb", "a\0b", "ä", "_x", ".hidden"] {
            assert!(VolumeId::parse(text).is_err(), "{text:?}");
        }
        assert!(VolumeId::parse(&"a".repeat(129)).is_err());
        assert!(VolumeName::parse(&"a".repeat(253)).is_ok());
    }

    #[test]
    fn a_uuid_name_is_a_volume_id() {
        let uuid = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
        let name = VolumeName::parse(uuid).unwrap();
        assert_eq!(name.as_volume_id().unwrap().as_str(), uuid);
        assert_eq!(name.as_volume_id().unwrap().link_name(), "virtio-6f1c2d3e-4a5b-4c6d-8");
        assert!(VolumeName::parse(&format!("pvc-{uuid}")).unwrap().as_volume_id().is_none());
        assert!(is_uuid(&uuid.to_uppercase()));
        for other in [
            "",
            "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4eg",
            "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4+5",
            "6f1c2d3e4a5b4c6d8e7f90a1b2c3d4e5",
            "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3-4e5",
            "{6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5}",
            "urn:uuid:6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5",
            "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4é",
        ] {
            assert!(!is_uuid(other), "{other}");
        }
    }

    #[test]
    fn a_name_is_its_id_only_where_both_read_the_same() {
        let id = VolumeId::parse("vol-1").unwrap();
        assert!(VolumeName::parse("vol-1").unwrap().is(&id));
        assert!(!VolumeName::parse("vol-10").unwrap().is(&id));
    }

    /// What is taken for a UUID speaks for the volume of that id: too little and too much are both wrong.
    #[test]
    fn an_id_is_seen_wherever_it_stands() {
        for text in [
            "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5",
            "6f1c2d3e-4a5b-4c6d-8",
            "scsi-0QEMU_6f1c2d3e-4a5b-4c6d-8",
            "6F1C2D3E4A5B4C6D8E7F90A1B2C3D4E5",
            "x6f1c2d3e4a5b4c6d8e7f90a1b2c3d4e5x",
        ] {
            assert!(shows_a_uuid(text), "{text}");
        }
        for text in [
            "",
            "loop3",
            "6f1c2d3e-4a5b-4c6d-",
            "6f1c2d3e-4a5b-4c6d08",
            "6f1c2d3e-4a5b04c6d-8",
            "6f1c2d3e04a5b-4c6d-8",
            "6f1c2d3e-4a5b-4c6d-g",
            "6f1c2d3e4a5b4c6d8e7f90a1b2c3d4e",
            "6f1c2d3e4a5b4c6d8e7f-90a1b2c3d4e",
        ] {
            assert!(!shows_a_uuid(text), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_parses_is_one_path_segment(text in ".*") {
            if let Ok(id) = VolumeId::parse(&text) {
                let path = std::path::Path::new("/x").join(id.as_str());
                proptest::prop_assert_eq!(path.components().count(), 3);
                proptest::prop_assert_eq!(path.parent(), Some(std::path::Path::new("/x")));
            }
        }
    }
}
