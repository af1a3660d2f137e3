//! Maps of the driver's own: which volumes have one, and what of this machine is in their way.

use super::for_root::not_looked_at;
use crate::driver::Context;
use crate::model::policy::ShieldMode;
use crate::model::report::finding::Finding;
use crate::model::text::several;
use crate::node::system::{self, System};

/// Volumes that are mounted through maps, told where there are any.
pub(super) fn maps(cx: &Context<'_>, system: &System) -> Option<Finding> {
    const CHECK: &str = "maps";
    let volumes = match cx.host.shield.volumes() {
        Ok(volumes) if volumes.is_empty() => return None,
        Ok(volumes) => volumes,
        Err(error) => return Some(not_looked_at(CHECK, error)),
    };
    let names: Vec<_> = volumes.iter().map(ToString::to_string).collect();
    let does_panic = system.panics_at_hung_tasks();
    let panics = if does_panic {
        "; and this kernel panics when a process waits for long (kernel.hung_task_panic)"
    } else {
        ""
    };
    let found = format!(
        "{} mounted through a map of device mapper: while its disk is away what uses it waits{panics}: {}",
        several(names.len(), "volume is", "volumes are"),
        names.join(", ")
    );
    if cx.policy.shield.mode == ShieldMode::On && !does_panic {
        return Some(Finding::ok(CHECK, found));
    }
    Some(Finding::warning(
        CHECK,
        found,
        "nothing while their disks are there: the map goes when the pods have ended. What waits is \
         ended by shield.patience, and by disk release",
    ))
}

const CHECK: &str = "shield";

/// Whether the kernel makes such maps, and what would be in their way, where the configuration asks for them.
pub(super) fn shield(cx: &Context<'_>, system: &System) -> Vec<Finding> {
    if cx.policy.shield.mode == ShieldMode::Off {
        return Vec::new();
    }
    let modules = format!("/lib/modules/{}", system::kernel_release());
    let lists = ["modules.dep", "modules.builtin"];
    let has_module = system.has("/sys/module/dm_multipath")
        || lists.iter().any(|list| system.tells(&format!("{modules}/{list}"), "dm-multipath.ko"));
    if !has_module {
        return vec![Finding::warning(
            CHECK,
            "this kernel has no dm-multipath: volumes are mounted without a shield",
            "install the package with all modules of this kernel, and try: modprobe dm-multipath",
        )];
    }
    let in_the_way: Vec<_> =
        [multipathd(system), lvm(system), panics(system)].into_iter().flatten().collect();
    if in_the_way.is_empty() {
        return vec![Finding::ok(
            CHECK,
            "new mounts of ext4 and xfs wait while their disk is away",
        )];
    }
    in_the_way
}

fn multipathd(system: &System) -> Option<Finding> {
    let value = system.last_setting(
        "find_multipaths",
        "/etc/multipath.conf",
        Some("/etc/multipath/conf.d"),
    );
    let value = value.filter(|value| matches!(value.as_str(), "no" | "off" | "greedy"))?;
    Some(Finding::warning(
        CHECK,
        format!(
            "multipathd takes each disk, so the driver's own map may find it in use (find_multipaths {value})"
        ),
        "find_multipaths strict in /etc/multipath.conf, or no multipathd",
    ))
}

/// LVM reads each disk of the machine in its search for its own, but those that it is told to leave alone.
fn lvm(system: &System) -> Option<Finding> {
    const FILE: &str = "/etc/lvm/lvm.conf";
    const DEVICES: &str = "/etc/lvm/devices/system.devices";
    let has_devices_file = system.has(DEVICES)
        && system.last_setting("use_devicesfile", FILE, None).is_none_or(|value| value != "0");
    let takes_few = |filter: &str| {
        let told = system.last_setting(filter, FILE, None);
        told.is_some_and(|told| ["r|.*|", "r/.*/"].iter().any(|all| told.contains(all)))
    };
    if !system.has(FILE) || has_devices_file || takes_few("global_filter") || takes_few("filter") {
        return None;
    }
    Some(Finding::warning(
        CHECK,
        "LVM looks for its own on each disk: while one is away pvs, vgs and lvs wait with what uses it",
        format!(
            "name the disks of LVM, in {DEVICES} (lvmdevices) or in {FILE}: global_filter = [ \"a|^/dev/sda3$|\", \"r|.*|\" ]"
        ),
    ))
}

fn panics(system: &System) -> Option<Finding> {
    system.panics_at_hung_tasks().then(|| {
        Finding::warning(
            CHECK,
            "this kernel panics when a process waits for long, and what uses a volume waits while its disk is away (kernel.hung_task_panic)",
            "sysctl kernel.hung_task_panic=0, or no shield on this machine",
        )
    })
}
