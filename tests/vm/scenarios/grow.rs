//! A claim is made larger while its pod runs: the cloud, the disk in the guest, the file system.

use super::usual::a_pod_runs;
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
    controls: Kernels::One,
    play,
};

const GROWN: &str = "the pod sees the new size";

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let life = a_pod_runs(scene)?;
    // The device as kubelet was told it.
    let device = scene.wait(&life.data, "")?;
    // The control leaves the call out.
    if !scene.is_control {
        scene.grow(&life.data, POD, &device, 2 * BYTES)?;
    }
    let size = format!("stat -f -c '%b %S' /proc/{}/root/data", life.pod.pid);
    scene.check_soon(GROWN, Duration::from_secs(5), move |scene| {
        let text = scene.machine.shell(&size)?;
        let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let bytes: u64 = numbers.iter().product();
        // The file system keeps some for itself.
        Ok((bytes > BYTES + BYTES / 2, format!("{} MiB", bytes >> 20)))
    })?;
    life.has_its_disk(scene)?;
    life.ends(scene)
}
