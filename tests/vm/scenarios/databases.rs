//! With the shield a real database sees a pause: `SQLite` and `PostgreSQL` as Debian has them.

use super::shielded::{ON, Pauses, ends, has_a_map, losses};
use super::usual::sign;
use super::{Kernels, POD, Scenario, Setting};
use crate::host::plug::Bus;
use crate::scene::{Engine, NO_WRITE_FAILS, Outcome, Scene};

const SETTINGS: &[Setting] = &[
    ("ext4", Bus::VirtioBlk, Kernels::All),
    ("ext4", Bus::VirtioScsi, Kernels::One),
    ("ext4", Bus::Nvme, Kernels::One),
    ("xfs", Bus::VirtioBlk, Kernels::One),
];

pub(super) const SQLITE: Scenario = Scenario {
    name: "shield-databases-sqlite",
    about: "with the shield SQLite inserts all the time while its disk goes and comes: nothing is lost",
    settings: SETTINGS,
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: |scene| play(scene, Engine::Sqlite),
};

pub(super) const POSTGRESQL: Scenario = Scenario {
    name: "shield-databases-postgresql",
    about: "with the shield PostgreSQL commits all the time while its disk goes and comes: nothing is lost",
    settings: SETTINGS,
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: |scene| play(scene, Engine::Postgresql),
};

fn play(scene: &mut Scene<'_>, engine: Engine) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let times = losses()?;
    scene.bring_programs()?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    sign(scene, &data, POD)?;
    let database = scene.engine_begins(engine, &data.pod(POD))?;
    if !scene.is_control {
        has_a_map(scene, &data)?;
    }
    let mut pauses = Pauses::of(data.clone(), letter);
    for _ in 0..times {
        pauses.one_more(scene)?;
        scene.engines_saw_nothing(std::slice::from_ref(&database))?;
    }
    pauses.are_told(scene);
    scene.engine_ends(&database)?;
    // Mounted anew: what is read then comes from the disk. Between the two its file system is checked.
    scene.down(&data, &[POD])?;
    scene.up(&data, POD, "")?;
    scene.engine_is_whole(&database)?;
    ends(scene, &data)
}
