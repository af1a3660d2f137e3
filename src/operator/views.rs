//! The verbs that look: they take no lock, write no log, and change nothing.

use super::configured::Configured;
use super::status::{self, Row};
use super::terminal::Stage;
use super::{doctor, explain, history, holders, naming, report, rows};
use crate::cli::views::{Looking, StatusArguments, VolumeChoice};
use crate::cli::{TypedVolume, generate};
use crate::driver::Context;
use crate::host::machine;
use crate::model::error::{Error, Result};
use std::time::Duration;

/// Does what the verb says; answers the exit status.
pub(super) fn run(verb: &Looking, stage: &mut Stage<'_>) -> Result<u8> {
    let configured = Configured::read();
    match verb {
        Looking::Completions { shell } => {
            stage.say(&generate::completions(*shell));
            Ok(0)
        }
        Looking::Man { out: None } => {
            stage.say(&generate::manual()?);
            Ok(0)
        }
        Looking::Man { out: Some(folder) } => {
            let names = generate::manuals(folder)?;
            stage.say(&(names.join("\n") + "\n"));
            Ok(0)
        }
        Looking::Names => {
            // A shell asks while a person types: what cannot be read is no answer, and no complaint.
            let names = configured.with_context("names", |cx| Ok(naming::all(cx)));
            stage.say(&names.unwrap_or_default());
            Ok(0)
        }
        Looking::Status(arguments) => status(&configured, arguments, stage),
        Looking::Explain(subject) => about(&configured, "explain", subject, |cx, row, silence| {
            explain::run(cx, &configured.config, row, silence, subject.json, stage)
        }),
        Looking::Holders(subject) => about(&configured, "holders", subject, |cx, row, _| {
            holders::run(cx, row, subject.json, stage)
        }),
        Looking::History(arguments) => {
            configured.unseen()?;
            if let Some(trouble) = &configured.trouble {
                // The log would be looked for in the wrong place.
                return Err(trouble.clone());
            }
            let names = arguments.volume.as_ref().map(|TypedVolume(typed)| {
                configured.with_context("history", |cx| {
                    naming::names_in_the_log(cx, typed, &configured.config)
                })
            });
            let done = history::run(arguments, names.transpose()?, &configured.config, stage);
            let is_hidden = |error: &Error| error.is_denied() && !machine::is_root();
            done.map_err(
                |error| {
                    if is_hidden(&error) { error.hint("run it with sudo") } else { error }
                },
            )
        }
        Looking::Doctor { json, only } => doctor::run(&configured, *json, *only, stage),
        Looking::Report(arguments) => report::run(arguments, configured, stage),
    }
}

fn status(
    configured: &Configured,
    arguments: &StatusArguments,
    stage: &mut Stage<'_>,
) -> Result<u8> {
    /// To the upper left corner, and nothing below it.
    const CLEAR: &str = "\x1b[H\x1b[2J";
    let unseen = configured.unseen()?;
    loop {
        let seen = configured
            .with_context("status", |cx| Ok(status::look(cx, &configured.config, &unseen, &[])))?;
        if arguments.rows {
            stage.say(&rows::rows(&seen));
            return Ok(0);
        }
        if arguments.check {
            let (line, status) = rows::check(&seen);
            stage.say(&line);
            return Ok(status);
        }
        if arguments.watch.is_some() && stage.is_terminal && !arguments.json {
            stage.say(CLEAR);
        }
        let goes_on = status::say(&seen, arguments.json, stage)?;
        match arguments.watch {
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
    work: impl FnOnce(&Context<'_>, &Row, Option<&str>) -> Result<u8>,
) -> Result<u8> {
    configured.unseen()?;
    let TypedVolume(typed) = &subject.volume;
    configured.with_context(verb, |cx| {
        let meant = naming::volume_to_look_at(cx, typed, &configured.config)?;
        let also: Vec<_> = meant.id.iter().cloned().collect();
        let seen = status::look(cx, &configured.config, &[], &also);
        let found: Vec<_> = seen.volumes.iter().filter(|row| row.is(&meant)).collect();
        let by_folder = found.iter().find(|row| row.facts.id.is_none());
        let row = by_folder.or(found.first()).ok_or_else(|| naming::unknown(typed, &[]))?;
        work(cx, row, seen.cloud_silence.as_deref())
    })
}
