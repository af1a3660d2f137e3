//! After a heal: who still holds the dead disk is told to let it go, if the configuration says how.

use crate::driver::heal::diagnosis::StaleMounts;
use crate::driver::heal::outcome::Healed;
use crate::driver::lookup::lost_disks::users_of_lost;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::host::{Census, Devices, HELD_AT_ONCE, Processes};
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::after_heal::{After, Wakeup};
use crate::model::mount::disk_users::{Answer, DeviceUses};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A hook is the operator's program, and the call waits for it.
const HOOK_LIMIT: Duration = Duration::from_secs(10);

/// What is done after a heal.
pub(in crate::driver) struct Notification<'a> {
    pub(in crate::driver) records: &'a Records,
    pub(in crate::driver) census: &'a dyn Census,
    pub(in crate::driver) devices: &'a dyn Devices,
    pub(in crate::driver) after: &'a After,
    pub(in crate::driver) processes: &'a dyn Processes,
    pub(in crate::driver) deadline: Deadline,
}

impl Notification<'_> {
    /// Never fails the heal, which is done: what goes wrong here is logged.
    pub(in crate::driver) fn care_after(
        &self,
        id: &VolumeId,
        disk: &Device,
        stale: &StaleMounts,
        healed: &Healed,
        users: &Answer<DeviceUses>,
    ) {
        let holders = holders(users);
        let done = match self.after {
            After::Nothing => return,
            After::Signal(_) if holders.is_empty() => return,
            After::Signal(signal) => self.signal(id, &stale.dead, &holders, *signal),
            After::Hook(program) => self.call_hook(program, id, disk, healed, &holders),
        };
        if let Err(error) = done {
            tracing::warn!(volume = %id, %error, "heal.after failed");
        }
    }

    /// A process id can be another process's by now. So the processes are pinned first, then asked
    /// for once more: who holds the dead disk then, and is pinned, is the one that is signalled.
    fn signal(
        &self,
        id: &VolumeId,
        dead: &[DeviceNumber],
        holders: &BTreeSet<u32>,
        signal: Wakeup,
    ) -> Result<()> {
        let holders: Vec<_> = holders.iter().copied().collect();
        for some in holders.chunks(HELD_AT_ONCE) {
            let pinned: Vec<_> = some
                .iter()
                .filter_map(|pid| Some((*pid, self.processes.pin(*pid).ok()?)))
                .collect();
            let still = self::holders(&users_of_lost(self.census, self.devices, dead));
            for (pid, pin) in pinned.into_iter().filter(|(pid, _)| still.contains(pid)) {
                tracing::warn!(volume = %id, pid, ?signal, "it holds the dead disk: signalled, as heal.after says");
                self.processes.signal(&pin, signal)?;
            }
        }
        Ok(())
    }

    fn call_hook(
        &self,
        program: &Path,
        id: &VolumeId,
        disk: &Device,
        healed: &Healed,
        holders: &BTreeSet<u32>,
    ) -> Result<()> {
        let name = self.records.load(id).name.map(|name| name.to_string()).unwrap_or_default();
        let places: Vec<_> = healed.places.iter().map(|(place, _)| place.as_str()).collect();
        let pids: Vec<_> = holders.iter().map(ToString::to_string).collect();
        let facts = [
            ("INCLOUD_DISK_VOLUME", id.to_string()),
            ("INCLOUD_DISK_NAME", name),
            ("INCLOUD_DISK_DEVICE", disk.kernel_node().display().to_string()),
            ("INCLOUD_DISK_HEALED", places.join("\n")),
            ("INCLOUD_DISK_LEFT", healed.left.join("\n")),
            ("INCLOUD_DISK_HOLDERS", pids.join(" ")),
        ];
        let said = self.processes.run(program, &facts, self.deadline.at_most(HOOK_LIMIT))?;
        tracing::info!(volume = %id, program = %program.display(), said, "heal.after was run");
        Ok(())
    }
}

/// The processes of pods that hold a file. No other process is signalled.
fn holders(users: &Answer<DeviceUses>) -> BTreeSet<u32> {
    let Answer::Told(users) = users else { return BTreeSet::new() };
    let of_pods = users.files.iter().filter(|one| one.process.owner.pod.is_some());
    of_pods.map(|one| one.process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::Owner;
    use crate::model::ids::ConsumerId;
    use crate::model::mount::disk_users::{FileUse, Process, Tie};

    #[test]
    fn only_processes_of_pods_are_signalled() {
        let file = |pid, pod: Option<&str>| {
            let owner =
                Owner { pod: pod.map(|pod| ConsumerId::parse(pod).unwrap()), ..Owner::default() };
            FileUse {
                process: Process { owner, ..Process::of_a_test(pid) },
                tie: Tie::WorkingFolder,
                path: "/data".into(),
                number: DeviceNumber { major: 254, minor: 16 },
            }
        };
        let files = vec![file(7, Some("a")), file(8, None), file(9, Some("b")), file(7, Some("a"))];
        let users = DeviceUses { files, ..DeviceUses::default() };
        assert_eq!(holders(&Answer::Told(users)), BTreeSet::from([7, 9]));
        assert!(holders(&Answer::CannotTell("no /proc".to_owned())).is_empty());
    }
}
