//! Folders that are not what kubelet makes: refused before anything is done.

use crate::calls::{self, POD};
use crate::scene::tree;
use crate::support::{Node, options};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The calls that are given a folder.
const WORDS: [&str; 5] = ["mountdevice", "unmountdevice", "mount", "unmount", "expandfs"];

/// The call of this word for a folder, whatever it is.
fn on(word: &str, folder: &str, pv: &str) -> Vec<String> {
    let json = options("vol-1", pv, "ext4");
    let words = match word {
        "mountdevice" => vec![word, folder, "", &json],
        "mount" => vec![word, folder, &json],
        "expandfs" => vec![word, &json, "", folder, "2", "1"],
        _ => vec![word, folder],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// Every call fails for this folder, and leaves all files as they were.
#[track_caller]
fn refused_by_all(node: &Node, folder: &str, pv: &str) {
    let before = tree(&node.kubelet_root());
    for word in WORDS {
        let message = node.fails(on(word, folder, pv));
        assert!(message.starts_with(word), "{message}");
    }
    assert_eq!(tree(&node.kubelet_root()), before, "{folder:?}");
}

#[test]
fn paths_that_are_not_plain_are_refused() {
    let node = Node::new();
    let (root, global, pod) = (node.kubelet_root(), node.global("pv-1"), node.pod(POD, "pv-1"));
    fs::create_dir_all(&global).unwrap();
    fs::create_dir_all(&pod).unwrap();
    let root = root.to_str().unwrap();
    for folder in [global.to_str().unwrap(), pod.to_str().unwrap()] {
        let below = folder.strip_prefix(root).unwrap();
        let name_dots = folder.replace("/pv-1", "/../pv-1");
        for bad in [
            format!("{folder}/"),
            format!("{folder}/."),
            format!("{folder}/.."),
            format!("{folder}/../pv-1"),
            format!("{folder}//"),
            format!("{folder}\n"),
            format!("{folder}\t"),
            format!("/{folder}"),
            format!("{root}/{below}"),
            format!("{root}/.{below}"),
            format!("{root}/../kubelet{below}"),
            folder[1..].to_owned(),
            format!("./{folder}"),
            name_dots,
        ] {
            refused_by_all(&node, &bad, "pv-1");
        }
    }
}

#[test]
fn folders_of_another_shape_are_refused() {
    let node = Node::new();
    let root = node.kubelet_root();
    let root = root.to_str().unwrap();
    for bad in [
        String::new(),
        "/".to_owned(),
        "/etc".to_owned(),
        root.to_owned(),
        format!("{root}/pv-1"),
        format!("{root}/pods/{POD}/volumes/pv-1"),
        format!("{root}/pods/{POD}/volumes/incloud~disk"),
        format!("{root}/pods/{POD}/volumes/other~disk/pv-1"),
        format!("{root}/pods/{POD}/volumes/incloud/disk/pv-1"),
        format!("{root}/pods/{POD}/volumes/incloud~disk/a/pv-1"),
        format!("{root}/pods/a/b/volumes/incloud~disk/pv-1"),
        format!("{root}/pods/volumes/incloud~disk/pv-1"),
        format!("{root}/plugins/kubernetes.io/flexvolume/incloud/disk/mounts"),
        format!("{root}/plugins/kubernetes.io/flexvolume/other/disk/mounts/pv-1"),
        format!("{root}/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/a/pv-1"),
    ] {
        refused_by_all(&node, &bad, "pv-1");
    }
}

/// A pod's folder is no global folder, and the other way round.
#[test]
fn each_call_takes_its_own_kind_of_folder() {
    let node = Node::new();
    let (global, pod) = (node.global("pv-1"), node.pod(POD, "pv-1"));
    for (word, folder) in
        [("mountdevice", &pod), ("unmountdevice", &pod), ("mount", &global), ("unmount", &global)]
    {
        let message = node.fails(on(word, folder.to_str().unwrap(), "pv-1"));
        assert!(message.contains("does not look like"), "{message}");
    }
    for (word, folder) in [("unmountdevice", &global), ("unmount", &pod)] {
        node.must(on(word, folder.to_str().unwrap(), "pv-1"));
    }
}

#[test]
fn folders_below_another_root_are_refused() {
    let node = Node::new();
    let other = node.neighbour("other");
    for folder in [
        other.pod(POD, "pv-1"),
        other.global("pv-1"),
        // A pod may make any folders in a volume of its own.
        node.pod(POD, "pv-2")
            .join(other.pod(POD, "pv-1").strip_prefix(other.kubelet_root()).unwrap()),
        node.kubelet_root()
            .join("pods")
            .join(POD)
            .join("volumes/incloud~disk/pv-1")
            .join("pods/u/volumes/incloud~disk/pv-1"),
    ] {
        refused_by_all(&node, folder.to_str().unwrap(), "pv-1");
    }
    let message = node.fails(on("unmount", other.pod(POD, "pv-1").to_str().unwrap(), "pv-1"));
    assert!(message.contains("paths.kubelet_root"), "{message}");
}

#[test]
fn names_with_odd_characters_are_refused() {
    let node = Node::new();
    let long = "a".repeat(254);
    for name in [
        "a b",
        "a\tb",
        "a\nb",
        " pv",
        "pv ",
        "ä",
        "pv\u{202e}",
        "a%b",
        "%s",
        "a\\b",
        "a'b",
        "a\"b",
        "$(id)",
        "a;b",
        ".pv",
        "-rf",
        "_pv",
        "..",
        "~",
        "*",
        &long,
    ] {
        for folder in [node.global(name), node.pod(POD, name)] {
            refused_by_all(&node, folder.to_str().unwrap(), name);
        }
        refused_by_all(&node, node.pod(name, "pv-1").to_str().unwrap(), "pv-1");
    }
}

#[test]
fn a_folder_that_is_not_utf8_is_refused() {
    let node = Node::new();
    let mut folder = node.pod(POD, "pv-").into_os_string().into_vec();
    folder.push(0xe4);
    let message = node.fails([OsString::from("unmount"), OsString::from_vec(folder)]);
    assert!(message.contains("not UTF-8"), "{message}");
}

/// kubelet names the volume twice; one of them would be the wrong one.
#[test]
fn the_folder_of_one_volume_with_the_options_of_another_is_refused() {
    let node = Node::new();
    for (word, folder) in [
        ("mountdevice", node.global("pv-1")),
        ("mount", node.pod(POD, "pv-1")),
        ("expandfs", node.pod(POD, "pv-1")),
        ("expandfs", node.global("pv-1")),
    ] {
        let message = node.fails(on(word, folder.to_str().unwrap(), "pv-2"));
        assert!(message.contains("pv-1") && message.contains("pv-2"), "{message}");
    }
    assert!(tree(&node.kubelet_root()).is_empty());
    assert!(!node.own().join("state").exists());
}

/// Makes the folder with a link in place of its part number `at`; answers what is behind it.
fn with_link(node: &Node, folder: &Path, at: usize) -> PathBuf {
    let below = folder.strip_prefix(node.kubelet_root()).unwrap();
    let parts: Vec<_> = below.components().collect();
    let before: PathBuf = parts[..at].iter().collect();
    let behind = node.base().join("behind");
    fs::create_dir_all(node.kubelet_root().join(&before)).unwrap();
    fs::create_dir_all(behind.join(parts[at + 1..].iter().collect::<PathBuf>())).unwrap();
    symlink(&behind, node.kubelet_root().join(before).join(parts[at])).unwrap();
    behind
}

#[test]
fn a_link_anywhere_in_the_folder_is_refused() {
    let scene = Node::new();
    for (folder, words) in [
        (scene.pod(POD, "pv-1"), &["unmount", "mount", "expandfs"][..]),
        (scene.global("pv-1"), &["unmountdevice", "mountdevice", "expandfs"]),
    ] {
        let below = folder.strip_prefix(scene.kubelet_root()).unwrap().to_owned();
        for at in 0..below.components().count() {
            let node = Node::new();
            let folder = node.kubelet_root().join(&below);
            let behind = with_link(&node, &folder, at);
            let before = (tree(&node.kubelet_root()), tree(&behind));
            for word in words {
                let message = node.fails(on(word, folder.to_str().unwrap(), "pv-1"));
                assert!(message.contains("is a symbolic link"), "{at}: {message}");
            }
            assert_eq!((tree(&node.kubelet_root()), tree(&behind)), before, "part {at}");
        }
    }
}

/// `mount` binds from the global folder: a link there would show the pod something else.
#[test]
fn a_link_in_the_global_folder_is_refused_by_mount() {
    let node = Node::new();
    let behind = with_link(&node, &node.global("pv-1"), 3);
    let message = node.fails(calls::publish(&node, "vol-1", "pv-1"));
    assert!(message.contains("is a symbolic link"), "{message}");
    assert!(!node.pod(POD, "pv-1").exists() && tree(&behind).len() == 3);
}

/// The administrator may have moved kubelet's root to another disk.
#[test]
fn a_root_that_is_a_link_is_fine() {
    let node = Node::new();
    let moved = node.own().join("moved");
    fs::rename(node.kubelet_root(), &moved).unwrap();
    symlink(&moved, node.kubelet_root()).unwrap();
    fs::create_dir_all(node.pod(POD, "pv-1")).unwrap();
    node.must(calls::unpublish(&node, "pv-1"));
    node.must(calls::unstage(&node, "pv-1"));
}

#[test]
fn a_folder_that_is_not_there_or_not_mounted_is_unmounted_already() {
    let node = Node::new();
    for _ in 0..2 {
        node.must(calls::unpublish(&node, "pv-1"));
        node.must(calls::unstage(&node, "pv-1"));
        fs::create_dir_all(node.pod(POD, "pv-1")).unwrap();
        fs::create_dir_all(node.global("pv-1")).unwrap();
    }
    fs::write(node.pod(POD, "pv-1").join("data"), "a pod's").unwrap();
    node.must(calls::unpublish(&node, "pv-1"));
    assert!(node.pod(POD, "pv-1").join("data").exists(), "nothing is ever removed");
    fs::remove_dir_all(node.kubelet_root()).unwrap();
    node.must(calls::unpublish(&node, "pv-1"));
}

#[test]
fn nothing_is_made_for_a_volume_whose_disk_is_not_here() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    for call in [calls::stage(&node, "vol-1", "pv-1"), calls::publish(&node, "vol-1", "pv-1")] {
        let message = node.fails(&call);
        assert!(message.contains("not attached to node-a"), "{message}");
        assert!(message.contains("attached to node-b"), "{message}");
    }
    let message = node.fails(calls::expand(&node, "vol-1", "pv-1"));
    assert!(message.contains("no disk of this machine shows"), "{message}");
    assert!(tree(&node.kubelet_root()).is_empty());
}
