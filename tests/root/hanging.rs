//! System calls that hang: kubelet has its answer in time and the process that it called is gone,
//! with its lock; what hangs is named, is not begun a second time, and ends with what it waits for.

use crate::checks::{eventually, layers_at, nothing_is_left, random_bytes};
use crate::files;
use crate::holders::{must_end, must_hang, state_of};
use crate::support::{Answer, FailingDisk, Node, spawn, with_files};
use crate::volume::{Call, POD, Volume, make_folder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Each call's own deadline.
pub const DEADLINE: u64 = 3;

/// The deadline, the moment that a call has for its own words, and a slow machine.
pub const ANSWERED: Duration = Duration::from_secs(DEADLINE + 2 + 6);

/// What a person waits for a break-glass.
pub const BROKEN: Duration = Duration::from_secs(25);

/// A volume with data whose disk can be made to hang.
pub struct Scene {
    pub volume: Volume,
    pub disk: FailingDisk,
    data: Vec<u8>,
}

/// What waits for the disk must come to its end before anything else of a failed test goes.
impl Drop for Scene {
    fn drop(&mut self) {
        self.disk.release();
    }
}

/// From here on calls have little time, so that the tests are quick.
pub fn hurry(node: &Node) {
    let calls =
        ["attach", "detach", "mountdevice", "unmountdevice", "mount", "unmount", "expandfs"];
    let lines = calls.map(|call| format!("{call} = {DEADLINE}\n")).concat();
    node.configure(&format!("[deadline]\n{lines}"));
}

impl Scene {
    /// Attached, and with this file system on it.
    #[track_caller]
    pub fn with(node: &Node, kind: &'static str, size: &str) -> Self {
        let volume = Volume::create(node, kind, size);
        let data = random_bytes(1 << 20);
        files::write_synced(&volume.bring_to_pod().join("data"), &data);
        volume.take_away();
        let disk = FailingDisk::over(&volume.image());
        node.must(volume.attach());
        make_folder(&volume.global());
        Self { volume, disk, data }
    }

    /// The disk hangs, and calls have little time.
    pub fn hangs(&self) {
        hurry(&self.volume.node);
        self.disk.hang();
    }

    /// The call runs until this step, and there the disk hangs.
    pub fn hangs_at(&self, call: &Call, step: &str) -> Running {
        hurry(&self.volume.node);
        let (running, held) = Running::held_at(&self.volume.node, call, step);
        self.disk.hang();
        fs::remove_file(held).unwrap();
        running
    }

    pub fn lock(&self) -> PathBuf {
        self.volume.node.own().join("run/locks").join(format!("{}.lock", self.volume.id))
    }

    /// All that is promised of a call that hangs, whatever it hangs in.
    #[track_caller]
    pub fn is_answered(&self, running: Running, words: &[&str]) -> Pid {
        let message = self.is_answered_with(running, words);
        let left = left_in(&message);
        must_hang(left);
        left
    }

    #[track_caller]
    fn is_answered_with(&self, running: Running, words: &[&str]) -> String {
        let Some(answer) = running.answer(ANSWERED) else { panic!("the process did not end") };
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        let message = answer.json["message"].as_str().unwrap();
        for word in words {
            assert!(message.contains(word), "{word}: {message}\n{}", self.volume.node.log());
        }
        assert!(!self.lock().exists(), "the lock is left");
        message.to_owned()
    }

    /// A later call does not hang beside it, and a person can give the disk up.
    #[track_caller]
    pub fn is_not_begun_again(&self, call: &Call, left: Pid) {
        let begin = Instant::now();
        let message = self.volume.node.fails(call);
        assert!(begin.elapsed() < Duration::from_secs(DEADLINE), "{:?}", begin.elapsed());
        let words = format!("an earlier call's process {left} hangs");
        assert!(message.contains(&words) && message.contains("detach --force"), "{message}");
        assert_eq!(self.lefts(), 1, "one more was left behind");
    }

    /// How many processes are written down.
    pub fn lefts(&self) -> usize {
        let text = fs::read_to_string(self.lock().with_extension("left")).unwrap_or_default();
        text.lines().count()
    }

    /// What hung took the signal: the disk answers again, and the next call does it all.
    #[track_caller]
    fn goes_on(self, call: &Call) {
        assert_eq!(self.lefts(), 0);
        self.disk.release();
        self.volume.node.configure("");
        self.volume.node.must(call);
        self.has_its_data();
        self.ends();
    }

    /// The disk answers again: what hung ends, and the next call finds nothing of it.
    #[track_caller]
    pub fn answers_again(&self, call: &Call, left: Pid) {
        self.disk.release();
        self.volume.node.configure("");
        must_end(left);
        self.volume.node.must(call);
        assert_eq!(self.lefts(), 0);
        assert!(!self.lock().with_extension("left").exists());
    }

    #[track_caller]
    pub fn has_its_data(&self) {
        let folder = self.volume.global();
        assert_eq!(layers_at(&folder), 1);
        assert!(files::read(folder.join("data")).unwrap() == self.data);
    }

    #[track_caller]
    pub fn ends(self) {
        let (node, image) = (&self.volume.node, self.volume.image());
        self.volume.take_away();
        nix::mount::umount2(&image, nix::mount::MntFlags::MNT_DETACH).unwrap();
        self.volume.must_be_sound();
        nothing_is_left(node, &[&self.volume]);
    }
}

/// A call that was started.
pub struct Running {
    pub child: Child,
    output: std::io::PipeReader,
}

impl Running {
    pub fn start(command: Command) -> Self {
        let (child, output) = spawn(command);
        Self { child, output }
    }

    /// A call that stands at this step, until the file is removed.
    #[track_caller]
    pub fn held_at(node: &Node, call: &Call, step: &str) -> (Self, PathBuf) {
        let held = node.base().join("held");
        let mut command = node.command(call);
        command.env("INCLOUD_DISK_SEAM", format!("{step}=hold:{}", held.display()));
        let running = Self::start(command);
        let begin = Instant::now();
        eventually("the call is at its step", || held.exists());
        // Its deadline runs: a failed test shows what of it was left.
        println!("it came to {step} in {:?}", begin.elapsed());
        (running, held)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Whether the process is gone in time.
    pub fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Its answer, if the process is gone in time and no process has its pipe any more.
    pub fn answer(mut self, limit: Duration) -> Option<Answer> {
        let begin = Instant::now();
        if !self.ends_within(limit) {
            for pid in children_of(self.pid()) {
                let told = |name| fs::read_to_string(format!("/proc/{pid}/{name}"));
                println!("{pid}: {:?} {:?}", told("stat"), told("stack"));
            }
            let _ = self.child.kill();
            return None;
        }
        let (done, read) = std::sync::mpsc::channel();
        let Self { child, mut output } = self;
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = output.read_to_string(&mut text);
            let _ = done.send(text);
        });
        let text = read.recv_timeout(Duration::from_secs(2)).ok()?;
        drop(child);
        println!("it answered in {:?}: {}", begin.elapsed(), text.trim_end());
        let json = serde_json::from_str(&text).unwrap_or(serde_json::Value::Null);
        Some(Answer { text, json })
    }
}

/// The process that a message names.
#[track_caller]
pub fn left_in(message: &str) -> Pid {
    let number = message.split("process ").filter_map(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        rest.starts_with("hangs").then(|| number.parse().ok())?
    });
    Pid::from_raw(number.last().unwrap_or_else(|| panic!("no process is named: {message}")))
}

/// btrfs, and mkfs, wait for their first read in a way that a signal ends, and for what follows in one that none
/// does: whether the first is still in memory is not for a test to say.
pub fn takes_a_signal(message: &str) -> bool {
    !message.contains(" hangs")
}

/// A person's verb, if it ends in time: how it ended and what it said.
pub fn verb_within(node: &Node, words: &[&str], limit: Duration) -> Option<String> {
    Running::start(node.command(words)).answer(limit).map(|answer| answer.text)
}

#[test]
fn a_mount_that_hangs_is_answered_named_and_not_begun_again() {
    needs!(fuse, seams);
    for (kind, size) in [("ext4", "64M"), ("btrfs", "256M")] {
        let node = Node::new();
        let scene = Scene::with(&node, kind, size);
        let stage = scene.volume.stage();
        let running = scene.hangs_at(&stage, "stage.looked");
        let message = scene.is_answered_with(running, &[&format!("mount the {kind}")]);
        assert_eq!(layers_at(&scene.volume.global()), 0, "{kind}");
        if kind == "btrfs" && takes_a_signal(&message) {
            scene.goes_on(&stage);
            continue;
        }
        let left = left_in(&message);
        must_hang(left);
        scene.is_not_begun_again(&stage, left);
        scene.answers_again(&stage, left);
        scene.has_its_data();
        scene.ends();
    }
}

#[test]
fn a_read_that_hangs_is_answered_named_and_not_begun_again() {
    needs!(fuse);
    let node = Node::new();
    let scene = Scene::with(&node, "ext4", "64M");
    let stage = scene.volume.stage();
    scene.hangs();
    let message = scene.is_answered_with(Running::start(node.command(&stage)), &["disk loop"]);
    // A signal ends the read itself. What hangs then is the last close of the disk; while another process has
    // it open, as one that looks at all disks of the machine, there is no last close.
    if takes_a_signal(&message) {
        return scene.goes_on(&stage);
    }
    let left = left_in(&message);
    must_hang(left);
    scene.is_not_begun_again(&stage, left);
    scene.answers_again(&stage, left);
    scene.has_its_data();
    scene.ends();
}

/// The data is not on the disk yet: `unmountdevice` flushes it, and that hangs.
#[test]
fn a_flush_that_hangs_is_answered_and_the_data_comes_later() {
    needs!(fuse);
    let node = Node::new();
    let scene = Scene::with(&node, "ext4", "64M");
    node.must(scene.volume.stage());
    let late = random_bytes(1 << 20);
    with_files(|| fs::write(scene.volume.global().join("late"), &late).unwrap());
    scene.hangs();
    let unstage = scene.volume.unstage();
    let left = scene.is_answered(Running::start(node.command(&unstage)), &["write out"]);
    scene.is_not_begun_again(&unstage, left);
    scene.answers_again(&unstage, left);
    node.must(scene.volume.stage());
    assert!(files::read(scene.volume.global().join("late")).unwrap() == late);
    scene.has_its_data();
    scene.ends();
}

#[test]
fn growing_that_hangs_is_answered_named_and_not_begun_again() {
    needs!(fuse, seams);
    let node = Node::new();
    let scene = Scene::with(&node, "xfs", "320M");
    node.must(scene.volume.stage());
    make_folder(&scene.volume.pod(POD));
    node.must(scene.volume.publish(POD));
    let expand = scene.volume.expand(400 << 20);
    let running = scene.hangs_at(&expand, "expand.sized");
    let left = scene.is_answered(running, &["grow the xfs"]);
    scene.is_not_begun_again(&expand, left);
    scene.answers_again(&expand, left);
    scene.has_its_data();
    scene.ends();
}

/// kubelet is stopped meanwhile: a signal ends each of them as fast, and names what is left.
#[test]
fn a_signal_ends_a_call_that_hangs() {
    needs!(fuse, seams);
    let signal = Signal::SIGTERM;
    let node = Node::new();
    let scene = Scene::with(&node, "ext4", "64M");
    let stage = scene.volume.stage();
    let running = scene.hangs_at(&stage, "stage.looked");
    let pid = running.pid();
    eventually("it hangs", || children_of(pid).iter().any(|one| state_of(*one) == Some('D')));
    kill(pid, signal).unwrap();
    let left = scene.is_answered(running, &[&format!("{signal} ended the call"), "mount the ext4"]);
    scene.is_not_begun_again(&stage, left);
    scene.answers_again(&stage, left);
    scene.has_its_data();
    scene.ends();
}

/// All below a process, by the kernel's table.
pub fn children_of(parent: Pid) -> Vec<Pid> {
    let mut all = vec![parent];
    let mut at = 0;
    while at < all.len() {
        let pid = all[at];
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        all.extend(text.split_whitespace().map(|one| Pid::from_raw(one.parse().unwrap())));
        at += 1;
    }
    all
}

/// Whatever hangs, the break-glasses answer.
#[test]
fn a_disk_that_hangs_is_given_up_within_seconds() {
    needs!(fuse, seams);
    for (is_mounted, verb) in
        [(false, &["detach", "--force"][..]), (true, &["release"]), (false, &["heal"])]
    {
        let node = Node::new();
        let scene = Scene::with(&node, "ext4", "64M");
        let call = if is_mounted { scene.volume.unstage() } else { scene.volume.stage() };
        let running = if is_mounted {
            node.must(scene.volume.stage());
            with_files(|| {
                fs::write(scene.volume.global().join("late"), vec![7; 1 << 20]).unwrap();
            });
            scene.hangs();
            Running::start(node.command(&call))
        } else {
            scene.hangs_at(&call, "stage.looked")
        };
        // It may still hang, or be given up already: neither may hold a person up.
        std::thread::sleep(Duration::from_millis(500));
        let words = [verb, &[scene.volume.id.as_str()][..]].concat();
        let told = verb_within(&node, &words, BROKEN);
        assert!(told.is_some(), "{verb:?} did not end, mounted: {is_mounted}");
        assert!(running.answer(ANSWERED).is_some(), "{verb:?}: the call did not end");
        scene.disk.release();
        node.configure("");
        eventually("nothing of it hangs", || node.verb(&["release", &scene.volume.id]).is_ok());
        eventually("the volume is free", || {
            node.verb(&["detach", "--force", &scene.volume.id]).is_ok()
        });
    }
}

/// A process that is stopped keeps its lock: who has it is said, and what ends that.
#[test]
fn a_holder_that_is_stopped_is_named_and_does_not_hold_up_a_forced_detach() {
    needs!(fuse, seams);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    volume.take_away();
    node.must(volume.attach());
    make_folder(&volume.global());
    let (mut running, held) = Running::held_at(&node, &volume.stage(), "stage.looked");
    let all = children_of(running.pid());
    for pid in &all {
        kill(*pid, Signal::SIGSTOP).unwrap();
    }
    let goes_on = || {
        for pid in &all {
            let _ = kill(*pid, Signal::SIGCONT);
        }
    };
    let released = verb_within(&node, &["release", &volume.id], BROKEN);
    let detached = verb_within(&node, &["detach", "--force", &volume.id], BROKEN);
    goes_on();
    let _ = fs::remove_file(held);
    let has_ended = running.ends_within(Duration::from_secs(30));
    let told = released.expect("release did not end");
    assert!(told.contains("(mountdevice)") && told.contains("is stopped"), "{told}");
    assert!(told.contains("kill -CONT") && told.contains("kill -9"), "{told}");
    assert!(detached.expect("detach did not end").contains("detached"));
    assert!(has_ended);
}

/// The work's process may be ended by whatever ends processes: kubelet has its answer.
#[test]
fn a_worker_that_is_killed_is_answered_for() {
    needs!(fuse, seams);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    make_folder(&volume.global());
    let (running, held) = Running::held_at(&node, &volume.stage(), "stage.format.intent");
    let worker = *children_of(running.pid()).last().unwrap();
    kill(worker, Signal::SIGKILL).unwrap();
    let answer = running.answer(ANSWERED);
    let _ = fs::remove_file(held);
    let answer = answer.expect("the process did not end");
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(answer.text.contains("ended by SIGKILL"), "{}", answer.text);
    node.must(volume.stage());
    volume.ends();
}
