//! Plays the scenarios: on machines side by side, each booted once for all that fits it.

use crate::host::image::Image;
use crate::host::machine::{Bench, Machine, accelerator};
use crate::host::parts::{Kernel, Parts};
use crate::host::qemu::Accelerator;
use crate::leftovers;
use crate::plan::{Kind, Part, all};
use crate::report::{Ended, Line, close, hold, say, tell};
use crate::scene::{Outcome, Scene, Stop};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Set to keep the logs of what passed too.
const KEEP: &str = "INCLOUD_DISK_VM_KEEP";
/// How many machines run at once.
const JOBS: &str = "INCLOUD_DISK_VM_JOBS";
/// At the most, unless it is asked for: each takes 768 MiB.
const MOST_JOBS: usize = 4;

/// Plays what these words fit.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let begun = Instant::now();
    let wanted: Vec<Part> = all().into_iter().filter(|part| part.is_wanted(words)).collect();
    if wanted.is_empty() {
        eprintln!("vm: no scenario has all of these in its name or setting: {}", words.join(" "));
        return ExitCode::from(2);
    }
    match play_all(&wanted) {
        Ok(lines) if close(&lines, begun.elapsed()) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("vm: {why}");
            say("\n0 passed, 1 failed, 0 skipped");
            ExitCode::FAILURE
        }
    }
}

fn play_all(wanted: &[Part]) -> Result<Vec<Line>, String> {
    say("--- the parts of the virtual machine");
    let parts = Parts::get(wanted.iter().any(Part::calls_programs))?;
    for part in wanted {
        let _ = std::fs::remove_dir_all(logs_of(&parts, part));
    }
    let folder = leftovers::folder()?;
    leftovers::remove_when_ended(folder.path());
    let image = Image::new(folder.path(), &driver())?;
    let bench = Bench { parts, image, folder: folder.path().to_owned() };
    let jobs = jobs().min(wanted.len());
    say(&format!("--- {} plays, on {jobs} machines at once", wanted.len()));
    let queue = Queue::new(wanted, jobs);
    let accelerator = OnceLock::new();
    thread::scope(|scope| {
        for job in 0..jobs {
            let (bench, queue, accelerator) = (&bench, &queue, &accelerator);
            scope.spawn(move || {
                if jobs > 1 {
                    hold();
                }
                Player { bench, accelerator, job, machine: None }.work(queue);
            });
        }
    });
    Ok(queue.lines(wanted))
}

/// As many as this machine has cores: in software a guest takes two thirds of one, in bursts of two.
fn jobs() -> usize {
    if let Some(jobs) = std::env::var(JOBS).ok().and_then(|text| text.parse().ok()) {
        return std::cmp::max(jobs, 1);
    }
    thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_JOBS))
}

/// The driver under test: the release, where that was built.
fn driver() -> PathBuf {
    std::env::var_os("INCLOUD_DISK_VM_DRIVER")
        .map_or_else(|| PathBuf::from(crate::support::DISK), PathBuf::from)
}

/// What all jobs share.
struct Queue {
    /// Still to be played.
    left: Mutex<Vec<Part>>,
    /// The kind of machine that each job has.
    kinds: Mutex<Vec<Option<Kind>>>,
    /// How what was played ended.
    played: Mutex<Vec<(Part, Line)>>,
}

/// A boot takes as long as two scenarios: for fewer than this a kind gets no second machine.
const WORTH_A_BOOT: usize = 3;

impl Queue {
    fn new(wanted: &[Part], jobs: usize) -> Self {
        Self {
            left: Mutex::new(wanted.to_vec()),
            kinds: Mutex::new(vec![None; jobs]),
            played: Mutex::default(),
        }
    }

    /// The next for a job whose machine is of that kind. Where there is none, of the kind of which
    /// most is left and that no other job has; at last some of another's.
    fn next(&self, job: usize, kind: Option<Kind>) -> Option<Part> {
        let (mut left, mut kinds) = (locked(&self.left), locked(&self.kinds));
        kinds[job] = None;
        let count = |kind| left.iter().filter(|part| part.kind() == kind).count();
        let rank = |part: &Part| {
            let (its, many) = (part.kind(), count(part.kind()));
            let is_anothers = kinds.contains(&Some(its));
            let is_worth_it = Some(its) == kind || !is_anothers || many >= WORTH_A_BOOT;
            is_worth_it.then_some((Some(its) == kind, !is_anothers, many))
        };
        let best = left.iter().filter_map(rank).max()?;
        let at = left.iter().position(|part| rank(part) == Some(best))?;
        let part = left.remove(at);
        kinds[job] = Some(part.kind());
        Some(part)
    }

    fn note(&self, part: Part, line: Line) {
        locked(&self.played).push((part, line));
    }

    /// In the order in which they were wanted.
    fn lines(&self, wanted: &[Part]) -> Vec<Line> {
        let played = locked(&self.played);
        let line = |part: &Part| played.iter().find(|(one, _)| one.is(part)).map(|(_, line)| line);
        wanted.iter().filter_map(line).cloned().collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a machine, and boots another one when that is wanted.
struct Player<'b> {
    bench: &'b Bench,
    /// Found out once, for all.
    accelerator: &'b OnceLock<Accelerator>,
    job: usize,
    machine: Option<(Kind, Machine)>,
}

impl Player<'_> {
    fn work(&mut self, queue: &Queue) {
        loop {
            let kind = self.machine.as_ref().map(|(kind, _)| *kind);
            let Some(part) = queue.next(self.job, kind) else { return };
            let line = self.line(&part);
            tell();
            queue.note(part, line);
        }
    }

    fn line(&mut self, part: &Part) -> Line {
        let begun = Instant::now();
        let kernel = self.bench.parts.kernel(part.kernel);
        let version = kernel.as_ref().map_or("none", |kernel| &kernel.version);
        let version = version.split('-').next().unwrap_or_default();
        let setting = part.setting().replace("newest", &format!("newest ({version})"));
        let ended = match &kernel {
            Ok(kernel) => self.play(part, kernel),
            Err(why) => Ended::Skipped(format!("kernel {}: {why}", part.kernel)),
        };
        Line { name: part.name(), setting, took: begun.elapsed(), ended }
    }

    fn play(&mut self, part: &Part, kernel: &Kernel) -> Ended {
        say(&format!("\n--- {} on {}: {}", part.name(), part.setting(), part.scenario.about));
        let mut machine = match self.machine_for(part, kernel) {
            Ok(machine) => machine,
            Err(why) => {
                let console = Machine::place(self.bench, self.job).join("console.log");
                let tail = std::fs::read_to_string(console).unwrap_or_default();
                let tail: Vec<&str> = tail.lines().rev().take(20).collect();
                say(&tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
                return Ended::Failed(format!("no machine: {why}"));
            }
        };
        let begun = Instant::now();
        let mut scene = Scene::new(&mut machine, self.bench, part.fs, part.is_control);
        let outcome = scene.begin().and_then(|()| (part.scenario.play)(&mut scene));
        let ended = judge(part, outcome);
        let has_failed = matches!(ended, Ended::Failed(_));
        match &ended {
            Ended::Failed(why) => say(&format!("  FAILED: {why}")),
            Ended::FailedAsItMust(_) => {
                say("  as it must be: without that part of the driver this goes wrong");
            }
            Ended::Passed | Ended::Skipped(_) => {}
        }
        if has_failed || std::env::var_os(KEEP).is_some() {
            self.keep_logs(part, &mut machine);
        }
        if !has_failed {
            match Scene::new(&mut machine, self.bench, part.fs, false).clean() {
                Ok(()) => self.machine = Some((part.kind(), machine)),
                Err(why) => say(&format!("  this machine is given up: {why}")),
            }
        }
        say(&format!("  {}  {:.1} s", ended.word(), begun.elapsed().as_secs_f64()));
        ended
    }

    /// The machine that is there, if it is of that kind, or a new one.
    fn machine_for(&mut self, part: &Part, kernel: &Kernel) -> Result<Machine, String> {
        match self.machine.take() {
            Some((kind, machine)) if kind == part.kind() => return Ok(machine),
            // Two in one place would take the memory of two, and each other's sockets.
            other => drop(other),
        }
        let accelerator = *self.accelerator.get_or_init(|| {
            let found = accelerator(self.bench, kernel, self.job);
            say(&format!("  machines run by {}", found.word()));
            found
        });
        let machine = Machine::boot(self.bench, kernel, part.bus, accelerator, self.job)?;
        let boot: Duration = machine.boot;
        say(&format!("  booted Linux {} in {:.1} s", kernel.version, boot.as_secs_f64()));
        Ok(machine)
    }

    fn keep_logs(&self, part: &Part, machine: &mut Machine) {
        let folder = logs_of(&self.bench.parts, part);
        match machine.keep_logs(&folder) {
            Ok(()) => say(&format!("  the logs of every part are in {}", folder.display())),
            Err(why) => say(&format!("  the logs could not be kept: {why}")),
        }
    }
}

/// One for each play: what another run has kept stays.
fn logs_of(parts: &Parts, part: &Part) -> PathBuf {
    let name = format!("{} {}", part.name(), part.setting()).replace([' ', '(', ')'], "-");
    parts.cache.join("logs").join(name)
}

/// A control has to fail, and for its reason: the pod lost its disk.
fn judge(part: &Part, outcome: Outcome) -> Ended {
    let expected = part.scenario.control;
    match outcome {
        Err(Stop::Broken(why)) => Ended::Failed(why),
        Ok(()) if part.is_control => Ended::Failed(format!(
            "with that part of the driver switched off it still passes: it cannot see {expected:?}"
        )),
        Ok(()) => Ended::Passed,
        Err(Stop::Wrong { check, saw }) if part.is_control && check.starts_with(expected) => {
            Ended::FailedAsItMust(format!("{check}: {saw}"))
        }
        Err(Stop::Wrong { check, saw }) => Ended::Failed(format!("{check}: {saw}")),
    }
}
