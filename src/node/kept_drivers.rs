//! The last three of our own drivers that were here before, the newest first.

use super::durable;
use super::site::{Plugins, Site};
use crate::model::error::Result;
use std::path::{Path, PathBuf};

/// How many are kept.
pub(super) const MOST: usize = 3;

/// Where the driver is that was here so many changes ago, from one on.
pub(super) fn place(site: &Site, number: usize) -> PathBuf {
    match number {
        0 | 1 => site.previous(),
        _ => site.previous_folder().join(format!("disk.{number}")),
    }
}

/// Those that are there, with their numbers.
pub(super) fn all(site: &Site) -> Vec<(usize, PathBuf)> {
    let places = (1..=MOST).map(|number| (number, place(site, number)));
    places.filter(|(_, place)| place.is_file()).collect()
}

/// What is in its place now is no former one: so each is kept once.
pub(super) fn forget_the_one_in_place(site: &Site, plugins: &Plugins) -> Result<()> {
    for (_, kept) in all(site) {
        if durable::is_same(&durable::open(&kept)?, &plugins.driver())? {
            durable::remove_all(&kept)?;
        }
    }
    Ok(())
}

/// Takes in the driver that has left. Killed at any step, it is called again, and goes on from there.
pub(super) fn take_in(site: &Site, plugins: &Plugins, left: &Path) -> Result<()> {
    forget_the_one_in_place(site, plugins)?;
    let free = (1..=MOST).find(|number| !place(site, *number).is_file()).unwrap_or(MOST);
    for number in (1..free).rev() {
        durable::rename(&place(site, number), &place(site, number + 1))?;
        site.step("moved");
    }
    durable::rename(left, &site.previous())
}
