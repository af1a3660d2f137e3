//! Whether a volume's disk may get a new file system: the whole decision except the disk's contents, for mounts and for
//! people.

use crate::advice::{Advice, Remedy, advise};
use crate::ids::{ServerId, VolumeId};
use serde::Serialize;
use std::fmt;

/// The most that encryption takes from a volume: LUKS 2 uses 16 MiB in front of the data, LUKS 1 uses 2.
const ENCRYPTION_TAKES: u64 = 16 << 20;

/// How far a volume has come, as noted with it in the cloud. It only advances from `Begun` to `HasData`; only a
/// person's format starts again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// A server began to make its first file system.
    Begun(ServerId),
    /// It was mounted, or has a verified file system.
    HasData,
    /// A note that this version does not know; it may mean data.
    Unknown(String),
}

const BEGUN: &str = "format begun by ";
const HAS_DATA: &str = "has data";

impl Life {
    /// Parses a note.
    pub fn read(text: &str) -> Self {
        let server = text.strip_prefix(BEGUN).and_then(|server| ServerId::parse(server).ok());
        match (server, text) {
            (Some(server), _) => Self::Begun(server),
            (None, HAS_DATA) => Self::HasData,
            (None, other) => Self::Unknown(other.to_owned()),
        }
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun(server) => write!(f, "{BEGUN}{server}"),
            Self::HasData => f.write_str(HAS_DATA),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

/// The input of the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts<'a> {
    pub volume: &'a VolumeId,
    /// Its proven disk: the kernel's name, the size in bytes, and whether it is read-only.
    pub disk: (&'a str, u64, bool),
    /// Whether this node ever mounted the volume.
    pub was_mounted: bool,
    /// This node's server, if the cloud knows it.
    pub here: Option<&'a str>,
    /// The servers to which the volume is attached.
    pub attached_to: Vec<&'a str>,
    /// The volume's size in the cloud, in bytes.
    pub size: u64,
    /// Whether the cloud says that the volume is encrypted.
    pub is_encrypted: bool,
    /// What the cloud made the volume from.
    pub origin: Option<&'a str>,
    /// How far it has come.
    pub life: Option<&'a Life>,
    /// The server whose mark says that it has mounted the volume.
    pub mounted_on: Option<&'a str>,
}

/// Who wants the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatRequester {
    /// A mount that needs one.
    Mount,
    /// A person.
    Person,
}

/// Why a disk is not formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    pub cause: String,
    pub hint: Advice,
    /// Whether a person may override it.
    pub yields_to_a_person: bool,
}

/// Refuses, or returns the objections that a person overrides.
pub fn may_format(facts: &Facts<'_>, asked: FormatRequester) -> Result<Vec<Objection>, Objection> {
    let objections = objections(facts);
    let is_final = |one: &&Objection| asked == FormatRequester::Mount || !one.yields_to_a_person;
    match objections.iter().find(is_final) {
        Some(objection) => Err(objection.clone()),
        None => Ok(objections),
    }
}

/// All objections, beginning with those that a person cannot override.
pub fn objections(facts: &Facts<'_>) -> Vec<Objection> {
    let (disk, disk_size, is_read_only) = facts.disk;
    let id = facts.volume;
    let mut all = Vec::new();
    let never = |cause: String, hint: Advice| Objection { cause, hint, yields_to_a_person: false };
    if is_read_only {
        all.push(never(
            format!("{disk} is read-only"),
            "look for errors in the kernel's log".into(),
        ));
    }
    let here = facts.here.unwrap_or("this machine");
    if !facts.attached_to.contains(&here) {
        all.push(never(
            format!(
                "{disk} is there, but by the cloud's word the volume is not attached to {here}"
            ),
            "is it the right disk? a disk is formatted only when the cloud confirms it".into(),
        ));
    }
    // Two servers that find the same blank disk would both format it, and neither sees what the other one writes.
    if let Some(other) = facts.attached_to.iter().find(|server| **server != here) {
        all.push(never(
            format!(
                "{disk} is attached to server {other} too, which may use it or be formatting it"
            ),
            advise("detach it there first: {}", [Remedy::Detach(Some(other.to_string())).of(id)]),
        ));
    }
    let person = |cause: String| Objection {
        cause,
        hint: advise(
            "nothing was changed; {} shows what is known of it, and with --yes it gets a new file system all the same",
            [Remedy::Format.of(id)],
        ),
        yields_to_a_person: true,
    };
    if !is_of_its_volumes_size(disk_size, facts) {
        let kind = if facts.is_encrypted { ", encrypted," } else { "" };
        let size = facts.size;
        all.push(person(format!(
            "{disk} has {disk_size} bytes, the volume{kind} has {size} in the cloud"
        )));
    }
    if facts.was_mounted {
        all.push(person(format!(
            "this machine has mounted the volume before, and {disk} shows no file system: its data is gone"
        )));
    }
    match facts.life {
        Some(Life::HasData) => all.push(person(format!(
            "by its metadata in the cloud the volume has data, and {disk} shows no file system"
        ))),
        Some(Life::Unknown(text)) => all.push(person(format!(
            "its metadata in the cloud says {text:?} of the volume, which this version does not know"
        ))),
        Some(Life::Begun(_)) | None => {}
    }
    if let Some(server) = facts.mounted_on {
        all.push(person(format!(
            "by its metadata in the cloud the volume is mounted on {server}, and {disk} shows no file system"
        )));
    }
    if let Some(origin) = facts.origin {
        all.push(person(format!(
            "the cloud made the volume from {origin}, and {disk} shows no file system"
        )));
    }
    all
}

/// Encryption makes the disk smaller than its volume.
fn is_of_its_volumes_size(disk: u64, facts: &Facts<'_>) -> bool {
    disk <= facts.size && disk >= least_disk(facts.size, facts.is_encrypted)
}

/// The minimum size of a volume's disk.
pub fn least_disk(volume: u64, is_encrypted: bool) -> u64 {
    volume.saturating_sub(if is_encrypted { ENCRYPTION_TAKES } else { 0 })
}

/// Whether a file system leaves more of its disk unused than a last group that is too small to use.
pub fn leaves_room(covered: u64, disk: u64) -> bool {
    const LAST_GROUP: u64 = 8 << 20;
    covered.saturating_add(LAST_GROUP) < disk
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    /// The objections for these facts, to a mount and to a person; none where formatting may go on.
    #[test]
    fn the_table() {
        let id = VolumeId::parse("vol-1").unwrap();
        let begun = |server| Life::Begun(ServerId::parse(server).unwrap());
        let (ours, theirs) = (begun("a"), begun("b"));
        let (data, odd) = (Life::HasData, Life::Unknown("x".to_owned()));
        let right = Facts {
            volume: &id,
            disk: ("vdb", GIB, false),
            was_mounted: false,
            here: Some("a"),
            attached_to: vec!["a"],
            size: GIB,
            is_encrypted: false,
            origin: None,
            life: None,
            mounted_on: None,
        };
        let disk = |size, encrypted| Facts {
            disk: ("vdb", size, false),
            is_encrypted: encrypted,
            ..right.clone()
        };
        let (free, both) = (None, Some("both"));
        let rows = [
            (right.clone(), "", free),
            (Facts { life: Some(&ours), ..right.clone() }, "", free),
            (Facts { life: Some(&theirs), ..right.clone() }, "", free),
            (Facts { disk: ("vdb", GIB, true), ..right.clone() }, "read-only", both),
            (Facts { attached_to: vec![], ..right.clone() }, "not attached to a", both),
            (Facts { attached_to: vec!["b"], ..right.clone() }, "not attached to a", both),
            (Facts { here: None, ..right.clone() }, "not attached to this machine", both),
            (Facts { attached_to: vec!["a", "b"], ..right.clone() }, "server b too", both),
            (Facts { was_mounted: true, ..right.clone() }, "its data is gone", free),
            (Facts { life: Some(&data), ..right.clone() }, "the volume has data", free),
            (Facts { life: Some(&odd), ..right.clone() }, "says \"x\"", free),
            (Facts { mounted_on: Some("a"), ..right.clone() }, "mounted on a", free),
            (Facts { origin: Some("snapshot s"), ..right.clone() }, "from snapshot s", free),
            (disk(GIB - 1, false), "1073741823 bytes, the volume has 1073741824", free),
            (disk(GIB + 512, false), "bytes, the volume has", free),
            (disk(GIB + 512, true), "bytes, the volume, encrypted, has", free),
            (disk(GIB, true), "", free),
            (disk(GIB - 2 * MIB, true), "", free),
            (disk(GIB - 16 * MIB, true), "", free),
            (disk(GIB - 16 * MIB - 512, true), "bytes, the volume, encrypted, has", free),
            (disk(GIB - 2 * MIB, false), "bytes, the volume has", free),
        ];
        for (facts, words, person) in rows {
            match may_format(&facts, FormatRequester::Mount) {
                Ok(none) => assert!(words.is_empty() && none.is_empty(), "{words}: {facts:?}"),
                Err(objection) => {
                    assert!(!words.is_empty() && objection.cause.contains(words), "{objection:?}");
                    let way_out = if person.is_some() { "" } else { "Format vol-1" };
                    assert!(objection.hint.to_string().contains(way_out), "{objection:?}");
                }
            }
            match (may_format(&facts, FormatRequester::Person), person) {
                (Err(objection), Some(_)) => assert!(objection.cause.contains(words)),
                (Ok(overridden), None) => {
                    assert_eq!(overridden.len(), usize::from(!words.is_empty()), "{facts:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        // Objections that a person cannot override come first.
        let facts = Facts { attached_to: vec![], was_mounted: true, ..right };
        assert!(
            may_format(&facts, FormatRequester::Person).unwrap_err().cause.contains("not attached")
        );
    }

    #[test]
    fn only_encryption_makes_a_disk_smaller_than_its_volume() {
        assert_eq!(least_disk(GIB, false), GIB);
        assert_eq!(least_disk(GIB, true), GIB - 16 * MIB);
        assert_eq!(least_disk(MIB, true), 0);
    }

    #[test]
    fn a_last_group_that_is_too_small_is_no_room() {
        assert!(!leaves_room(GIB, GIB) && !leaves_room(GIB, GIB + 8 * MIB));
        assert!(leaves_room(GIB, GIB + 8 * MIB + 1));
        assert!(!leaves_room(GIB, MIB), "the disk is smaller");
    }

    #[test]
    fn notes_are_read_as_they_are_written() {
        for life in [Life::HasData, Life::Begun(ServerId::parse("node-a").unwrap())] {
            assert_eq!(Life::read(&life.to_string()), life);
        }
        for text in ["", "has-data", "format begun by ", "format begun by a/b", "HAS DATA"] {
            assert_eq!(Life::read(text), Life::Unknown(text.to_owned()));
        }
    }
}
