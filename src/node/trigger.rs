//! A disk that comes back is healed without a call: udev tells systemd, which starts the driver for
//! that disk; beneath it a timer. Nothing stays in memory. The timer is enabled by its link, as
//! `systemctl enable` does, so that images get it too.

use super::console::NodeResult;
use super::durable;
use super::site::{Plugins, Site};
use super::trial;
use crate::host::clock::Deadline;
use crate::host::{files, tool};
use crate::model::error::{Error, Kind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Units and a rule, as this driver wants them.
const FILES: [(&str, &str); 4] = [
    ("incloud-disk-heal.service", include_str!("../../examples/systemd/incloud-disk-heal.service")),
    (
        "incloud-disk-heal@.service",
        include_str!("../../examples/systemd/incloud-disk-heal@.service"),
    ),
    ("incloud-disk-heal.timer", include_str!("../../examples/systemd/incloud-disk-heal.timer")),
    ("90-incloud-disk.rules", include_str!("../../examples/systemd/90-incloud-disk.rules")),
];

const TIMER: &str = "incloud-disk-heal.timer";

/// How long systemd and udev may take.
const PATIENCE: Duration = Duration::from_secs(100);

/// Each file's name, and where it stands on the machine.
#[must_use]
pub fn places(site: &Site) -> Vec<(&'static str, PathBuf)> {
    FILES.iter().map(|(name, _)| (*name, place_of(site, name))).collect()
}

fn place_of(site: &Site, name: &str) -> PathBuf {
    let is_rule = Path::new(name).extension().is_some_and(|ending| ending == "rules");
    site.at(if is_rule { "/etc/udev/rules.d" } else { "/etc/systemd/system" }).join(name)
}

/// The link by which the timer is enabled.
#[must_use]
pub fn timer_link(site: &Site) -> PathBuf {
    site.at("/etc/systemd/system/timers.target.wants").join(TIMER)
}

/// A program of the system: where the person's shell would find it, or in the usual folders.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places
        .find(|place| place.is_file() && durable::mode(place).is_some_and(|mode| mode & 0o111 != 0))
        .or_else(|| tool::locate(name).ok())
}

fn call(name: &str, words: &[&str]) -> Result<()> {
    let place =
        program(name).ok_or_else(|| Error::new(Kind::Host, format!("{name} is not installed")))?;
    let output = tool::launch(&place, words, &[], Deadline::after(PATIENCE))?;
    if output.status == Some(0) {
        return Ok(());
    }
    let words = words.join(" ");
    Err(Error::new(Kind::Host, format!("{name} {words} failed: {}", output.last_line())))
}

fn systemd_runs(site: &Site) -> bool {
    site.has_systemd() && program("systemctl").is_some()
}

/// The trigger for the driver that is in place now.
pub fn change(site: &Site, plugins: &Plugins) -> NodeResult {
    let driver = plugins.driver();
    if site.is_this_machine() && !systemd_runs(site) {
        site.console.say(&format!(
            "no systemd runs here: let a supervisor run {} heal --watch, so that a disk that\n\
             comes back is healed without a call",
            driver.display()
        ));
        return Ok(());
    }
    if !site.options.dry_run && !trial::has_heal(&driver) {
        site.console.say("this driver cannot be asked to heal all volumes, so nothing asks it");
        return remove(site);
    }
    let path = site.inside(&driver);
    let Some(path) = path.to_str().filter(|path| !path.contains(['"', '\'', '\\', '\n'])) else {
        site.console.warn(&format!(
            "systemd cannot run a program of this path, so nothing calls it when a disk comes back: {}",
            driver.display()
        ));
        return remove(site);
    };
    if write_files(site, path)? {
        site.step("triggered");
        tell_systemd(site);
    } else {
        site.step("triggered");
    }
    if systemd_runs(site) && site.announces("starting the timer") {
        call("systemctl", &["start", TIMER])?;
    }
    Ok(())
}

/// Whether anything was another way before.
fn write_files(site: &Site, driver: &str) -> NodeResult<bool> {
    let mut is_changed = false;
    for (name, text) in FILES {
        let place = place_of(site, name);
        let beside = durable::folder_of(&place).join(format!(".{name}.new"));
        let text = for_driver(text, driver);
        if !site.options.dry_run {
            files::remove_if_there(&beside)?;
        }
        if fs::read(&place).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        is_changed = true;
        if site.announces(&format!("writing {}", place.display())) {
            durable::make_folder(durable::folder_of(&place), 0o755)?;
            durable::replace(&place, &beside, text.as_bytes(), 0o644)?;
        }
    }
    let link = timer_link(site);
    if !link.is_symlink() {
        is_changed = true;
        if site.announces(&format!("enabling the timer: {}", link.display())) {
            durable::make_folder(durable::folder_of(&link), 0o755)?;
            std::os::unix::fs::symlink(format!("../{TIMER}"), &link)
                .map_err(|error| Error::io(format!("link {}", link.display()), &error))?;
        }
    }
    Ok(is_changed)
}

/// In a unit's command a percent sign is doubled.
fn for_driver(text: &str, driver: &str) -> String {
    const START: &str = "ExecStart=\"";
    let path = driver.replace('%', "%%");
    let line = |line: &str| match line.strip_prefix(START).and_then(|rest| rest.split_once('"')) {
        Some((_, words)) => format!("{START}{path}\"{words}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// systemd that does not listen is no reason to stop: it reads all at the next start.
fn tell_systemd(site: &Site) {
    if !systemd_runs(site) {
        return;
    }
    if site.announces("telling systemd")
        && let Err(error) = call("systemctl", &["daemon-reload"])
    {
        site.console.warn(&format!("systemd did not read its units again: {error}"));
    }
    if program("udevadm").is_some()
        && site.announces("telling udev")
        && let Err(error) = call("udevadm", &["control", "--reload"])
    {
        site.console.warn(&format!("udev did not read its rules again: {error}"));
    }
}

/// Takes units, rule and link away.
pub fn remove(site: &Site) -> NodeResult {
    let link = timer_link(site);
    let places = places(site);
    if !link.is_symlink() && !places.iter().any(|(_, place)| place.exists()) {
        return Ok(());
    }
    if systemd_runs(site) && site.announces("stopping the timer") {
        // One that does not run, or is not known any more, is stopped.
        let _ = call("systemctl", &["stop", TIMER]);
    }
    if site.announces("removing what tells the driver of disks") {
        files::remove_if_there(&link)?;
        for (_, place) in &places {
            files::remove_if_there(place)?;
        }
    }
    tell_systemd(site);
    site.step("untriggered");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_alone_is_changed() {
        let text = for_driver(FILES[1].1, "/a 100% & c|d/disk");
        let changed: Vec<_> =
            text.lines().zip(FILES[1].1.lines()).filter(|(one, other)| one != other).collect();
        assert_eq!(text.lines().count(), FILES[1].1.lines().count());
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert_eq!(changed[0].0, "ExecStart=\"/a 100%% & c|d/disk\" heal --device /dev/%i");
        assert_eq!(for_driver(FILES[3].1, "/x"), FILES[3].1);
    }
}
