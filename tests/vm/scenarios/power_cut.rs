//! With the shield: the machine loses its power while a database waits for its disk.

use super::shielded::{AWAY, ON, a_database_runs, ends, goes_on, has_a_map, is_pulled};
use super::usual::is_itself;
use super::{Kernels, POD, Scenario};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{NO_WRITE_FAILS, Outcome, Scene};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shield-power-cut",
    about: "the machine loses its power while a database waits for its disk: what was confirmed is there, and the next life has a shield",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    let off = "shield.mode = \"off\"";
    scene.configure(ON, off)?;
    let (data, _) = a_database_runs(scene, "data")?;
    is_pulled(scene, &data)?;
    std::thread::sleep(AWAY);
    scene.no_write_has_failed()?;
    let confirmed = scene.confirmed()?;
    scene.machine.restart(scene.bench, false)?;
    scene.row("the machine is switched off and on", format!("{:?}", scene.machine.boot), true);
    scene.configure(ON, off)?;
    scene.up(&data, POD, "")?;
    has_a_map(scene, &data)?;
    is_itself(scene, &data, POD)?;
    // That it had confirmed so many was in memory alone.
    scene.machine.put("/run/database.confirmed", &format!("{confirmed}\n"))?;
    scene.database_is_whole(&data.pod(POD))?;
    // What is remembered of the life before is of a mount that is no more.
    let pod = data.pod(POD);
    scene.machine.shell(&format!("mv {pod}/database {pod}/before"))?;
    scene.database_starts(&pod)?;
    is_pulled(scene, &data)?;
    scene.console_attaches(&data, NODE)?;
    scene.letter(&data)?;
    goes_on(scene, &data)?;
    scene.no_write_has_failed()?;
    scene.database_ends()?;
    scene.database_is_whole(&pod)?;
    ends(scene, &data)
}
