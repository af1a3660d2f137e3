//! What must not be done is not done, whatever fails while it is looked at: a question that was not
//! answered is no permission.

use super::kubelet::end_of_call;
use super::play::{End, Play, Scene};
use super::support::output_of;
use super::support::pods::{Container, Naming, Pod, pods_are_possible};
use super::trace::Traced;
use super::volume::{Kind, State, Templates, Volume};
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

/// Why the call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// A detach of what is mounted.
    Mounted,
    /// An unmount of the disk while a container writes.
    Written,
    /// A mount of a disk that holds bytes at this place.
    Foreign(u64),
    /// An attach of what another server has.
    Elsewhere,
}

const REASONS: [(&str, Reason); 5] = [
    ("refuseddetach", Reason::Mounted),
    ("refusedunmountdevice", Reason::Written),
    ("foreignhead", Reason::Foreign(0)),
    ("foreignmiddle", Reason::Foreign(11 << 20)),
    ("refusedattach", Reason::Elsewhere),
];

pub fn plays() -> Vec<Play> {
    let mut plays = Vec::new();
    for (name, reason) in REASONS {
        if reason == Reason::Written && !pods_are_possible("steps") {
            continue;
        }
        for kind in [Kind::Local, Kind::Openstack] {
            // What is on a disk does not depend on whose it is.
            if kind == Kind::Openstack && matches!(reason, Reason::Foreign(_)) {
                continue;
            }
            plays.push(Play {
                name: format!("{name}/ext4/{}", kind.name()),
                follow_ups: &["same"],
                demand: None,
                baseline: End::Failure,
                set_up: Box::new(move |templates| Refused::set_up(templates, kind, reason)),
            });
        }
    }
    plays
}

struct Refused {
    reason: Reason,
    container: Option<Container>,
    volume: Volume,
    before: String,
}

impl Refused {
    fn set_up(templates: &Templates, kind: Kind, reason: Reason) -> Box<dyn Scene> {
        let is_foreign = matches!(reason, Reason::Foreign(_));
        let mut volume = templates.volume(kind, "ext4", !is_foreign);
        let mut container = None;
        match reason {
            Reason::Mounted => volume.bring_to(State::Published),
            Reason::Written => {
                let pod = Pod::new(Naming::Systemd);
                pod.uid().clone_into(&mut volume.uid);
                volume.bring_to(State::Published);
                let mut writer = pod.container_with(&volume.pod());
                writer.write("/data/log", Duration::from_millis(5));
                container = Some(writer);
            }
            Reason::Foreign(at) => {
                let image = fs::File::options().write(true).open(volume.image());
                let image = image.expect("the image");
                image.write_all_at(b"LUKS\xba\xbe and more of another's", at).expect("written");
                volume.bring_to(State::Attached);
            }
            Reason::Elsewhere => {
                let answer = volume.ask_of("attach", "node-b");
                assert_eq!(answer.json["status"], "Success", "{}", answer.text);
            }
        }
        let mut scene = Self { reason, container, volume, before: String::new() };
        scene.before = scene.now();
        Box::new(scene)
    }

    /// What must be the same after it.
    fn now(&self) -> String {
        let volume = &self.volume;
        match self.reason {
            Reason::Mounted | Reason::Written => {
                let mounts = [volume.pod(), volume.global()].map(|at| volume.is_mounted(&at));
                format!("mounted: {mounts:?}, with its disk: {}", volume.has_disk())
            }
            Reason::Foreign(_) => {
                let sum = output_of(Command::new("sha256sum").arg(volume.image()));
                String::from_utf8_lossy(&sum.stdout).into_owned()
            }
            Reason::Elsewhere => volume.ask_of("isattached", "node-b").json["attached"].to_string(),
        }
    }

    fn call(&self) -> &'static str {
        match self.reason {
            Reason::Mounted => "detach",
            Reason::Written => "unmountdevice",
            Reason::Foreign(_) => "mountdevice",
            Reason::Elsewhere => "attach",
        }
    }

    #[track_caller]
    fn must_be_as_before(&mut self) {
        assert_eq!(self.now(), self.before, "refused, and another than before");
        if let Some(container) = &mut self.container {
            container.must_write_on(2);
        }
    }
}

impl Scene for Refused {
    fn command(&self) -> Command {
        self.volume.command(&self.volume.call(self.call()))
    }

    fn volume(&self) -> Option<&Volume> {
        Some(&self.volume)
    }

    fn end_of(&self, traced: &Traced) -> End {
        end_of_call(&self.volume, traced)
    }

    fn must_be_so(&mut self, said: &str) {
        panic!("{} went through, although {:?}: {said}", self.call(), self.reason);
    }

    fn go_on(&mut self, _follow_up: &str) {
        self.must_be_as_before();
        // Now that nothing fails any more it is refused as ever.
        let answer = self.volume.ask(self.call());
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        self.must_be_as_before();
        // And what is in the way goes.
        drop(self.container.take());
        let volume = &self.volume;
        match self.reason {
            Reason::Elsewhere => {
                let answer = volume.ask_of("detach", "node-b");
                assert_eq!(answer.json["status"], "Success", "{}", answer.text);
            }
            Reason::Foreign(_) => {
                let end = format!("disk format {}", volume.id);
                assert!(answer.text.contains(&end), "a refusal without an end: {}", answer.text);
                let made = volume.verb(&["format", &volume.id, "--yes"]);
                assert!(made.is_ok(), "{end}: {made:?}");
            }
            _ => {}
        }
        if volume.pod().exists() {
            volume.take_away();
        }
        volume.lives_on(!matches!(self.reason, Reason::Foreign(_)));
    }
}
