//! The end of all waits of this machine, before it shuts down. It needs no configuration, no record and no lock, and
//! one map that cannot be told keeps no other one waiting: whatever is wrong, the machine must come to its end.

use crate::model::ids::VolumeId;
use crate::model::shield::own_map::MapState;
use crate::ports::clock::Deadline;
use crate::ports::host::Maps;
use std::time::Duration;

/// How often it is looked whether a call has made a map wait again.
const EACH: Duration = Duration::from_millis(100);

/// Lets nothing wait in any map. A call that changes a map just now puts in a table that waits, so all are looked at
/// until none does; answers what may wait still at the end.
pub fn end_all_waits(maps: &dyn Maps, until: Deadline) -> Result<(), Vec<String>> {
    loop {
        let waiting: Vec<String> = match maps.volumes() {
            Ok(volumes) => volumes.iter().filter_map(|volume| end_wait(maps, volume)).collect(),
            Err(error) => vec![error.cause],
        };
        if waiting.is_empty() {
            return Ok(());
        }
        if !until.pause(EACH) {
            return Err(waiting);
        }
    }
}

/// Lets nothing wait in the volume's map. Nothing if it was so already; else what the next look must find changed.
fn end_wait(maps: &dyn Maps, volume: &VolumeId) -> Option<String> {
    let why = match maps.map_of(volume) {
        Ok(map) => {
            let map = map.filter(|map| {
                use MapState::{Fails, NeverBegan, WorksUnshielded};
                !matches!(map.state(), WorksUnshielded | Fails | NeverBegan)
            })?;
            let ended = maps.end_wait(volume).err();
            let why = ended.map_or_else(String::new, |error| format!(": {}", error.cause));
            format!("{} {}{why}", map.kernel_name, map.state().words())
        }
        Err(error) => error.cause,
    };
    Some(format!("volume {volume}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::shield::own_map::OwnMap;
    use crate::tests::fake_map::FakeMap;

    fn ended(map: OwnMap) -> (Result<(), Vec<String>>, Vec<&'static str>) {
        let maps = FakeMap::of(Some(map));
        let answer = end_all_waits(&maps, Deadline::after(3 * EACH));
        (answer, maps.done.into_inner())
    }

    #[test]
    fn what_waits_or_would_is_told_once_and_what_does_not_is_let_alone() {
        for (has_disk, is_active) in [(true, true), (true, false), (false, false)] {
            assert_eq!(ended(OwnMap::of_a_test(has_disk, is_active, true)), (Ok(()), vec!["end"]));
            assert_eq!(ended(OwnMap::of_a_test(has_disk, is_active, false)), (Ok(()), vec![]));
        }
    }

    #[test]
    fn a_map_that_goes_on_waiting_is_named() {
        let suspended = OwnMap { is_suspended: true, ..OwnMap::of_a_test(true, true, true) };
        let (answer, done) = ended(suspended);
        let why = answer.unwrap_err().join("");
        assert!(why.contains("volume v-1: dm-0 is suspended") && done.len() > 1, "{why} {done:?}");
    }

    #[test]
    fn no_map_is_no_wait() {
        assert_eq!(end_all_waits(&FakeMap::of(None), Deadline::after(EACH)), Ok(()));
    }

    #[test]
    fn one_that_cannot_be_told_keeps_no_other_one_waiting() {
        let mut maps = FakeMap::of(Some(OwnMap::of_a_test(false, false, true)));
        maps.untold = Some("v-0");
        let why = end_all_waits(&maps, Deadline::after(3 * EACH)).unwrap_err();
        assert_eq!(why, ["volume v-0: it cannot be told"]);
        assert_eq!(maps.done.into_inner(), ["end"], "that of v-1");
    }
}
