//! New mounts by mount(2) alone. It binds nothing of another namespace: so the disk is mounted once
//! more where the new mounts are needed, in a scratch copy of the namespace, by a node made there.
//! It is the same file system then, for the kernel mounts no disk twice.

use super::attributes;
use super::detached::{New, source};
use super::namespace::{Inside, failed, number_of, take_root};
use super::nested::{Nested, Piece, What, place_in};
use super::parent_mounts::{Ground, Ready};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::safe_path::is_folder;
use nix::mount::MsFlags;
use nix::sys::stat::{Mode as NixMode, SFlag, makedev, mknodat};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// What a mount was made of.
#[derive(Debug)]
pub(in crate::remount) struct Origin {
    number: DeviceNumber,
    /// The path that was given for it, which the mount table goes on to show.
    source: String,
    fs_type: String,
    flags: MsFlags,
}

impl Origin {
    pub(in crate::remount) fn of(here: &Inside, fresh: &OwnedFd) -> Result<Self> {
        let id = here.mount_id(fresh)?;
        let table = here.table()?;
        let mount = table.mounts().iter().find(|mount| mount.id == id).ok_or_else(|| {
            Error::new(Kind::Host, "the mount of the new disk is not in the mount table")
        })?;
        let read_only = mount.is_super_read_only();
        let is_path = is_path_of_a_node(Path::new(&mount.source));
        let source = if is_path { mount.source.clone() } else { format!("/dev/{}", mount.number) };
        Ok(Self {
            number: mount.number,
            source,
            fs_type: mount.fs_type.clone(),
            flags: if read_only { MsFlags::MS_RDONLY } else { MsFlags::empty() },
        })
    }
}

/// Whether a node can be made at that path: it leads down from the root, and nowhere else.
fn is_path_of_a_node(path: &Path) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    path.strip_prefix("/")
        .is_ok_and(|path| path != Path::new("") && path.components().all(is_plain))
}

/// Makes new mounts and sends them.
pub(in crate::remount) struct Workshop<'a> {
    pub(in crate::remount) origin: &'a Origin,
    pub(in crate::remount) stale: &'a [Mount],
    pub(in crate::remount) news: &'a BTreeMap<u32, New>,
    /// What did not come along, by the old mounts' ids.
    pub(in crate::remount) notes: RefCell<HashMap<u32, Vec<String>>>,
}

impl Workshop<'_> {
    pub(in crate::remount) fn send(
        &self,
        inside: &Inside,
        grounds: &mut [Ground],
        ready: &[Ready<'_>],
    ) -> Result<Vec<Result<bool>>> {
        if !inside.is_of_our_users() {
            // A copy of such a namespace would have slaves of its mounts and no peers.
            return Err(Error::new(
                Kind::Host,
                "this kernel's method cannot reach a container with users of its own",
            )
            .hint("restart the container"));
        }
        inside.in_scratch(|| {
            if !inside.is_own() {
                inside
                    .out_of_scratch(|| grounds.iter_mut().try_for_each(|one| one.follow(inside)))?;
            }
            let table = inside.table()?;
            // All that is needed is opened before something covers it.
            let parents: Vec<_> =
                grounds.iter().map(|ground| twin(inside, &table, &ground.mount)).collect();
            let olds: Vec<_> = ready
                .iter()
                .map(|one| {
                    let (place, old) = twin(inside, &table, one.old)?;
                    let nested = Nested::of(inside, &table, old, &|mount| self.old_of(mount));
                    Ok((place, old, nested))
                })
                .collect();
            let taken: Vec<u32> = parents.iter().flatten().map(|(_, mount)| mount.id).collect();
            let at_olds = olds.iter().flatten().map(|(_, old, _)| *old);
            let stage = at_olds
                .chain(table.mounts())
                .filter(|mount| !taken.contains(&mount.id))
                .find_map(|mount| {
                    let place = inside.pin(mount).ok().filter(is_folder)?;
                    Some((place, mount))
                })
                .ok_or_else(|| Error::refused("there is no folder to work in"))?;
            let bench = Bench::set_up(inside, &stage.0, &stage.1.target)?;
            let base = bench.mount(self.origin)?;
            let peers: BTreeMap<u32, Result<OwnedFd>> = grounds
                .iter()
                .zip(parents)
                .map(|(ground, parent)| {
                    let peer = parent.and_then(|(place, _)| bench.bind(&place, MsFlags::empty()));
                    (ground.mount.id, peer)
                })
                .collect();
            let one = |(one, old): (&Ready<'_>, Result<(OwnedFd, &Mount, Nested)>)| {
                let (_, _, mut nested) = old?;
                let tree = bench.make(&base, one.old)?;
                self.fill(&bench, &base, &tree, one.old, &mut nested);
                self.notes.borrow_mut().insert(one.old.id, nested.notes);
                let peer = one.ground().and_then(|ground| peers.get(&ground));
                let peer = match peer.map(Result::as_ref) {
                    Some(Ok(peer)) => peer,
                    Some(Err(error)) => return Err(error.clone()),
                    None => return Ok(false),
                };
                let place = inside
                    .below(peer, one.below())
                    .map_err(|errno| failed("send the new mount", errno))?;
                inside.bind(&tree, &place, MsFlags::MS_REC)?;
                Ok(true)
            };
            Ok(ready.iter().zip(olds).map(one).collect())
        })
    }

    /// The old mount that one of the scratch namespace is the copy of, if it is to be replaced.
    fn old_of(&self, copy: &Mount) -> Option<u32> {
        let old = self.stale.iter().find(|old| are_twins(old, copy))?;
        self.news.contains_key(&old.id).then_some(old.id)
    }

    /// Puts into the new mount what is mounted in the old one.
    fn fill(
        &self,
        bench: &Bench<'_>,
        base: &OwnedFd,
        tree: &OwnedFd,
        old: &Mount,
        nested: &mut Nested,
    ) {
        let inside = bench.inside;
        for Piece { target, what } in std::mem::take(&mut nested.pieces) {
            let place = || {
                place_in(inside, tree, &old.target, &target)
                    .map_err(|errno| failed("its place on the new disk", errno))
            };
            let put = place().and_then(|to| match what {
                What::Copy { place, with_all: true } => inside.bind(&place, &to, MsFlags::MS_REC),
                What::Copy { place: from, with_all: false } => {
                    inside.bind(&from, &to, MsFlags::empty())?;
                    // What is attached in a peer comes out in the mount that it was copied from.
                    inside.propagate(&place()?, MsFlags::MS_PRIVATE)
                }
                What::New(id) => {
                    let old = self.stale.iter().find(|old| old.id == id);
                    let old = old.ok_or_else(|| Error::new(Kind::Bug, "an unknown mount"))?;
                    inside.bind(&bench.make(base, old)?, &to, MsFlags::empty())
                }
            });
            if let Err(error) = put {
                nested.leave(&target, &error.cause);
            }
        }
    }
}

fn are_twins(one: &Mount, other: &Mount) -> bool {
    one.number == other.number && one.root == other.root && one.target == other.target
}

/// The copy of a mount in the scratch namespace.
pub(in crate::remount) fn twin<'t>(
    inside: &Inside,
    table: &'t MountTable,
    of: &Mount,
) -> Result<(OwnedFd, &'t Mount)> {
    let place = inside.way.open(&of.target)?;
    let id = inside.mount_id(&place)?;
    let found = table.mounts().iter().find(|mount| mount.id == id && are_twins(mount, of));
    let found = found.ok_or_else(|| {
        Error::refused(format!("{} leads elsewhere in the scratch namespace", of.target.display()))
    })?;
    Ok((place, found))
}

/// A file system of its own in the scratch namespace, which is this thread's root.
struct Bench<'a> {
    inside: &'a Inside,
    root: OwnedFd,
    made: Cell<u32>,
}

impl<'a> Bench<'a> {
    fn set_up(inside: &'a Inside, stage: &OwnedFd, path: &Path) -> Result<Self> {
        inside.propagate(stage, MsFlags::MS_PRIVATE)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        inside.mount(stage, "incloud-disk", "tmpfs", flags, Some("size=1m,mode=0700"))?;
        let root = inside.way.open(path)?;
        if inside.mount_id(&root)? == inside.mount_id(stage)? {
            return Err(Error::refused(format!("{} leads elsewhere", path.display())));
        }
        take_root(&root)?;
        Ok(Self { inside, root, made: Cell::new(0) })
    }

    /// Makes an empty folder, or a file.
    fn place(&self, is_folder: bool) -> rustix::io::Result<String> {
        self.made.set(self.made.get() + 1);
        let name = format!("{}", self.made.get());
        if is_folder {
            mkdirat(&self.root, name.as_str(), Mode::RWXU)?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(&self.root, name.as_str(), flags, Mode::RUSR)?;
        }
        Ok(name)
    }

    /// What is at a place of it now.
    fn top(&self, name: &str) -> Result<OwnedFd> {
        self.open(name).map_err(|errno| failed("open a place in the scratch namespace", errno))
    }

    fn open(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.root, name, flags, Mode::empty())
    }

    fn bind(&self, from: &OwnedFd, also: MsFlags) -> Result<OwnedFd> {
        let made = self.place(is_folder(from)).and_then(|name| Ok((self.open(&name)?, name)));
        let (place, name) =
            made.map_err(|errno| failed("make a place in the scratch namespace", errno))?;
        self.inside.bind(from, &place, also)?;
        self.top(&name)
    }

    /// Mounts the disk.
    fn mount(&self, origin: &Origin) -> Result<OwnedFd> {
        self.node(origin).map_err(|errno| failed("make a node of the new disk", errno))?;
        let made = self.place(true).and_then(|name| Ok((self.open(&name)?, name)));
        let (place, name) =
            made.map_err(|errno| failed("make a place in the scratch namespace", errno))?;
        let Origin { source, fs_type, flags, number } = origin;
        self.inside.mount(&place, source, fs_type, *flags, None)?;
        let top = self.top(&name)?;
        if number_of(&top)? != *number {
            return Err(Error::refused(
                "what was mounted in the scratch namespace is another disk",
            ));
        }
        Ok(top)
    }

    fn node(&self, origin: &Origin) -> nix::Result<()> {
        let path = Path::new(&origin.source).strip_prefix("/").unwrap_or(Path::new("disk"));
        let mut folders: Vec<_> = path.ancestors().skip(1).collect();
        folders.pop();
        for folder in folders.into_iter().rev() {
            mkdirat(&self.root, folder, Mode::RWXU).map_err(errno_of)?;
        }
        let DeviceNumber { major, minor } = origin.number;
        let number = makedev(u64::from(major), u64::from(minor));
        mknodat(&self.root, path, SFlag::S_IFBLK, NixMode::S_IRUSR | NixMode::S_IWUSR, number)
    }

    /// A new mount for an old one, with nothing in it.
    fn make(&self, base: &OwnedFd, old: &Mount) -> Result<OwnedFd> {
        let tree = self.bind(&source(self.inside, base, old)?, MsFlags::empty())?;
        self.inside.give_flags(&tree, attributes::flags_of(&old.options))?;
        Ok(tree)
    }
}

fn errno_of(errno: rustix::io::Errno) -> nix::errno::Errno {
    nix::errno::Errno::from_raw(errno.raw_os_error())
}

/// Puts a new mount on the old one, in the namespace that the new disk is mounted in.
pub(in crate::remount) fn put_on(
    inside: &Inside,
    fresh: &OwnedFd,
    old: &Mount,
    at: &OwnedFd,
) -> Result<()> {
    let from = source(inside, fresh, old)?;
    inside.bind(&from, at, MsFlags::empty())?;
    let top = inside.way.open(&old.target)?;
    if inside.mount_id(&top)? == old.id {
        return Err(Error::new(Kind::Host, "the new mount did not come to its place"));
    }
    inside.propagate(&top, MsFlags::MS_PRIVATE)?;
    inside.give_flags(&top, attributes::flags_of(&old.options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_made_at_a_path_that_leads_down_from_the_root() {
        for (source, is_one) in [
            ("/dev/vdb", true),
            ("/dev/incloud-disk/v-1", true),
            ("/vdb", true),
            ("/", false),
            ("", false),
            ("none", false),
            ("dev/vdb", false),
            ("/dev/../vdb", false),
        ] {
            assert_eq!(is_path_of_a_node(Path::new(source)), is_one, "{source}");
        }
    }

    #[test]
    fn twins_show_the_same_of_one_file_system_at_one_place() {
        let with = |number: &str, root: &str, target: &str| Mount {
            root: root.into(),
            ..Mount::of_a_test(number, target, "")
        };
        let one = with("7:1", "/", "/data");
        assert!(are_twins(&one, &with("7:1", "/", "/data")));
        assert!(!are_twins(&one, &with("7:2", "/", "/data")));
        assert!(!are_twins(&one, &with("7:1", "/sub", "/data")));
        assert!(!are_twins(&one, &with("7:1", "/", "/other")));
    }
}
