//! Maps of the driver's own, as a driver makes and switches them that mounts through them.

use super::{Outcome, Scene, Stop, Volume};
use crate::host::image::PROGRAM;
use crate::orders::{Ask, Said};
use std::time::Duration;

impl Scene<'_> {
    pub(crate) fn cover(&mut self, volume: &Volume) -> Outcome {
        self.machine.ask(&Ask::Cover { volume: volume.id.clone() })?;
        let name = self.map_now()?.unwrap_or_default();
        self.check("a map of ours is over the disk", name.starts_with("dm-"), name)
    }

    /// Puts the disk that is there under the map; answers how long that took.
    pub(crate) fn switch(&mut self, volume: &Volume) -> Outcome<Duration> {
        match self.machine.ask(&Ask::Switch { volume: volume.id.clone() })? {
            Said::Switched { took } => {
                self.row("the map is switched to the disk that came", format!("{took:?}"), true);
                Ok(took)
            }
            other => Err(Stop::Broken(format!("the agent said {other:?}"))),
        }
    }

    /// A process that makes or switches the map is killed at a step.
    pub(crate) fn killed_at(&mut self, step: &str, what: &str, volume: &Volume) -> Outcome {
        let line = format!("INCLOUD_DISK_SEAM={step}=kill {PROGRAM} {what} {}", volume.id);
        let (code, text) = self.machine.run(&["/bin/sh", "-c", &line], Duration::from_secs(60))?;
        let check = format!("a process that was to {what} it is killed at {step}");
        self.check(&check, code != Some(0), format!("{code:?} {text}"))
    }

    /// The kernel's name of the guest's one map.
    pub(crate) fn map_now(&mut self) -> Outcome<Option<String>> {
        let text = self.machine.shell("ls /sys/block | grep '^dm-' || true")?;
        Ok(text.lines().next().map(str::to_owned))
    }
}
