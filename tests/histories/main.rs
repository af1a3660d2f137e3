//! Generated histories: calls of kubelet, controllers and people on two servers, with kills, pulls,
//! lost answers and tenants' tricks between them, held against a small model of the world.
//!
//! It knows the program from outside alone. `cargo test --test histories -- --minutes 3`; see
//! docs/histories.md.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    missing_docs,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a harness fails by panicking, and says so"
)]

mod closing;
mod hypervisor;
mod options;
mod orders;
mod play;
#[allow(clippy::unused_self, reason = "each harness uses its own part")]
#[path = "../cloud/scene.rs"]
mod scene;
mod seeded;
#[path = "../openstack/server/mod.rs"]
mod server;
mod shrink;
mod steps;
#[path = "../support/mod.rs"]
mod support;
mod troubles;
mod truth;
mod world;

use self::options::Options;
use self::play::Tally;
use self::steps::{Maker, Step};
use self::world::{Violation, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a history is played with.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub seed: u64,
    pub volumes: usize,
    pub has_cgroups: bool,
}

/// Plays a history from its beginning to its end.
fn play(setting: Setting, steps: &[Step], tally: &mut Tally) -> Result<(), (usize, Violation)> {
    let at = std::cell::Cell::new(0);
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(setting.seed, setting.volumes, setting.has_cgroups);
        for (n, step) in steps.iter().enumerate() {
            at.set(n + 1);
            world.play(step, tally)?;
        }
        at.set(steps.len());
        world.close(tally)
    }));
    tally.histories += 1;
    match played {
        Ok(held) => held.map_err(|violation| (at.get(), violation)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let kind = "the harness itself failed";
            Err((at.get(), Violation { kind, text: text.unwrap_or_default() }))
        }
    }
}

fn main() -> ExitCode {
    let options = match Options::read() {
        Ok(options) => options,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if !support::private_mounts("histories") || !support::pods::containers_are_possible("histories")
    {
        return ExitCode::SUCCESS;
    }
    // What breaks is told with its history.
    std::panic::set_hook(Box::new(|panic| println!("{panic}")));
    let has_cgroups = support::pods::pods_are_possible("histories: false pods, and pods by cgroup");
    let setting = |seed, volumes| Setting { seed, volumes, has_cgroups };
    let mut tally = Tally::default();
    if let Some(replayed) = &options.replay {
        let (seed, volumes, steps) = match replay(replayed, &options) {
            Ok(all) => all,
            Err(error) => {
                println!("{replayed}: {error}");
                return ExitCode::FAILURE;
            }
        };
        return match play(setting(seed, volumes), &steps, &mut tally) {
            Ok(()) => {
                println!("history {seed}: {} steps, nothing is broken", steps.len());
                ExitCode::SUCCESS
            }
            Err((at, violation)) => {
                tell(seed, at, &violation, &steps);
                ExitCode::FAILURE
            }
        };
    }
    if options.orders {
        return orders::try_all(&options, has_cgroups);
    }
    search(&options, has_cgroups)
}

/// A history that broke something.
struct Found {
    setting: Setting,
    at: usize,
    violation: Violation,
    steps: Vec<Step>,
}

/// Plays histories, some at a time, until the time is over or something is broken.
fn search(options: &Options, has_cgroups: bool) -> ExitCode {
    let begin = Instant::now();
    let next = AtomicU64::new(options.seed);
    let (tally, found) = (Mutex::new(Tally::default()), Mutex::new(None::<Found>));
    let one_after_the_other = || {
        while begin.elapsed() < options.time && found.lock().unwrap().is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            // The long form has now and then a world of many volumes.
            let is_large = options.time > Duration::from_secs(1200) && seed % 20 == 9;
            let volumes = if is_large { 64 } else { options.volumes };
            let length = if is_large { options.steps * 5 } else { options.steps };
            let steps = Maker::history(seed, length, volumes, options.only.as_deref());
            let setting = Setting { seed, volumes, has_cgroups };
            let mut own = Tally::default();
            let ended = play(setting, &steps, &mut own);
            tally.lock().unwrap().add(&own);
            if let Err((at, violation)) = ended {
                found.lock().unwrap().get_or_insert(Found { setting, at, violation, steps });
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(one_after_the_other);
        }
    });
    let tally = tally.into_inner().unwrap();
    println!("{}", options::table(&tally, begin.elapsed()));
    let Some(Found { setting, at, violation, steps }) = found.into_inner().unwrap() else {
        println!("nothing is broken");
        if let Some(path) = &options.report {
            options::report(path, &tally, begin.elapsed());
        }
        return ExitCode::SUCCESS;
    };
    let played = &steps[..at.min(steps.len())];
    tell(setting.seed, at, &violation, played);
    let small = shrink::shrink(setting, played, &violation, options.shrink);
    let path = save(setting, &small);
    println!("\nshrunk to {} steps: --replay {}", small.len(), path.display());
    for (n, step) in small.iter().enumerate() {
        println!("{:4}  {step}", n + 1);
    }
    ExitCode::FAILURE
}

fn tell(seed: u64, at: usize, violation: &Violation, steps: &[Step]) {
    println!("\nhistory {seed}, after step {at}: {}\n{}", violation.kind, violation.text);
    println!("--replay {seed} plays it again; its steps:");
    for (n, step) in steps.iter().enumerate() {
        println!("{:4}  {step}", n + 1);
    }
}

/// A seed, or a file that a failure left.
fn replay(what: &str, options: &Options) -> Result<(u64, usize, Vec<Step>), String> {
    if let Ok(seed) = what.parse() {
        let steps = Maker::history(seed, options.steps, options.volumes, options.only.as_deref());
        return Ok((seed, options.volumes, steps));
    }
    let text = std::fs::read_to_string(what).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn save(setting: Setting, steps: &[Step]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("histories");
    let path = folder.join(format!("{}.json", setting.seed));
    let text = serde_json::to_string(&(setting.seed, setting.volumes, steps)).expect("JSON");
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text));
    written.expect("the history is kept");
    path
}
