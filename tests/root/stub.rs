//! A script in the place of a program of the system, in this test's mount namespace alone.

use crate::support::with_files;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The script; dropped, the program is there again.
#[derive(Debug)]
pub struct Stub {
    program: PathBuf,
}

impl Stub {
    /// Puts a shell script over a program, by its full path; the script's file is beside what it answers.
    #[track_caller]
    pub fn over(program: &str, folder: &Path, script: &str) -> Self {
        let file = folder.join("stub");
        with_files(|| {
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        });
        Self::with(&file, program)
    }

    /// The program is not there: what stands at its path is none.
    #[track_caller]
    pub fn none(program: &str) -> Self {
        Self::with(Path::new("/dev/null"), program)
    }

    #[track_caller]
    fn with(file: &Path, program: &str) -> Self {
        let program = fs::canonicalize(program).unwrap();
        let nothing = None::<&str>;
        mount(Some(file), &program, nothing, MsFlags::MS_BIND, nothing).unwrap();
        Self { program }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = umount2(&self.program, MntFlags::MNT_DETACH);
    }
}
