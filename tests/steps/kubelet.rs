//! The calls of kubelet and the controller-manager.

use super::play::{Demand, End, Play, Scene};
use super::trace::Traced;
use super::volume::{Kind, State, Templates, Volume};
use std::process::Command;

/// A call with the state that it begins in, and what may follow it.
#[derive(Debug, Clone, Copy)]
struct Step {
    name: &'static str,
    call: &'static str,
    from: State,
    /// Whether the volume has data; otherwise it is new, without a file system.
    has_data: bool,
    follow_ups: &'static [&'static str],
}

const fn step(name: &'static str, from: State, follow_ups: &'static [&'static str]) -> Step {
    Step { name, call: name, from, has_data: true, follow_ups }
}

const STEPS: &[Step] = &[
    step("attach", State::Created, &["same", "detach", "release"]),
    step("waitforattach", State::Attached, &["same", "detach"]),
    step("isattached", State::Attached, &["same", "detach"]),
    step("mountdevice", State::Attached, &["same", "unmountdevice", "release", "force"]),
    step("mount", State::Staged, &["same", "unmount", "release", "force"]),
    step("expandfs", State::Published, &["same", "unmount", "release"]),
    step("unmount", State::Published, &["same", "mount", "release", "force"]),
    step("unmountdevice", State::Staged, &["same", "mountdevice", "release"]),
    step("detach", State::Attached, &["same", "attach", "release"]),
    Step {
        name: "format",
        call: "mountdevice",
        from: State::Attached,
        has_data: false,
        follow_ups: &["same", "unmountdevice", "release", "force"],
    },
];

/// The call that takes the last mount away hears of what could not be written; after that it is too late.
fn demand(name: &str) -> Option<Demand> {
    (name == "unmountdevice").then_some(Demand { call: "syncfs" })
}

/// What knows nothing of file systems is played with one of them.
fn is_played(step: Step, kind: Kind, fs_type: &str) -> bool {
    match step.name {
        "attach" | "waitforattach" | "isattached" | "detach" => fs_type == "ext4",
        // A machine that lends its root no right to grow an ext4 cannot play that.
        "expandfs" => fs_type == "xfs" || may_grow_ext4(),
        "mount" | "unmount" | "unmountdevice" => kind == Kind::Local || fs_type == "ext4",
        _ => true,
    }
}

/// Bit 24 of the effective capabilities, `CAP_SYS_RESOURCE`: ext4 asks for it, xfs does not.
fn may_grow_ext4() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits >> 24 & 1 == 1)
}

pub fn plays() -> Vec<Play> {
    let mut plays = Vec::new();
    for step in STEPS {
        for kind in [Kind::Local, Kind::Openstack] {
            for fs_type in ["ext4", "xfs"] {
                if is_played(*step, kind, fs_type) {
                    plays.push(Play {
                        name: format!("{}/{fs_type}/{}", step.name, kind.name()),
                        follow_ups: step.follow_ups,
                        demand: demand(step.name),
                        baseline: End::Success,
                        set_up: Box::new(move |templates| set_up(*step, kind, fs_type, templates)),
                    });
                }
            }
        }
    }
    plays
}

fn set_up(step: Step, kind: Kind, fs_type: &'static str, templates: &Templates) -> Box<dyn Scene> {
    let volume = templates.volume(kind, fs_type, step.has_data);
    volume.bring_to(step.from);
    Box::new(Called { volume, step })
}

/// Every call's name.
const CALLS: [&str; 9] = [
    "attach",
    "isattached",
    "waitforattach",
    "mountdevice",
    "mount",
    "expandfs",
    "unmount",
    "unmountdevice",
    "detach",
];

/// Gives all calls a short deadline, or takes it back.
pub fn hurry(volume: &Volume, is_on: bool) {
    hurry_with(volume, is_on, Vec::new());
}

/// The same, beside settings of the scene's own.
pub fn hurry_with(volume: &Volume, is_on: bool, mut settings: Vec<String>) {
    if is_on {
        settings.retain(|line| !line.starts_with("deadline."));
        settings.extend(CALLS.map(|call| format!("deadline.{call} = 1")));
    }
    volume.configure(&settings);
}

/// A reply to kubelet: one line of JSON and nothing else, and a Failure says of which volume and why.
#[track_caller]
pub fn end_of_call(volume: &Volume, traced: &Traced) -> End {
    let Ok(reply) = serde_json::from_str::<serde_json::Value>(&traced.text) else {
        let cut = traced.text.trim();
        assert!(cut.is_empty() || traced.status.is_none(), "not one JSON value: {cut:?}");
        return End::Silent;
    };
    assert!(traced.text.trim_end().lines().count() == 1, "not one line: {:?}", traced.text);
    match reply["status"].as_str() {
        Some("Success") => End::Success,
        Some("Failure") => {
            let said = reply["message"].as_str().unwrap_or_default();
            let is_named = said.contains(&volume.id) || said.contains(&volume.pv);
            assert!(is_named && said.len() > 60, "of which volume, and why? {said}");
            End::Failure
        }
        other => panic!("neither Success nor Failure: {other:?}"),
    }
}

struct Called {
    volume: Volume,
    step: Step,
}

impl Scene for Called {
    fn command(&self) -> Command {
        self.volume.command(&self.volume.call(self.step.call))
    }

    fn volume(&self) -> Option<&Volume> {
        Some(&self.volume)
    }

    fn end_of(&self, traced: &Traced) -> End {
        end_of_call(&self.volume, traced)
    }

    fn must_be_so(&mut self, said: &str) {
        must_be_so(&self.volume, self.step.call, self.step.has_data, Some(said));
    }

    fn go_on(&mut self, follow_up: &str) {
        let (volume, has_data) = (&self.volume, self.step.has_data);
        match follow_up {
            "release" => {
                volume.release();
                volume.must_be_detached();
                volume.nothing_is_left();
            }
            "force" => {
                let said = volume.verb(&["detach", "--force", &volume.pv]);
                assert!(said.is_ok(), "disk detach --force: {said:?}");
                volume.must_be_away();
            }
            other => {
                let call = if other == "same" { self.step.call } else { other };
                if !has_data && call == "mountdevice" {
                    ends_by_its_own_words(volume, "was interrupted on it");
                }
                volume.through(call);
                must_be_so(volume, call, has_data, None);
                if call == "detach" {
                    volume.nothing_is_left();
                }
            }
        }
        if !has_data && follow_up != "same" {
            let has_left = ["release", "force"].contains(&follow_up);
            ends_by_its_own_words(volume, if has_left { "" } else { "was interrupted on it" });
        }
        volume.lives_on(has_data);
    }
}

/// A half made file system may be data: it is refused, and the refusal says what ends it. As long as the disk has not
/// left it says so too that a mkfs was interrupted, and nothing else is refused.
#[track_caller]
fn ends_by_its_own_words(volume: &Volume, why: &str) {
    volume.restart_if_told();
    volume.bring_to(State::Attached);
    if let Err(said) = volume.repeat("mountdevice") {
        let end = format!("disk format {}", volume.id);
        assert!(said.contains(why) && said.contains(&end), "a refusal without an end: {said}");
        let made = volume.verb(&["format", &volume.id, "--fs-type", volume.fs_type, "--yes"]);
        assert!(made.is_ok(), "{end}: {made:?}");
    }
}

/// What the Success of a call says, and the words of it that were not looked at before.
#[track_caller]
fn must_be_so(volume: &Volume, call: &str, has_data: bool, said: Option<&str>) {
    let (global, pod) = (volume.global(), volume.pod());
    let reply = said.map(|said| serde_json::from_str::<serde_json::Value>(said).expect("JSON"));
    match call {
        "attach" | "waitforattach" => {
            assert!(volume.has_disk(), "Success, and no disk");
            if let Some(reply) = reply {
                let device = reply["device"].as_str().unwrap_or_default();
                let is_it = std::fs::canonicalize(device).is_ok_and(|path| volume.is_disk(&path));
                assert!(is_it, "Success, and another disk: {device}");
            }
        }
        "isattached" => {
            let is_true = reply.is_none_or(|reply| reply["attached"] == volume.has_disk());
            assert!(is_true, "Success, and not so: {said:?}");
        }
        "mountdevice" => assert!(volume.is_mounted(&global), "Success, and no mount"),
        "mount" => {
            assert!(volume.is_mounted(&pod), "Success, and no mount");
            if has_data {
                volume.must_have_data();
            }
        }
        "expandfs" => {
            let size = nix::sys::statvfs::statvfs(&pod).expect("the file system");
            let bytes = size.blocks() * size.fragment_size();
            assert!(bytes > volume.larger() / 100 * 82, "Success, and not larger: {bytes}");
        }
        "unmount" => assert!(!volume.is_mounted(&pod), "Success, and still mounted"),
        "unmountdevice" => assert!(!volume.is_mounted(&global), "Success, and still mounted"),
        "detach" => volume.must_be_detached(),
        other => panic!("no call {other}"),
    }
}
