//! What is done for those who still hold the dead disk once their mounts were healed.

use crate::checks::eventually;
use crate::support::Node;
use crate::support::pods::{Container, Naming, Order, Pod};
use crate::volume::Volume;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A pod with a container that holds a file, and one that holds none; then the disk is pulled and
/// comes back.
fn heal(node: &Node, pod: &Pod) -> (Volume, Container, Container) {
    let volume = Volume::create(node, "ext4", "64M");
    volume.bring_to(pod.uid());
    crate::files::write_synced(&volume.pod(pod.uid()).join("kept"), b"x");
    let mut holder = pod.container_with(&volume.pod(pod.uid()));
    holder.must(&Order::Open { path: "/data/kept".into() });
    let idle = pod.container_with(&volume.pod(pod.uid()));
    node.verb(&["local", "yank", &volume.id]).unwrap();
    node.must(volume.attach());
    (volume, holder, idle)
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

fn end(node: &Node, volume: &Volume, pod: &Pod) {
    node.must(volume.unpublish(pod.uid()));
    volume.ends();
}

#[test]
fn who_holds_the_dead_disk_is_signalled_and_nobody_else() {
    needs!(pods);
    for (after, dies) in [("", false), ("signal:TERM", true)] {
        let node = Node::new();
        node.configure(&format!("[heal]\nafter = {after:?}"));
        let pod = Pod::new(Naming::Systemd);
        let (volume, mut holder, idle) = heal(&node, &pod);
        if dies {
            eventually("the holder ends", || !lives(holder.pid()));
            assert!(node.log().contains("signalled, as heal.after says"), "{}", node.log());
        }
        assert_eq!((lives(holder.pid()), lives(idle.pid())), (!dies, true), "{after}");
        if dies {
            holder.die_without_a_funeral();
        } else {
            holder.die();
        }
        idle.die();
        end(&node, &volume, &pod);
    }
}

#[test]
fn a_program_of_the_operator_is_told_the_facts() {
    needs!(pods);
    for (mode, is_run) in [(0o755, true), (0o775, false), (0o644, false)] {
        let node = Node::new();
        let (hook, facts) = (node.base().join("hook"), node.base().join("facts"));
        let script = format!("#!/bin/sh\nenv > {}\necho told\n", facts.display());
        crate::files::write(&hook, script).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(mode)).unwrap();
        node.configure(&format!("[heal]\nafter = {:?}", hook.display().to_string()));
        let pod = Pod::new(Naming::Cgroupfs);
        let (volume, holder, idle) = heal(&node, &pod);
        assert_eq!(facts.exists(), is_run, "{mode:o}: {}", node.log());
        if is_run {
            let told = fs::read_to_string(&facts).unwrap();
            for fact in [
                format!("INCLOUD_DISK_VOLUME={}\n", volume.id),
                format!("INCLOUD_DISK_NAME={}\n", volume.pv),
                format!("INCLOUD_DISK_DEVICE=/dev/{}\n", volume.letter()),
                format!("INCLOUD_DISK_HOLDERS={}\n", holder.pid()),
                "INCLOUD_DISK_HEALED=this machine\n".to_owned(),
            ] {
                assert!(told.contains(&fact), "{fact} is not in {told}");
            }
        } else {
            assert!(node.log().contains("heal.after failed"), "{mode:o}: {}", node.log());
        }
        holder.die();
        idle.die();
        end(&node, &volume, &pod);
    }
}
