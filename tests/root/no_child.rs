//! A clean file system is mounted with no child process at all.

use crate::checks::layers_at;
use crate::support::{DISK, output_of};
use crate::volume::{Volume, make_folder};
use std::fs;
use std::process::Command;

#[test]
fn a_clean_disk_is_mounted_without_a_child() {
    needs!(mounts, strace);
    for (kind, size) in [("ext4", "64M"), ("xfs", "320M"), ("btrfs", "256M")] {
        let (node, volume) = Volume::on_a_node(kind, size);
        volume.bring();
        volume.take_away();
        node.must(volume.attach());
        make_folder(&volume.global());
        let trace = node.base().join("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=process", "-o"]).arg(&trace).arg(DISK);
        command.args(volume.stage()).env("INCLOUD_DISK_CONFIG", node.config_path());
        let output = output_of(&mut command);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(layers_at(&volume.global()), 1);
        let trace = fs::read_to_string(trace).unwrap();
        let starts = |line: &&str| {
            ["fork(", "vfork(", "execve("].iter().any(|call| line.contains(call))
                // Of one that another process's line came between, the first part has the flags.
                || (line.contains("clone") && !line.contains("CLONE_THREAD") && !line.contains("resumed>"))
        };
        let started: Vec<_> = trace.lines().filter(starts).collect();
        let forks = started.iter().filter(|line| !line.contains("execve(")).count();
        assert_eq!(
            (started.len(), forks),
            (2, 1),
            "strace's own start of the driver, and its worker: {started:?}"
        );
        volume.take_away();
    }
}
