//! How most stories begin and end.

use super::{POD, Setting};
use crate::host::plug::Bus;
use crate::scenarios::Kernels;
use crate::scene::{Outcome, Running, Scene, Volume};

/// On every kernel; and on the usual one with the other file system, and on the other buses.
pub(super) const WIDELY: &[Setting] = &[
    ("ext4", Bus::VirtioBlk, Kernels::All),
    ("xfs", Bus::VirtioBlk, Kernels::One),
    ("ext4", Bus::VirtioScsi, Kernels::One),
    ("ext4", Bus::Nvme, Kernels::One),
];

/// The same, and where pods are known by cgroups of version 1.
pub(super) const WIDELY_AND_CGROUPS_1: &[Setting] =
    &[WIDELY[0], WIDELY[1], WIDELY[2], WIDELY[3], ("ext4", Bus::VirtioBlk, Kernels::Cgroups1)];

/// A pod on a volume of its own, as it was before anything happened.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) data: Volume,
    /// The kernel's name of its disk at first.
    pub(super) letter: String,
    pub(super) pod: Running,
}

/// A pod starts on a volume, and writes.
pub(super) fn a_pod_runs(scene: &mut Scene<'_>) -> Outcome<Life> {
    let data = scene.volume("data")?;
    let letter = scene.up(&data, POD, "")?;
    let pod = scene.start("pod", &data, POD)?;
    scene.pod_begins(&pod, "/data", &data)?;
    Ok(Life { data, letter, pod })
}

impl Life {
    /// The pod goes on.
    pub(super) fn has_its_disk(&self, scene: &mut Scene<'_>) -> Outcome {
        scene.pod_has_its_disk(&self.pod, "/data", &self.data)
    }

    /// The guest has its disk no more.
    pub(super) fn disk_is_pulled_out(&self, scene: &mut Scene<'_>) -> Outcome {
        let gone = scene.letter_now(&self.data)?;
        scene.check("the disk is pulled out", gone.is_none(), format!("{gone:?}"))
    }

    /// It came back, and not as what it was.
    pub(super) fn has_another_letter(&self, scene: &mut Scene<'_>) -> Outcome<String> {
        let (letter, now) = (&self.letter, scene.letter(&self.data)?);
        let saw = format!("{letter}, now {now}");
        scene.check("it has another letter", now != *letter, saw)?;
        Ok(now)
    }

    /// The pod is deleted, and kubelet takes everything down.
    pub(super) fn ends(self, scene: &mut Scene<'_>) -> Outcome {
        scene.end(&self.pod)?;
        scene.down(&self.data, &[POD])
    }
}

/// Gives a volume its first life, with a file that says whose it is; answers its letter.
pub(super) fn signed(scene: &mut Scene<'_>, volume: &Volume, uid: &str) -> Outcome<String> {
    let letter = scene.up(volume, uid, "")?;
    sign(scene, volume, uid)?;
    Ok(letter)
}

pub(super) fn sign(scene: &mut Scene<'_>, volume: &Volume, uid: &str) -> Outcome {
    scene.machine.shell(&format!("echo {0} >{1}/name && sync", volume.pv, volume.pod(uid)))?;
    Ok(())
}

/// What stands in that file, wherever kubelet's folder leads now.
pub(super) fn is_itself(scene: &mut Scene<'_>, volume: &Volume, uid: &str) -> Outcome {
    let file = format!("{}/name", volume.pod(uid));
    let found = scene.machine.shell(&format!("cat {file} 2>&1 || true"))?;
    let check = format!("the file of {0} is on the volume of {0}", volume.pv);
    scene.check(&check, found == volume.pv, found)
}
