//! Trouble with a folder of the machine: it is full, read-only, gone, or its disk hangs.

use crate::hanging_calls::Frozen;
use crate::own_files::Own;
use crate::support::{Node, with_files};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Full,
    ReadOnly,
    Gone,
    Hanging,
}

/// A folder that can have it.
pub struct Trouble {
    fault: Fault,
    folder: PathBuf,
    own: Option<Own>,
    frozen: Option<Frozen>,
}

impl Trouble {
    /// Prepares a folder that has nothing in it yet.
    #[track_caller]
    pub fn ready(node: &Node, folder: &Path, fault: Fault) -> Self {
        fs::create_dir_all(folder).unwrap();
        let nothing = MsFlags::empty();
        match fault {
            Fault::Full | Fault::ReadOnly => {
                mount(Some("tmpfs"), folder, Some("tmpfs"), nothing, Some("size=1m")).unwrap();
            }
            Fault::Gone | Fault::Hanging => {}
        }
        let own = (fault == Fault::Hanging).then(|| Own::at(node, folder));
        Self { fault, folder: folder.to_path_buf(), own, frozen: None }
    }

    #[track_caller]
    pub fn begin(&mut self) {
        match self.fault {
            Fault::Full => with_files(|| {
                let mut filler = fs::File::create(self.filler()).unwrap();
                while filler.write_all(&[7; 4096]).is_ok() {}
            }),
            Fault::ReadOnly => self.remount(MsFlags::MS_RDONLY),
            Fault::Gone => fs::remove_dir_all(&self.folder).unwrap(),
            Fault::Hanging => self.frozen = Some(Frozen::at(&self.folder)),
        }
    }

    /// It is over; what was gone is there again, with nothing in it.
    #[track_caller]
    pub fn end(&mut self) {
        match self.fault {
            Fault::Full => fs::remove_file(self.filler()).unwrap(),
            Fault::ReadOnly => self.remount(MsFlags::empty()),
            Fault::Gone => fs::create_dir_all(&self.folder).unwrap(),
            Fault::Hanging => {
                let mut frozen = self.frozen.take().expect("it hangs");
                assert!(frozen.is_still(), "the test took too long to show anything");
            }
        }
    }

    fn remount(&self, flags: MsFlags) {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags;
        let nothing = None::<&str>;
        mount(nothing, &self.folder, nothing, flags, nothing).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.folder.join(".filler")
    }
}

impl Drop for Trouble {
    fn drop(&mut self) {
        drop(self.frozen.take());
        drop(self.own.take());
        if matches!(self.fault, Fault::Full | Fault::ReadOnly) {
            let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        }
    }
}
