//! By what a map of this driver's is known: a UUID with a prefix of ours, and the volume's id.

use crate::ids::VolumeId;
use std::fmt;

/// What the UUID of each map of ours begins with. Other programs look at the part before the first dash for
/// the kind of a map (`LVM`, `mpath`, `CRYPT`), and none of them has this one.
const PREFIX: &str = "incloud_disk-";

/// Device mapper has 128 bytes for a name and 129 for a UUID, each with a zero at its end.
const LONGEST: usize = 127;

/// The UUID of a volume's map, which is its name too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapUuid {
    volume: VolumeId,
}

impl MapUuid {
    /// That of a volume's map; nothing if its id is too long for one.
    pub fn of(volume: &VolumeId) -> Option<Self> {
        let fits = PREFIX.len() + volume.as_str().len() <= LONGEST;
        fits.then(|| Self { volume: volume.clone() })
    }

    /// One that was read; nothing if it is no map of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let volume = VolumeId::parse(text.trim_end_matches('\n').strip_prefix(PREFIX)?).ok()?;
        Self::of(&volume)
    }

    /// The volume whose map it is.
    pub fn volume(&self) -> &VolumeId {
        &self.volume
    }
}

impl fmt::Display for MapUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";

    #[test]
    fn a_map_is_known_again() {
        let uuid = MapUuid::of(&VolumeId::parse(ID).unwrap()).unwrap();
        assert_eq!(uuid.to_string(), format!("incloud_disk-{ID}"));
        // sysfs ends it with a line.
        for text in [uuid.to_string(), format!("{uuid}\n")] {
            assert_eq!(MapUuid::parse(&text), Some(uuid.clone()));
        }
        assert_eq!(uuid.volume().as_str(), ID);
    }

    #[test]
    fn others_maps_are_none_of_ours() {
        for text in [
            "",
            "\n",
            "incloud_disk-",
            "incloud_disk-../x",
            "incloud_disk--x",
            "incloud_disk",
            "mpath-6f1c2d3e",
            "LVM-6f1c2d3e",
            "xincloud_disk-6f1c2d3e",
            " incloud_disk-6f1c2d3e",
        ] {
            assert_eq!(MapUuid::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_device_mapper_has_no_room_for_is_no_map() {
        let of = |length: usize| MapUuid::of(&VolumeId::parse(&"x".repeat(length)).unwrap());
        let longest = LONGEST - PREFIX.len();
        assert_eq!(of(longest).unwrap().to_string().len(), LONGEST);
        assert_eq!(of(longest + 1), None);
        assert_eq!(MapUuid::parse(&format!("{PREFIX}{}", "x".repeat(longest + 1))), None);
    }
}
