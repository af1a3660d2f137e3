//! Several nodes of one cloud: a volume is where it is, and is never taken.

use crate::checks::nothing_is_left;
use crate::crash::kill_at;
use crate::volume::Volume;

/// People type the volume's id and "1", as with the predecessor.
#[test]
fn a_volume_is_detached_by_hand_by_its_id() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    for words in
        [&["detach", &volume.id, "1"][..], &["detach", &volume.id], &["detach", &volume.pv]]
    {
        node.must(volume.attach());
        node.must(words);
        assert_eq!(node.must(volume.is_attached())["attached"], false, "{words:?}");
    }
    // An id or name that is unknown is detached already.
    node.must(["detach", "pvc-unknown", "node-a"]);
    node.must(["detach", "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5", "node-a"]);
    nothing_is_left(&node, &[&volume]);
}

/// Whatever remains of an attachment that was given up must not keep other nodes away for ever. A
/// call that was killed may never be repeated: when the pod went away, `detach` comes next.
#[test]
fn after_detach_another_node_gets_the_volume_whatever_was_killed_before() {
    needs!(mounts, seams);
    for (word, step) in [
        ("attach", "local.attach.recorded"),
        ("attach", "local.attach.plugged"),
        ("detach", "local.detach.unplugged"),
        ("detach", "detach.requested"),
        ("local", "local.pull.let-go"),
        ("local", "local.pull.copied"),
    ] {
        let (node, volume) = Volume::on_a_node("ext4", "16M");
        let yank = ["local", "yank", &volume.id].map(str::to_owned).to_vec();
        let calls = [volume.attach(), volume.detach(), yank];
        let struck = calls.into_iter().find(|call| call[0] == word).unwrap();
        if word != "attach" {
            node.must(volume.attach());
        }
        kill_at(&node, &struck, step);
        node.must(volume.detach());
        let answer = node.call(volume.attach_to("node-b"));
        assert_eq!(answer.json["status"], "Success", "{word} killed at {step}: {}", answer.text);
        node.must(volume.detach_from("node-b"));
        nothing_is_left(&node, &[&volume]);
    }
}
