//! With the shield: a disk comes back that something else has open for a few seconds. The look of its event cannot look
//! at it, and there is no other event.

use super::shielded::{ON, a_database_runs, ends, goes_on, is_pulled, why_not};
use super::usual::is_itself;
use super::{Kernels, POD, Scenario};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{NO_WRITE_FAILS, Outcome, Scene};
use std::time::Duration;

/// What holds the disk before the event's look begins, and lets it go by itself.
const HOLDS: &str = "/run/holds";
const HOLDS_TEXT: &str = r#"#!/bin/sh
set -e
dmsetup create held --table "0 $(cat /sys/block/$1/size) linear /dev/$1 0"
systemd-run --quiet --on-active=3 --timer-property=AccuracySec=100ms dmsetup remove --retry held
"#;

const DROP_IN: &str = "/run/systemd/system/incloud-disk-heal@.service.d/holds.conf";

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
    scene.machine.put(HOLDS, HOLDS_TEXT)?;
    let text = format!("[Service]\nExecStartPre=/bin/sh {HOLDS} %i\n");
    scene.machine.put(DROP_IN, &text)?;
    scene.machine.shell("systemctl stop incloud-disk-heal.timer && systemctl daemon-reload")?;
    let done = (|| {
        is_pulled(scene, &data)?;
        scene.no_write_has_failed()?;
        // The look at all volumes that began when it went.
        scene.check_soon("that look is over", Duration::from_secs(20), |scene| {
            let line = "systemctl show --value -p ActiveState incloud-disk-heal.service";
            let state = scene.machine.shell(line)?;
            Ok((state == "inactive" || state == "failed", state))
        })?;
        scene.console_attaches(&data, NODE)?;
        let now = scene.letter(&data)?;
        scene.row("it has another letter", format!("{letter}, now {now}"), true);
        goes_on(scene, &data)?;
        let why = why_not(scene, &data.id)?;
        scene.check("a look found it in use", why.contains("something uses"), why)?;
        scene.check_soon("the service of its event ends well", Duration::from_secs(10), |scene| {
            let line = format!(
                "systemctl show --value -p ActiveState -p ExecMainStatus incloud-disk-heal@{now} | xargs"
            );
            let saw = scene.machine.shell(&line)?;
            Ok((saw.contains("inactive") && saw.split(' ').any(|word| word == "0"), saw))
        })?;
        scene.no_write_has_failed()
    })();
    scene.machine.shell(&format!(
        "rm {DROP_IN}; systemctl daemon-reload; systemctl start incloud-disk-heal.timer; dmsetup remove held 2>/dev/null || true"
    ))?;
    done?;
    scene.database_ends()?;
    scene.database_is_whole(&data.pod(POD))?;
    is_itself(scene, &data, POD)?;
    ends(scene, &data)
}
