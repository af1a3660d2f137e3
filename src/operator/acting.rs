//! A context to act with for a person: who asked for it is logged, and what came of it is counted.

use super::naming;
use super::terminal::told;
use crate::app::{self, report};
use crate::cli::TypedVolume;
use crate::configuration::Config;
use crate::driver::Context;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::report::metrics::Sample;
use crate::ports::clock::Deadline;
use crate::wiring::{self, Setting};
use crate::{host, log};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// People wait longer than kubelet should.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long a person's verb waits for a volume's lock; then it says who has it.
const FOR_A_LOCK: Duration = Duration::from_secs(5);

/// Acts for a person on the volume that was typed: who asked for what stands in the log,
/// and whether it was only asked for the plan.
pub(super) fn recorded(
    (verb, dry_run): (&str, bool),
    TypedVolume(typed): &TypedVolume,
    work: impl FnOnce(&Context<'_>, &VolumeId) -> Result<String>,
) -> Result<String> {
    let (config, origin) = app::load_config()?;
    let _is_logged = log::start(&config);
    let id = log::new_call_id();
    let _span = tracing::error_span!("verb", id, op = verb).entered();
    let note_begin = |object: &str| {
        let object = format!("volume {object}");
        let dry_run = dry_run.then_some(true);
        tracing::info!(who = host::machine::who_asks(), object, dry_run, "begin");
    };
    let mut is_begun = false;
    let begin = Instant::now();
    let deadline = Deadline::after(PATIENCE);
    let done = measured(verb, &config, origin.as_deref(), deadline, |cx| {
        let found = naming::volume_to_act_on(cx, typed);
        note_begin(found.as_ref().map_or(typed, |found| found.id.as_str()));
        is_begun = true;
        let found = found?;
        if let Some(words) = found.taken {
            // To a reader who may have gone: what is done does not depend on it.
            let _ = host::worker::out().write_all(told(&words).as_bytes());
        }
        work(cx, &found.id)
    });
    if !is_begun {
        note_begin(typed);
    }
    let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &done {
        Ok(_) => tracing::info!(duration_ms, event = "call_done", "end"),
        Err(error) => {
            tracing::error!(duration_ms, kind = error.kind.word(), reason = %error, event = "call_failed", "end");
        }
    }
    done
}

/// Acts, and writes what came of it where the metrics are collected.
pub(super) fn measured<T>(
    verb: &str,
    config: &Config,
    origin: Option<&Path>,
    deadline: Deadline,
    work: impl FnOnce(&Context<'_>) -> Result<T>,
) -> Result<T> {
    let begin = Instant::now();
    let setting =
        Setting { lock_patience: Some(FOR_A_LOCK), ..app::setting(config, origin, verb, deadline) };
    let (done, measured) = wiring::with_measured_context(&setting, work);
    if let Some(mut report) = report(config, verb) {
        let outcome = done.as_ref().map_or_else(|error| error.kind.word(), |_| "done");
        report.sample = Sample {
            operation: verb.to_owned(),
            outcome: outcome.to_owned(),
            seconds: begin.elapsed().as_secs_f64(),
            id: report.sample.id,
            ..measured
        };
        report.write();
    }
    done
}
