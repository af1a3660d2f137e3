//! The incident, replayed from its log: kubelet was restarted while the API was failing, took a pod
//! that ran for one that did not want its volume any more, and a minute later mounted it again.

use super::{Kernels, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Running, Scene, Volume};

pub(super) const GUARDED: Scenario = Scenario {
    name: "incident-guarded",
    about: "kubelet tears a volume down under a pod that runs: refused, and the pod never notices",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::One),
        ("ext4", Bus::VirtioScsi, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: POD_HAS_ITS_DISK,
    play: guarded,
};

pub(super) const HEALED: Scenario = Scenario {
    name: "incident-healed",
    about: "the same without the guard: the disk comes back under another letter, and the pod goes on",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::All),
        ("ext4", Bus::VirtioScsi, Kernels::One),
        ("xfs", Bus::VirtioScsi, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
        ("xfs", Bus::Nvme, Kernels::One),
    ],
    control: POD_HAS_ITS_DISK,
    play: healed,
};

fn guarded(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "guard.mode = \"off\"\nheal.mode = \"off\"")?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;

    let replies =
        [scene.try_unpublish(&data, POD)?, scene.try_unstage(&data)?, scene.try_detach(&data)?];
    scene.pod_has_its_disk(&pod, "/data", &data)?;
    for reply in &replies {
        let is_refused = !reply.is_success() && reply.message().contains("it is refused until");
        scene.check("refused, and it is said until when", is_refused, reply.message())?;
    }

    // The API is back.
    let device = back(scene, &data)?;
    scene.check("the letter is what it was", device == letter, device)?;
    goes_on(scene, &pod, &data)?;
    ends(scene, &pod, &data)
}

fn healed(scene: &mut Scene<'_>) -> Outcome {
    let off = "guard.mode = \"off\"";
    scene.configure(off, &format!("{off}\nheal.mode = \"off\""))?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;

    for reply in
        [scene.try_unpublish(&data, POD)?, scene.try_unstage(&data)?, scene.try_detach(&data)?]
    {
        scene.check("nothing holds it back", reply.is_success(), reply.message())?;
    }
    let gone = scene.letter_now(&data)?;
    scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))?;

    let now = back(scene, &data)?;
    scene.check("it has another letter", now != letter, format!("{letter}, now {now}"))?;
    goes_on(scene, &pod, &data)?;
    ends(scene, &pod, &data)
}

/// kubelet mounts the volume for the pod that it finds; answers the letter.
fn back(scene: &mut Scene<'_>, data: &Volume) -> Outcome<String> {
    scene.up(data, POD, "")
}

/// The pod writes, and others on the machine see what it writes.
fn goes_on(scene: &mut Scene<'_>, pod: &Running, data: &Volume) -> Outcome {
    scene.pod_has_its_disk(pod, "/data", data)?;
    let file = format!("{}/log", data.pod(POD));
    let before = scene.lines(&file)?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let after = scene.lines(&file)?;
    let saw = format!("{before} lines, then {after}");
    scene.check("the machine sees what the pod writes", after > before, saw)
}

fn ends(scene: &mut Scene<'_>, pod: &Running, data: &Volume) -> Outcome {
    scene.end(pod)?;
    scene.down(data, &[POD])
}
