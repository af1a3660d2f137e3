//! The driver of another maker that this one took the place of: kept with all files of its folder, in its
//! own place, until a person says that it may go.

use super::console::NodeResult;
use super::site::{Plugins, Site};
use super::{durable, maker, trial};
use crate::host::files;
use crate::model::error::{Error, Result};
use crate::model::timestamp;
use crate::ports::clock;
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

/// The list of its files: two of the same are one.
fn list_in(kept: &Path) -> PathBuf {
    kept.join("files")
}

/// Whether one is kept.
#[must_use]
pub fn is_kept(site: &Site) -> bool {
    durable::is_there(&folder_in(&site.predecessor()).join("disk"))
}

/// The program, to be read.
#[must_use]
pub fn program(site: &Site) -> PathBuf {
    let behind = behind_link(&site.predecessor());
    if behind.is_file() { behind } else { folder_in(&site.predecessor()).join("disk") }
}

/// The link that the driver was, if it still leads to the same program.
#[must_use]
pub fn link(site: &Site, plugins: &Plugins) -> Option<PathBuf> {
    let link = fs::read_link(folder_in(&site.predecessor()).join("disk")).ok()?;
    let mut program = durable::open(&program(site)).ok()?;
    let target = plugins.driver_folder().join(&link);
    durable::is_same(&mut program, &target).unwrap_or(false).then_some(link)
}

/// What it is, for people.
#[must_use]
pub fn told(site: &Site) -> String {
    let kept = site.predecessor();
    let taken = files::read_if_there(&kept.join("taken")).ok().flatten().unwrap_or_default();
    let taken = taken.trim();
    let since = if taken.is_empty() { String::new() } else { format!(", taken at {taken}") };
    format!("the predecessor (another maker's driver{since}), kept in {}", kept.display())
}

/// Keeps what is in the plugin folder now. One that is kept already stays beside it under a number.
pub fn keep(site: &Site, plugins: &Plugins) -> NodeResult {
    let new = site.state().join("predecessor.new");
    let gather = || -> Result<()> {
        durable::remove_all(&new)?;
        durable::make_folder(&new, 0o700)?;
        let mut list = String::new();
        let folder = plugins.driver_folder();
        copy_folder(site, &folder, &folder_in(&new), Path::new(""), &mut list)?;
        if plugins.driver().is_symlink() {
            durable::copy(&plugins.driver(), &behind_link(&new))?;
        }
        list += &format!("program {}\n", durable::checksum(&plugins.driver())?);
        write(&list_in(&new), &list)?;
        write(&new.join("taken"), &(timestamp::text(clock::now()) + "\n"))
    };
    if let Err(error) = gather() {
        // A full disk is not kept full.
        let _ = durable::remove_all(&new);
        return Err(error.into());
    }
    site.step("copied");
    Ok(put_in_place(site, &new)?)
}

fn write(path: &Path, text: &str) -> Result<()> {
    durable::replace(path, text.as_bytes(), 0o600)
}

fn put_in_place(site: &Site, new: &Path) -> Result<()> {
    let kept = site.predecessor();
    if durable::is_there(&kept) {
        let list = |of: &Path| files::read_if_there(&list_in(of));
        if is_kept(site) && list(&kept)? == list(new)? {
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

/// Files, folders and links; anything else is named, and not kept.
fn copy_folder(
    site: &Site,
    from: &Path,
    to: &Path,
    inside: &Path,
    list: &mut String,
) -> Result<()> {
    let mode = durable::mode(from).unwrap_or(0o755);
    durable::make_folder(to, mode)?;
    for path in durable::entries(from)? {
        let Some(name) = path.file_name() else { continue };
        let (inside, to) = (inside.join(name), to.join(name));
        if OURS.iter().any(|ours| inside == Path::new(ours)) {
            continue;
        }
        let wrong = |error| Error::io(format!("look at {}", path.display()), &error);
        let found = fs::symlink_metadata(&path).map_err(wrong)?;
        let shown = inside.display();
        if found.is_symlink() {
            let link = fs::read_link(&path).map_err(wrong)?;
            std::os::unix::fs::symlink(&link, &to).map_err(wrong)?;
            *list += &format!("{shown} -> {}\n", link.display());
        } else if found.is_dir() {
            *list += &format!("{shown}/\n");
            copy_folder(site, &path, &to, &inside, list)?;
        } else if found.is_file() {
            durable::copy(&path, &to)?;
            let mode = durable::mode(&to).unwrap_or_default();
            *list += &format!("{shown} {mode:o} {}\n", durable::checksum(&to)?);
        } else {
            site.console.warn(&format!("not kept, it is no file: {}", path.display()));
        }
    }
    durable::flush(to)
}

/// An installation of before kept it among our own drivers.
pub fn move_from_ours(site: &Site) -> NodeResult {
    let old = site.previous();
    if is_kept(site) || !old.is_file() || trial::is_ours(&old) || !maker::answers(&old) {
        return Ok(());
    }
    let new = site.state().join("predecessor.new");
    durable::remove_all(&new)?;
    durable::make_folder(&folder_in(&new), 0o700)?;
    durable::copy(&old, &folder_in(&new).join("disk"))?;
    write(&list_in(&new), &format!("program {}\n", durable::checksum(&old)?))?;
    put_in_place(site, &new)?;
    files::remove_if_there(&old)?;
    Ok(())
}

/// Its files beside the driver, put into a folder of the driver's: those that are missing or changed.
pub fn put_files(site: &Site, folder: &Path) -> Result<()> {
    put_folder(&folder_in(&site.predecessor()), folder, true)
}

fn put_folder(from: &Path, to: &Path, is_top: bool) -> Result<()> {
    if !is_top {
        durable::make_folder(to, durable::mode(from).unwrap_or(0o755))?;
    }
    for path in durable::entries(from)? {
        let Some(name) = path.file_name() else { continue };
        let to = to.join(name);
        // A controller-manager's configuration that is there is a person's by now.
        let is_own = is_top && (name == "disk" || name == ".config.toml" && durable::is_there(&to));
        if is_own || is_same(&path, &to) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            put_folder(&path, &to, false)?;
            continue;
        }
        // A hidden name: kubelet sees it when it is whole.
        let beside = to.with_file_name(format!(".{}.new", name.to_string_lossy()));
        durable::remove_all(&beside)?;
        match fs::read_link(&path) {
            Ok(link) => std::os::unix::fs::symlink(link, &beside)
                .map_err(|error| Error::io(format!("link {}", beside.display()), &error))?,
            Err(_) => durable::copy(&path, &beside)?,
        }
        durable::rename(&beside, &to)?;
    }
    Ok(())
}

fn is_same(kept: &Path, there: &Path) -> bool {
    match (fs::read_link(kept), fs::read_link(there)) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), Err(_)) if kept.is_file() && there.is_file() => {
            durable::mode(kept) == durable::mode(there)
                && durable::open(kept)
                    .and_then(|mut file| durable::is_same(&mut file, there))
                    .unwrap_or(false)
        }
        _ => false,
    }
}

/// Whether a path in the driver's folder is a file of it that is kept as it stands there: it does no
/// harm, and may go.
#[must_use]
pub fn has_same(site: &Site, plugins: &Plugins, path: &Path) -> bool {
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
