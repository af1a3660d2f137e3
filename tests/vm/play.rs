//! Plays the scenarios: machine by machine, so that each is booted once.

use crate::host::image::Image;
use crate::host::machine::{Bench, Machine, accelerator};
use crate::host::parts::{KERNELS, Kernel, Parts};
use crate::host::plug::Bus;
use crate::host::qemu::Accelerator;
use crate::leftovers;
use crate::report::{Ended, Line, close, say};
use crate::scenarios::{ALL, Kernels, ONE, Scenario};
use crate::scene::{Outcome, Scene, Stop};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Set to keep the logs of what passed too.
const KEEP: &str = "INCLOUD_DISK_VM_KEEP";

/// A scenario on a machine of a kind.
#[derive(Debug, Clone, Copy)]
struct Part {
    scenario: Scenario,
    kernel: &'static str,
    bus: Bus,
    fs: &'static str,
    is_control: bool,
}

impl Part {
    fn name(&self) -> String {
        let control = if self.is_control { " (control)" } else { "" };
        format!("{}{control}", self.scenario.name)
    }

    fn setting(&self) -> String {
        format!("{} {} {}", self.kernel, self.bus.word(), self.fs)
    }

    /// Every word must be a word of its setting, or in its name.
    fn is_wanted(&self, words: &[String]) -> bool {
        let (name, setting) = (self.name(), self.setting());
        let fits = |word: &String| setting.split(' ').any(|one| one == word) || name.contains(word);
        words.iter().all(fits)
    }
}

/// All parts, those on one kind of machine together.
fn parts() -> Vec<Part> {
    let mut parts = Vec::new();
    for kernel in KERNELS {
        for bus in Bus::ALL {
            for scenario in ALL {
                for &(fs, on, kernels) in scenario.settings {
                    if on == bus && (kernels == Kernels::All || kernel == ONE) {
                        parts.push(Part { scenario, kernel, bus, fs, is_control: false });
                    }
                }
            }
            if kernel == ONE && bus == Bus::VirtioBlk {
                let control = |scenario: Scenario| {
                    let fs = scenario.settings[0].0;
                    Part { scenario, kernel, bus, fs, is_control: true }
                };
                parts.extend(ALL.map(control));
            }
        }
    }
    parts
}

/// Plays what these words fit.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let begun = Instant::now();
    let wanted: Vec<Part> = parts().into_iter().filter(|part| part.is_wanted(words)).collect();
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
    let parts = Parts::get()?;
    let _ = std::fs::remove_dir_all(parts.cache.join("logs"));
    let folder = leftovers::folder()?;
    leftovers::remove_when_ended(folder.path());
    let image = Image::new(folder.path(), &driver())?;
    let bench = Bench { parts, image, folder: folder.path().to_owned() };
    let mut player = Player { bench: &bench, accelerator: None, machine: None };
    Ok(wanted.iter().map(|part| player.line(part)).collect())
}

/// The driver under test: the release, where that was built.
fn driver() -> PathBuf {
    std::env::var_os("INCLOUD_DISK_VM_DRIVER")
        .map_or_else(|| PathBuf::from(crate::support::DISK), PathBuf::from)
}

/// Has a machine, and boots another one when that is wanted.
struct Player<'b> {
    bench: &'b Bench,
    accelerator: Option<Accelerator>,
    machine: Option<(&'static str, Bus, Machine)>,
}

impl Player<'_> {
    fn line(&mut self, part: &Part) -> Line {
        let begun = Instant::now();
        let ended = match self.bench.parts.kernel(part.kernel) {
            Ok(kernel) => self.play(part, &kernel),
            Err(why) => Ended::Skipped(format!("kernel {}: {why}", part.kernel)),
        };
        let version =
            self.bench.parts.kernel(part.kernel).map_or_else(|_| "none".to_owned(), |k| k.version);
        let version = version.split('-').next().unwrap_or_default();
        let setting = part.setting().replace("newest", &format!("newest ({version})"));
        Line { name: part.name(), setting, took: begun.elapsed(), ended }
    }

    fn play(&mut self, part: &Part, kernel: &Kernel) -> Ended {
        say(&format!("\n--- {} on {}: {}", part.name(), part.setting(), part.scenario.about));
        let mut machine = match self.machine_for(part, kernel) {
            Ok(machine) => machine,
            Err(why) => {
                let console = self.bench.folder.join("machine/console.log");
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
        if let Ended::Failed(why) = &ended {
            say(&format!("  FAILED: {why}"));
        }
        let has_failed = matches!(ended, Ended::Failed(_));
        if has_failed || std::env::var_os(KEEP).is_some() {
            self.keep_logs(part, &mut machine);
        }
        if !has_failed {
            match Scene::new(&mut machine, self.bench, part.fs, false).clean() {
                Ok(()) => self.machine = Some((part.kernel, part.bus, machine)),
                Err(why) => say(&format!("  this machine is given up: {why}")),
            }
        }
        say(&format!("  {}  {:.1} s", word(&ended), begun.elapsed().as_secs_f64()));
        ended
    }

    /// The machine that is there, if it is of that kind, or a new one.
    fn machine_for(&mut self, part: &Part, kernel: &Kernel) -> Result<Machine, String> {
        match self.machine.take() {
            Some((name, bus, machine)) if name == part.kernel && bus == part.bus => {
                return Ok(machine);
            }
            // Two at once would take the memory of two.
            other => drop(other),
        }
        let accelerator = *self.accelerator.get_or_insert_with(|| {
            let found = accelerator(self.bench, kernel);
            say(&format!("  machines run by {}", found.word()));
            found
        });
        let machine = Machine::boot(self.bench, kernel, part.bus, accelerator)?;
        let boot: Duration = machine.boot;
        say(&format!("  booted Linux {} in {:.1} s", kernel.version, boot.as_secs_f64()));
        Ok(machine)
    }

    fn keep_logs(&self, part: &Part, machine: &mut Machine) {
        let name = format!("{} {}", part.name(), part.setting()).replace([' ', '(', ')'], "-");
        let folder = self.bench.parts.cache.join("logs").join(name);
        match machine.keep_logs(&folder) {
            Ok(()) => say(&format!("  the logs of every part are in {}", folder.display())),
            Err(why) => say(&format!("  the logs could not be kept: {why}")),
        }
    }
}

fn word(ended: &Ended) -> &'static str {
    match ended {
        Ended::Passed => "passed",
        Ended::Failed(_) => "FAILED",
        Ended::Skipped(_) => "skipped",
    }
}

/// A control has to fail, and for its reason: the pod lost its disk.
fn judge(part: &Part, outcome: Outcome) -> Ended {
    let expected = part.scenario.control;
    match outcome {
        Err(Stop::Skipped(why)) => Ended::Skipped(why),
        Err(Stop::Broken(why)) => Ended::Failed(why),
        Ok(()) if part.is_control => Ended::Failed(format!(
            "with that part of the driver switched off it still passes: it cannot see {expected:?}"
        )),
        Ok(()) => Ended::Passed,
        Err(Stop::Wrong { check, .. }) if part.is_control && check.starts_with(expected) => {
            say("  as it must be: without that part of the driver this goes wrong");
            Ended::Passed
        }
        Err(Stop::Wrong { check, saw }) => Ended::Failed(format!("{check}: {saw}")),
    }
}
