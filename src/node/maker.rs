//! Whose the driver is that kubelet calls now: that decides what may take its place, and where it is kept.

use super::console::NodeResult;
use super::site::{Plugins, Site};
use super::{durable, record, trial};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriverMaker {
    /// Nothing is there.
    None,
    /// A version of this driver.
    Ours,
    /// This driver was installed there, and what is there now answers no more: anything is better.
    Damaged,
    /// Another maker's, which may work.
    Foreign,
}

/// Whose the driver in the plugin folder is.
pub(super) fn of(site: &Site, plugins: &Plugins) -> NodeResult<DriverMaker> {
    let driver = plugins.driver();
    if !durable::is_there(&driver) {
        return Ok(DriverMaker::None);
    }
    let note = record::load(site)?.unwrap_or_default();
    let is_noted = note.plugin_folder(site).as_ref() == Some(&plugins.folder) && !note.is_foreign();
    let is_same = || durable::checksum(&driver).is_ok_and(|sum| sum == note.get("sha256"));
    if is_noted && is_same() || trial::is_ours(&driver) {
        return Ok(DriverMaker::Ours);
    }
    // A script was put there by a person; it may not answer today, and is no broken copy of this.
    if is_noted && !trial::is_script(&driver) && trial::must_be_driver(site, &driver, true).is_err()
    {
        return Ok(DriverMaker::Damaged);
    }
    Ok(DriverMaker::Foreign)
}
