//! No call comes: the disk goes and comes back at the cloud's console, and udev and systemd do what a
//! call would have done.

use super::usual::{Life, WIDELY, a_pod_runs};
use super::{Kernels, Scenario};
use crate::host::machine::NODE;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Scene};
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "no-call-comes",
    about: "the disk goes and comes at the cloud's console, without any call: healed by udev's event",
    settings: WIDELY,
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play,
};

/// The event comes at once; the timer beneath it would take up to a minute.
const SOON: Duration = Duration::from_secs(30);
const CONTROLLED: Duration = Duration::from_secs(10);

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.configure("", "heal.mode = \"off\"")?;
    let life = a_pod_runs(scene)?;
    goes_and_comes(scene, &life)?;
    let now = life.has_another_letter(scene)?;
    scene.event_healed(&now)?;
    life.ends(scene)
}

/// At the console; and then, without a call, the pod has its disk again.
pub(super) fn goes_and_comes(scene: &mut Scene<'_>, life: &Life) -> Outcome {
    let rule =
        scene.machine.shell("ls /etc/udev/rules.d/90-incloud-disk.rules 2>/dev/null || true")?;
    let before = scene.look_ended()?;
    scene.console_detaches(&life.data, NODE)?;
    life.disk_is_pulled_out(scene)?;
    if !rule.is_empty() {
        // It is over before the disk comes: what heals then was begun by that.
        scene.check_soon("the loss begins a look at all volumes", SOON, |scene| {
            let now = scene.look_ended()?;
            Ok((now > before, format!("{before}, then {now}")))
        })?;
    }
    scene.console_attaches(&life.data, NODE)?;
    let (container, volume) = (life.pod.clone(), life.data.clone());
    let check = format!("{POD_HAS_ITS_DISK} again");
    let limit = if scene.is_control { CONTROLLED } else { SOON };
    scene.check_soon(&check, limit, move |scene| {
        let (number, serial) = scene.disk_below(&container, "/data")?;
        Ok((serial.contains(volume.serial()), format!("{number} {serial}")))
    })?;
    life.has_its_disk(scene)
}
