//! Nobody calls: the disk goes and comes back at the cloud's console, and udev and systemd do what a
//! call would have done.

use super::{Kernels, POD, Scenario};
use crate::host::machine::NODE;
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Scene, Stop};
use std::path::Path;
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "nobody-calls",
    about: "the disk goes and comes at the cloud's console, without any call: healed by udev's event",
    settings: &[
        ("ext4", Bus::VirtioBlk, Kernels::All),
        ("xfs", Bus::VirtioBlk, Kernels::One),
        ("ext4", Bus::VirtioScsi, Kernels::One),
        ("ext4", Bus::Nvme, Kernels::One),
    ],
    control: POD_HAS_ITS_DISK,
    play,
};

/// The event comes at once; the timer beneath it would take up to a minute.
const SOON: Duration = Duration::from_secs(30);
const CONTROLLED: Duration = Duration::from_secs(10);

fn is_rule(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rules")
}

fn play(scene: &mut Scene<'_>) -> Outcome {
    if !scene.bench.image.has_installed(is_rule) {
        return Err(Stop::Skipped("install.sh installs no rule of udev".to_owned()));
    }
    scene.configure("", "heal.mode = \"off\"")?;
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;

    scene.console_detaches(&data, NODE)?;
    let gone = scene.letter_now(&data)?;
    scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))?;
    scene.console_attaches(&data, NODE)?;
    let (container, volume) = (pod.clone(), data.clone());
    let check = format!("{POD_HAS_ITS_DISK} again");
    let limit = if scene.is_control { CONTROLLED } else { SOON };
    scene.check_soon(&check, limit, move |scene| {
        let (number, serial) = scene.disk_below(&container, "/data")?;
        Ok((serial.contains(volume.serial()), format!("{number} {serial}")))
    })?;
    scene.pod_has_its_disk(&pod, "/data", &data)?;
    let now = scene.letter(&data)?;
    scene.check("it has another letter", now != letter, format!("{letter}, now {now}"))?;
    scene.end(&pod)?;
    scene.down(&data, &[POD])
}
