//! Each call is killed, stopped and failed at each of its system calls, one at a time. Then the same
//! call is made again, and the volume is used and taken away: it must have its data, and nothing may
//! be left.
//!
//! It knows the program from outside alone. `cargo test --test steps -- --minutes 60`; see docs/steps.md.
#![cfg(target_arch = "x86_64")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a harness fails by panicking, and says so"
)]

mod checks;
#[path = "../support/mod.rs"]
mod support;
mod trace;
#[path = "../root/volume.rs"]
mod volume;

use self::support::Node;
use self::trace::{Kind, Point, Traced, kinds_at, run};
use self::volume::{Call, POD, Volume, make_folder};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// What the volume holds, and must hold at the end.
const DATA: &str = "what the application wrote and was told is on the disk\n";

/// Where in its life a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Created,
    Attached,
    Staged,
    Published,
}

/// A call with the state that it begins in, and the one that it brings.
#[derive(Debug, Clone, Copy)]
struct Step {
    name: &'static str,
    from: State,
    to: State,
    /// Whether the volume is new, without a file system.
    is_new: bool,
}

const STEPS: &[Step] = &[
    Step { name: "attach", from: State::Created, to: State::Attached, is_new: false },
    Step { name: "waitforattach", from: State::Attached, to: State::Attached, is_new: false },
    Step { name: "isattached", from: State::Attached, to: State::Attached, is_new: false },
    Step { name: "mountdevice", from: State::Attached, to: State::Staged, is_new: false },
    Step { name: "mount", from: State::Staged, to: State::Published, is_new: false },
    Step { name: "expandfs", from: State::Published, to: State::Published, is_new: false },
    Step { name: "unmount", from: State::Published, to: State::Staged, is_new: false },
    Step { name: "unmountdevice", from: State::Staged, to: State::Attached, is_new: false },
    Step { name: "detach", from: State::Attached, to: State::Created, is_new: false },
    Step { name: "format", from: State::Attached, to: State::Staged, is_new: true },
];

const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// A volume of a node, somewhere in its life.
struct Scene<'n> {
    volume: Volume<'n>,
    has_data: bool,
}

impl<'n> Scene<'n> {
    fn new(node: &'n Node, fs_type: &'static str) -> Self {
        let size = if fs_type == "xfs" { "320M" } else { "24M" };
        Self { volume: Volume::create(node, fs_type, size), has_data: false }
    }

    /// Up to this state, by calls that nothing happens to.
    fn bring_to(&self, state: State) {
        let volume = &self.volume;
        if state >= State::Attached {
            volume.node.must(volume.attach());
        }
        if state >= State::Staged {
            volume.node.must(volume.wait(""));
            make_folder(&volume.global());
            volume.node.must(volume.stage());
        }
        if state >= State::Published {
            make_folder(&volume.pod(POD));
            volume.node.must(volume.publish(POD));
        }
    }

    fn call(&self, step: Step) -> Call {
        let volume = &self.volume;
        match step.name {
            "attach" => volume.attach(),
            "waitforattach" => volume.wait(""),
            "isattached" => volume.is_attached(),
            "mountdevice" | "format" => {
                make_folder(&volume.global());
                volume.stage()
            }
            "mount" => {
                make_folder(&volume.pod(POD));
                volume.publish(POD)
            }
            "expandfs" => volume.expand(if volume.fs_type == "xfs" { 384 << 20 } else { 32 << 20 }),
            "unmount" => volume.unpublish(POD),
            "unmountdevice" => volume.unstage(),
            "detach" => volume.detach(),
            other => panic!("no call {other}"),
        }
    }

    fn write_data(&mut self) {
        self.bring_to(State::Published);
        let mut file = fs::File::create(self.volume.pod(POD).join("data")).unwrap();
        file.write_all(DATA.as_bytes()).unwrap();
        file.sync_all().unwrap();
        drop(file);
        self.has_data = true;
        self.down(State::Published);
    }

    /// Everything back, from this state.
    fn down(&self, state: State) {
        let volume = &self.volume;
        if state >= State::Published {
            volume.node.must(volume.unpublish(POD));
            let _ = fs::remove_dir(volume.pod(POD));
        }
        if state >= State::Staged {
            volume.node.must(volume.unstage());
            let _ = fs::remove_dir(volume.global());
        }
        volume.node.must(volume.detach());
    }

    /// Whether what a Success says is so.
    fn must_be(&self, step: Step) {
        let volume = &self.volume;
        let is_mounted = |folder: &Path| mounts_at(folder) > 0;
        let (global, pod) = (volume.global(), volume.pod(POD));
        match step.name {
            "attach" | "waitforattach" | "isattached" => {
                assert!(volume.node.letter(&volume.id).is_some(), "Success, and no disk");
            }
            "mountdevice" | "format" => assert!(is_mounted(&global), "Success, and no mount"),
            "mount" => {
                assert!(is_mounted(&pod), "Success, and no mount");
                self.must_have_data();
            }
            "expandfs" => {
                let size = nix::sys::statvfs::statvfs(&pod).unwrap();
                assert!(size.blocks() * size.fragment_size() > 26 << 20, "Success, and not larger");
            }
            "unmount" => assert!(!is_mounted(&pod), "Success, and still mounted"),
            "unmountdevice" => assert!(!is_mounted(&global), "Success, and still mounted"),
            "detach" => {
                let left = support::loop_devices_below(&volume.node.base());
                assert!(left.is_empty(), "Success, and still attached: {left:?}");
            }
            other => panic!("no call {other}"),
        }
    }

    fn must_have_data(&self) {
        if self.has_data {
            let text = fs::read_to_string(self.volume.pod(POD).join("data"));
            assert_eq!(text.expect("the application's file"), DATA, "the data is another");
        }
    }

    fn nothing_is_left(&self) {
        let base = self.volume.node.base();
        let left = support::loop_devices_below(&base);
        assert!(left.is_empty(), "left: {left:?}");
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let inside = format!(" {}/", base.display());
        let mounts: Vec<_> = table.lines().filter(|line| line.contains(&inside)).collect();
        assert!(mounts.is_empty(), "left: {mounts:?}");
        for path in self.volume.label_and_lock() {
            assert!(fs::symlink_metadata(&path).is_err(), "left: {}", path.display());
        }
        let scratch = self.volume.node.own().join("run/scratch");
        let scratch = fs::read_dir(scratch).into_iter().flatten().flatten().count();
        assert_eq!(scratch, 0, "left in the scratch folder");
    }
}

fn mounts_at(folder: &Path) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let folder = folder.to_str().unwrap();
    table.lines().filter(|line| line.split(' ').nth(4) == Some(folder)).count()
}

/// One thing that happens at one point of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trial {
    step: usize,
    file_system: usize,
    point: Point,
    kind: Kind,
}

impl std::fmt::Display for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (step, file_system) = (STEPS[self.step].name, FILE_SYSTEMS[self.file_system]);
        let (call, count) = self.point;
        write!(f, "{step}/{file_system}/{call}/{count}/{}", self.kind)
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Success,
    Failure,
    Nothing,
}

/// Images of volumes that have the application's data, one of each file system.
struct Templates {
    folder: tempfile::TempDir,
}

impl Templates {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for fs_type in FILE_SYSTEMS {
            let node = Node::new();
            let mut scene = Scene::new(&node, fs_type);
            scene.write_data();
            copy(&scene.volume.image(), &folder.path().join(fs_type));
        }
        Self { folder }
    }

    /// The scene of a step, ready for its call.
    fn ready<'n>(&self, node: &'n Node, step: Step, fs_type: &'static str) -> Scene<'n> {
        let mut scene = Scene::new(node, fs_type);
        if !step.is_new {
            copy(&self.folder.path().join(fs_type), &scene.volume.image());
            scene.has_data = true;
        }
        scene.bring_to(step.from);
        scene
    }
}

/// With its holes.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("--sparse=always").args([from, to]).status();
    assert!(done.expect("cp").success(), "{} is not copied", from.display());
}

/// The points of a call, as a run without any trouble shows them.
fn points(templates: &Templates, step: Step, fs_type: &'static str) -> Vec<Point> {
    let node = Node::new();
    let scene = templates.ready(&node, step, fs_type);
    let traced = run(node.command(scene.call(step)), None);
    let is_done = end_of(&traced) == End::Success;
    scene.down(if is_done { step.to } else { step.from });
    if !is_done {
        // A machine that lends its root no right to grow a file system cannot play that call.
        assert!(traced.text.contains("capability"), "{}: {}", step.name, traced.text);
        println!("left out: {} of {fs_type}: {}", step.name, traced.text.trim());
        return Vec::new();
    }
    traced.points
}

fn end_of(traced: &Traced) -> End {
    let reply = traced.text.lines().find_map(|line| serde_json::from_str(line).ok());
    let reply: serde_json::Value = reply.unwrap_or_default();
    match reply["status"].as_str() {
        Some("Success") => End::Success,
        Some("Failure") => End::Failure,
        _ => End::Nothing,
    }
}

/// Plays one trial; answers how the call that was struck ended.
fn play(templates: &Templates, trial: &Trial) -> End {
    let (step, fs_type) = (STEPS[trial.step], FILE_SYSTEMS[trial.file_system]);
    let node = Node::new();
    let scene = templates.ready(&node, step, fs_type);
    if trial.kind == Kind::Stop {
        let short = ["attach", "detach", "isattached", "waitforattach", "mountdevice", "mount"];
        let more = ["unmount", "unmountdevice", "expandfs"];
        let all = short.iter().chain(&more).map(|call| format!("{call} = 2\n"));
        node.configure(&format!("[deadline]\n{}", all.collect::<String>()));
    }
    let call = scene.call(step);
    let traced = run(node.command(call.clone()), Some((trial.point, trial.kind)));
    node.configure("");
    let end = end_of(&traced);
    if end == End::Success {
        scene.must_be(step);
    }
    let may_end_silently = trial.kind == Kind::Kill || !traced.is_struck;
    assert!(
        end != End::Nothing || may_end_silently,
        "no reply after {:.1?}: {:?}",
        traced.time,
        traced.text
    );
    // kubelet repeats a call that failed, and at once one that it knows nothing of.
    let mut said = String::new();
    let is_through = (0..5).any(|n| {
        std::thread::sleep(Duration::from_millis(if n == 0 { 0 } else { 300 }));
        let answer = node.call(&call);
        said = answer.text;
        answer.json["status"] == "Success"
    });
    assert!(
        is_through,
        "it was {end:?} ({}), and the same call ends in {said}",
        traced.text.trim()
    );
    scene.must_be(step);
    // It goes on as ever.
    scene.bring_to(State::Published);
    scene.must_have_data();
    scene.down(State::Published);
    scene.volume.must_be_sound();
    scene.nothing_is_left();
    end
}

struct Options {
    until: Instant,
    part: (u64, u64),
    only: Option<String>,
    done: Option<PathBuf>,
    report: Option<PathBuf>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        until: Instant::now() + Duration::from_secs(240),
        part: (1, 1),
        only: None,
        done: None,
        report: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--minutes" => {
                let minutes: f64 = value()?.parse().map_err(|_| "minutes are a number")?;
                options.until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
            }
            "--part" => {
                let text = value()?;
                let part = text
                    .split_once('/')
                    .and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
                let part = part.filter(|(n, m): &(u64, u64)| *n >= 1 && n <= m);
                options.part = part.ok_or("--part is such as 1/4")?;
            }
            "--only" => options.only = Some(value()?),
            "--done" => options.done = Some(value()?.into()),
            "--report" => options.report = Some(value()?.into()),
            // What cargo hands on.
            _ => {}
        }
    }
    Ok(options)
}

/// A fixed order that has a little of everything early.
fn shuffled(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if !support::private_mounts("steps") || !support::may_trace("steps") {
        return ExitCode::SUCCESS;
    }
    let templates = Templates::new();
    let mut trials = Vec::new();
    for (step, about) in STEPS.iter().enumerate() {
        for (file_system, fs_type) in FILE_SYSTEMS.iter().enumerate() {
            for point in points(&templates, *about, fs_type) {
                let trial = |kind| Trial { step, file_system, point, kind };
                trials.extend(kinds_at(point.0).map(trial));
            }
        }
    }
    let all = trials.len();
    let done = options.done.as_ref().and_then(|path| fs::read_to_string(path).ok());
    let done: BTreeSet<String> = done.unwrap_or_default().lines().map(str::to_owned).collect();
    let (n, m) = options.part;
    trials.retain(|trial| {
        let name = trial.to_string();
        let is_ours = shuffled(&name) % m == n - 1;
        let is_meant = options.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
        is_ours && is_meant && !done.contains(&name)
    });
    trials.sort_by_key(|trial| shuffled(&trial.to_string()));
    // As many of each call, however many points it has.
    let mut ranks = BTreeMap::<usize, usize>::new();
    let mut ranked: Vec<_> = trials
        .into_iter()
        .map(|trial| {
            let rank = ranks.entry(trial.step).or_default();
            *rank += 1;
            (*rank, trial)
        })
        .collect();
    ranked.sort_by_key(|(rank, trial)| (*rank, trial.step));
    let trials: Vec<_> = ranked.into_iter().map(|(_, trial)| trial).collect();
    println!("{all} points and kinds, {} of them to do", trials.len());
    let (lines, mut places) = (&trials, BTreeMap::<&str, usize>::new());
    for trial in lines {
        *places.entry(STEPS[trial.step].name).or_default() += 1;
    }
    println!("{places:?}");
    std::panic::set_hook(Box::new(|_| {}));
    let mut table: BTreeMap<(&str, End), usize> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut played = 0;
    for trial in &trials {
        if Instant::now() >= options.until {
            break;
        }
        played += 1;
        match catch_unwind(AssertUnwindSafe(|| play(&templates, trial))) {
            Ok(end) => {
                *table.entry((STEPS[trial.step].name, end)).or_default() += 1;
                if let Some(path) = &options.done {
                    let file = fs::OpenOptions::new().create(true).append(true).open(path);
                    let _ = file.and_then(|mut file| writeln!(file, "{trial}"));
                }
            }
            Err(why) => {
                let why = why
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let line = format!("{trial}: {}", why.unwrap_or_default().replace('\n', " "));
                println!("FAILED {line}");
                failures.push(line);
            }
        }
        if played % 50 == 0 {
            println!("{played}/{} done, {} failed", trials.len(), failures.len());
        }
    }
    let text = report(&table, played, all, &failures);
    print!("{text}");
    if let Some(path) = &options.report {
        fs::write(path, text).expect("the report");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(
    table: &BTreeMap<(&str, End), usize>,
    played: usize,
    all: usize,
    failures: &[String],
) -> String {
    let mut text =
        String::from("| call | Success | Failure | killed |\n| --- | --- | --- | --- |\n");
    for step in STEPS {
        let count = |end| table.get(&(step.name, end)).copied().unwrap_or(0);
        let [success, failure, none] = [End::Success, End::Failure, End::Nothing].map(count);
        let _ = writeln!(text, "| {} | {success} | {failure} | {none} |", step.name);
    }
    let _ = writeln!(text, "\n{played} of {all} played, {} failed", failures.len());
    text
}
