//! What is done for those who still hold the dead disk once their mounts were healed.

use crate::checks::eventually;
use crate::holders::with_descriptors;
use crate::scene::{Scene, Setting, scene};
use crate::support::Node;
use crate::support::pods::{Container, Naming, Order};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A pod with a container that holds a file, and one that holds none; then the disk is pulled and
/// comes back.
fn heal(setting: Setting) -> (Scene, Container) {
    let mut scene = setting.idle().start();
    let Scene { node, volume, pod, container: holder } = &mut scene;
    holder.must(&Order::Open { path: "/data/kept".into() });
    let idle = pod.container_with(&volume.pod(pod.uid()));
    node.verb(&["local", "yank", &volume.id]).unwrap();
    node.must(volume.attach());
    (scene, idle)
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn who_holds_the_dead_disk_is_signalled_and_no_other() {
    needs!(pods);
    for (after, dies) in [("", false), ("signal:TERM", true)] {
        let setting = scene().configured(&format!("[heal]\nafter = {after:?}"));
        let (Scene { node, volume, pod, container: mut holder }, idle) = heal(setting);
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
        volume.ends_with(&pod, idle);
    }
}

#[test]
fn what_holds_files_after_a_heal_by_attach_is_ended_by_hand() {
    needs!(pods);
    let (Scene { node, volume, pod, container: mut holder }, idle) = heal(scene());
    let heal = |words: &[&str]| {
        let words = [&["heal"], words, &[volume.pv.as_str()]].concat();
        let output = node.command(words).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let (status, text) = heal(&[]);
    assert_eq!(status, Some(4), "{text}");
    let command = format!("$ disk heal --end-holders {} --dry-run", volume.id);
    assert!(text.contains(&command), "{text}");
    let (status, text) = heal(&["--end-holders", "--dry-run"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("would end {} ", holder.pid())), "{text}");
    assert!(text.contains("To do it: disk heal --end-holders") && lives(holder.pid()), "{text}");
    let (status, text) = heal(&["--end-holders"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("ended {} ", holder.pid())), "{text}");
    assert_eq!((lives(holder.pid()), lives(idle.pid())), (false, true), "{text}");
    assert!(node.log().contains("signalled, as a person asked"), "{}", node.log());
    holder.die_without_a_funeral();
    volume.ends_with(&pod, idle);
}

/// Each has a descriptor here while it is signalled.
#[test]
fn more_holders_than_we_may_have_descriptors_are_signalled() {
    needs!(pods);
    let setting = scene().configured("[heal]\nafter = \"signal:TERM\"").idle();
    let Scene { node, volume, pod, container: mut holder } = setting.start();
    holder.must(&Order::Open { path: "/data/kept".into() });
    holder.must(&Order::Fork { count: 400 });
    node.verb(&["local", "yank", &volume.id]).unwrap();
    let attach = node.command(volume.attach());
    let output = with_descriptors(&attach, 256).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    eventually("the holder ends", || !lives(holder.pid()));
    holder.die_without_a_funeral();
    let idle = pod.container_with(&volume.pod(pod.uid()));
    volume.ends_with(&pod, idle);
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
        let setting = scene().on(&node).named(Naming::Cgroupfs);
        let (Scene { volume, pod, container: holder, .. }, idle) = heal(setting);
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
        volume.ends_with(&pod, idle);
    }
}
