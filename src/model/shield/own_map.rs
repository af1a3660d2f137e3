//! How a map of this driver's is, by what device mapper and sysfs tell of it at one moment.

use super::table_line::{StatusLine, TableLine};
use crate::disk::device::DeviceNumber;
use crate::ids::VolumeId;
use serde::Serialize;

/// A map of ours, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMap {
    /// The volume whose map it is.
    pub volume: VolumeId,
    /// The kernel's name of it, such as `dm-0`.
    pub kernel_name: String,
    pub number: DeviceNumber,
    /// How often it is open: by mounts, and by processes. The one thing that tells of a mount that was taken
    /// off lazily.
    pub opened: u32,
    /// Whether it is suspended: what comes is kept, whatever its table says.
    pub is_suspended: bool,
    /// Whether a table was loaded that no swap has made its own.
    pub has_second_table: bool,
    /// What device mapper tells of its table; nothing before it has one, or where it is none of ours.
    pub table: Option<TableLine>,
    /// What it tells of the path.
    pub status: Option<StatusLine>,
    /// Whether the disk at the path's number is there, and is held by this map.
    pub has_disk: bool,
}

/// What becomes of a read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapState {
    /// It goes to the disk.
    Works,
    /// The same, and once the disk is gone it fails: no disk would be put under it, or all waits were ended.
    WorksUnshielded,
    /// It waits: the disk is gone.
    WaitsForDisk,
    /// It waits: the disk is there, and a request to it failed.
    WaitsAtPath,
    /// It fails: the disk is gone, or a request to it failed, and nothing waits any more.
    Fails,
    /// It waits: a process was killed, or failed, amid a change of the map.
    Suspended,
    /// It fails: the map never had a table.
    NeverBegan,
    /// It cannot be told: the table is none that this driver makes.
    Strange,
}

impl OwnMap {
    /// Whether a call may have been killed amid a suspend: it had loaded a table, and multipath forgets then that what
    /// finds no disk waits.
    pub fn may_be_cut_short(&self) -> bool {
        let waits = self.table.is_none_or(|table| table.is_queueing);
        self.has_second_table && !self.is_suspended && !waits
    }

    /// What becomes of a read or a write.
    pub fn state(&self) -> MapState {
        match (self.table, self.status) {
            _ if self.is_suspended && self.table.is_none() && self.status.is_none() => {
                MapState::NeverBegan
            }
            _ if self.is_suspended => MapState::Suspended,
            (Some(table), Some(status)) if table.path == status.path => {
                match (self.has_disk && status.is_active, table.is_queueing) {
                    (true, true) => MapState::Works,
                    (true, false) => MapState::WorksUnshielded,
                    (false, false) => MapState::Fails,
                    (false, true) if self.has_disk => MapState::WaitsAtPath,
                    (false, true) => MapState::WaitsForDisk,
                }
            }
            (None, None) if self.opened == 0 => MapState::NeverBegan,
            _ => MapState::Strange,
        }
    }
}

impl MapState {
    /// Whether what is asked of the map may wait without an end.
    pub fn waits(self) -> bool {
        matches!(self, Self::WaitsForDisk | Self::WaitsAtPath | Self::Suspended | Self::Strange)
    }

    /// Whether it goes to the disk.
    pub fn works(self) -> bool {
        matches!(self, Self::Works | Self::WorksUnshielded)
    }

    /// In words that go on from the map's name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::WorksUnshielded => "works, and does not wait when its disk goes",
            Self::WaitsForDisk => "waits for its disk, which is gone",
            Self::WaitsAtPath => "waits, for a request to its disk failed",
            Self::Fails => "fails every request, for its disk is gone or failed",
            Self::Suspended => "is suspended, for a change of it was not finished",
            Self::NeverBegan => "was not finished",
            Self::Strange => "has a table that this driver does not make",
        }
    }
}

#[cfg(any(test, debug_assertions))]
#[allow(clippy::expect_used, clippy::missing_panics_doc, reason = "they are of tests")]
impl OwnMap {
    /// The map of volume `v-1`, open once: whether its disk is there, takes requests, and what finds none waits.
    pub fn of_a_test(has_disk: bool, is_active: bool, is_queueing: bool) -> Self {
        let path = DeviceNumber { major: 254, minor: 16 };
        Self {
            volume: VolumeId::parse("v-1").expect("an id"),
            kernel_name: "dm-0".to_owned(),
            number: DeviceNumber { major: 253, minor: 0 },
            opened: 1,
            is_suspended: false,
            has_second_table: false,
            table: Some(TableLine { path, is_queueing }),
            status: Some(StatusLine { path, is_active }),
            has_disk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(is_queueing: bool, is_active: bool, has_disk: bool) -> OwnMap {
        OwnMap::of_a_test(has_disk, is_active, is_queueing)
    }

    #[test]
    fn a_suspend_was_cut_short_where_a_table_is_left_and_nothing_waits() {
        let loaded =
            |is_queueing| OwnMap { has_second_table: true, ..map(is_queueing, true, true) };
        assert!(loaded(false).may_be_cut_short());
        assert!(!loaded(true).may_be_cut_short());
        assert!(!OwnMap { is_suspended: true, ..loaded(false) }.may_be_cut_short());
        assert!(!OwnMap { table: None, ..loaded(false) }.may_be_cut_short());
        assert!(!map(false, true, true).may_be_cut_short());
    }

    #[test]
    fn a_map_is_what_becomes_of_a_request() {
        use MapState::{Fails, WaitsAtPath, WaitsForDisk, Works, WorksUnshielded};
        for (is_queueing, is_active, has_disk, state) in [
            (true, true, true, Works),
            (false, true, true, WorksUnshielded),
            // Device mapper learns of a loss by the first request.
            (true, true, false, WaitsForDisk),
            (true, false, false, WaitsForDisk),
            (true, false, true, WaitsAtPath),
            (false, false, true, Fails),
            (false, true, false, Fails),
            (false, false, false, Fails),
        ] {
            let map = map(is_queueing, is_active, has_disk);
            assert_eq!(map.state(), state, "{map:?}");
        }
    }

    #[test]
    fn a_change_that_was_not_finished_is_seen() {
        let suspended = OwnMap { is_suspended: true, ..map(true, true, true) };
        assert_eq!(suspended.state(), MapState::Suspended);
        let new = OwnMap { table: None, status: None, opened: 0, ..map(true, true, false) };
        assert_eq!(new.state(), MapState::NeverBegan);
        let never_resumed = OwnMap { is_suspended: true, ..new };
        assert_eq!(never_resumed.state(), MapState::NeverBegan);
    }

    #[test]
    fn what_is_not_understood_is_not_taken_for_dead() {
        let strange = OwnMap { table: None, ..map(true, true, true) };
        assert_eq!(strange.state(), MapState::Strange);
        let mut two = map(true, true, true);
        two.status =
            Some(StatusLine { path: DeviceNumber { major: 8, minor: 0 }, is_active: true });
        assert_eq!(two.state(), MapState::Strange);
        assert!(MapState::Strange.waits() && !MapState::Fails.waits() && !MapState::Works.waits());
    }
}
