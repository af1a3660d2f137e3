//! What must not be done is not done, whatever fails while it is looked at: a question that was not
//! answered is no permission.

use super::kubelet::{end_of_call, hurry_with};
use super::play::{End, Play, Scene};
use super::server::Fault;
use super::support::pods::{Container, Naming, Pod, pods_are_possible};
use super::support::{Answer, output_of, with_files};
use super::trace::Traced;
use super::volume::{Kind, State, Templates, Volume};
use nix::mount::{MntFlags, umount2};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};
use std::fs;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
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
    /// The first unmount of a second incident: the refusal of the first one has lasted long enough.
    Again,
    /// An unmount of a disk that is in use by what no table shows.
    Hidden,
    /// An attach of what the cloud never ends to attach elsewhere, and then does not answer any more.
    Stuck,
    /// An attach while the cloud does not end its answers.
    Endless,
}

const REASONS: [(&str, Reason); 9] = [
    ("refuseddetach", Reason::Mounted),
    ("refusedunmountdevice", Reason::Written),
    ("foreignhead", Reason::Foreign(0)),
    ("foreignmiddle", Reason::Foreign(11 << 20)),
    ("refusedattach", Reason::Elsewhere),
    ("refusedagain", Reason::Again),
    ("refusedhidden", Reason::Hidden),
    ("refusedstuck", Reason::Stuck),
    ("refusedendless", Reason::Endless),
];

impl Reason {
    fn needs_pods(self) -> bool {
        matches!(self, Self::Written | Self::Again)
    }

    /// What is on a disk, who uses it and since when does not depend on whose disk it is.
    fn is_played_on(self, kind: Kind) -> bool {
        match self {
            Self::Foreign(_) | Self::Again | Self::Hidden => kind == Kind::Local,
            Self::Stuck | Self::Endless => kind == Kind::Openstack,
            _ => true,
        }
    }

    /// The settings of the call that is struck.
    fn settings(self) -> Vec<String> {
        let lines: &[&str] = match self {
            Self::Again => &["guard.give_up_after = 1"],
            Self::Stuck => &["deadline.attach = 3"],
            _ => &[],
        };
        lines.iter().map(|line| (*line).to_owned()).collect()
    }
}

/// An open file that is under way between two processes: it keeps the disk, and no table has it.
fn in_flight(path: &Path) -> [OwnedFd; 2] {
    let (one, two) =
        socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_CLOEXEC)
            .expect("two sockets");
    with_files(|| {
        let file = fs::File::open(path).expect("the application's file");
        let files = [file.as_raw_fd()];
        let message = [ControlMessage::ScmRights(&files)];
        sendmsg::<()>(one.as_raw_fd(), &[IoSlice::new(b"x")], &message, MsgFlags::empty(), None)
            .expect("sent");
    });
    [one, two]
}

pub fn plays() -> Vec<Play> {
    let mut plays = Vec::new();
    for (name, reason) in REASONS {
        if reason.needs_pods() && !pods_are_possible("steps") {
            continue;
        }
        for kind in [Kind::Local, Kind::Openstack] {
            if !reason.is_played_on(kind) {
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
    flight: Option<[OwnedFd; 2]>,
    volume: Volume,
    before: String,
    /// The machine's own mount may be off: the exclusive open has found who is closed to us, and has
    /// kept the disk. The pod has its own.
    is_closed: bool,
}

impl Refused {
    fn set_up(templates: &Templates, kind: Kind, reason: Reason) -> Box<dyn Scene> {
        let is_foreign = matches!(reason, Reason::Foreign(_));
        let mut volume = templates.volume(kind, "ext4", !is_foreign);
        let (mut container, mut flight) = (None, None);
        match reason {
            Reason::Mounted => volume.bring_to(State::Published),
            Reason::Written | Reason::Again => {
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
            Reason::Hidden => {
                volume.bring_to(State::Staged);
                flight = Some(in_flight(&volume.global().join("data")));
                // By a person.
                umount2(&volume.global(), MntFlags::MNT_DETACH).expect("unmounted");
            }
            Reason::Stuck => {
                let mut world = volume.cloud().expect("a cloud").world();
                let other = world.server_id("node-b");
                world.storage_lists(&volume.id, &other, "attaching");
                world.volume_mut(&volume.id).set_status("attaching");
            }
            Reason::Endless => {
                let answers = Fault::on("*", "/**").service("volume");
                volume.cloud().expect("a cloud").fault(answers.always().endless());
            }
        }
        volume.configure(&reason.settings());
        if reason == Reason::Again {
            let answer = volume.ask("unmountdevice");
            assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
            // It is wanted again, and the next incident comes later.
            volume.through("mountdevice");
            std::thread::sleep(Duration::from_millis(1100));
        }
        let mut scene =
            Self { reason, container, flight, volume, before: String::new(), is_closed: false };
        scene.before = scene.now();
        Box::new(scene)
    }

    /// What must be the same after it.
    fn now(&self) -> String {
        let volume = &self.volume;
        match self.reason {
            Reason::Mounted | Reason::Written | Reason::Again | Reason::Hidden => {
                let mounts = [volume.pod(), volume.global()].map(|at| volume.is_mounted(&at));
                format!("mounted: {mounts:?}, with its disk: {}", volume.has_disk())
            }
            Reason::Foreign(_) => {
                let sum = output_of(Command::new("sha256sum").arg(volume.image()));
                String::from_utf8_lossy(&sum.stdout).into_owned()
            }
            Reason::Elsewhere => volume.ask_of("isattached", "node-b").json["attached"].to_string(),
            Reason::Stuck | Reason::Endless => {
                let world = volume.cloud().expect("a cloud").world();
                format!("{:?}", world.storage.volume(&volume.id).expect("the volume").servers())
            }
        }
    }

    fn call(&self) -> &'static str {
        match self.reason {
            Reason::Mounted => "detach",
            Reason::Written | Reason::Again | Reason::Hidden => "unmountdevice",
            Reason::Foreign(_) => "mountdevice",
            Reason::Elsewhere | Reason::Stuck | Reason::Endless => "attach",
        }
    }

    #[track_caller]
    fn must_be_as_before(&mut self) {
        let now = self.now();
        let is_kept = self.is_closed && now.contains("[true, false]") && now.contains("disk: true");
        assert!(now == self.before || is_kept, "refused, and another than before: {now}");
        if let Some(container) = &mut self.container {
            container.must_write_on(2);
        }
    }
}

impl Scene for Refused {
    fn command(&self) -> Command {
        let mut command = self.volume.command(&self.volume.call(self.call()));
        if self.reason == Reason::Endless {
            bound_memory(&mut command);
        }
        command
    }

    fn hurry(&self, is_on: bool) {
        hurry_with(&self.volume, is_on, self.reason.settings());
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

    fn was_closed(&mut self) {
        self.is_closed = matches!(self.reason, Reason::Written | Reason::Again);
    }

    fn go_on(&mut self, _follow_up: &str) {
        self.must_be_as_before();
        self.volume.configure(&[]);
        if self.reason == Reason::Stuck {
            // It is seen, and then the cloud says nothing more.
            self.volume.configure(&self.reason.settings());
            let silent = Fault::on("GET", "/volumes/*").nth(2).always();
            let silent = silent.delay(Duration::from_secs(20));
            self.volume.cloud().expect("a cloud").fault(silent);
        }
        // Now that nothing fails any more it is refused as ever.
        let answer = Answer::of(self.command());
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        self.must_be_as_before();
        // And what is in the way goes.
        drop(self.container.take());
        drop(self.flight.take());
        self.volume.configure(&[]);
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
            Reason::Stuck => {
                let is_told = answer.text.contains("attaching");
                assert!(is_told, "what was seen is not told: {}", answer.text);
                let cloud = volume.cloud().expect("a cloud");
                let mut world = cloud.world();
                world.faults.clear();
                let found = world.volume_mut(&volume.id);
                found.attachments.clear();
                found.set_status("available");
            }
            Reason::Endless => {
                let is_told = answer.text.contains("does not end its answer");
                assert!(is_told, "what is wrong is not told: {}", answer.text);
                volume.cloud().expect("a cloud").world().faults.clear();
            }
            _ => {}
        }
        if volume.pod().exists() || volume.global().exists() {
            volume.take_away();
        }
        volume.lives_on(!matches!(self.reason, Reason::Foreign(_)));
    }
}

/// A call that takes in all that it is sent comes to this bound, and dies without an answer.
#[allow(unsafe_code)]
fn bound_memory(command: &mut Command) {
    use nix::libc::{RLIMIT_DATA, rlimit, setrlimit};
    use std::os::unix::process::CommandExt;
    let most = rlimit { rlim_cur: 400 << 20, rlim_max: 400 << 20 };
    let bound = move || {
        // SAFETY: the kernel reads one structure, which lives until it returns.
        match unsafe { setrlimit(RLIMIT_DATA, &raw const most) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the child makes one system call before its exec.
    unsafe { command.pre_exec(bound) };
}
