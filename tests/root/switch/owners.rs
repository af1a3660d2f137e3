//! Containers with a user namespace of their own.

use super::methods;
use crate::support::disks::{Disks, switch, table_of, within};
use crate::support::{output_of, skip, start};
use incloud_disk::host::kernel::{MountChange, change_mount};
use incloud_disk::model::mount::replacement::{Method, ReplacementOutcome, Switched};
use nix::mount::{MsFlags, mount};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};

/// A process with its own user and mount namespace.
struct Mapped(Child);

impl Mapped {
    fn start() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--propagation", "private"]);
        let this = Self(start(command.args(["sleep", "1000"])));
        crate::checks::eventually("it has its namespaces", || {
            let comm = fs::read_to_string(format!("/proc/{}/comm", this.pid()));
            comm.is_ok_and(|comm| comm.trim() == "sleep")
        });
        this
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn mounts_with_mapped_owners_stay_mapped_and_locked_ones_are_covered() {
    let test = "mounts_with_mapped_owners_stay_mapped_and_locked_ones_are_covered";
    needs!(containers);
    let probe = output_of(Command::new("unshare").args(["--user", "--map-root-user", "true"]));
    if !probe.status.success() {
        skip(test, "needs user namespaces");
        return;
    }
    for method in methods() {
        let disks = Disks::with("ext4", |root| fs::write(root.join("f"), "x").unwrap());
        let container = Mapped::start();
        let pid = container.pid();
        let place = |name: &str| disks.base().join(name);
        let (area, beside) = (place("area"), place("beside"));
        for folder in [&area, &beside] {
            fs::create_dir_all(folder).unwrap();
        }
        let (own, mapped) = (area.join("own"), area.join("mapped"));
        let (own, mapped) = (own.as_path(), mapped.as_path());
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(rustix::fs::CWD, &disks.old.place, flags).unwrap();
        let owners = File::open(format!("/proc/{pid}/ns/user")).unwrap();
        let change =
            MountChange { set: 0x10_0000, owners: Some(&owners), ..MountChange::default() };
        change_mount(&tree, change).unwrap();
        let source = disks.old.place.as_path();
        within(pid, || {
            let none = None::<&str>;
            // A place that is all its own, as a container's root is.
            mount(Some("tmpfs"), &area, Some("tmpfs"), MsFlags::empty(), none).unwrap();
            fs::create_dir(own).unwrap();
            fs::create_dir(mapped).unwrap();
            let from_empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&tree, "", rustix::fs::CWD, mapped, from_empty).unwrap();
            mount(Some(source), &beside, none, MsFlags::MS_BIND, none).unwrap();
            mount(Some(source), own, none, MsFlags::MS_BIND, none).unwrap();
        });
        disks.old.die();
        let again = || switch(pid, method, &disks.old, &disks.new);
        let answers = again();
        assert_eq!(answers.len(), 4, "{answers:?}");
        for answer in &answers {
            let place: &Path = &answer.mount.target;
            // What came with the namespace is locked, and of what it stands on there is no copy;
            // its own mounts are not. Older calls map no owners, and mount(2) sends nothing to a
            // namespace of other users: then nothing is changed.
            let is_stuck = place == source || (place == beside && method != Method::Beneath);
            let is_left = method == Method::TuckByMount
                || (place == mapped && method == Method::TuckRemounted);
            let table = table_of(pid);
            let top = table.top_at(place).unwrap();
            if is_left {
                assert!(
                    matches!(answer.outcome, ReplacementOutcome::Skipped(_)),
                    "{method}: {answer:?}"
                );
                assert_eq!(top.number, disks.old.number);
                continue;
            }
            let expected =
                if is_stuck { ReplacementOutcome::Stacked } else { ReplacementOutcome::Switched };
            assert_eq!(answer.outcome, expected, "{method}: {answer:?}");
            assert_eq!(top.number, disks.new.number);
            assert_eq!(top.options.contains("idmapped"), place == mapped, "{}", top.options);
        }
        // Nothing is put on it a second time.
        let stacked = |answers: &[Switched]| {
            answers.iter().filter(|answer| answer.outcome == ReplacementOutcome::Stacked).count()
        };
        let answers = again();
        let (stuck, layers) = match method {
            Method::Beneath => (1, 2),
            Method::TuckByMount => (0, 1),
            _ => (2, 2),
        };
        assert_eq!(stacked(&answers), stuck, "{method}: {answers:?}");
        assert_eq!(table_of(pid).at(source).count(), layers, "{method}");
    }
}
