//! Block devices: their numbers, sizes, and what proves whose disk they are.

use super::transport::{Admission, Transport};
use crate::error::{Error, Result};
use crate::ids::VolumeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A block device's number, the one name that a mount cannot get wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceNumber {
    pub major: u32,
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

/// What identifies a volume's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// A serial that is the volume's id, whole or truncated as virtio shows it.
    Serial(VolumeId),
    /// A loop device with exactly this file, in the local cloud.
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

/// An identifying attribute of a disk in sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// A serial number or world-wide name.
    Serial {
        /// Its file in the disk's directory.
        file: &'static str,
        /// Its text, trimmed.
        text: String,
    },
    /// A loop device's file.
    BackingFile(PathBuf),
    /// A path too long for the kernel to show, which no volume's image has.
    LongBackingFile,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Serial { file, text } => write!(f, "{file} {text:?}"),
            Shown::BackingFile(path) => write!(f, "backing file {}", path.display()),
            Shown::LongBackingFile => f.write_str("a backing file with a very long path"),
        }
    }
}

/// How well a disk proves that it is a volume's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// By the first 20 characters of the id, which another volume could share.
    Cut,
    /// By the whole id.
    Whole,
}

impl Identity {
    /// The best proof among a disk's attributes; `None` if it is another disk.
    pub fn proven_by(&self, shown: &[Shown]) -> Option<Proof> {
        shown.iter().filter_map(|one| self.proof(one)).max()
    }

    /// The refusal if several disks have this identity.
    pub fn shown_by_several(&self, disks: &[Device]) -> Error {
        let names: Vec<_> =
            disks.iter().map(|d| format!("{} ({})", d.kernel_name, d.number)).collect();
        Error::refused(format!("{self} is shown by several disks: {}", names.join(", ")))
            .hint("detach the one that does not belong to this machine")
    }

    fn proof(&self, shown: &Shown) -> Option<Proof> {
        match (self, shown) {
            (Identity::BackingFile(wanted), Shown::BackingFile(path)) => {
                (wanted == path).then_some(Proof::Whole)
            }
            (Identity::Serial(id), Shown::Serial { text, .. }) => serial_proof(id, text),
            _ => None,
        }
    }
}

impl Shown {
    /// Whether any kind of cloud identifies this volume's disk by this attribute: its serial, or an image of that name.
    pub fn names(&self, id: &VolumeId) -> bool {
        match self {
            Shown::Serial { text, .. } => serial_proof(id, text).is_some(),
            Shown::BackingFile(path) => {
                path.extension().is_some_and(|end| end == "img")
                    && path.file_stem().is_some_and(|stem| stem == id.as_str())
            }
            Shown::LongBackingFile => false,
        }
    }
}

/// A serial may be the id, its first 20 characters, or in world-wide names its hexadecimal digits; identifiers of SCSI
/// page 0x83 and `wwid` have vendor and model in front.
fn serial_proof(id: &VolumeId, text: &str) -> Option<Proof> {
    let last = text.split_ascii_whitespace().next_back().unwrap_or_default();
    let whole = |candidate: &str| candidate == id.as_str();
    if whole(text) || whole(last) || is_id_in_hex(id, text) {
        return Some(Proof::Whole);
    }
    let cut = id.virtio_serial();
    (text == cut || last == cut).then_some(Proof::Cut)
}

fn is_id_in_hex(id: &VolumeId, text: &str) -> bool {
    let bare = ["naa.", "eui.", "uuid.", "0x"].iter().find_map(|start| text.strip_prefix(start));
    let digits: String = id.as_str().chars().filter(|c| *c != '-').collect();
    digits.len() == 32
        && bare.is_some_and(|bare| bare.replace('-', "").eq_ignore_ascii_case(&digits))
}

/// The by-id links that udev may make for a disk of this volume; only hints.
pub fn link_names(id: &VolumeId) -> Vec<String> {
    let (cut, whole) = (id.virtio_serial(), id.as_str());
    let makers = [
        "virtio-",
        "scsi-0QEMU_QEMU_HARDDISK_",
        "scsi-SQEMU_QEMU_HARDDISK_",
        "nvme-QEMU_NVMe_Ctrl_",
    ];
    let mut names: Vec<String> = makers
        .iter()
        .flat_map(|maker| [format!("{maker}{cut}"), format!("{maker}{whole}")])
        .collect();
    names.push(format!("wwn-0x{}", whole.replace('-', "")));
    names.dedup();
    names
}

/// A block device at the moment when it was proven to be a volume's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Such as `vdb`; for people, never for decisions.
    pub kernel_name: String,
    pub number: DeviceNumber,
    /// In bytes.
    pub size: u64,
    /// Whether it is read-only.
    pub read_only: bool,
    /// The kernel's disk sequence number (5.15 and newer), which distinguishes disks that had the same number one after
    /// the other.
    pub sequence: Option<u64>,
    /// How well it was proven.
    pub proof: Proof,
    /// Its connection, if a serial proves it.
    pub connection: Option<Connection>,
}

/// A disk's transport, and what the configuration says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    pub transport: Transport,
    /// Whether it may be a volume's disk.
    pub admission: Admission,
}

impl Device {
    /// The kernel's own node in `/dev`.
    pub fn kernel_node(&self) -> PathBuf {
        Path::new("/dev").join(&self.kernel_name)
    }

    /// Whether a disk on this transport may be a volume's.
    pub fn is_allowed(&self) -> bool {
        self.admission() == Admission::Allowed
    }

    /// What a disk on this transport may be.
    pub fn admission(&self) -> Admission {
        self.connection.as_ref().map_or(Admission::Allowed, |connection| connection.admission)
    }

    /// The transport, if known.
    pub fn transport(&self) -> Option<&Transport> {
        self.connection.as_ref().map(|connection| &connection.transport)
    }
}

/// A link that names the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    pub link: PathBuf,
    /// Its text.
    pub target: Option<PathBuf>,
    /// What is wrong with it, if it does not lead to the volume's disk.
    pub fault: Option<String>,
}

/// A disk's entry in udev's database; for people, never a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UdevEntry {
    /// The serial, the best one first.
    pub serial: Option<String>,
    /// The links in `/dev` that udev made for the disk.
    pub links: Vec<PathBuf>,
    /// How it differs from sysfs, which decides.
    pub disagreement: Option<String>,
}

impl UdevEntry {
    /// An entry for the disk that sysfs proves. udev also has the serial for these `others`.
    pub fn new(
        wanted: &Identity,
        is_processed: bool,
        shown: &[Shown],
        links: Vec<PathBuf>,
        others: &[String],
    ) -> Self {
        let best = shown.iter().find(|one| wanted.proven_by(std::slice::from_ref(*one)).is_some());
        let serial = best.or(shown.first()).map(ToString::to_string);
        let disagreement = match (wanted, &serial) {
            _ if !is_processed => Some("udevd has not processed this disk".to_owned()),
            (Identity::Serial(_), Some(serial)) if best.is_none() => {
                Some(format!("udev has {serial} for the disk that shows {wanted} in sysfs"))
            }
            _ if !others.is_empty() => {
                Some(format!("udev has {wanted} also for {}", others.join(", ")))
            }
            _ => None,
        };
        Self { serial, links, disagreement }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";

    fn identity() -> Identity {
        Identity::Serial(VolumeId::parse(ID).unwrap())
    }

    fn shown(text: &str) -> Shown {
        Shown::Serial { file: "serial", text: text.to_owned() }
    }

    #[test]
    fn device_numbers_round_trip() {
        let number: DeviceNumber = "253:16\n".parse().unwrap();
        assert_eq!(number.to_string(), "253:16");
        for bad in ["", "7", "7:", ":7", "a:b", "7:7:7"] {
            assert!(bad.parse::<DeviceNumber>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_form_of_the_serial_is_weighed() {
        for (text, proof) in [
            (ID, Some(Proof::Whole)),
            ("6f1c2d3e-4a5b-4c6d-8", Some(Proof::Cut)),
            ("0QEMU    QEMU HARDDISK   6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5", Some(Proof::Whole)),
            ("t10.ATA     QEMU HARDDISK   6f1c2d3e-4a5b-4c6d-8", Some(Proof::Cut)),
            ("naa.6f1c2d3e4a5b4c6d8e7f90a1b2c3d4e5", Some(Proof::Whole)),
            ("0x6F1C2D3E4A5B4C6D8E7F90A1B2C3D4E5", Some(Proof::Whole)),
            ("uuid.6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5", Some(Proof::Whole)),
            // One character fewer or more, or a different end, is another disk.
            ("6f1c2d3e-4a5b-4c6d-", None),
            ("6f1c2d3e-4a5b-4c6d-8e", None),
            ("6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e6", None),
            ("x6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5", None),
            ("", None),
        ] {
            assert_eq!(identity().proven_by(&[shown(text)]), proof, "{text:?}");
        }
        assert_eq!(identity().proven_by(&[shown(&ID[..20]), shown(ID)]), Some(Proof::Whole));
        assert_eq!(identity().proven_by(&[Shown::BackingFile(ID.into())]), None);
    }

    #[test]
    fn a_short_id_is_whole_in_twenty_characters() {
        let id = VolumeId::parse("vol-1").unwrap();
        assert_eq!(Identity::Serial(id).proven_by(&[shown("vol-1")]), Some(Proof::Whole));
    }

    #[test]
    fn an_image_is_proven_by_its_whole_path() {
        let wanted = Identity::BackingFile("/c/v.img".into());
        assert_eq!(wanted.proven_by(&[Shown::BackingFile("/c/v.img".into())]), Some(Proof::Whole));
        for other in ["/c/v.img (deleted)", "/c/v.img2", "/d/v.img", "v.img"] {
            assert_eq!(wanted.proven_by(&[Shown::BackingFile(other.into())]), None, "{other}");
        }
    }

    #[test]
    fn udev_may_disagree_with_sysfs() {
        let entry =
            |shown: &[Shown]| UdevEntry::new(&identity(), true, shown, vec![], &[]).disagreement;
        let property = |file, text: &str| Shown::Serial { file, text: text.to_owned() };
        assert_eq!(entry(&[]), None, "no serial is no other one");
        let scsi = format!("0QEMU_QEMU_HARDDISK_{ID}");
        for shown in [
            [property("ID_SERIAL", &scsi), property("ID_SERIAL_SHORT", ID)],
            [property("ID_SERIAL", "x"), property("ID_WWN", &format!("uuid.{ID}"))],
        ] {
            assert_eq!(entry(&shown), None, "{shown:?}");
        }
        let other = entry(&[property("ID_SERIAL", "other")]).unwrap();
        assert!(other.contains("ID_SERIAL \"other\"") && other.contains(&ID[..20]), "{other}");
        let image = Identity::BackingFile("/c/v.img".into());
        let of_image = |is_processed| {
            UdevEntry::new(&image, is_processed, &[shown("other")], vec![], &[]).disagreement
        };
        assert_eq!(of_image(true), None, "an image has no serial");
        assert!(of_image(false).unwrap().contains("not processed"));
        let twice = UdevEntry::new(&identity(), true, &[shown(ID)], vec![], &["vdc".to_owned()]);
        assert!(twice.disagreement.unwrap().ends_with("also for vdc"));
    }

    #[test]
    fn a_mark_names_its_volume_whichever_cloud_gave_it() {
        let id = VolumeId::parse(ID).unwrap();
        let image = |path: String| Shown::BackingFile(path.into()).names(&id);
        assert!(shown(ID).names(&id) && shown(&ID[..20]).names(&id));
        assert!(image(format!("/c/volumes/{ID}.img")));
        assert!(!image(format!("/c/volumes/{ID}.img (deleted)")) && !image(format!("/c/{ID}")));
        assert!(!shown("x").names(&id) && !Shown::LongBackingFile.names(&id));
    }

    #[test]
    fn links_are_named_as_udev_names_them() {
        let names = link_names(&VolumeId::parse(ID).unwrap());
        assert_eq!(names.len(), 9);
        assert!(names.contains(&"virtio-6f1c2d3e-4a5b-4c6d-8".to_owned()));
        assert!(names.contains(&"wwn-0x6f1c2d3e4a5b4c6d8e7f90a1b2c3d4e5".to_owned()));
    }
}
