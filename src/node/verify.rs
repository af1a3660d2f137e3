//! What is not as it was installed.

use super::console::{NodeResult, Stop};
use super::site::{Plugins, Site};
use super::{durable, plugin_folder, predecessor, readiness, record, trigger};
use std::path::Path;

/// The whole word.
pub(super) fn run(site: &Site) -> NodeResult {
    let plugins = plugin_folder::in_use(site)?;
    let Some(record) = record::load(site)? else {
        let path = record::path(site);
        let none = format!(
            "nothing is noted as installed: there is no {}; disk node install installs it",
            path.display()
        );
        return Err(differs(&[none]));
    };
    let mut drift = of_driver(&plugins, &record);
    drift.extend(of_folders(site, &plugins)?);
    drift.extend(of_trigger(site, &record));
    if !drift.is_empty() {
        return Err(differs(&drift));
    }
    let folder = plugins.driver_folder();
    let what = if record.is_foreign() { "the predecessor" } else { record.get("version") };
    site.console.say(&format!("as installed: {what} in {}", folder.display()));
    if record.is_foreign() {
        return Ok(());
    }
    // The driver is in its place: what it lacks is no difference, but it must not look well either.
    for line in readiness::lacks(site, &plugins) {
        site.console.warn(&format!("calls that need the cloud fail: {line}"));
    }
    Ok(())
}

fn differs(drift: &[String]) -> Stop {
    Stop::with_lines("not as it was installed:", drift)
}

/// What to say of a file that has not this checksum.
fn difference(path: &Path, wanted: &str, is_another: &str) -> Option<String> {
    let path_shown = path.display();
    match durable::checksum(path) {
        Ok(sum) if sum == wanted => None,
        Ok(_) => Some(format!("{path_shown} is another one than was installed{is_another}")),
        Err(error) => Some(format!("{path_shown} cannot be compared: {error}")),
    }
}

fn of_driver(plugins: &Plugins, record: &record::InstallRecord) -> Vec<String> {
    let driver = plugins.driver();
    let shown = driver.display();
    if !plugins.has_driver() {
        return vec![format!("the driver is gone: {shown}")];
    }
    let installed = format!(" at {} ({})", record.get("time"), record.get("version"));
    let mut drift = Vec::from_iter(difference(&driver, record.get("sha256"), &installed));
    if durable::mode(&driver) != Some(0o755) && !record.is_foreign() {
        drift.push(format!("{shown} has other permissions than 0755"));
    }
    drift
}

fn of_folders(site: &Site, plugins: &Plugins) -> NodeResult<Vec<String>> {
    let mut drift = Vec::new();
    let folder = plugins.driver_folder();
    let mut seen = durable::entries(&folder)?;
    // kubelet does not see hidden names in there.
    seen.retain(|path| !has_start(path, ".") && *path != plugins.driver());
    // The predecessor's own files, which a call of it that still runs may read.
    seen.retain(|path| !predecessor::has_same(site, plugins, path));
    let beside = durable::entries(&plugins.folder)?;
    let is_of_us = |path: &&std::path::PathBuf| {
        **path != folder && (has_start(path, "incloud~disk") || has_start(path, ".incloud~disk"))
    };
    seen.extend(beside.iter().filter(is_of_us).cloned());
    for path in seen {
        let path = path.display();
        drift.push(format!("kubelet may take this for a driver or a change of one: {path}"));
    }
    let config = site.config();
    match durable::mode(&config).filter(|_| config.is_file()) {
        None => drift.push(format!("the configuration is gone: {}", config.display())),
        Some(mode) if mode & 0o077 != 0 => drift.push(format!(
            "others may read the configuration, which may hold credentials: {}",
            config.display()
        )),
        Some(_) => {}
    }
    if !site.log().is_dir() {
        drift.push(format!("the log folder is gone: {}", site.log().display()));
    }
    Ok(drift)
}

fn has_start(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
}

fn of_trigger(site: &Site, record: &record::InstallRecord) -> Vec<String> {
    let mut drift = Vec::new();
    for (name, place) in trigger::places(site) {
        let Some(wanted) = record.checksum_of(name) else { continue };
        let advice = " (what is to be changed belongs into a drop-in)";
        if place.is_file() {
            drift.extend(difference(&place, wanted, advice));
        } else {
            let shown = place.display();
            drift.push(format!("disks that come back are not noticed: {shown} is gone"));
        }
    }
    for (unit, link) in trigger::links(site) {
        if record.checksum_of(unit).is_some() && !link.is_symlink() {
            drift.push(format!("{unit} is not enabled: {} is gone", link.display()));
        }
    }
    drift
}
