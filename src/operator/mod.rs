//! The face that people see: verbs that answer text.

mod format;
mod heal;
pub mod local;
mod release;

use crate::cli::{NodeNameArgument, Verb, VolumeNameArgument};
use crate::driver::Driver;
use crate::log;
use crate::model::config::Config;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::time::Deadline;
use crate::wiring::{self, Setting};
use crate::{app, host};
use std::path::Path;
use std::time::Duration;

/// People wait longer than kubelet should.
const PATIENCE: Duration = Duration::from_secs(600);

/// Does what the verb says; answers the text to print.
pub fn run(verb: Verb) -> Result<String> {
    let (config, origin) = app::load_config()?;
    match verb {
        Verb::Local(verb) => local::run(verb, &config),
        Verb::Detach { volume: VolumeNameArgument(volume), node, dry_run, .. } => {
            let node = node.map(|NodeNameArgument(node)| node);
            recorded("detach --force", &config, origin.as_deref(), |driver| {
                release::detach(driver, &volume, node.as_ref(), dry_run)
            })
        }
        Verb::Release { volume: VolumeNameArgument(volume), dry_run } => {
            recorded("release", &config, origin.as_deref(), |driver| {
                release::release(driver, &volume, dry_run)
            })
        }
        Verb::Heal { volume: VolumeNameArgument(volume), dry_run } => {
            recorded("heal", &config, origin.as_deref(), |driver| {
                heal::run(driver, &volume, dry_run)
            })
        }
        Verb::Format { volume: VolumeNameArgument(volume), fs_type, mkfs_options, yes } => {
            let wish = format::Wish { fs_type, mkfs_options, yes };
            recorded("format", &config, origin.as_deref(), |driver| {
                format::run(driver, &volume, &wish)
            })
        }
    }
}

/// Lets a driver work for a person: who asked for what stands in the log.
fn recorded(
    verb: &str,
    config: &Config,
    origin: Option<&Path>,
    work: impl FnOnce(&Driver<'_>) -> Result<String>,
) -> Result<String> {
    let _is_logged = log::start(config);
    let id = log::new_call_id();
    let _span = tracing::error_span!("verb", id, op = verb).entered();
    tracing::info!(who = host::machine::who_asks(), "begin");
    let deadline = Deadline::after(PATIENCE);
    let setting = Setting { config, origin, operation: verb, region: None, deadline };
    let done = wiring::with_driver(&setting, work);
    match &done {
        Ok(_) => tracing::info!("end"),
        Err(error) => tracing::error!(reason = %error, "end"),
    }
    done
}

/// The volume that a person names.
fn volume_named(driver: &Driver<'_>, name: &VolumeName) -> Result<VolumeId> {
    driver.volume_named(name, None)?.ok_or_else(|| {
        Error::new(Kind::Missing, format!("no volume goes by the name {name}"))
            .hint("give the volume's id in the cloud, or the PersistentVolume's name")
    })
}
