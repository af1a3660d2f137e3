//! The machine loses its power with two volumes attached, and finds them in another order, before
//! its own disk.

use super::usual::{is_itself, signed};
use super::{Kernels, OTHER_POD, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, Scene};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "restart",
    about: "the machine restarts with its volumes in another order, before its own disk: each is itself",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::One),
        ("xfs", Bus::VirtioBlk, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: "the file of data is on the volume of data",
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let (data, other) = (scene.volume("data")?, scene.volume("other")?);
    let before = [signed(scene, &data, POD)?, signed(scene, &other, OTHER_POD)?];

    scene.machine.plug.reorder(&[&other.id, &data.id]);
    scene.machine.restart(scene.bench, true)?;
    scene.row("the machine is switched off and on", format!("{:?}", scene.machine.boot), true);
    scene.configure("", "")?;
    let after = [scene.letter(&data)?, scene.letter(&other)?];
    let saw = format!("{before:?}, now {after:?}");
    scene.check("the letters are others", before != after, saw)?;

    for (volume, uid, letter) in [(&data, POD, &before[0]), (&other, OTHER_POD, &before[1])] {
        let hint = format!("/dev/{letter}");
        if scene.is_control {
            let folder = volume.pod(uid);
            scene.machine.shell(&format!("mkdir -p {folder} && mount {hint} {folder}"))?;
        } else {
            scene.up(volume, uid, &hint)?;
        }
        is_itself(scene, volume, uid)?;
    }
    scene.down(&data, &[POD])?;
    scene.down(&other, &[OTHER_POD])
}
