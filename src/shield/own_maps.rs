//! The map of device mapper through which a volume may be mounted: whether it waits, when it is taken off, what ends
//! its wait.

use crate::driver::{Context, shield};
use crate::model::advice::{Remedy, advise};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::shield::own_map::{MapState, OwnMap};
use crate::ports::host::Maps;

/// Before an unmount that would wait for ever: what it writes has nowhere to go.
pub(crate) fn must_not_wait(maps: &dyn Maps, id: &VolumeId) -> Result<()> {
    let Some(map) = maps.map_of(id)? else { return Ok(()) };
    let state = map.state();
    if !state.waits() {
        return Ok(());
    }
    let name = &map.kernel_name;
    Err(Error::refused(format!(
        "the map {name} of volume {id} {}: an unmount would wait too",
        state.words()
    ))
    .hint(advise("{} ends the wait with errors, and unmounts it; what was written and has not reached the disk is lost then", [Remedy::Release.of(id)])))
}

/// Takes the map off the volume's disk, which nothing uses any more. A map that has no disk, and that
/// something keeps open, is in the way of none.
pub(crate) fn take_off(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    let Some(map) = maps.map_of(id)? else { return Ok(()) };
    let name = &map.kernel_name;
    match maps.remove(id, cx.deadline) {
        Ok(_) => {
            tracing::info!(volume = %id, map = name, "the volume's map was removed");
            Ok(())
        }
        Err(error) if error.kind == Kind::Busy && !map.has_disk => {
            tracing::warn!(volume = %id, map = name, opened = map.opened, "the volume's map stays: it has no disk, and something has it open");
            Ok(())
        }
        Err(error) if error.kind == Kind::Busy => {
            let now = shield::seen(cx, id).unwrap_or(map);
            Err(Error::refused(format!(
                "the map {} of volume {id} is still in use: it is open {} times",
                now.kernel_name, now.opened
            ))
            .hint(advise("{} shows who has it", [Remedy::Holders.of(id)])))
        }
        Err(error) => Err(error),
    }
}

/// What a call left that was killed before anything used its map, and a map that has lost its disk and that
/// nothing uses: in the way of the disk, and of no worth.
pub(crate) fn tidy(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) {
    let Some(map) = shield::seen(cx, id) else { return };
    if map.opened > 0 || map.state().works() {
        return;
    }
    let (name, words) = (&map.kernel_name, map.state().words());
    match maps.remove(id, cx.deadline) {
        Ok(_) => {
            tracing::info!(volume = %id, map = name, words, "a map that nothing uses was removed");
        }
        Err(error) => tracing::warn!(volume = %id, map = name, words, %error, "the map stays"),
    }
}

/// A map goes on as it was before a change that was not finished. What such a change has loaded is cleared, and holds
/// its disk no more.
pub(crate) fn settle(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) {
    let Some(map) = shield::seen(cx, id) else { return };
    if map.has_second_table || map.state() == MapState::Suspended {
        told_to_go_on(cx, id, &map, maps.settle(id));
    }
}

/// A map whose disk is there, and a request to it failed, sends it once more.
pub(crate) fn try_again(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) {
    let Some(map) = shield::seen(cx, id) else { return };
    let fails_there = map.state() == MapState::Fails && map.has_disk;
    if map.state() == MapState::WaitsAtPath || fails_there {
        told_to_go_on(cx, id, &map, maps.try_again(id));
    }
}

fn told_to_go_on(cx: &Context<'_>, id: &VolumeId, map: &OwnMap, told: Result<()>) {
    let (name, words) = (&map.kernel_name, map.state().words());
    match told {
        Ok(()) => {
            let now = shield::seen(cx, id).map(|map| map.state().words());
            tracing::warn!(volume = %id, map = name, was = words, now, "the map was told to go on");
        }
        Err(error) => {
            tracing::warn!(volume = %id, map = name, words, %error, "the map could not be told to go on");
        }
    }
}

/// What waits in the volume's map fails, as it would without a map. A person wants it so.
pub(crate) fn end_wait(maps: &dyn Maps, id: &VolumeId) -> Result<()> {
    let Some(map) = maps.map_of(id)? else { return Ok(()) };
    tracing::warn!(volume = %id, map = map.kernel_name, state = map.state().words(), "what waits in the volume's map fails from here on");
    maps.end_wait(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapShield;
    use crate::fakes::{FakeCloud, FakeDevices, MadeUp};
    use crate::model::shield::own_map::OwnMap;
    use crate::tests::fake_map::FakeMap;

    fn id() -> VolumeId {
        VolumeId::parse("v-1").unwrap()
    }

    /// A map that is open so often.
    fn map(opened: u32, has_disk: bool, is_active: bool, is_queueing: bool) -> OwnMap {
        OwnMap { opened, ..OwnMap::of_a_test(has_disk, is_active, is_queueing) }
    }

    /// What is done to a map.
    fn done<T>(
        map: Option<OwnMap>,
        what: impl FnOnce(&Context<'_>) -> T,
    ) -> (T, Vec<&'static str>) {
        done_to(map, |_, cx| what(cx))
    }

    fn done_to<T>(
        map: Option<OwnMap>,
        what: impl FnOnce(&dyn Maps, &Context<'_>) -> T,
    ) -> (T, Vec<&'static str>) {
        let maps = FakeMap::of(map);
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let answer =
            MadeUp { shield_hooks: &MapShield { maps: &maps }, ..MadeUp::with(&cloud, &devices) }
                .drive(|cx| what(&maps, cx));
        (answer, maps.done.into_inner())
    }

    #[test]
    fn a_map_goes_when_nothing_uses_it_and_is_named_when_something_does() {
        let take_off = |map| done(map, |cx| cx.host.shield.take_off(cx, &id()));
        assert_eq!(take_off(None), (Ok(()), vec![]));
        assert_eq!(take_off(Some(map(0, true, true, true))), (Ok(()), vec!["remove"]));
        let (refused, nothing) = take_off(Some(map(2, true, true, true)));
        let error = refused.unwrap_err();
        assert_eq!((error.kind, nothing), (Kind::Refused, vec![]));
        assert!(error.cause.contains("it is open 2 times"), "{error}");
        // Without a disk it keeps none.
        assert_eq!(take_off(Some(map(1, false, false, false))), (Ok(()), vec![]));
    }

    #[test]
    fn an_unmount_that_would_wait_is_refused_and_no_other() {
        let must_not_wait = |map| done(map, |cx| cx.host.shield.before_unmount(cx, &id())).0;
        assert_eq!(must_not_wait(None), Ok(()));
        assert_eq!(must_not_wait(Some(map(1, true, true, true))), Ok(()));
        assert_eq!(must_not_wait(Some(map(1, false, false, false))), Ok(()), "it fails at once");
        for waits in [map(1, false, true, true), map(1, true, false, true)] {
            let suspended = OwnMap { is_suspended: true, ..waits.clone() };
            for waits in [waits, suspended] {
                let error = must_not_wait(Some(waits)).unwrap_err();
                assert_eq!(error.kind, Kind::Refused);
                assert!(error.hint.unwrap().to_string().contains("Release v-1"));
            }
        }
    }

    #[test]
    fn what_is_open_and_waits_is_waited_for_and_nothing_else() {
        let waited_for = |map| done(map, |cx| shield::waited_for(cx, &id())).0.unwrap();
        for waits in [map(1, false, true, true), map(2, true, false, true)] {
            assert_eq!(waited_for(Some(waits.clone())), Some(waits));
        }
        for other in [
            map(0, false, true, true),
            map(1, true, true, true),
            map(0, true, true, true),
            map(1, false, false, false),
        ] {
            assert_eq!(waited_for(Some(other.clone())), None, "{other:?}");
        }
        assert_eq!(waited_for(None), None);
    }

    #[test]
    fn what_works_and_is_open_would_wait_for_its_disk_and_nothing_else() {
        let would_wait = |map| done(map, |cx| shield::would_wait(cx, &id())).0;
        assert_eq!(would_wait(Some(map(1, true, true, true))), Ok(true));
        let suspended = OwnMap { is_suspended: true, ..map(1, true, true, true) };
        for other in [
            None,
            // Nothing uses it.
            Some(map(0, true, true, true)),
            // It has no shield.
            Some(map(1, true, true, false)),
            // It waits already, or fails.
            Some(map(1, false, true, true)),
            Some(map(1, true, false, true)),
            Some(map(1, false, false, false)),
            Some(suspended),
        ] {
            assert_eq!(would_wait(other.clone()), Ok(false), "{other:?}");
        }
    }

    #[test]
    fn what_is_in_use_or_works_is_not_tidied_away() {
        let tidy = |map| done(map, |cx| cx.host.shield.tidy(cx, &id())).1;
        let never_began = OwnMap { table: None, status: None, ..map(0, false, false, false) };
        assert_eq!(tidy(Some(never_began)), ["remove"]);
        assert_eq!(tidy(Some(map(0, false, true, true))), ["remove"]);
        assert_eq!(tidy(Some(map(0, true, true, true))), Vec::<&str>::new());
        assert_eq!(tidy(Some(map(1, false, true, true))), Vec::<&str>::new());
        assert_eq!(tidy(None), Vec::<&str>::new());
    }

    /// A disk that came back is another matter: it may have been written elsewhere.
    #[test]
    fn only_a_disk_that_never_left_is_tried_again() {
        let again = |map| done_to(Some(map), |maps, cx| try_again(maps, cx, &id())).1;
        assert_eq!(again(map(1, true, false, true)), ["again"]);
        assert_eq!(again(map(1, true, false, false)), ["again"], "its wait was ended");
        let suspended = OwnMap { is_suspended: true, ..map(1, false, true, true) };
        for left_alone in [
            map(1, true, true, true),
            map(1, false, true, true),
            map(1, false, false, true),
            suspended.clone(),
        ] {
            assert_eq!(again(left_alone), Vec::<&str>::new());
        }
        let settled = |map| done_to(Some(map), |maps, cx| settle(maps, cx, &id())).1;
        assert_eq!(settled(suspended), ["settle"]);
        let loaded = OwnMap { has_second_table: true, ..map(1, false, true, true) };
        assert_eq!(settled(loaded), ["settle"]);
        assert_eq!(settled(map(1, true, false, true)), Vec::<&str>::new());
    }

    #[test]
    fn maps_are_found_by_their_volumes() {
        let one = map(1, true, true, true);
        let number_of = |map| done(map, |cx| shield::number_of(cx, &id())).0;
        assert_eq!(number_of(Some(one.clone())), Some(one.number));
        assert_eq!(number_of(None), None);
        let volumes = |map| done(map, |cx| shield::volumes(cx).pop()).0;
        let volume = one.volume.clone();
        assert_eq!(volumes(Some(one)), Some(volume));
        assert_eq!(volumes(None), None);
    }
}
