//! The heal without a call of kubelet: by a timer, by the disk's event, by a process that waits.

use crate::checks::{eventually, nothing_is_left, number_of, only_mount_at};
use crate::files;
use crate::heal::{goes_on, pull, still_fails};
use crate::scene::{Scene, scene};
use crate::support::pods::{Naming, Order};
use crate::support::{Node, output_of, start};
use crate::volume::{Volume, make_folder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// The disk is back under another number, and is not healed yet.
pub fn bring_back(volume: &Volume) -> PathBuf {
    volume.node.configure("[heal]\nmode = \"off\"");
    volume.node.must(volume.attach());
    volume.node.configure("");
    PathBuf::from("/dev").join(volume.letter())
}

#[track_caller]
fn say(node: &Node, words: &[&str]) -> String {
    node.verb(words).unwrap()
}

/// The exit statuses of `disk heal`.
const WAITS: i32 = 3;
const HELD: i32 = 4;

/// The verb ends with that status; both its streams.
#[track_caller]
pub fn ends_with(node: &Node, words: &[&str], status: i32) -> String {
    let output = output_of(&mut node.command(words));
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

/// What a process holds open stays on the lost disk: the heal is not whole, and says so.
#[test]
fn what_is_still_held_is_in_the_exit_status_and_in_the_history() {
    needs!(pods);
    for by_name in [false, true] {
        let Scene { node, volume, pod, mut container } = scene().start();
        container.must(&Order::Open { path: "/data/log".into() });
        pull(&volume, &mut container);
        bring_back(&volume);
        let words = if by_name { vec!["heal", &volume.id] } else { vec!["heal"] };
        let said = ends_with(&node, &words, HELD);
        assert!(said.contains("on the dead disk until it is restarted"), "{said}");
        let told = say(&node, &["history", &volume.pv]);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains("until it is restarted") && !told.contains("not in the log"),
            "{told}"
        );
        // Who names the volume is told again; the timer, which comes each minute, has said it.
        ends_with(&node, &words, if by_name { HELD } else { 0 });
        volume.ends_with(&pod, container);
    }
}

#[test]
fn all_volumes_are_healed_without_a_call() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    let well = Volume::create(&node, "ext4", "64M");
    well.bring();
    assert_eq!(say(&node, &["heal"]), "", "nothing is wrong yet, and no timer talks of it");
    let plan = say(&node, &["heal", "--dry-run"]);
    assert_eq!(plan, "no mount of any volume here stands on a dead disk\n");

    let disk = volume.letter();
    pull(&volume, &mut container);
    let waiting = ends_with(&node, &["heal"], WAITS);
    assert!(waiting.contains("none is here yet") && !waiting.contains("switched"), "{waiting}");
    let history = say(&node, &["history", &volume.pv]);
    let told = history.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("its disk is gone, and none is here: its mounts wait for it"),
        "{history}"
    );
    assert!(!told.contains("not in the log"), "{history}");
    // Where this machine's kernel log can be read it says why, and our log keeps that.
    if fs::File::open("/dev/kmsg").is_ok() {
        let of_disk = history.lines().find(|line| line.contains(" kernel ")).unwrap_or_default();
        assert!(
            of_disk.contains(&format!("({disk})")) || of_disk.contains(&format!(" {disk}")),
            "{disk}: {history}"
        );
        assert!(node.log().contains("what the kernel said of the disk"), "{}", node.log());
    }
    let log = node.log();
    ends_with(&node, &["heal"], WAITS);
    assert_eq!(node.log(), log, "that it still waits is no news");
    ends_with(&node, &["heal", &volume.id], WAITS);
    ends_with(&node, &["heal", "--dry-run"], 0);
    bring_back(&volume);
    let plan = say(&node, &["heal", "--dry-run"]);
    assert!(plan.contains(&volume.id) && plan.contains("would be healed"), "{plan}");
    assert!(!plan.contains(&well.id), "{plan}");
    // A plan changes nothing.
    still_fails(&mut container);

    let said = say(&node, &["heal"]);
    let global = volume.global();
    for place in [global.to_str().unwrap(), "/data"] {
        let line = format!("volume {}: switched {place} of ", volume.id);
        assert!(said.contains(&line), "{line}: {said}");
    }
    assert!(!said.contains(&well.id), "{said}");
    goes_on(&mut container, 5);
    assert_eq!(only_mount_at(&global).number, number_of(&volume.letter()));
    assert_eq!(say(&node, &["heal"]), "", "it is well again");
    assert!(node.log().len() > log.len(), "what was done is in the log");
    assert!(node.log().contains("would be healed: asked for a plan"), "{}", node.log());
    let (history, status) =
        (say(&node, &["history", &volume.pv]), say(&node, &["status", "--json"]));
    let told = history.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in
        ["3 mounts in 2 namespaces put from 7:", "for shop/orders-0", "may be lost: writes"]
    {
        assert!(told.contains(words), "{words}: {history}");
    }
    assert!(!told.contains("not in the log") && !told.contains("FAILED"), "{history}");
    node.history_needs_no_words();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let calls: Vec<_> =
        status["volumes"].as_array().unwrap().iter().map(|one| &one["last_call"]).collect();
    let is_healed = |call: &&serde_json::Value| call["op"] == "heal" && call["ending"] == "done";
    assert!(calls.iter().any(is_healed), "{status:#}");
    let other = say(&node, &["history", &well.pv]);
    assert!(!other.contains("heal"), "{other}");
    let log = node.log();
    say(&node, &["heal"]);
    assert_eq!(node.log(), log, "a look that finds nothing writes no line");

    container.die();
    node.must(volume.unpublish(pod.uid()));
    well.take_away();
    volume.take_away();
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume, &well]);
}

#[test]
fn the_disk_that_came_heals_its_own_volume_and_no_other() {
    needs!(pods);
    let Scene { node, volume: first, pod: one, container: mut in_first } = scene().start();
    let Scene { volume: second, pod: two, container: mut in_second, .. } =
        scene().on(&node).of("xfs").named(Naming::Cgroupfs).start();
    pull(&first, &mut in_first);
    pull(&second, &mut in_second);
    let (first_disk, second_disk) = (bring_back(&first), bring_back(&second));

    let said = say(&node, &["heal", "--device", first_disk.to_str().unwrap()]);
    assert!(said.contains(&first.id) && !said.contains(&second.id), "{said}");
    goes_on(&mut in_first, 3);
    still_fails(&mut in_second);
    say(&node, &["heal", "--device", second_disk.to_str().unwrap()]);
    goes_on(&mut in_second, 3);

    for (volume, pod, container) in [(&first, &one, in_first), (&second, &two, in_second)] {
        volume.take_away_with(pod, container);
    }
    nothing_is_left(&node, &[&first, &second]);
}

/// udev asks for every disk of the machine: a disk that is not ours costs no time, and
/// a wrong one is told from a foreign one.
#[test]
fn a_disk_of_no_volume_ends_at_once() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    let disk = PathBuf::from("/dev").join(volume.letter());
    assert_eq!(say(&node, &["heal", "--device", disk.to_str().unwrap()]), "");
    assert_eq!(say(&node, &["heal", "--device", "/dev/gone"]), "there is no /dev/gone\n");
    let error = node.verb(&["heal", "--device", "/dev/null"]).unwrap_err();
    assert!(error.contains("/dev/null is no disk's node"), "{error}");
    for words in [
        &["heal", "--device", "/dev/vdb", "pv"][..],
        &["heal", "--watch", "pv"],
        &["heal", "--watch", "--dry-run"],
        &["heal", "--adopt"],
    ] {
        let error = node.verb(words).unwrap_err();
        assert!(error.contains("Usage"), "{words:?}: {error}");
    }
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn heal_mode_off_is_obeyed_unless_a_person_names_a_volume() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    let disk = bring_back(&volume);
    node.configure("[heal]\nmode = \"off\"");
    assert_eq!(say(&node, &["heal"]), "heal.mode is off\n");
    assert_eq!(say(&node, &["heal", "--device", disk.to_str().unwrap()]), "heal.mode is off\n");
    let error = node.verb(&["heal", "--watch"]).unwrap_err();
    assert!(error.contains("heal.mode is off"), "{error}");
    node.configure("[heal]\nmode = \"report\"");
    let said = say(&node, &["heal"]);
    assert!(said.contains("would be healed"), "{said}");
    let told = say(&node, &["history", &volume.pv]);
    assert!(
        told.contains("looked what would be healed") && !told.contains("not in the log"),
        "{told}"
    );
    still_fails(&mut container);
    say(&node, &["heal", &volume.id]);
    goes_on(&mut container, 3);
    volume.ends_with(&pod, container);
}

/// What cannot be healed is told with its cause, does not stop the others, and fails.
#[test]
fn one_that_cannot_be_healed_does_not_stop_the_others() {
    needs!(pods);
    let Scene { node, volume: first, pod: one, container: mut in_first } = scene().start();
    let Scene { volume: second, pod: two, container: mut in_second, .. } =
        scene().on(&node).named(Naming::Cgroupfs).start();
    pull(&first, &mut in_first);
    pull(&second, &mut in_second);
    crate::holders::run("mkfs.ext4", &["-q", "-F", first.image().to_str().unwrap()]);
    bring_back(&first);
    bring_back(&second);
    let said = node.verb(&["heal"]).unwrap_err();
    assert!(said.contains(&format!("volume {}: not healed: ", first.id)), "{said}");
    assert!(said.contains(&format!("volume {}: switched ", second.id)), "{said}");
    assert!(said.contains("1 could not be put right"), "{said}");
    goes_on(&mut in_second, 3);
    for (volume, pod, container) in [(&first, &one, in_first), (&second, &two, in_second)] {
        volume.take_away_with(pod, container);
    }
}

/// `disk heal --watch` in the background, and what it has said so far.
pub struct Watching(Child, Arc<Mutex<String>>);

impl Watching {
    pub fn begin(node: &Node) -> Self {
        let mut command = node.command(["heal", "--watch"]);
        let mut child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let (lines, said) =
            (BufReader::new(child.stdout.take().unwrap()), Arc::<Mutex<String>>::default());
        let told = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                told.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self(child, said)
    }

    /// How often it has said that so far.
    pub fn count_of(&self, words: &str) -> usize {
        self.1.lock().unwrap().matches(words).count()
    }

    /// Ends it by a signal; what it said.
    #[track_caller]
    pub fn end(mut self, signal: Signal) -> String {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
        let status = self.0.wait().unwrap();
        // The reader ends with the pipe, which nothing else holds.
        eventually("all that it said is read", || Arc::strong_count(&self.1) == 1);
        let mut said = self.1.lock().unwrap().clone();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_waits_heals_each_time_a_disk_comes_back() {
    needs!(pods);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let Scene { node, volume, pod, mut container } = scene().start();
        let watching = Watching::begin(&node);
        for _ in 0..3 {
            pull(&volume, &mut container);
            bring_back(&volume);
            // No minute is waited: the kernel's event wakes it.
            goes_on_by_itself(&mut container);
        }
        let line = format!("volume {}: switched /data of ", volume.id);
        // It says so a moment after the writes go on.
        eventually("the third heal is told", || watching.count_of(&line) == 3);
        let said = watching.end(signal);
        assert_eq!(said.matches(&line).count(), 3, "{said}");
        volume.ends_with(&pod, container);
        volume.must_be_sound();
    }
}

/// Its writes succeed again; until then they fail.
#[track_caller]
fn goes_on_by_itself(container: &mut crate::support::pods::Container) {
    let before = container.report().writes;
    eventually("the container's writes go on", || container.report().writes >= before + 3);
    goes_on(container, 3);
}

/// It can be ended while it waits and nothing is wrong, and says nothing then.
#[test]
fn a_process_that_waits_is_silent_while_all_is_well() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    make_folder(&volume.pod("uid-1"));
    files::write_synced(&volume.global().join("kept"), b"x");
    let watching = Watching::begin(&node);
    let own = format!("/proc/{}", watching.0.id());
    // It has looked once and waits: it has no worker any more, and what it says was asked for.
    let text = |file: &str| fs::read_to_string(format!("{own}/{file}")).unwrap_or_default();
    let has_worker = || !text(&format!("task/{}/children", watching.0.id())).is_empty();
    eventually("it looks", has_worker);
    eventually("it waits", || !has_worker() && text("status").contains("State:\tS"));
    assert_eq!(watching.end(Signal::SIGTERM), "");
    volume.ends();
}
