//! What kubelet's own log says around the operations of a story: about the volume and its pods, its starts and
//! ends, and its failed requests to the API server. Rows between the entries, and what follows from both logs.

use super::terminal::{Paint, as_it_is, hanging};
use super::timeline::{Ending, Entry, KERNEL, lets_go};
use crate::host::clock::LOCAL;
use crate::host::kubelet_log::{Bounds, KubeletLog};
use crate::host::machine;
use crate::model::report::kubelet_line::{KubeletLine, Shows, UNITS};
use crate::model::text::{has_word, several, shortened, without_digits};
use crate::model::timestamp::{self, Millis};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The row of something that kubelet said.
pub(super) const KUBELET: &str = "kubelet";

/// The log is read from so long before an operation: an outage of the API comes before a restart, and that
/// before the first call.
const BEFORE: Millis = 5 * 60_000;

/// And until so long after it.
const AFTER: Millis = 2 * 60_000;

/// Failures of the API that are further apart are two rows.
const PAUSE: Millis = 60_000;

/// systemd's word, a new process and kubelet's own word of one start are no further apart.
const ONE_START: Millis = 10_000;

/// So many rows of one volume are shown around an operation.
const MOST: usize = 40;

/// A longer line is cut.
const LONGEST: usize = 400;

/// No name is so short: it would be found in other words.
const SHORTEST: usize = 3;

/// The processes in which kubelet runs.
const PROCESSES: [&str; 5] = ["kubelet", "hyperkube", "k3s", "rke2", "microk8s"];

/// What kubelet's log adds to a story.
#[derive(Debug, Default, Serialize)]
pub(super) struct KubeletStory {
    /// Its words, as rows of the story.
    pub(super) rows: Vec<Entry>,
    /// The tear-downs that followed a start of kubelet.
    after_restart: Vec<AfterRestart>,
    /// What of its log was not read, and why.
    unread: Vec<String>,
}

/// A tear-down that kubelet called soon after its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct AfterRestart {
    start_ms: Millis,
    /// Whether the log shows that it ran before.
    is_restart: bool,
    called_ms: Millis,
    op: String,
    volume: String,
    name: Option<String>,
    /// The pod that kept the volume, by our own log.
    kept_by: Option<String>,
    is_refused: bool,
    /// The lines that say that the API server could not be reached, around the start.
    api_failures: usize,
    api_from_ms: Millis,
    api_until_ms: Millis,
}

/// A start of kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    at: Millis,
    is_restart: bool,
}

/// What was read around some operations that are near each other.
#[derive(Debug, Default)]
struct Reading {
    lines: Vec<KubeletLine>,
    /// The first and the last line of each process.
    processes: BTreeMap<u32, (Millis, Millis)>,
}

/// What kubelet calls the volumes of a story.
#[derive(Debug)]
struct Terms(Vec<(String, String)>);

impl KubeletStory {
    /// What the log says around these entries; `pods` are the names of pods by their UIDs.
    pub(super) fn of(log: &KubeletLog, entries: &[Entry], pods: &BTreeMap<String, String>) -> Self {
        let terms = Terms::of(entries, pods);
        let mut story = Self::default();
        let (mut seen, mut bounds) = (0, Bounds::default());
        let mut readings = Vec::new();
        let all = spans(entries.iter());
        for span in all.iter().rev() {
            if bounds.are_used_up() {
                story.unread.push(unread_before(span.1));
                break;
            }
            let mut processes: BTreeMap<u32, (Millis, Millis)> = BTreeMap::new();
            let read = log.read(*span, &mut bounds, &mut |line| {
                if let Some(process) = line.process {
                    let (first, last) = processes.entry(process).or_insert((line.at, line.at));
                    (*first, *last) = ((*first).min(line.at), (*last).max(line.at));
                }
                line.shows != Shows::Nothing || terms.volume_in(&line.text).is_some()
            });
            match read {
                Ok(mut read) => {
                    seen += read.seen;
                    // kubelet's threads write at once.
                    read.lines.sort_by_key(|line| line.at);
                    readings.push(Reading { lines: read.lines, processes });
                    if let Some(moment) = read.unread_before {
                        story.unread.push(unread_before(moment));
                        break;
                    }
                }
                Err(error) => {
                    story.unread.push(format!(
                        "kubelet's log: {}; {}",
                        error.cause,
                        what_to_type()
                    ));
                    break;
                }
            }
        }
        if seen == 0 && story.unread.is_empty() && !all.is_empty() {
            story.unread.push(nothing_in(log));
        }
        for reading in readings.iter().rev() {
            story.add(reading, &terms, entries);
        }
        story.rows.sort_by_key(|row| row.at);
        story
    }

    fn add(&mut self, reading: &Reading, terms: &Terms, entries: &[Entry]) {
        let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        let mut group: Option<Entry> = None;
        for line in &reading.lines {
            let text = shortened(&line.text, LONGEST).into_owned();
            if let Some(volume) = terms.volume_in(&line.text) {
                let kind = (volume.to_owned(), without_digits(&text));
                if let Some(&place) = known.get(&kind) {
                    counted(&mut self.rows[place], line.at);
                    continue;
                }
                let of_it = count.entry(volume.to_owned()).or_default();
                *of_it += 1;
                if *of_it > MOST {
                    continue;
                }
                known.insert(kind, self.rows.len());
                let name = entries.iter().find(|entry| entry.volume.as_deref() == Some(volume));
                let name = name.and_then(|entry| entry.name.clone());
                self.rows.push(row(line.at, "volume", Some(volume), name, text));
                continue;
            }
            match (line.shows, &mut group) {
                (Shows::Start, _) => self.rows.push(row(line.at, "start", None, None, text)),
                (Shows::Stop, _) => self.rows.push(row(line.at, "stop", None, None, text)),
                (Shows::ApiFailure, Some(group))
                    if line.at <= group.until.unwrap_or(group.at) + PAUSE =>
                {
                    counted(group, line.at);
                }
                (Shows::ApiFailure, group) => {
                    self.rows.extend(group.replace(row(line.at, "api", None, None, text)));
                }
                (Shows::Nothing, _) => {}
            }
        }
        self.rows.extend(group);
        let left_out: usize = count.values().map(|count| count.saturating_sub(MOST)).sum();
        if left_out > 0 {
            let first = reading.lines.first().map_or(0, |line| line.at);
            self.unread.push(format!(
                "{} of kubelet's about it, from {} on",
                several(left_out, "more line", "more lines"),
                timestamp::text(first)
            ));
        }
        let starts = reading.starts();
        for (before, start) in reading.changes() {
            let is_said = |row: &Entry| {
                row.kind.as_deref() == Some("start") && row.at.abs_diff(start) <= ONE_START
            };
            if !self.rows.iter().any(is_said) {
                let text = format!("a new process; the last line of the one before is of {before}");
                self.rows.push(row(start, "process", None, None, text));
            }
        }
        self.after_restart.extend(after_restart(entries, &starts, &reading.lines));
    }

    /// The entries with the rows between them.
    pub(super) fn among(&self, entries: &[Entry]) -> Vec<Entry> {
        let mut all = [entries, &self.rows].concat();
        all.sort_by_key(|entry| entry.at);
        all
    }

    /// The rows about a volume with these entries, and those about kubelet itself at the time of them.
    pub(super) fn around<'a>(
        &'a self,
        entries: impl Iterator<Item = &'a Entry>,
        volume: &str,
    ) -> Vec<&'a Entry> {
        let spans = spans(entries);
        let is_near = |at| spans.iter().any(|(from, to)| (*from..=*to).contains(&at));
        let is_of_it = |row: &&Entry| match &row.volume {
            Some(of) => of == volume,
            None => is_near(row.at),
        };
        self.rows.iter().filter(is_of_it).collect()
    }

    /// What follows the story: what both logs show together, and what was not read.
    pub(super) fn closing(&self, paint: Paint) -> String {
        let mut text = String::new();
        for one in &self.after_restart {
            text += &as_it_is("", &one.sentence(), |line| paint.bold(line));
        }
        for one in &self.unread {
            let unseen = format!("Not seen: {one}");
            text += &hanging("! ", &unseen, |line| paint.doubtful(line));
        }
        text
    }
}

impl Reading {
    /// The moments in which another process began to write, and when the one before wrote last.
    fn changes(&self) -> Vec<(String, Millis)> {
        let mut all: Vec<_> = self.processes.values().copied().collect();
        all.sort_unstable();
        let mut changes = Vec::new();
        let mut last_word = None;
        for (first, last) in all {
            // Two that write in turn are no restart.
            if let Some(before) = last_word.filter(|before| *before <= first) {
                changes.push((timestamp::text(before), first));
            }
            last_word = last_word.max(Some(last));
        }
        changes
    }

    fn starts(&self) -> Vec<Start> {
        let of = |shows| self.lines.iter().filter(move |line| line.shows == shows);
        let stops: Vec<_> = of(Shows::Stop).map(|line| line.at).collect();
        let said = of(Shows::Start).map(|line| Start { at: line.at, is_restart: false });
        let changed = self.changes().into_iter().map(|(_, at)| Start { at, is_restart: true });
        let mut all: Vec<_> = said.chain(changed).collect();
        all.sort_by_key(|start| start.at);
        let mut starts: Vec<Start> = Vec::new();
        for start in all {
            match starts.last_mut() {
                Some(last) if start.at - last.at <= ONE_START => {
                    last.is_restart |= start.is_restart;
                }
                _ => {
                    let is_restart = start.is_restart || stops.iter().any(|at| *at <= start.at);
                    starts.push(Start { is_restart, ..start });
                }
            }
        }
        starts
    }
}

impl Terms {
    fn of(entries: &[Entry], pods: &BTreeMap<String, String>) -> Self {
        let mut terms: BTreeSet<(String, String)> = BTreeSet::new();
        for entry in entries {
            let Some(volume) = &entry.volume else { continue };
            let mut add = |term: &str| {
                if term.len() >= SHORTEST {
                    terms.insert((term.to_owned(), volume.clone()));
                }
            };
            add(volume);
            entry.name.iter().for_each(|name| add(name));
            let Some(pod) = &entry.pod else { continue };
            add(pod);
            // As kubelet 1.20 writes it: orders-0_shop(4e51…).
            if let Some((namespace, name)) = pod.split_once('/') {
                add(&format!("{name}_{namespace}"));
            }
            pods.iter().filter(|(_, name)| *name == pod).for_each(|(uid, _)| add(uid));
        }
        Self(terms.into_iter().collect())
    }

    fn volume_in(&self, text: &str) -> Option<&str> {
        let is_part = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_');
        let mut named = self.0.iter().filter(|(term, _)| has_word(text, term, is_part));
        named.next().map(|(_, volume)| volume.as_str())
    }
}

/// The spans of time around the operations, in the order of time; none touches another.
fn spans<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<(Millis, Millis)> {
    let calls = entries.filter(|entry| !entry.call.is_empty() && entry.op != KERNEL);
    let moments = calls.flat_map(|entry| [Some(entry.at), entry.until].into_iter().flatten());
    let mut moments: Vec<_> = moments.collect();
    moments.sort_unstable();
    let mut spans: Vec<(Millis, Millis)> = Vec::new();
    for at in moments {
        let (from, to) = (at.saturating_sub(BEFORE), at + AFTER);
        match spans.last_mut() {
            Some(last) if last.1 >= from => last.1 = to,
            _ => spans.push((from, to)),
        }
    }
    spans
}

/// The tear-downs that kubelet called soon after it was started: those that were refused, or that took nothing
/// from their pod, and those before which requests to the API server failed.
fn after_restart(entries: &[Entry], starts: &[Start], lines: &[KubeletLine]) -> Vec<AfterRestart> {
    let mut found: Vec<AfterRestart> = Vec::new();
    for entry in entries {
        let (Some(volume), Some(by)) = (&entry.volume, &entry.by) else { continue };
        let is_tear_down = matches!(entry.op.as_str(), "unmount" | "unmountdevice" | "detach");
        let is_kubelets = !entry.is_persons && PROCESSES.iter().any(|name| by.starts_with(name));
        let start = starts.iter().rev().find(|start| start.at <= entry.at);
        let Some(start) = start.filter(|start| entry.at - start.at <= BEFORE) else { continue };
        let is_known = |one: &AfterRestart| one.volume == *volume && one.start_ms == start.at;
        if !is_tear_down || !is_kubelets || found.iter().any(is_known) {
            continue;
        }
        let around = start.at.saturating_sub(BEFORE)..=entry.at + AFTER;
        let failures = lines.iter().filter(|line| line.shows == Shows::ApiFailure);
        let failures: Vec<_> =
            failures.map(|line| line.at).filter(|at| around.contains(at)).collect();
        let kept_by = entry.pod.clone().filter(|_| lets_go(entry));
        let is_refused = entry.ending == Ending::Refused;
        let is_before = failures.iter().any(|at| *at <= entry.at);
        if is_before || is_refused || lets_go(entry) {
            found.push(AfterRestart {
                start_ms: start.at,
                is_restart: start.is_restart,
                called_ms: entry.at,
                op: entry.op.clone(),
                volume: volume.clone(),
                name: entry.name.clone(),
                kept_by,
                is_refused,
                api_failures: failures.len(),
                api_from_ms: failures.first().copied().unwrap_or_default(),
                api_until_ms: failures.last().copied().unwrap_or_default(),
            });
        }
    }
    found
}

impl AfterRestart {
    fn sentence(&self) -> String {
        let (start, later) = (LOCAL.shown(self.start_ms), self.called_ms - self.start_ms);
        let started = if self.is_restart { "restarted" } else { "started" };
        let end = match (&self.kept_by, self.is_refused) {
            (Some(pod), _) => format!(", while {pod} was still using it"),
            (None, true) => ", which was refused".to_owned(),
            (None, false) => String::new(),
        };
        let mut text = format!(
            "kubelet {started} at {} {}, {} before it called {} for {}{end}.",
            timestamp::day(start),
            timestamp::clock(start),
            timestamp::duration(later),
            self.op,
            self.name.as_ref().unwrap_or(&self.volume),
        );
        if self.api_failures > 0 {
            let clock = |at| timestamp::clock(LOCAL.shown(at));
            let lines = several(self.api_failures, "line", "lines");
            text += &format!(
                " From {} to {} its log has {lines} about failed requests to the API server.",
                clock(self.api_from_ms),
                clock(self.api_until_ms)
            );
        }
        text
    }
}

fn counted(row: &mut Entry, at: Millis) {
    row.count += 1;
    row.until = Some(at);
}

fn unread_before(moment: Millis) -> String {
    format!(
        "kubelet's log before {}: there is too much of it; name a volume, or --since",
        timestamp::text(moment)
    )
}

fn what_to_type() -> &'static str {
    if machine::is_root() {
        "if it is in a file: --kubelet-log FILE"
    } else {
        "run it with sudo, or name a file of it: --kubelet-log FILE"
    }
}

fn nothing_in(log: &KubeletLog) -> String {
    match log {
        KubeletLog::Journal => format!(
            "kubelet's log: the journal has none of the time of these operations (units {}); {}",
            UNITS.join(", "),
            what_to_type()
        ),
        KubeletLog::File(path, ..) => format!(
            "kubelet's log: {} has no line of the time of these operations; its times are taken as local ({}), which the variable TZ changes",
            path.display(),
            LOCAL.name(crate::host::clock::now())
        ),
    }
}

fn row(at: Millis, kind: &str, volume: Option<&str>, name: Option<String>, text: String) -> Entry {
    Entry {
        at,
        written: timestamp::text(at),
        until: None,
        count: 1,
        volume: volume.map(str::to_owned),
        name,
        op: KUBELET.to_owned(),
        by: None,
        is_persons: false,
        pod: None,
        node: None,
        disk: None,
        ending: Ending::Event,
        kind: Some(kind.to_owned()),
        text,
        took_ms: None,
        call: String::new(),
    }
}

/// A row's sentence: kubelet's words in quotation marks, and how often it said so.
pub(super) fn sentence(entry: &Entry) -> String {
    let clock = |at| timestamp::clock(LOCAL.shown(at));
    let text = &entry.text;
    match (entry.kind.as_deref(), entry.until) {
        (Some("process"), _) => LOCAL.in_text(text).into_owned(),
        (Some("api"), None) => format!("a request to the API server failed: \"{text}\""),
        (Some("api"), Some(until)) => format!(
            "requests to the API server failed, {} lines until {}: \"{text}\"",
            entry.count,
            clock(until)
        ),
        (_, Some(until)) => {
            let more = usize::try_from(entry.count - 1).unwrap_or(usize::MAX);
            let more = several(more, "line", "lines");
            format!("\"{text}\" (and {more} like it until {})", clock(until))
        }
        (_, None) => format!("\"{text}\""),
    }
}

#[cfg(test)]
#[path = "kubelet_story_tests.rs"]
mod tests;
