//! A process of a pod waits in the kernel for an NFS server that is dead, and cannot be read in `/proc`.

use super::{Kernels, POD, Scenario};
use crate::host::image::PROGRAM;
use crate::host::plug::Bus;
use crate::scene::{Outcome, Scene};
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "dead-nfs-server",
    about: "a process of an ended pod waits for a dead NFS server: the look names the command that ends its wait, and that works",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::CountingOnce)],
    control: ENDS,
    controls: Kernels::One,
    play,
};

const SHARE: &str = "/run/scene/share";
/// The share, and what `execve` needs.
const SIDECAR: [(&str, &str); 4] =
    [(SHARE, "/share"), ("/proc", "/proc"), ("/usr/lib", "/lib"), ("/usr/lib64", "/lib64")];
const ENDS: &str = "the process has ended";

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let data = scene.volume("data")?;
    scene.up(&data, POD, "")?;
    mount_share(scene)?;
    let pod = scene.start("pod", &data, POD)?;
    let sidecar = scene.start_seeing("sidecar", POD, &SIDECAR)?;
    let pid = scene.write_back(&sidecar, "/share/file")?;
    scene.check_soon("a process waits for the server", Duration::from_secs(20), |scene| {
        let state = scene.machine.shell(&format!("sed -n s/^State:.//p /proc/{pid}/status"))?;
        Ok((state.starts_with('D'), state))
    })?;
    // A runtime kills what is left of a pod. This process it cannot end.
    scene.end(&sidecar)?;
    scene.end(&pod)?;
    let line = format!("timeout -s KILL 2 cat /proc/{pid}/maps >/dev/null");
    let (code, _) = scene.machine.run(&["/bin/sh", "-c", &line], Duration::from_secs(10))?;
    // It depends on the kernel whether it still holds the lock of `execve` while it closes files.
    let is_unread = code != Some(0);
    scene.row("its maps can be read", if is_unread { "no" } else { "yes" }, true);

    let command = format!("umount -f {SHARE}");
    let said = scene.verb(&["holders", &data.pv])?;
    let way_out = format!("to end it: {command}\n");
    let is_named = said.contains(&format!("process {pid} (")) && said.contains(&way_out);
    scene.check(
        "holders names a process that it cannot read, and the way out",
        is_named == is_unread,
        said,
    )?;
    if !scene.is_control {
        let (code, said) =
            scene.machine.run(&["/bin/sh", "-c", &command], Duration::from_secs(30))?;
        scene.row(&command, format!("{code:?} {said}"), true);
    }
    scene.check_soon(ENDS, Duration::from_secs(10), |scene| {
        let state =
            scene.machine.shell(&format!("sed -n s/^State:.//p /proc/{pid}/status 2>&1; true"))?;
        Ok((state.contains("No such file"), state))
    })?;
    let said = scene.verb(&["holders", &data.pv])?;
    scene.check("and a second look is complete", !said.contains("Not seen"), said)?;
    scene.machine.shell(&format!("! mountpoint -q {SHARE} || umount -f {SHARE}"))?;
    scene.down(&data, &[POD])
}

/// `mount -i` calls no program of NFS: the kernel gets the options as they are.
fn mount_share(scene: &mut Scene<'_>) -> Outcome {
    const OPTIONS: &str = "vers=3,proto=tcp,port=2049,mountproto=tcp,mountport=2049,mountvers=3,nolock,\
        addr=127.0.0.1,mountaddr=127.0.0.1";
    scene.machine.shell(&format!(
        "systemctl stop nfs-server 2>/dev/null; modprobe nfsv3 && mkdir -p {SHARE} && \
         systemd-run --quiet --collect --unit=nfs-server {PROGRAM} nfs 2049 && \
         for i in $(seq 50); do mount -i -t nfs -o {OPTIONS} 127.0.0.1:/ {SHARE} && exit; sleep 0.1; done; exit 1"
    ))?;
    let row = scene.machine.shell(&format!("grep ' {SHARE} ' /proc/self/mountinfo"))?;
    scene.row("a share of an NFS server is mounted", row, true);
    Ok(())
}
