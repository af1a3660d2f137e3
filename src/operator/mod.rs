//! The face that people see: verbs that answer text.

mod doctor;
mod explain;
mod format;
mod heal;
pub mod health;
mod history;
mod holders;
mod journal;
pub mod local;
mod node;
mod release;
mod status;
mod sweep;
mod terminal;
pub mod timeline;
mod views;

use crate::app::{LAYOUTS, TEAR_DOWNS};
use crate::cli::views::Looking;
use crate::cli::{NodeNameArgument, Verb, VolumeNameArgument};
use crate::configuration::Config;
use crate::driver::Driver;
use crate::driver::call_counts::Tally;
use crate::host::metrics::Report;
use crate::log;
use crate::model::deadline::Deadline;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::report::metrics::Sample;
use crate::watchdog::Patience;
use crate::wiring::{self, Setting};
use crate::{app, host};
use std::path::Path;
use std::time::{Duration, Instant};

/// People wait longer than kubelet should.
const PATIENCE: Duration = Duration::from_secs(600);

pub use terminal::Stage;

/// How long a person's verb waits for a volume's lock; then it says who has it.
const FOR_A_LOCK: Duration = Duration::from_secs(5);

/// How long a verb that hangs in the kernel is waited for: the break-glasses must answer.
const WITH_HANGING: Duration = Duration::from_secs(10);

/// How a worker is waited for that does what the verb says; nothing for a verb that touches no
/// disk, or that has a worker for each part of its work.
#[must_use]
pub fn patience(verb: &Verb) -> Option<Patience> {
    match verb {
        Verb::Node { .. }
        | Verb::Heal { volume: None, .. }
        | Verb::Look(Looking::Completions { .. } | Looking::Man { .. } | Looking::History(_)) => {
            None
        }
        Verb::Detach { .. } | Verb::Release { .. } => {
            Some(Patience { with_hanging: Some(WITH_HANGING) })
        }
        Verb::Look(_) | Verb::Local(_) | Verb::Heal { .. } | Verb::Format { .. } => {
            Some(Patience::default())
        }
    }
}

/// Does what the verb says, and speaks on the stage; answers the exit status.
pub fn run(verb: Verb, stage: &mut Stage<'_>) -> Result<u8> {
    let text = match verb {
        Verb::Look(verb) => return views::run(&verb, stage),
        verb => act(verb)?,
    };
    stage.say(&text);
    Ok(0)
}

/// Does what the verb says; answers the text to print.
fn act(verb: Verb) -> Result<String> {
    if let Verb::Node { root, every, words } = &verb {
        return node::run(root, *every, words);
    }
    let (config, origin) = app::load_config()?;
    match verb {
        Verb::Look(_) | Verb::Node { .. } => Ok(String::new()),
        Verb::Local(verb) => local::run(verb, &config),
        Verb::Detach { volume: VolumeNameArgument(volume), node, dry_run, .. } => {
            let node = node.map(|NodeNameArgument(node)| node);
            recorded(("detach --force", dry_run), &volume, &config, origin.as_deref(), |driver| {
                release::detach(driver, &volume, node.as_ref(), dry_run)
            })
        }
        Verb::Release { volume: VolumeNameArgument(volume), end_users, dry_run } => {
            recorded(("release", dry_run), &volume, &config, origin.as_deref(), |driver| {
                if end_users {
                    return release::end_users(driver, &volume, dry_run);
                }
                release::release(driver, &volume, dry_run)
            })
        }
        Verb::Heal { volume: Some(VolumeNameArgument(volume)), adopt, dry_run, .. } => {
            recorded(("heal", dry_run), &volume, &config, origin.as_deref(), |driver| {
                heal::run(driver, &volume, adopt, dry_run)
            })
        }
        Verb::Heal { device, watch, dry_run, .. } => {
            let whom = match device {
                Some(node) => sweep::Whom::Disk(node),
                None if watch => sweep::Whom::Coming,
                None => sweep::Whom::All,
            };
            sweep::run(&whom, dry_run, &config, origin.as_deref())
        }
        Verb::Format { volume: VolumeNameArgument(volume), fs_type, mkfs_options, yes } => {
            let wish = format::Wish { fs_type, mkfs_options, yes };
            recorded(("format", !yes), &volume, &config, origin.as_deref(), |driver| {
                format::run(driver, &volume, &wish)
            })
        }
    }
}

/// Lets a driver work for a person: who asked for what stands in the log, and whether it was only
/// asked for the plan.
fn recorded(
    (verb, dry_run): (&str, bool),
    volume: &VolumeName,
    config: &Config,
    origin: Option<&Path>,
    work: impl FnOnce(&Driver<'_>) -> Result<String>,
) -> Result<String> {
    let _is_logged = log::start(config);
    let id = log::new_call_id();
    let _span = tracing::error_span!("verb", id, op = verb).entered();
    let object = format!("volume {volume}");
    let dry_run = dry_run.then_some(true);
    tracing::info!(who = host::machine::who_asks(), object, dry_run, "begin");
    let begin = Instant::now();
    let done = measured(verb, config, origin, Deadline::after(PATIENCE), work);
    let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &done {
        Ok(_) => tracing::info!(duration_ms, "end"),
        Err(error) => {
            tracing::error!(duration_ms, kind = error.kind.word(), reason = %error, "end");
        }
    }
    done
}

/// Lets a driver work, and writes what came of it where the metrics are collected.
fn measured<T>(
    verb: &str,
    config: &Config,
    origin: Option<&Path>,
    deadline: Deadline,
    work: impl FnOnce(&Driver<'_>) -> Result<T>,
) -> Result<T> {
    let begin = Instant::now();
    let tally = Tally::default();
    let setting = Setting {
        words: &TEAR_DOWNS,
        layouts: LAYOUTS,
        config,
        origin,
        operation: verb,
        region: None,
        deadline,
        lock_patience: Some(FOR_A_LOCK),
        tally: &tally,
    };
    let mut gauges = None;
    let done = wiring::with_driver(&setting, |driver| {
        let done = work(driver);
        if config.metrics.textfile.is_some() {
            gauges = driver.usage.gauges(&host::metrics::seen_before(&config.paths.state_dir));
        }
        done
    });
    if let Some(textfile) = config.metrics.textfile.clone() {
        let outcome = done.as_ref().map_or_else(|error| error.kind.word(), |_| "done");
        let sample = Sample {
            operation: verb.to_owned(),
            outcome: outcome.to_owned(),
            seconds: begin.elapsed().as_secs_f64(),
            refusals: tally.refusals(),
            heals: tally.heals(),
            gauges,
        };
        Report { textfile, state_dir: config.paths.state_dir.clone(), words: TEAR_DOWNS, sample }
            .write();
    }
    done
}

/// The volume that a person names.
fn volume_named(driver: &Driver<'_>, name: &VolumeName) -> Result<VolumeId> {
    driver.volumes.volume_named(name, None)?.ok_or_else(|| {
        Error::new(Kind::Missing, format!("no volume goes by the name {name}"))
            .hint("give the volume's id in the cloud, or the PersistentVolume's name")
    })
}
