//! Where the driver goes, or is: the folder in which kubelet looks for volume plugins.

use super::console::{NodeResult, Stop, lines};
use super::kubelet::{self, Kubelet, PluginDirSource, USUAL_PLUGIN_DIR, USUAL_ROOT};
use super::site::{Plugins, Site};
use super::{record, users};
use std::path::{Path, PathBuf};

const WHICH: &str = "Say which is meant: --plugin-dir DIR";

/// The folder that a driver is put into.
pub(super) fn to_install(site: &Site) -> NodeResult<Plugins> {
    let folder = match &site.options.plugin_dir {
        Some(folder) => folder.clone(),
        None => match asked(site)? {
            Some(folder) => {
                site.console
                    .say(&format!("kubelet runs with the plugin folder {}", folder.display()));
                site.at(&folder)
            }
            None => noted(site)?.unwrap_or_else(|| usual(site)),
        },
    };
    Ok(Plugins { folder })
}

/// The folder in which it is.
pub(super) fn in_use(site: &Site) -> NodeResult<Plugins> {
    match &site.options.plugin_dir {
        Some(folder) => Ok(Plugins { folder: folder.clone() }),
        None => match noted(site)? {
            Some(folder) => Ok(Plugins { folder }),
            None => to_install(site),
        },
    }
}

/// What to say of a driver that stays at another place.
pub(super) fn leftover(site: &Site, plugins: &Plugins) -> NodeResult<Option<String>> {
    let is_left = |was: &PathBuf| was.join("incloud~disk").exists();
    Ok(noted_elsewhere(site, plugins)?.filter(is_left).map(|was| {
        let was = was.display();
        format!(
            "an earlier driver stays in {was}; to remove it: ./install.sh uninstall --plugin-dir {was}"
        )
    }))
}

/// The folder that is noted, where that is another one and has its driver still.
pub(super) fn of_another_driver(site: &Site, plugins: &Plugins) -> NodeResult<Option<PathBuf>> {
    let has_driver = |was: &PathBuf| Plugins { folder: was.clone() }.has_driver();
    Ok(noted_elsewhere(site, plugins)?.filter(has_driver))
}

/// The folder that was installed into, as it is noted.
fn noted(site: &Site) -> NodeResult<Option<PathBuf>> {
    Ok(record::load(site)?.and_then(|record| record.plugin_folder(site)))
}

fn noted_elsewhere(site: &Site, plugins: &Plugins) -> NodeResult<Option<PathBuf>> {
    // One folder may have two names, by a link.
    let behind = |folder: &Path| std::fs::canonicalize(folder).unwrap_or(folder.to_path_buf());
    Ok(noted(site)?.filter(|was| behind(was) != behind(&plugins.folder)))
}

/// What the kubelets that run were told; nothing if they were told nothing.
fn asked(site: &Site) -> NodeResult<Option<PathBuf>> {
    let all = kubelet::running(&site.proc);
    if let Some((path, why)) = all.iter().find_map(Kubelet::doubt) {
        return Err(Stop::new(format!(
            "kubelet's configuration cannot be read: {}: {why}\n\
             Say where its plugin folder is: --plugin-dir DIR",
            path.display()
        )));
    }
    let Some(first) = all.first() else { return Ok(None) };
    if all.iter().any(|one| one.plugin_dir != first.plugin_dir) {
        let names: Vec<_> = all.iter().map(ToString::to_string).collect();
        return Err(Stop::new(format!(
            "several kubelets run here, with different plugin folders:{}\n{WHICH}",
            lines(&names)
        )));
    }
    let is_told = all.iter().any(|one| one.plugin_dir_from != PluginDirSource::Usual);
    Ok(is_told.then(|| first.plugin_dir.clone()))
}

fn usual(site: &Site) -> PathBuf {
    let folder = site.at(USUAL_PLUGIN_DIR);
    if !is_read_only(&site.proc, &folder) {
        return folder;
    }
    let root = site.options.kubelet_root.clone().or_else(|| {
        kubelet::ours(&kubelet::running(&site.proc), None).map(|kubelet| kubelet.root_dir.clone())
    });
    let other = root.unwrap_or_else(|| PathBuf::from(USUAL_ROOT)).join("volume-plugins");
    site.console.warn(&format!(
        "{USUAL_PLUGIN_DIR} is on a read-only file system, so this takes {};\n\
         kubelet looks there only if it is started with --volume-plugin-dir={}",
        site.at(&other).display(),
        other.display()
    ));
    site.at(&other)
}

/// Asked of the mount table: to root a read-only folder looks like a writable one, and to try would
/// leave something that kubelet sees.
fn is_read_only(proc: &Path, folder: &Path) -> bool {
    let Ok(table) = users::mounts(&proc.join("self")) else { return false };
    // Of those at one place the last one is on top.
    let above = table.mounts().iter().filter(|mount| folder.starts_with(&mount.target));
    let mount = above.max_by_key(|mount| mount.target.components().count());
    mount.is_some_and(|mount| mount.is_read_only() || mount.is_super_read_only())
}
