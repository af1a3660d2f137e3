//! The driver's own files: who may read what, and whether there is room.

use super::for_root::or_for_root;
use crate::configuration::CloudKind;
use crate::host::machine;
use crate::log;
use crate::model::error::Error;
use crate::model::report::finding::Finding;
use crate::model::text::several;
use crate::node::kubelet::Kubelet;
use crate::node::system::{self, Room};
use crate::operator::configured::Configured;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

pub(super) fn look(configured: &Configured, kubelet: Option<&Kubelet>) -> Vec<Finding> {
    let mut found = credentials(configured);
    found.push(log_folder(configured, kubelet));
    let paths = &configured.config.paths;
    let mut folders =
        vec![("state", &paths.state_dir), ("locks", &paths.run_dir), ("log", &paths.log_dir)];
    if configured.config.cloud.kind == Some(CloudKind::Local) {
        folders.push(("local cloud", &configured.config.local.dir));
    }
    found.extend(folders.into_iter().map(|(what, folder)| space(what, folder)));
    found.extend(configured.config.metrics.textfile.as_ref().map(|path| metrics(path)));
    found
}

/// Files that hold secrets, or say where they are.
pub(super) fn credentials(configured: &Configured) -> Vec<Finding> {
    const CHECK: &str = "credentials";
    let access = &configured.config.openstack;
    let has_secrets = configured.config.cloud.kind.is_some_and(CloudKind::has_secrets);
    let files = [&configured.origin, &access.cloud_conf, &access.clouds_file, &access.key_file];
    let files: Vec<&PathBuf> = files.into_iter().flatten().collect();
    let mut found = Vec::new();
    for path in &files {
        match system::rights(path) {
            Err(error) => {
                let fix = "the configuration names it: put it there";
                found.push(or_for_root(&error, Finding::error(CHECK, &*error.cause, fix)));
            }
            Ok((owner, mode)) => found.extend(rights(path, owner, mode, has_secrets)),
        }
    }
    if found.is_empty() && has_secrets {
        let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        found.push(Finding::ok(CHECK, format!("only their owner may read {}", names.join(", "))));
    }
    found
}

fn rights(path: &Path, owner: u32, mode: u32, has_secrets: bool) -> Option<Finding> {
    const CHECK: &str = "credentials";
    let name = path.display();
    let fix = format!("chown root {name} && chmod 0600 {name}");
    if mode & 0o022 != 0 || owner != 0 && owner != machine::user() {
        let who = if mode & 0o022 != 0 {
            "others may write".to_owned()
        } else {
            format!("it belongs to user {owner}")
        };
        return Some(Finding::error(
            CHECK,
            format!("{name}: {who}: who can change it decides what is attached and formatted"),
            fix,
        ));
    }
    (mode & 0o044 != 0 && has_secrets).then(|| {
        Finding::warning(CHECK, format!("{name}: others may read it (mode {mode:04o})"), fix)
    })
}

fn log_folder(configured: &Configured, kubelet: Option<&Kubelet>) -> Finding {
    const CHECK: &str = "log";
    let folder = &configured.config.paths.log_dir;
    if kubelet.is_some_and(|kubelet| folder.starts_with(&kubelet.plugin_dir)) {
        return Finding::error(
            CHECK,
            format!(
                "{} is below kubelet's plugin folder: each line makes kubelet probe the driver",
                folder.display()
            ),
            "set paths.log_dir to a folder elsewhere",
        );
    }
    match log::files(folder) {
        Ok(files) if files.is_empty() => {
            let older = match log::files_of_predecessor(folder).len() {
                0 => String::new(),
                count => {
                    format!(", but for {} of the driver before", several(count, "file", "files"))
                }
            };
            Finding::ok(CHECK, format!("{}: nothing is in it yet{older}", folder.display()))
        }
        Ok(files) => {
            let sizes = files.iter().filter_map(|file| file.path(folder).symlink_metadata().ok());
            let size: u64 = sizes.map(|found| found.len()).sum();
            Finding::ok(
                CHECK,
                format!(
                    "{}: {} in {} KiB",
                    folder.display(),
                    several(files.len(), "day", "days"),
                    size / 1024
                ),
            )
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Finding::ok(CHECK, format!("{} is made by the first call", folder.display()))
        }
        Err(error) => {
            let error = Error::io(format!("read {}", folder.display()), &error);
            let found = Finding::warning(CHECK, &*error.cause, "calls go on without a log");
            or_for_root(&error, found)
        }
    }
}

fn space(what: &str, folder: &Path) -> Finding {
    const CHECK: &str = "free space";
    let name = format!("{} ({what})", folder.display());
    match system::room_at(folder) {
        Ok(room) => room_finding(&name, room),
        Err(error) => {
            let found = format!("{name}: {}", error.cause);
            or_for_root(&error, Finding::warning(CHECK, found, "see the cause"))
        }
    }
}

fn room_finding(name: &str, room: Room) -> Finding {
    const CHECK: &str = "free space";
    let Room { free, all, has_inodes, is_read_only } = room;
    let amount = format!("{name}: {} MiB free", free / MIB);
    if is_read_only {
        return Finding::error(
            CHECK,
            format!("{name}: its file system is read-only"),
            "see the kernel's log; calls that mount need it",
        );
    }
    if free < MIB || !has_inodes {
        let what = if has_inodes { amount } else { format!("{name}: no inode is free") };
        return Finding::error(
            CHECK,
            format!("{what}: what is done cannot be remembered"),
            "make room",
        );
    }
    if free < 64 * MIB || free < all / 50 {
        return Finding::warning(CHECK, amount, "make room");
    }
    Finding::ok(CHECK, amount)
}

fn metrics(path: &Path) -> Finding {
    const CHECK: &str = "metrics";
    let folder = path.parent().unwrap_or(path);
    if !folder.is_dir() {
        return Finding::warning(
            CHECK,
            format!("there is no folder {}: nothing is written", folder.display()),
            "make it, and give it to node_exporter: --collector.textfile.directory",
        );
    }
    Finding::ok(
        CHECK,
        format!("{}{}", path.display(), if path.exists() { "" } else { ", with the next call" }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::finding::Level;

    #[test]
    fn rights_are_judged_by_what_is_in_the_file() {
        let of = |owner, mode, secrets| {
            rights(Path::new("/c"), owner, mode, secrets).map(|found| found.level)
        };
        assert_eq!(of(0, 0o600, true), None);
        assert_eq!(of(0, 0o644, false), None);
        assert_eq!(of(0, 0o644, true), Some(Level::Warning));
        assert_eq!(of(0, 0o620, false), Some(Level::Error));
        assert_eq!(of(4_294_967_294, 0o600, false), Some(Level::Error));
    }

    #[test]
    fn room_is_judged_by_amount_and_share() {
        let room = |free, all| Room { free, all, has_inodes: true, is_read_only: false };
        let of = |room| room_finding("x", room).level;
        assert_eq!(of(room(500 * MIB, 1000 * MIB)), Level::Ok);
        assert_eq!(of(room(500 * MIB, 100_000 * MIB)), Level::Warning);
        assert_eq!(of(room(20 * MIB, 30 * MIB)), Level::Warning);
        assert_eq!(of(room(1000, 30 * MIB)), Level::Error);
        assert_eq!(of(Room { has_inodes: false, ..room(500 * MIB, 1000 * MIB) }), Level::Error);
        assert_eq!(of(Room { is_read_only: true, ..room(500 * MIB, 1000 * MIB) }), Level::Error);
    }
}
