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
    let until = Deadline::after(CALLS_END);
    let mut text = String::new();
    for volume in &volumes {
        let map = maps.map_of(volume)?;
        let words = map.as_ref().map_or("is gone", |map| map.state().words());
        text += &told(&format!("volume {volume}: its map {words}"));
        if let Some(map) = map.filter(|_| !dry_run) {
            let who = host::machine::who_asks();
            tracing::warn!(%volume, map = map.kernel_name, was = words, who, "what finds no disk fails from here on");
        }
    }
    if dry_run {
        return Ok(text + "Nothing was changed.\n");
    }
    // A call that changes a map just now puts in a table that waits: so all are looked at until none does.
    loop {
        let waiting: Vec<_> = maps
            .volumes()?
            .into_iter()
            .filter_map(|volume| {
                may_wait(maps, &volume).map(|why| format!("volume {volume}: {why}"))
            })
            .collect();
        if waiting.is_empty() {
            return Ok(text + "from here on nothing waits in them\n");
        }
        if !until.pause(Duration::from_millis(100)) {
            say(&text);
            return Err(Error::new(Kind::Host, waiting.join("; ")));
        }
    }
}

/// Why something may wait in the volume's map, after it was told to let nothing wait; nothing if it is sure that
/// nothing did before this look either.
fn may_wait(maps: &dyn Maps, volume: &VolumeId) -> Option<String> {
    let waits = |state| {
        !matches!(state, MapState::WorksUnshielded | MapState::Fails | MapState::NeverBegan)
    };
    match maps.map_of(volume) {
        Ok(map) => {
            let map = map.filter(|map| waits(map.state()))?;
            let ended = maps.end_wait(volume).err();
            let why = ended.map_or_else(String::new, |error| format!(": {}", error.cause));
            Some(format!("{} {}{why}", map.kernel_name, map.state().words()))
        }
        Err(error) => Some(error.cause),
    }
}
