//! With the shield: a disk comes back that something else has open for a few seconds. The look of its event cannot look
//! at it, and there is no other event.

use super::shielded::{ON, a_database_runs, ends, goes_on, is_pulled, why_not};
use super::usual::is_itself;
use super::{Kernels, POD, Scenario};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{NO_WRITE_FAILS, Outcome, Scene, Volume};
use std::time::Duration;

/// What holds the disk before the event's look begins, and lets it go by itself, or not.
const HOLDS: &str = "/run/holds";
const HOLDS_ON: &str = r#"#!/bin/sh
set -e
dmsetup create held --table "0 $(cat /sys/block/$1/size) linear /dev/$1 0"
"#;
const LETS_GO: &str = "systemd-run --quiet --on-active=3 --timer-property=AccuracySec=100ms dmsetup remove --retry held\n";
const ENDS: &str = "if dmsetup info held >/dev/null 2>&1; then dmsetup remove --retry held; fi";

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shield-held",
    about: "something else has the disk open when it comes back: the look of its event is repeated, and no timer is needed",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::All), ("xfs", Bus::VirtioBlk, Kernels::One)],
    control: NO_WRITE_FAILS,
    controls: Kernels::One,
    play,
};

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure(ON, "shield.mode = \"off\"")?;
    let (data, letter) = a_database_runs(scene, "data")?;
    let text = format!("[Service]\nExecStartPre=/bin/sh {HOLDS} %i\n");
    let done = scene.with_the_events_service(&text, |scene| {
        lets_go(scene, &data, &letter)?;
        holds_on(scene, &data)
    });
    scene.machine.shell(ENDS)?;
    done?;
    // What nothing holds any more the timer's look puts back.
    goes_on(scene, &data)?;
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    is_itself(scene, &data, POD)?;
    ends(scene, &data)
}

/// By something that ends soon.
fn lets_go(scene: &mut Scene<'_>, data: &Volume, letter: &str) -> Outcome {
    scene.machine.put(HOLDS, &format!("{HOLDS_ON}{LETS_GO}"))?;
    let now = comes_back(scene, data)?;
    scene.row("it has another letter", format!("{letter}, now {now}"), true);
    goes_on(scene, data)?;
    let why = why_not(scene, &data.id)?;
    scene.check("a look found it in use", why.contains("something uses"), why)?;
    ends_with(scene, &now, &["0"])?;
    scene.no_write_has_failed()
}

/// By something that goes on: the looks have an end, and so where the disk goes meanwhile.
fn holds_on(scene: &mut Scene<'_>, data: &Volume) -> Outcome {
    scene.machine.put(HOLDS, HOLDS_ON)?;
    let now = comes_back(scene, data)?;
    let before = scene.confirmed()?;
    ends_with(scene, &now, &["3"])?;
    let said = scene.verb(&["explain", &data.id])?;
    scene.check("explain says why it waits", said.contains("something uses"), said)?;
    scene.machine.shell(ENDS)?;
    let now = comes_back(scene, data)?;
    scene.check_soon("the service of its event looks", Duration::from_secs(20), |scene| {
        let state = shown(scene, "SubState", &format!("incloud-disk-heal@{now}"))?;
        Ok((state == "start", state))
    })?;
    scene.machine.shell("sleep 2")?;
    scene.console_detaches(data, NODE)?;
    // systemd forgets the service with its disk, and the status with it, unless it failed.
    ends_with(scene, &now, &["0", "3"])?;
    scene.machine.shell(ENDS)?;
    let still = scene.confirmed()?;
    scene.check("all waits", still == before, format!("{before}, then {still}"))?;
    scene.no_write_has_failed()?;
    scene.machine.put(HOLDS, "")?;
    scene.console_attaches(data, NODE)?;
    scene.letter(data).map(drop)
}

/// It goes and comes, and no look is under way in between.
fn comes_back(scene: &mut Scene<'_>, data: &Volume) -> Outcome<String> {
    is_pulled(scene, data)?;
    scene.no_write_has_failed()?;
    scene.check_soon("the look at all volumes is over", Duration::from_secs(20), |scene| {
        let state = shown(scene, "ActiveState", "incloud-disk-heal.service")?;
        Ok((state == "inactive" || state == "failed", state))
    })?;
    scene.console_attaches(data, NODE)?;
    scene.letter(data)
}

fn shown(scene: &mut Scene<'_>, properties: &str, unit: &str) -> Outcome<String> {
    let line = format!("systemctl show --value --property={properties} {unit} | xargs");
    Ok(scene.machine.shell(&line)?)
}

/// The service of the disk's event: it is no failure, whatever its status.
fn ends_with(scene: &mut Scene<'_>, letter: &str, statuses: &[&str]) -> Outcome {
    let check = format!("the service of its event ends with {}", statuses.join(" or "));
    scene.check_soon(&check, Duration::from_secs(40), |scene| {
        let unit = format!("incloud-disk-heal@{letter}");
        let saw = shown(scene, "ActiveState,ExecMainStatus", &unit)?;
        let words: Vec<_> = saw.split(' ').collect();
        let is_one = statuses.iter().any(|status| words.contains(status));
        Ok((words.contains(&"inactive") && is_one, saw))
    })
}
