//! The incident, replayed from its log: kubelet was restarted while the API was failing, took a pod
//! that ran for one that did not want its volume any more, and a minute later mounted it again.

use super::usual::{Life, WIDELY_AND_CGROUPS_1, a_pod_runs};
use super::{Kernels, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Reply, Scene};
use std::time::Duration;

pub(super) const GUARDED: Scenario = Scenario {
    name: "incident-guarded",
    about: "kubelet tears a volume down under a pod that runs: it gets the folder, and the pod never notices",
    settings: WIDELY_AND_CGROUPS_1,
    control: POD_HAS_ITS_DISK,
    controls: Kernels::All,
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
        ("ext4", Bus::VirtioBlk, Kernels::Cgroups1),
    ],
    control: POD_HAS_ITS_DISK,
    controls: Kernels::All,
    play: healed,
};

pub(super) const CONFINED: Scenario = Scenario {
    name: "incident-confined",
    about: "the same with a pod that AppArmor forbids mounts: it goes on, and is confined as before",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All)],
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play: confined,
};

pub(super) const LABELLED: Scenario = Scenario {
    name: "incident-labelled",
    about: "the same where SELinux gives pods and their files labels: it goes on, and both have theirs as before",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::SeLinux),
        ("xfs", Bus::VirtioBlk, Kernels::SeLinux),
    ],
    control: POD_HAS_ITS_DISK,
    controls: Kernels::All,
    play: labelled,
};

fn guarded(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "guard.mode = \"off\"")?;
    let life = a_pod_runs(scene)?;

    let [unmount, rest @ ..] = tear_down(scene, &life)?;
    life.has_its_disk(scene)?;
    scene.check("kubelet is let go of the folder", unmount.is_success(), unmount.message())?;
    for reply in &rest {
        let is_refused = !reply.is_success() && reply.message().contains("it is refused until");
        scene.check("refused, and it is said until when", is_refused, reply.message())?;
    }

    // The API is back.
    let device = scene.up(&life.data, POD, "")?;
    scene.check("the letter is what it was", device == life.letter, device)?;
    goes_on(scene, &life)?;
    life.ends(scene)
}

const OFF: &str = "guard.mode = \"off\"";

fn healed(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(OFF, &format!("{OFF}\nheal.mode = \"off\""))?;
    let life = a_pod_runs(scene)?;
    comes_back(scene, &life)?;
    life.ends(scene)
}

fn confined(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(OFF, &format!("{OFF}\nheal.mode = \"off\""))?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    let pod = scene.start_confined("pod", &data, POD)?;
    scene.pod_begins(&pod, "/data", &data)?;
    let life = Life { data, letter, pod };
    comes_back(scene, &life)?;
    scene.is_confined(&life.pod)?;
    life.ends(scene)
}

fn labelled(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(OFF, &format!("{OFF}\nheal.mode = \"off\""))?;
    scene.enforce_labels()?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    let pod = scene.start_labelled("pod", &data, POD)?;
    scene.pod_begins(&pod, "/data", &data)?;
    let life = Life { data, letter, pod };
    scene.has_its_labels(&life.pod, &life.data, POD)?;
    comes_back(scene, &life)?;
    scene.has_its_labels(&life.pod, &life.data, POD)?;
    scene.was_denied_nothing()?;
    life.ends(scene)
}

/// All is taken down under the pod, and mounted again.
fn comes_back(scene: &mut Scene<'_>, life: &Life) -> Outcome {
    for reply in tear_down(scene, life)? {
        scene.check("nothing holds it back", reply.is_success(), reply.message())?;
    }
    life.disk_is_pulled_out(scene)?;

    scene.up(&life.data, POD, "")?;
    life.has_another_letter(scene)?;
    goes_on(scene, life)
}

/// kubelet's three calls, whatever each answers.
fn tear_down(scene: &mut Scene<'_>, life: &Life) -> Outcome<[Reply; 3]> {
    let data = &life.data;
    Ok([scene.try_unpublish(data, POD)?, scene.try_unstage(data)?, scene.try_detach(data)?])
}

/// The pod writes, and others on the machine see what it writes.
fn goes_on(scene: &mut Scene<'_>, life: &Life) -> Outcome {
    life.has_its_disk(scene)?;
    let file = format!("{}/log", life.data.pod(POD));
    let before = scene.lines(&file)?;
    std::thread::sleep(Duration::from_millis(300));
    let after = scene.lines(&file)?;
    let saw = format!("{before} lines, then {after}");
    scene.check("the machine sees what the pod writes", after > before, saw)
}
