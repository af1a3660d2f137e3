//! The cloud says that the disk is attached, and the guest does not see it yet: kubelet waits.

use super::{Kernels, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, Scene};
use std::time::Duration;

/// Until the disk is plugged in.
const DELAY: Duration = Duration::from_secs(3);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "late-disk",
    about: "the cloud calls a disk attached that the guest sees seconds later: waited for by events",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("ext4", Bus::VirtioScsi, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: "waitforattach '' data succeeds",
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "deadline.waitforattach = 1")?;
    let data = scene.volume("data")?;
    scene.machine.plug.set_delay(DELAY);
    scene.attach(&data)?;
    let device = scene.wait(&data, "")?;
    scene.stage(&data, &device)?;
    scene.publish(&data, POD)?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;
    scene.end(&pod)?;
    scene.down(&data, &[POD])
}
