//! Parts of the kernel that use a disk or a file on it: devices made of the disk, loop devices and
//! swap areas. They have no process that could be named.

use super::namespaces::{Namespace, Namespaces};
use super::proc::{Proc, has_ended};
use super::timeout;
use crate::host::device_nodes::number_of;
use crate::host::files;
use crate::host::kernel::{LoopStatus, loop_status, place_of};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::errno_text;
use crate::model::mount::disk_users::{KernelUse, Untold};
use crate::model::mount::mountinfo::unescape;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the kernel appends to the path of a file that was removed.
const DELETED: &[u8] = b" (deleted)";

/// Where to look.
pub(super) struct Kernel<'a> {
    pub(super) proc: &'a Proc,
    pub(super) sysfs: &'a Path,
    pub(super) dev: &'a Path,
    pub(super) every: &'a Namespaces,
    pub(super) numbers: &'a [DeviceNumber],
}

/// What was found, and what could not be read.
#[derive(Default)]
pub(super) struct KernelFound {
    pub(super) uses: Vec<KernelUse>,
    pub(super) untold: Vec<Untold>,
}

impl KernelFound {
    fn miss(&mut self, what: String, why: &io::Error) {
        self.untold.push(Untold::of_unknown(what, errno_text(why)));
    }
}

/// A loop device with something behind it.
#[derive(Debug, Clone)]
struct Loop {
    name: String,
    node: PathBuf,
    number: DeviceNumber,
    file: PathBuf,
    /// Whether some namespace has one of the file systems where the file's path leads.
    may_be_ours: bool,
}

impl Kernel<'_> {
    pub(super) fn users(&self) -> KernelFound {
        let mut found = KernelFound::default();
        self.holders(&mut found);
        self.loops(&mut found);
        self.swaps(&mut found);
        found
    }

    fn holders(&self, found: &mut KernelFound) {
        for number in self.numbers {
            let folder = self.sysfs.join(format!("dev/block/{number}/holders"));
            match fs::read_dir(&folder) {
                Ok(entries) => {
                    for entry in entries {
                        match entry {
                            Ok(entry) => found.uses.push(holder(&entry)),
                            Err(error) => found.miss(folder.display().to_string(), &error),
                        }
                    }
                }
                // The disk is gone, and nothing can be made of it any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => found.miss(folder.display().to_string(), &error),
            }
        }
    }

    fn loops(&self, found: &mut KernelFound) {
        let block = self.sysfs.join("block");
        let entries = fs::read_dir(&block).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return found.miss(block.display().to_string(), &error),
        };
        let mut loops = Vec::new();
        for name in entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()) {
            match files::unless_lack(self.loop_of(&name)) {
                Ok(one) => loops.extend(one.flatten()),
                Err(error) => found.miss(format!("what is behind {name}"), &error),
            }
        }
        for (one, answer) in timeout::ask(loops, ask_loop) {
            let is_ours = |number| self.numbers.contains(&number);
            let uses = match answer.unwrap_or_else(|| Err(io::Error::other("no answer"))) {
                Ok(Some(status)) => is_ours(status.file_system()) || is_ours(status.disk()),
                Ok(None) => false,
                // Nothing is behind it any more, or it is gone.
                Err(error)
                    if has_ended(&error) || error.raw_os_error() == Some(Errno::ENXIO as i32) =>
                {
                    false
                }
                Err(_) if one.may_be_ours => true,
                Err(error) => {
                    let what = format!("what is behind {} ({})", one.name, one.file.display());
                    found.miss(what, &error);
                    false
                }
            };
            if uses {
                found.uses.push(KernelUse::Loop { device: one.name, file: one.file });
            }
        }
    }

    fn loop_of(&self, name: &str) -> io::Result<Option<Loop>> {
        let folder = self.sysfs.join("block").join(name);
        let file = fs::read(folder.join("loop/backing_file"))?;
        let file = file.strip_suffix(b"\n").unwrap_or(&file);
        let Ok(number) = fs::read_to_string(folder.join("dev"))?.parse() else { return Ok(None) };
        let kept = Path::new(OsStr::from_bytes(file.strip_suffix(DELETED).unwrap_or(file)));
        Ok(Some(Loop {
            node: self.dev.join(name),
            name: name.to_owned(),
            number,
            may_be_ours: self.may_be_ours(kept),
            file: PathBuf::from(OsStr::from_bytes(file)),
        }))
    }

    /// Whether in some namespace the path leads into one of the file systems.
    fn may_be_ours(&self, path: &Path) -> bool {
        self.every.all.iter().any(|namespace| self.leads_to_ours(namespace, path))
    }

    fn leads_to_ours(&self, namespace: &Namespace, path: &Path) -> bool {
        let found = namespace.table.covering(path);
        found.is_some_and(|mount| self.numbers.contains(&mount.number))
    }

    fn swaps(&self, found: &mut KernelFound) {
        let text = match self.proc.read("swaps") {
            Ok(text) => text,
            // A kernel without swap.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return found.miss("the swap areas".to_owned(), &error),
        };
        let areas = text.split(|byte| *byte == b'\n').skip(1).filter_map(area).collect();
        let look = |path: &PathBuf| place_at(path);
        for (path, place) in timeout::ask(areas, look) {
            let uses = match place.unwrap_or(Err(Errno::ETIMEDOUT)) {
                Ok(place) => match place.disk {
                    Some(disk) => self.numbers.contains(&disk),
                    None => self.numbers.contains(&place.file_system),
                },
                // The path is another namespace's, or of a node that is not here.
                Err(errno) => {
                    let is_ours = self.may_be_ours(&path) || self.is_named(&path);
                    if !is_ours {
                        found.miss(
                            format!("where the swap area {} is", path.display()),
                            &errno.into(),
                        );
                    }
                    is_ours
                }
            };
            if uses {
                found.uses.push(KernelUse::Swap(path));
            }
        }
    }

    /// Whether the path ends in the kernel's name of one of the disks.
    fn is_named(&self, path: &Path) -> bool {
        let name_of = |number: &DeviceNumber| {
            let folder = self.sysfs.join(format!("dev/block/{number}"));
            Some(fs::canonicalize(folder).ok()?.file_name()?.to_owned())
        };
        self.numbers.iter().filter_map(name_of).any(|name| path.file_name() == Some(&name))
    }
}

/// A device that is made of the disk.
fn holder(entry: &fs::DirEntry) -> KernelUse {
    let fact = |file| fs::read_to_string(entry.path().join(file));
    let text = |file| fact(file).unwrap_or_default().trim().to_owned();
    let device = entry.file_name().to_string_lossy().into_owned();
    KernelUse::Holder { device, name: text("dm/name"), kind: text("dm/uuid") }
}

/// What the kernel says is behind a loop device; nothing if its file is seen elsewhere.
///
/// As long as a device is open somewhere its owner cannot take the file off at once. So only those
/// are opened whose file may be ours, is a disk, or is not to be seen where its path leads.
fn ask_loop(one: &Loop) -> io::Result<Option<LoopStatus>> {
    if !one.may_be_ours {
        let bytes = one.file.as_os_str().as_bytes();
        let seen = match bytes.strip_suffix(DELETED) {
            Some(_) => one.file.parent().unwrap_or(&one.file),
            None => &one.file,
        };
        if place_at(seen).is_ok_and(|place| place.disk.is_none()) {
            return Ok(None);
        }
    }
    let device = File::open(&one.node)?;
    if number_of(&device.metadata()?) != Some(one.number) {
        return Err(io::Error::other(format!("{} is another device", one.node.display())));
    }
    Ok(Some(loop_status(&device)?))
}

fn place_at(path: &Path) -> nix::Result<crate::host::kernel::FileLocation> {
    let root = File::open("/").map_err(|_| Errno::EIO)?;
    place_of(root, path.to_str().ok_or(Errno::EILSEQ)?)
}

/// The path of a swap area from its line in `/proc/swaps`: the first field, with blanks and their
/// like in octal.
fn area(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(u8::is_ascii_whitespace).next()?;
    let path = unescape(field);
    let path = path.strip_suffix(DELETED).unwrap_or(&path);
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_areas_are_read_from_their_first_field() {
        let line = b"/a\\040b/swap                             file\t\t4092\t\t0\t\t-2";
        assert_eq!(area(line), Some(PathBuf::from("/a b/swap")));
        assert_eq!(area(b"/dev/vdb\\040(deleted)  partition 1 0 -2"), Some("/dev/vdb".into()));
        assert_eq!(area(b""), None);
    }
}
