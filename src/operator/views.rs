//! The verbs that look: they take no lock, write no log, and change nothing.

use super::configured::Configured;
use super::status::{self, Row};
use super::terminal::Stage;
use super::{doctor, explain, history, holders};
use crate::cli::VolumeNameArgument;
use crate::cli::generate;
use crate::cli::views::{Looking, VolumeChoice};
use crate::driver::Driver;
use crate::model::error::{Error, Kind, Result};
use std::time::Duration;

/// Does what the verb says; answers the exit status.
pub(super) fn run(verb: &Looking, stage: &mut Stage<'_>) -> Result<u8> {
    match verb {
        Looking::Completions { shell } => {
            stage.say(&generate::completions(*shell));
            return Ok(0);
        }
        Looking::Man { out: None } => {
            stage.say(&generate::manual()?);
            return Ok(0);
        }
        Looking::Man { out: Some(folder) } => {
            let names = generate::manuals(folder)?;
            stage.say(&(names.join("\n") + "\n"));
            return Ok(0);
        }
        _ => {}
    }
    let configured = Configured::read();
    match verb {
        Looking::Status { json, watch } => watched(&configured, *json, *watch, stage),
        Looking::Explain(subject) => {
            about(&configured, "explain", subject, |driver, row, silence| {
                explain::run(driver, &configured.config, row, silence, subject.json, stage)
            })
        }
        Looking::Holders(subject) => about(&configured, "holders", subject, |driver, row, _| {
            holders::run(driver, row, subject.json, stage)
        }),
        Looking::History(arguments) => {
            configured.unseen()?;
            history::run(arguments, &configured.config, stage)
        }
        Looking::Doctor { json } => doctor::run(&configured, *json, stage),
        Looking::Completions { .. } | Looking::Man { .. } => Ok(0),
    }
}

fn watched(
    configured: &Configured,
    json: bool,
    watch: Option<u64>,
    stage: &mut Stage<'_>,
) -> Result<u8> {
    /// To the upper left corner, and nothing below it.
    const CLEAR: &str = "\x1b[H\x1b[2J";
    let unseen = configured.unseen()?;
    loop {
        let seen = configured.with_driver("status", |driver| {
            Ok(status::look(driver, &configured.config, &unseen, &[]))
        })?;
        if watch.is_some() && stage.is_terminal && !json {
            stage.say(CLEAR);
        }
        let goes_on = status::say(&seen, json, stage)?;
        match watch {
            Some(seconds) if goes_on => std::thread::sleep(Duration::from_secs(seconds)),
            _ => return Ok(0),
        }
    }
}

/// Looks at the volume that was named.
fn about(
    configured: &Configured,
    verb: &str,
    subject: &VolumeChoice,
    work: impl FnOnce(&Driver<'_>, &Row, Option<&str>) -> Result<u8>,
) -> Result<u8> {
    configured.unseen()?;
    let VolumeNameArgument(name) = &subject.volume;
    configured.with_driver(verb, |driver| {
        let unknown = || {
            Error::new(Kind::Missing, format!("no volume goes by the name {name}"))
                .hint("disk status shows those of this machine; else give its id in the cloud")
        };
        let id = driver.usage.volume_meant(name);
        let also: Vec<_> = id.iter().cloned().collect();
        let seen = status::look(driver, &configured.config, &[], &also);
        let is_meant = |row: &&Row| match &row.facts.id {
            Some(of) => Some(of) == id.as_ref(),
            None => row.facts.name.as_ref() == Some(name),
        };
        let by_folder = seen.volumes.iter().find(|row| row.facts.id.is_none() && is_meant(row));
        let row = by_folder.or_else(|| seen.volumes.iter().find(is_meant)).ok_or_else(unknown)?;
        if !is_known(row) {
            return Err(unknown());
        }
        work(driver, row, seen.cloud_silence.as_deref())
    })
}

/// Whether anything but the typed name speaks for the volume.
fn is_known(row: &Row) -> bool {
    use crate::model::report::facts::{CloudFact, DiskFact};
    !matches!(row.facts.cloud, CloudFact::Missing)
        || row.facts.record.is_there
        || !row.facts.mounts.is_empty()
        || !matches!(row.facts.disk, DiskFact::None)
        || row.last_call.is_some()
}
