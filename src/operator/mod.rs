//! The face that people see: verbs that answer text.

mod acting;
mod configured;
mod doctor;
mod explain;
mod format;
mod heal;
mod history;
mod holders;
mod journal;
mod kernel_story;
mod kubelet_search;
mod kubelet_story;
mod kubelet_words;
pub mod local;
mod naming;
mod node;
mod node_servers;
mod on_node;
mod release;
mod report;
mod rows;
mod status;
mod sweep;
mod switched;
mod tear_downs;
mod terminal;
pub mod timeline;
mod views;
mod waits;

use self::acting::recorded;
use crate::app;
use crate::cli::views::Looking;
use crate::cli::{NodeNameArgument, Verb};
use crate::host::machine;
use crate::model::error::{Error, Result};
use crate::supervisor::Failing;
use std::time::Duration;

pub use terminal::Stage;

/// How long a verb that hangs in the kernel is waited for: the break-glasses must answer.
const WITH_HANGING: Duration = Duration::from_secs(10);

/// Which process runs a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsIn {
    /// This one: the verb touches no disk, or has a worker for each part of its work.
    ThisProcess,
    /// A worker, which is given up after so long in one and the same system call.
    Worker(Option<Duration>),
}

/// Which process runs a verb.
pub fn runs_in(verb: &Verb) -> RunsIn {
    match verb {
        Verb::Node { .. }
        | Verb::Heal { volume: None, .. }
        | Verb::Look(
            Looking::Names
            | Looking::Completions { .. }
            | Looking::Man { .. }
            | Looking::History(_),
        ) => RunsIn::ThisProcess,
        Verb::Detach { .. } | Verb::Release { .. } => RunsIn::Worker(Some(WITH_HANGING)),
        // A monitor asks again soon, and what hangs would be more each time.
        verb if is_check(verb) => RunsIn::Worker(Some(WITH_HANGING)),
        Verb::Look(_) | Verb::Local(_) | Verb::Heal { .. } | Verb::Format { .. } => {
            RunsIn::Worker(None)
        }
    }
}

/// What is said of a verb that came to nothing: a monitor takes each error for a volume that is harmed,
/// unless it gets its line and the status that say that nothing was seen.
pub fn failing(verb: &Verb) -> Failing {
    if is_check(verb) {
        return Failing {
            status: rows::UNKNOWN,
            text: |error| rows::not_seen(&error.to_string()),
            is_answer: true,
        };
    }
    Failing { status: 1, text: |error| format!("disk: {error}\n"), is_answer: false }
}

fn is_check(verb: &Verb) -> bool {
    match verb {
        Verb::Look(Looking::Status(arguments)) => arguments.check,
        Verb::Node { words, .. } => on_node::is_check(words),
        _ => false,
    }
}

/// Whether only root can do it.
fn needs_root(verb: &Verb) -> bool {
    match verb {
        Verb::Detach { .. } | Verb::Release { .. } | Verb::Heal { .. } | Verb::Format { .. } => {
            true
        }
        Verb::Look(_) | Verb::Local(_) | Verb::Node { .. } => false,
    }
}

/// The command as it was typed.
fn as_typed() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    ["disk".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Does what the verb says, and speaks on the stage; answers the exit status.
pub fn run(verb: Verb, stage: &mut Stage<'_>) -> Result<u8> {
    if needs_root(&verb) && !machine::is_root() {
        // A word that was left out here could do more than was asked for.
        return Err(Error::bad_call(format!("this needs root: sudo {}", as_typed())));
    }
    let text = match verb {
        Verb::Look(verb) => return views::run(&verb, stage),
        Verb::Node { words, .. } if words[0] == "servers" => {
            return node_servers::run(&words[1..], stage);
        }
        Verb::Node { root, every, words } => return node::run(root.as_deref(), every, &words),
        Verb::Local(verb) => local::run(verb, &app::load_config()?.0)?,
        Verb::Detach { volume, node, dry_run, .. } => {
            let node = node.map(|NodeNameArgument(node)| node);
            recorded(("detach --force", dry_run), &volume, |driver, id| {
                release::detach(driver, id, node.as_ref(), dry_run)
            })?
        }
        // clap wants one, or --waits.
        Verb::Release { volume: None, dry_run, .. } => waits::end_all(dry_run)?,
        Verb::Release { volume: Some(volume), end_users, dry_run, .. } => {
            recorded(("release", dry_run), &volume, |driver, id| {
                if end_users {
                    return release::end_users(driver, id, dry_run);
                }
                release::release(driver, id, dry_run)
            })?
        }
        Verb::Heal { volume: Some(volume), adopt, end_holders, dry_run, .. } => {
            let mut status = 0;
            let text = recorded(("heal", dry_run), &volume, |driver, id| {
                let request = heal::HealRequest { adopt, end_holders, dry_run };
                heal::run(driver, id, request, &mut status)
            })?;
            stage.say(&text);
            return Ok(status);
        }
        Verb::Heal { device, watch, dry_run, .. } => {
            let (config, origin) = app::load_config()?;
            let origin = origin.as_deref();
            let (text, status) = sweep::run(device.as_deref(), watch, dry_run, &config, origin)?;
            stage.say(&text);
            return Ok(status);
        }
        Verb::Format { volume, fs_type, mkfs_options, yes, keep } => {
            let looks = !yes && keep.is_none();
            let request = format::FormatRequest { fs_type, mkfs_options, yes, keep };
            recorded(("format", looks), &volume, |driver, id| format::run(driver, id, &request))?
        }
    };
    stage.say(&text);
    Ok(0)
}
