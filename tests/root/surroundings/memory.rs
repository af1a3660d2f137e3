//! Each call with little more memory than a process of ours needs to say anything at all.

use super::{LIFE, either, keeps_data};
use crate::checks::{layers_at, nothing_is_left};
use crate::support::{DISK, Node, spawn};
use crate::volume::{POD, Volume};
use std::io::Read;
use std::process::Command;

const KIB: u64 = 1024;

/// A call that may map so many bytes at most: what it printed, and whether it ended well.
fn with_memory(node: &Node, bytes: u64, words: &[String]) -> (String, bool) {
    let mut command = Command::new("prlimit");
    command.args([&format!("--as={bytes}"), "--core=0", "--", DISK]).args(words);
    command.env("INCLOUD_DISK_CONFIG", node.config_path());
    let (mut child, mut output) = spawn(command);
    let mut text = Vec::new();
    output.read_to_end(&mut text).unwrap();
    let is_well = child.wait().unwrap().success();
    (String::from_utf8_lossy(&text).into_owned(), is_well)
}

/// The least that lets a process of ours say what it can do.
fn least(node: &Node) -> u64 {
    let says = |kib: u64| {
        let (text, is_well) = with_memory(node, kib * KIB, &["init".to_owned()]);
        is_well && text.contains("Success")
    };
    let (mut too_little, mut enough) = (1 << 10, 1 << 20);
    assert!(says(enough) && !says(too_little));
    while enough - too_little > 16 {
        let middle = u64::midpoint(enough, too_little);
        if says(middle) { enough = middle } else { too_little = middle }
    }
    enough * KIB
}

#[test]
fn each_call_with_little_memory_is_true_or_fails() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let least = least(&node);
    let steps = u64::try_from(either(5, 17)).unwrap();
    let mut failures = 0;
    for life in 0..2 {
        for step in LIFE {
            step.prepare(&volume);
            let call = step.call(&volume);
            for spare in (0..steps).map(|nth| nth * 1024 / (steps - 1)) {
                let (text, is_well) = with_memory(&node, least + spare * KIB, &call);
                let told = serde_json::from_str::<serde_json::Value>(&text);
                match told {
                    Ok(json) if json["status"] == "Success" => step.is_true(&volume, &json),
                    // kubelet takes what ends badly for a failure, whatever it printed.
                    told => {
                        let is_told = told.is_ok_and(|json| json["status"] == "Failure");
                        assert!(is_told || !is_well, "{step:?} with {spare} KiB: {text:?}");
                        failures += 1;
                    }
                }
                assert!(layers_at(&volume.global()) < 2 && layers_at(&volume.pod(POD)) < 2);
            }
            step.is_true(&volume, &node.must(&call));
            keeps_data(&volume, step, life);
        }
    }
    assert!(failures > 0, "there was memory enough for all: nothing was shown");
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}
