//! Takes the driver away: not while kubelet needs it, and nothing that is another's.

use super::console::{NodeResult, Stop, lines};
use super::maker::{self, DriverMaker};
use super::site::{Plugins, Site};
use super::{durable, pages, plugin_folder, predecessor, record, switch, trigger, users};
use crate::host::files;
use std::fs;
use std::path::Path;

/// The whole word.
pub(super) fn run(site: &Site) -> NodeResult {
    let plugins = plugin_folder::in_use(site)?;
    if let Some(other) = plugin_folder::of_another_driver(site, &plugins)? {
        return remove_beside(site, &plugins, &other);
    }
    let _change = switch::begin(site, &plugins)?;
    let folder = plugins.driver_folder();
    if maker::of(site, &plugins)? == DriverMaker::Foreign {
        site.console
            .say(&format!("{} stays: it is another maker's driver", plugins.driver().display()));
    } else if folder.is_dir() {
        remove_ours(site, &plugins)?;
    } else {
        site.console.say(&format!("there is no {}", folder.display()));
    }
    // Not before it is known that the driver goes: what stays must still be called when a disk comes back.
    trigger::remove(site)?;
    pages::remove(site)?;
    if site.announces("forgetting what was installed") {
        files::remove_if_there(&record::path(site))?;
        durable::remove_all(&site.previous_folder())?;
    }
    if site.options.purge {
        return purge(site);
    }
    if predecessor::is_kept(site) {
        site.console.say(&format!(
            "kept: {}; to put it back: disk node rollback --to predecessor; --purge removes it",
            predecessor::told(site)
        ));
    }
    site.console.say(&format!(
        "kept: {}, {} and {} (--purge removes the first two)",
        site.config_folder().display(),
        site.state().display(),
        site.log().display()
    ));
    Ok(())
}

/// Of a driver in another folder than the one that is noted: the trigger, the notes and the
/// configuration are the other one's.
fn remove_beside(site: &Site, plugins: &Plugins, other: &Path) -> NodeResult {
    let (folder, other) = (plugins.driver_folder(), other.display());
    if site.options.purge {
        return Err(Stop::new(format!(
            "refused, nothing was removed: the configuration is of the driver in {other}; without \
             --purge only {} is removed",
            folder.display()
        )));
    }
    if !folder.is_dir() {
        return Err(Stop::new(format!(
            "there is no {}; what is installed is in {other}",
            folder.display()
        )));
    }
    let _change = switch::begin_beside(site, plugins)?;
    if maker::of(site, plugins)? == DriverMaker::Foreign {
        return Err(Stop::new(format!(
            "refused, nothing was removed: {} is another maker's driver",
            plugins.driver().display()
        )));
    }
    remove_ours(site, plugins)?;
    site.console.say(&format!("kept: all that is of the driver in {other}"));
    Ok(())
}

fn remove_ours(site: &Site, plugins: &Plugins) -> NodeResult {
    refuse_what_is_not_ours(site, plugins)?;
    refuse_while_in_use(site, plugins)?;
    if site.announces(&format!("removing {}", plugins.driver_folder().display())) {
        remove_driver(site, plugins)?;
    }
    Ok(())
}

/// What would keep the folder, found before anything is removed: to kubelet a folder without a driver
/// is a broken one.
fn refuse_what_is_not_ours(site: &Site, plugins: &Plugins) -> NodeResult {
    let folder = plugins.driver_folder();
    if folder.is_symlink() {
        return Err(Stop::new(format!(
            "refused, nothing was removed: {} is a link, which is not ours and would stay, without a driver \
             behind it; remove the link, and uninstall again",
            folder.display()
        )));
    }
    let ours = ["disk", ".disk", ".leaving", ".config.toml"];
    let mut others = durable::entries(&folder)?;
    others.retain(|path| ours.iter().all(|name| path.file_name() != Some(name.as_ref())));
    others.retain(|path| !predecessor::has_same(site, plugins, path));
    if others.is_empty() {
        return Ok(());
    }
    let others: Vec<_> = others.iter().map(|path| path.display().to_string()).collect();
    let why =
        "refused, nothing was removed: what is not ours is in the driver's folder; move it away:";
    Err(Stop::with_lines(why, &others))
}

fn refuse_while_in_use(site: &Site, plugins: &Plugins) -> NodeResult {
    let found = users::find(site, plugins)?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Stop::new(format!(
        "refused, nothing was removed: without the driver kubelet cannot unmount these:{}\n\
         Move the pods that use them to another node first (kubectl drain).",
        lines(&found)
    )))
}

/// The executable goes first: that is what kubelet takes for the end of a driver. What came in between
/// the look and this is seen by a second look, and then the driver comes back.
fn remove_driver(site: &Site, plugins: &Plugins) -> NodeResult {
    let (folder, driver) = (plugins.driver_folder(), plugins.driver());
    let leaving = folder.join(".leaving");
    if plugins.has_driver() {
        durable::second_name(&driver, &leaving)?;
        files::remove_if_there(&driver)?;
        site.step("removed");
        let comes_back = |why: Stop| match durable::rename(&leaving, &driver) {
            Ok(()) => why,
            Err(error) => Stop::new(format!("{}\nand it is not back: {error}", why.text)),
        };
        let found = users::find(site, plugins).map_err(&comes_back)?;
        if !found.is_empty() {
            let why = "refused, the driver is back: these came in between:";
            return Err(comes_back(Stop::with_lines(why, &found)));
        }
    }
    // A folder without a driver is a broken driver to kubelet, so the hidden file goes with it.
    let hidden = folder.join(".config.toml");
    if hidden.is_file() {
        durable::second_name(&hidden, &site.kept_hidden_config())?;
        files::remove_if_there(&hidden)?;
    }
    files::remove_if_there(&leaving)?;
    for path in durable::entries(&folder)? {
        if predecessor::has_same(site, plugins, &path) {
            durable::remove_all(&path)?;
        }
    }
    fs::remove_dir(&folder).map_err(|error| {
        let folder = folder.display();
        Stop::new(if error.kind() == std::io::ErrorKind::DirectoryNotEmpty {
            format!(
                "{folder} is not empty; what is in there is not ours, and kubelet takes it for a \
                 driver: move it away, and uninstall again"
            )
        } else {
            format!("remove {folder}: {error}")
        })
    })?;
    durable::flush(&plugins.folder)?;
    Ok(())
}

fn purge(site: &Site) -> NodeResult {
    let config = site.config_folder();
    if site.announces(&format!("removing {}", config.display())) {
        durable::remove_all(&config)?;
    }
    let state = site.state();
    for path in durable::entries(&state)? {
        // The local cloud's volumes are data, and no state of ours.
        if path == state.join("local") {
            site.console.say(&format!("kept: {}, the volumes of the local cloud", path.display()));
        } else if site.announces(&format!("removing {}", path.display())) {
            durable::remove_all(&path)?;
        }
    }
    if !site.options.dry_run {
        // Not while the local cloud's volumes are in it.
        let _ = fs::remove_dir(&state);
    }
    site.console.say(&format!("kept: {}", site.log().display()));
    Ok(())
}
