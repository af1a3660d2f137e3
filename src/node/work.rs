//! A word on a machine, from its reading to its exit status.

use super::console::{Console, NodeResult, Stop};
use super::options::{self, NodeWord};
use super::site::{OwnProgram, Site};
use super::{install, uninstall, verify};
use crate::host::machine;
use nix::sys::stat::{Mode, umask};

/// Does what the words say; answers the exit status.
#[must_use]
pub fn run(words: &[String], own: OwnProgram, console: Console) -> u8 {
    match perform(words, own, console) {
        Ok(()) => 0,
        Err(stop) => {
            console.warn(&stop.text);
            stop.status
        }
    }
}

fn perform(words: &[String], own: OwnProgram, console: Console) -> NodeResult {
    let (word, options) = options::read(words)?;
    // What others are to read is made for all, whatever the person's habit is.
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let site = Site::new(word, options, console);
    let changes = word != NodeWord::Verify && !site.options.dry_run;
    if changes && site.is_this_machine() && !machine::is_root() {
        return Err(Stop::new(format!(
            "{word} changes this machine, which needs root: sudo ./install.sh {word}"
        )));
    }
    match word {
        NodeWord::Install | NodeWord::Upgrade => install::run(&site, own),
        NodeWord::Rollback => install::roll_back(&site),
        NodeWord::Verify => verify::run(&site),
        NodeWord::Uninstall => uninstall::run(&site),
    }
}
