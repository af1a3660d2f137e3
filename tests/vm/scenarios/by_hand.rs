//! A person detaches a volume under a running pod; after it kubelet calls attach and nothing else.

use super::{Kernels, POD, Scenario};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Scene};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "detached-by-hand",
    about: "a person detaches a volume by force under a pod that runs, kubelet only attaches: healed",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::One),
        ("ext4", Bus::VirtioScsi, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: POD_HAS_ITS_DISK,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;

    // The old habit is refused, and says what is meant instead.
    let reply = scene.call(&["detach", &data.id, "1"])?;
    let is_refused = !reply.is_success() && reply.message().contains("--force");
    scene.check("refused, and the way out is named", is_refused, reply.message())?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;

    scene.verb(&["detach", "--force", &data.id, NODE])?;
    let gone = scene.letter_now(&data)?;
    scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))?;
    scene.attach(&data)?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;
    let now = scene.letter(&data)?;
    scene.check("it has another letter", now != letter, format!("{letter}, now {now}"))?;
    scene.end(&pod)?;
    scene.down(&data, &[POD])
}
