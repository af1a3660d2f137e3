//! A container that follows kubelet's folders, and has in one of them a copy of the volume that follows no more, with a
//! mount of its own in it. What comes to the machine's folder comes beneath that copy.

use crate::checks::{nothing_is_left, number_of};
use crate::heal::{folders_that_share, goes_on, heal_by, pull, with_a_folder};
use crate::scene::{Scene, scene};
use crate::support::Node;
use crate::support::disks::{table_of, within};
use crate::support::pods::Plan;
use crate::switch::kinds::{essence, must_become_the_same, propagate, tmpfs};
use crate::switch::methods;
use incloud_disk::model::mount::replacement::Method;
use nix::mount::{MntFlags, MsFlags, umount2};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

#[test]
fn a_copy_with_a_mount_of_its_own_has_the_disk_once() {
    needs!(pods, seams);
    let methods = methods().into_iter().filter(|method| *method != Method::TuckByMount);
    let steps = ["", "heal.tuck.shared"];
    for (method, step) in methods.flat_map(|method| steps.map(|step| (method, step))) {
        let node = Node::new();
        let root = folders_that_share(&node);
        let Scene { volume, pod, mut container, .. } = scene().on(&node).start();
        let ours = volume.pod(pod.uid());
        let nested = with_a_folder(&ours);
        let follower = Plan::outside().copying_all_mounts().following_our_mounts().start();
        within(follower.pid(), || {
            propagate(ours.to_str().unwrap(), MsFlags::MS_PRIVATE);
            tmpfs(nested.to_str().unwrap());
        });
        let before = table_of(follower.pid());
        let was = number_of(&volume.letter());
        pull(&volume, &mut container);
        heal_by(&volume, method, step);
        goes_on(&mut container, 3);
        let after = table_of(follower.pid());
        let numbers = [was, number_of(&volume.letter())];
        let now = || essence(&table_of(follower.pid()), &numbers);
        must_become_the_same(&essence(&before, &numbers), now, &format!("{method} {step}"));
        assert_eq!(after.of(was).count(), 0, "{method} {step}");
        within(follower.pid(), || {
            for place in [&nested, &ours] {
                umount2(place, MntFlags::empty()).unwrap();
            }
        });
        assert_eq!(table_of(follower.pid()).at(&ours).count(), 0, "{method} {step}");
        follower.die();
        volume.take_away_with(&pod, container);
        umount2(root.as_str(), MntFlags::empty()).unwrap();
        nothing_is_left(&node, &[&volume]);
    }
}

/// A container that has the volume twice, once `Bidirectional` and once `HostToContainer`: a peer of the machine's mount,
/// and one that follows it. Both are on the new disk, and share and follow as before.
#[test]
fn a_container_with_a_peer_and_a_follower_has_both_as_before() {
    needs!(pods, seams);
    let methods = methods().into_iter().filter(|method| *method != Method::TuckByMount);
    let steps = ["", "heal.attached"];
    for (method, step) in methods.flat_map(|method| steps.map(|step| (method, step))) {
        let node = Node::new();
        let root = folders_that_share(&node);
        let Scene { volume, pod, mut container, .. } = scene().on(&node).start();
        let ours = volume.pod(pod.uid());
        let twice = Plan::outside().start();
        let clone = || {
            let how = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            open_tree(CWD, &ours, how).unwrap()
        };
        let (peer, follower) = (clone(), clone());
        within(twice.pid(), || {
            for (place, tree) in [("/peer", &peer), ("/follower", &follower)] {
                std::fs::create_dir(place).unwrap();
                let from_tree = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
                move_mount(tree, "", CWD, place, from_tree).unwrap();
            }
            propagate("/follower", MsFlags::MS_SLAVE);
        });
        drop((peer, follower));
        let before = table_of(twice.pid());
        let was = number_of(&volume.letter());
        assert_eq!(before.of(was).count(), 2);
        pull(&volume, &mut container);
        heal_by(&volume, method, step);
        assert!(!step.is_empty() || !node.log().contains("skipped"), "{method}: {}", node.log());
        goes_on(&mut container, 3);
        let numbers = [was, number_of(&volume.letter())];
        let now = || essence(&table_of(twice.pid()), &numbers);
        must_become_the_same(&essence(&before, &numbers), now, &format!("{method} {step}"));
        assert_eq!(table_of(twice.pid()).of(was).count(), 0, "{method} {step}");
        twice.die();
        volume.take_away_with(&pod, container);
        umount2(root.as_str(), MntFlags::empty()).unwrap();
        nothing_is_left(&node, &[&volume]);
    }
}
