//! The driver of another maker that this one took the place of: kept with all files of its folder, in its
//! own place, until a person says that it may go.

use super::console::NodeResult;
use super::durable;
use super::site::{Plugins, Site};
use crate::host::files;
use crate::model::error::{Error, Result};
use crate::model::timestamp;
use crate::ports::clock;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Our own hidden names, which are no part of it.
const OURS: [&str; 2] = [".disk", ".leaving"];

fn folder_in(kept: &Path) -> PathBuf {
    kept.join("incloud~disk")
}

/// What was behind the driver, where that was a link: what it led to may go with the old package.
fn behind_link(kept: &Path) -> PathBuf {
    kept.join("behind-link")
}

/// Whether one is kept.
pub(super) fn is_kept(site: &Site) -> bool {
    durable::is_there(&folder_in(&site.predecessor()).join("disk"))
}

/// The program, to be read.
pub(super) fn program(site: &Site) -> PathBuf {
    program_in(&site.predecessor())
}

fn program_in(kept: &Path) -> PathBuf {
    let behind = behind_link(kept);
    if behind.is_file() { behind } else { folder_in(kept).join("disk") }
}

/// The link that the driver was, if it still leads to the same program.
pub(super) fn link(site: &Site, plugins: &Plugins) -> Option<PathBuf> {
    let link = fs::read_link(folder_in(&site.predecessor()).join("disk")).ok()?;
    let program = durable::open(&program(site)).ok()?;
    let target = plugins.driver_folder().join(&link);
    durable::is_same(&program, &target).unwrap_or(false).then_some(link)
}

/// What it is, for people.
pub(super) fn told(site: &Site) -> String {
    let kept = site.predecessor();
    let taken = files::read_if_there(&kept.join("taken")).ok().flatten().unwrap_or_default();
    let taken = taken.trim();
    let since = if taken.is_empty() { String::new() } else { format!(", taken at {taken}") };
    format!("the predecessor (another maker's driver{since}), kept in {}", kept.display())
}

/// Keeps what is in the plugin folder now. One that is kept already stays beside it under a number.
pub(super) fn keep(site: &Site, plugins: &Plugins) -> NodeResult {
    let (new, driver) = (site.state().join("predecessor.new"), plugins.driver());
    let gather = || -> Result<()> {
        durable::remove_all(&new)?;
        durable::make_folder(&new, 0o700)?;
        copy_folder(site, &plugins.driver_folder(), &folder_in(&new), &|name| {
            OURS.iter().all(|ours| name != *ours)
        })?;
        if driver.is_symlink() {
            durable::copy(&driver, &behind_link(&new))?;
        }
        let now = timestamp::text(clock::now()) + "\n";
        durable::replace(&new.join("taken"), now.as_bytes(), 0o600)
    };
    if let Err(error) = gather() {
        // A full disk is not kept full.
        let _ = durable::remove_all(&new);
        return Err(error.into());
    }
    site.step("copied");
    Ok(put_in_place(site, &new)?)
}

fn put_in_place(site: &Site, new: &Path) -> Result<()> {
    let kept = site.predecessor();
    if durable::is_there(&kept) {
        let (one, other) = (folder_in(&kept), folder_in(new));
        if holds(&one, &other)
            && holds(&other, &one)
            && is_same(&program_in(&kept), &program_in(new))
        {
            return durable::remove_all(new);
        }
        let other = |number: &u32| site.state().join(format!("predecessor.{number}"));
        let free =
            (1..=u32::MAX).find(|number| !durable::is_there(&other(number))).unwrap_or_default();
        let other = other(&free);
        site.console.say(&format!("the one that was kept before stays in {}", other.display()));
        durable::rename(&kept, &other)?;
    }
    durable::rename(new, &kept)
}

/// Its files beside the driver, put into a folder of the driver's: those that are missing or changed.
pub(super) fn put_files(site: &Site, folder: &Path) -> Result<()> {
    copy_folder(site, &folder_in(&site.predecessor()), folder, &|name| {
        // A controller-manager's configuration that is there is a person's by now.
        name != "disk" && !(name == ".config.toml" && durable::is_there(&folder.join(name)))
    })
}

/// Copies what is wanted of a folder, and missing or different in the other: files, folders and links. Anything
/// else is named, and left out.
fn copy_folder(
    site: &Site,
    from: &Path,
    to: &Path,
    is_wanted: &dyn Fn(&OsStr) -> bool,
) -> Result<()> {
    durable::make_folder(to, durable::mode(from).unwrap_or(0o755))?;
    for path in durable::entries(from)? {
        let Some(name) = path.file_name().filter(|name| is_wanted(name)) else { continue };
        let to = to.join(name);
        let wrong = |error| Error::io(format!("look at {}", path.display()), &error);
        let found = fs::symlink_metadata(&path).map_err(wrong)?;
        if found.is_dir() {
            copy_folder(site, &path, &to, &|_| true)?;
            continue;
        }
        if is_same(&path, &to) {
            continue;
        }
        // A hidden name: kubelet sees it when it is whole.
        let beside = to.with_file_name(format!(".{}.new", name.to_string_lossy()));
        durable::remove_all(&beside)?;
        if found.is_symlink() {
            durable::link(&fs::read_link(&path).map_err(wrong)?, &beside)?;
        } else if found.is_file() {
            durable::copy(&path, &beside)?;
        } else {
            site.console.warn(&format!("not kept, it is no file: {}", path.display()));
            continue;
        }
        durable::rename(&beside, &to)?;
    }
    durable::flush(to)
}

/// Whether two links, or two files, are the same.
fn is_same(kept: &Path, there: &Path) -> bool {
    match (fs::read_link(kept), fs::read_link(there)) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), Err(_)) if kept.is_file() && there.is_file() => {
            durable::mode(kept) == durable::mode(there)
                && durable::open(kept)
                    .and_then(|file| durable::is_same(&file, there))
                    .unwrap_or(false)
        }
        _ => false,
    }
}

/// Whether a path in the driver's folder is a file of it that is kept as it stands there: it does no
/// harm, and may go.
pub(super) fn has_same(site: &Site, plugins: &Plugins, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(plugins.driver_folder()) else { return false };
    holds(&folder_in(&site.predecessor()).join(inside), path)
}

fn holds(kept: &Path, there: &Path) -> bool {
    if !there.is_symlink() && there.is_dir() {
        let all = durable::entries(there).unwrap_or_default();
        return kept.is_dir()
            && all
                .iter()
                .all(|path| path.file_name().is_some_and(|name| holds(&kept.join(name), path)));
    }
    is_same(kept, there)
}
