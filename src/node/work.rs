//! A word on a machine, from its reading to its exit status.

use super::brought::BroughtFiles;
use super::console::{Console, NodeResult, Stop};
use super::options::{self, NodeWord};
use super::site::{OwnProgram, Site};
use super::{ending, install, uninstall, verify};
use crate::host::machine;
use crate::model::error::Result;
use nix::sys::stat::{Mode, umask};

/// The files that the words name, or why one cannot be read.
pub type Brought = Result<BroughtFiles>;

/// Reads what the words name where the program was called. Words that are wrong are told later.
pub fn brought(words: &[String]) -> Brought {
    options::read(words)
        .map_or_else(|_| Ok(BroughtFiles::default()), |(_, o)| BroughtFiles::read(&o))
}

/// Does what the words say; answers the exit status.
#[must_use]
pub fn run(words: &[String], own: OwnProgram, brought: Brought, console: Console) -> u8 {
    match perform(words, own, brought, console) {
        Ok(()) => 0,
        Err(stop) => {
            console.warn(&stop.text);
            stop.status
        }
    }
}

fn perform(words: &[String], own: OwnProgram, brought: Brought, console: Console) -> NodeResult {
    let (word, options) = options::read(words)?;
    let brought = brought?;
    // What others are to read is made for all, whatever the person's habit is.
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let site = Site::new(word, options, console);
    let changes = word != NodeWord::Verify && !site.options.dry_run;
    if changes && site.is_this_machine() && !machine::is_root() {
        return Err(Stop::new(format!(
            "{word} changes this machine, which needs root: sudo ./install.sh {word}"
        )));
    }
    if changes {
        ending::watch();
    }
    match word {
        NodeWord::Install | NodeWord::Upgrade => install::run(&site, own, &brought),
        NodeWord::Rollback => install::roll_back(&site),
        NodeWord::Verify => verify::run(&site),
        NodeWord::Uninstall => uninstall::run(&site),
    }
}
