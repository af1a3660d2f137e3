//! A database that keeps its files open, in a folder of the guest.

use super::{Outcome, Scene};
use crate::host::image::PROGRAM;
use std::time::Duration;

/// The check that a shield is about.
pub(crate) const NO_WRITE_FAILS: &str = "no write of the database has failed";

/// The name of a database that is alone.
pub(super) const ONE: &str = "database";

/// How soon it must confirm something.
const SOON: Duration = Duration::from_secs(20);

impl Scene<'_> {
    pub(crate) fn database_starts(&mut self, folder: &str) -> Outcome {
        self.database_is_started(folder, "setsid")
    }

    /// The same with mounts of its own, as a container has them.
    pub(crate) fn database_starts_apart(&mut self, folder: &str) -> Outcome {
        self.database_is_started(folder, "setsid unshare --mount")
    }

    fn database_is_started(&mut self, folder: &str, by: &str) -> Outcome {
        let folder = format!("{folder}/database");
        self.machine.shell(&format!(
            "rm -f /run/database.*; mkdir {folder}; {by} {PROGRAM} database {folder} {ONE} </dev/null >/dev/null 2>&1 &"
        ))?;
        self.database_goes_on("the database confirms records")
    }

    /// What it has confirmed so far.
    pub(crate) fn confirmed(&mut self) -> Outcome<u64> {
        let text = self.machine.shell("tail -n 1 /run/database.confirmed 2>/dev/null || true")?;
        Ok(text.trim().parse().unwrap_or(0))
    }

    pub(crate) fn database_goes_on(&mut self, check: &str) -> Outcome {
        let before = self.confirmed()?;
        self.check_soon(check, SOON, |scene| {
            let now = scene.confirmed()?;
            Ok((now > before + 3, format!("{before}, then {now}")))
        })
    }

    /// It has not stopped, whatever it waits for.
    pub(crate) fn no_write_has_failed(&mut self) -> Outcome {
        let stopped = self.machine.shell("cat /run/database.stopped 2>/dev/null || true")?;
        let confirmed = self.confirmed()?;
        let saw =
            if stopped.is_empty() { format!("{confirmed} confirmed") } else { stopped.clone() };
        self.check(NO_WRITE_FAILS, stopped.is_empty(), saw)
    }

    /// It stops at an error, as each program does that looks at its errors.
    pub(crate) fn database_stops(&mut self, check: &str) -> Outcome {
        self.check_soon(check, SOON, |scene| {
            let stopped = scene.machine.shell("cat /run/database.stopped 2>/dev/null || true")?;
            Ok((!stopped.is_empty(), stopped))
        })
    }

    pub(crate) fn database_ends(&mut self) -> Outcome {
        self.end_databases()?;
        Ok(())
    }

    pub(super) fn end_databases(&mut self) -> Result<(), String> {
        let line = format!(
            "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q '^{PROGRAM} database' \\
             && kill -9 ${{p#/proc/}}; done; sleep 0.3; true"
        );
        self.machine.shell(&line).map(drop)
    }

    pub(crate) fn database_is_whole(&mut self, folder: &str) -> Outcome {
        self.is_whole(folder, ONE)
    }

    /// One of several, under a name of its own; they are looked at together.
    pub(crate) fn named_database_starts(&mut self, folder: &str, name: &str) -> Outcome {
        let place = format!("{folder}/database");
        self.machine.shell(&format!(
            "rm -f /run/{name}.confirmed /run/{name}.stopped; mkdir {place}; setsid {PROGRAM} database {place} {name} slow </dev/null >/dev/null 2>&1 &"
        ))?;
        Ok(())
    }

    /// What each of them has confirmed so far, and why those have stopped that did.
    pub(crate) fn named_databases(&mut self, names: &[String]) -> Outcome<(Vec<u64>, String)> {
        let line = format!(
            "cd /run; for n in {}; do tail -n 1 $n.confirmed 2>/dev/null | grep . || echo 0; done; \
             grep . *.stopped 2>/dev/null || true",
            names.join(" ")
        );
        let text = self.machine.shell(&line)?;
        let mut lines = text.lines();
        let confirmed = lines.by_ref().take(names.len()).map(|line| line.parse().unwrap_or(0));
        Ok((confirmed.collect(), lines.collect::<Vec<_>>().join("; ")))
    }

    pub(crate) fn is_whole(&mut self, folder: &str, name: &str) -> Outcome {
        let argv = [PROGRAM, "check-database", &format!("{folder}/database"), name];
        let (code, text) = self.machine.run(&argv, Duration::from_secs(60))?;
        self.check("each confirmed record is there", code == Some(0), text.trim())
    }
}
