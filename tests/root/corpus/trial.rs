//! The calls that are made for each image, and what must hold after each of them.

use super::image::{Image, MARKER, MARKER_TEXT, Mount};
use super::variant::{self, Variant};
use crate::checks::{digest, layers_at, nothing_is_left, only_mount_at};
use crate::files;
use crate::support::{Answer, FailingDisk, Node, private_mounts, skip};
use crate::volume::{Volume, make_folder};
use incloud_disk::model::disk::contents::FsType;
use std::fs;
use std::path::{Path, PathBuf};

/// What kubelet may ask for.
const WISHES: [&str; 3] = ["ext4", "", "xfs"];

/// What must come of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Refused,
    Mounted,
    MountedOrRefused,
    /// There is nothing on the disk.
    Formatted,
}

/// Calls `mountdevice` for every variant of an image; all that went wrong is told at once.
pub fn survives(name: &str, image: &Image) {
    let name = name.trim_start_matches("root::");
    if !private_mounts(name) {
        return;
    }
    let node = Node::new();
    let made = match image.make(&node.base().join("maker")) {
        Ok(made) => made,
        Err(reason) => return skip(name, &reason),
    };
    let mut troubles = Vec::new();
    for variant in variant::ALL {
        // The tests of bad sectors skip themselves then, and say so.
        if variant == Variant::Unreadable && !FailingDisk::is_possible() {
            continue;
        }
        for trouble in Trial::prepare(&node, image, &made, variant).run() {
            troubles.push(format!("{variant:?}: {trouble}"));
        }
    }
    assert!(troubles.is_empty(), "{name}:\n{}", troubles.join("\n"));
    nothing_is_left(&node, &[]);
}

/// Whether the driver says that it formatted anything on this node.
pub fn says_that_it_formatted(node: &Node) -> bool {
    node.log().contains("formatting a blank disk")
}

struct Trial<'n> {
    node: &'n Node,
    volume: Volume,
    image: &'n Image,
    variant: Variant,
    is_blank: bool,
    failing: Option<FailingDisk>,
    /// Where the image can be read whatever the disk does.
    plain: PathBuf,
}

impl<'n> Trial<'n> {
    fn prepare(node: &'n Node, image: &'n Image, made: &Path, variant: Variant) -> Self {
        let size = variant.size(fs::metadata(made).unwrap().len());
        let volume = Volume::create(node, "", &size.to_string());
        let path = volume.image();
        variant.put(made, &path);
        let first = variant::first_byte(&path);
        let is_blank = first.is_none();
        assert_eq!(is_blank, image.is_blank_as(variant), "{variant:?} is all zeros");
        let bad_sector = first.filter(|_| variant == Variant::Unreadable).map(|at| at / 512 * 512);
        let failing = bad_sector.map(|at| {
            let disk = FailingDisk::over(&path);
            disk.fail_reads(at..at + 512);
            disk
        });
        let plain = failing.as_ref().map_or(path, FailingDisk::below);
        Self { node, volume, image, variant, is_blank, failing, plain }
    }

    /// What went wrong.
    fn run(self) -> Vec<String> {
        self.node.must(self.volume.attach());
        make_folder(&self.volume.global());
        let mut troubles = Vec::new();
        for wish in WISHES {
            let trouble = self.ask(wish).err();
            let is_over = trouble.is_some() || self.is_blank;
            troubles.extend(trouble);
            if layers_at(&self.volume.global()) > 0 {
                self.node.must(self.volume.unstage());
            }
            if is_over {
                break;
            }
        }
        fs::remove_dir(self.volume.global()).unwrap();
        self.node.must(self.volume.detach());
        drop(self.failing);
        // A later variant must not find this one's traces.
        for log in fs::read_dir(self.node.own().join("log")).unwrap().flatten() {
            fs::remove_file(log.path()).unwrap();
        }
        troubles
    }

    fn ask(&self, wish: &str) -> Result<(), String> {
        let uuid = self.uuid();
        let before = digest(&self.plain);
        let answer = self.node.call(self.volume.stage_as(wish));
        let is_mounted = layers_at(&self.volume.global()) > 0;
        let said = || format!("asked for {wish:?}, it said {}", answer.text.trim());
        let is_success = answer.json["status"] == "Success";
        if is_success != is_mounted {
            return Err(format!("{}; mounted: {is_mounted}", said()));
        }
        let fate = self.fate(wish);
        if fate != Fate::Formatted && says_that_it_formatted(self.node) {
            return Err(format!("FORMATTED: {}", said()));
        }
        let has_changed = digest(&self.plain) != before;
        match fate {
            Fate::Formatted if is_mounted && says_that_it_formatted(self.node) => Ok(()),
            Fate::Mounted | Fate::MountedOrRefused if is_mounted => {
                self.is_what_it_was(&uuid).map_err(|what| format!("{what}: {}", said()))
            }
            Fate::MountedOrRefused => Ok(()),
            Fate::Refused if !is_mounted && has_changed => {
                Err(format!("bytes changed: {}", said()))
            }
            Fate::Refused if !is_mounted => self.is_well_said(&answer),
            fate => Err(format!("not {fate:?}: {}", said())),
        }
    }

    fn fate(&self, wish: &str) -> Fate {
        if self.is_blank {
            return Fate::Formatted;
        }
        let (Mount::As(kind) | Mount::Perhaps(kind)) = self.image.mount() else {
            return Fate::Refused;
        };
        // The superblock of ext begins at byte 1024, that of xfs is the first sector, that of btrfs
        // stands at 64 KiB.
        let has_superblock = match self.variant {
            Variant::Whole => true,
            Variant::WithoutFirstSector => kind != FsType::Xfs,
            Variant::WithoutFirstPage => kind == FsType::Btrfs,
            Variant::FirstHalf | Variant::Unreadable => false,
        };
        let serves = FsType::named(wish).is_none_or(|wished| wished.accepts(kind));
        match self.image.mount() {
            _ if !has_superblock || !serves => Fate::Refused,
            Mount::As(_) => Fate::Mounted,
            _ => Fate::MountedOrRefused,
        }
    }

    /// The very file system that was there before.
    fn is_what_it_was(&self, uuid: &[u8; 16]) -> Result<(), String> {
        let folder = self.volume.global();
        let kind = only_mount_at(&folder).fs_type;
        let (Mount::As(wanted) | Mount::Perhaps(wanted)) = self.image.mount() else {
            return Err(format!("mounted as {kind}"));
        };
        let marker = files::read_to_string(folder.join(MARKER)).unwrap_or_default();
        if kind != wanted.name() && !(wanted == FsType::Ext3 && kind == "ext4") {
            Err(format!("mounted as {kind}"))
        } else if *uuid != self.uuid() {
            Err("another UUID".to_owned())
        } else if marker != MARKER_TEXT {
            Err(format!("the marker reads {marker:?}"))
        } else {
            Ok(())
        }
    }

    /// The bytes where a file system of ours has its UUID.
    fn uuid(&self) -> [u8; 16] {
        let head: [u8; 0x1_1000] = files::head(&self.plain);
        let at = match &head {
            head if head.starts_with(b"XFSB") => 32,
            head if head[0x1_0040..].starts_with(b"_BHRfS_M") => 0x1_0020,
            _ => 1024 + 0x68,
        };
        head[at..at + 16].try_into().unwrap()
    }

    /// A refusal is about this disk, and an unreadable one is told from one with data.
    fn is_well_said(&self, answer: &Answer) -> Result<(), String> {
        let message = answer.json["message"].as_str().unwrap_or_default();
        let is_about_the_disk = message.contains(&self.volume.letter());
        let is_unreadable =
            ["unreadable", "input/output error"].iter().any(|words| message.contains(words));
        // What else is there to be read may tell whose the disk is before the bad sector is met.
        let is_named = message.contains("its mark stands at offset");
        if is_about_the_disk && (is_unreadable == self.failing.is_some() || is_named) {
            Ok(())
        } else {
            Err(format!("unclear: {message}"))
        }
    }
}
