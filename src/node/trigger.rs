//! A disk that comes back is healed without a call: udev tells systemd, which starts the driver for
//! that disk; beneath it a timer. When the machine shuts down, a unit ends what waits for a disk. Nothing stays in
//! memory. Timer and unit are enabled by their links, as `systemctl enable` does, so that images get them too.

use super::console::NodeResult;
use super::site::{Plugins, Site};
use super::{durable, system, trial};
use crate::host::{files, tool};
use crate::model::error::{Error, Kind, Result};
use crate::ports::clock::Deadline;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Units and a rule, as this driver wants them.
const FILES: [(&str, &str); 5] = [
    ("incloud-disk-heal.service", include_str!("../../examples/systemd/incloud-disk-heal.service")),
    (
        "incloud-disk-heal@.service",
        include_str!("../../examples/systemd/incloud-disk-heal@.service"),
    ),
    ("incloud-disk-heal.timer", include_str!("../../examples/systemd/incloud-disk-heal.timer")),
    (SHUTDOWN, include_str!("../../examples/systemd/incloud-disk-shutdown.service")),
    ("90-incloud-disk.rules", include_str!("../../examples/systemd/90-incloud-disk.rules")),
];

const TIMER: &str = "incloud-disk-heal.timer";
const SHUTDOWN: &str = "incloud-disk-shutdown.service";

/// What is enabled, and which target wants it.
const ENABLED: [(&str, &str); 2] =
    [(TIMER, "timers.target.wants"), (SHUTDOWN, "multi-user.target.wants")];

/// How long systemd and udev may take.
const PATIENCE: Duration = Duration::from_secs(100);

/// Each file's name, and where it stands on the machine.
pub(super) fn places(site: &Site) -> Vec<(&'static str, PathBuf)> {
    FILES.iter().map(|(name, _)| (*name, place_of(site, name))).collect()
}

fn place_of(site: &Site, name: &str) -> PathBuf {
    let is_rule = Path::new(name).extension().is_some_and(|ending| ending == "rules");
    site.at(if is_rule { "/etc/udev/rules.d" } else { "/etc/systemd/system" }).join(name)
}

/// What is enabled, and the link by which it is.
pub(super) fn links(site: &Site) -> Vec<(&'static str, PathBuf)> {
    let units = site.at("/etc/systemd/system");
    ENABLED.iter().map(|(unit, target)| (*unit, units.join(target).join(unit))).collect()
}

/// A program of the system: where the person's shell would find it, or in the usual folders.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|place| system::is_executable(place)).or_else(|| tool::locate(name).ok())
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
pub(super) fn change(site: &Site, plugins: &Plugins) -> NodeResult {
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
    // One that knows no maps has no waits to end.
    let ends_waits = site.options.dry_run || trial::knows_maps(&driver);
    let is_changed = write_files(site, path, ends_waits)?;
    site.step("triggered");
    if is_changed {
        tell_systemd(site);
    }
    if !systemd_runs(site) {
        return Ok(());
    }
    if !ends_waits {
        stop_shutdown(site);
    }
    for (unit, link) in links(site) {
        if (link.is_symlink() || site.options.dry_run)
            && site.announces(&format!("starting {unit}"))
        {
            call("systemctl", &["start", unit])?;
        }
    }
    Ok(())
}

/// Whether anything was another way before.
fn write_files(site: &Site, driver: &str, ends_waits: bool) -> NodeResult<bool> {
    let mut is_changed = false;
    let is_wanted = |name: &str| ends_waits || name != SHUTDOWN;
    let all = places(site).into_iter().chain(links(site));
    for (_, unwanted) in all.filter(|(name, place)| !is_wanted(name) && durable::is_there(place)) {
        is_changed = true;
        if site.announces(&format!("removing {}", unwanted.display())) {
            files::remove_if_there(&unwanted)?;
        }
    }
    for (name, text) in FILES.into_iter().filter(|(name, _)| is_wanted(name)) {
        let (place, text) = (place_of(site, name), for_driver(text, driver));
        if fs::read(&place).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        is_changed = true;
        if site.announces(&format!("writing {}", place.display())) {
            durable::replace(&place, text.as_bytes(), 0o644)?;
        }
    }
    for (unit, link) in links(site) {
        if !is_wanted(unit) || link.is_symlink() {
            continue;
        }
        is_changed = true;
        if site.announces(&format!("enabling {unit}: {}", link.display())) {
            durable::link(&Path::new("..").join(unit), &link)?;
        }
    }
    Ok(is_changed)
}

/// After systemd was told that the unit is gone: while it is there it is stopped by a shutdown alone. One that does
/// not run is stopped.
fn stop_shutdown(site: &Site) {
    if site.announces(&format!("stopping {SHUTDOWN}")) {
        let _ = call("systemctl", &["stop", SHUTDOWN]);
    }
}

/// In a unit's command a percent sign is doubled.
fn for_driver(text: &str, driver: &str) -> String {
    const BEGINNINGS: [&str; 2] = ["ExecStart=\"", "ExecStop=\""];
    let path = driver.replace('%', "%%");
    let words_of = |line: &str, beginning: &str| {
        Some(line.strip_prefix(beginning)?.split_once('"')?.1.to_owned())
    };
    let line = |line: &str| {
        let mut changed = BEGINNINGS.iter().filter_map(|beginning| {
            Some(format!("{beginning}{path}\"{}\n", words_of(line, beginning)?))
        });
        changed.next().unwrap_or_else(|| format!("{line}\n"))
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
pub(super) fn remove(site: &Site) -> NodeResult {
    let all: Vec<_> = links(site).into_iter().chain(places(site)).collect();
    if !all.iter().any(|(_, place)| durable::is_there(place)) {
        return Ok(());
    }
    if systemd_runs(site) && site.announces("stopping the timer") {
        // One that does not run, or is not known any more, is stopped.
        let _ = call("systemctl", &["stop", TIMER]);
    }
    if site.announces("removing what tells the driver of disks") {
        for (_, place) in &all {
            files::remove_if_there(place)?;
        }
    }
    tell_systemd(site);
    if systemd_runs(site) {
        stop_shutdown(site);
    }
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
        let stopped = for_driver(FILES[3].1, "/x");
        assert!(stopped.contains("\nExecStop=\"/x\" release --waits\n"), "{stopped}");
        assert_eq!(for_driver(FILES[4].1, "/x"), FILES[4].1);
    }
}
