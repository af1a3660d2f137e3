//! What the tests look at and prepare by hand: the local cloud's records, trees of files, copies
//! of the executable, and whether the machine can do what a test needs.

use crate::support::{DISK, Node, is_root_here, leave_the_machines_volumes, skip};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The variable that names the configuration.
pub const VARIABLE: &str = "INCLOUD_DISK_CONFIG";

fn record_path(node: &Node, id: &str) -> PathBuf {
    node.base().join("cloud/volumes").join(format!("{id}.json"))
}

/// The cloud's record of a volume.
#[track_caller]
pub fn record(node: &Node, id: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(record_path(node, id)).unwrap()).unwrap()
}

/// Changes one key of the cloud's record behind the driver's back, as another program could.
#[track_caller]
pub fn set(node: &Node, id: &str, key: &str, value: Value) {
    let mut record = record(node, id);
    record[key] = value;
    fs::write(record_path(node, id), record.to_string()).unwrap();
}

/// The nodes to which the cloud says the volume is attached.
#[track_caller]
pub fn servers(node: &Node, id: &str) -> Vec<String> {
    record(node, id)["attachments"].as_object().unwrap().keys().cloned().collect()
}

/// Every path below a folder, with what it is: the length of a file, the target of a link.
pub fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.insert(path.clone(), "folder".to_owned());
            found.append(&mut tree(&path));
        } else if kind.is_symlink() {
            found.insert(path.clone(), format!("-> {}", fs::read_link(&path).unwrap().display()));
        } else {
            found.insert(path.clone(), format!("{} bytes", entry.metadata().unwrap().len()));
        }
    }
    found
}

/// The executable at another place, with nothing beside it.
///
/// Copied by another process: while this one holds it open for writing, a child of another
/// test's thread could hold it too, and it could not be executed.
pub fn copy_of_disk(node: &Node) -> PathBuf {
    let folder = node.own().join("plugins/incloud~disk");
    fs::create_dir_all(&folder).unwrap();
    let copy = folder.join("disk");
    assert!(Command::new("cp").arg(DISK).arg(&copy).status().unwrap().success());
    copy
}

/// Waits for something that must come about; it fails only where it never does.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Gives this thread, and the children it starts, empty folders in place of these, which no other
/// process sees. Says whether the test can run.
pub fn own_mounts(test: &str, folders: &[&str]) -> bool {
    if !is_root_here(test) {
        return false;
    }
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWNS) {
        skip(test, &format!("needs a mount namespace of its own: {errno}"));
        return false;
    }
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    if let Err(errno) = mount(None::<&str>, "/", None::<&str>, private, None::<&str>) {
        // In a plain chroot these mounts could reach the machine.
        skip(test, &format!("needs a root that is a mount point: {errno}"));
        return false;
    }
    leave_the_machines_volumes();
    for folder in folders {
        mount(Some("tmpfs"), *folder, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    }
    true
}
