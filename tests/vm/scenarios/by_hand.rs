//! A person detaches a volume under a running pod; after it kubelet calls attach and nothing else.

use super::usual::{WIDELY_AND_CGROUPS_1, a_pod_runs};
use super::{Kernels, Scenario};
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Scene};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "detached-by-hand",
    about: "a person detaches a volume by force under a pod that runs, kubelet only attaches: healed",
    settings: WIDELY_AND_CGROUPS_1,
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let life = a_pod_runs(scene)?;

    // The old habit is refused, and says what is meant instead.
    let reply = scene.call(&["detach", &life.data.id, "1"])?;
    let is_refused = !reply.is_success() && reply.message().contains("--force");
    scene.check("refused, and the way out is named", is_refused, reply.message())?;
    scene.pod_begins(&life.pod, "/data", &life.data)?;

    scene.detach_by_force(&life.data)?;
    life.disk_is_pulled_out(scene)?;
    scene.attach(&life.data)?;
    life.has_its_disk(scene)?;
    life.has_another_letter(scene)?;
    life.ends(scene)
}
