//! Maps of ours as sysfs shows them: no command is sent for that, and no module is loaded.

use crate::files;
use crate::model::error::{Error, Result};
use crate::model::shield::map_uuid::MapUuid;
use std::path::Path;

/// A map of ours in sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenMap {
    pub(crate) uuid: MapUuid,
    /// The kernel's name of it, such as `dm-0`.
    pub(crate) kernel_name: String,
    /// The kernel's name of the disk that it is on, if that is there and held by it.
    pub(crate) disk: Option<String>,
}

/// The map with this name below a tree such as `/sys`; nothing if there is none, or if it is not ours.
pub(crate) fn map_called(sysfs: &Path, kernel_name: &str) -> Result<Option<SeenMap>> {
    if !kernel_name.starts_with("dm-") {
        return Ok(None);
    }
    let folder = sysfs.join("block").join(kernel_name);
    uuid_in(&folder)?.map(|uuid| map_in(&folder, kernel_name, uuid)).transpose()
}

fn map_in(folder: &Path, kernel_name: &str, uuid: MapUuid) -> Result<SeenMap> {
    // The name of a disk that is gone stays; what it leads to does not.
    let is_held = |disk: &String| {
        let holders = folder.join("slaves").join(disk).join("holders");
        Ok(listed(&holders)?.iter().any(|holder| holder == kernel_name))
    };
    let disk = match listed(&folder.join("slaves"))?.as_slice() {
        [one] if is_held(one)? => Some(one.clone()),
        _ => None,
    };
    Ok(SeenMap { uuid, kernel_name: kernel_name.to_owned(), disk })
}

/// All maps of ours.
pub(crate) fn maps(sysfs: &Path) -> Result<Vec<SeenMap>> {
    names(sysfs)?.iter().filter_map(|name| map_called(sysfs, name).transpose()).collect()
}

/// The map with this UUID. Of the others no more is read than that: a node has as many as it has volumes.
pub(crate) fn map_with(sysfs: &Path, uuid: &MapUuid) -> Result<Option<SeenMap>> {
    for name in names(sysfs)? {
        let folder = sysfs.join("block").join(&name);
        if let Some(found) = uuid_in(&folder)?.filter(|found| found == uuid) {
            return map_in(&folder, &name, found).map(Some);
        }
    }
    Ok(None)
}

/// The kernel's names of all maps, also of those that other programs made.
fn names(sysfs: &Path) -> Result<Vec<String>> {
    // A container may have no sysfs; then nothing is mounted from there either.
    let mut names = listed(&sysfs.join("block"))?;
    names.retain(|name| name.starts_with("dm-"));
    names.sort();
    Ok(names)
}

/// The UUID of ours in a map's folder.
fn uuid_in(folder: &Path) -> Result<Option<MapUuid>> {
    let text = files::read_if_there(&folder.join("dm/uuid"))?.unwrap_or_default();
    Ok(MapUuid::parse(&text))
}

/// What is not seen is taken for absent: so what could not be read is an error.
fn listed(folder: &Path) -> Result<Vec<String>> {
    files::all_names_in(folder)
        .map_err(|errno| Error::io(format!("read {}", folder.display()), &errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_map_is_ours_by_its_uuid_and_on_the_disk_that_it_holds() {
        let root = tempfile::tempdir().unwrap();
        let block = root.path().join("block");
        let map = |name: &str, uuid: &str, disk: Option<&str>| {
            let folder = block.join(name);
            fs::create_dir_all(folder.join("dm")).unwrap();
            fs::create_dir_all(folder.join("slaves")).unwrap();
            fs::write(folder.join("dm/uuid"), format!("{uuid}\n")).unwrap();
            if let Some(disk) = disk {
                let link = folder.join("slaves").join(disk);
                std::os::unix::fs::symlink(block.join(disk), link).unwrap();
            }
        };
        map("dm-0", "incloud_disk-v-1", Some("vdb"));
        map("dm-1", "LVM-v-1", Some("vdc"));
        map("dm-10", "incloud_disk-v-2", Some("vdd"));
        map("dm-2", "", None);
        fs::create_dir_all(block.join("vdb/holders/dm-0")).unwrap();
        // Its name went to a disk that the map does not hold.
        fs::create_dir_all(block.join("vdd/holders")).unwrap();
        let found = maps(root.path()).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|map| (map.kernel_name.as_str(), map.uuid.volume().as_str(), map.disk.as_deref()))
            .collect();
        assert_eq!(found, [("dm-0", "v-1", Some("vdb")), ("dm-10", "v-2", None)]);
        assert_eq!(map_called(root.path(), "vdb").unwrap(), None);
        assert_eq!(map_called(root.path(), "dm-7").unwrap(), None);
        assert_eq!(maps(Path::new("/nowhere")).unwrap(), []);
    }

    /// A map without a disk may be dead, and what is dead is replaced.
    #[test]
    fn what_cannot_be_read_is_no_map_without_a_disk() {
        let root = tempfile::tempdir().unwrap();
        let block = root.path().join("block");
        for name in ["dm-0", "dm-1"] {
            fs::create_dir_all(block.join(name).join("dm")).unwrap();
            fs::write(block.join(name).join("dm/uuid"), "incloud_disk-v-1\n").unwrap();
        }
        // No process can walk such a link.
        let unreadable = |path: &Path| std::os::unix::fs::symlink(path, path).unwrap();
        unreadable(&block.join("dm-0/slaves"));
        fs::create_dir_all(block.join("dm-1/slaves/vdb")).unwrap();
        unreadable(&block.join("dm-1/slaves/vdb/holders"));
        for name in ["dm-0", "dm-1"] {
            let told = map_called(root.path(), name);
            assert!(told.is_err(), "{name}: {told:?}");
        }
        assert!(maps(root.path()).is_err());
    }

    #[test]
    fn a_map_is_found_beside_others_that_cannot_be_read() {
        let root = tempfile::tempdir().unwrap();
        let block = root.path().join("block");
        for (name, uuid) in
            [("dm-0", "incloud_disk-v-1"), ("dm-1", "LVM-v-2"), ("dm-2", "incloud_disk-v-2")]
        {
            fs::create_dir_all(block.join(name).join("dm")).unwrap();
            fs::create_dir_all(block.join(name).join("slaves")).unwrap();
            fs::write(block.join(name).join("dm/uuid"), format!("{uuid}\n")).unwrap();
        }
        let slaves = block.join("dm-0/slaves");
        fs::remove_dir(&slaves).unwrap();
        std::os::unix::fs::symlink(&slaves, &slaves).unwrap();
        let called = |volume: &str| {
            let uuid = MapUuid::parse(&format!("incloud_disk-{volume}")).unwrap();
            map_with(root.path(), &uuid).map(|found| found.map(|map| map.kernel_name))
        };
        assert_eq!(called("v-2").unwrap().as_deref(), Some("dm-2"));
        assert_eq!(called("v-3").unwrap(), None);
        assert!(called("v-1").is_err(), "its own must be read");
    }
}
