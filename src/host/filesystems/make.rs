//! New file systems, by the tools of each.

use crate::failpoints;
use crate::host::clock::Deadline;
use crate::host::device_nodes::Node;
use crate::host::{NewFileSystem, tool};
use crate::model::disk::contents::FsType;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
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

pub(super) fn make(
    id: &VolumeId,
    device: &Device,
    plan: &NewFileSystem,
    deadline: Deadline,
) -> Result<()> {
    failpoints::effect("filesystems.make")?;
    let node = Node::labelled(id, device)?;
    run(plan, &node.path().to_string_lossy(), deadline)
}

/// Makes the same file system, to its end, in a file as long as the disk.
pub(super) fn make_copy(file: &File, plan: &NewFileSystem, deadline: Deadline) -> Result<()> {
    let plan = NewFileSystem { again: true, ..plan.clone() };
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    run(&plan, &path, deadline)
}

fn run(plan: &NewFileSystem, path: &str, deadline: Deadline) -> Result<()> {
    let name = format!("mkfs.{}", plan.kind);
    let program = tool::locate(&name)?;
    let cautious =
        if plan.kind == FsType::Xfs { for_old_kernels(kernel_version()) } else { vec![] };
    let run = |plan: &NewFileSystem, cautious: &[&str]| {
        let mut all = fixed(plan)?;
        all.extend(cautious.iter().map(|word| (*word).to_owned()));
        all.extend(wished(plan)?);
        if plan.again {
            all.push(match plan.kind {
                FsType::Ext3 | FsType::Ext4 => "-F".to_owned(),
                FsType::Xfs | FsType::Btrfs => "-f".to_owned(),
            });
        }
        all.push(path.to_owned());
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        tool::launch_on_disk(&program, &all, &[(NOW, plan.at.to_string())], deadline)
    };
    let mut outcome = run(plan, &cautious)?;
    // A mkfs.xfs that does not know a feature does not make it either; it then has written nothing.
    if outcome.status != Some(0) && !cautious.is_empty() && outcome.text.contains("unknown option")
    {
        outcome = run(plan, &[])?;
    }
    // Nor has a mke2fs that does not know how to be told its random number.
    if outcome.status != Some(0) && plan.seed.is_some() && outcome.text.contains(SEED) {
        outcome = run(&NewFileSystem { seed: None, ..plan.clone() }, &cautious)?;
    }
    match outcome.status {
        Some(0) => Ok(()),
        status => Err(Error::new(
            Kind::Host,
            format!("{name} {}: {}", tool::ended(status), outcome.last_line()),
        )),
    }
}

/// What mke2fs takes for its random number, and for now.
const SEED: &str = "hash_seed";
const NOW: &str = "E2FSPROGS_FAKE_TIME";

fn is_ext(plan: &NewFileSystem) -> bool {
    matches!(plan.kind, FsType::Ext3 | FsType::Ext4)
}

fn with_seed(plan: &NewFileSystem, extended: &str) -> String {
    match &plan.seed {
        Some(seed) => format!("{extended},{SEED}={seed}"),
        None => extended.to_owned(),
    }
}

/// What the volume's owner wishes; the random number is told all the same.
fn wished(plan: &NewFileSystem) -> Result<Vec<String>> {
    let mut words = plan.options.words(plan.kind)?.to_vec();
    if is_ext(plan) {
        let places: Vec<_> = (1..words.len()).filter(|n| words[n - 1] == "-E").collect();
        for place in places {
            words[place] = with_seed(plan, &words[place]);
        }
    }
    Ok(words)
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
    let (uuid, extended) = (format!("uuid={}", plan.uuid), with_seed(plan, EXT_EXTENDED));
    match plan.kind {
        FsType::Ext3 | FsType::Ext4 => {
            // No blocks are kept for root: a volume has one user.
            if !has("-m") {
                all.extend(["-m", "0"]);
            }
            if !has("-E") {
                all.extend(["-E", &extended]);
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
