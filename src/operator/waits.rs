//! The end of all waits of this machine, before it shuts down. No configuration is needed for it, no record and no
//! lock: whatever else is wrong, the machine must come to its end.

use super::terminal::{say, told};
use crate::app;
use crate::host::clock::Deadline;
use crate::host::device_mapper::KernelMaps;
use crate::host::{self, Maps};
use crate::log;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::shield::own_map::MapState;
use std::time::Duration;

/// How long a call is waited for that changes a map just now: its new table lets requests wait again.
const CALLS_END: Duration = Duration::from_secs(5);

pub(super) fn end_all(dry_run: bool) -> Result<String> {
    let _is_logged = app::load_config().is_ok_and(|(config, _)| log::start(&config));
    let id = log::new_call_id();
    let _span = tracing::error_span!("verb", id, op = "release --waits").entered();
    end_all_of(&KernelMaps::default(), dry_run)
}

fn end_all_of(maps: &dyn Maps, dry_run: bool) -> Result<String> {
    let volumes = maps.volumes()?;
    if volumes.is_empty() {
        return Ok("no volume of this machine has a map, so nothing waits\n".to_owned());
    }
    let (mut text, mut failed) = (String::new(), Vec::new());
    let until = Deadline::after(CALLS_END);
    for volume in &volumes {
        let line = match ended(maps, volume, dry_run, until) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%volume, %error, "the map could not be told to let nothing wait");
                failed.push(format!("volume {volume}: {}", error.cause));
                continue;
            }
        };
        text += &told(&line);
    }
    if failed.is_empty() {
        return Ok(text + if dry_run { "Nothing was changed.\n" } else { "" });
    }
    say(&text);
    Err(Error::new(Kind::Host, failed.join("; ")))
}

fn ended(maps: &dyn Maps, volume: &VolumeId, dry_run: bool, until: Deadline) -> Result<String> {
    let Some(before) = maps.map_of(volume)? else {
        return Ok(format!("volume {volume}: its map is gone"));
    };
    let (name, words) = (&before.kernel_name, before.state().words());
    if dry_run {
        return Ok(format!("volume {volume}: {name} {words}"));
    }
    let who = host::machine::who_asks();
    tracing::warn!(%volume, map = name, was = words, who, "what finds no disk fails from here on");
    loop {
        maps.end_wait(volume)?;
        let Some(now) = maps.map_of(volume)? else {
            return Ok(format!("volume {volume}: its map is gone"));
        };
        if matches!(now.state(), MapState::WorksUnshielded | MapState::Fails | MapState::NeverBegan) {
            return Ok(format!(
                "volume {volume}: {name} {words}; from here on nothing waits in it"
            ));
        }
        if !until.pause(Duration::from_millis(100)) {
            return Err(Error::new(Kind::Busy, format!("{name} still {}", now.state().words())));
        }
    }
}
