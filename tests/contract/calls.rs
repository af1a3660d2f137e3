//! The calls that kubelet and the controller-manager make, as lists of arguments.

use crate::support::{Node, options};
use std::ffi::OsString;

/// The call word and its arguments.
pub type Call = Vec<OsString>;

/// All words of the interface that this driver answers with more than a constant.
pub const WORKING: [&str; 9] = [
    "attach",
    "detach",
    "isattached",
    "waitforattach",
    "mountdevice",
    "unmountdevice",
    "mount",
    "unmount",
    "expandfs",
];

/// A pod.
pub const POD: &str = "7a5c1e0b-3d52-4f0e-9a35-6f1d0c8b2e44";

/// A volume id and name in one, as some claims have them.
pub const UUID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";

fn call<const N: usize>(words: [&str; N]) -> Call {
    words.map(OsString::from).to_vec()
}

/// Attach the volume under this name to a node.
pub fn attach(id: &str, pv: &str, node: &str) -> Call {
    call(["attach", &options(id, pv, "ext4"), node])
}

pub fn is_attached(id: &str, pv: &str, node: &str) -> Call {
    call(["isattached", &options(id, pv, "ext4"), node])
}

pub fn detach(name: &str, node: &str) -> Call {
    call(["detach", name, node])
}

pub fn wait(id: &str, pv: &str) -> Call {
    call(["waitforattach", "", &options(id, pv, "ext4")])
}

pub fn stage(node: &Node, id: &str, pv: &str) -> Call {
    with_options(node, "mountdevice", pv, &options(id, pv, "ext4"))
}

pub fn unstage(node: &Node, pv: &str) -> Call {
    with_options(node, "unmountdevice", pv, "")
}

pub fn publish(node: &Node, id: &str, pv: &str) -> Call {
    with_options(node, "mount", pv, &options(id, pv, "ext4"))
}

pub fn unpublish(node: &Node, pv: &str) -> Call {
    with_options(node, "unmount", pv, "")
}

pub fn expand(node: &Node, id: &str, pv: &str) -> Call {
    with_options(node, "expandfs", pv, &options(id, pv, "ext4"))
}

/// The call of this word as kubelet makes it, with these options where it carries any.
pub fn with_options(node: &Node, word: &str, pv: &str, json: &str) -> Call {
    let (global, pod) = (node.global(pv), node.pod(POD, pv));
    let (global, pod) = (global.to_str().unwrap(), pod.to_str().unwrap());
    match word {
        "attach" | "isattached" => call([word, json, "node-b"]),
        "detach" => call([word, pv, "node-b"]),
        "waitforattach" => call([word, "", json]),
        "mountdevice" => call([word, global, "", json]),
        "unmountdevice" => call([word, global]),
        "mount" => call([word, pod, json]),
        "unmount" => call([word, pod]),
        "expandfs" => call([word, json, "", pod, "1048576", "0"]),
        other => panic!("{other} is no call with arguments"),
    }
}

/// Every call with arguments, as kubelet makes it for this volume.
pub fn every(node: &Node, id: &str, pv: &str) -> Vec<Call> {
    let json = options(id, pv, "ext4");
    WORKING.iter().map(|word| with_options(node, word, pv, &json)).collect()
}

/// The word of a call.
pub fn word(call: &Call) -> &str {
    call[0].to_str().unwrap()
}
