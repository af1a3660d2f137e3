//! `disk release --waits`: what the shutdown of the machine calls.

use super::terminal::{say, told};
use crate::host::device_mapper::KernelMaps;
use crate::model::error::{Error, Kind, Result};
use crate::ports::clock::Deadline;
use crate::ports::host::Maps;
use crate::shield::all_waits::end_all_waits;
use crate::{app, host, log};
use std::time::Duration;

/// How long a call is waited for that changes a map just now.
const CALLS_END: Duration = Duration::from_secs(5);

pub(super) fn end_all(dry_run: bool) -> Result<String> {
    let _is_logged = app::load_config().is_ok_and(|(config, _)| log::start(&config));
    let id = log::new_call_id();
    let _span = tracing::error_span!("verb", id, op = "release --waits").entered();
    let maps = KernelMaps::default();
    let text = as_it_is(&maps, dry_run);
    if dry_run || text.is_empty() {
        let end = if dry_run {
            "Nothing was changed.\n"
        } else {
            "no volume of this machine has a map\n"
        };
        return Ok(text + end);
    }
    match end_all_waits(&maps, Deadline::after(CALLS_END)) {
        Ok(()) => Ok(text + "from here on nothing waits in them\n"),
        Err(waiting) => {
            say(&text);
            Err(Error::new(Kind::Host, waiting.join("; ")))
        }
    }
}

/// How each map is.
fn as_it_is(maps: &dyn Maps, dry_run: bool) -> String {
    let volumes = match maps.volumes() {
        Ok(volumes) => volumes,
        Err(error) => return told(&format!("which volumes have maps cannot be told: {error}")),
    };
    let mut text = String::new();
    for volume in &volumes {
        let state = maps.map_of(volume).map(|map| map.map(|map| map.state().words()));
        let words = match &state {
            Ok(words) => words.unwrap_or("is gone"),
            Err(error) => error.cause.as_str(),
        };
        text += &told(&format!("volume {volume}: its map {words}"));
        if !dry_run {
            let who = host::machine::who_asks();
            tracing::warn!(%volume, was = words, who, "what finds no disk fails from here on");
        }
    }
    text
}
