//! What people type with, outside of the driver's own folder: the command, its completions and manual
//! pages; and the list of what was put there.

use super::console::NodeResult;
use super::durable;
use super::site::{Plugins, Site};
use super::trial;
use crate::host::files;
use crate::model::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Completions: where a shell looks for them, and its name.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash-completion/completions/disk", "bash"),
    ("zsh/site-functions/_disk", "zsh"),
    ("fish/vendor_completions.d/disk.fish", "fish"),
];

fn share(site: &Site) -> PathBuf {
    site.at("/usr/local/share")
}

/// What was put there: a first line for the version, then a path each.
fn list(site: &Site) -> PathBuf {
    site.state().join("pages")
}

fn new_list(site: &Site) -> PathBuf {
    site.state().join("pages.new")
}

/// The driver writes them itself, so that they are its own; one that cannot (the predecessor, after a
/// rollback) has none. Whatever fails here, the driver is installed.
pub(super) fn put(site: &Site, plugins: &Plugins) {
    if !site.announces(&format!(
        "the command, its completions and manual pages below {}",
        site.at("/usr/local").display()
    )) {
        return;
    }
    if let Err(error) = write(site, plugins) {
        site.console.warn(&format!("not all of them: {error}"));
    }
}

fn write(site: &Site, plugins: &Plugins) -> Result<()> {
    let driver = plugins.driver();
    let version = trial::version(&driver);
    let heading = format!("# {version}");
    let manual = share(site).join("man/man8");
    let there = files::read_if_there(&list(site))?.unwrap_or_default();
    // Of the same version they are the same.
    if there.lines().next() == Some(&heading) && manual.join("disk.8").exists() {
        return Ok(());
    }
    remove_listed(site)?;
    let number = version.strip_prefix("disk ").unwrap_or_default();
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(());
    }
    let mut text = format!("{heading}\n");
    // As it comes: what is there and not in the list would stay.
    let mut list_one = |page: &Path| {
        text += &format!("{}\n", site.inside(page).display());
        fs::write(new_list(site), &text)
            .map_err(|error| Error::io(format!("write {}", new_list(site).display()), &error))
    };
    let command = site.at("/usr/local/sbin/disk");
    if put_command(site, &driver, &command)? {
        list_one(&command)?;
    } else {
        site.console
            .warn(&format!("there is no command disk: {} is another program's", command.display()));
    }
    for (place, shell) in COMPLETIONS {
        let page = share(site).join(place);
        if put_page(site, &driver, &page, shell)? {
            list_one(&page)?;
        }
    }
    durable::make_folder(&manual, 0o755)?;
    let folder = manual.to_string_lossy();
    let answer = trial::ask(&driver, &["man", "--out", &folder]);
    for name in answer.iter().flat_map(|answer| answer.text.split_whitespace()) {
        let page = manual.join(name);
        if page.is_file() && Path::new(name).components().count() == 1 {
            list_one(&page)?;
        }
    }
    durable::replace(&list(site), text.as_bytes(), 0o644)?;
    files::remove_if_there(&new_list(site))
}

/// The command, by a link; not where another program has that name.
fn put_command(site: &Site, driver: &Path, command: &Path) -> Result<bool> {
    let target = site.inside(driver);
    if fs::read_link(command).is_ok_and(|there| there == target) {
        return Ok(true);
    }
    if durable::is_there(command) {
        return Ok(false);
    }
    durable::link(&target, command)?;
    Ok(true)
}

fn put_page(site: &Site, driver: &Path, page: &Path, shell: &str) -> Result<bool> {
    if durable::is_there(page) {
        site.console.warn(&format!("left as it is: {}", page.display()));
        return Ok(false);
    }
    let Ok(answer) = trial::ask(driver, &["completions", shell]) else { return Ok(false) };
    // One that does not know the word answers it as a call, in JSON.
    if answer.status != Some(0) || answer.text.starts_with('{') {
        return Ok(false);
    }
    durable::replace(page, answer.text.as_bytes(), 0o644)?;
    Ok(true)
}

/// Takes them away.
pub(super) fn remove(site: &Site) -> NodeResult {
    if site.announces("removing the command, its completions and manual pages") {
        remove_listed(site)?;
    }
    Ok(())
}

fn remove_listed(site: &Site) -> Result<()> {
    for list in [list(site), new_list(site)] {
        let Some(text) = files::read_if_there(&list)? else { continue };
        for page in text.lines().skip(1).filter(|page| !page.is_empty()) {
            // Older lists have the whole path of an image's folder in them.
            files::remove_if_there(&site.at(site.inside(Path::new(page))))?;
        }
        files::remove_if_there(&list)?;
    }
    Ok(())
}
