//! Links in by-id, read to report those that lead elsewhere and never followed to a disk.

use super::sysfs::Sysfs;
use crate::model::disk::device::{Identity, Link, Shown};
use std::fs;
use std::path::{Path, PathBuf};

/// The existing links among these.
pub(super) fn all(sysfs: &Sysfs, wanted: &Identity, links: &[PathBuf]) -> Vec<Link> {
    let is_there = |link: &&PathBuf| fs::symlink_metadata(link).is_ok();
    let link = |link: &PathBuf| Link {
        link: link.clone(),
        target: fs::read_link(link).ok(),
        fault: what_is_wrong(sysfs, wanted, link),
    };
    links.iter().filter(is_there).map(link).collect()
}

fn what_is_wrong(sysfs: &Sysfs, wanted: &Identity, link: &Path) -> Option<String> {
    let target = match fs::metadata(link) {
        Ok(target) => target,
        Err(error) => return Some(format!("it leads nowhere: {error}")),
    };
    let Some(number) = crate::device_nodes::number_of(&target) else {
        return Some("it leads to something that is no block device".to_owned());
    };
    let folder = match sysfs.numbered(number) {
        Ok(Some(folder)) => folder,
        Ok(None) => return Some(format!("it leads to {number}, which the kernel does not have")),
        // Nothing is known to be wrong.
        Err(_) => return None,
    };
    let name = folder.kernel_name();
    if folder.has("partition") {
        return Some(format!("it leads to the partition {name}"));
    }
    let Ok(shown) = folder.shown() else { return None };
    if wanted.proven_by(&shown).is_some() {
        return None;
    }
    let shown = match shown.first() {
        Some(shown) => Shown::to_string(shown),
        None => "no serial".to_owned(),
    };
    Some(format!("it leads to {name}, which shows {shown} and not {wanted}"))
}
