//! `disk heal` for all volumes, for the disk that just came, or for every disk that comes: what the
//! calls do by themselves where nobody calls. udev's rule and the timer run it.

use super::heal::{notes, word};
use super::stage;
use crate::driver::Driver;
use crate::driver::adopt::Found;
use crate::driver::forgotten::Forgotten;
use crate::driver::heal::Healed;
use crate::host::system::System;
use crate::host::{Events, nodes, worker};
use crate::log;
use crate::model::config::{Config, HealMode};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::switch::Outcome;
use crate::model::time::Deadline;
use nix::sys::signal::{SigSet, Signal};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whose volumes are looked after.
pub(super) enum Whom {
    /// Everybody's.
    All,
    /// The one's whose disk this is.
    Disk(PathBuf),
    /// Everybody's, again with every disk that comes, until the process is ended.
    Coming,
}

/// How long one look after all volumes may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The net beneath the events, which can be lost.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The same while another call works on a volume.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn run(
    whom: &Whom,
    dry_run: bool,
    config: &Config,
    origin: Option<&Path>,
) -> Result<String> {
    let mode = if dry_run { HealMode::Report } else { config.heal.mode };
    let _is_logged = log::start(config);
    let id = log::new_call_id();
    let _span = tracing::error_span!("verb", id, op = "heal").entered();
    // A timer's log needs no line each minute.
    let is_asked = dry_run || worker::is_seen();
    let tending = Tending { mode, config, origin, is_asked, is_plan: dry_run };
    match whom {
        Whom::Coming => tending.watch(),
        // The kernel gives its number away when it is gone.
        Whom::Disk(node) if !node.exists() => {
            Ok(stage::told(&format!("there is no {}", node.display())))
        }
        Whom::Disk(node) => tending.once(Some(node)),
        Whom::All => tending.once(None),
    }
}

struct Tending<'a> {
    mode: HealMode,
    config: &'a Config,
    origin: Option<&'a Path>,
    /// Whether somebody wants to read that there was nothing to do.
    is_asked: bool,
    /// Whether nothing may be changed.
    is_plan: bool,
}

/// What was said of each volume or folder.
type Said = BTreeMap<String, Vec<String>>;

/// What came of one look.
#[derive(Default)]
struct Looked {
    said: Said,
    failures: Vec<Error>,
    is_busy: bool,
}

impl Tending<'_> {
    fn with_driver<T>(&self, work: impl FnOnce(&Driver<'_>) -> Result<T>) -> Result<T> {
        super::measured("heal", self.config, self.origin, Deadline::after(PATIENCE), work)
    }

    fn once(&self, node: Option<&Path>) -> Result<String> {
        if self.mode == HealMode::Off {
            let ended = self.with_driver(|driver| {
                driver.end_all_leftovers();
                Ok(end_forgotten(driver))
            })?;
            let lines: String =
                ended.iter().map(|one| stage::told(&told_of_forgotten(one))).collect();
            return Ok(format!("{lines}heal.mode is off\n"));
        }
        let Looked { said, failures, .. } = self.look(node)?;
        let mut text = String::new();
        for line in said.into_values().flatten() {
            text += &stage::told(&line);
        }
        match failures.as_slice() {
            [] if text.is_empty() && self.is_asked => {
                Ok("no mount of any volume here stands on a dead disk\n".to_owned())
            }
            [] => Ok(text),
            [first, ..] => {
                say(&text);
                let count = failures.len();
                Err(Error::new(first.kind, format!("{count} could not be put right")))
            }
        }
    }

    /// Looks after all volumes, or one disk's; what was done, by volume, and what could not be.
    fn look(&self, node: Option<&Path>) -> Result<Looked> {
        let (found, tended, ended) = self.with_driver(|driver| {
            if let Some(node) = node {
                let seen = std::fs::metadata(node).ok();
                let number = seen.and_then(|seen| nodes::number_of(&seen)).ok_or_else(|| {
                    Error::bad_call(format!("{} is no disk's node", node.display()))
                })?;
                return Ok((Vec::new(), driver.tend_disk(number, self.mode)?, Vec::new()));
            }
            let found = match self.mode {
                HealMode::Auto => driver.adopt_found()?,
                HealMode::Report | HealMode::Off => Vec::new(),
            };
            let tended = driver.tend_all(self.mode)?;
            let mut ended = Vec::new();
            if !self.is_plan {
                driver.end_all_leftovers();
                ended = end_forgotten(driver);
            }
            Ok((found, tended, ended))
        })?;
        let mut looked = Looked { is_busy: tended.is_busy, ..Looked::default() };
        for one in found {
            let (folder, line) = told_of_found(&one);
            looked.said.insert(folder, vec![line]);
            looked.failures.extend(one.outcome.err());
        }
        for (id, done) in tended.volumes {
            looked.said.insert(id.to_string(), told(&id, &done, self.mode));
            looked.failures.extend(done.err());
        }
        for one in ended {
            let lines = looked.said.entry(one.id.to_string()).or_default();
            lines.push(told_of_forgotten(&one));
            looked.failures.extend(one.outcome.err());
        }
        Ok(looked)
    }

    /// Stays in the foreground. A signal ends it at once while it waits, and else after what it is
    /// doing.
    fn watch(&self) -> Result<String> {
        if self.mode == HealMode::Off {
            return Err(Error::new(Kind::Config, "heal.mode is off: there is nothing to wait for"));
        }
        let working = end_between_looks()?;
        let mut events: Option<Box<dyn Events>> = None;
        let mut last = Said::new();
        loop {
            let looking = working.lock().unwrap_or_else(PoisonError::into_inner);
            // Subscribed before the look, so that no disk comes in between.
            if events.is_none() {
                events = Some(self.with_driver(|driver| Ok(driver.devices.watch()))?);
            }
            let Looked { said, is_busy, .. } = self.look(None).unwrap_or_else(|error| {
                let said = Said::from([(String::new(), vec![format!("cannot look: {error}")])]);
                Looked { said, ..Looked::default() }
            });
            for (whose, lines) in &said {
                if last.get(whose) != Some(lines) {
                    say(&lines.iter().map(|line| stage::told(line)).collect::<String>());
                }
            }
            last = said;
            drop(looking);
            if let Some(events) = &mut events {
                events.wait(if is_busy { LOOK_AGAIN } else { LOOK_EVERY });
            }
        }
    }
}

/// One line for each mount that was looked at, and for each thing that stays as it is.
fn told(id: &VolumeId, done: &Result<Healed>, mode: HealMode) -> Vec<String> {
    let healed = match done {
        Ok(healed) => healed,
        Err(error) => return vec![format!("volume {id}: not healed: {error}")],
    };
    let mut lines = Vec::new();
    for (place, mounts) in &healed.places {
        // Who went away meanwhile is nobody's news.
        for one in mounts.iter().filter(|one| one.outcome != Outcome::Gone) {
            let (word, target) = (word(one), one.mount.target.display());
            lines.push(format!("volume {id}: {word} {target} of {place}{}", notes(one)));
        }
    }
    let is_plan = mode == HealMode::Report && !healed.is_waiting;
    let heading = if is_plan { "would be healed" } else { "left" };
    lines.extend(healed.left.iter().map(|left| format!("volume {id}: {heading}: {left}")));
    lines
}

fn told_of_forgotten(one: &Forgotten) -> String {
    let what = match &one.outcome {
        Ok(true) => "unmounted and detached".to_owned(),
        Ok(false) => "unmounted".to_owned(),
        Err(error) => format!("not taken down: {error}"),
    };
    format!("volume {}: {what}: kubelet does not know it any more, and its pods have ended", one.id)
}

/// What kubelet let go of and forgot; while none runs it may remember still.
fn end_forgotten(driver: &Driver<'_>) -> Vec<Forgotten> {
    let Some(kubelet) = System::default().kubelet() else { return Vec::new() };
    driver.end_forgotten(!kubelet.is_attached_by_controller)
}

fn told_of_found(one: &Found) -> (String, String) {
    let folder = one.folder.display();
    let line = match &one.outcome {
        Ok(id) => format!("volume {id}: adopted {folder}"),
        Err(error) => format!("not adopted: {folder}: {error}"),
    };
    (folder.to_string(), line)
}

/// To somebody who may have gone: what is done does not depend on it.
fn say(text: &str) {
    let mut out = worker::out();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// From here on SIGTERM and SIGINT end the process whenever nobody holds the lock.
#[allow(clippy::exit, reason = "the thread that looks may wait for a disk for a minute")]
fn end_between_looks() -> Result<Arc<Mutex<()>>> {
    let wrong = |errno: nix::errno::Errno| Error::io("wait for signals", &errno.into());
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        signals.add(signal);
    }
    signals.thread_block().map_err(wrong)?;
    let working = Arc::new(Mutex::new(()));
    let idle = Arc::clone(&working);
    std::thread::Builder::new()
        .name("end".to_owned())
        .spawn(move || {
            let signal = signals.wait();
            let _idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            tracing::info!(?signal, "no longer watching");
            std::process::exit(0);
        })
        .map_err(|error| Error::io("start the thread that waits for signals", &error))?;
    Ok(working)
}
