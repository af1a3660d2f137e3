//! The transcripts in docs/operating.md are what the program says: the scene is set, the verb runs, and
//! what differs from machine to machine is put aside on both sides. `TRANSCRIPTS=write` writes them anew.

use super::healths::{Healths, Incident};
use super::said;
use crate::support::Node;
use crate::support::server_disks::serial;
use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// What the page calls the volumes of the scene, in the order of `Healths::each`.
const VOLUMES: [(&str, &str); 6] = [
    ("8b0cc218-640f-44f3-8288-d7b57835a084", "pvc-78dece18-205d-4acf-b432-2ba27f817dfb"),
    ("279d20f6-c62b-4416-a47d-390849f8855b", "pvc-caf14e73-1372-4bfb-b294-6897af298ec6"),
    ("16e93911-1e8c-470c-b618-a213c97886f2", "pvc-3b4a90ab-991d-4c3c-9764-2a94a204bcdd"),
    ("404e40c0-cf98-45e4-97fc-5ee21f84f927", "pvc-b99b7561-9a21-4995-8c2d-899f7cdc0387"),
    ("4e4f80c6-7958-422c-912f-64b300fd2d4a", "pvc-bd021d49-a284-4b0c-ba19-49d081cfdc25"),
    ("94590724-eab1-46d0-af0b-59f19c349b48", "pvc-9ee53cae-1967-46f9-830f-f28c5fde731b"),
];

/// And its pods and their containers.
const PODS: [&str; 4] = [
    "3af0204e-101c-491d-b8ae-e8df64f4ef40",
    "926545c1-e1eb-48fa-988b-4469cccecb1d",
    "62dcafb7-955c-4878-b5f8-d28e0cec0d87",
    "10e69c53-11d0-4974-a536-10f4f86b5596",
];

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operating.md")
}

/// The page around the answer that it shows to a command: what is before, the answer, what is after.
fn around(command: &str) -> (String, String, String) {
    let text = fs::read_to_string(page()).unwrap();
    let begin = format!("```console\n$ {command}\n");
    let (before, rest) =
        text.split_once(&begin).unwrap_or_else(|| panic!("docs/operating.md shows no {command}"));
    let (answer, after) = rest.split_once("```").unwrap();
    (before.to_owned() + &begin, answer.to_owned(), "```".to_owned() + after)
}

/// What is the same on every machine.
fn normal(text: &str) -> String {
    let mut text = text.to_owned();
    let of_this_machine =
        Regex::new(r"(?m)^! (Not seen|Mounted in containers).*\n(  .*\n)*").unwrap();
    text = of_this_machine.replace_all(&text, "").into_owned();
    // What each kernel says of a disk that goes, and of its file system.
    let of_the_kernel = Regex::new(r"(?m)^[\d:.]+  kernel .*\n(   .*\n)*").unwrap();
    text = of_the_kernel.replace_all(&text, "").into_owned();
    for (pattern, same) in [
        (r"loop\d+", "loopN"),
        (r"\b7:\d+", "7:N"),
        (r"\d{4}-\d\d-\d\d", "DAY"),
        (r"\d\d:\d\d:\d\d\.\d{3}", "TIME"),
        (r"\b(\d+\s+ms|\d+\.\d\s+s|\d+\s+s|\d+\s+min)\b", "SPAN"),
        (r"mnt:\[\d+\]", "mnt:[N]"),
        (r"\d\d:\d\d:\d\d UTC", "TIME UTC"),
        (r"disk\s+\d+\s+since", "disk N since"),
        (r"\d+\s+\(?(root-[0-9a-f]+|prometheus\b)\)?", "PROCESS"),
        (r"(container|PROCESS)\s+[0-9a-f]{12}", "${1} ID"),
        // Here it is the test that calls.
        (r"\(by\s+root-[0-9a-f]+\)", ""),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, same).into_owned();
    }
    // Lines are broken where the paths of the machine have them.
    text.split_whitespace().collect()
}

/// The names of the page in the place of a node's own.
fn renamed(text: &str, node: &Node, names: &[(String, &str)]) -> String {
    let own = node.own();
    let mut text = text.to_owned();
    for (path, name) in [
        (own.join("kubelet"), "/var/lib/kubelet"),
        (own.join("state"), "/var/lib/incloud-disk"),
        (node.base().join("cloud"), "/var/lib/incloud-disk/local"),
    ] {
        // A long path is broken into lines at its slashes.
        let parts: Vec<_> = path.iter().skip(1).map(|part| part.to_str().unwrap()).collect();
        let parts: Vec<_> = parts.into_iter().map(regex_lite::escape).collect();
        let pattern = Regex::new(&format!("/{}", parts.join(r"\s*/"))).unwrap();
        text = pattern.replace_all(&text, name).into_owned();
    }
    for (own, name) in names {
        text = text.replace(own.as_str(), name);
        text = text.replace(serial(own), serial(name));
        // As status shortens them.
        if let Some(rest) = own.len().checked_sub(28) {
            text = text.replace(&own[..rest], &name[..rest]);
        }
    }
    text
}

#[track_caller]
fn is_as_shown(node: &Node, names: &[(String, &str)], command: &[&str], written: &str) {
    let (text, _) = said(node, command);
    let text = renamed(&text, node, names);
    let (before, shown, after) = around(written);
    if std::env::var_os("TRANSCRIPTS").is_some_and(|word| word == "write") {
        let text = Regex::new(r"(?m)^! (Not seen|Mounted in containers).*\n(  .*\n)*")
            .unwrap()
            .replace_all(&text, "")
            .into_owned();
        let text = Regex::new(r"root-[0-9a-f]+").unwrap().replace_all(&text, "prometheus");
        fs::write(page(), before + &text.replace(" (by prometheus)", "") + &after).unwrap();
        return;
    }
    assert_eq!(
        normal(&text),
        normal(&shown),
        "docs/operating.md shows another answer than:\n{text}"
    );
}

#[test]
fn status_and_explain_are_as_the_page_shows_them() {
    needs!(pods);
    let node = Node::new();
    let scene = Healths::set(&node);
    let mut names = Vec::new();
    for ((_, volume), (id, pv)) in scene.each().into_iter().zip(VOLUMES) {
        names.extend([(volume.id.clone(), id), (volume.pv.clone(), pv)]);
    }
    names.extend(scene.pods.iter().map(|pod| pod.uid().to_owned()).zip(PODS));
    is_as_shown(&node, &names, &["status"], "disk status");
    let written = format!("disk explain {}", VOLUMES[3].1);
    is_as_shown(&node, &names, &["explain", &scene.stale.pv], &written);
}

#[test]
fn the_incident_is_told_as_the_page_shows_it() {
    needs!(pods);
    let node = Node::new();
    let Incident { volume, pod, container, .. } = Incident::happens(&node);
    let names = [
        (volume.id.clone(), VOLUMES[3].0),
        (volume.pv.clone(), VOLUMES[3].1),
        (pod.uid().to_owned(), PODS[3]),
    ];
    let written = format!("disk history {}", VOLUMES[3].1);
    is_as_shown(&node, &names, &["history", &volume.pv], &written);
    volume.take_away_with(&pod, container);
}
