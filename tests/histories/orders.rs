//! Orders of two calls, tried one by one: the first is held at one of its seams, the second runs
//! until it has ended or waits, then the first goes on. No sleep decides.

use crate::closing::step;
use crate::options::Options;
use crate::play::{Tally, explain, how, takes_disks};
use crate::steps::{Action, Step};
use crate::world::{Held, Seams, Violation, World, broken};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use Action::{
    Attach, AttachByHand, AttachFromAfar, Container, Detach, DetachForce, DetachFromAfar, ExpandFs,
    Format, Heal, IsAttached, Mount, MountDevice, NewLetter, Pull, Release, StartPod, Unmount,
    UnmountDevice, WaitForAttach,
};

/// Where in its life the volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Away,
    Blank,
    Attached,
    Staged,
    Published,
    Running,
    Dead,
}

/// What is held, in each state.
const HELD: &[(State, &[Action])] = &[
    (State::Away, &[Attach, AttachFromAfar]),
    (State::Blank, &[MountDevice, Format]),
    (State::Attached, &[WaitForAttach, IsAttached, MountDevice, Detach, DetachFromAfar]),
    (State::Staged, &[MountDevice, Mount, UnmountDevice, Detach, Heal]),
    (State::Published, &[Mount, Unmount, UnmountDevice, Detach, ExpandFs]),
    (State::Running, &[Unmount, UnmountDevice, Detach, DetachFromAfar, Release, DetachForce, Heal]),
    (State::Dead, &[Attach, Heal, Mount, Unmount, UnmountDevice]),
];

/// What comes beside it.
const BESIDE: &[Action] = &[
    Attach,
    AttachFromAfar,
    WaitForAttach,
    IsAttached,
    MountDevice,
    Mount,
    Unmount,
    UnmountDevice,
    Detach,
    DetachFromAfar,
    ExpandFs,
    DetachForce,
    Release,
    Heal,
    Format,
    Container,
    Pull,
    NewLetter,
    AttachByHand,
];

/// Two calls.
#[derive(Debug, Clone, Copy)]
struct Pair {
    state: State,
    held: Action,
    beside: Action,
    /// The second one at the other server.
    is_elsewhere: bool,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, held, beside, is_elsewhere } = self;
        let place = if *is_elsewhere { "@other" } else { "" };
        write!(f, "{state:?}/{held:?}/{beside:?}{place}")
    }
}

/// How often an order ended how.
type Ends = BTreeMap<(Action, String), u64>;

fn pairs(options: &Options) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (state, held) in HELD {
        for held in *held {
            for beside in BESIDE {
                for is_elsewhere in [false, true] {
                    // Few of them mean another thing there.
                    let differs =
                        matches!(beside, Attach | MountDevice | Detach | AttachByHand | IsAttached);
                    if is_elsewhere && !differs {
                        continue;
                    }
                    pairs.push(Pair { state: *state, held: *held, beside: *beside, is_elsewhere });
                }
            }
        }
    }
    let (part, of) = options.part;
    let mut pairs: Vec<_> = pairs
        .into_iter()
        .enumerate()
        .filter(|(n, _)| n % of == part - 1)
        .map(|(_, pair)| pair)
        .filter(|pair| options.only.as_ref().is_none_or(|only| pair.to_string().contains(only)))
        .collect();
    // A fixed order that has a little of everything early.
    pairs.sort_by_key(|pair| {
        pair.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    });
    pairs
}

/// A world whose volume is in a state.
fn scene(pair: Pair, mut world: World) -> Result<World, Violation> {
    let tally = &mut Tally::default();
    let id = world.volumes[0].id.clone();
    world.cloud.world().volume_mut(&id).multiattach = pair.beside == AttachByHand;
    let must = |world: &mut World, tally: &mut Tally, actions: &[Action]| {
        for action in actions {
            world.play(&step(*action, 0, 0, 0), tally)?;
        }
        Ok(())
    };
    if pair.state != State::Blank {
        must(&mut world, tally, &[Attach, MountDevice])?;
    }
    let (down, up) = (&[UnmountDevice, Detach][..], &[Mount][..]);
    match pair.state {
        State::Blank => must(&mut world, tally, &[Attach])?,
        State::Away => must(&mut world, tally, down)?,
        State::Attached => must(&mut world, tally, &down[..1])?,
        State::Staged => {}
        State::Published => must(&mut world, tally, up)?,
        State::Running => must(&mut world, tally, &[StartPod, Action::Write])?,
        State::Dead => must(&mut world, tally, &[StartPod, Action::Write, NewLetter])?,
    }
    Ok(world)
}

/// How an order came out.
enum Order {
    Tried(Box<World>, String, Vec<String>),
    /// The first call has no such seam.
    NoSeam,
}

/// One order: the first call is held at this seam.
fn play(pair: Pair, seam: usize, world: World) -> Result<Order, Violation> {
    let mut world = scene(pair, world)?;
    let held = step(pair.held, 0, 0, 0);
    let beside =
        step(pair.beside, usize::from(pair.is_elsewhere), 0, usize::from(pair.beside == Container));
    let beside = Step { pod: 0, ..beside };
    let gate = world.base().join("gate");
    let (held_at, list) = (Some((seam, gate.clone())), world.list());
    let seams = Seams { held_at, list: Some(list.clone()), ..Seams::default() };
    world.asks_for(&held);
    world.asks_for(&beside);
    let ready = world.ready(&held);
    let first = std::thread::spawn(move || ready.make(&seams));
    while !gate.exists() && !first.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if !gate.exists() {
        let ended = first.join().expect("the first call")?;
        world.settle(&held, &ended, None)?;
        return Ok(Order::NoSeam);
    }
    let name = fs::read_to_string(&gate).unwrap_or_default();
    let second = second(&mut world, &beside, &gate);
    let _ = fs::remove_file(&gate);
    let one = first.join().expect("the first call")?;
    let passed = fs::read_to_string(&list).unwrap_or_default();
    let passed = passed.lines().map(str::to_owned).collect();
    let (two, waited) = second?.join()?;
    explain(&held, &one);
    world.settle(&held, &one, Some(&beside))?;
    if let Some(two) = &two {
        explain(&beside, two);
        world.settle(&beside, two, Some(&held))?;
    }
    let may_kill = takes_disks(held.action) || takes_disks(beside.action);
    world.always_holds(&held, may_kill)?;
    world.away.clear();
    world.close(&mut Tally::default())?;
    let two = two.as_ref().map_or("done", how);
    let waited = if waited { ", waited" } else { "" };
    let ended = format!("{}, {two}{waited} ({})", how(&one), name.trim());
    Ok(Order::Tried(Box::new(world), ended, passed))
}

/// The second of two, under way.
enum Second {
    Event,
    Call(std::thread::JoinHandle<Result<crate::world::Ended, Violation>>, bool),
}

impl Second {
    fn join(self) -> Result<(Option<crate::world::Ended>, bool), Violation> {
        match self {
            Self::Event => Ok((None, false)),
            Self::Call(call, waited) => Ok((Some(call.join().expect("the second call")?), waited)),
        }
    }
}

/// Until it has ended, or waits for the first one.
fn second(world: &mut World, beside: &Step, gate: &Path) -> Result<Second, Violation> {
    /// Who shows no sign for so long waits for something else than a lock.
    const SIGN: Duration = Duration::from_secs(3);
    if !beside.action.is_call() {
        world.happen(beside)?;
        return Ok(Second::Event);
    }
    let list = world.list();
    let seams = Seams { list: Some(list.clone()), ..Seams::default() };
    let ready = world.ready(beside);
    let call = std::thread::spawn(move || ready.make(&seams));
    let begin = Instant::now();
    let mut waits = false;
    while !call.is_finished() && !waits && gate.exists() {
        let passed = fs::read_to_string(&list).unwrap_or_default();
        waits = passed.lines().last() == Some("locks.waits") || begin.elapsed() > SIGN;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Second::Call(call, waits))
}

/// All seams of a pair's first call, until the time is over. A world that came through is used
/// again: a first file system takes longest.
fn all_seams(
    pair: Pair,
    worlds: &mut Option<World>,
    new_world: impl Fn() -> World,
    end: Instant,
    ends: &Mutex<Ends>,
) -> Result<(), (usize, Violation)> {
    let mut names: Vec<String> = Vec::new();
    for seam in 1.. {
        if Instant::now() > end {
            break;
        }
        // Each step of the call once, and the last of all.
        let is_known = |n: usize| names.get(n).is_some_and(|name| names[..n].contains(name));
        if is_known(seam - 1) && seam < names.len() {
            continue;
        }
        let used = worlds.take().filter(|_| pair.state != State::Blank);
        let world = used.unwrap_or_else(&new_world);
        let played = catch_unwind(AssertUnwindSafe(|| play(pair, seam, world)));
        let played = played.unwrap_or_else(|_| {
            let failed: Held = broken("the harness itself failed", "see above");
            failed.map(|()| Order::NoSeam)
        });
        match played {
            Ok(Order::NoSeam) => break,
            Ok(Order::Tried(world, ended, passed)) => {
                if names.is_empty() {
                    names = passed;
                }
                *worlds = Some(*world);
                if std::env::var_os("HISTORIES_TOLD").is_some() {
                    println!("{pair}/{seam}: {ended}");
                }
                let ended = ended.split(" (").next().unwrap_or_default().to_owned();
                *ends.lock().unwrap().entry((pair.held, ended)).or_default() += 1;
            }
            Err(violation) => return Err((seam, violation)),
        }
    }
    Ok(())
}

pub fn try_all(options: &Options, has_cgroups: bool) -> ExitCode {
    let begin = Instant::now();
    let end = begin + options.time;
    let pairs = pairs(options);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (ends, failed) = (Mutex::new(Ends::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                let mut world = None;
                let new_world = || World::new(options.seed, 1, has_cgroups);
                while Instant::now() < end {
                    let Some(pair) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    if let Err((seam, violation)) =
                        all_seams(*pair, &mut world, new_world, end, &ends)
                    {
                        println!("\n{pair}/{seam}: {}\n{}", violation.kind, violation.text);
                        failed.lock().unwrap().push(format!("{pair}/{seam}: {}", violation.kind));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let text = table(&ends.into_inner().unwrap(), done.into_inner(), pairs.len(), begin.elapsed());
    println!("{text}");
    let failed = failed.into_inner().unwrap();
    if failed.is_empty() {
        println!("nothing is broken");
        if let Some(path) = &options.report {
            crate::options::write_between(path, "orders", &text);
        }
        return ExitCode::SUCCESS;
    }
    println!(
        "broken; `--orders --only {}` tries one again:",
        failed[0]
            .split(':')
            .next()
            .unwrap_or_default()
            .rsplit_once('/')
            .map_or("", |(pair, _)| pair)
    );
    for one in failed {
        println!("  {one}");
    }
    ExitCode::FAILURE
}

fn table(ends: &Ends, done: usize, all: usize, time: Duration) -> String {
    let tried: u64 = ends.values().sum();
    let minutes = time.as_secs().div_ceil(60);
    let mut text = format!(
        "{done} of {all} pairs, {tried} orders, {minutes} min\n\n| held call | it ended, the other one ended | orders |\n| --- | --- | --- |\n"
    );
    for ((held, ended), count) in ends {
        text += &format!("| {held:?} | {ended} | {count} |\n");
    }
    text
}
