//! A claim is made larger while its pod runs: the cloud, the disk in the guest, the file system.

use super::{Kernels, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{BYTES, Outcome, Scene};
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "grow",
    about: "a volume grows under a running pod: in the cloud, as a disk, as a file system",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::One),
        // QEMU's NVMe does not grow.
        ("ext4", Bus::VirtioScsi, Kernels::One),
    ],
    control: GROWN,
    play,
};

const GROWN: &str = "the pod sees the new size";

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let data = scene.volume("data")?;
    scene.attach(&data)?;
    let device = scene.wait(&data, "")?;
    scene.stage(&data, &device)?;
    scene.publish(&data, POD)?;
    let pod = scene.start("pod", &data, POD)?;
    // The control leaves the call out.
    if !scene.is_control {
        scene.grow(&data, POD, &device, 2 * BYTES)?;
    }
    let size = format!("stat -f -c '%b %S' /proc/{}/root/data", pod.pid);
    scene.check_soon(GROWN, Duration::from_secs(5), move |scene| {
        let text = scene.machine.shell(&size)?;
        let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let bytes: u64 = numbers.iter().product();
        // The file system keeps some for itself.
        Ok((bytes > BYTES + BYTES / 2, format!("{} MiB", bytes >> 20)))
    })?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;
    scene.end(&pod)?;
    scene.down(&data, &[POD])
}
