//! Pods of a scenario: containers with mounts of their own, which write without an end.

use super::{Outcome, Scene, Stop, Volume};
use crate::orders::{Ask, Said};
use crate::support::pods::{Attack, Order, Report};
use std::path::PathBuf;
use std::time::Duration;

/// How often a container writes.
const PERIOD: Duration = Duration::from_millis(10);

/// A profile of `AppArmor`, and what it is called.
const CONFINED: &str = "container-of-a-test";
const PROFILE: &str = "profile container-of-a-test flags=(attach_disconnected,mediate_deleted) {
  file, capability, network, signal,
  deny mount, deny remount, deny umount, deny pivot_root, deny ptrace,
  deny /sys/** wklx, deny /proc/sys/** wklx,
}
";

/// A container that runs.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) pid: u32,
}

impl Scene<'_> {
    /// A container of a pod that sees the volume at `/data`, and writes there.
    pub(crate) fn start(&mut self, name: &str, volume: &Volume, uid: &str) -> Outcome<Running> {
        let running = self.start_seeing(name, uid, &[(&volume.pod(uid), "/data")])?;
        self.write(&running, "/data/log")?;
        Ok(running)
    }

    /// The same of a container that `AppArmor` confines as runtimes have it: it may not mount, nor take a mount off.
    pub(crate) fn start_confined(
        &mut self,
        name: &str,
        volume: &Volume,
        uid: &str,
    ) -> Outcome<Running> {
        self.machine.put("/run/profile", PROFILE)?;
        self.machine.shell("apparmor_parser --replace --skip-cache /run/profile")?;
        let label = format!("changeprofile {CONFINED}");
        let running = self.start_with_label(name, volume, uid, label)?;
        self.is_confined(&running)?;
        self.write(&running, "/data/log")?;
        Ok(running)
    }

    /// A container that sees the volume and `/proc`, and is what a security module calls so.
    pub(super) fn start_with_label(
        &mut self,
        name: &str,
        volume: &Volume,
        uid: &str,
        label: String,
    ) -> Outcome<Running> {
        let folder = volume.pod(uid);
        let sees = [(folder.as_str(), "/data"), ("/proc", "/proc")];
        let running = self.start_seeing(name, uid, &sees)?;
        self.tell(&running, &Order::Confine { label })?;
        Ok(running)
    }

    /// `AppArmor` confines it still.
    pub(crate) fn is_confined(&mut self, container: &Running) -> Outcome {
        let said = self.machine.shell(&format!("cat /proc/{}/attr/current", container.pid))?;
        self.check("AppArmor confines the container", said == format!("{CONFINED} (enforce)"), said)
    }

    /// A container of a pod that sees these folders.
    pub(crate) fn start_seeing(
        &mut self,
        name: &str,
        uid: &str,
        sees: &[(&str, &str)],
    ) -> Outcome<Running> {
        let path = |(from, to): &(&str, &str)| (PathBuf::from(from), PathBuf::from(to));
        let ask = Ask::Start {
            name: name.to_owned(),
            pod: uid.to_owned(),
            sees: sees.iter().map(path).collect(),
        };
        match self.machine.ask(&ask)? {
            Said::Started { pid } => {
                let places: Vec<_> = sees.iter().map(|(_, to)| *to).collect();
                self.row(format!("container {name} starts"), places.join(", "), true);
                Ok(Running { name: name.to_owned(), pid })
            }
            other => Err(Stop::Broken(format!("the agent said {other:?}"))),
        }
    }

    /// Lets a container write to a file without an end.
    pub(crate) fn write(&mut self, container: &Running, file: &str) -> Outcome {
        let order = Order::Write { path: file.into(), pause: PERIOD };
        self.tell(container, &order).map(drop)
    }

    /// Lets a child of a container write to a file and close it in `execve`. Answers its PID.
    pub(crate) fn write_back(&mut self, container: &Running, file: &str) -> Outcome<u32> {
        self.tell(container, &Order::Attack(Attack::WriteBack { file: file.into() }))?;
        let children = format!("cat /proc/{0}/task/{0}/children", container.pid);
        let child = self.machine.shell(&children)?;
        child.trim().parse().map_err(|_| Stop::Broken(format!("{children}: {child:?}")))
    }

    /// How its writing went so far.
    pub(crate) fn report(&mut self, container: &Running) -> Outcome<Report> {
        self.tell(container, &Order::Report)
    }

    pub(super) fn tell(&mut self, container: &Running, order: &Order) -> Outcome<Report> {
        match self.machine.ask(&Ask::Tell { name: container.name.clone(), order: order.clone() })? {
            Said::Told(report) => Ok(report),
            other => Err(Stop::Broken(format!("the agent said {other:?}"))),
        }
    }

    /// The container ends, as it does when its pod is deleted.
    pub(crate) fn end(&mut self, container: &Running) -> Outcome {
        let written = self.report(container)?.writes;
        self.machine.ask(&Ask::End { name: container.name.clone() })?;
        self.row(format!("container {} ends", container.name), format!("{written} writes"), true);
        Ok(())
    }
}
