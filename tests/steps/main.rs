//! Each call, each verb and the installer is killed, stopped and failed at each of its system calls,
//! one at a time. Then something follows: it must come to a good end, with its data, and leave nothing.
//!
//! It knows the program from outside alone. `cargo test --test steps -- --minutes 60`; see docs/steps.md.
#![cfg(target_arch = "x86_64")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::unused_self,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a harness fails by panicking, and says so"
)]

mod calls;
mod installer;
mod kubelet;
#[path = "../install/machine.rs"]
mod machine;
mod misled;
mod objects;
mod options;
mod people;
mod play;
#[path = "../cloud/plug.rs"]
mod plug;
mod refusals;
mod report;
#[path = "../cloud/scene.rs"]
mod scene;
#[path = "../openstack/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;
mod trace;
mod volume;

use self::options::Options;
use self::play::{Demand, End, Play, may_be_silent, words_of};
use self::report::Report;
use self::trace::{Kind, Point, run};
use self::volume::Templates;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// One thing that happens at one point of one play, and what follows.
#[derive(Debug, Clone)]
struct Trial {
    play: usize,
    point: Point,
    kind: Kind,
    follow_up: &'static str,
    name: String,
}

impl Trial {
    fn new(play: usize, about: &Play, point: &Point, kind: Kind) -> Self {
        let begin = format!("{}/{point}/{kind}", about.name);
        let count = about.follow_ups.len() as u64;
        let nth = usize::try_from(mixed(&begin) / 7 % count).unwrap_or(0);
        let follow_up = about.follow_ups[nth];
        let name = format!("{begin}/{follow_up}");
        Self { play, point: point.clone(), kind, follow_up, name }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Demand {
    /// Whether the trial fails what is demanded.
    fn is_lost(self, trial: &Trial) -> bool {
        trial.point.call == self.call && matches!(trial.kind, Kind::Error(_))
    }
}

/// A fixed order that has a little of everything early.
fn mixed(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ hash >> 29
}

/// The points of a play, as a run without any trouble shows them.
fn points(templates: &Templates, play: &Play, is_every: bool) -> Vec<Point> {
    let mut scene = (play.set_up)(templates);
    let traced = run(scene.command(), &scene.base(), None);
    let end = scene.end_of(&traced);
    assert_eq!(
        end, play.baseline,
        "{} without any trouble: {} ({:?}, {:.1?})",
        play.name, traced.text, traced.status, traced.time
    );
    if end == End::Success {
        scene.must_be_so(&traced.text);
    }
    if let Some(demand) = play.demand {
        let is_asked = traced.points.iter().any(|point| point.call == demand.call);
        assert!(is_asked, "{} makes no {}", play.name, demand.call);
    }
    let count = traced.points.len();
    let kept = if is_every { traced.points } else { sample(traced.points) };
    println!("{}: {count} system calls, {} points", play.name, kept.len());
    kept
}

/// What is asked again and again of the same is played at its begin, at its end, and between.
fn sample(points: Vec<Point>) -> Vec<Point> {
    let key = |point: &Point| (point.program.clone(), point.call, point.object.clone());
    let mut last = BTreeMap::new();
    for point in &points {
        last.insert(key(point), point.nth);
    }
    let is_kept = |point: &Point| {
        let count = last[&key(point)];
        point.nth <= 3 || point.nth + 2 > count || point.nth.is_power_of_two()
    };
    points.into_iter().filter(is_kept).collect()
}

/// All that can happen where our own program asks something for the first time. Where it asks the
/// same again, and within the tools that it starts, a kill and one of the errors, another each time.
fn some_kinds(play: &Play, point: &Point) -> Vec<Kind> {
    let kinds = point.kinds();
    let program = point.program.as_str();
    // A driver that installs itself is called by the name of its file.
    let is_ours = ["disk", "dash", "bash", "busybox"].contains(&program);
    if point.nth == 1 && (is_ours || program.starts_with("driver-")) {
        return kinds;
    }
    let (signals, errors) = kinds.split_at(3);
    let nth = mixed(&format!("{}/{point}", play.name)) / 64 % errors.len().max(1) as u64;
    let error = errors.get(usize::try_from(nth).unwrap_or(0));
    signals.first().into_iter().chain(error).copied().collect()
}

/// Plays one trial; answers how the call that was struck ended.
fn play(templates: &Templates, play: &Play, trial: &Trial) -> End {
    let mut scene = (play.set_up)(templates);
    let is_stop = trial.kind == Kind::Stop;
    scene.hurry(is_stop);
    let traced = run(scene.command(), &scene.base(), Some((&trial.point, trial.kind)));
    scene.hurry(false);
    let end = scene.end_of(&traced);
    if end == End::Success {
        scene.must_be_so(&traced.text);
    }
    let is_lost = traced.is_struck && play.demand.is_some_and(|demand| demand.is_lost(trial));
    assert!(!is_lost || end == End::Failure, "{end:?}, and what was written may be lost");
    assert!(
        end != End::Silent
            || !scene.must_answer()
            || (traced.is_struck && may_be_silent(trial.kind, &trial.point)),
        "no reply after {:.1?}: {:?}",
        traced.time,
        traced.text
    );
    let is_closed = trial.kind == Kind::Error(nix::errno::Errno::EACCES);
    if is_closed && trial.point.object.starts_with("/proc/") {
        scene.was_closed();
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| scene.go_on(trial.follow_up)));
    if let Err(why) = outcome {
        let why = words_of(why.as_ref());
        panic!("it was {end:?} ({}), and then: {why}", traced.text.trim());
    }
    if traced.is_struck { end } else { End::Missed }
}

/// Where the last panic was: what it says is told with the trial.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn keep_place_of_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        *PLACE.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = place;
    }));
}

fn place() -> String {
    PLACE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

fn trials_of(plays: &[Play], templates: &Templates, options: &Options) -> Vec<Trial> {
    let (mut trials, kept) = (Vec::new(), options.kept_points());
    for (nth, about) in plays.iter().enumerate().filter(|(_, play)| options.means(&play.name)) {
        let known = kept.iter().filter(|(play, _)| *play == about.name);
        let mut of_play: Vec<Point> = known.map(|(_, point)| point.clone()).collect();
        if of_play.is_empty() {
            of_play = points(templates, about, options.is_every);
            options.keep_points(&about.name, &of_play);
        }
        for point in of_play {
            let kinds = if options.is_every { point.kinds() } else { some_kinds(about, &point) };
            trials.extend(kinds.into_iter().map(|kind| Trial::new(nth, about, &point, kind)));
        }
    }
    // As many of each play, however many points it has.
    trials.sort_by_cached_key(|trial| mixed(&trial.name));
    let mut ranks = BTreeMap::<usize, usize>::new();
    trials.sort_by_cached_key(|trial| {
        let rank = ranks.entry(trial.play).or_default();
        *rank += 1;
        (*rank, trial.play)
    });
    trials
}

fn main() -> ExitCode {
    let options = match Options::of(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            println!("steps: {error}");
            return ExitCode::from(2);
        }
    };
    if !support::private_mounts("steps") || !support::tracer::tracing_is_possible("steps") {
        return ExitCode::SUCCESS;
    }
    let templates = Templates::new();
    let plays: Vec<Play> =
        [kubelet::plays(), refusals::plays(), people::plays(), installer::plays(), misled::plays()]
            .into_iter()
            .flatten()
            .collect();
    let trials = trials_of(&plays, &templates, &options);
    let mut report = Report::of(&trials, options.done.as_deref());
    let mine: Vec<&Trial> = trials
        .iter()
        .filter(|trial| options.is_ours(mixed(&trial.name), &trial.name, &trial.kind.to_string()))
        .filter(|trial| !report.is_done(&trial.name))
        .collect();
    println!("{} points and kinds, {} of them to do", trials.len(), mine.len());
    let old_hook = std::panic::take_hook();
    keep_place_of_panics();
    for (nth, trial) in mine.iter().enumerate() {
        let is_enough = options.is_first && !report.failures.is_empty();
        if is_enough || Instant::now() >= options.until {
            break;
        }
        let played = catch_unwind(AssertUnwindSafe(|| play(&templates, &plays[trial.play], trial)));
        match played {
            Ok(end) => report.ended(trial, end),
            Err(why) => {
                let why = words_of(why.as_ref()).replace('\n', " ");
                report.failed(format!("{trial}: {why} [{}]", place()));
            }
        }
        if (nth + 1) % 50 == 0 {
            println!("{}/{} done, {} failed", nth + 1, mine.len(), report.failures.len());
        }
    }
    std::panic::set_hook(old_hook);
    let text = report.text(&plays, &trials);
    print!("{text}");
    if let Some(path) = &options.report {
        std::fs::write(path, text).expect("the report");
    }
    if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
