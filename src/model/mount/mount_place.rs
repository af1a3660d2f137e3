//! What stands at a folder: the one rule that tells a mount that is reached by its path from one
//! that is covered.
//!
//! A line of the mount table that has the folder's path says that a mount stands there, and not
//! that the path leads to it: whatever is mounted over a folder above takes the path away. So the
//! kernel is asked where the path leads, and its answer is a mount's id.

use super::mountinfo::{Mount, MountTable};
use crate::error::Error;
use std::path::Path;

/// What a look at a folder found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub stands: Stands,
    /// The table that says so.
    pub table: MountTable,
}

/// What stands at a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stands {
    /// No mount; perhaps not even a folder.
    Nothing,
    /// A mount, and the path leads to it.
    Mount {
        /// The one that is seen.
        top: Mount,
        /// Those on which it was stacked at this very folder, the upper ones first.
        beneath: Vec<Mount>,
    },
    /// A mount to which the path does not lead.
    Covered(Covered),
}

/// A mount that is out of reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    pub hidden: Mount,
    /// What is seen in its place, if the table has it: in a chroot its root is not there.
    pub by: Option<Mount>,
}

impl Look {
    /// Judges a table. `seen` is the mount that the folder's path leads to, by the kernel's word;
    /// nothing if there is no such folder.
    pub fn of(folder: &Path, seen: Option<u32>, table: MountTable) -> Self {
        Self { stands: Stands::of(folder, seen, &table), table }
    }

    /// The mount that is seen at the folder, if there is one. One that is covered is an error: what
    /// is done by its path would be done to something else.
    pub fn top(&self) -> Result<Option<&Mount>, Error> {
        match &self.stands {
            Stands::Nothing => Ok(None),
            Stands::Mount { top, .. } => Ok(Some(top)),
            Stands::Covered(covered) => Err(covered.error()),
        }
    }

    /// What covers a mount of this folder, a stranger's that was stacked on it included.
    pub fn why_not(&self, mount: &Mount) -> Option<Covered> {
        match &self.stands {
            Stands::Covered(covered) => Some(Covered { hidden: mount.clone(), ..covered.clone() }),
            Stands::Mount { top, beneath } => {
                let is_under = beneath.iter().any(|below| below.id == mount.id);
                let by = Some(top.clone()).filter(|top| is_under && top.number != mount.number);
                by.map(|by| Covered { hidden: mount.clone(), by: Some(by) })
            }
            Stands::Nothing => None,
        }
    }

    /// Whether any mount stands there, covered or not.
    pub fn is_mounted(&self) -> bool {
        self.stands != Stands::Nothing
    }
}

impl Stands {
    /// Judges a table. Mounts at this folder that are twins of each other are one: a mount that came
    /// by propagation to the folder under a bind of kubelet's root onto itself is covered by its own
    /// peer.
    pub fn of(folder: &Path, seen: Option<u32>, table: &MountTable) -> Self {
        let at: Vec<&Mount> = table.at(folder).collect();
        if at.is_empty() {
            return Stands::Nothing;
        }
        let mut stack: Vec<&Mount> = Vec::new();
        let mut next = seen;
        while let Some(mount) = next.and_then(|id| at.iter().find(|mount| mount.id == id)) {
            // A torn table may run in a circle.
            if stack.iter().any(|known| known.id == mount.id) {
                break;
            }
            stack.push(mount);
            next = Some(mount.parent);
        }
        let is_twin = |one: &Mount| {
            stack.iter().any(|seen| seen.number == one.number && seen.root == one.root)
        };
        let hidden =
            at.iter().find(|mount| !is_twin(mount) && !stack.iter().any(|s| s.id == mount.id));
        match (hidden, stack.as_slice()) {
            (None, [top, beneath @ ..]) => Stands::Mount {
                top: (*top).clone(),
                beneath: beneath.iter().map(|mount| (*mount).clone()).collect(),
            },
            (None, []) => Stands::Nothing,
            (Some(hidden), _) => {
                let by = table
                    .cover_of(hidden)
                    .or_else(|| table.mounts().iter().find(|mount| Some(mount.id) == seen));
                Stands::Covered(Covered { hidden: (*hidden).clone(), by: by.cloned() })
            }
        }
    }
}

impl MountTable {
    /// What covers a mount, by the table alone: of all that stands on the way down to it the first
    /// that the way does not lead through. To be taken off first, and for words only.
    pub fn cover_of(&self, hidden: &Mount) -> Option<&Mount> {
        let of_id = |id: u32| self.mounts().iter().find(|mount| mount.id == id);
        let mut chain = vec![hidden];
        while let Some(below) = chain.last().and_then(|mount| of_id(mount.parent)) {
            if chain.iter().any(|known| known.id == below.id) {
                break;
            }
            chain.push(below);
        }
        chain.reverse();
        let is_on_the_way = |mount: &Mount| chain.iter().any(|one| one.id == mount.id);
        // Of several on one ground a look-up meets the one that is nearest to the root.
        let covers = |ground: &Mount, next: &Mount| {
            let is_over = |mount: &&Mount| {
                mount.parent == ground.id
                    && !is_on_the_way(mount)
                    && next.target.starts_with(&mount.target)
            };
            let all = self.mounts().iter().filter(is_over);
            all.min_by_key(|mount| mount.target.components().count())
        };
        let nexts = chain.iter().skip(1).copied().chain([hidden]);
        let mut cover = chain.iter().zip(nexts).find_map(|(ground, next)| covers(ground, next))?;
        // Of several on each other the upper one is seen.
        for _ in 0..self.mounts().len() {
            let on_it = |mount: &&Mount| mount.parent == cover.id && mount.id != cover.id;
            let mut above = self.mounts().iter().filter(|mount| mount.target == cover.target);
            let Some(above) = above.find(on_it) else { break };
            cover = above;
        }
        Some(cover)
    }
}

impl Covered {
    /// The failure that names what covers, and the command that ends it.
    pub fn error(&self) -> Error {
        let Mount { id, number, target, .. } = &self.hidden;
        let (place, by, end) = (target.display(), self.by_whom(), self.way_out());
        Error::refused(format!("mount {id} of device {number} at {place} is covered by {by}")).hint(
            format!("what is written there now goes elsewhere; take off what covers it: {end}"),
        )
    }

    /// What covers, in words.
    pub fn by_whom(&self) -> String {
        self.by.as_ref().map_or_else(
            || "what is not in the mount table".to_owned(),
            |by| {
                let over = by.target.display();
                format!("mount {} ({} from {}) at {over}", by.id, by.fs_type, by.source)
            },
        )
    }

    /// The command that ends it, or shows more.
    pub fn way_out(&self) -> String {
        match &self.by {
            Some(by) => format!("umount {}", by.target.display()),
            None => format!("findmnt --target {}", self.hidden.target.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "/k/pods/u/vol";

    fn look(lines: &str, seen: Option<u32>) -> Stands {
        let table = MountTable::parse(lines.as_bytes()).unwrap();
        Look::of(Path::new(POD), seen, table).stands
    }

    fn covered_by(stands: &Stands) -> Option<(u32, u32)> {
        match stands {
            Stands::Covered(Covered { hidden, by }) => Some((hidden.id, by.as_ref()?.id)),
            _ => None,
        }
    }

    const GROUND: &str = "1 1 254:0 / / rw - ext4 d rw\n10 1 7:0 / /k/pods/u/vol rw - ext4 s rw\n";

    #[test]
    fn a_mount_that_its_path_leads_to_is_told_with_what_it_stands_on() {
        assert_eq!(look("1 1 254:0 / / rw - ext4 d rw\n", Some(1)), Stands::Nothing);
        let Stands::Mount { top, beneath } = look(GROUND, Some(10)) else { panic!() };
        assert_eq!((top.id, beneath.len()), (10, 0));
        let stacked = format!("{GROUND}11 10 7:0 / /k/pods/u/vol rw - ext4 s rw\n");
        let Stands::Mount { top, beneath } = look(&stacked, Some(11)) else { panic!() };
        assert_eq!((top.id, beneath[0].id), (11, 10));
    }

    #[test]
    fn a_mount_over_any_folder_above_covers_it() {
        for over in ["/k", "/k/pods", "/k/pods/u"] {
            let lines = format!("{GROUND}20 1 0:50 / {over} rw - tmpfs none rw\n");
            // The folder may be there again, or not.
            for seen in [Some(20), None] {
                assert_eq!(covered_by(&look(&lines, seen)), Some((10, 20)), "{over}");
            }
            // A mount of the volume on the cover does not uncover the one below, unless it is its peer.
            let other = format!("{lines}30 20 7:1 / {POD} rw - ext4 s rw\n");
            assert_eq!(covered_by(&look(&other, Some(30))), Some((10, 20)));
            let twin = format!("{lines}30 20 7:0 / {POD} rw - ext4 s rw\n");
            assert!(matches!(look(&twin, Some(30)), Stands::Mount { top, .. } if top.id == 30));
        }
    }

    #[test]
    fn of_several_covers_the_one_that_is_seen_is_named() {
        let lines = format!(
            "{GROUND}20 1 0:50 / /k/pods rw - tmpfs none rw\n21 1 0:51 / /k rw - tmpfs none rw\n22 21 0:52 / /k rw - tmpfs none rw\n"
        );
        assert_eq!(covered_by(&look(&lines, Some(22))), Some((10, 22)));
        // On kubelet's own file system.
        let lines = "1 1 254:0 / / rw - ext4 d rw\n2 1 8:1 / /k rw - ext4 k rw\n\
            10 2 7:0 / /k/pods/u/vol rw - ext4 s rw\n20 2 0:5 / /k rw - tmpfs t rw\n";
        assert_eq!(covered_by(&look(lines, Some(20))), Some((10, 20)));
        let ended = look(lines, Some(20));
        let Stands::Covered(covered) = ended else { panic!() };
        let said = covered.error().to_string();
        assert!(said.contains("tmpfs from t") && said.ends_with("umount /k"), "{said}");
    }

    #[test]
    fn a_file_system_beneath_covers_nothing() {
        let lines = "1 1 254:0 / / rw - ext4 d rw\n2 1 8:1 / /k rw - ext4 k rw\n\
            3 2 8:2 / /k/pods rw - ext4 k rw\n10 3 7:0 / /k/pods/u/vol rw - ext4 s rw\n";
        assert!(matches!(look(lines, Some(10)), Stands::Mount { top, .. } if top.id == 10));
        let table = MountTable::parse(lines.as_bytes()).unwrap();
        assert_eq!(table.cover_of(table.mounts().last().unwrap()), None);
    }

    proptest::proptest! {
        #[test]
        fn no_table_makes_the_rule_run_for_ever(
            links in proptest::collection::vec((0u32..8, 0u32..8, 0usize..4), 0..12),
            seen in proptest::option::of(0u32..8),
        ) {
            let places = ["/", "/k", "/k/pods/u/vol", "/k/pods"];
            let line = |(id, parent, place): &(u32, u32, usize)| {
                format!("{id} {parent} 7:{id} / {} rw - e s rw", places[*place])
            };
            let lines: Vec<String> = links.iter().map(line).collect();
            let lines = lines.join("\n");
            let _ = look(&lines, seen);
        }
    }
}
