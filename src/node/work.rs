//! A word on a machine, from its reading to its exit status.

use super::brought::BroughtFiles;
use super::console::{Console, NodeResult, Stop};
use super::options::{self, NodeWord};
use super::site::{OwnProgram, Site};
use super::{ending, install, uninstall, verify};
use crate::host::machine;
use crate::model::error::Result;
use nix::sys::stat::{Mode, umask};

/// Does what the words say on the machine that `enter` enters; answers the exit status.
pub fn run(words: &[String], console: Console, enter: impl FnOnce() -> Result<()>) -> u8 {
    match perform(words, console, enter) {
        Ok(()) => 0,
        Err(stop) => {
            console.warn(&stop.text);
            stop.status
        }
    }
}

fn perform(words: &[String], console: Console, enter: impl FnOnce() -> Result<()>) -> NodeResult {
    let own = OwnProgram::open()?;
    let (word, options) = options::read(words)?;
    // They are named where this was called: the machine's root may be another one.
    let brought = BroughtFiles::read(&options)?;
    enter()?;
    // What others are to read is made for all, whatever the person's habit is.
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let site = Site::new(word, options, own, console);
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
        NodeWord::Install | NodeWord::Upgrade => install::run(&site, &brought),
        NodeWord::Rollback => install::roll_back(&site),
        NodeWord::Verify => verify::run(&site),
        NodeWord::Uninstall => uninstall::run(&site),
    }
}
