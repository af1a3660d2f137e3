//! Parts of the kernel that use a disk or a file on it: devices made of the disk, loop devices and
//! swap areas. They have no process that could be named.

use super::answers::DELETED;
use super::inspection::Inspection;
use super::question::Question;
use super::scan::Party;
use crate::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Result, errno_text};
use crate::model::mount::disk_users::{DeviceUses, KernelUse, Untold};
use crate::model::mount::mountinfo::unescape;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A loop device with something behind it.
#[derive(Debug)]
struct Loop {
    name: String,
    number: DeviceNumber,
    file: PathBuf,
    /// Whether some namespace has one of the file systems where the file's path leads.
    may_be_ours: bool,
}

impl Inspection<'_> {
    pub(super) fn add_kernel_users(&mut self, uses: &mut DeviceUses) -> Result<()> {
        for number in &self.filter.numbers {
            let folder = self.setting.root.join(format!("sys/dev/block/{number}/holders"));
            match entries(&folder) {
                Ok(entries) => uses.kernel.extend(entries.iter().map(holder)),
                // The disk is gone, and nothing can be made of it any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => miss(uses, folder.display(), errno_text(&error)),
            }
        }
        self.loops(uses)?;
        self.swaps(uses)
    }

    fn loops(&mut self, uses: &mut DeviceUses) -> Result<()> {
        let (block, dev) = (self.setting.root.join("sys/block"), self.setting.root.join("dev"));
        let all = entries(&block).unwrap_or_else(|error| {
            miss(uses, block.display(), errno_text(&error));
            Vec::new()
        });
        let mut loops = Vec::new();
        for name in all.into_iter().filter_map(|entry| entry.file_name().into_string().ok()) {
            match files::unless_lack(self.loop_of(&block.join(&name), &name)) {
                Ok(one) => loops.extend(one.flatten().map(|one| (Party::Root, one))),
                Err(error) => miss(uses, format!("what is behind {name}"), errno_text(&error)),
            }
        }
        let question = |one: &Loop| Question::Loop {
            node: dev.join(&one.name),
            number: one.number,
            file: one.file.clone().into(),
            may_be_ours: one.may_be_ours,
        };
        for (_, one, told) in self.ask(loops, question)? {
            let is_used = match told.result() {
                Ok(found) => !found.is_empty(),
                Err(why) if why.is(Errno::ENXIO) => false,
                Err(_) if one.may_be_ours => true,
                Err(why) => {
                    let what = format!("what is behind {} ({})", one.name, one.file.display());
                    miss(uses, what, why.text());
                    false
                }
            };
            if is_used {
                uses.kernel.push(KernelUse::Loop { device: one.name, file: one.file });
            }
        }
        Ok(())
    }

    fn loop_of(&self, folder: &Path, name: &str) -> io::Result<Option<Loop>> {
        let file = fs::read(folder.join("loop/backing_file"))?;
        let file = file.strip_suffix(b"\n").unwrap_or(&file);
        let Ok(number) = fs::read_to_string(folder.join("dev"))?.parse() else { return Ok(None) };
        let kept = Path::new(OsStr::from_bytes(file.strip_suffix(DELETED).unwrap_or(file)));
        let (name, may_be_ours) = (name.to_owned(), self.may_be_ours(kept));
        Ok(Some(Loop { name, number, file: OsStr::from_bytes(file).into(), may_be_ours }))
    }

    /// Whether in some namespace the path leads into one of the file systems.
    fn may_be_ours(&self, path: &Path) -> bool {
        self.all.iter().any(|namespace| {
            let found = namespace.table.covering(path);
            found.is_some_and(|mount| self.filter.numbers.contains(&mount.number))
        })
    }

    fn swaps(&mut self, uses: &mut DeviceUses) -> Result<()> {
        let text = match self.proc.read("swaps") {
            Ok(text) => text,
            // A kernel without swap.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                miss(uses, "the swap areas", errno_text(&error));
                return Ok(());
            }
        };
        let lines = text.split(|byte| *byte == b'\n').skip(1);
        let areas = lines.filter_map(|line| Some((Party::Root, area(line)?))).collect();
        for (_, path, told) in self.ask(areas, |path: &PathBuf| Question::Swap(path.into()))? {
            let Err(why) = told.end else {
                if !told.found.is_empty() {
                    uses.kernel.push(KernelUse::Swap(path));
                }
                continue;
            };
            // The path is another namespace's.
            if self.may_be_ours(&path) {
                uses.kernel.push(KernelUse::Swap(path));
            } else {
                miss(uses, format!("where the swap area {} is", path.display()), why.text());
            }
        }
        Ok(())
    }
}

fn miss(uses: &mut DeviceUses, what: impl Display, why: String) {
    uses.untold.push(Untold::of_unknown(what.to_string(), why));
}

fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    fs::read_dir(folder)?.collect()
}

/// A device that is made of the disk.
fn holder(entry: &fs::DirEntry) -> KernelUse {
    let fact = |file| fs::read_to_string(entry.path().join(file));
    let text = |file| fact(file).unwrap_or_default().trim().to_owned();
    let device = entry.file_name().to_string_lossy().into_owned();
    KernelUse::Holder { device, name: text("dm/name"), kind: text("dm/uuid") }
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
