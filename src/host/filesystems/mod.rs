//! File systems: looked at in our own process, made and mended by the system's tools, grown by
//! the kernel.

mod blank;
mod check;
mod grow;
mod make;
mod place_reader;
mod rehearsal;
mod samples;

use self::check::Checks;
use self::samples::sampled;
use super::device_nodes::{self, Node};
use super::tool::ProgramOutput;
use super::{confinement, tool, worker};
use crate::failpoints;
use crate::model::disk::contents::{self, Contents, FsType, Read, places};
use crate::model::disk::device::Device;
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::ports::clock::Deadline;
use crate::ports::host::{FileSystems, NewFileSystem, Proven};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// File systems of this machine's kernel and tools.
#[derive(Debug, Clone)]
pub struct KernelFileSystems {
    checks: Checks,
}

impl KernelFileSystems {
    /// With what lives until the machine's next boot below this folder.
    pub fn below(run: &Path) -> Self {
        Self { checks: Checks::below(run) }
    }
}

impl FileSystems for KernelFileSystems {
    fn look(&self, device: &Device, deadline: Deadline) -> Result<Contents> {
        let disk = device_nodes::open_to_read(device)?;
        let _doing = worker::doing(&format_args!("read disk {}", device.kernel_name));
        let size = device.size;
        // A file system is told by a few places; only a disk that may be blank is read on.
        device_nodes::read_ahead(&disk, size);
        let quick = sampled(&disk, device, &places::of_marks(size))?;
        let judge = || contents::judge(&Read { size, samples: &quick });
        let verdict = confinement::judged(&device.kernel_name, judge)?;
        if !matches!(verdict, Contents::Blank | Contents::Unknown(_)) {
            return Ok(verdict);
        }
        blank::verdict(&disk, device, deadline.at_most(blank::LONGEST))
    }

    fn second_opinion(
        &self,
        id: &VolumeId,
        device: &Device,
        deadline: Deadline,
    ) -> Result<Option<String>> {
        let Ok(blkid) = tool::locate("blkid") else {
            tracing::warn!(
                "blkid is not installed: no second program is asked whether the disk is blank"
            );
            return Ok(None);
        };
        let node = Node::labelled(id, device)?;
        let path = node.path().to_string_lossy();
        tool::launch_on_disk(&blkid, &["-p", "-o", "export", &path], deadline)
            .map(|outcome| told_by_blkid(&outcome))
    }

    fn rehearse(
        &self,
        size: u64,
        plan: &NewFileSystem,
        deadline: Deadline,
    ) -> Result<Option<Contents>> {
        rehearsal::rehearse(size, plan, deadline)
    }

    fn wipe(&self, disk: Proven<'_>) -> Result<()> {
        let device = disk.device();
        failpoints::effect("filesystems.wipe")?;
        let _doing = worker::doing(&format_args!("wipe disk {}", device.kernel_name));
        let disk = device_nodes::open_to_write(device)?;
        let [_, (tail, length)] = places::edges(device.size);
        let zeros = vec![0; usize::try_from(length).unwrap_or(0)];
        disk.write_all_at(&zeros, 0)
            .and_then(|()| disk.write_all_at(&zeros, tail))
            .and_then(|()| disk.sync_all())
            .map_err(|error| Error::io(format!("wipe {}", device.kernel_name), &error))
    }

    fn make(&self, disk: Proven<'_>, plan: &NewFileSystem, deadline: Deadline) -> Result<()> {
        make::make(&disk, plan, deadline)
    }

    fn check(&self, disk: Proven<'_>, kind: FsType, deadline: Deadline) -> Result<()> {
        if !matches!(kind, FsType::Ext3 | FsType::Ext4) {
            // The kernel replays the log of xfs at mount, and btrfs needs nothing; xfs_repair would
            // refuse before that.
            return Ok(());
        }
        failpoints::effect("filesystems.check")?;
        self.checks.run(&disk, deadline)
    }

    fn grow_unmounted(&self, disk: Proven<'_>, deadline: Deadline) -> Result<()> {
        failpoints::effect("filesystems.grow_unmounted")?;
        self.checks.run_grow(&disk, deadline)
    }

    fn await_check(
        &self,
        id: &VolumeId,
        device: &Device,
        deadline: Deadline,
    ) -> Result<Option<Error>> {
        self.checks.await_earlier(id, device, deadline)
    }

    fn grow(
        &self,
        (root, place): (&File, &Path),
        kind: FsType,
        disk: Proven<'_>,
        deadline: Deadline,
    ) -> Result<u64> {
        failpoints::effect("filesystems.grow")?;
        let _doing = worker::doing(&format_args!("grow the {kind} at {}", place.display()));
        grow::grow(self, (root, place), kind, disk.device(), deadline)
    }
}

/// What blkid(8) found on a disk, if it found something or cannot tell.
fn told_by_blkid(outcome: &ProgramOutput) -> Option<String> {
    /// Nothing was found, or nothing could be read; so this alone proves nothing.
    const NOTHING_FOUND: i32 = 2;
    let told =
        |key: &str| outcome.text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
    match outcome.status {
        Some(NOTHING_FOUND) if outcome.text.trim().is_empty() => None,
        Some(0) => {
            let what = told("TYPE=").or_else(|| told("PTTYPE="));
            Some(what.unwrap_or_else(|| outcome.last_line().to_owned()))
        }
        status => Some(format!(
            "something that blkid cannot tell ({}: {})",
            tool::ended(status),
            outcome.last_line()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_blkid_that_found_nothing_and_says_nothing_has_found_nothing() {
        let told =
            |status, text: &str| told_by_blkid(&ProgramOutput { status, text: text.to_owned() });
        assert_eq!(told(Some(2), "\n"), None);
        let unsure = "something that blkid cannot tell (";
        for (status, text) in [(Some(2), "error: /dev/vdb: I/O error"), (Some(8), ""), (None, "")] {
            assert!(told(status, text).is_some_and(|told| told.starts_with(unsure)), "{status:?}");
        }
        assert_eq!(told(Some(0), "DEVNAME=/d\nTYPE=LVM2_member\n").as_deref(), Some("LVM2_member"));
        assert_eq!(told(Some(0), "DEVNAME=/d\nPTTYPE=gpt\n").as_deref(), Some("gpt"));
        assert_eq!(told(Some(0), "DEVNAME=/d\n").as_deref(), Some("DEVNAME=/d"));
    }
}
