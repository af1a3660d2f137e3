//! Detached mounts of the new file system, each with the properties of the old one that it is to
//! replace. Made in the namespace of the source: the kernel copies no mount of another one.

use super::attributes::{self, ID_MAPPED};
use super::namespace::{Inside, attach, clone, failed};
use crate::kernel::{MountChange, change_mount, owner_of_namespace};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::{Method, group_of};
use crate::safe_path::is_folder;
use nix::mount::MsFlags;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What an old mount is to be replaced by.
#[derive(Debug)]
pub(in crate::remount) enum New {
    /// This detached mount.
    Tree(OwnedFd),
    /// One that is made where it is needed.
    ToMake,
}

/// The new mounts by the old ones' ids, and why there is none of some.
pub(in crate::remount) type NewMounts = (BTreeMap<u32, New>, HashMap<u32, String>);

/// The new file system, as the machine has it mounted.
pub(in crate::remount) struct Family<'a> {
    pub(in crate::remount) here: &'a Inside,
    pub(in crate::remount) fresh: &'a OwnedFd,
    /// A peer group, and who stands for it.
    pub(in crate::remount) group: Option<(u32, &'a OwnedFd)>,
}

/// Whether an old mount was a peer in the group.
pub(in crate::remount) fn is_peer(old: &Mount, group: Option<u32>) -> bool {
    group.is_some() && group_of(&old.propagation, "shared:") == group
}

impl Family<'_> {
    /// A new one for each old one.
    pub(in crate::remount) fn all(
        &self,
        stale: &[Mount],
        namespace: Option<&File>,
        method: Method,
    ) -> Result<NewMounts> {
        let here = self.here;
        let (mut news, mut refusals) = NewMounts::default();
        let mut sort = |old: &Mount, made: Result<New>| match made {
            Ok(new) => drop(news.insert(old.id, new)),
            Err(error) => drop(refusals.insert(old.id, error.to_string())),
        };
        let copies = !matches!(method, Method::TuckByMount | Method::Stack);
        if let Some((_, place)) = self.group.filter(|_| copies)
            && stale.iter().any(|old| self.kind_of(old) != MsFlags::MS_PRIVATE)
        {
            here.propagate(place, MsFlags::MS_SHARED)?;
        }
        match method {
            Method::Beneath | Method::Tuck => {
                for old in stale {
                    sort(old, self.with_attributes(old, namespace).map(New::Tree));
                }
            }
            Method::TuckRemounted => {
                let bare = |old| must_not_be_mapped(old).and_then(|()| self.bare(old));
                let all: Vec<_> = stale.iter().map(|old| (old, bare(old))).collect();
                here.in_scratch(|| {
                    let stages = stages(here)?;
                    for (old, tree) in all {
                        let new = tree.and_then(|tree| self.remounted(&tree, old, &stages));
                        sort(old, new.map(New::Tree));
                    }
                    Ok(())
                })?;
            }
            Method::TuckByMount | Method::Stack => {
                for old in stale {
                    let place = source(here, self.fresh, old);
                    sort(old, place.and_then(|_| must_not_be_mapped(old)).map(|()| New::ToMake));
                }
            }
        }
        Ok((news, refusals))
    }

    fn bare(&self, old: &Mount) -> Result<OwnedFd> {
        let family = self.group.filter(|_| self.kind_of(old) != MsFlags::MS_PRIVATE);
        let from = family.map_or(self.fresh, |(_, place)| place);
        clone(source(self.here, from, old)?, OpenTreeFlags::empty())
            .map_err(|errno| failed("copy the mount of the new disk", errno))
    }

    /// The copy of a shared mount is its peer: what is attached in it would come out there too. A
    /// slave only follows.
    fn kind_of(&self, old: &Mount) -> MsFlags {
        let group = self.group.map(|(number, _)| number);
        let is_slave = group.is_some() && group_of(&old.propagation, "master:") == group;
        if is_peer(old, group) {
            MsFlags::empty()
        } else if is_slave {
            MsFlags::MS_SLAVE
        } else {
            MsFlags::MS_PRIVATE
        }
    }

    fn with_attributes(&self, old: &Mount, namespace: Option<&File>) -> Result<OwnedFd> {
        let tree = self.bare(old)?;
        let owners = owners(old, namespace)?;
        let (set, clear) = attributes::of(&old.options);
        let change = MountChange {
            set: if owners.is_some() { set | ID_MAPPED } else { set },
            clear,
            propagation: self.kind_of(old).bits(),
            owners: owners.as_ref(),
        };
        change_mount(&tree, change).map_err(|errno| match &owners {
            Some(_) => failed("map the owners of the files as before", errno),
            None => failed("give the new mount its flags", errno),
        })?;
        Ok(tree)
    }

    /// mount(2) changes attached mounts alone.
    fn remounted(
        &self,
        tree: &OwnedFd,
        old: &Mount,
        [folder, file]: &[OwnedFd; 2],
    ) -> Result<OwnedFd> {
        let stage = if is_folder(tree) { folder } else { file };
        attach(tree, stage, MoveMountFlags::empty())
            .map_err(|errno| failed("attach a mount in the scratch namespace", errno))?;
        let kind = self.kind_of(old);
        if !kind.is_empty() {
            self.here.propagate(tree, kind)?;
        }
        self.here.give_flags(tree, attributes::flags_of(&old.options))?;
        clone(tree, OpenTreeFlags::empty()).map_err(|errno| failed("copy the new mount", errno))
    }
}

/// The place on the new file system that the old mount showed.
pub(in crate::remount) fn source(here: &Inside, fresh: &OwnedFd, old: &Mount) -> Result<OwnedFd> {
    let root = &old.root;
    let deleted = || Error::refused(format!("its folder {} no longer exists", root.display()));
    // So the kernel marks the root of a mount that was removed from its folder.
    if root.as_os_str().as_bytes().ends_with(b"//deleted") {
        return Err(deleted());
    }
    let below = root.strip_prefix("/").unwrap_or(root);
    // The names in it are the tenant's: a link that stands there now must not lead out.
    here.below(fresh, below).map_err(|errno| match errno {
        rustix::io::Errno::NOENT => deleted(),
        errno => failed(format!("open {} on the new disk", root.display()), errno),
    })
}

/// A folder and a file of the scratch namespace, where no other process sees what is mounted: on a mount
/// that every machine has, also in a chroot, where "/" may be none.
fn stages(here: &Inside) -> Result<[OwnedFd; 2]> {
    let folder = here.way.open(Path::new("/proc"))?;
    here.propagate(&folder, MsFlags::MS_PRIVATE)?;
    let file = here.way.open(Path::new("/proc/version"))?;
    Ok([folder, file])
}

fn must_not_be_mapped(old: &Mount) -> Result<()> {
    if attributes::is_id_mapped(&old.options) {
        return Err(Error::new(Kind::Host, "this kernel's method cannot map owners")
            .hint("a restart of the container helps"));
    }
    Ok(())
}

/// The user namespace that maps the owners of an id-mapped mount's files: that of its container,
/// as runtimes have it. Without it the mount would show files of people that are not there.
fn owners(old: &Mount, namespace: Option<&File>) -> Result<Option<File>> {
    if !attributes::is_id_mapped(&old.options) {
        return Ok(None);
    }
    let namespace = namespace.ok_or_else(|| {
        Error::refused("its owners are mapped, and by which user namespace is not known")
    })?;
    owner_of_namespace(namespace)
        .map(Some)
        .map_err(|errno| failed("find the user namespace that maps its owners", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mount_of_the_same_group_is_a_peer() {
        let shares =
            |fields: &str, group| is_peer(&Mount::of_a_test("7:1", "/data", fields), group);
        assert!(shares("shared:5 ", Some(5)));
        assert!(!shares("shared:5 ", Some(6)));
        assert!(!shares("shared:5 ", None));
        assert!(!shares("master:5 ", Some(5)), "it follows");
        assert!(!shares("", None));
    }
}
