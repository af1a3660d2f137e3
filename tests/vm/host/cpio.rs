//! Archives as the kernel unpacks them at boot (cpio, format `newc`); everything in them is root's.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Folders that are links into `/usr`, as every Debian has them.
const LINKED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// An archive that is being written.
#[derive(Debug)]
pub(crate) struct Archive<W> {
    output: W,
    number: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output, number: 0 }
    }

    /// All that is in a folder, at the same places of the archive; what is in `/lib` and the like
    /// comes to `/usr/lib`, for there a link leads.
    pub(crate) fn tree(&mut self, root: &Path) -> io::Result<()> {
        self.below(root, root)
    }

    fn below(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let name = merged(path.strip_prefix(root).unwrap_or(&path));
            let found = entry.metadata()?;
            let mode = found.permissions().mode() & 0o7777;
            let is_folder_of_link = LINKED.iter().any(|linked| name == Path::new(linked));
            if found.is_dir() && is_folder_of_link {
                self.below(root, &path)?;
            } else if found.is_dir() {
                // What a person may not read root may, and the person who packs may not be root.
                self.entry(&name, FOLDER | mode, &[])?;
                self.below(root, &path)?;
            } else if found.is_symlink() {
                let target = fs::read_link(&path)?;
                self.entry(&name, LINK | 0o777, target.as_os_str().as_bytes())?;
            } else if found.is_file() {
                self.entry(&name, FILE | mode, &fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    /// A folder that need not be anywhere.
    pub(crate) fn folder(&mut self, name: &str) -> io::Result<()> {
        self.entry(Path::new(name), FOLDER | 0o755, &[])
    }

    pub(crate) fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entry(Path::new(name), FILE | mode, content)
    }

    pub(crate) fn link(&mut self, name: &str, target: &str) -> io::Result<()> {
        self.entry(Path::new(name), LINK | 0o777, target.as_bytes())
    }

    /// Ends the archive; another one may follow in the same file.
    pub(crate) fn end(mut self) -> io::Result<W> {
        self.entry(Path::new("TRAILER!!!"), 0, &[])?;
        Ok(self.output)
    }

    fn entry(&mut self, name: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        self.number += 1;
        let name = name.as_os_str().as_bytes();
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let length = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        // ino, mode, uid, gid, nlink, mtime, filesize, dev (2), rdev (2), namesize, check
        let fields = [self.number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0];
        let mut head = b"070701".to_vec();
        for field in fields {
            head.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        head.extend_from_slice(name);
        head.push(0);
        pad(&mut head);
        self.output.write_all(&head)?;
        self.output.write_all(content)?;
        self.output.write_all(&[0; 3][..content.len().next_multiple_of(4) - content.len()])
    }
}

/// A folder of that name would take the place of the link that leads to its twin in `/usr`.
fn merged(name: &Path) -> PathBuf {
    let first = name.components().next().map(Component::as_os_str);
    let is_linked = first.is_some_and(|first| LINKED.iter().any(|linked| first == *linked));
    let is_link = name.components().count() == 1;
    if is_linked && !is_link { Path::new("usr").join(name) } else { name.to_owned() }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}
