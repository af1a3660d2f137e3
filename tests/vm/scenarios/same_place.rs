//! With the shield: a request to a disk fails, and when the disk answers again at the same place, it is an earlier state
//! of itself. The kernel was not told that anything changed.

use super::shield::WAIT_IS_OVER;
use super::shielded::{ON, a_database_runs, copy, ends, goes_on, has_a_map, why_not};
use super::{Kernels, POD, Scenario, Setting};
use crate::busy::longer;
use crate::host::image::DRIVER;
use crate::host::plug::Bus;
use crate::scene::{Outcome, Scene, Stop, Volume};
use std::time::Duration;

const SETTINGS: &[Setting] = &[("ext4", Bus::VirtioScsi, Kernels::All)];

const NOT_WRITTEN: &str = "nothing was written to the earlier state";

/// Long enough for a request to fail.
const AWAY: Duration = Duration::from_secs(2);

const PATIENCE: Duration = Duration::from_secs(12);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shield-set-back-in-place",
    about: "a disk fails, is set back to an earlier state, and answers again at its place: never is anything written to it",
    settings: SETTINGS,
    control: NOT_WRITTEN,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    let ours = format!("{ON}\nshield.patience = {}", longer(PATIENCE).as_secs());
    scene.configure(&ours, &ours)?;
    let data = is_set_back(scene, "data-0")?;
    kubelet_takes_it_down(scene, &data)?;
    ends(scene, &data)?;
    let data = is_set_back(scene, "data-1")?;
    a_person_releases_it(scene, &data)?;
    ends(scene, &data)
}

/// Answers it with a map that fails, over a disk that answers.
fn is_set_back(scene: &mut Scene<'_>, pv: &str) -> Outcome<Volume> {
    let (data, letter) = a_database_runs(scene, pv)?;
    has_a_map(scene, &data)?;
    let image = scene.machine.plug.image(&data.id);
    let kept = image.with_extension("kept");
    let heal = [DRIVER, "heal", &data.id];
    fails(scene, &letter)?;
    copy(&image, &kept)?;
    answers(scene, &letter)?;
    // It is as it was: so it goes on.
    scene.machine.run(&heal, Duration::from_secs(120))?;
    goes_on(scene, &data)?;
    fails(scene, &letter)?;
    copy(&kept, &image)?;
    answers(scene, &letter)?;
    if scene.is_control {
        // As one would that asks no more than whether the disk answers.
        let tell = format!(
            "dmsetup message $(cat /sys/block/dm-0/dm/name) 0 reinstate_path $(cat /sys/block/{letter}/dev)"
        );
        scene.machine.shell(&tell)?;
        std::thread::sleep(AWAY);
    } else {
        scene.machine.run(&heal, Duration::from_secs(120))?;
        let why = why_not(scene, &data.id)?;
        scene.check("the log says why it waits", why.contains("earlier state"), why)?;
        scene.no_write_has_failed()?;
        std::thread::sleep(longer(PATIENCE));
        // The first ends the wait, and the others look at what fails then.
        for _ in 0..3 {
            let (code, said) = scene.machine.run(&heal, Duration::from_secs(120))?;
            let is_told = code != Some(0) && said.contains("its disk is not proven");
            scene.check("a heal says why it fails", is_told, said)?;
        }
        let explain = [DRIVER, "explain", &data.id];
        let (_, said) = scene.machine.run(&explain, Duration::from_secs(60))?;
        scene.check("explain says it too", said.contains("Reads and writes fail"), said)?;
        scene.database_stops(WAIT_IS_OVER)?;
    }
    let same = std::process::Command::new("cmp").arg(&image).arg(&kept).output();
    let same = same.map_err(|error| Stop::Broken(format!("cmp: {error}")))?;
    let saw = String::from_utf8_lossy(&same.stdout).trim().to_owned();
    scene.check(NOT_WRITTEN, same.status.success(), saw)?;
    std::fs::remove_file(&kept).map_err(|error| error.to_string())?;
    Ok(data)
}

/// And then it is a volume as any other.
fn kubelet_takes_it_down(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    let reply = scene.try_unpublish(data, POD)?;
    scene.check("the pod lets go of it", reply.is_success(), reply.message())?;
    scene.machine.shell(&format!("rmdir {}", data.pod(POD)))?;
    let lost = scene.try_unstage(data)?;
    let is_said = !lost.is_success() && lost.message().contains("did not reach the disk");
    scene.check("what was not written is said, once", is_said, lost.message())?;
    let reply = scene.try_unstage(data)?;
    scene.check("and then it is unmounted", reply.is_success(), reply.message())?;
    scene.machine.shell(&format!("rmdir {}", data.global()))?;
    scene.up(data, POD, "").map(drop)
}

/// The same where kubelet keeps it mounted, for a pod that comes again.
fn a_person_releases_it(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    for (call, reply) in
        [("waitforattach", scene.try_wait(data)?), ("mountdevice", scene.try_stage(data)?)]
    {
        let is_told = !reply.is_success() && reply.message().contains("disk release");
        scene.check(&format!("{call} says what ends it"), is_told, reply.message())?;
    }
    scene.machine.run(&[DRIVER, "release", &data.id], Duration::from_secs(120))?;
    scene.machine.shell(&format!("rmdir {} {} || true", data.pod(POD), data.global()))?;
    scene.up(data, POD, "").map(drop)
}

/// What is asked of the disk fails, and it stays where it is.
fn fails(scene: &mut Scene<'_>, letter: &str) -> Outcome {
    scene.machine.shell(&format!("echo offline >/sys/block/{letter}/device/state"))?;
    std::thread::sleep(AWAY);
    Ok(())
}

fn answers(scene: &mut Scene<'_>, letter: &str) -> Outcome {
    scene.machine.shell(&format!("echo running >/sys/block/{letter}/device/state"))?;
    Ok(())
}
