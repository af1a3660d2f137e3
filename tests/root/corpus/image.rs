//! Images and how they are made.

use super::variant::Variant;
use crate::files;
use crate::support::{output_of, with_files};
use incloud_disk::model::disk::contents::FsType;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The file in the file systems that are made with contents.
pub const MARKER: &str = "marker";
pub const MARKER_TEXT: &str = "of the corpus\n";

/// What every maker's line finds before it. It runs in a folder of its own with `disk`, the image,
/// sparse and of its full size; `tree`, a folder with the marker and a file of some size; and
/// `proto`, which makes mkfs.xfs take the marker.
const PRELUDE: &str = r#"
PATH=$PATH:/usr/sbin:/sbin
# put FILE: writes it to the beginning of the disk.
put() { dd if="$1" of=disk conv=notrunc status=none; }
# on_loop COMMAND...: with the disk as a loop device, which is the command's last argument.
on_loop() {
    device=$(losetup --find --show "$PWD/disk") || return
    "$@" "$device"
    set -- $?
    losetup -d "$device"
    return "$1"
}
"#;

/// The shell's status for a program that is not there.
const NOT_FOUND: i32 = 127;

/// An image of the corpus.
#[derive(Debug)]
pub struct Image {
    size: u64,
    /// What blkid calls it, as type or as partition table; empty where it has no name for it.
    shows: &'static str,
    /// A line for the shell.
    maker: &'static str,
    mount: Mount,
    blank: &'static [Variant],
    is_grabbed_by_udev: bool,
}

/// Whether the driver may mount the image, for it is what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount {
    Never,
    /// It must.
    As(FsType),
    /// It may: whether this kernel can depends on how it was built.
    Perhaps(FsType),
}

/// An image that a tool makes.
pub fn made(mib: u64, shows: &'static str, maker: &'static str) -> Image {
    Image {
        size: mib << 20,
        shows,
        maker,
        mount: Mount::Never,
        blank: &[],
        is_grabbed_by_udev: false,
    }
}

impl Image {
    pub fn mounts_as(self, kind: FsType) -> Self {
        Self { mount: Mount::As(kind), ..self }
    }

    pub fn may_mount_as(self, kind: FsType) -> Self {
        Self { mount: Mount::Perhaps(kind), ..self }
    }

    /// The variants in which nothing is left but zeros: those are formatted knowingly.
    pub fn blank_when(self, blank: &'static [Variant]) -> Self {
        Self { blank, ..self }
    }

    /// Where udev runs, its rules may put such a disk together with others and keep it.
    pub fn grabbed_by_udev(self) -> Self {
        Self { is_grabbed_by_udev: true, ..self }
    }

    pub fn mount(&self) -> Mount {
        self.mount
    }

    pub fn is_blank_as(&self, variant: Variant) -> bool {
        self.blank.contains(&variant)
    }

    /// Makes the image in a new folder; or says why that cannot be here.
    pub fn make(&self, folder: &Path) -> Result<PathBuf, String> {
        if self.is_grabbed_by_udev && Path::new("/run/udev/control").exists() {
            return Err("udev runs here and may take the disk for itself".to_owned());
        }
        fs::create_dir_all(folder.join("tree")).unwrap();
        let disk = folder.join("disk");
        with_files(|| File::create(&disk).unwrap().set_len(self.size).unwrap());
        run_line(self.maker, folder)?;
        self.must_be_what_it_says(&disk);
        Ok(disk)
    }

    #[track_caller]
    fn must_be_what_it_says(&self, disk: &Path) {
        assert_eq!(fs::metadata(disk).unwrap().len(), self.size, "its maker changed its size");
        if self.shows.is_empty() {
            return;
        }
        let output = output_of(Command::new("blkid").args(["-p", "-o", "export"]).arg(disk));
        let text = String::from_utf8_lossy(&output.stdout);
        let is_named = |line: &str| {
            let value = line.strip_prefix("TYPE=").or_else(|| line.strip_prefix("PTTYPE="));
            value == Some(self.shows)
        };
        assert!(text.lines().any(is_named), "blkid does not call it {}: {text}", self.shows);
    }
}

fn run_line(line: &str, folder: &Path) -> Result<(), String> {
    let tree = folder.join("tree");
    files::write(tree.join(MARKER), MARKER_TEXT).unwrap();
    // Nothing that can be compressed away.
    files::write(tree.join("large"), crate::checks::random_bytes(100_000)).unwrap();
    let proto = format!("/\n0 0\nd--755 0 0\n{MARKER} ---644 0 0 tree/{MARKER}\n$\n");
    files::write(folder.join("proto"), proto).unwrap();
    let script = format!("{PRELUDE}{line}\n");
    let output = output_of(Command::new("sh").args(["-c", &script]).current_dir(folder));
    match output.status.code() {
        Some(0) => Ok(()),
        // `sh: 13: mkfs.hfsplus: not found`
        Some(NOT_FOUND) => Err(format!(
            "{} is not installed",
            last_line(&output).rsplit(": ").nth(1).unwrap_or("its maker")
        )),
        // Another release of the tool may not have the option any more.
        _ => Err(format!("its maker refuses here: {}", last_line(&output))),
    }
}

fn last_line(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.unwrap_or("it said nothing").to_owned()
}
