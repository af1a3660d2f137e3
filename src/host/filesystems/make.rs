//! New file systems, by the tools of each.

use crate::device_nodes::Node;
use crate::model::disk::contents::FsType;
use crate::model::error::{Error, Kind, Result};
use crate::ports::clock::Deadline;
use crate::ports::host::{NewFileSystem, Proven};
use crate::{failpoints, tool};
use std::fs::File;
use std::os::fd::AsRawFd;

/// Features that mkfs.xfs makes by default and that older kernels refuse to mount: the first
/// kernel that takes each.
const YOUNG_XFS: [((u32, u32), [&str; 2]); 5] = [
    ((4, 16), ["-m", "reflink=0"]),
    ((4, 16), ["-m", "rmapbt=0"]),
    ((5, 10), ["-m", "bigtime=0,inobtcount=0"]),
    ((5, 19), ["-i", "nrext64=0"]),
    ((6, 10), ["-i", "exchange=0"]),
];

/// Inode tables are zeroed by the kernel after the mount, the journal by mkfs. Where a disk cannot
/// write zeroes by itself the tables of 100 GiB took 4.6 s and 1.6 GiB of writes, and of 2 TiB would
/// take longer than kubelet waits; and until then the kernel takes no old block for a table. An old
/// journal's blocks may be taken for new ones when its superblock is lost, and it is 1 GiB at most.
const EXT_EXTENDED: &str = "nodiscard,lazy_itable_init=1,lazy_journal_init=0";

pub(super) fn make(disk: &Proven<'_>, plan: &NewFileSystem, deadline: Deadline) -> Result<()> {
    failpoints::effect("filesystems.make")?;
    let node = Node::labelled(disk.volume(), disk.device())?;
    run(plan, &node.path().to_string_lossy(), deadline)
}

/// Makes the file system in a file.
pub(super) fn make_copy(file: &File, plan: &NewFileSystem, deadline: Deadline) -> Result<()> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    run(plan, &path, deadline)
}

fn run(plan: &NewFileSystem, path: &str, deadline: Deadline) -> Result<()> {
    let name = format!("mkfs.{}", plan.kind);
    let program = tool::locate(&name)?;
    let mut words = MkfsWords::of(plan, kernel_version());
    let outcome = loop {
        let all = words.all(path)?;
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let outcome = tool::launch_on_disk(&program, &all, deadline)?;
        if !words.leave_out(outcome.status, &outcome.text) {
            break outcome;
        }
    };
    match outcome.status {
        Some(0) => Ok(()),
        status => Err(Error::new(
            Kind::Host,
            format!("{name} {}: {}", tool::ended(status), outcome.last_line()),
        )),
    }
}

/// What a mkfs is told.
struct MkfsWords {
    plan: NewFileSystem,
    /// What keeps features away that this kernel would not mount.
    cautious: Vec<&'static str>,
}

impl MkfsWords {
    fn of(plan: &NewFileSystem, kernel: Option<(u32, u32)>) -> Self {
        let is_xfs = plan.kind == FsType::Xfs;
        let cautious = if is_xfs { for_old_kernels(kernel) } else { vec![] };
        Self { plan: plan.clone(), cautious }
    }

    fn all(&self, path: &str) -> Result<Vec<String>> {
        let mut all = fixed(&self.plan)?;
        all.extend(self.cautious.iter().map(|word| (*word).to_owned()));
        all.extend(self.plan.options.words(self.plan.kind)?.to_vec());
        if self.plan.force {
            all.push(match self.plan.kind {
                FsType::Ext3 | FsType::Ext4 => "-F".to_owned(),
                FsType::Xfs | FsType::Btrfs => "-f".to_owned(),
            });
        }
        all.push(path.to_owned());
        Ok(all)
    }

    /// Leaves out what a mkfs that failed says that it does not know: then it has written nothing, and is tried again.
    fn leave_out(&mut self, status: Option<i32>, text: &str) -> bool {
        // One that does not know a feature does not make it either.
        status != Some(0)
            && text.contains("unknown option")
            && !std::mem::take(&mut self.cautious).is_empty()
    }
}

fn fixed(plan: &NewFileSystem) -> Result<Vec<String>> {
    let wished = plan.options.words(plan.kind)?;
    let has = |word: &str| wished.iter().any(|one| one == word);
    // The disk is blank: discarding its blocks takes time and changes nothing.
    let mut all: Vec<&str> = match plan.kind {
        FsType::Ext3 | FsType::Ext4 => vec!["-q", "-U", &plan.uuid],
        FsType::Xfs => vec!["-q", "-K", "-m"],
        FsType::Btrfs => vec!["-q", "-K", "-U", &plan.uuid],
    };
    let uuid = format!("uuid={}", plan.uuid);
    match plan.kind {
        FsType::Ext3 | FsType::Ext4 => {
            // No blocks are kept for root: a volume has one user.
            if !has("-m") {
                all.extend(["-m", "0"]);
            }
            if !has("-E") {
                all.extend(["-E", EXT_EXTENDED]);
            }
        }
        FsType::Xfs => all.push(&uuid),
        FsType::Btrfs => {}
    }
    Ok(all.into_iter().map(str::to_owned).collect())
}

fn for_old_kernels(kernel: Option<(u32, u32)>) -> Vec<&'static str> {
    let Some(kernel) = kernel else { return Vec::new() };
    let too_young = YOUNG_XFS.iter().filter(|(first, _)| kernel < *first);
    too_young.flat_map(|(_, words)| words.iter().copied()).collect()
}

fn kernel_version() -> Option<(u32, u32)> {
    let name = nix::sys::utsname::uname().ok()?;
    version_of(name.release().to_str()?)
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::mount::mount_options::MkfsOptions;

    #[test]
    fn old_kernels_get_what_they_can_mount() {
        assert_eq!(version_of("3.10.0-1160.el7.x86_64"), Some((3, 10)));
        assert_eq!(version_of("6.18.1+"), Some((6, 18)));
        assert_eq!(version_of("unknown"), None);
        assert!(for_old_kernels(Some((6, 18))).is_empty());
        assert_eq!(for_old_kernels(Some((6, 1))), ["-i", "exchange=0"]);
        assert!(for_old_kernels(Some((5, 4))).contains(&"bigtime=0,inobtcount=0"));
        assert!(for_old_kernels(Some((3, 10))).contains(&"reflink=0"));
    }

    const UUID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-000000000001";

    fn new(kind: FsType, options: &str) -> NewFileSystem {
        let options = MkfsOptions::parse(options).unwrap();
        NewFileSystem { kind, uuid: UUID.to_owned(), force: false, options }
    }

    fn told(words: &MkfsWords) -> String {
        words.all("/disk").unwrap().join(" ")
    }

    #[test]
    fn each_mkfs_gets_what_is_fixed_then_what_is_wished_then_the_disk() {
        let words =
            |plan: NewFileSystem| told(&MkfsWords { plan, cautious: vec!["-i", "young=0"] });
        let ext = |options| words(new(FsType::Ext4, options));
        assert_eq!(ext(""), format!("-q -U {UUID} -m 0 -E {EXT_EXTENDED} -i young=0 /disk"));
        assert_eq!(
            ext("-m 1 -E stride=4"),
            format!("-q -U {UUID} -i young=0 -m 1 -E stride=4 /disk")
        );
        let forced = NewFileSystem { force: true, ..new(FsType::Ext3, "-b 4096") };
        let last = format!("-q -U {UUID} -m 0 -E {EXT_EXTENDED} -i young=0 -b 4096 -F /disk");
        assert_eq!(words(forced), last);
        let xfs = NewFileSystem { force: true, ..new(FsType::Xfs, "") };
        assert_eq!(words(xfs), format!("-q -K -m uuid={UUID} -i young=0 -f /disk"));
        let btrfs = new(FsType::Btrfs, "");
        assert_eq!(words(btrfs), format!("-q -K -U {UUID} -i young=0 /disk"));
    }

    #[test]
    fn only_what_a_mkfs_that_failed_does_not_know_is_left_out() {
        let cautious = vec!["-i", "exchange=0"];
        let mut xfs = MkfsWords { plan: new(FsType::Xfs, ""), cautious };
        let unknown = "unknown option -i exchange=0";
        assert!(!xfs.leave_out(Some(0), unknown));
        assert!(!xfs.leave_out(Some(1), "cannot open /disk"));
        assert_eq!(xfs.cautious.len(), 2);
        assert!(xfs.leave_out(Some(1), unknown) && xfs.cautious.is_empty());
        assert!(!xfs.leave_out(Some(1), unknown), "once");
    }

    #[test]
    fn this_kernel_is_told_by_its_first_two_numbers() {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel_version(), version_of(text.trim()));
        assert!(kernel_version().is_some_and(|version| version > (2, 6)));
        let young = for_old_kernels(Some((5, 19)));
        assert!(!young.contains(&"nrext64=0") && young.contains(&"exchange=0"), "of that very one");
        let of = |kind| MkfsWords::of(&new(kind, ""), Some((6, 1))).cautious;
        assert_eq!((of(FsType::Xfs), of(FsType::Ext4)), (vec!["-i", "exchange=0"], vec![]));
    }
}
