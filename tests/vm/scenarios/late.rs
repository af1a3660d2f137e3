//! The cloud says that the disk is attached, and the guest does not see it yet: kubelet waits.

use super::usual::a_pod_runs;
use super::{Kernels, Scenario};
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
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "deadline.waitforattach = 1")?;
    scene.machine.plug.set_delay(DELAY);
    a_pod_runs(scene)?.ends(scene)
}
