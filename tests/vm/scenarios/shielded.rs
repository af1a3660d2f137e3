//! `shield.mode` is on: the driver mounts through a map of its own, and puts the disk under it that comes back, if
//! nothing else wrote to it meanwhile.

use super::shield::WAIT_IS_OVER;
use super::usual::{is_itself, sign};
use super::{Kernels, POD, Scenario, Setting};
use crate::busy::longer;
use crate::host::image::DRIVER;
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{BYTES, NO_WRITE_FAILS, Outcome, Scene, Stop, Volume};
use std::time::{Duration, Instant};

/// How often the disk goes and comes, unless [`LOSSES`] says it.
const TIMES: usize = 5;
const LOSSES: &str = "INCLOUD_DISK_VM_LOSSES";

/// While it is away: long enough for an error to be seen.
pub(super) const AWAY: Duration = Duration::from_secs(2);

/// udev's event comes at once; the timer beneath it would take up to a minute.
const SOON: Duration = Duration::from_secs(40);

/// So long it is seen that a disk is not taken.
const NOT_TAKEN: Duration = Duration::from_secs(12);

const ON_EXT4: &[Setting] = &[("ext4", Bus::VirtioBlk, Kernels::All)];

const ON_XFS: &[Setting] = &[
    ("xfs", Bus::VirtioBlk, Kernels::CountingOnce),
    ("xfs", Bus::VirtioScsi, Kernels::One),
    ("xfs", Bus::Nvme, Kernels::One),
];

pub(super) const PAUSES: Scenario = Scenario {
    name: "shield-pauses",
    about: "with the shield a disk goes and comes at the cloud's console: a database sees a pause",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("ext4", Bus::VirtioScsi, Kernels::All),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: pauses,
};

/// Its own, for an xfs is compared in another way: so it has controls too.
pub(super) const PAUSES_ON_XFS: Scenario =
    Scenario { name: "shield-pauses-xfs", settings: ON_XFS, ..PAUSES };

pub(super) const MANY: Scenario = Scenario {
    name: "shield-many",
    about: "with the shield twenty disks go at once and come back: each database goes on",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::One), ("ext4", Bus::VirtioScsi, Kernels::One)],
    control: NONE_HAS_STOPPED,
    controls: Kernels::One,
    play: many,
};

pub(super) const STRANGERS: Scenario = Scenario {
    name: "shield-strangers",
    about: "while its disk is away it is written elsewhere: it is never put under the map",
    settings: ON_EXT4,
    control: WAITS_STILL,
    controls: Kernels::One,
    play: strangers,
};

pub(super) const STRANGERS_ON_XFS: Scenario =
    Scenario { name: "shield-strangers-xfs", settings: ON_XFS, ..STRANGERS };

pub(super) const UNCOUNTED: Scenario = Scenario {
    name: "shield-uncounted-xfs",
    about: "where the kernel does not count what an xfs confirmed, its map waits for no disk, and the heal comes",
    settings: &[("xfs", Bus::VirtioBlk, Kernels::CountingTwice)],
    control: DOES_NOT_WAIT,
    controls: Kernels::CountingTwice,
    play: uncounted,
};

pub(super) const CLEARED: Scenario = Scenario {
    name: "shield-cleared-xfs",
    about: "another program clears the count of what an xfs confirmed: the next look sees it, and its map waits no more",
    settings: &[("xfs", Bus::VirtioBlk, Kernels::CountingOnce)],
    control: DOES_NOT_WAIT,
    controls: Kernels::One,
    play: cleared,
};

pub(super) const SELDOM: Scenario = Scenario {
    name: "shield-seldom",
    about: "a mount is told to write its journal seldom: the next look sees it, and its map waits no more",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::One), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: DOES_NOT_WAIT,
    controls: Kernels::One,
    play: seldom,
};

const DOES_NOT_WAIT: &str = "a map is there, and it is said why it does not wait";

pub(super) const GROWS: Scenario = Scenario {
    name: "shield-grows",
    about: "a volume grows under a database, kubelet mounts it again, and then its disk goes and comes",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::One), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: grows,
};

pub(super) const HOURLY: Scenario = Scenario {
    name: "shield-hourly",
    about: "once an hour the kernel changes the superblock, and writes it to its place later: a disk that goes between the two is the same one",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("ext4", Bus::VirtioScsi, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: hourly,
};

pub(super) const PATIENCE: Scenario = Scenario {
    name: "shield-patience",
    about: "a disk that does not come back is waited for as long as the patience is, and no longer",
    settings: ON_EXT4,
    control: WAIT_IS_OVER,
    controls: Kernels::One,
    play: patience,
};

pub(super) const INCIDENT: Scenario = Scenario {
    name: "shield-incident",
    about: "with the shield and without the guard kubelet takes all down under a database and mounts again: a pause",
    settings: ON_EXT4,
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: incident,
};

pub(super) const SHUTDOWN: Scenario = Scenario {
    name: "shield-shutdown",
    about: "the machine shuts down while a database waits for its disk: it comes to its end, and loses nothing confirmed",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All)],
    control: GOES_DOWN,
    controls: Kernels::One,
    play: shutdown,
};

pub(super) const KILLED: Scenario = Scenario {
    name: "shield-killed",
    about: "what puts a map over a disk, and what puts a disk under its map, is killed at many moments: the next call ends it",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play: killed,
};

const GOES_DOWN: &str = "the machine comes to its end";

/// How long a shutdown may take: without the unit systemd waits 90 s for each mount, and after that the kernel
/// without an end.
const DOWN_WITHIN: Duration = Duration::from_secs(75);

pub(super) const NONE_HAS_STOPPED: &str = "no database has stopped";

/// At once, on one machine: as many as its bus has places for, and some are left.
const VOLUMES: usize = 20;

/// Two seconds for each, for in software a heal takes one.
const ALL_SOON: Duration = Duration::from_secs(60);

const WAITS_STILL: &str = "the map waits still";

pub(super) const ON: &str = "shield.mode = \"on\"";

/// Up by kubelet's calls; a database runs on it.
pub(super) fn a_database_runs(scene: &mut Scene<'_>, pv: &str) -> Outcome<(Volume, String)> {
    let data = scene.volume(pv)?;
    let letter = scene.up(&data, POD, "")?;
    sign(scene, &data, POD)?;
    scene.database_starts(&data.pod(POD))?;
    Ok((data, letter))
}

pub(super) fn has_a_map(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    let name = scene.map_now()?.unwrap_or_default();
    let said = scene.verb(&["explain", &data.id])?;
    let knows =
        !name.is_empty() && said.contains(&format!("/dev/{name}")) && said.contains("which works;");
    scene.check("it is mounted through a map of ours", knows, in_lines(&said, "map"))
}

fn pauses(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let times = losses()?;
    let (data, letter) = a_database_runs(scene, "data")?;
    if !scene.is_control {
        has_a_map(scene, &data)?;
    }
    let mut pauses = Pauses::of(data.clone(), letter);
    for _ in 0..times {
        pauses.one_more(scene)?;
    }
    pauses.are_told(scene);
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, &data)
}

/// How often a disk goes and comes.
pub(super) fn losses() -> Outcome<usize> {
    let Ok(text) = std::env::var(LOSSES) else { return Ok(TIMES) };
    match text.parse() {
        Ok(times) if times > 0 => Ok(times),
        _ => Err(Stop::Broken(format!("{LOSSES}={text} is no number of losses"))),
    }
}

/// A volume whose disk is pulled at the cloud's console and comes back, again and again.
#[derive(Debug)]
pub(super) struct Pauses {
    data: Volume,
    letter: String,
    /// Each time, from the cloud's word that the disk is there until the database went on.
    took: Vec<Duration>,
}

impl Pauses {
    pub(super) const fn of(data: Volume, letter: String) -> Self {
        Self { data, letter, took: Vec::new() }
    }

    pub(super) fn one_more(&mut self, scene: &mut Scene<'_>) -> Outcome {
        let data = &self.data;
        is_pulled(scene, data)?;
        std::thread::sleep(AWAY);
        scene.no_write_has_failed()?;
        if data.fs == "xfs" && !scene.is_control {
            let line = "cat /sys/block/dm-*/inflight /sys/fs/xfs/dm-*/log/log_*_lsn | xargs";
            let saw = scene.machine.shell(line)?;
            scene.row("requests that wait, and where the log goes on and begins", saw, true);
        }
        scene.mark_is_taken(data);
        scene.console_attaches(data, NODE)?;
        let begun = Instant::now();
        let now = scene.letter(data)?;
        let saw = format!("{}, now {now}", self.letter);
        scene.check("it has another letter", now != self.letter, saw)?;
        self.letter = now;
        goes_on(scene, data)?;
        self.took.push(begun.elapsed());
        scene.no_write_has_failed()?;
        scene.is_marked(data, NODE)?;
        is_itself(scene, data, POD)
    }

    pub(super) fn are_told(&mut self, scene: &mut Scene<'_>) {
        self.took.sort();
        let seconds = |time: Option<&Duration>| time.map_or(0.0, Duration::as_secs_f64);
        let (middle, longest) = (self.took.get(self.took.len() / 2), self.took.last());
        let saw = format!(
            "{} losses; then it went on within {:.1} s in the middle, {:.1} s at the most",
            self.took.len(),
            seconds(middle),
            seconds(longest)
        );
        scene.row("from the cloud's word on", saw, true);
    }
}

fn many(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let mut volumes = Vec::new();
    for number in 0..VOLUMES {
        let data = scene.volume(&format!("data-{number}"))?;
        scene.up(&data, POD, "")?;
        sign(scene, &data, POD)?;
        volumes.push(data);
    }
    for data in &volumes {
        scene.named_database_starts(&data.pod(POD), &data.pv)?;
    }
    let names: Vec<String> = volumes.iter().map(|data| data.pv.clone()).collect();
    all_go_on(scene, &names)?;
    let before = scene.named_databases(&names)?.0;
    for data in &volumes {
        scene.console_detaches(data, NODE)?;
    }
    std::thread::sleep(AWAY);
    none_has_stopped(scene, &names)?;
    let waiting = scene.named_databases(&names)?.0;
    let wrote = waiting.iter().zip(&before).filter(|(now, before)| now > before).count();
    scene.row("meanwhile", format!("{wrote} of {VOLUMES} wrote before their disk went"), true);
    std::thread::sleep(AWAY);
    let still = scene.named_databases(&names)?.0;
    scene.check("all of them wait", still == waiting, format!("{waiting:?}, then {still:?}"))?;
    let begun = Instant::now();
    for data in &volumes {
        scene.console_attaches(data, NODE)?;
    }
    let attached = begun.elapsed();
    all_go_on(scene, &names)?;
    scene.row(
        "from the first attach on",
        format!(
            "all disks were there after {:.1} s, and all databases went on after {:.1} s",
            attached.as_secs_f64(),
            begun.elapsed().as_secs_f64()
        ),
        true,
    );
    none_has_stopped(scene, &names)?;
    scene.database_ends()?;
    for data in &volumes {
        is_itself(scene, data, POD)?;
        scene.is_whole(&data.pod(POD), &data.pv)?;
        scene.down(data, &[POD])?;
    }
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))
}

/// Each of them confirms something that it had not; else it is told what the driver says of its volume.
pub(super) fn all_go_on(scene: &mut Scene<'_>, names: &[String]) -> Outcome {
    let before = scene.named_databases(names)?.0;
    let all = scene.check_soon("all databases go on", ALL_SOON, |scene| {
        let (now, why) = scene.named_databases(names)?;
        let each = names.iter().zip(now.iter().zip(&before));
        let wait = each.filter(|(_, (now, before))| now <= before).map(|(name, _)| name.as_str());
        let wait: Vec<_> = wait.collect();
        let (all, wait) = (wait.is_empty(), wait.join(", "));
        Ok((all, if all { why } else { format!("not {wait} {why}") }))
    });
    if all.is_err() {
        let status = scene.machine.run(&[DRIVER, "status"], Duration::from_secs(120))?;
        scene.row("status says", format!("{status:?}"), false);
    }
    all
}

pub(super) fn none_has_stopped(scene: &mut Scene<'_>, names: &[String]) -> Outcome {
    let (_, why) = scene.named_databases(names)?;
    scene.check(NONE_HAS_STOPPED, why.is_empty(), why)
}

fn incident(scene: &mut Scene<'_>) -> Outcome {
    let off = "guard.mode = \"off\"";
    scene.configure(&format!("{ON}\n{off}"), off)?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    sign(scene, &data, POD)?;
    scene.database_starts_apart(&data.pod(POD))?;
    for (call, reply) in [
        ("unmount", scene.try_unpublish(&data, POD)?),
        ("unmountdevice", scene.try_unstage(&data)?),
        ("detach", scene.try_detach(&data)?),
    ] {
        scene.check(&format!("nothing holds {call} back"), reply.is_success(), reply.message())?;
    }
    let gone = scene.letter_now(&data)?;
    scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))?;
    std::thread::sleep(AWAY);
    scene.no_write_has_failed()?;
    let now = scene.up(&data, POD, "")?;
    scene.check("it has another letter", now != letter, format!("{letter}, now {now}"))?;
    goes_on(scene, &data)?;
    scene.no_write_has_failed()?;
    has_a_map(scene, &data)?;
    is_itself(scene, &data, POD)?;
    // The next time it is known how far the journal was, though no call was told of that mount's first day.
    is_pulled(scene, &data)?;
    std::thread::sleep(AWAY);
    scene.console_attaches(&data, NODE)?;
    scene.letter(&data)?;
    goes_on(scene, &data)?;
    scene.no_write_has_failed()?;
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, &data)
}

pub(super) fn is_pulled(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    scene.console_detaches(data, NODE)?;
    let gone = scene.letter_now(data)?;
    scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))
}

/// The database confirms records again; where it does not, what the driver says of it is in the row.
pub(super) fn goes_on(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    let before = scene.confirmed()?;
    let id = data.id.clone();
    scene.check_soon("the database goes on", SOON, move |scene| {
        let now = scene.confirmed()?;
        let goes = now > before + 3;
        let why = if goes { String::new() } else { why_not(scene, &id)? };
        Ok((goes, format!("{before}, then {now} {why}")))
    })
}

/// What the log has of a disk that was not put under its map.
pub(super) fn why_not(scene: &mut Scene<'_>, id: &str) -> Outcome<String> {
    let line = format!(
        "cat /var/log/incloud-volume/* | grep {id} | grep -E 'not put under|without a shield' | tail -n 2"
    );
    Ok(scene.machine.shell(&line)?)
}

pub(super) fn ends(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    scene.down(data, &[POD])?;
    let left = scene.map_now()?;
    scene.check("no map is left", left.is_none(), format!("{left:?}"))
}

/// What a stranger does to the disk while it is away.
#[derive(Debug, Clone, Copy)]
enum Stranger {
    Mounts,
    Reads,
    Crashes,
    Checks,
    SetsBack,
}

fn strangers(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(
        &format!("{ON}\nshield.patience = {}", longer(NOT_TAKEN).as_secs()),
        &format!("{ON}\nshield.patience = 600"),
    )?;
    let all = [
        Stranger::Mounts,
        Stranger::Reads,
        Stranger::Crashes,
        Stranger::Checks,
        Stranger::SetsBack,
    ];
    for (number, stranger) in all.into_iter().enumerate() {
        is_not_taken(scene, &format!("data-{number}"), stranger)?;
    }
    Ok(())
}

fn is_not_taken(scene: &mut Scene<'_>, pv: &str, stranger: Stranger) -> Outcome {
    let (data, _) = a_database_runs(scene, pv)?;
    has_a_map_of(scene)?;
    is_pulled(scene, &data)?;
    let image = scene.machine.plug.image(&data.id);
    match stranger {
        Stranger::Mounts => is_mounted_elsewhere(scene, &data, "rw", true)?,
        Stranger::Reads => is_mounted_elsewhere(scene, &data, "ro", true)?,
        Stranger::Crashes => is_mounted_elsewhere(scene, &data, "rw", false)?,
        Stranger::Checks => {
            // An xfs is checked only when its log is thrown away.
            let (program, option) = match data.fs {
                "xfs" => ("usr/sbin/xfs_repair", "-L"),
                _ => ("usr/sbin/e2fsck", "-fy"),
            };
            let tool = scene.bench.parts.program("guest", program).arg(option).arg(&image).output();
            let output = tool.map_err(|error| error.to_string())?;
            let saw = String::from_utf8_lossy(&output.stdout).trim().replace('\n', "; ");
            scene.row("a stranger checks it", saw, true);
        }
        Stranger::SetsBack => {
            let kept = image.with_extension("kept");
            copy(&image, &kept)?;
            scene.console_attaches(&data, NODE)?;
            scene.letter(&data)?;
            goes_on(scene, &data)?;
            is_pulled(scene, &data)?;
            copy(&kept, &image)?;
            std::fs::remove_file(&kept).map_err(|error| error.to_string())?;
            scene.row("it is set back to what it was before", "", true);
        }
    }
    let before = scene.confirmed()?;
    scene.console_attaches(&data, NODE)?;
    scene.letter(&data)?;
    if scene.is_control {
        // As one would that does not look at what is on the disk.
        scene.switch(&data)?;
    }
    std::thread::sleep(Duration::from_secs(5));
    let now = scene.confirmed()?;
    scene.no_write_has_failed()?;
    let why = why_not(scene, &data.id)?;
    scene.check(
        WAITS_STILL,
        now <= before + 3 && !why.is_empty(),
        format!("{before}, then {now}: {why}"),
    )?;
    let said = scene.verb(&["explain", &data.id])?;
    scene.check(
        "explain says why",
        said.contains("written elsewhere")
            || said.contains("earlier state")
            || said.contains("begins elsewhere")
            || said.contains("another one"),
        in_lines(&said, "put"),
    )?;
    // Its end: the next that looks after the patience.
    std::thread::sleep(longer(NOT_TAKEN));
    let said = scene
        .machine
        .run(&[crate::host::image::DRIVER, "heal", &data.id], Duration::from_secs(120))?;
    scene.row("a heal after the patience", format!("{said:?}"), true);
    scene.database_stops(WAIT_IS_OVER)?;
    // Who checks an xfs throws its log away, and with it files that were only there.
    if data.fs != "xfs" || !matches!(stranger, Stranger::Checks) {
        shows_nothing_else(scene, &data)?;
    }
    ends(scene, &data)
}

fn has_a_map_of(scene: &mut Scene<'_>) -> Outcome {
    let name = scene.map_now()?;
    scene.check("a map of ours is there", name.is_some(), format!("{name:?}"))
}

/// Of a mount whose disk was given up: what is in memory of it, or an error, which a kernel may begin to give at any time.
fn shows_nothing_else(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    let said = scene.machine.shell(&format!("cat {}/name 2>&1 || true", data.pod(POD)))?;
    let mut lines = said.lines();
    let is_its_own = lines.all(|line| line == data.pv || line.ends_with("Input/output error"));
    scene.check("its mount shows no other volume", is_its_own, said.replace('\n', "; "))
}

/// Another server has it for a while: its disk is plugged in here under another serial, and mounted.
fn is_mounted_elsewhere(
    scene: &mut Scene<'_>,
    data: &Volume,
    access: &str,
    ends_well: bool,
) -> Outcome {
    let stranger = scene.blank_volume(&format!("stranger-of-{}", data.pv));
    let (its, ours) = (scene.machine.plug.image(&stranger.id), scene.machine.plug.image(&data.id));
    std::os::unix::fs::symlink(ours, its).map_err(|error| error.to_string())?;
    scene.console_attaches(&stranger, NODE)?;
    let letter = scene.letter(&stranger)?;
    // The kernel here has one with this UUID mounted, which another server has not.
    let own = if data.fs == "xfs" { ",nouuid" } else { "" };
    let writes = match access {
        "ro" => "",
        _ => "&& echo x >/mnt/stranger/was-here && sync -f /mnt/stranger",
    };
    scene.machine.shell(&format!(
        "mkdir -p /mnt/stranger; mount -t {} -o {access}{own} /dev/{letter} /mnt/stranger {writes}",
        data.fs
    ))?;
    if ends_well {
        scene.machine.shell("umount /mnt/stranger")?;
    }
    scene.console_detaches(&stranger, NODE)?;
    if !ends_well {
        scene.machine.shell("umount -l /mnt/stranger")?;
    }
    scene.row(
        "a stranger mounts it",
        format!("{access}, {}", if ends_well { "unmounted" } else { "crashed" }),
        true,
    );
    Ok(())
}

pub(super) fn copy(from: &std::path::Path, to: &std::path::Path) -> Outcome {
    let done = std::process::Command::new("cp").arg("--sparse=always").arg(from).arg(to).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        other => Err(Stop::Broken(format!("cp: {other:?}"))),
    }
}

fn grows(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let (data, letter) = a_database_runs(scene, "data")?;
    let device = scene.wait(&data, "")?;
    scene.grow(&data, POD, &device, 2 * BYTES)?;
    // As a kubelet that was restarted does.
    scene.stage(&data, &device)?;
    let mut pauses = Pauses::of(data.clone(), letter);
    for _ in 0..2 {
        pauses.one_more(scene)?;
    }
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, &data)
}

fn hourly(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let (data, letter) = a_database_runs(scene, "data")?;
    // The timer's look.
    scene.machine.shell("systemctl start incloud-disk-heal.service")?;
    scene.machine.shell("date --set='+2 hours'")?;
    let is_between = is_between_the_two(scene, &data, &letter);
    scene.machine.shell("date --set='-2 hours'")?;
    is_between?;
    Pauses::of(data.clone(), letter).one_more(scene)?;
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, &data)
}

/// The hour has passed, and so much is written as the kernel waits for; then the superblock is another one in memory than at
/// its place. Linux before 6.6 has no such hour.
fn is_between_the_two(scene: &mut Scene<'_>, data: &Volume, letter: &str) -> Outcome {
    const WRITTEN_AT: &str = "od -An -tu4 -j1072 -N4";
    let filler = format!("{}/filler", data.pod(POD));
    scene.machine.shell(&format!("dd if=/dev/zero of={filler} bs=1M count=32 conv=fsync"))?;
    let map = scene.map_now()?.unwrap_or_else(|| letter.to_owned());
    let times = format!(
        "dd if=/dev/{map} bs=4096 count=1 | {WRITTEN_AT}; dd if=/dev/{letter} iflag=direct bs=4096 count=1 | {WRITTEN_AT}"
    );
    let release = scene.machine.shell("uname -r")?;
    let mut version = release.split('.').map_while(|word| word.parse::<u32>().ok());
    let has_hour = (version.next(), version.next()) >= (Some(6), Some(6));
    if !has_hour || scene.is_control {
        return Ok(());
    }
    scene.check_soon("its superblock is another one in memory", SOON, |scene| {
        let text = scene.machine.shell(&format!("({times}) 2>/dev/null"))?;
        let mut lines = text.lines().map(str::trim);
        Ok((lines.next() != lines.next(), text.replace('\n', ", ")))
    })
}

fn uncounted(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let (data, _) = a_database_runs(scene, "data")?;
    has_no_shield(scene, &data, "does not count exactly")
}

fn cleared(scene: &mut Scene<'_>) -> Outcome {
    loses_its_shield(scene, "is counted no more", |_| {
        "dmsetup message $(cat /sys/block/dm-0/dm/name) 0 @stats_clear 0".to_owned()
    })
}

fn seldom(scene: &mut Scene<'_>) -> Outcome {
    loses_its_shield(scene, "written too seldom", |data| {
        format!("mount -o remount,lazytime {}", data.global())
    })
}

/// By what a command does; the next look sees it.
fn loses_its_shield(
    scene: &mut Scene<'_>,
    because: &str,
    command: impl Fn(&Volume) -> String,
) -> Outcome {
    scene.configure(ON, ON)?;
    let (data, _) = a_database_runs(scene, "data")?;
    has_a_map(scene, &data)?;
    let heal = ["heal", data.id.as_str()];
    scene.verb(&heal)?;
    let why = why_not(scene, &data.id)?;
    scene.check("a look finds nothing wrong", why.is_empty(), why)?;
    if !scene.is_control {
        scene.machine.shell(&command(&data))?;
        scene.verb(&heal)?;
    }
    has_no_shield(scene, &data, because)
}

/// Its map does not wait, and it is said why: its loss is as without a map.
fn has_no_shield(scene: &mut Scene<'_>, data: &Volume, because: &str) -> Outcome {
    let name = scene.map_now()?;
    let why = why_not(scene, &data.id)?;
    let is_said = why.contains(because) && name.is_some();
    scene.check(DOES_NOT_WAIT, is_said, format!("{name:?}: {why}"))?;
    is_pulled(scene, data)?;
    scene.database_stops("the database has its error, and does not wait")?;
    scene.console_attaches(data, NODE)?;
    scene.letter(data)?;
    let heal = [crate::host::image::DRIVER, "heal", &data.id];
    let said = scene.machine.run(&heal, Duration::from_secs(120))?;
    scene.row("a heal", format!("{said:?}"), true);
    is_itself(scene, data, POD)?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, data)
}

fn patience(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(
        &format!("{ON}\nshield.patience = 5"),
        &format!("{ON}\nshield.patience = 600"),
    )?;
    let (data, _) = a_database_runs(scene, "data")?;
    has_a_map(scene, &data)?;
    is_pulled(scene, &data)?;
    // The clock begins with the first look.
    let heal = [crate::host::image::DRIVER, "heal", &data.id];
    let said = scene.machine.run(&heal, Duration::from_secs(120))?;
    scene.row("a heal", format!("{said:?}"), true);
    std::thread::sleep(Duration::from_secs(1));
    scene.no_write_has_failed()?;
    std::thread::sleep(Duration::from_secs(6));
    let said = scene.machine.run(&heal, Duration::from_secs(120))?;
    scene.row("a heal after the patience", format!("{said:?}"), true);
    scene.database_stops(WAIT_IS_OVER)?;
    // The disk comes after all: healed as without a shield.
    scene.console_attaches(&data, NODE)?;
    scene.letter(&data)?;
    let said = scene.machine.run(&heal, Duration::from_secs(120))?;
    scene.row("a heal", format!("{said:?}"), true);
    is_itself(scene, &data, POD)?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, &data)
}

fn shutdown(scene: &mut Scene<'_>) -> Outcome {
    let on = format!("{ON}\nshield.patience = 600");
    scene.configure(&on, &on)?;
    let (data, _) = a_database_runs(scene, "data")?;
    has_a_map(scene, &data)?;
    if scene.is_control {
        let drop_in = "/etc/systemd/system/incloud-disk-shutdown.service.d/nothing.conf";
        scene.machine.put(drop_in, "[Service]\nExecStop=\n")?;
        scene.machine.shell("systemctl daemon-reload")?;
    }
    is_pulled(scene, &data)?;
    std::thread::sleep(AWAY);
    scene.no_write_has_failed()?;
    let confirmed = scene.confirmed()?;
    scene.machine.shell("sync -f /var/lib; systemctl --no-block poweroff")?;
    let begun = Instant::now();
    let is_down = scene.machine.goes_down(DOWN_WITHIN)?;
    scene.check(GOES_DOWN, is_down, format!("{:.1} s", begun.elapsed().as_secs_f64()))?;
    scene.machine.restart(scene.bench, false)?;
    scene.configure(&on, &on)?;
    // What the database had confirmed was on the disk before it went.
    scene.up(&data, POD, "")?;
    has_a_map(scene, &data)?;
    is_itself(scene, &data, POD)?;
    // That it had confirmed so many was in memory alone.
    scene.machine.put("/run/database.confirmed", &format!("{confirmed}\n"))?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, &data)
}

/// Moments after which a call is killed, until one ends by itself: the first one of each row is another.
fn moments(first: u64) -> impl Iterator<Item = Duration> {
    (0..30).map(move |number| Duration::from_millis(first + 100 * number))
}

fn killed(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(&format!("{ON}\nshield.patience = 900"), "shield.mode = \"off\"")?;
    // Nothing else puts right what is killed.
    scene.machine.shell(
        "rm /etc/udev/rules.d/90-incloud-disk.rules; udevadm control --reload; systemctl stop incloud-disk-heal.timer",
    )?;
    let data = scene.volume("data")?;
    // An interrupted first mkfs would need a person.
    scene.up(&data, POD, "")?;
    scene.down(&data, &[POD])?;
    scene.attach(&data)?;
    let device = scene.wait(&data, "")?;
    let mut kills = 0;
    for moment in moments(10) {
        if scene.stage_is_killed(&data, &device, moment)? {
            break;
        }
        kills += 1;
    }
    scene.row("mountdevice is killed", format!("{kills} times"), true);
    let device = scene.wait(&data, "")?;
    scene.stage(&data, &device)?;
    scene.publish(&data, POD)?;
    sign(scene, &data, POD)?;
    scene.database_starts(&data.pod(POD))?;
    if !scene.is_control {
        has_a_map(scene, &data)?;
    }
    for round in 0..3 {
        is_pulled(scene, &data)?;
        std::thread::sleep(AWAY);
        scene.no_write_has_failed()?;
        scene.console_attaches(&data, NODE)?;
        scene.letter(&data)?;
        // Only what is counted is held first.
        let steps = match data.fs {
            "xfs" => &["map.loaded", "map.held", "map.suspended"][..],
            _ => &["map.loaded", "map.suspended"],
        };
        if let Some(step) = steps.get(round).filter(|_| !scene.is_control) {
            scene.killed_at(step, "switch", &data)?;
        }
        let mut kills = 0;
        let heal = ["heal", data.id.as_str()];
        for moment in moments(20 + 15 * round as u64) {
            if scene.is_killed(&heal, moment)? {
                break;
            }
            kills += 1;
        }
        scene.row("a heal is killed", format!("{kills} times"), true);
        let said = scene.verb(&heal)?;
        scene.row("a heal", said.trim(), true);
        goes_on(scene, &data)?;
        scene.no_write_has_failed()?;
        has_a_map(scene, &data)?;
        is_itself(scene, &data, POD)?;
    }
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    ends(scene, &data)
}

/// The lines that have a word.
fn in_lines(text: &str, word: &str) -> String {
    text.lines().filter(|line| line.contains(word)).map(str::trim).collect::<Vec<_>>().join("; ")
}
