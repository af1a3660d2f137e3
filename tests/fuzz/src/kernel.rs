//! What the kernel says, with names in it that a pod or its user chose.

use crate::text_of;
use incloud_disk::host::devices;
use incloud_disk::model::cgroup::Owner;
use incloud_disk::model::mount::mountinfo::MountTable;
use incloud_disk::model::mount::replacement::{Propagation, group_of};
use incloud_disk::model::report::kernel_line;

pub fn mountinfo(bytes: &[u8]) {
    let Ok(table) = MountTable::parse(bytes) else { return };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert_eq!(table.mounts().len(), lines, "a mount for each line");
    for mount in table.mounts() {
        let _ = (Propagation::of(mount), group_of(&mount.propagation, "shared:"));
        assert!(table.at(&mount.target).any(|one| one == mount));
        if let Some(top) = table.covering(&mount.target) {
            assert!(mount.target.starts_with(&top.target), "what covers a path stands above it");
        }
        let all = table.standing_on(mount);
        assert!(all.len() <= table.mounts().len());
    }
}

pub fn cgroup(bytes: &[u8]) {
    let Some((rule, rest)) = bytes.split_first() else { return };
    let text = text_of(rest);
    let believed = Owner::of(text, |step| step.path.len() % 8 != usize::from(*rule));
    let never = Owner::of(text, |_| false);
    assert!(never.pod.is_none(), "a pod by names that are not believed: {never:?}");
    if let Some(pod) = believed.pod {
        assert!(pod.as_str().chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '-'));
    }
}

pub fn log(bytes: &[u8]) {
    let Some(line) = kernel_line::parse(text_of(bytes)) else { return };
    let _ = line.tells_of("vdb");
    assert!(!line.text.contains('\n'));
}

pub fn uevent(bytes: &[u8]) {
    let is_block = bytes.split(|byte| *byte == 0).any(|part| part == b"SUBSYSTEM=block");
    assert_eq!(devices::garbage::event(bytes), is_block);
}

pub fn sysfs(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    devices::garbage::attribute(*kind, rest);
}
