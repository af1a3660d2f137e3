//! What kubelets since 1.26 no longer call for, on the cloud's two servers.

use crate::support::kubelets::{Attaches, is_silent_for};
use crate::two_servers::{Life, PODS, nothing_is_left};

/// A pod moves, and the volume stays where it was.
#[test]
fn what_kubelet_left_attached_lets_a_pod_start_elsewhere_after_the_timer() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.node.has_kubelet(Attaches::KubeletByFlag);
    life.up(here, "ext4");
    // kubelet restarts: it asks for the disk alone.
    here.wait("");
    for uid in PODS {
        here.unpublish(uid);
    }
    here.unstage();
    assert_eq!(here.verb(&["heal"]), (true, String::new()));
    assert!(there.attach_fails().contains("Multi-Attach"));

    is_silent_for(&here.node, &life.volume, 300);
    let status = here.look(&["status"]);
    assert!(status.contains("ORPHANED") && status.contains("$ disk heal"), "{status}");
    let (is_done, said) = here.verb(&["heal"]);
    assert!(is_done && said.contains("detached: kubelet unmounted it"), "{said}");
    assert!(life.attached_to().is_empty());
    life.up(there, "ext4");
    life.down(there);
    nothing_is_left(&life);
}

/// Where the cloud does not answer nothing is done, nor where another server alone has it by now.
#[test]
fn what_the_cloud_does_not_have_here_is_left_alone() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.node.has_kubelet(Attaches::KubeletByFlag);
    here.mount_volume();
    here.unstage();
    // By the cloud's console.
    there.detach_from(&here.node);
    there.attach();
    is_silent_for(&here.node, &life.volume, 300);
    assert_eq!(here.verb(&["heal"]), (true, String::new()));
    assert_eq!(life.attached_to(), [there.server.as_str()]);
    there.detach();
}

/// The disk was taken from under running pods, and kubelet was restarted: it does not attach.
#[test]
fn a_lost_disk_is_attached_again_by_waitforattach() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.node.has_kubelet(Attaches::KubeletByFile);
    life.up(here, "ext4");
    let (is_done, said) = there.verb(&["detach", "--force", &life.volume, "node-a"]);
    assert!(is_done, "{said}");
    assert!(life.attached_to().is_empty());
    // Another server has it: it is not taken from there.
    there.attach();
    assert!(here.wait_fails().contains("is attached to"));
    assert_eq!(life.attached_to(), [there.server.as_str()]);
    there.detach();
    here.wait("");
    assert_eq!(life.attached_to(), [here.server.as_str()]);
    for uid in PODS {
        here.unpublish(uid);
    }
    here.unstage();
    here.detach();
    assert!(life.attached_to().is_empty());
}
