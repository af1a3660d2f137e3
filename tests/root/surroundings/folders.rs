//! Each folder that the driver uses is full, read-only, gone or on a disk that hangs: under each call of
//! two lives of a volume, and under the incident.
//!
//! The rule: a success is true; a failure names the folder; what needs the folder not, is done; and when
//! the trouble is over the same call succeeds, with the data that was there.

use super::{LIFE, Step, either};
use crate::checks::{eventually, layers_at, nothing_is_left};
use crate::files;
use crate::hanging::{ANSWERED, DEADLINE, Running};
use crate::heal::{goes_on, pull};
use crate::scene::{Scene, scene};
use crate::support::Node;
use crate::trouble::{Fault, Trouble};
use crate::volume::{Call, POD, Volume};
use std::path::PathBuf;

/// A folder of the driver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    State,
    Run,
    Log,
    Metrics,
    /// Of the machine's links to disks.
    Links,
}

const PLACES: [Place; 5] = [Place::State, Place::Run, Place::Log, Place::Metrics, Place::Links];

impl Place {
    fn folder(self, node: &Node) -> PathBuf {
        match self {
            Self::State => node.own().join("state"),
            Self::Run => node.own().join("run"),
            Self::Log => node.own().join("log"),
            Self::Metrics => node.own().join("metrics"),
            Self::Links => node.base().join("cloud/by-id"),
        }
    }

    /// Whether a call of a life may fail for want of it.
    fn is_needed(self) -> bool {
        matches!(self, Self::State | Self::Run | Self::Links)
    }

    /// The same of a refusal and of a heal.
    fn is_needed_in_the_incident(self) -> bool {
        matches!(self, Self::Run | Self::Links)
    }
}

fn configuration(node: &Node, fault: Fault, deadline: u64) -> String {
    let page = Place::Metrics.folder(node).join("disk.prom");
    let limits =
        ["attach", "detach", "mountdevice", "unmountdevice", "mount", "unmount", "expandfs"]
            .map(|call| format!("{call} = {deadline}\n"))
            .concat();
    let limits =
        if fault == Fault::Hanging { format!("[deadline]\n{limits}") } else { String::new() };
    format!("[metrics]\ntextfile = \"{}\"\n{limits}", page.display())
}

/// A call in trouble; answers whether it is done.
#[track_caller]
fn is_done(node: &Node, call: &Call, place: Place, is_needed: bool) -> Option<serde_json::Value> {
    let answer =
        Running::start(node.command(call)).answer(ANSWERED).expect("the process did not end");
    let message = answer.json["message"].as_str().unwrap_or_default().to_owned();
    if answer.json["status"] == "Success" {
        return Some(answer.json);
    }
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(is_needed, "{} does not need the {place:?}: {message}", call[0]);
    let folder = place.folder(node);
    assert!(message.contains(folder.to_str().unwrap()), "{} {place:?}: {message}", call[0]);
    None
}

fn two_lives(fault: Fault, places: &[Place]) {
    for place in places {
        let node = Node::new();
        let mut trouble = Trouble::ready(&node, &place.folder(&node), fault);
        if *place != Place::Metrics {
            std::fs::create_dir_all(Place::Metrics.folder(&node)).unwrap();
        }
        node.configure(&configuration(&node, fault, DEADLINE));
        let volume = Volume::create(&node, "ext4", "64M");
        for life in 0..2 {
            for step in LIFE {
                step.prepare(&volume);
                let call = step.call(&volume);
                trouble.begin();
                for _ in 0..either(1, 2) {
                    if let Some(answer) = is_done(&node, &call, *place, place.is_needed()) {
                        step.is_true(&volume, &answer);
                    }
                    assert!(layers_at(&volume.global()) < 2 && layers_at(&volume.pod(POD)) < 2);
                }
                trouble.end();
                if *place == Place::Links && fault == Fault::Gone && step != Step::Detach {
                    // As udev would: the links come back.
                    node.must(volume.attach());
                }
                eventually("it goes on", || node.call(&call).json["status"] == "Success");
                step.is_true(&volume, &node.must(&call));
                let data = volume.pod(POD).join("data");
                match (step, life) {
                    (Step::Publish, 0) => files::write_synced(&data, b"kept"),
                    (Step::Publish, _) => assert_eq!(files::read(&data).unwrap(), b"kept"),
                    (Step::Unpublish, _) => std::fs::remove_dir(volume.pod(POD)).unwrap(),
                    (Step::Unstage, _) => std::fs::remove_dir(volume.global()).unwrap(),
                    _ => {}
                }
            }
        }
        if fault == Fault::Hanging {
            // What was noted of a process that hung goes with the next call that does something.
            node.must(volume.attach());
            node.must(volume.detach());
        }
        volume.must_be_sound();
        drop(trouble);
        nothing_is_left(&node, &[&volume]);
    }
}

#[test]
fn two_lives_with_full_folders() {
    needs!(mounts);
    two_lives(Fault::Full, &PLACES);
}

#[test]
fn two_lives_with_read_only_folders() {
    needs!(mounts);
    two_lives(Fault::ReadOnly, &PLACES);
}

#[test]
fn two_lives_with_folders_that_are_gone() {
    needs!(mounts);
    two_lives(Fault::Gone, &PLACES);
}

/// The run folder is in memory, and the links are too: no disk of theirs can hang.
#[test]
fn two_lives_with_a_log_that_hangs() {
    needs!(mounts);
    let places = [Place::Log, Place::State];
    two_lives(Fault::Hanging, &places[..either(1, 2)]);
}

#[test]
fn two_lives_with_a_page_of_metrics_that_hangs() {
    needs!(mounts);
    two_lives(Fault::Hanging, &[Place::Metrics]);
}

fn incident(fault: Fault, places: &[Place]) {
    /// A heal gets a part of the deadline for pods, and other tests keep the machine busy.
    const TIME_TO_HEAL: u64 = 10;
    for place in places {
        let node = Node::new();
        let mut trouble = Trouble::ready(&node, &place.folder(&node), fault);
        if *place != Place::Metrics {
            std::fs::create_dir_all(Place::Metrics.folder(&node)).unwrap();
        }
        let configuration = configuration(&node, fault, TIME_TO_HEAL);
        let Scene { node, volume, pod, mut container } =
            scene().on(&node).configured(&configuration).start();
        let is_needed = place.is_needed_in_the_incident();

        trouble.begin();
        let answer = Running::start(node.command(volume.unstage())).answer(ANSWERED);
        let answer = answer.expect("the process did not end");
        let message = answer.json["message"].as_str().unwrap_or_default();
        let folder = place.folder(&node);
        let is_about_it = is_needed && message.contains(folder.to_str().unwrap());
        assert_eq!(answer.json["status"], "Failure", "{fault:?} {place:?}: {}", answer.text);
        // Without the run folder the pod's name is forgotten, and not the pod.
        let is_named = message.contains("orders-0") || message.contains(pod.uid());
        assert!(is_named || is_about_it, "{fault:?} {place:?}: {message}");
        assert_eq!(layers_at(&volume.global()), 1);
        container.must_write_on(3);
        trouble.end();

        if *place == Place::Links {
            // As udev would: the link comes back.
            node.must(volume.attach());
        }
        pull(&volume, &mut container);
        trouble.begin();
        if is_done(&node, &volume.attach(), *place, is_needed).is_some() && !is_needed {
            goes_on(&mut container, 3);
        }
        trouble.end();
        // Without its memory an attach knows of no mount; the call that comes next looks at all.
        for call in [volume.attach(), volume.stage()] {
            eventually("it goes on", || node.call(&call).json["status"] == "Success");
        }
        goes_on(&mut container, 3);
        volume.take_away_with(&pod, container);
        drop(trouble);
        nothing_is_left(&node, &[&volume]);
    }
}

#[test]
fn the_incident_with_full_folders() {
    needs!(pods);
    incident(Fault::Full, &PLACES);
}

#[test]
fn the_incident_with_read_only_folders() {
    needs!(pods);
    incident(Fault::ReadOnly, &PLACES);
}

#[test]
fn the_incident_with_folders_that_are_gone() {
    needs!(pods);
    incident(Fault::Gone, &PLACES);
}

#[test]
fn the_incident_with_folders_that_hang() {
    needs!(pods);
    incident(Fault::Hanging, &[Place::State, Place::Log, Place::Metrics]);
}
