//! Whether the machine's mount of a volume may go for good, by one look at the namespaces that have the volume.

use super::disk_users::{NamespaceUse, NamespaceUses, Untold};
use super::mountinfo::{Mount, MountTable};
use super::ownership::{Machine, NamespaceRole};
use super::replacement::group_of;
use crate::ids::ConsumerId;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What an unmount for good meets in other namespaces.
#[derive(Debug, PartialEq, Eq)]
pub enum UnstageRuling<'a> {
    /// Something that could not be read may have the volume: a process of these pods, or, where there are none, any.
    Hidden(&'a Untold, BTreeSet<ConsumerId>),
    /// Containers have it that were given it.
    Claimed(Vec<&'a NamespaceUse>),
    /// At most copies of the machine's folders.
    Copied(LeakedCopies),
}

/// Copies of the machine's mounts in namespaces that were not given the volume.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeakedCopies {
    /// Those to be unmounted from inside.
    pub inside: Vec<LeakedCopy>,
    /// The machine's folders under those of which the inside is a user's.
    pub folders: BTreeSet<PathBuf>,
    /// Whether some share with the machine's own mounts: those go with them.
    pub has_peers: bool,
}

/// Mounts of one namespace that are unmounted from inside.
#[derive(Debug, PartialEq, Eq)]
pub struct LeakedCopy {
    pub namespace: NamespaceUse,
    /// The machine's folders that the namespace's mounts cover, if each covers one: another way to end them.
    pub covered: Option<BTreeSet<PathBuf>>,
}

/// Decides by what is read of other namespaces, and by the machine's own table.
pub fn judge<'a>(
    uses: &'a NamespaceUses,
    machine: &Machine<'_>,
    table: &MountTable,
) -> UnstageRuling<'a> {
    // A pod of this volume's that hides its mounts may be what must not be robbed; those of others have
    // copies at most, which keep the disk.
    if let Some(untold) = uses.hidden(|pod| machine.remembers(pod)) {
        let pods = untold.pods.iter().filter(|pod| machine.remembers(pod)).cloned();
        return UnstageRuling::Hidden(untold, pods.collect());
    }
    let (claims, others): (Vec<_>, Vec<_>) =
        uses.namespaces.iter().partition(|one| machine.role(one) == NamespaceRole::Claim);
    if !claims.is_empty() {
        return UnstageRuling::Claimed(claims);
    }
    let mut copies = LeakedCopies::default();
    for one in others {
        let covered = one.mounts.iter().map(|mount| machine.folder_under(mount, one));
        let covered: Option<BTreeSet<_>> = covered.collect();
        // In a namespace of his own a user covers and locks mounts as he likes, and a walk
        // through it may take for ever.
        if one.user.is_some()
            && let Some(covered) = covered
        {
            copies.folders.extend(covered);
            continue;
        }
        // What shares with the machine's own mounts goes with them, or is looked for afterwards.
        let mut namespace = one.clone();
        namespace.mounts.retain(|mount| !is_peer_of_own(table, mount));
        copies.has_peers |= namespace.mounts.len() < one.mounts.len();
        if !namespace.mounts.is_empty() {
            copies.inside.push(LeakedCopy { namespace, covered });
        }
    }
    UnstageRuling::Copied(copies)
}

/// Whether a mount in another namespace is a peer of one of the machine's own: then the two are one
/// mount, and an unmount of either may take the other along.
fn is_peer_of_own(table: &MountTable, mount: &Mount) -> bool {
    let Some(group) = group_of(&mount.propagation, "shared:") else { return false };
    table.of(mount.number).any(|own| group_of(&own.propagation, "shared:") == Some(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Owner;
    use crate::disk::device::DeviceNumber;
    use crate::face::OF_TESTS;
    use crate::ids::VolumeId;
    use crate::mount::disk_users::Process;
    use crate::record::VolumeRecord;

    const VOLUME: DeviceNumber = DeviceNumber { major: 7, minor: 0 };
    const GLOBAL: &str = "/var/lib/nodeagent/plugins/stages/pv";
    const MACHINE: &str = "\
1 1 254:0 / / rw - ext4 root rw
3 1 7:0 / /var/lib/nodeagent/plugins/stages/pv rw shared:5 - ext4 v rw
";

    fn table(text: &str) -> MountTable {
        MountTable::parse(text.as_bytes()).unwrap()
    }

    fn pod(name: &str) -> ConsumerId {
        ConsumerId::parse(name).unwrap()
    }

    /// A namespace that has the volume at this place: a container's own, or the machine's folder.
    fn namespace(place: &str, propagation: &str, of: &str) -> NamespaceUse {
        let text =
            format!("8 8 254:0 / / rw - ext4 r rw\n9 8 7:0 / {place} rw {propagation}- ext4 v rw");
        let table = table(&text);
        let owner = Owner { pod: Some(pod(of)), ..Owner::default() };
        let processes = vec![Process { owner, ..Process::of_a_test(7) }];
        let beneath = table.mounts()[..1].to_vec();
        NamespaceUse { beneath, ..NamespaceUse::of_a_test(table.mounts()[1..].to_vec(), processes) }
    }

    fn untold(of: &[&str], is_anyones: bool) -> Untold {
        let pods = of.iter().map(|name| pod(name)).collect();
        Untold { pods, is_anyones, ..Untold::of_unknown("7".to_owned(), "no".to_owned()) }
    }

    /// What is judged of these, for a volume that pod `a` has or had.
    fn judged<T>(uses: &NamespaceUses, told: impl FnOnce(UnstageRuling<'_>) -> T) -> T {
        let (own, mut record) = (table(MACHINE), VolumeRecord::new(VolumeId::parse("v").unwrap()));
        record.mounts.consumers.insert(pod("a"), String::new());
        let machine = Machine::new(OF_TESTS, &own, Some(&record), &[VOLUME]);
        told(judge(uses, &machine, &own))
    }

    fn uses(namespaces: Vec<NamespaceUse>, untold: Vec<Untold>) -> NamespaceUses {
        NamespaceUses { namespaces, untold, ..NamespaceUses::default() }
    }

    #[test]
    fn what_hides_counts_for_the_volumes_pods_or_for_all() {
        let hidden = |one: Untold, then: Vec<NamespaceUse>| {
            judged(&uses(then, vec![one]), |ruling| match ruling {
                UnstageRuling::Hidden(_, pods) => Some(pods),
                _ => None,
            })
        };
        assert_eq!(hidden(untold(&["a", "b"], false), vec![]), Some([pod("a")].into()));
        assert_eq!(hidden(untold(&["b"], true), vec![]), Some(BTreeSet::new()));
        assert_eq!(hidden(untold(&["b"], false), vec![]), None);
        // Before what was seen: a container that hides may lose more.
        let claim = namespace("/data", "", "a");
        assert_eq!(hidden(untold(&["a"], false), vec![claim]), Some([pod("a")].into()));
    }

    #[test]
    fn a_container_that_was_given_it_comes_before_all_copies() {
        let [claim, copy] = [namespace("/data", "", "b"), namespace(GLOBAL, "", "b")];
        let uses = uses(vec![copy, claim.clone()], vec![untold(&["b"], false)]);
        judged(&uses, |ruling| assert_eq!(ruling, UnstageRuling::Claimed(vec![&claim])));
        let nothing = NamespaceUses::default();
        judged(&nothing, |ruling| {
            assert_eq!(ruling, UnstageRuling::Copied(LeakedCopies::default()));
        });
    }

    #[test]
    fn a_copy_is_unmounted_from_inside_or_ends_with_its_folder_or_goes_with_its_peer() {
        let copies = |one: NamespaceUse| {
            judged(&uses(vec![one], vec![]), |ruling| match ruling {
                UnstageRuling::Copied(copies) => copies,
                other => panic!("{other:?}"),
            })
        };
        let folders: BTreeSet<PathBuf> = [GLOBAL.into()].into();
        let plain = namespace(GLOBAL, "", "b");
        let found = copies(plain.clone());
        let inside = vec![LeakedCopy { namespace: plain, covered: Some(folders.clone()) }];
        assert_eq!(found, LeakedCopies { inside, ..LeakedCopies::default() });

        let users = NamespaceUse { user: Some(1000), ..namespace(GLOBAL, "", "b") };
        assert_eq!(copies(users), LeakedCopies { folders, ..LeakedCopies::default() });

        let peer = copies(namespace(GLOBAL, "shared:5 ", "b"));
        assert_eq!(peer, LeakedCopies { has_peers: true, ..LeakedCopies::default() });
        for other in ["shared:9 ", "master:5 "] {
            assert_eq!(copies(namespace(GLOBAL, other, "b")).inside.len(), 1, "{other}");
        }
        // No process is left that has it at a place of its own, and no folder of the machine's is beneath.
        let abandoned =
            NamespaceUse { processes: vec![], user: Some(1000), ..namespace("/data", "", "b") };
        assert_eq!(copies(abandoned).inside[0].covered, None);
    }
}
