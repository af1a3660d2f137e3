//! A volume that is mounted through a map of the driver's own, as a later version leaves it to this one: its
//! disk is pulled out and comes back, and what a database has open goes on.

use super::usual::{Life, WIDELY, is_itself, sign};
use super::{Kernels, POD, Scenario, Setting};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{BYTES, NO_WRITE_FAILS, Outcome, POD_HAS_ITS_DISK, Scene, Volume};
use std::time::Duration;

/// How often the disk goes and comes.
const TIMES: usize = 5;

/// While it is away: long enough for an error to be seen.
const AWAY: Duration = Duration::from_secs(2);

/// Else the driver would put the disk there, which `shield-pauses` is about.
const NOT_BY_ITSELF: &str = "heal.mode = \"report\"";

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

pub(super) const FORCED: Scenario = Scenario {
    name: "map-forced",
    about: "a person detaches a volume under a map by force, and once more while it waits: its mounts die and are healed",
    settings: EACH_FILE_SYSTEM,
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play: forced,
};

pub(super) const HUNG: Scenario = Scenario {
    name: "map-hung",
    about: "a disk under a map hangs while the map is to grow, and then goes: the database sees a pause all the same",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::One),
        ("ext4", Bus::VirtioScsi, Kernels::One),
    ],
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: hung,
};

pub(super) const KILLED: Scenario = Scenario {
    name: "map-killed",
    about: "what was to make or to switch a map was killed: what is left is no harm, and goes",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All)],
    control: WAIT_IS_OVER,
    controls: Kernels::One,
    play: killed,
};

pub(super) const GROWS: Scenario = Scenario {
    name: "map-grows",
    about: "a volume under a map grows: the map, too",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::One),
        ("ext4", Bus::VirtioScsi, Kernels::One),
    ],
    control: GROWN,
    controls: Kernels::One,
    play: grows,
};

pub(super) const FAILED_ONCE: Scenario = Scenario {
    name: "map-failed-once",
    about: "a disk under a map fails requests for a while and never leaves: a heal lets the map go on",
    settings: &[("ext4", Bus::VirtioScsi, Kernels::All)],
    control: GOES_ON,
    controls: Kernels::One,
    play: failed_once,
};

const GROWN: &str = "the file system has the new size";

const GOES_ON: &str = "the database goes on";

pub(super) const WAIT_IS_OVER: &str = "the database's wait is over";

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
    scene.configure(NOT_BY_ITSELF, "")?;
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
        scene.database_goes_on(GOES_ON)?;
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

/// The disk is back, and the map waits still: nothing is mounted beside it, and the volume does not leave.
fn not_mounted_beside(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    let argv = [crate::host::image::DRIVER, "heal", "--dry-run", &data.id];
    let (_, text) = scene.machine.run(&argv, Duration::from_secs(120))?;
    let is_told = text.contains("waits for its disk");
    scene.check("what a heal would do says that it waits", is_told, text.trim())?;
    // By that disk alone no user of it can be seen.
    let reply = scene.try_detach(data)?;
    let is_refused = !reply.is_success() && reply.message().contains("what has it open goes on");
    scene.check("a detach is refused while the database waits", is_refused, reply.message())?;
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

fn forced(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let (data, letter) = covered(scene, true)?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_begins(&pod, "/data", &data)?;
    let life = Life { data, letter, pod };
    taken_by_force(scene, &life.data, true)?;
    life.disk_is_pulled_out(scene)?;
    std::thread::sleep(AWAY);
    scene.no_write_has_failed()?;
    taken_by_force(scene, &life.data, false)?;
    scene.database_stops("the database has its error, and does not wait")?;
    scene.attach(&life.data)?;
    life.has_its_disk(scene)?;
    life.has_another_letter(scene)?;
    scene.database_is_whole(&life.data.pod(POD))?;
    life.ends(scene)?;
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))
}

fn hung(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "")?;
    let (data, _) = covered(scene, !scene.is_control)?;
    let device = scene.wait(&data, "")?;
    scene.disk_hangs(&data)?;
    std::thread::sleep(AWAY);
    if !scene.is_control {
        let reply = scene.try_grow(&data, POD, &device, 2 * BYTES)?;
        let is_told = !reply.is_success() && reply.message().contains("has not answered");
        scene.check("that the disk hangs is said", is_told, reply.message())?;
        waits_when_its_disk_goes(scene, &data, true)?;
    }
    goes_and_comes(scene, &data)?;
    scene.no_write_has_failed()?;
    scene.database_goes_on(GOES_ON)?;

    // Killed amid it, nothing can be put right before the disk answers.
    growing_is_killed(scene, &data, &device)?;
    waits_when_its_disk_goes(scene, &data, true)?;
    goes_and_comes(scene, &data)?;
    scene.database_goes_on(GOES_ON)?;
    scene.no_write_has_failed()?;

    // That a person, or a shutdown, has ended the wait outlasts it.
    scene.verb(&["release", "--waits"])?;
    waits_when_its_disk_goes(scene, &data, false)?;
    growing_is_killed(scene, &data, &device)?;
    waits_when_its_disk_goes(scene, &data, false)?;
    scene.grow(&data, POD, &device, 2 * BYTES)?;
    scene.database_goes_on(GOES_ON)?;
    waits_when_its_disk_goes(scene, &data, false)?;
    scene.no_write_has_failed()?;
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    scene.down(&data, &[POD])
}

/// While its disk hangs; then that answers, and the next call looks at it.
fn growing_is_killed(scene: &mut Scene<'_>, data: &Volume, device: &str) -> Outcome {
    scene.disk_hangs(data)?;
    std::thread::sleep(AWAY);
    scene.growing_is_killed_amid(data, POD, device, 2 * BYTES)?;
    waits_when_its_disk_goes(scene, data, false)?;
    scene.disk_answers(data)?;
    scene.database_goes_on(GOES_ON)?;
    scene.wait(data, "").map(drop)
}

fn waits_when_its_disk_goes(scene: &mut Scene<'_>, data: &Volume, waits: bool) -> Outcome {
    let said = scene.verb(&["explain", &data.id])?;
    // Further down stands what was noted of it before.
    let map = said.lines().map(str::trim).find(|line| line.starts_with("map "));
    let map = map.unwrap_or_default().to_owned();
    let is_so = map.contains("it works") && map.contains("does not wait") != waits;
    scene.check(&format!("what finds no disk waits: {waits}"), is_so, map)
}

/// A person is told whether what uses the volume waits for it or fails.
pub(super) fn taken_by_force(scene: &mut Scene<'_>, data: &Volume, waits: bool) -> Outcome {
    let said = scene.detach_by_force(data)?;
    let expected = if waits { "this waits for its disk" } else { "this breaks" };
    scene.check("what becomes of its users is said", said.contains(expected), expected)
}

fn killed(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(NOT_BY_ITSELF, NOT_BY_ITSELF)?;
    // Before it had a table, which newer kernels show nowhere: it is made as if there was none.
    let data = scene.volume("data-0")?;
    scene.attach(&data)?;
    scene.letter(&data)?;
    scene.killed_at("map.created", "cover", &data)?;
    scene.cover(&data)?;
    // Before the table was its own: the map goes, and the disk itself is mounted.
    for (pv, with_a_map) in [("data-0", true), ("data-1", false)] {
        let data = if with_a_map { data.clone() } else { scene.volume(pv)? };
        if !with_a_map {
            scene.attach(&data)?;
            scene.letter(&data)?;
            scene.killed_at("map.loaded", "cover", &data)?;
            let left = scene.map_now()?.unwrap_or_default();
            scene.check("its map is left", left.starts_with("dm-"), left)?;
        }
        let device = scene.wait(&data, "")?;
        scene.stage(&data, &device)?;
        let has_map = scene.map_now()?.is_some();
        let saw = format!("a map: {has_map}");
        scene.check("a map that is whole is used, and no other", has_map == with_a_map, saw)?;
        scene.publish(&data, POD)?;
        scene.down(&data, &[POD])?;
        let left = scene.map_now()?;
        scene.check("no map is left", left.is_none(), format!("{left:?}"))?;
    }
    // Amid a switch: the disk that was loaded is not the map's, until a switch is whole.
    let (data, _) = covered(scene, true)?;
    goes_and_comes(scene, &data)?;
    scene.killed_at("map.loaded", "switch", &data)?;
    scene.no_write_has_failed()?;
    scene.switch(&data)?;
    scene.database_goes_on(GOES_ON)?;
    goes_and_comes(scene, &data)?;
    scene.killed_at("map.loaded", "switch", &data)?;
    let before = scene.confirmed()?;
    if !scene.is_control {
        scene.verb(&["release", &data.id])?;
    }
    scene.database_stops(WAIT_IS_OVER)?;
    let now = scene.confirmed()?;
    let saw = format!("{before}, then {now}");
    scene.check("nothing went to the disk that was loaded", now == before, saw)?;
    scene.machine.shell(&format!("rmdir {} {} || true", data.pod(POD), data.global()))?;
    scene.up(&data, POD, "")?;
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))?;
    scene.database_is_whole(&data.pod(POD))?;
    scene.down(&data, &[POD])
}

fn goes_and_comes(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    scene.console_detaches(data, NODE)?;
    let gone = scene.letter_now(data)?;
    scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))?;
    scene.console_attaches(data, NODE)?;
    scene.letter(data).map(drop)
}

fn grows(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(NOT_BY_ITSELF, NOT_BY_ITSELF)?;
    let (data, _) = covered(scene, true)?;
    let device = scene.wait(&data, "")?;
    if !scene.is_control {
        scene.grow(&data, POD, &device, 2 * BYTES)?;
    }
    let size = format!("stat -f -c '%b %S' {}", data.pod(POD));
    scene.check_soon(GROWN, Duration::from_secs(5), |scene| {
        let text = scene.machine.shell(&size)?;
        let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let bytes: u64 = numbers.iter().product();
        Ok((bytes > BYTES + BYTES / 2, format!("{} MiB", bytes >> 20)))
    })?;
    scene.database_goes_on(GOES_ON)?;
    scene.no_write_has_failed()?;
    // It is one map still, and a switch knows its new size.
    goes_and_comes(scene, &data)?;
    scene.switch(&data)?;
    scene.database_goes_on(GOES_ON)?;
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    scene.down(&data, &[POD])
}

fn failed_once(scene: &mut Scene<'_>) -> Outcome {
    let off = "heal.mode = \"off\"";
    scene.configure("", off)?;
    let (data, letter) = covered(scene, true)?;
    let state = format!("/sys/block/{letter}/device/state");
    scene.machine.shell(&format!("echo offline >{state}"))?;
    std::thread::sleep(AWAY);
    scene.no_write_has_failed()?;
    scene.machine.shell(&format!("echo running >{state}"))?;
    if !scene.is_control {
        // Where the timer or udev's event was not faster.
        let said = scene.verb(&["heal", &data.id])?;
        scene.row("heal said", said.trim().to_owned(), true);
    }
    scene.database_goes_on(GOES_ON)?;
    scene.no_write_has_failed()?;
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    scene.down(&data, &[POD])
}

/// The lines that have a word.
fn in_lines(text: &str, word: &str) -> String {
    text.lines().filter(|line| line.contains(word)).map(str::trim).collect::<Vec<_>>().join("; ")
}
