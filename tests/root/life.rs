//! One life of a volume, with kubelet's exact arguments.

use crate::support::{Node, options, private_mounts};
use std::fs;

#[test]
fn data_survives_a_second_attach() {
    if !private_mounts("data_survives_a_second_attach") {
        return;
    }
    let (node, id, json) = (Node::new(), "vol-1", options("vol-1", "pv-1", "ext4"));
    node.create(id, "64M");
    let (global, pod) = (node.global("pv-1"), node.pod("uid-1", "pv-1"));
    let (global_text, pod_text) = (global.to_str().unwrap(), pod.to_str().unwrap());
    for round in 0..2 {
        node.must(["attach", &json, "node-a"]);
        node.must(["waitforattach", "", &json]);
        fs::create_dir_all(&global).unwrap();
        node.must(["mountdevice", global_text, "", &json]);
        fs::create_dir_all(&pod).unwrap();
        node.must(["mount", pod_text, &json]);
        if round == 0 {
            fs::write(pod.join("f"), "kept").unwrap();
        }
        assert_eq!(fs::read_to_string(pod.join("f")).unwrap(), "kept");
        node.must(["unmount", pod_text]);
        fs::remove_dir(&pod).unwrap();
        node.must(["unmountdevice", global_text]);
        fs::remove_dir(&global).unwrap();
        node.must(["detach", "pv-1", "node-a"]);
    }
}
