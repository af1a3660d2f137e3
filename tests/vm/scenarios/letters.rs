//! Letters that lie: another volume's disk has the letter that is remembered.

use super::usual::{a_pod_runs, is_itself, sign, signed};
use super::{Kernels, OTHER_POD, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Scene, Volume};

const BOTH: &[super::Setting] =
    &[("ext4", Bus::VirtioBlk, Kernels::One), ("ext4", Bus::VirtioScsi, Kernels::One)];

pub(super) const REUSED: Scenario = Scenario {
    name: "letter-reused",
    about: "another volume gets the letter that kubelet remembers of the first: each is mounted as itself",
    settings: BOTH,
    control: "the file of data is on the volume of data",
    controls: Kernels::One,
    play: reused,
};

pub(super) const SWAPPED: Scenario = Scenario {
    name: "letters-swapped",
    about: "two volumes come back under each other's letters: each pod gets its own",
    settings: BOTH,
    control: "the file of data is on the volume of data",
    controls: Kernels::One,
    play: swapped,
};

pub(super) const CROSSED: Scenario = Scenario {
    name: "letters-crossed-under-pods",
    about: "two volumes of running pods go and come back in the other order: each pod is healed to its own",
    settings: BOTH,
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play: crossed,
};

pub(super) const STRANGER: Scenario = Scenario {
    name: "stranger-in-between",
    about: "the disk of a running pod goes, a stranger's comes, the pod's comes back: never the stranger's",
    settings: BOTH,
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play: stranger,
};

/// Mounts a volume as kubelet does, with the letter that it remembers; the control trusts that
/// letter, as the predecessor of this driver did.
fn mounted_by(scene: &mut Scene<'_>, volume: &Volume, uid: &str, letter: &str) -> Outcome {
    let hint = format!("/dev/{letter}");
    scene.attach(volume)?;
    if scene.is_control {
        let line = format!("mkdir -p {0} && mount -t {1} {hint} {0}", volume.pod(uid), volume.fs);
        scene.machine.shell(&line)?;
        scene.row(format!("mount {hint}"), "a driver that trusts letters", true);
        return Ok(());
    }
    scene.wait(volume, &hint)?;
    scene.stage(volume, &hint)?;
    scene.publish(volume, uid)?;
    Ok(())
}

fn reused(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let (data, other) = (scene.volume("data")?, scene.volume("other")?);
    let letter = signed(scene, &data, POD)?;
    scene.down(&data, &[POD])?;
    let taken = signed(scene, &other, POD)?;
    scene.check("the other one has its letter", taken == letter, format!("{letter}, {taken}"))?;
    mounted_by(scene, &data, OTHER_POD, &letter)?;
    is_itself(scene, &data, OTHER_POD)?;
    is_itself(scene, &other, POD)?;
    scene.down(&data, &[OTHER_POD])?;
    scene.down(&other, &[POD])
}

fn swapped(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let (data, other) = (scene.volume("data")?, scene.volume("other")?);
    let first = signed(scene, &data, POD)?;
    let second = signed(scene, &other, POD)?;
    scene.down(&data, &[POD])?;
    scene.down(&other, &[POD])?;
    scene.attach(&other)?;
    scene.wait(&other, "")?;
    mounted_by(scene, &data, POD, &first)?;
    let (data_now, other_now) = (scene.letter(&data)?, scene.letter(&other)?);
    let saw = format!("{first} and {second}, now {data_now} and {other_now}");
    scene.check(
        "they have swapped their letters",
        data_now == second && other_now == first,
        saw,
    )?;
    is_itself(scene, &data, POD)?;
    mounted_by(scene, &other, OTHER_POD, &second)?;
    is_itself(scene, &other, OTHER_POD)?;
    scene.down(&data, &[POD])?;
    scene.down(&other, &[OTHER_POD])
}

fn crossed(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let one = a_pod_runs(scene)?;
    sign(scene, &one.data, POD)?;
    let other = scene.volume("other")?;
    signed(scene, &other, OTHER_POD)?;
    let two = scene.start("two", &other, OTHER_POD)?;
    scene.pod_begins(&two, "/data", &other)?;
    for volume in [&one.data, &other] {
        scene.detach_by_force(volume)?;
    }
    for volume in [&other, &one.data] {
        scene.attach(volume)?;
    }
    one.has_its_disk(scene)?;
    scene.pod_has_its_disk(&two, "/data", &other)?;
    is_itself(scene, &one.data, POD)?;
    is_itself(scene, &other, OTHER_POD)?;
    one.ends(scene)?;
    scene.end(&two)?;
    scene.down(&other, &[OTHER_POD])
}

fn stranger(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let life = a_pod_runs(scene)?;
    sign(scene, &life.data, POD)?;
    let other = scene.volume("other")?;
    scene.detach_by_force(&life.data)?;
    signed(scene, &other, OTHER_POD)?;
    let (number, serial) = scene.disk_below(&life.pod, "/data")?;
    let is_stranger = serial.contains(other.serial());
    scene.check("the pod is not given the stranger's disk", !is_stranger, number)?;
    scene.attach(&life.data)?;
    life.has_its_disk(scene)?;
    is_itself(scene, &life.data, POD)?;
    is_itself(scene, &other, OTHER_POD)?;
    life.ends(scene)?;
    scene.down(&other, &[OTHER_POD])
}
