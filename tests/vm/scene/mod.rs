//! One scenario on a machine: its volumes and pods, kubelet's calls, what is seen, and the table of
//! all that.

mod clean;
mod console;
mod cost;
mod database;
mod kubelet;
mod labels;
mod looks;
mod maps;
mod pods;
mod programs;
mod systemd;

pub(crate) use cost::{KINDS, Work};
pub(crate) use database::NO_WRITE_FAILS;
pub(crate) use kubelet::Reply;
pub(crate) use looks::POD_HAS_ITS_DISK;
pub(crate) use pods::Running;
pub(crate) use programs::{Database, Engine};

use crate::busy::longer;
use crate::host::machine::{Bench, Machine, NODE};
use crate::host::plug::serial;
use crate::server::ids;
use std::time::{Duration, Instant};

/// GiB of each volume.
const SIZE: u64 = 1;

/// The same in bytes.
pub(crate) const BYTES: u64 = SIZE << 30;

/// Why a scenario ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// What was seen is not what must be.
    Wrong { check: String, saw: String },
    /// The machinery of the test failed; that says nothing of the driver.
    Broken(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// One thing that was done, and what was seen.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) did: String,
    pub(crate) saw: String,
    pub(crate) well: bool,
    pub(crate) took: Duration,
}

/// A volume of the scenario.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    /// The name of its `PersistentVolume`.
    pub(crate) pv: String,
    /// The cloud's id.
    pub(crate) id: String,
    pub(crate) fs: &'static str,
}

impl Volume {
    pub(crate) fn serial(&self) -> &str {
        serial(&self.id)
    }
}

/// A scenario that runs.
#[derive(Debug)]
pub(crate) struct Scene<'m> {
    pub(crate) machine: &'m mut Machine,
    pub(crate) bench: &'m Bench,
    /// The file system of its volumes.
    pub(crate) fs: &'static str,
    /// Whether the part of the driver that it is about is switched off.
    pub(crate) is_control: bool,
    pub(crate) rows: Vec<Row>,
    last: Instant,
}

impl<'m> Scene<'m> {
    pub(crate) fn new(
        machine: &'m mut Machine,
        bench: &'m Bench,
        fs: &'static str,
        is_control: bool,
    ) -> Self {
        Self { machine, bench, fs, is_control, rows: Vec::new(), last: Instant::now() }
    }

    /// Writes the driver's configuration; a control has other lines in it.
    pub(crate) fn configure(&mut self, lines: &str, of_control: &str) -> Outcome {
        let more = if self.is_control { of_control } else { lines };
        let url = self.machine.cloud.auth_url();
        let text = format!(
            "cloud.kind = \"openstack\"\nopenstack.auth_url = {url:?}\n\
             openstack.username = \"demo\"\nopenstack.password = \"demopass\"\n\
             openstack.user_domain_name = \"Default\"\nopenstack.project_name = \"demo\"\n\
             openstack.metadata_url = \"none\"\nnode.name = {NODE:?}\nlog.level = \"debug\"\n\
             paths.kubelet_root = \"/var/lib/kubelet\"\n{more}\n"
        );
        self.machine.put("/etc/incloud-disk/config.toml", &text)?;
        if !more.is_empty() {
            self.row("the configuration has", more.replace('\n', ", "), true);
        }
        Ok(())
    }

    /// A new volume of the cloud, blank.
    pub(crate) fn blank_volume(&mut self, pv: &str) -> Volume {
        let id = ids::uuid();
        self.machine.cloud.world().add_volume(pv, &id, SIZE, "demo");
        Volume { pv: pv.to_owned(), id, fs: self.fs }
    }

    /// One that had a life before, which ended well: to format it in the guest takes seconds.
    pub(crate) fn volume(&mut self, pv: &str) -> Outcome<Volume> {
        self.volume_of(pv, self.fs)
    }

    /// The same with a file system of its own.
    pub(crate) fn volume_of(&mut self, pv: &str, fs: &'static str) -> Outcome<Volume> {
        let volume = Volume { fs, ..self.blank_volume(pv) };
        let image = self.machine.plug.make_image(&volume.id, SIZE)?;
        let tool = format!("usr/sbin/mkfs.{}", volume.fs);
        let mut command = self.bench.parts.program("guest", &tool);
        command.env("MKE2FS_CONFIG", self.bench.parts.guest().join("etc/mke2fs.conf"));
        let output = command.arg("-q").arg(image).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(volume);
        }
        Err(Stop::Broken(format!("{tool}: {}", String::from_utf8_lossy(&output.stderr))))
    }

    /// Notes what was done and seen; shown as it happens.
    pub(crate) fn row(&mut self, did: impl Into<String>, saw: impl Into<String>, well: bool) {
        let took = self.last.elapsed();
        self.last = Instant::now();
        let row = Row { did: did.into(), saw: saw.into(), well, took };
        crate::report::show(&row);
        self.rows.push(row);
    }

    /// Something must be so.
    pub(crate) fn check(&mut self, check: &str, well: bool, saw: impl Into<String>) -> Outcome {
        let saw = saw.into();
        self.row(check, saw.clone(), well);
        if well { Ok(()) } else { Err(Stop::Wrong { check: check.to_owned(), saw }) }
    }

    /// Looks until something holds, for so long; then it must hold.
    pub(crate) fn check_soon(
        &mut self,
        check: &str,
        limit: Duration,
        mut look: impl FnMut(&mut Self) -> Outcome<(bool, String)>,
    ) -> Outcome {
        let end = Instant::now() + longer(limit);
        loop {
            let (well, saw) = look(self)?;
            if well || Instant::now() >= end {
                return self.check(check, well, saw);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
