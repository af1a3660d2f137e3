//! Parts of the kernel that use a disk or a file on it: devices made of the disk, loop devices and
//! swap areas. They have no process that could be named.

use super::answers::DELETED;
use super::inspection::Inspection;
use super::question::{Question, Why};
use super::scan::{Party, Response};
use crate::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Result, errno_text};
use crate::model::mount::disk_users::{DeviceUses, KernelUse, Untold};
use crate::model::mount::mountinfo::unescape;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A loop device with something behind it.
#[derive(Debug)]
struct Loop {
    name: String,
    file: PathBuf,
    /// Whether some namespace has one of the file systems where the file's path leads.
    may_be_ours: bool,
    question: Question,
}

impl Inspection<'_> {
    pub(super) fn add_kernel_users(&mut self, uses: &mut DeviceUses) -> Result<()> {
        self.holders(uses);
        self.loops(uses)?;
        self.swaps(uses)
    }

    fn holders(&self, uses: &mut DeviceUses) {
        for number in &self.filter.numbers {
            let folder = self.setting.sysfs.join(format!("dev/block/{number}/holders"));
            match fs::read_dir(&folder) {
                Ok(entries) => {
                    for entry in entries {
                        match entry {
                            Ok(entry) => uses.kernel.push(holder(&entry)),
                            Err(error) => {
                                miss(uses, folder.display().to_string(), errno_text(&error));
                            }
                        }
                    }
                }
                // The disk is gone, and nothing can be made of it any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => miss(uses, folder.display().to_string(), errno_text(&error)),
            }
        }
    }

    fn loops(&mut self, uses: &mut DeviceUses) -> Result<()> {
        let block = self.setting.sysfs.join("block");
        let entries = fs::read_dir(&block).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                miss(uses, block.display().to_string(), errno_text(&error));
                return Ok(());
            }
        };
        let mut loops = Vec::new();
        for name in entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()) {
            match files::unless_lack(self.loop_of(&name)) {
                Ok(one) => loops.extend(one.flatten()),
                Err(error) => miss(uses, format!("what is behind {name}"), errno_text(&error)),
            }
        }
        let told = self.ask_for_root(loops.iter().map(|one| one.question.clone()))?;
        for (one, told) in loops.into_iter().zip(told) {
            let is_used = match told.result() {
                Ok(found) => !found.is_empty(),
                Err(Why::Failed(failure)) if failure.is(Errno::ENXIO) => false,
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

    fn ask_for_root(&mut self, questions: impl Iterator<Item = Question>) -> Result<Vec<Response>> {
        let asked: Vec<_> = questions.map(|question| (Party::Root, question)).collect();
        self.ask(&asked)
    }

    fn loop_of(&self, name: &str) -> io::Result<Option<Loop>> {
        let folder = self.setting.sysfs.join("block").join(name);
        let file = fs::read(folder.join("loop/backing_file"))?;
        let file = file.strip_suffix(b"\n").unwrap_or(&file);
        let Ok(number) = fs::read_to_string(folder.join("dev"))?.parse() else { return Ok(None) };
        let kept = Path::new(OsStr::from_bytes(file.strip_suffix(DELETED).unwrap_or(file)));
        let (node, may_be_ours) = (self.setting.dev.join(name), self.may_be_ours(kept));
        let (name, file) = (name.to_owned(), PathBuf::from(OsStr::from_bytes(file)));
        let question = Question::Loop { node, number, file: file.clone().into(), may_be_ours };
        Ok(Some(Loop { name, file, may_be_ours, question }))
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
                miss(uses, "the swap areas".to_owned(), errno_text(&error));
                return Ok(());
            }
        };
        let lines = text.split(|byte| *byte == b'\n').skip(1);
        let areas: Vec<PathBuf> = lines.filter_map(area).collect();
        let told = self.ask_for_root(areas.iter().map(|area| Question::Swap(area.into())))?;
        for (path, told) in areas.into_iter().zip(told) {
            let Err(why) = told.end else {
                if !told.found.is_empty() {
                    uses.kernel.push(KernelUse::Swap(path));
                }
                continue;
            };
            // The path is another namespace's, or of a node that is not here.
            if self.may_be_ours(&path) || self.is_named(&path) {
                uses.kernel.push(KernelUse::Swap(path));
            } else {
                miss(uses, format!("where the swap area {} is", path.display()), why.text());
            }
        }
        Ok(())
    }

    /// Whether the path ends in the kernel's name of one of the disks.
    fn is_named(&self, path: &Path) -> bool {
        let name_of = |number: &DeviceNumber| {
            let folder = self.setting.sysfs.join(format!("dev/block/{number}"));
            Some(fs::canonicalize(folder).ok()?.file_name()?.to_owned())
        };
        self.filter.numbers.iter().filter_map(name_of).any(|name| path.file_name() == Some(&name))
    }
}

fn miss(uses: &mut DeviceUses, what: String, why: String) {
    uses.untold.push(Untold::of_unknown(what, why));
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
