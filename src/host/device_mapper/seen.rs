//! Maps of ours as sysfs shows them: no command is sent for that, and no module is loaded.

use crate::host::files;
use crate::model::error::{Error, Result};
use crate::model::shield::map_uuid::MapUuid;
use std::fs;
use std::path::Path;

/// A map of ours in sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::host) struct SeenMap {
    /// Which.
    pub(in crate::host) uuid: MapUuid,
    /// The kernel's name of it, such as `dm-0`.
    pub(in crate::host) kernel_name: String,
    /// The kernel's name of the disk that it is on, if that is there and held by it.
    pub(in crate::host) disk: Option<String>,
}

/// The map with this name below a tree such as `/sys`; nothing if there is none, or if it is not ours.
pub(in crate::host) fn map_called(sysfs: &Path, kernel_name: &str) -> Result<Option<SeenMap>> {
    if !kernel_name.starts_with("dm-") {
        return Ok(None);
    }
    let folder = sysfs.join("block").join(kernel_name);
    let text = files::read_if_there(&folder.join("dm/uuid"))?.unwrap_or_default();
    let Some(uuid) = MapUuid::parse(&text) else { return Ok(None) };
    let disks = files::names_in(&folder.join("slaves"));
    // The name of a disk that is gone stays; what it leads to does not.
    let is_held = |disk: &&String| {
        folder.join("slaves").join(disk).join("holders").join(kernel_name).exists()
    };
    let disk = match disks.as_slice() {
        [one] => Some(one).filter(is_held).cloned(),
        _ => None,
    };
    Ok(Some(SeenMap { uuid, kernel_name: kernel_name.to_owned(), disk }))
}

/// All maps of ours.
pub(in crate::host) fn maps(sysfs: &Path) -> Result<Vec<SeenMap>> {
    let block = sysfs.join("block");
    let failed = |error: &std::io::Error| Error::io(format!("read {}", block.display()), error);
    let mut names = Vec::new();
    let entries = match fs::read_dir(&block) {
        // A container may have no sysfs; then nothing is mounted from there either.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed(&error))?,
    };
    for entry in entries {
        names.extend(entry.map_err(|error| failed(&error))?.file_name().into_string());
    }
    names.retain(|name| name.starts_with("dm-"));
    names.sort();
    names.iter().filter_map(|name| map_called(sysfs, name).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
