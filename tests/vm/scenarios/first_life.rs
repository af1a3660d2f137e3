//! One life of a volume, from blank to its second mount: the log of a normal day.

use super::{Kernels, POD, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, Scene};
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "first-life",
    about: "a new volume is attached, formatted, mounted, written, taken down, and mounted again",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::All),
        ("ext4", Bus::VirtioScsi, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: "waitforattach data answers once the disk is there",
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "deadline.waitforattach = 3")?;
    let data = scene.blank_volume("data");
    // The control leaves the attach out.
    if !scene.is_control {
        scene.attach(&data)?;
    }
    let reply = scene.try_wait(&data)?;
    let check = "waitforattach data answers once the disk is there";
    scene.check(check, reply.is_success(), reply.message())?;
    let link = scene.machine.shell(&format!("readlink -f {}", reply.device()))?;
    let letter = scene.letter(&data)?;
    scene.check("what it answers leads to the disk", link == format!("/dev/{letter}"), link)?;

    scene.stage(&data, reply.device())?;
    scene.publish(&data, POD)?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;
    std::thread::sleep(Duration::from_millis(200));
    let written = scene.report(&pod)?;
    scene.end(&pod)?;
    scene.down(&data, &[POD])?;
    let gone = scene.letter_now(&data)?;
    scene.check("the disk is gone", gone.is_none(), format!("{gone:?}"))?;

    scene.up(&data, POD, "")?;
    let lines = scene.lines(&format!("{}/log", data.pod(POD)))?;
    let saw = format!("{lines} lines of {}", written.writes);
    scene.check("what was written is there", lines >= written.writes, saw)?;
    scene.down(&data, &[POD])
}
