//! The rooms whose mutants are played, and the tests that are about each.

/// A room: its files, and what the names of its tests begin with in each ring.
#[derive(Debug)]
pub struct Room {
    pub name: &'static str,
    /// Files, or folders with a slash behind them.
    pub files: &'static [&'static str],
    pub tests: &'static [(&'static str, &'static [&'static str])],
}

pub const ROOMS: [Room; 4] = [
    Room {
        name: "guard",
        files: &[
            "src/driver/guard/",
            "src/model/mount/attribution.rs",
            "src/model/mount/unstage.rs",
        ],
        tests: &[
            (
                "root",
                &[
                    "guard::",
                    "refusals::",
                    "ways_out::",
                    "ownership::",
                    "letting_go::",
                    "leftovers::",
                    "flush_first::",
                    "give_up::",
                    "exclusive_open::",
                    "foreign::",
                    "unmount::",
                    "lost_writes::",
                    "going_namespaces::",
                    "holders::",
                    "tenants::",
                    "attacks::",
                    "failing_disk::",
                    "looking::",
                ],
            ),
            ("cloud", &["marks::", "takeover::"]),
            ("contract", &["covered::", "last_word::", "refusals_told::"]),
        ],
    },
    Room {
        name: "heal",
        files: &["src/driver/heal/", "src/shield/", "src/host/remount/"],
        tests: &[
            (
                "root",
                &[
                    "heal::",
                    "half_done_heals::",
                    "killed_heal::",
                    "switch::",
                    "adoption::",
                    "staleness::",
                    "pull::",
                    "yank::",
                    "tend::",
                    "aftercare::",
                    "looking::at_night::",
                    "looking::metrics::",
                    "stories::",
                    "long_checks::",
                    "old_kernel::",
                    "followers::",
                    "tenants::",
                    "attacks::",
                    "failing_disk::",
                    "xfs_journals::",
                    "hanging_watch::",
                    "leftovers::",
                    "ways_out::",
                ],
            ),
            ("cloud", &["marks::", "takeover::", "disagreement::"]),
        ],
    },
    Room {
        name: "formatting",
        files: &[
            "src/model/disk/formatting.rs",
            "src/model/disk/mountable.rs",
            "src/model/disk/contents/",
            "src/host/filesystems/blank.rs",
            "src/host/filesystems/make.rs",
            "src/host/filesystems/mod.rs",
            "src/driver/mount/format.rs",
            "src/driver/mount/format_consent.rs",
        ],
        tests: &[
            (
                "root",
                &[
                    "blank::",
                    "formats::",
                    "mkfs::",
                    "signatures::",
                    "format_verb::",
                    "corpus::",
                    "second_opinions::",
                    "unreadable::",
                    "wishes::",
                    "long_checks::",
                    "checks::",
                ],
            ),
            ("cloud", &["formats::"]),
        ],
    },
    Room {
        name: "names",
        files: &[
            "src/model/ids.rs",
            "src/model/known_volume.rs",
            "src/driver/lookup/",
            "src/driver/names.rs",
            "src/driver/names/",
        ],
        tests: &[
            (
                "root",
                &[
                    "identity::",
                    "letters::",
                    "misleading_names::",
                    "life::",
                    "nodes::",
                    "records::",
                    "covered::",
                    "adoption::",
                    "foreign::",
                    "hanging::",
                    "hanging_calls::",
                ],
            ),
            ("cloud", &["names::", "attach::", "disagreement::"]),
            ("contract", &["names::", "misleading_names::", "identity::", "attach::"]),
        ],
    },
];

impl Room {
    /// Which of its modules of a ring a test is of.
    pub fn module_of(&self, ring: &str, test: &str) -> Option<usize> {
        let (_, begins) = self.tests.iter().find(|(one, _)| *one == ring)?;
        begins.iter().position(|begin| test.starts_with(begin))
    }

    pub fn has(&self, file: &str) -> bool {
        self.files
            .iter()
            .any(|one| if one.ends_with('/') { file.starts_with(one) } else { file == *one })
    }
}

/// The room that a file is in.
pub fn room_of(file: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.has(file))
}

/// Whether a file or folder has mutants that are played.
pub fn may_have(path: &str) -> bool {
    let mut files = ROOMS.iter().flat_map(|room| room.files);
    files.any(|one| path.starts_with(one) || one.starts_with(path))
}
