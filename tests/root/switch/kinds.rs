//! One container with every kind of mount: all is as it was but the disk.

use super::methods;
use crate::support::disks::{Disks, switch, table_of, within};
use crate::support::pods::Plan;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::mount::mountinfo::MountTable;
use incloud_disk::model::mount::replacement::ReplacementOutcome;
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

pub fn bind(from: &str, to: &str, flags: MsFlags) {
    let none = None::<&str>;
    if Path::new(from).is_dir() {
        fs::create_dir_all(to).unwrap();
    } else {
        File::create(to).unwrap();
    }
    mount(Some(from), to, none, MsFlags::MS_BIND, none).unwrap();
    if !flags.is_empty() {
        mount(none, to, none, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags, none).unwrap();
    }
}

pub fn propagate(place: &str, how: MsFlags) {
    mount(None::<&str>, place, None::<&str>, how, None::<&str>).unwrap();
}

pub fn tmpfs(place: &str) {
    mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
}

/// The table comes to have the lines that it had, as [`essence`] tells them. It has them at once, but for whom they
/// follow: what stands in a heal's scratch namespace goes with the last who has that open, and a census beside it
/// may just read its table.
#[track_caller]
pub fn must_become_the_same(before: &[String], now: impl Fn() -> Vec<String>, what: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    let plain = |lines: &[String]| -> Vec<String> {
        let mut lines: Vec<_> = lines.iter().map(|line| without_propagation(line)).collect();
        lines.sort();
        lines
    };
    loop {
        let after = now();
        assert_eq!(plain(before), plain(&after), "{what}");
        let lost: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
        let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
        let (found, wanted) = ((lost, new, after.len()), (vec![], vec![], before.len()));
        if found == wanted {
            return;
        }
        assert!(
            Instant::now() < end,
            "{what}: lost, new and all lines: {found:?}; before {wanted:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn without_propagation(line: &str) -> String {
    let (begin, rest) = line.split_once(" [").expect("a line of `essence`");
    let (_, end) = rest.split_once("] ").expect("a line of `essence`");
    format!("{begin} {end}")
}

/// The table in an order of its own, without what may differ: ids, and which of the disks it is.
/// Peer groups keep their numbers where no disk is.
pub fn essence(table: &MountTable, disks: &[DeviceNumber]) -> Vec<String> {
    let is_disk = |number| disks.contains(&number);
    let mut lines: Vec<String> = table
        .mounts()
        .iter()
        .map(|mount| {
            let parent = table.mounts().iter().find(|other| other.id == mount.parent);
            let on = parent.map_or(Path::new("-"), |parent| &parent.target);
            let is_nested = parent.is_some_and(|parent| is_disk(parent.number));
            let propagation: String = if is_disk(mount.number) || is_nested {
                mount.propagation.chars().filter(|c| !c.is_ascii_digit()).collect()
            } else {
                mount.propagation.clone()
            };
            let what = if is_disk(mount.number) {
                "the disk".to_owned()
            } else {
                format!("{} {} {}", mount.number, mount.source, mount.super_options)
            };
            format!(
                "{} on {} {} {} [{propagation}] {} {what}",
                mount.target.display(),
                on.display(),
                mount.root.display(),
                mount.options,
                mount.fs_type,
            )
        })
        .collect();
    lines.sort();
    lines
}

fn fill(root: &Path) {
    for folder in ["sub dir/inner", "nested/deep", "again"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("file"), "kept").unwrap();
}

/// A container whose root is a slave of a mount of this namespace, as a runtime's is.
#[test]
fn every_kind_of_mount_is_as_it_was() {
    needs!(containers);
    for method in methods() {
        let disks = Disks::with("ext4", fill);
        let area = disks.base().join("area");
        fs::create_dir(&area).unwrap();
        let area = area.to_str().unwrap();
        tmpfs(area);
        propagate(area, MsFlags::MS_SHARED);
        let container = Plan::outside().copying_all_mounts().following_our_mounts().start();
        let old = disks.old.place.to_str().unwrap().to_owned();
        within(container.pid(), || {
            let at = |name: &str| format!("{area}/{name}");
            // All of the old disk from here on, but the new one's own place.
            bind(&old, &at("data"), MsFlags::empty());
            bind(&format!("{old}/sub dir"), &at("sub"), MsFlags::MS_NODEV | MsFlags::MS_NOATIME);
            let strict = MsFlags::MS_RDONLY
                | MsFlags::MS_NOSUID
                | MsFlags::MS_NOEXEC
                | MsFlags::MS_NODIRATIME
                | MsFlags::MS_STRICTATIME;
            bind(&old, &at("ro"), strict);
            bind(&format!("{old}/file"), &at("one-file"), MsFlags::MS_RDONLY);
            // Nested: a tmpfs, a folder of the disk itself in that, and a shared one.
            tmpfs(&at("data/nested"));
            fs::write(at("data/nested/here"), "").unwrap();
            fs::create_dir(at("data/nested/back")).unwrap();
            bind(&format!("{old}/again"), &at("data/nested/back"), MsFlags::MS_NOEXEC);
            tmpfs(&at("sub/inner"));
            propagate(&at("sub/inner"), MsFlags::MS_SHARED);
            // A parent that is shared, a volume that is.
            fs::create_dir(at("shared")).unwrap();
            tmpfs(&at("shared"));
            propagate(&at("shared"), MsFlags::MS_SHARED);
            bind(&old, &at("shared/data"), MsFlags::empty());
            bind(&old, &at("shared/private"), MsFlags::empty());
            propagate(&at("shared/private"), MsFlags::MS_PRIVATE);
        });
        disks.old.die();
        let pid = container.pid();
        let before = table_of(pid);
        let stale = disks.old.among(&before).len();
        assert!(stale >= 8, "{stale}");
        let parent = before.top_at(Path::new(area)).unwrap();
        assert!(parent.propagation.starts_with("master:"), "a slave: {}", parent.propagation);
        let answers = switch(pid, method, &disks.old, &disks.new);
        assert_eq!(answers.len(), stale);
        for answer in &answers {
            assert_eq!(answer.outcome, ReplacementOutcome::Switched, "{method}: {answer:?}");
            assert_eq!(answer.notes, Vec::<String>::new(), "{answer:?}");
        }
        let after = table_of(pid);
        assert_eq!(disks.old.among(&after), [], "{method}");
        let both = [disks.old.number, disks.new.number];
        let now = || essence(&table_of(pid), &both);
        must_become_the_same(&essence(&before, &both), now, &method.to_string());
        assert_eq!(fs::read(container.sees(&format!("{area}/one-file"))).unwrap(), b"kept");
        assert!(container.sees(&format!("{area}/data/nested/here")).exists());
        drop(container);
        nix::mount::umount2(area, nix::mount::MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn what_cannot_be_switched_stays_and_is_said() {
    needs!(containers);
    for method in methods() {
        let disks = Disks::with("ext4", fill);
        let container = Plan::outside().seeing(&disks.old.place, "/data").start();
        within(container.pid(), || {
            bind("/data/again", "/gone", MsFlags::empty());
            bind("/data/sub dir", "/link", MsFlags::empty());
            tmpfs("/data/nested/deep");
            bind("/data", "/covered", MsFlags::empty());
            tmpfs("/covered");
        });
        // Removed before, put elsewhere and lost since.
        fs::remove_dir(disks.old.place.join("again")).unwrap();
        fs::rename(disks.new.place.join("sub dir"), disks.new.place.join("was")).unwrap();
        std::os::unix::fs::symlink("/", disks.new.place.join("sub dir")).unwrap();
        fs::remove_dir(disks.new.place.join("nested/deep")).unwrap();
        disks.old.die();
        let answers = switch(container.pid(), method, &disks.old, &disks.new);
        assert_eq!(answers.len(), 4, "{answers:?}");
        for answer in answers {
            let words = match &answer.outcome {
                ReplacementOutcome::Skipped(why) => why.clone(),
                other => format!("{other:?} {:?}", answer.notes),
            };
            let expected = match answer.mount.target.to_str().unwrap() {
                "/gone" => "no longer exists",
                "/link" => "too many levels of symbolic links",
                "/covered" => "leads to mount",
                _ => "Switched [\"what was mounted at /data/nested/deep did not come along: ",
            };
            assert!(words.contains(expected), "{method} {:?}: {words}", answer.mount.target);
        }
        assert_eq!(disks.old.among(&table_of(container.pid())).len(), 3);
    }
}
