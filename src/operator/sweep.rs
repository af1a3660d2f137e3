//! `disk heal` for all volumes, for the disk that just came, or for every disk that comes: what the
//! calls do by themselves, where no call comes. udev's rule and the timer run it.
//!
//! Each look has a worker of its own. One that hangs on a volume's disk is given up; what is left of it
//! is written down beside that volume's lock, and the next look comes to that volume last.

use super::acting::measured;
use super::kernel_story;
use super::switched::{IS_BACK, notes, word};
use super::terminal::{self, say};
use crate::configuration::Config;
use crate::driver::Context;
use crate::driver::attachment::take_down;
use crate::driver::heal::adopt;
use crate::driver::heal::outcome::{HealProgress, Healed};
use crate::driver::heal::recovery;
use crate::driver::heal::sweep::{self, Swept};
use crate::driver::mount::owed_marks;
use crate::driver::report::survey;
use crate::host::worker::parent::Signals;
use crate::host::{self, device_nodes, worker};
use crate::log;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::replacement::ReplacementOutcome;
use crate::model::policy::HealMode;
use crate::model::text::without_digits;
use crate::ports::clock::Deadline;
use crate::ports::host::Devices;
use crate::supervisor::{self, PartPatience};
use crate::wiring;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// The exit status while all mounts wait for a disk that is not here yet.
pub(super) const WAITS: u8 = 3;

/// The exit status when all was done that could be, and something stays on the lost disk: it could not be moved, or its
/// process holds it.
pub(super) const HELD: u8 = 4;

/// How long one look after all volumes may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The net beneath the events, which can be lost.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The same while another call works on a volume, or a disk that came cannot be looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// For how long for such a disk: what hinders it may end the next moment, or never. There is no other event of it.
const LOOKS_FOR: Duration = Duration::from_secs(10);

/// The same while the disk of one hangs: that it answers again is no event.
const LOOK_AT_HANGING: Duration = Duration::from_secs(10);

/// How long a look may be in one and the same system call. A mount that replays a long journal may
/// take so long; it goes on faster the next time.
const WITH_HANGING: Duration = Duration::from_secs(15);

/// How long a look that was asked to end may go on: what it does is whole then.
const TO_ITS_END: Duration = Duration::from_secs(60);

/// The same for one that a person waits for.
const SOON: Duration = Duration::from_secs(1);

/// Looks after the volume whose disk this device is, or after all of this machine; `watch`: again with every disk that
/// comes, until the process is ended.
pub(super) fn run(
    device: Option<&Path>,
    watch: bool,
    dry_run: bool,
    config: &Config,
    origin: Option<&Path>,
) -> Result<(String, u8)> {
    let mode = if dry_run { HealMode::Report } else { config.heal.mode };
    // A timer's log needs no line each minute.
    let is_asked = dry_run || worker::is_seen();
    let sweep = NodeSweep { mode, config, origin, is_asked, is_plan: dry_run };
    match device {
        None if watch => sweep.watch().map(|()| (String::new(), 0)),
        // The kernel gives its number away when it is gone.
        Some(node) if !node.exists() => {
            Ok((terminal::told(&format!("there is no {}", node.display())), 0))
        }
        device => sweep.once(device),
    }
}

struct NodeSweep<'a> {
    mode: HealMode,
    config: &'a Config,
    origin: Option<&'a Path>,
    /// Whether the reader wants to know that there was nothing to do.
    is_asked: bool,
    /// Whether nothing may be changed.
    is_plan: bool,
}

/// What was said of each volume or folder.
type Said = BTreeMap<String, Told>;

/// What is so of a volume or a folder, and what was done about it.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    lines: Vec<String>,
    effect: Effect,
    /// The exit status for what stays on a disk that is gone; of several the highest counts.
    status: u8,
}

/// What the worker of a look says, an object a line: as it comes, for it may not come to its end.
#[derive(Debug, Serialize, Deserialize)]
enum News {
    Told {
        whose: String,
        told: Told,
    },
    /// It came to its end.
    End {
        is_busy: bool,
        is_hanging: bool,
        waits_for_a_look: bool,
    },
}

/// What was done about a volume or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Effect {
    /// Something was put right now: it is told however often it happens.
    PutRight,
    /// It stays as it is.
    None,
    /// It could not be put right.
    Failed,
}

impl Effect {
    fn of<T>(done: &Result<T>) -> Self {
        if done.is_ok() { Self::PutRight } else { Self::Failed }
    }
}

/// What came of one look.
#[derive(Default)]
struct Looked {
    said: Said,
    end: Swept,
    /// The volume at which it was given up: the next look comes to it last.
    given_up_at: Option<String>,
    signal: Option<Signal>,
}

impl Looked {
    fn hear(&mut self, news: News) {
        match news {
            News::Told { whose, told } => {
                self.said.insert(whose, told);
            }
            News::End { is_busy, is_hanging, waits_for_a_look } => {
                self.end = Swept { is_busy, is_hanging, waits_for_a_look };
            }
        }
    }

    fn failures(&self) -> usize {
        self.said.values().filter(|told| told.effect == Effect::Failed).count()
    }
}

/// For how long the looks at disks that cannot be looked at come soon.
#[derive(Default)]
struct Repeat {
    until: Option<Deadline>,
}

impl Repeat {
    /// Whether the next look comes soon, after one that left a disk waiting for another look, or none.
    fn goes_on(&mut self, waits: bool) -> bool {
        let begins = || Deadline::after(LOOKS_FOR);
        self.until = waits.then(|| self.until.unwrap_or_else(begins));
        self.until.is_some_and(|until| !until.over())
    }
}

impl NodeSweep<'_> {
    fn with_context<T>(&self, work: impl FnOnce(&Context<'_>) -> Result<T>) -> Result<T> {
        measured("heal", self.config, self.origin, Deadline::after(PATIENCE), work)
    }

    fn once(&self, node: Option<&Path>) -> Result<(String, u8)> {
        let mut all = Said::new();
        let mut put_off = BTreeSet::new();
        let mut repeat = Repeat::default();
        let failures = loop {
            let looked = self.look(node, &put_off, SOON);
            let failures = looked.failures();
            all.extend(looked.said);
            if let Some(signal) = looked.signal {
                return Err(Error::new(Kind::Busy, format!("ended by {signal}")));
            }
            // No event comes again of one disk; for all of them the timer comes. One that is gone meanwhile is an event.
            if let Some(node) = node
                && repeat.goes_on(looked.end.waits_for_a_look)
            {
                std::thread::sleep(LOOK_AGAIN);
                if node.exists() {
                    // What waited may be told of no more: another call may have ended it.
                    all.retain(|_, told| told.effect == Effect::PutRight);
                    continue;
                }
            }
            // Each time one volume more comes last, and the others are come to.
            if !looked.given_up_at.is_some_and(|id| put_off.insert(id)) {
                break failures;
            }
        };
        let status = all.values().map(|told| told.status).max().unwrap_or_default();
        let mut text = String::new();
        if self.mode == HealMode::Off {
            text += &terminal::told("heal.mode is off");
        }
        for line in all.into_values().flat_map(|told| told.lines) {
            text += &terminal::told(&line);
        }
        match failures {
            0 if text.is_empty() && self.is_asked => {
                Ok(("no mount of any volume here stands on a dead disk\n".to_owned(), 0))
            }
            0 => Ok((text, if self.is_plan { 0 } else { status })),
            count => {
                say(&text);
                Err(Error::new(Kind::Host, format!("{count} could not be put right")))
            }
        }
    }

    /// Looks after all volumes, or one disk's, by a worker; what was done, and what could not be.
    fn look(
        &self,
        node: Option<&Path>,
        put_off: &BTreeSet<String>,
        after_a_signal: Duration,
    ) -> Looked {
        let patience = PartPatience {
            in_all: PATIENCE + TO_ITS_END,
            with_hanging: Some(WITH_HANGING),
            after_a_signal,
        };
        let part = supervisor::part(patience, || self.work(node, put_off));
        let mut looked = Looked { signal: part.signal, ..Looked::default() };
        for line in part.said.split(|byte| *byte == b'\n') {
            if let Ok(news) = serde_json::from_slice(line) {
                looked.hear(news);
            }
        }
        if let Some(error) = part.given_up {
            let (whose, line) = match &part.volume {
                Some(id) => (id.clone(), format!("volume {id}: not healed: {error}")),
                None => (String::new(), format!("cannot look: {error}")),
            };
            let told = Told { lines: vec![line], effect: Effect::Failed, status: 0 };
            looked.hear(News::Told { whose, told });
            looked.end.is_hanging = true;
            looked.given_up_at = part.volume;
        }
        looked
    }

    /// In the worker.
    fn work(&self, node: Option<&Path>, put_off: &BTreeSet<String>) {
        let _is_logged = log::start(self.config);
        let id = log::new_call_id();
        let _span = tracing::error_span!("verb", id, op = "heal").entered();
        if node.is_none() && !self.is_plan {
            host::sweeps::note(&self.config.paths.run_dir);
        }
        let end = self.sweep(node, put_off).unwrap_or_else(|error| {
            tell(String::new(), vec![format!("cannot look: {error}")], Effect::Failed);
            Swept::default()
        });
        let Swept { is_busy, is_hanging, waits_for_a_look } = end;
        tell_news(&News::End { is_busy, is_hanging, waits_for_a_look });
    }

    /// The end of what the log tells of a volume: each has rows of its own. A look that found nothing
    /// new wrote no line, and needs none now.
    fn log_end(&self, id: &VolumeId, done: &Result<Healed>, begin: Instant) {
        let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (who, dry_run) = (host::machine::parent_name(), self.is_plan.then_some(true));
        match done {
            // Each minute the same.
            Ok(healed) if healed.progress == HealProgress::StillWaiting => {}
            Ok(_) if self.mode != HealMode::Auto && !self.is_plan => {}
            Ok(healed) if healed.is_waiting() && self.is_plan => {}
            Ok(healed) if healed.is_waiting() => {
                kernel_story::keep(self.config, id);
                let (left, outcome) = (healed.left.len(), "Waits");
                tracing::warn!(volume = %id, who, duration_ms, left, outcome, event = "disk_awaited", "end");
            }
            Ok(healed) => {
                if healed.has_switched() {
                    kernel_story::keep(self.config, id);
                }
                let left = healed.left.len();
                tracing::info!(volume = %id, who, dry_run, duration_ms, left, event = "call_done", "end");
            }
            Err(error) if error.is_repeated => {
                tracing::debug!(volume = %id, who, duration_ms, kind = error.kind.word(), reason = %error, event = "call_failed", "end");
            }
            Err(error) => {
                tracing::error!(volume = %id, who, dry_run, duration_ms, kind = error.kind.word(), reason = %error, event = "call_failed", "end");
            }
        }
    }

    fn sweep(&self, node: Option<&Path>, put_off: &BTreeSet<String>) -> Result<Swept> {
        self.with_context(|cx| {
            let swept = self.sweep_with(cx, node, put_off);
            if node.is_none() && self.config.metrics.textfile.is_some() {
                survey::count_healths(cx);
            }
            swept
        })
    }

    fn sweep_with(
        &self,
        cx: &Context<'_>,
        node: Option<&Path>,
        put_off: &BTreeSet<String>,
    ) -> Result<Swept> {
        if self.mode == HealMode::Off {
            make_up_for(cx);
            return Ok(Swept::default());
        }
        let mut begin = Instant::now();
        let mut told = |id: &VolumeId, done: Result<Healed>| {
            self.log_end(id, &done, begin);
            begin = Instant::now();
            let effect = match &done {
                Ok(healed) if healed.switched() == 0 => Effect::None,
                done => Effect::of(done),
            };
            let status = match &done {
                Ok(healed) if healed.is_waiting() => WAITS,
                Ok(healed) if self.mode == HealMode::Auto && healed.still_there() > 0 => HELD,
                _ => 0,
            };
            let told = Told { lines: told(id, &done, self.mode), effect, status };
            tell_news(&News::Told { whose: id.to_string(), told });
        };
        if let Some(node) = node {
            let seen = std::fs::metadata(node).ok();
            let number = seen
                .and_then(|seen| device_nodes::number_of(&seen))
                .ok_or_else(|| Error::bad_call(format!("{} is no disk's node", node.display())))?;
            return sweep::sweep_disk(cx, number, self.mode, &mut told);
        }
        let swept = sweep::sweep_all(cx, self.mode, put_off, &mut told)?;
        if self.mode == HealMode::Auto {
            for one in adopt::adopt_found(cx)? {
                let folder = one.folder.display();
                let line = match &one.outcome {
                    Ok(id) => format!("volume {id}: adopted {folder}"),
                    Err(error) => format!("not adopted: {folder}: {error}"),
                };
                tell(folder.to_string(), vec![line], Effect::of(&one.outcome));
            }
        }
        if !self.is_plan {
            make_up_for(cx);
        }
        Ok(swept)
    }

    /// Stays in the foreground. A signal ends it at once while it waits, and else after what it is
    /// doing.
    fn watch(&self) -> Result<()> {
        if self.mode == HealMode::Off {
            return Err(Error::new(Kind::Config, "heal.mode is off: there is nothing to wait for"));
        }
        let mut signals = Signals::of_the_end()?;
        // Subscribed before the look, so that no disk comes in between.
        let mut events = wiring::devices().watch();
        let mut last = Said::new();
        let mut put_off = BTreeSet::new();
        let mut repeat = Repeat::default();
        loop {
            let looked = self.look(None, &put_off, TO_ITS_END);
            for (whose, told) in &looked.said {
                let is_new = || last.get(whose).is_none_or(|before| !is_same(before, told));
                if told.effect == Effect::PutRight || is_new() {
                    say(&told.lines.iter().map(|line| terminal::told(line)).collect::<String>());
                }
            }
            last = looked.said;
            if looked.signal.is_some() {
                return Ok(());
            }
            // One that comes last in vain holds up no other, and is not hurried for.
            let comes_further = if let Some(id) = looked.given_up_at {
                put_off.insert(id)
            } else {
                put_off.clear();
                false
            };
            let is_awaited = repeat.goes_on(looked.end.waits_for_a_look);
            let is_hurried = looked.end.is_busy || comes_further || is_awaited;
            let pause = match (is_hurried, looked.end.is_hanging) {
                (true, _) => LOOK_AGAIN,
                (false, true) => LOOK_AT_HANGING,
                (false, false) => LOOK_EVERY,
            };
            if events.wait_beside(pause, signals.as_fd()) {
                // It may be of another disk than the one that was looked at so far.
                repeat = Repeat::default();
            }
            if signals.came().is_some() {
                return Ok(());
            }
        }
    }
}

/// To the process that waits for this one.
fn tell(whose: String, lines: Vec<String>, effect: Effect) {
    tell_news(&News::Told { whose, told: Told { lines, effect, status: 0 } });
}

fn tell_news(news: &News) {
    if let Ok(line) = serde_json::to_string(news) {
        let _ = worker::out().write_all((line + "\n").as_bytes());
    }
}

/// Whether the lines say the same: for how long something has been so is no news.
fn is_same(before: &Told, now: &Told) -> bool {
    let words = |told: &Told| without_digits(&told.lines.concat());
    words(before) == words(now)
}

/// One line for each mount that was looked at, and for each thing that stays as it is.
fn told(id: &VolumeId, done: &Result<Healed>, mode: HealMode) -> Vec<String> {
    let healed = match done {
        Ok(healed) => healed,
        Err(error) => return vec![format!("volume {id}: not healed: {error}")],
    };
    let mut lines = Vec::new();
    if healed.progress == HealProgress::Resumed {
        lines.push(format!("volume {id}: {IS_BACK}"));
    }
    for (place, mounts) in &healed.places {
        // One that went away meanwhile is not told of.
        for one in mounts.iter().filter(|one| one.outcome != ReplacementOutcome::Gone) {
            let (word, target) = (word(one), one.mount.target.display());
            lines.push(format!("volume {id}: {word} {target} of {place}{}", notes(one)));
        }
    }
    let is_plan = mode == HealMode::Report && !healed.is_waiting();
    let heading = if is_plan { "would be healed" } else { "left" };
    lines.extend(healed.left.iter().map(|left| format!("volume {id}: {heading}: {left}")));
    lines
}

/// What no call comes for any more, and what an earlier one could not do.
fn make_up_for(cx: &Context<'_>) {
    recovery::end_all_leftovers(cx);
    for one in take_down::end_unasked(cx) {
        let what = match &one.outcome {
            Ok(done) => (*done).to_owned(),
            Err(error) => format!("not taken down: {error}"),
        };
        let line = format!("volume {}: {what}: {}", one.id, one.why);
        tell(format!("{} forgotten", one.id), vec![line], Effect::of(&one.outcome));
    }
    // Last, for a cloud may be slow.
    owed_marks::leave_all(cx);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_a_volume(effect: Effect, status: u8) -> News {
        News::Told { whose: "v-1".to_owned(), told: Told { lines: vec![], effect, status } }
    }

    #[test]
    fn what_is_told_of_a_volume_last_is_so() {
        let mut looked = Looked::default();
        looked.hear(of_a_volume(Effect::Failed, WAITS));
        assert_eq!(looked.failures(), 1);
        looked.hear(of_a_volume(Effect::PutRight, 0));
        assert_eq!(looked.failures(), 0);
        assert_eq!(looked.said["v-1"].status, 0);
    }

    #[test]
    fn a_look_is_repeated_for_a_while_each_time_a_disk_begins_to_wait() {
        let mut repeat = Repeat::default();
        assert!(!repeat.goes_on(false));
        assert!(repeat.goes_on(true));
        let begun = repeat.until;
        assert!(repeat.goes_on(true) && repeat.until == begun, "it does not begin anew");
        repeat.until = Some(Deadline::after(Duration::ZERO));
        assert!(!repeat.goes_on(true) && !repeat.goes_on(true), "as long as it waits");
        assert!(!repeat.goes_on(false) && repeat.goes_on(true));
    }
}
