//! Block devices as facts: a number, a size, and what proves whose disk it is.

use super::transport::{Admission, Transport};
use crate::error::{Error, Result};
use crate::ids::VolumeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
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
    Serial(VolumeId),
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

/// Something that a disk shows of itself in sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// A serial number or world-wide name, and the file in sysfs that shows it.
    Serial {
        /// The file, below the disk's folder.
        file: &'static str,
        /// The text, without blanks around it.
        text: String,
    },
    /// The file behind a loop device.
    BackingFile(PathBuf),
    /// One whose path is longer than the kernel shows: no volume's image has such a path.
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

/// How well a disk shows that it is a volume's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// Its serial is the first 20 characters of the id: another volume could share them.
    Cut,
    /// It shows the whole id.
    Whole,
}

impl Identity {
    /// The best proof among the things that a disk shows; nothing if it is another disk.
    pub fn proven_by(&self, shown: &[Shown]) -> Option<Proof> {
        shown.iter().filter_map(|one| self.proof(one)).max()
    }

    /// The error that several disks show this identity.
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
    /// Whether a cloud of any kind gives the disk of this volume this mark: its serial, or an image of that name.
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

/// A serial is the id itself, its first 20 characters, or (in world-wide names) the id's
/// hexadecimal digits; identifiers of SCSI page 0x83 and `wwid` carry maker and model before it.
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

/// The names of links in by-id that udev may make for a disk of this volume: hints to look at.
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
    /// How well it was proven.
    pub proof: Proof,
    /// How it is connected, where its serial is what proves it.
    pub connection: Option<Connection>,
}

/// A disk's transport, and what the configuration says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    pub transport: Transport,
    /// What a disk of it may be.
    pub admission: Admission,
}

impl Device {
    /// The kernel's own node in `/dev`.
    pub fn kernel_node(&self) -> PathBuf {
        Path::new("/dev").join(&self.kernel_name)
    }

    /// Whether a disk that is connected this way may be a volume's.
    pub fn is_allowed(&self) -> bool {
        self.admission() == Admission::Allowed
    }

    /// What a disk that is connected this way may be.
    pub fn admission(&self) -> Admission {
        self.connection.as_ref().map_or(Admission::Allowed, |connection| connection.admission)
    }

    /// How it is connected, where that is known.
    pub fn transport(&self) -> Option<&Transport> {
        self.connection.as_ref().map(|connection| &connection.transport)
    }
}

/// A link that names the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub link: PathBuf,
    /// What is written in it.
    pub target: Option<PathBuf>,
    /// What is wrong with it, if it does not lead to the volume's disk.
    pub fault: Option<String>,
}

/// A link that names the volume and does not lead to its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFault {
    pub link: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

/// What udev's database says about a disk: for people, and never a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UdevEntry {
    /// What it has as the disk's serial, best first.
    pub serial: Option<String>,
    /// The links in `/dev` that it made for the disk.
    pub links: Vec<PathBuf>,
    /// How it disagrees with sysfs, which decides.
    pub disagreement: Option<String>,
}

impl UdevEntry {
    /// An entry for the disk that sysfs proves to be the wanted one; udev also has the wanted serial for these others.
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
            // One character less, one more, and another end are other disks.
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
