//! `install.sh` as a person runs it on the machine, and what its systemd and udevd say afterwards.

use super::{Outcome, Scene, Stop};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Where the person unpacked the project.
const PLACE: &str = "/root/incloud-disk";
const LIMIT: Duration = Duration::from_secs(120);

impl Scene<'_> {
    /// Brings the script to the machine: it needs nothing besides a driver.
    pub(crate) fn bring_installer(&mut self) -> Outcome {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        let text = fs::read_to_string(script).map_err(|error| format!("install.sh: {error}"))?;
        Ok(self.machine.put(&format!("{PLACE}/install.sh"), &text)?)
    }

    /// A word of `install.sh` that must end with this status; answers what it said.
    pub(crate) fn install_sh(&mut self, words: &[&str], status: i32) -> Outcome<String> {
        let script = format!("{PLACE}/install.sh");
        let argv: Vec<&str> =
            ["/bin/sh", &script].into_iter().chain(words.iter().copied()).collect();
        let (code, text) = self.machine.run(&argv, LIMIT)?;
        let check = format!("install.sh {} ends with {status}", words.join(" "));
        let saw = format!("{code:?} {}", text.trim().replace('\n', "; "));
        self.check(&check, code == Some(status), saw)?;
        Ok(text)
    }

    /// With the timer off, and more lines in the service that udev's event starts for a disk; afterwards it is as before.
    pub(crate) fn with_the_events_service(
        &mut self,
        lines: &str,
        work: impl FnOnce(&mut Self) -> Outcome,
    ) -> Outcome {
        const DROP_IN: &str = "/run/systemd/system/incloud-disk-heal@.service.d/scene.conf";
        self.machine.put(DROP_IN, lines)?;
        self.machine.shell("systemctl stop incloud-disk-heal.timer && systemctl daemon-reload")?;
        let done = work(self);
        self.machine.shell(&format!(
            "rm {DROP_IN}; systemctl daemon-reload; systemctl start incloud-disk-heal.timer"
        ))?;
        done
    }

    /// A line of shell whose output must be this.
    pub(crate) fn says(&mut self, line: &str, wanted: &str) -> Outcome {
        let (_, text) = self.machine.run(&["/bin/sh", "-c", line], LIMIT)?;
        let text = text.trim();
        self.check(line, text == wanted, if text.is_empty() { "nothing" } else { text })
    }

    /// What udevd itself tells systemd to start for the machine's own disk, asked by an event.
    pub(crate) fn udevd_wants(&mut self, wanted: &str) -> Outcome {
        let line = "udevadm trigger --action=change --settle /sys/block/vda && \
            udevadm info --query=property --name=/dev/vda | sed -n s/^SYSTEMD_WANTS=//p";
        let found = self.machine.shell(line)?;
        let saw = if found.is_empty() { "nothing" } else { &found };
        self.check("what udevd wants started for a disk", found == wanted, saw)
    }

    /// The service that udev's event starts for a disk ran for the disk that is there now, and it
    /// was the one that healed.
    pub(crate) fn event_healed(&mut self, letter: &str) -> Outcome {
        let unit = format!("incloud-disk-heal@{letter}.service");
        let begun = self.number(&format!(
            "udevadm info --query=property --name=/dev/{letter} | sed -n s/^USEC_INITIALIZED=//p"
        ))?;
        let check = format!("systemd ran {unit} for it");
        self.check_soon(&check, Duration::from_secs(10), |scene| {
            let show = |scene: &mut Self, property: &str| {
                scene.number(&format!("systemctl show --value --property={property} {unit}"))
            };
            let status = show(scene, "ExecMainStatus")?;
            let started = show(scene, "ExecMainStartTimestampMonotonic")?;
            let ended = show(scene, "ExecMainExitTimestampMonotonic")?;
            let said = scene.journal_of(&unit)?;
            let after = |time: u64| Duration::from_micros(time.saturating_sub(begun)).as_secs_f64();
            let saw = format!(
                "started {:.2} s and ended {:.2} s after udev had the disk: {said}",
                after(started),
                after(ended)
            );
            let has_healed = said.contains("switched");
            Ok((started >= begun && ended >= started && status == 0 && has_healed, saw))
        })
    }

    /// When the look at all volumes came to its end last, in microseconds of the machine's time.
    pub(crate) fn look_ended(&mut self) -> Outcome<u64> {
        let unit = "incloud-disk-heal.service";
        self.number(&format!(
            "systemctl show --value --property=ExecMainExitTimestampMonotonic {unit}"
        ))
    }

    /// The last thing that a unit said.
    pub(crate) fn journal_of(&mut self, unit: &str) -> Outcome<String> {
        let line = format!("journalctl --quiet --output=cat --lines=1 --unit={unit} _COMM=disk");
        Ok(self.machine.shell(&line)?)
    }

    fn number(&mut self, line: &str) -> Outcome<u64> {
        let text = self.machine.shell(line)?;
        text.parse().map_err(|_| Stop::Broken(format!("{line}: {text:?} is no number")))
    }
}
