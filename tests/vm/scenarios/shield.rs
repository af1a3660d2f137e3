//! A volume that is mounted through a map of the driver's own, as a later version leaves it to this one: its
//! disk is pulled out and comes back, and what a database has open goes on.

use super::usual::{WIDELY, is_itself, sign};
use super::{Kernels, POD, Scenario, Setting};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{NO_WRITE_FAILS, Outcome, Scene, Volume};
use std::time::Duration;

/// How often the disk goes and comes.
const TIMES: usize = 5;

/// While it is away: long enough for an error to be seen.
const AWAY: Duration = Duration::from_secs(2);

const EACH_FILE_SYSTEM: &[Setting] =
    &[("ext4", Bus::VirtioBlk, Kernels::All), ("xfs", Bus::VirtioBlk, Kernels::One)];

pub(super) const KEPT: Scenario = Scenario {
    name: "map-pauses",
    about: "a volume under a map of ours: its disk goes and comes, and a database that has it open sees a pause",
    settings: WIDELY,
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: pauses,
};

pub(super) const RELEASED: Scenario = Scenario {
    name: "map-released",
    about: "a person ends the wait for a disk that does not come back: errors, an unmount, and no map is left",
    settings: EACH_FILE_SYSTEM,
    control: WAIT_IS_OVER,
    controls: Kernels::One,
    play: released,
};

const WAIT_IS_OVER: &str = "the database's wait is over";

/// Attached, under a map, mounted by kubelet's calls; a database runs on it.
fn covered(scene: &mut Scene<'_>, with_map: bool) -> Outcome<(Volume, String)> {
    let data = scene.volume("data")?;
    scene.attach(&data)?;
    let device = scene.wait(&data, "")?;
    let letter = scene.letter(&data)?;
    if with_map {
        scene.cover(&data)?;
    }
    scene.stage(&data, &device)?;
    scene.publish(&data, POD)?;
    sign(scene, &data, POD)?;
    scene.database_starts(&data.pod(POD))?;
    Ok((data, letter))
}

fn pauses(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let with_map = !scene.is_control;
    let (data, mut letter) = covered(scene, with_map)?;
    if with_map {
        let name = scene.map_now()?.unwrap_or_default();
        let said = scene.verb(&["explain", &data.id])?;
        let knows = said.contains(&format!("/dev/{name}")) && said.contains("which works");
        scene.check("explain knows the map", knows, in_lines(&said, "map"))?;
        let reply = scene.try_detach(&data)?;
        let is_refused = !reply.is_success() && reply.message().contains("mounted");
        scene.check("a detach is refused, for it is mounted", is_refused, reply.message())?;
    }
    for time in 0..TIMES {
        scene.console_detaches(&data, NODE)?;
        let gone = scene.letter_now(&data)?;
        scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))?;
        std::thread::sleep(AWAY);
        scene.no_write_has_failed()?;
        if time == 0 {
            while_it_waits(scene, &data)?;
        }
        scene.console_attaches(&data, NODE)?;
        let now = scene.letter(&data)?;
        scene.check("it has another letter", now != letter, format!("{letter}, now {now}"))?;
        letter = now;
        if time == 0 {
            not_mounted_beside(scene, &data)?;
        }
        scene.switch(&data)?;
        scene.database_goes_on("the database goes on")?;
        scene.no_write_has_failed()?;
        is_itself(scene, &data, POD)?;
    }
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    let reply = scene.call(&["unmountdevice", &data.global()])?;
    scene.row("unmountdevice before unmount", reply.message().to_owned(), true);
    scene.down(&data, &[POD])?;
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))
}

/// The disk is away: nothing that is asked hangs, and it is said what waits.
fn while_it_waits(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    let said = scene.verb(&["explain", &data.id])?;
    let tells = said.contains("Reads and writes wait") && said.contains("disk release");
    scene.check(
        "explain says that it waits, and what ends that",
        tells,
        in_lines(&said, "wait"),
    )?;
    let reply = scene.try_unstage(data)?;
    let is_refused = !reply.is_success() && reply.message().contains("would wait too");
    scene.check("an unmount that would hang is refused", is_refused, reply.message())
}

/// The disk is back, and the map waits still: this version does not put it there, and mounts nothing beside.
fn not_mounted_beside(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    let argv = [crate::host::image::DRIVER, "heal", &data.id];
    let (code, text) = scene.machine.run(&argv, Duration::from_secs(120))?;
    let is_told = code != Some(0) && text.contains("waits for its disk");
    scene.check("a heal leaves what waits alone, and says so", is_told, text.trim())?;
    let mounts = scene.machine.shell("grep -c /dev/incloud-disk/ /proc/self/mountinfo")?;
    scene.check("nothing is mounted beside it", mounts == "2", mounts)
}

fn released(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let (data, _) = covered(scene, true)?;
    scene.console_detaches(&data, NODE)?;
    std::thread::sleep(AWAY);
    scene.no_write_has_failed()?;
    if !scene.is_control {
        let plan = scene.verb(&["release", &data.id, "--dry-run"])?;
        let tells = plan.contains("what waits in the map");
        scene.check("the plan says what waits", tells, in_lines(&plan, "map"))?;
        scene.no_write_has_failed()?;
        scene.verb(&["release", &data.id])?;
    }
    scene.database_stops(WAIT_IS_OVER)?;
    let mounts = scene.machine.shell("grep -c /dev/incloud-disk/ /proc/self/mountinfo || true")?;
    scene.check("nothing is mounted any more", mounts == "0", mounts)?;

    // The pod comes again: now on the disk itself.
    scene.console_attaches(&data, NODE)?;
    scene.machine.shell(&format!("rmdir {} {} || true", data.pod(POD), data.global()))?;
    scene.up(&data, POD, "")?;
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))?;
    is_itself(scene, &data, POD)?;
    scene.database_is_whole(&data.pod(POD))?;
    scene.down(&data, &[POD])
}

/// The lines that have a word.
fn in_lines(text: &str, word: &str) -> String {
    text.lines().filter(|line| line.contains(word)).map(str::trim).collect::<Vec<_>>().join("; ")
}
