//! The machine: tools, udev and systemd, the kernel, and what can be seen from here.

use super::for_root::is_for_root;
use crate::driver::Context;
use crate::host::machine;
use crate::model::error::Error;
use crate::model::mount::disk_users::Answer;
use crate::model::mount::replacement::{Method, Propagation};
use crate::model::report::finding::{Finding, Level};
use crate::node::kubelet::Kubelet;
use crate::node::system::{self, System};
use std::path::Path;

pub(super) fn look(system: &System, kubelet: Option<&Kubelet>) -> Vec<Finding> {
    let units = units(system);
    // Only a kubelet that needs the timer is asked for its version.
    let version = kubelet.filter(|_| units.level == Level::Warning);
    let version = version.and_then(|kubelet| system.version_of(kubelet));
    vec![build(system), tools(), udev(system), needed_by(version, units)]
}

/// Since Kubernetes 1.26 only the timer ends what kubelet has forgotten.
fn needed_by(kubelet: Option<(u32, u32)>, units: Finding) -> Finding {
    match (kubelet, units.fix) {
        (Some(version @ (major, minor)), Some(fix)) if version >= (1, 26) => Finding::error(
            units.check,
            format!(
                "{}; kubelet {major}.{minor} does not take down every volume of a pod that ended while kubelet was restarted, and without the timer such a volume stays",
                units.found
            ),
            fix,
        ),
        (_, fix) => Finding { fix, ..units },
    }
}

pub(super) fn by_driver(cx: &Context<'_>) -> Vec<Finding> {
    vec![kernel(cx), sight(cx)]
}

/// What is run, and the package that has it: without the first ones no volume can be made or checked.
const NEEDED: [(&str, &str); 3] =
    [("mkfs.ext4", "e2fsprogs"), ("e2fsck", "e2fsprogs"), ("blkid", "util-linux")];
/// Those of file systems that a volume must ask for.
const OTHERS: [(&str, &str); 2] = [("mkfs.xfs", "xfsprogs"), ("mkfs.btrfs", "btrfs-progs")];

fn tools() -> Finding {
    const CHECK: &str = "tools";
    let missing = |tools: &'static [(&str, &str)]| -> (Vec<&str>, Vec<&str>) {
        tools.iter().filter(|(tool, _)| !system::has_program(tool)).copied().unzip()
    };
    let (needed, mut packages) = missing(&NEEDED);
    packages.dedup();
    if !needed.is_empty() {
        let found = format!(
            "not installed: {}; without them no disk can be formatted or mended here",
            needed.join(", ")
        );
        return Finding::warning(CHECK, found, format!("install {}", packages.join(" ")));
    }
    let (others, _) = missing(&OTHERS);
    if others.is_empty() {
        return Finding::ok(CHECK, "all that format and check are installed");
    }
    let found = format!(
        "those for ext4 are installed; only who needs that file system misses {}",
        others.join(", ")
    );
    Finding::ok(CHECK, found)
}

const RULES: [&str; 4] =
    ["/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"];
const UNITS: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

pub(super) const UDEV: &str = "udev";

/// Which of the two builds this is, and whether the controller-manager can start it.
fn build(system: &System) -> Finding {
    const CHECK: &str = "build";
    if cfg!(not(feature = "udev")) {
        return Finding::ok(
            CHECK,
            "static, without libudev: for containers, and machines that have no libudev",
        );
    }
    if system.has("/etc/kubernetes/manifests/kube-controller-manager.yaml") {
        return Finding::error(
            CHECK,
            "with libudev, which the container of this machine's controller-manager does not have: it cannot start this driver",
            "sudo ./install.sh upgrade installs the static driver here",
        );
    }
    Finding::ok(CHECK, "with libudev: a new disk is left to udevd before it is opened exclusively")
}

fn udev(system: &System) -> Finding {
    const CHECK: &str = UDEV;
    if !system.has("/run/udev/control") {
        return Finding::warning(
            CHECK,
            "udevd does not run: disks are found all the same, by the kernel's events, but none is healed at the moment it comes back",
            "start it, or run disk heal --watch as a service",
        );
    }
    match system.file_in(&RULES, |name| has_ending(name, "rules"), "incloud-disk") {
        Some(rule) => Finding::ok(CHECK, format!("runs; our rule is {}", rule.display())),
        None => Finding::warning(
            CHECK,
            "runs, but our rule is not installed: a disk that comes back is healed by kubelet's next call only",
            "sudo ./install.sh install puts it there",
        ),
    }
}

fn units(system: &System) -> Finding {
    const CHECK: &str = "systemd";
    if !system.has("/run/systemd/system") {
        return Finding::ok(
            CHECK,
            "this machine has none; disk heal --watch does what its units would",
        );
    }
    let find = |ending: &'static str| {
        system.file_in(
            &UNITS,
            |name| name.starts_with("incloud-disk") && has_ending(name, ending),
            "",
        )
    };
    match (find("service"), find("timer")) {
        (Some(service), Some(timer)) => {
            let name = timer.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let wants = format!("/etc/systemd/system/timers.target.wants/{name}");
            let trouble = if system.path(&wants).symlink_metadata().is_err() {
                "is not enabled"
            } else if system.has_active_unit(&name) == Some(false) {
                "is enabled, and does not run"
            } else {
                return Finding::ok(CHECK, format!("{}, {}", service.display(), timer.display()));
            };
            Finding::warning(
                CHECK,
                format!("{} {trouble}: nothing heals what the rule missed", timer.display()),
                format!("systemctl enable --now {name}"),
            )
        }
        _ => Finding::warning(
            CHECK,
            "our units are not installed: a disk that comes back is healed by kubelet's next call only",
            "sudo ./install.sh install puts them there",
        ),
    }
}

fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == ending)
}

fn kernel(cx: &Context<'_>) -> Finding {
    const CHECK: &str = "kernel";
    let release = system::kernel_release();
    let remounts = cx.host.remounts;
    let method = remounts.method();
    match method {
        Method::Stack if let Some(why) = remounts.obstacle() => {
            let found = format!("whether Linux {release} can replace mounts needs a try: {why}");
            if machine::is_root() {
                let fix = "run the driver with CAP_SYS_ADMIN: without it no volume can be mounted";
                return Finding::error(CHECK, found, fix);
            }
            Finding::skipped(CHECK, found)
        }
        Method::Beneath | Method::Tuck | Method::TuckRemounted | Method::TuckByMount => {
            Finding::ok(
                CHECK,
                format!(
                    "Linux {release}; mounts in running containers are replaced by the method {method}"
                ),
            )
        }
        Method::Stack => Finding::warning(
            CHECK,
            format!(
                "Linux {release} cannot put a mount beneath another: new ones are stacked on the dead ones, or containers must be restarted"
            ),
            "a kernel from 4.11 on replaces them cleanly",
        ),
    }
}

pub(super) fn sight(cx: &Context<'_>) -> Finding {
    const CHECK: &str = "sight";
    match cx.host.census.sight() {
        // The files and mounts of other users' processes are hidden, even where the processes are not.
        _ if !machine::is_root() => {
            Finding::skipped(CHECK, "what processes of other users hold only root can see")
        }
        Answer::Told(()) => Finding::ok(CHECK, "every process of this machine can be seen"),
        Answer::CannotTell(why) => Finding::error(
            CHECK,
            format!("who uses a volume cannot be told from here, so unmount is refused: {why}"),
            "run the driver in the machine's own PID namespace, with a /proc that hides nothing",
        ),
    }
}

/// `root` is kubelet's.
pub(super) fn propagation(cx: &Context<'_>, root: &Path) -> Finding {
    const CHECK: &str = "propagation";
    let table = match cx.host.mounts.table() {
        Ok(table) => table,
        Err(error) => return Finding::error(CHECK, error.cause, "is /proc mounted?"),
    };
    let real = std::fs::canonicalize(root);
    if let Err(error) = &real
        && is_for_root(&Error::io(root.display(), error))
    {
        return Finding::skipped(CHECK, format!("only root may enter {}", root.display()));
    }
    let leads_to = real.ok().and_then(|real| cx.host.mounts.leads_to(&real).ok()?);
    let Some(mount) = table.mounts().iter().find(|mount| Some(mount.id) == leads_to) else {
        return Finding::warning(
            CHECK,
            format!(
                "what {} is on cannot be told: it is not there, or not in the mount table (a chroot?)",
                root.display()
            ),
            "run it in the machine's own root",
        );
    };
    if Propagation::of(mount).is_shared {
        return Finding::ok(
            CHECK,
            format!("{} is on {}, which is shared", root.display(), mount.target.display()),
        );
    }
    Finding::warning(
        CHECK,
        format!(
            "{} is on {}, which is not shared: pods that ask for mount propagation get none, and copies of mounts stay behind",
            root.display(),
            mount.target.display()
        ),
        format!("mount --make-rshared {}", mount.target.display()),
    )
}
