//! With the shield a machine's disks go and come for a long time: on each bus, with each file system that may have a
//! map, and with a real database on each of them.

use super::shield::taken_by_force;
use super::shielded::{NONE_HAS_STOPPED, ON, all_go_on, losses, none_has_stopped};
use super::usual::{is_itself, sign};
use super::{Kernels, POD, Scenario, Setting};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{Database, Engine, Outcome, Scene, Volume};
use std::time::{Duration, Instant};

/// Both file systems, where both may have a map that waits.
const BOTH: &str = "ext4-and-xfs";

const SETTINGS: &[Setting] =
    &[(BOTH, Bus::InTurn, Kernels::CountingOnce), ("ext4", Bus::InTurn, Kernels::CountingTwice)];

/// One on each volume, in turn; and so many volumes, one on each bus, of each file system.
const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgresql];
const BUSES: usize = 3;

/// Of so many losses this one is a person's: detached by force, attached again. And this one is kubelet's: it takes
/// all down under what runs, and mounts again. The others are at the cloud's console.
const OF_SO_MANY: usize = 10;
const ONE_IS_BY_HAND: usize = 3;
const ONE_IS_KUBELETS: usize = 5;

/// While the disks are away: long enough for an error to be seen.
const AWAY: Duration = Duration::from_secs(2);

/// All of them share a machine in software emulation.
const REST: &str = "sleep 1";

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shield-endures",
    about: "with the shield all disks go and come, again and again, under SQLite and PostgreSQL: nothing is lost",
    settings: SETTINGS,
    control: NONE_HAS_STOPPED,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    let off = "guard.mode = \"off\"";
    scene.configure(&format!("{ON}\n{off}"), off)?;
    let times = losses()?;
    scene.bring_programs()?;
    let mut volumes = Vec::new();
    let kinds: &[&'static str] = if scene.fs == BOTH { &["ext4", "xfs"] } else { &["ext4"] };
    for fs in kinds {
        for number in 0..BUSES {
            let data = scene.volume_of(&format!("{fs}-{number}"), fs)?;
            scene.up(&data, POD, "")?;
            sign(scene, &data, POD)?;
            volumes.push(data);
        }
    }
    let buses = scene
        .machine
        .shell("ls -d /sys/block/*/device/driver | xargs -n1 readlink -f | sort | uniq -c")?;
    scene.row("disks of each kind", buses.replace('\n', ", "), true);
    let mut databases = all_begin(scene, &volumes)?;
    let names: Vec<String> = databases.iter().map(|database| database.name.clone()).collect();
    all_go_on(scene, &names)?;
    scene.processes_are_known(&mut databases)?;

    let mut took = Vec::new();
    for loss in 1..=times {
        match loss % OF_SO_MANY {
            ONE_IS_KUBELETS => kubelet_loses(scene, &volumes)?,
            ONE_IS_BY_HAND => a_person_loses(scene, &volumes, &names)?,
            _ => the_console_loses(scene, &volumes, &names)?,
        }
        let begun = Instant::now();
        all_go_on(scene, &names)?;
        took.push(begun.elapsed());
        none_has_stopped(scene, &names)?;
        scene.engines_saw_nothing(&databases)?;
        for data in &volumes {
            is_itself(scene, data, POD)?;
        }
        scene.row("losses so far", format!("{loss} of {times}"), true);
    }
    took.sort();
    let seconds = |at: usize| took.get(at).map_or(0.0, Duration::as_secs_f64);
    let saw = format!(
        "{times} losses of {} disks; the last of {} databases went on within {:.1} s in the middle, {:.1} s at the most",
        volumes.len(),
        databases.len(),
        seconds(took.len() / 2),
        seconds(took.len() - 1)
    );
    scene.row("from the last disk's return on", saw, true);
    all_are_whole(scene, &volumes, &databases)
}

/// Each database on its volume; `PostgreSQL`'s files are made once, and copied.
fn all_begin(scene: &mut Scene<'_>, volumes: &[Volume]) -> Outcome<Vec<Database>> {
    let mut databases: Vec<Database> = Vec::new();
    // With an odd number of buses each engine meets each file system.
    for (data, engine) in volumes.iter().zip(ENGINES.into_iter().cycle()) {
        let name = format!("{}-{}", engine.word(), data.pv);
        let like = databases.iter().find(|one| one.is_of(engine));
        let made = scene.engine_is_made(engine, &data.pod(POD), &name, like)?;
        databases.push(made);
    }
    for database in &databases {
        scene.engine_serves(database)?;
    }
    for database in &databases {
        scene.client_writes(database, REST)?;
    }
    Ok(databases)
}

/// At the cloud's console; the driver is told by the kernel's event alone.
fn the_console_loses(scene: &mut Scene<'_>, volumes: &[Volume], names: &[String]) -> Outcome {
    for data in volumes {
        scene.console_detaches(data, NODE)?;
    }
    std::thread::sleep(AWAY);
    none_has_stopped(scene, names)?;
    for data in volumes {
        scene.console_attaches(data, NODE)?;
    }
    Ok(())
}

/// At the machine; kubelet calls `attach` alone, for it believes all else done.
fn a_person_loses(scene: &mut Scene<'_>, volumes: &[Volume], names: &[String]) -> Outcome {
    for data in volumes {
        taken_by_force(scene, data, true)?;
    }
    std::thread::sleep(AWAY);
    none_has_stopped(scene, names)?;
    for data in volumes {
        scene.attach(data)?;
    }
    Ok(())
}

/// The incident, without the guard: the databases have mounts of their own, as containers have.
fn kubelet_loses(scene: &mut Scene<'_>, volumes: &[Volume]) -> Outcome {
    for data in volumes {
        for (call, reply) in [
            ("unmount", scene.try_unpublish(data, POD)?),
            ("unmountdevice", scene.try_unstage(data)?),
            ("detach", scene.try_detach(data)?),
        ] {
            scene.check(
                &format!("nothing holds {call} back"),
                reply.is_success(),
                reply.message(),
            )?;
        }
        let gone = scene.letter_now(data)?;
        scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))?;
    }
    std::thread::sleep(AWAY);
    for data in volumes {
        scene.up(data, POD, "")?;
    }
    Ok(())
}

/// They end; each volume is taken down, its file system is checked, and what is read then comes from the disk.
fn all_are_whole(scene: &mut Scene<'_>, volumes: &[Volume], databases: &[Database]) -> Outcome {
    for database in databases {
        scene.engine_ends(database)?;
    }
    for data in volumes {
        scene.down(data, &[POD])?;
        scene.up(data, POD, "")?;
    }
    for database in databases {
        scene.engine_is_whole(database)?;
    }
    for data in volumes {
        scene.down(data, &[POD])?;
    }
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))
}
