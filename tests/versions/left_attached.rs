//! What kubelet left attached, on a node that goes back to the previous version and forth again.

use crate::previous::Version::{Current, Previous};
use crate::previous::driven_by;
use crate::support::Node;
use crate::support::kubelets::{Attaches, is_silent_for};
use crate::volume::{Volume, make_folder};

/// The previous version keeps the key, and says by its own writes that it knows nothing: what it did since counts.
#[test]
fn what_the_previous_version_wrote_meanwhile_is_never_taken_for_silence() {
    needs!(mounts, seams, previous);
    let node = Node::new();
    let (current, previous) = (driven_by(&node, [Current]), driven_by(&node, [Previous]));
    let volume = Volume::create(&node, "ext4", "64M");
    current.has_kubelet(Attaches::KubeletByFlag);
    for call in [volume.attach(), volume.wait("")] {
        current.must(call);
    }
    make_folder(&volume.global());
    make_folder(&node.kubelet_root().join("pods"));
    current.must(volume.stage());
    current.must(volume.unstage());
    is_silent_for(&node, &volume.id, 1000);

    // Rolled back: a pod has the volume for a while, and kubelet unmounts it again.
    for call in [volume.attach(), volume.wait(""), volume.stage(), volume.unstage()] {
        previous.must(call);
    }
    // Upgraded again.
    assert!(volume.boot_record_path().exists());
    assert_eq!(current.verb(&["heal"]).unwrap(), "");
    assert!(node.letter(&volume.id).is_some(), "{}", volume.record());
    // From here on this version counts.
    current.must(volume.unstage());
    is_silent_for(&node, &volume.id, 1000);
    let said = current.verb(&["heal"]).unwrap();
    assert!(said.contains("detached"), "{said}: {}", volume.record());
    assert!(node.letter(&volume.id).is_none());
}
