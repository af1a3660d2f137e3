//! What a map costs: the same work on a volume that is mounted directly and on one that has a map, in turn.

use super::shielded::{ON, has_a_map};
use super::usual::sign;
use super::{Kernels, OTHER_POD, POD, Scenario, Setting};
use crate::host::plug::Bus;
use crate::scene::{KINDS, Outcome, Scene, Work};

const SETTINGS: &[Setting] = &[
    ("ext4", Bus::VirtioBlk, Kernels::One),
    ("ext4", Bus::VirtioScsi, Kernels::One),
    ("ext4", Bus::Nvme, Kernels::One),
];

/// How often each kind of work is done on each of the two.
const ROUNDS: usize = 7;

/// A figure, and no test of speed: what fails is fio, or that there is no map.
pub(super) const SCENARIO: Scenario = Scenario {
    name: "shield-cost",
    about: "fio on a volume that is mounted directly and on one under a map, in turn: what the map costs",
    settings: SETTINGS,
    control: "it is mounted through a map of ours",
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    let off = "shield.mode = \"off\"";
    scene.configure(off, off)?;
    let direct = scene.volume("direct")?;
    scene.up(&direct, POD, "")?;
    sign(scene, &direct, POD)?;
    let none = scene.map_now()?;
    scene.check("the first one has no map", none.is_none(), format!("{none:?}"))?;
    scene.configure(ON, off)?;
    let mapped = scene.volume("mapped")?;
    scene.up(&mapped, OTHER_POD, "")?;
    sign(scene, &mapped, OTHER_POD)?;
    has_a_map(scene, &mapped)?;
    scene.bring_programs()?;
    let folders = [direct.pod(POD), mapped.pod(OTHER_POD)];
    for folder in &folders {
        scene.work_begins(folder)?;
    }
    for work in &KINDS {
        compare(scene, &folders, work)?;
    }
    scene.down(&direct, &[POD])?;
    scene.down(&mapped, &[OTHER_POD])?;
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))
}

/// Each round begins with another one, and is a ratio of its own.
fn compare(scene: &mut Scene<'_>, [direct, mapped]: &[String; 2], work: &Work) -> Outcome {
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (one, other);
        if round % 2 == 0 {
            one = scene.work_in_a_second(direct, work)?;
            other = scene.work_in_a_second(mapped, work)?;
        } else {
            other = scene.work_in_a_second(mapped, work)?;
            one = scene.work_in_a_second(direct, work)?;
        }
        without.push(one);
        with.push(other);
        ratios.push(other / one);
    }
    for values in [&mut without, &mut with, &mut ratios] {
        values.sort_by(f64::total_cmp);
    }
    let saw = format!(
        "{:.0} in a second directly, {:.0} through the map: {:.2} (the middle half of the rounds {:.2} to {:.2})",
        without[ROUNDS / 2],
        with[ROUNDS / 2],
        with[ROUNDS / 2] / without[ROUNDS / 2],
        ratios[ROUNDS / 4],
        ratios[ROUNDS - 1 - ROUNDS / 4],
    );
    scene.row(work.name, saw, true);
    Ok(())
}
