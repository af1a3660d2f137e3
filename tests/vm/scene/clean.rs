//! Between two scenarios: the machine becomes what it was after its boot, or it is given up.

use super::{Outcome, Scene};
use crate::host::machine::NODE;
use crate::host::parts::CGROUPS_1;
use crate::orders::Ask;
use std::time::Duration;

/// Unmounts what scenarios left mounted in the guest, and removes the links that go with it.
const UNMOUNT: &str = "awk '$5 ~ \"^/var/lib/kubelet/|^/run/incloud-disk/|^/run/scene/\" { \
    for (i = 7; $i != \"-\"; i++); print $5, $(i + 2) }' /proc/self/mountinfo | sort -r | while read -r m source; do \
    umount -l \"$m\"; case $source in /dev/incloud-disk/*) rm -f \"$source\" ;; esac; done; \
    rm -f /run/*.confirmed /run/*.stopped; rm -rf /var/lib/kubelet /var/lib/incloud-disk/volumes /run/scene /run/incloud-disk; \
    mkdir -p /var/lib/kubelet";

/// What must not be there any more: disks but the machine's own, and mounts of volumes. And what
/// must be, whatever a scenario did to it: what install.sh put there for udev and systemd.
const LEFT: &str = "ls /sys/block | grep -vE '^(loop|ram|sr|fd)' | grep -vx vda; \
    grep -E ' /var/lib/kubelet/' /proc/self/mountinfo; ls /dev/incloud-disk 2>/dev/null; \
    [ -e /etc/udev/rules.d/90-incloud-disk.rules ] && systemctl is-active -q incloud-disk-heal.timer || \
    echo 'no trigger'; true";

impl Scene<'_> {
    /// Before a scenario: the driver's log begins anew.
    pub(crate) fn begin(&mut self) -> Outcome {
        self.machine
            .shell("mkdir -p /var/lib/kubelet; rm -f /var/log/incloud-volume/*; dmesg -C")?;
        self.machine.cloud.reset_counters();
        if self.machine.kernel.name == CGROUPS_1 {
            let trees = self.machine.shell("stat -f -c %T /sys/fs/cgroup /sys/fs/cgroup/*")?;
            let is_old = trees.contains("cgroupfs") && !trees.contains("cgroup2");
            self.check("all cgroups are of version 1", is_old, trees.replace('\n', " "))?;
        }
        Ok(())
    }

    /// After it, whatever became of it.
    pub(crate) fn clean(&mut self) -> Result<(), String> {
        self.machine.ask(&Ask::EndAll)?;
        // What waits in a map would hang an unmount; and what is mounted keeps the map.
        self.machine.ask(&Ask::EndMaps)?;
        self.end_databases()?;
        self.end_engines()?;
        self.take_programs_back()?;
        self.machine.shell(UNMOUNT)?;
        self.machine.ask(&Ask::EndMaps)?;
        self.machine.plug.set_delay(Duration::ZERO);
        let idle = self.machine.cloud.wait_idle();
        for disk in self.machine.plug.plugged() {
            self.machine.plug.pull_out(&disk.volume)?;
            let _ = std::fs::remove_file(self.machine.plug.image(&disk.volume));
        }
        let mut world = self.machine.cloud.world();
        let volumes = std::mem::take(&mut world.storage.volumes);
        world.server_mut(NODE).rows.clear();
        drop(world);
        for volume in volumes {
            let _ = std::fs::remove_file(self.machine.plug.image(&volume.id));
        }
        std::thread::sleep(Duration::from_millis(100));
        let left = self.machine.shell(LEFT)?;
        match (idle, left.is_empty()) {
            (true, true) => Ok(()),
            (false, _) => Err("the cloud does not come to rest".to_owned()),
            (_, false) => Err(format!("left in the guest: {}", left.replace('\n', ", "))),
        }
    }
}
