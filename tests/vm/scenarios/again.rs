//! A disk that goes and comes again and again: nothing piles up, neither mounts nor letters.

use super::usual::a_pod_runs;
use super::{Kernels, Scenario};
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Scene};
use std::time::Duration;

const ROUNDS: u32 = 5;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "again-and-again",
    about: "five times in a row the disk of a running pod goes and comes back: nothing piles up",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let life = a_pod_runs(scene)?;
    let data = &life.data;
    let count = format!("cat /proc/self/mountinfo /proc/{}/mountinfo | wc -l", life.pod.pid);
    let before = scene.machine.shell(&count)?;
    let mut letters = Vec::new();
    for _ in 0..ROUNDS {
        scene.detach_by_force(data)?;
        scene.attach(data)?;
        letters.push(scene.letter(data)?);
        life.has_its_disk(scene)?;
    }
    let after = scene.machine.shell(&count)?;
    scene.check("as many mounts as before", before == after, format!("{before}, {after}"))?;
    // The dead file system goes with its last mount, and its letter with it.
    let is_reused = letters.iter().any(|letter| letter == "vdb");
    scene.check("the dead disks have let their letters go", is_reused, letters.join(" "))?;
    // The machine's own disk has an ext4.
    let own = if data.fs == "ext4" { "^vda$" } else { "^$" };
    let alive = format!("ls /sys/fs/{} | grep ^vd | grep -vc '{own}'", data.fs);
    scene.check_soon("one file system is alive", Duration::from_secs(10), move |scene| {
        let found = scene.machine.shell(&alive)?;
        Ok((found == "1", found))
    })?;
    life.ends(scene)
}
