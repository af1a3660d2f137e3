//! Each folder that the driver uses is full or gone: under each call of two lives of a volume, and under the incident.
//!
//! The rule: a success is true; a failure names the folder; what needs the folder not, is done; and when
//! the trouble is over the same call succeeds, with the data that was there.

use super::{LIFE, Step, either, keeps_data};
use crate::checks::{eventually, layers_at, nothing_is_left};
use crate::heal::{goes_on, pull};
use crate::scene::{Scene, scene};
use crate::support::{Answer, Node, with_files};
use crate::volume::{Call, POD, Volume};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Full,
    Gone,
}

/// A folder that can have it, with nothing in it yet.
struct Trouble {
    fault: Fault,
    folder: PathBuf,
}

impl Trouble {
    #[track_caller]
    fn ready(folder: &Path, fault: Fault) -> Self {
        fs::create_dir_all(folder).unwrap();
        if fault == Fault::Full {
            let flags = MsFlags::empty();
            mount(Some("tmpfs"), folder, Some("tmpfs"), flags, Some("size=1m")).unwrap();
        }
        Self { fault, folder: folder.to_path_buf() }
    }

    #[track_caller]
    fn begin(&self) {
        match self.fault {
            Fault::Full => with_files(|| {
                let mut filler = fs::File::create(self.folder.join(".filler")).unwrap();
                while filler.write_all(&[7; 4096]).is_ok() {}
            }),
            Fault::Gone => fs::remove_dir_all(&self.folder).unwrap(),
        }
    }

    #[track_caller]
    fn end(&self) {
        match self.fault {
            Fault::Full => fs::remove_file(self.folder.join(".filler")).unwrap(),
            Fault::Gone => fs::create_dir_all(&self.folder).unwrap(),
        }
    }
}

impl Drop for Trouble {
    fn drop(&mut self) {
        if self.fault == Fault::Full {
            let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        }
    }
}

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

fn configuration(node: &Node) -> String {
    format!("[metrics]\ntextfile = \"{}\"", Place::Metrics.folder(node).join("disk.prom").display())
}

/// What a call in trouble answers that is done.
#[track_caller]
fn done(node: &Node, call: &Call, place: Place, is_needed: bool) -> Option<Answer> {
    let answer = node.call(call);
    if answer.json["status"] == "Success" {
        return Some(answer);
    }
    let message = answer.json["message"].as_str().unwrap_or_default();
    assert!(is_needed, "{} does not need the {place:?}: {message}", call[0]);
    let folder = place.folder(node);
    assert!(message.contains(folder.to_str().unwrap()), "{} {place:?}: {message}", call[0]);
    None
}

fn two_lives(fault: Fault) {
    for place in PLACES {
        let node = Node::new();
        let trouble = Trouble::ready(&place.folder(&node), fault);
        fs::create_dir_all(Place::Metrics.folder(&node)).unwrap();
        node.configure(&configuration(&node));
        let volume = Volume::create(&node, "ext4", "64M");
        for life in 0..2 {
            for step in LIFE {
                step.prepare(&volume);
                let call = step.call(&volume);
                trouble.begin();
                for _ in 0..either(1, 2) {
                    if let Some(answer) = done(&node, &call, place, place.is_needed()) {
                        step.is_true(&volume, &answer.json);
                    }
                    assert!(layers_at(&volume.global()) < 2 && layers_at(&volume.pod(POD)) < 2);
                }
                trouble.end();
                if place == Place::Links && fault == Fault::Gone && step != Step::Detach {
                    // As udev would: the links come back.
                    node.must(volume.attach());
                }
                step.is_true(&volume, &node.must(&call));
                keeps_data(&volume, step, life);
            }
        }
        volume.must_be_sound();
        drop(trouble);
        nothing_is_left(&node, &[&volume]);
    }
}

#[test]
fn two_lives_with_full_folders() {
    needs!(mounts);
    two_lives(Fault::Full);
}

#[test]
fn two_lives_with_folders_that_are_gone() {
    needs!(mounts);
    two_lives(Fault::Gone);
}

fn incident(fault: Fault) {
    for place in PLACES {
        let node = Node::new();
        let trouble = Trouble::ready(&place.folder(&node), fault);
        fs::create_dir_all(Place::Metrics.folder(&node)).unwrap();
        let Scene { node, volume, pod, mut container } =
            scene().on(&node).configured(&configuration(&node)).start();
        let is_needed = place.is_needed_in_the_incident();

        trouble.begin();
        let message = node.fails(volume.unstage());
        let folder = place.folder(&node);
        let is_about_it = is_needed && message.contains(folder.to_str().unwrap());
        // Without the run folder the pod's name is forgotten, and not the pod.
        let is_named = message.contains("orders-0") || message.contains(pod.uid());
        assert!(is_named || is_about_it, "{fault:?} {place:?}: {message}");
        assert_eq!(layers_at(&volume.global()), 1);
        container.must_write_on(3);
        trouble.end();

        if place == Place::Links {
            // As udev would: the link comes back.
            node.must(volume.attach());
        }
        pull(&volume, &mut container);
        trouble.begin();
        if done(&node, &volume.attach(), place, is_needed).is_some() && !is_needed {
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
    incident(Fault::Full);
}

#[test]
fn the_incident_with_folders_that_are_gone() {
    needs!(pods);
    incident(Fault::Gone);
}
