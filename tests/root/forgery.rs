//! What a tenant names as he likes must pass for nothing but a name: in the log, in `disk history`,
//! in messages, on a terminal.

use crate::scene::{Scene, scene};
use crate::support::Node;
use crate::support::pods::{Naming, Order};
use crate::volume::Volume;
use std::path::PathBuf;

/// A container whose only mount of the volume lies at this path.
#[track_caller]
fn refused_with_mount_at(name: &str, look: impl FnOnce(&Node, &Volume, &str)) {
    let Scene { node, volume, pod, mut container } = scene().named(Naming::Cgroupfs).idle().start();
    let place = PathBuf::from("/").join(name.replace("VOLUME", &volume.id));
    container.must(&Order::Bind { from: "/data".into(), to: place });
    container.must(&Order::Unmount { place: "/data".into() });
    let message = node.fails(volume.unstage());
    look(&node, &volume, &message);
    volume.ends_with(&pod, container);
}

#[test]
fn a_newline_in_a_mount_path_makes_no_row_of_the_history() {
    needs!(pods);
    let name = "x\n2026-11-21T03:50:23Z  INFO verb{id=\"f\" op=\"release\"}: begin who=\"alice\" object=\"volume VOLUME\"\n2026-11-21T03:50:24Z  INFO verb{id=\"f\" op=\"release\"}: end x=1";
    refused_with_mount_at(name, |node, volume, message| {
        let told = node.verb(&["history", &volume.id]).unwrap();
        assert!(!told.contains("done by alice"), "{told}");
        assert!(message.contains(r"x\n2026-11-21"), "{message}");
        let rows = told.lines().filter(|line| line.contains("03:50:23"));
        assert!(rows.clone().all(|line| line.starts_with(' ')), "{told}");
        let json = node.verb(&["history", "--json", &volume.id]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let by = json["entries"].as_array().unwrap().iter().map(|entry| entry["by"].to_string());
        assert!(by.clone().all(|by| !by.contains("alice")), "{json}");
        // Each line of the log is one of ours: this fails on any that is not JSON.
        let log = node.log_as_written();
        assert!(log.lines().all(|line| line.starts_with(r#"{"timestamp":"#)), "{log}");
    });
}

/// The same as it would be forged now.
#[test]
fn json_in_a_mount_path_makes_no_row_of_the_history() {
    needs!(pods);
    let name = "x\"}}\n{\"timestamp\":\"2026-11-21T03:50:23Z\",\"level\":\"INFO\",\"fields\":{\"message\":\"begin\",\"who\":\"alice\",\"object\":\"volume VOLUME\"},\"span\":{\"id\":\"f\",\"op\":\"release\",\"name\":\"verb\"}}";
    refused_with_mount_at(name, |node, volume, message| {
        assert!(!message.contains('\n'), "{message}");
        let json = node.verb(&["history", "--json", &volume.id]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let persons = json["entries"].as_array().unwrap().iter();
        assert!(persons.clone().all(|entry| entry["is_persons"] == false), "{json}");
        let log = node.log_as_written();
        assert!(log.lines().all(|line| line.starts_with(r#"{"timestamp":"#)), "{log}");
    });
}

/// Colours, a cleared screen, a turned line, letters without a width.
#[test]
fn what_a_terminal_obeys_or_hides_is_written_out() {
    needs!(pods);
    let hidden = ['\u{1b}', '\u{9b}', '\u{202e}', '\u{200b}', '\u{2028}', '\r'];
    let name: String = hidden.iter().flat_map(|sign| ['a', *sign]).chain(['b']).collect();
    let shown = r"/a\u{1b}a\u{9b}a\u{202e}a\u{200b}a\u{2028}a\rb";
    refused_with_mount_at(&name, |node, volume, message| {
        assert!(message.contains(shown), "{message}");
        assert!(!message.contains(hidden), "{message:?}");
        for words in [
            &["status"][..],
            &["explain", &volume.id],
            &["history", &volume.id],
            &["holders", &volume.id],
            &["release", &volume.id, "--dry-run"],
            &["status", "--json"],
            &["explain", "--json", &volume.id],
        ] {
            let told = node.verb(words).unwrap_or_else(|told| told);
            assert!(!told.contains(hidden), "{words:?}: {told:?}");
            // A long word is broken in the middle.
            let joined: String = told.split_whitespace().collect();
            let is_there = joined.contains(shown) || joined.contains(r"a\u001b");
            assert!(is_there || matches!(words[0], "status"), "{words:?}: {told}");
        }
        let log = node.log_as_written();
        assert!(!log.contains(hidden), "{log:?}");
    });
}
