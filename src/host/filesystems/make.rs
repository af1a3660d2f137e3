//! New file systems, by the tools of each.

use super::super::nodes::Node;
use super::super::{NewFileSystem, tool};
use super::ended;
use crate::model::contents::FsType;
use crate::model::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::time::Deadline;
use crate::seam;

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

pub(super) fn make(
    id: &VolumeId,
    device: &Device,
    plan: &NewFileSystem,
    deadline: Deadline,
) -> Result<()> {
    seam::effect("filesystems.make")?;
    let node = Node::labelled(id, device)?;
    let path = node.path().to_string_lossy();
    let program = format!("mkfs.{}", plan.kind);
    let wished: Vec<&str> = plan.options.words(plan.kind)?.iter().map(String::as_str).collect();
    let uuid = format!("uuid={}", plan.uuid);
    let cautious =
        if plan.kind == FsType::Xfs { for_old_kernels(kernel_version()) } else { vec![] };
    let run = |cautious: &[&'static str]| {
        let mut all = fixed(plan, &wished, &uuid);
        all.extend(cautious);
        all.extend(&wished);
        if plan.again {
            all.push(match plan.kind {
                FsType::Ext3 | FsType::Ext4 => "-F",
                FsType::Xfs | FsType::Btrfs => "-f",
            });
        }
        all.push(&path);
        tool::run(&program, &all, deadline)
    };
    let mut outcome = run(&cautious)?;
    // A mkfs.xfs that does not know a feature does not make it either; it then has written nothing.
    if outcome.status != Some(0) && !cautious.is_empty() && outcome.text.contains("unknown option")
    {
        outcome = run(&[])?;
    }
    match outcome.status {
        Some(0) => Ok(()),
        status => Err(Error::new(
            Kind::Host,
            format!("{program} {}: {}", ended(status), outcome.last_line()),
        )),
    }
}

fn fixed<'a>(plan: &'a NewFileSystem, wished: &[&str], uuid: &'a str) -> Vec<&'a str> {
    // The disk is blank: discarding its blocks takes time and changes nothing.
    match plan.kind {
        FsType::Ext3 | FsType::Ext4 => {
            let mut all = vec!["-q", "-U", &plan.uuid];
            // No blocks are kept for root: a volume has one user.
            if !wished.contains(&"-m") {
                all.extend(["-m", "0"]);
            }
            if !wished.contains(&"-E") {
                all.extend(["-E", EXT_EXTENDED]);
            }
            all
        }
        FsType::Xfs => vec!["-q", "-K", "-m", uuid],
        FsType::Btrfs => vec!["-q", "-K", "-U", &plan.uuid],
    }
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
}
