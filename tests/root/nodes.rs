//! Several nodes of one cloud: a volume is where it is, and is never taken.

use crate::checks::{nothing_is_left, only_mount_at};
use crate::crash::kill_at;
use crate::support::Node;
use crate::volume::Volume;

#[test]
fn a_volume_of_this_node_is_not_given_to_another() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    for _ in 0..2 {
        let message = node.fails(volume.attach_to("node-b"));
        assert!(
            message.contains(&volume.id) && message.contains("attached to node-a"),
            "{message}"
        );
    }
    // The other node's own driver says the same.
    let neighbour = node.neighbour("node-b");
    let message = neighbour.fails(volume.seen_from(&neighbour).attach());
    assert!(message.contains("attached to node-a"), "{message}");
    // What is not attached there is detached from there already, and ours stays.
    node.must(volume.detach_from("node-b"));
    neighbour.must(volume.seen_from(&neighbour).detach());
    assert_eq!(node.must(volume.is_attached())["attached"], true);
    assert_eq!(only_mount_at(&volume.global()).fs_type, "ext4");
    volume.ends();
}

#[test]
fn a_volume_of_another_node_is_not_taken_from_it() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    // The controller-manager attaches for every node.
    for _ in 0..2 {
        let reply = node.must(volume.attach_to("node-b"));
        assert_eq!(reply["device"], volume.link().to_str().unwrap());
    }
    let message = node.fails(volume.attach());
    assert!(message.contains(&volume.id) && message.contains("attached to node-b"), "{message}");
    assert_eq!(node.must(volume.is_attached())["attached"], false);
    let message = node.fails(volume.wait(""));
    assert!(message.contains("it is attached to node-b"), "{message}");
    // From here: nothing to do. From there: gone, and free for us.
    node.must(volume.detach());
    node.fails(volume.attach());
    node.must(volume.detach_from("node-b"));
    node.must(volume.detach_from("node-b"));
    volume.bring();
    volume.ends();
}

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

#[test]
fn of_two_nodes_that_ask_at_once_one_gets_the_volume() {
    needs!(mounts);
    let node = Node::new();
    for _ in 0..3 {
        let volume = Volume::create(&node, "ext4", "16M");
        let (here, there) = std::thread::scope(|scope| {
            let volume = &volume;
            let asked: Vec<_> = (0..8)
                .map(|caller| scope.spawn(move || gets(volume, ["node-a", "node-b"][caller % 2])))
                .collect();
            let answers: Vec<_> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
            let of = |parity| answers.iter().skip(parity).step_by(2).copied().collect::<Vec<_>>();
            (of(0), of(1))
        });
        // All callers of one node are told the same, and the other one's the opposite.
        assert!(here.iter().all(|got| *got == here[0]), "{here:?} {there:?}");
        assert!(there.iter().all(|got| *got != here[0]), "{here:?} {there:?}");
        assert_eq!(node.must(volume.is_attached())["attached"], here[0]);
        node.must(volume.detach_from(if here[0] { "node-a" } else { "node-b" }));
        nothing_is_left(&node, &[&volume]);
    }
}

fn gets(volume: &Volume, server: &str) -> bool {
    volume.node.call(volume.attach_to(server)).json["status"] == "Success"
}
