//! The verbs of people: what they do is struck at each of its system calls too.

use super::play::{End, Play, Scene, SetUp};
use super::support::pods::{Container, Naming, Pod, pods_are_possible};
use super::support::{loop_devices_below, output_of};
use super::trace::Traced;
use super::volume::{Kind, State, Templates, Volume, data, eventually};
use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

pub fn plays() -> Vec<Play> {
    let mut plays = Vec::new();
    let mut add = |name: String, follow_ups: &'static [&'static str], set_up: SetUp| {
        let (demand, baseline) = (None, End::Success);
        plays.push(Play { name, follow_ups, demand, baseline, set_up });
    };
    for fs_type in FILE_SYSTEMS {
        for kind in [Kind::Local, Kind::Openstack] {
            if kind == Kind::Local || fs_type == "ext4" {
                add(
                    format!("force/{fs_type}/{}", kind.name()),
                    &["same", "release", "attach"],
                    Box::new(move |templates| Forced::set_up(templates, kind, fs_type)),
                );
            }
        }
        add(
            format!("newformat/{fs_type}/local"),
            &["same", "mountdevice", "release"],
            Box::new(move |templates| Renewed::set_up(templates, fs_type)),
        );
        if pods_are_possible("steps") {
            for verb in ["heal", "healbyattach"] {
                for kind in [Kind::Local, Kind::Openstack] {
                    add(
                        format!("{verb}/{fs_type}/{}", kind.name()),
                        &["same", "attach", "unmount", "release"],
                        Box::new(move |_| Pulled::set_up(verb, kind, fs_type)),
                    );
                }
            }
        }
    }
    let looks: [(&str, &'static [&'static str]); 3] =
        [("status", &["status", "--json"]), ("explain", &["explain"]), ("formatlook", &["format"])];
    for (name, words) in looks {
        let set_up: SetUp = Box::new(move |templates| Looked::set_up(templates, name, words));
        add(format!("{name}/ext4/local"), &["same"], set_up);
    }
    plays
}

/// A verb ends with its exit status, and one that fails says why.
#[track_caller]
fn end_of_verb(traced: &Traced) -> End {
    match traced.status {
        Some(0) => End::Success,
        // Its words could not be written.
        Some(_) if traced.text.is_empty() => End::Silent,
        Some(_) => {
            let said = traced.text.trim();
            assert!(said.len() > 20 && !said.contains("panicked"), "why? {said:?}");
            End::Failure
        }
        None => End::Silent,
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// The same verb until it succeeds, as a person would.
#[track_caller]
fn insist(volume: &Volume, verb: &[&str]) -> String {
    let mut said = String::new();
    for _ in 0..5 {
        match volume.verb(verb) {
            Ok(said) => return said,
            Err(why) => said = why,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("disk {} does not come through: {said}", verb.join(" "));
}

/// `disk detach --force`, of a volume that a pod has.
struct Forced {
    volume: Volume,
}

impl Forced {
    fn set_up(templates: &Templates, kind: Kind, fs_type: &'static str) -> Box<dyn Scene> {
        let volume = templates.volume(kind, fs_type, true);
        volume.bring_to(State::Published);
        Box::new(Self { volume })
    }
}

impl Scene for Forced {
    fn command(&self) -> Command {
        self.volume.command(&words(["detach", "--force", &self.volume.pv]))
    }

    fn volume(&self) -> Option<&Volume> {
        Some(&self.volume)
    }

    /// A person sees that it was ended.
    fn must_answer(&self) -> bool {
        false
    }

    fn end_of(&self, traced: &Traced) -> End {
        end_of_verb(traced)
    }

    fn must_be_so(&mut self, _said: &str) {
        self.volume.must_be_away();
    }

    fn go_on(&mut self, follow_up: &str) {
        let volume = &self.volume;
        match follow_up {
            "same" => {
                insist(volume, &["detach", "--force", &volume.pv]);
                volume.must_be_away();
            }
            "release" => {
                volume.release();
                volume.must_be_detached();
            }
            _ => volume.through(follow_up),
        }
        volume.lives_on(true);
    }
}

/// `disk format --yes`, of a disk with data that a person gives up.
struct Renewed {
    volume: Volume,
}

impl Renewed {
    fn set_up(templates: &Templates, fs_type: &'static str) -> Box<dyn Scene> {
        let volume = templates.volume(Kind::Local, fs_type, true);
        volume.bring_to(State::Attached);
        Box::new(Self { volume })
    }

    fn words(&self) -> Vec<String> {
        words(["format", &self.volume.id, "--fs-type", self.volume.fs_type, "--yes"])
    }
}

impl Scene for Renewed {
    fn command(&self) -> Command {
        self.volume.command(&self.words())
    }

    fn volume(&self) -> Option<&Volume> {
        Some(&self.volume)
    }

    fn must_answer(&self) -> bool {
        false
    }

    fn end_of(&self, traced: &Traced) -> End {
        end_of_verb(traced)
    }

    fn must_be_so(&mut self, _said: &str) {
        super::volume::must_be_sound(&self.volume.image());
    }

    fn go_on(&mut self, follow_up: &str) {
        let volume = &self.volume;
        let again = self.words();
        let again: Vec<_> = again.iter().map(String::as_str).collect();
        match follow_up {
            "same" => drop(insist(volume, &again)),
            "release" => volume.release(),
            _ => {}
        }
        volume.bring_to(State::Attached);
        if let Err(said) = volume.repeat("mountdevice") {
            // Half of what was given up looks like a user's data.
            let end = format!("disk format {}", volume.id);
            assert!(follow_up != "same" && said.contains(&end), "without an end: {said}");
            insist(volume, &again);
        }
        volume.bring_to(State::Published);
        // The old file system, whole, or a new one.
        let file = volume.pod().join("data");
        assert!(!file.exists() || fs::read(&file).expect("the file") == data(), "half a file");
        volume.lives_on(false);
    }
}

/// A verb that looks: nothing is other than before, and it never says that bad is good.
struct Looked {
    volume: Volume,
    name: &'static str,
    words: Vec<String>,
    before: String,
}

impl Looked {
    fn set_up(
        templates: &Templates,
        name: &'static str,
        verb: &'static [&'static str],
    ) -> Box<dyn Scene> {
        let volume = templates.volume(Kind::Local, "ext4", true);
        let is_format = name == "formatlook";
        volume.bring_to(if is_format { State::Attached } else { State::Published });
        let mut words: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
        if name != "status" {
            words.push(volume.id.clone());
        }
        let mut scene = Self { volume, name, words, before: String::new() };
        scene.before = scene.now();
        Box::new(scene)
    }

    /// Its mounts and its disk's contents.
    fn now(&self) -> String {
        let table = fs::read_to_string("/proc/thread-self/mountinfo").expect("the mounts");
        let base = self.volume.base();
        let ours: Vec<_> = table.lines().filter(|line| line.contains(&base)).collect();
        let sum = output_of(Command::new("sha256sum").arg(self.volume.image()));
        format!("{ours:?} {}", String::from_utf8_lossy(&sum.stdout))
    }
}

impl Scene for Looked {
    fn command(&self) -> Command {
        self.volume.command(&self.words)
    }

    fn volume(&self) -> Option<&Volume> {
        Some(&self.volume)
    }

    fn must_answer(&self) -> bool {
        false
    }

    fn end_of(&self, traced: &Traced) -> End {
        let end = end_of_verb(traced);
        assert!(self.now() == self.before, "who only looks has changed something");
        end
    }

    fn must_be_so(&mut self, said: &str) {
        if self.name == "status" {
            let all: serde_json::Value = serde_json::from_str(said).expect("JSON");
            let volumes = all["volumes"].as_array().expect("a list");
            let is_ours = |one: &&serde_json::Value| one["id"] == self.volume.id.as_str();
            let is_told = volumes.iter().any(|one| is_ours(&one));
            // Who could not see all says so, and does not leave a volume out in silence.
            assert!(is_told || said.contains("annot") || said.contains("unknown"), "{said}");
        }
    }

    fn go_on(&mut self, _follow_up: &str) {
        let verb: Vec<_> = self.words.iter().map(String::as_str).collect();
        insist(&self.volume, &verb);
        assert!(self.now() == self.before, "who only looks has changed something");
        self.volume.lives_on(true);
    }
}

/// A running pod's volume whose disk went and came back: `disk heal` puts it right, or attach does.
struct Pulled {
    verb: &'static str,
    container: Option<Container>,
    volume: Volume,
}

impl Pulled {
    fn set_up(verb: &'static str, kind: Kind, fs_type: &'static str) -> Box<dyn Scene> {
        let pod = Pod::new(Naming::Systemd);
        let mut volume = Volume::create(kind, fs_type);
        pod.uid().clone_into(&mut volume.uid);
        volume.bring_to(State::Published);
        super::support::with_files(|| {
            let mut file = fs::File::create(volume.pod().join("data")).expect("a file");
            file.write_all(&data()).and_then(|()| file.sync_all()).expect("flushed");
        });
        let mut container = pod.container_with(&volume.pod());
        container.write("/data/log", Duration::from_millis(2));
        container.must_write_on(3);
        volume.pull();
        let before = container.report().errors;
        eventually(|| container_errors(&mut container) > before, || "writes succeed".to_owned());
        if verb == "heal" {
            // The disk is back, and nothing has healed it yet.
            volume.configure(&["heal.mode = \"off\"".to_owned()]);
            volume.through("attach");
            volume.configure(&[]);
        }
        Box::new(Self { verb, container: Some(container), volume })
    }

    /// What it writes comes to the new disk.
    #[track_caller]
    fn writes_go_on(&mut self) {
        let container = self.container.as_mut().expect("it runs");
        let before = container.report();
        eventually(
            || container.report().writes > before.writes + 3,
            || "healed, and the container's writes fail".to_owned(),
        );
    }
}

fn container_errors(container: &mut Container) -> u64 {
    container.report().errors
}

impl Scene for Pulled {
    fn command(&self) -> Command {
        match self.verb {
            "heal" => self.volume.command(&words(["heal", &self.volume.id])),
            _ => self.volume.command(&self.volume.call("attach")),
        }
    }

    fn volume(&self) -> Option<&Volume> {
        Some(&self.volume)
    }

    fn must_answer(&self) -> bool {
        self.verb != "heal"
    }

    fn end_of(&self, traced: &Traced) -> End {
        match self.verb {
            "heal" => end_of_verb(traced),
            _ => super::kubelet::end_of_call(&self.volume, traced),
        }
    }

    fn must_be_so(&mut self, _said: &str) {
        // An attach has the disk; what it heals besides may be finished by the next.
        if self.verb == "heal" {
            self.writes_go_on();
        } else {
            assert!(self.volume.has_disk(), "Success, and no disk");
        }
    }

    fn go_on(&mut self, follow_up: &str) {
        match follow_up {
            "same" if self.verb == "heal" => {
                insist(&self.volume, &["heal", &self.volume.id]);
                self.writes_go_on();
            }
            "same" | "attach" => {
                self.volume.through("attach");
                self.writes_go_on();
            }
            _ => {}
        }
        // The pod ends.
        drop(self.container.take());
        if follow_up == "release" {
            self.volume.release();
        } else {
            self.volume.through("unmount");
        }
        self.volume.take_away();
        let base = self.volume.node.base();
        let left = || loop_devices_below(&base);
        eventually(|| left().is_empty(), || format!("left: {:?}", left()));
        // A pulled disk's journal is replayed first.
        self.volume.lives_on(true);
    }
}
