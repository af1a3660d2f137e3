//! What kubelet's own log says around the operations of a story: about the volume and its pods, its starts and
//! ends, and its failed requests to the API server. Rows between the entries, and what follows from both logs.

use super::journal::Story;
use super::kubelet_search::{Search, is_pod};
use super::kubelet_words::{flex_volume, tear_down};
use super::tear_downs::{Evidence, TornDown, is_tear_down};
use super::terminal::{Paint, as_it_is, hanging};
use super::timeline::{Entry, KERNEL};
use crate::host::kubelet_log::{Bounds, KubeletLog};
use crate::host::machine;
use crate::host::zone::LOCAL;
use crate::model::error::Result;
use crate::model::report::kubelet_line::{KubeletLine, Shows, UNITS, brief, of_file};
use crate::model::sorting::sort_by_key;
use crate::model::text::{has_word, several, shortened, without_digits};
use crate::model::timestamp::{self, Millis};
use crate::ports::clock;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The row of something that kubelet said.
pub(super) const KUBELET: &str = "kubelet";

/// Rows are shown from so long before an operation: an outage of the API comes before a restart, and that
/// before the first call. Failures of the API that go on are no further apart.
pub(super) const BEFORE: Millis = 5 * 60_000;

/// The log is read from so long before a tear-down: kubelet waits for the API server before it begins.
pub(super) const LONG_BEFORE: Millis = 60 * 60_000;

/// And until so long after it.
pub(super) const AFTER: Millis = 2 * 60_000;

/// Failures of the API that are further apart are two rows.
const PAUSE: Millis = 60_000;

/// systemd's word, a new process and kubelet's own word of one start are no further apart.
pub(super) const ONE_START: Millis = 10_000;

/// So many rows of one volume are shown around an operation.
const MOST: usize = 40;

/// A longer line is cut.
const LONGEST: usize = 400;

/// The most tear-downs that are summed up above a story; the newest are kept.
const TOLD: usize = 10;

/// So much of a file is read to learn where it begins or ends.
const EDGE: usize = 64 << 10;

/// No name is so short: it would be found in other words.
const SHORTEST: usize = 3;

/// What kubelet's log adds to a story.
#[derive(Debug, Default, Serialize)]
pub(super) struct KubeletStory {
    /// Its words, as rows of the story.
    pub(super) rows: Vec<Entry>,
    /// The tear-downs that followed a start of kubelet; if there is none, the last one.
    tear_downs: Vec<TornDown>,
    /// What is wrong with the time zone in which its log was read.
    zone: Option<String>,
    /// When the story begins.
    since_ms: Option<Millis>,
    /// When a volume was torn down last, if that was before.
    last_tear_down_ms: Option<Millis>,
    /// What of its log was not read, and why.
    unread: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KubeletStart {
    pub(super) at: Millis,
    pub(super) is_restart: bool,
}

/// What was read around some operations that are near each other.
#[derive(Debug, Default)]
pub(super) struct KubeletReading {
    span: (Millis, Millis),
    /// When the first and the last line were written that were seen.
    seen: Option<(Millis, Millis)>,
    pub(super) lines: Vec<KubeletLine>,
    /// The first and the last line of each process.
    processes: BTreeMap<u32, (Millis, Millis)>,
}

/// What kubelet calls the volumes of a story and their pods.
#[derive(Debug)]
pub(super) struct VolumeTerms(BTreeSet<VolumeTerm>);

/// A word of kubelet's that means a volume.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VolumeTerm {
    /// Whether it only names a pod of the volume.
    pub(super) is_pods: bool,
    word: String,
    pub(super) volume: String,
}

/// The journal, or the files that a person names.
pub(super) fn logs(paths: &[PathBuf]) -> Result<Vec<KubeletLog>> {
    if paths.is_empty() {
        return Ok(vec![KubeletLog::of(None)?]);
    }
    paths.iter().map(|path| KubeletLog::of(Some(path))).collect()
}

impl KubeletStory {
    /// What the log says around what happened in a story.
    pub(super) fn of(logs: &[KubeletLog], story: &mut Story) -> Self {
        let search = Search::of(logs, story);
        story.pods.extend(search.pods.clone());
        let terms = VolumeTerms::of(story, &search);
        let mut found = Self { since_ms: story.since, ..Self::default() };
        found.zone = search.zone(story, &terms);
        if found.zone.is_some() {
            // All that it says is of another time.
            return found;
        }
        let mut moments = moments(story);
        let is_since = |at: &Millis| story.since.is_none_or(|since| *at >= since);
        let (since, before): (Vec<_>, Vec<_>) = search.tear_downs().partition(is_since);
        let before = before.into_iter().chain(story.torn_down_before).max();
        moments.extend(since.into_iter().map(|at| (at, true)));
        found.last_tear_down_ms = before.filter(|_| !moments.iter().any(|(_, is_one)| *is_one));
        let mut bounds = Bounds::default();
        let is_wide = |is_tear_down| if is_tear_down { LONG_BEFORE } else { BEFORE };
        let spans = spans(&moments, is_wide).into_iter();
        let mut readings: Vec<_> = spans.map(KubeletReading::of_span).collect();
        'all: for reading in readings.iter_mut().rev() {
            for log in logs {
                if let Some(unread) = reading.read(log, &mut bounds, &terms) {
                    found.unread.push(unread);
                    break 'all;
                }
            }
        }
        let is_seen = readings.iter().any(|reading| reading.seen.is_some());
        let is_of_journal = logs.iter().any(|log| matches!(log, KubeletLog::Journal));
        if moments.is_empty() && !story.older.is_empty() && is_of_journal {
            let why = "kubelet's log was not searched: no line above says when it was written";
            found.unread.push(why.to_owned());
        } else if found.unread.is_empty() {
            found.unread.extend(not_covered(logs, &moments, is_seen));
        }
        found.unread.extend(search.unread);
        for reading in &mut readings {
            // kubelet's threads write at once.
            sort_by_key(&mut reading.lines, |line| line.at);
        }
        found.tell(&readings, Evidence { story, terms: &terms, disks: &search.lines });
        found
    }

    fn tell(&mut self, readings: &[KubeletReading], evidence: Evidence<'_>) {
        let all = readings.iter().flat_map(|reading| TornDown::all(evidence, reading));
        let (remarkable, others): (Vec<_>, Vec<_>) = all.partition(TornDown::is_remarkable);
        self.tear_downs = remarkable;
        if self.tear_downs.is_empty() {
            self.tear_downs.extend(TornDown::last_of(others));
        }
        sort_by_key(&mut self.tear_downs, |one| one.called_ms);
        let said = readings.iter().flat_map(|reading| &reading.lines);
        let said = said.filter(|line| tear_down(line).is_some()).map(|line| (line.at, true));
        let operations: Vec<_> = moments(evidence.story).into_iter().chain(said).collect();
        let caused = self.tear_downs.iter().map(|one| (one.shown_from(), one.called_ms));
        let caused = caused.filter_map(|(from, to)| Some((from?, to)));
        let shown = merged(spans(&operations, |_| BEFORE).into_iter().chain(caused).collect());
        for reading in readings {
            self.add(reading, evidence, &shown);
        }
        self.mark_gaps(&shown);
        sort_by_key(&mut self.rows, |row| row.at);
    }

    /// Marks the time between two spans in which requests failed: they may have failed meanwhile too.
    fn mark_gaps(&mut self, shown: &[(Millis, Millis)]) {
        let fails = |(from, to): (Millis, Millis)| {
            let is_within = |row: &Entry| row.at <= to && row.until.unwrap_or(row.at) >= from;
            self.rows.iter().any(|row| row.kind.as_deref() == Some("api") && is_within(row))
        };
        let gaps = shown.windows(2).filter(|pair| fails(pair[0]) && fails(pair[1]));
        let gap = |pair: &[(Millis, Millis)]| {
            let text = format!("its log is not shown until {}", timestamp::text(pair[1].0));
            row(pair[0].1, "gap", None, None, text)
        };
        let gaps: Vec<_> = gaps.map(gap).collect();
        self.rows.extend(gaps);
    }

    fn add(
        &mut self,
        reading: &KubeletReading,
        Evidence { story, terms, .. }: Evidence<'_>,
        shown: &[(Millis, Millis)],
    ) {
        let starts = reading.starts();
        let is_shown = |at| shown.iter().any(|(from, to)| (*from..=*to).contains(&at));
        let mut rows: BTreeMap<&str, Vec<(u8, Entry)>> = BTreeMap::new();
        let mut known: BTreeMap<(&str, String), usize> = BTreeMap::new();
        let mut group: Option<Entry> = None;
        for line in reading.lines.iter().filter(|line| is_shown(line.at)) {
            let text = shortened(&brief(&line.text), LONGEST).into_owned();
            if let Some(term) = terms.find(&line.text) {
                let of_it = rows.entry(&term.volume).or_default();
                let kind = (term.volume.as_str(), without_digits(&text));
                if let Some(&place) = known.get(&kind) {
                    counted(&mut of_it[place].1, line.at);
                    continue;
                }
                known.insert(kind, of_it.len());
                let row = row(line.at, "volume", Some(&term.volume), story.name_of(term), text);
                of_it.push((term.rank(line), row));
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
        let mut left_out = 0;
        for mut of_it in rows.into_values() {
            sort_by_key(&mut of_it, |(rank, _)| *rank);
            left_out += of_it.len().saturating_sub(MOST);
            self.rows.extend(of_it.into_iter().take(MOST).map(|(_, row)| row));
        }
        if left_out > 0 {
            let more = several(left_out, "more line", "more lines");
            self.unread.push(format!("{more} of kubelet's log that name the volume or its pods"));
        }
        for (before, at) in reading.changes() {
            // Only the first sign of a start has the moment that a sentence names.
            let is_first = starts.iter().any(|start| start.at == at);
            if is_first && is_shown(at) && !self.rows.iter().any(|row| is_start_at(row, at)) {
                let text = format!("a new process; the last line of the one before is of {before}");
                self.rows.push(row(at, "process", None, None, text));
            }
        }
    }

    /// Whether it adds nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.conclusions().is_empty()
    }

    /// The entries with the rows between them.
    pub(super) fn among(&self, entries: &[Entry]) -> Vec<Entry> {
        let mut all = [entries, &self.rows].concat();
        sort_by_key(&mut all, |entry| entry.at);
        all
    }

    /// The rows about a volume with these entries, and those about kubelet itself at the time of them.
    pub(super) fn around<'a>(
        &'a self,
        entries: impl Iterator<Item = &'a Entry>,
        volume: &str,
    ) -> Vec<&'a Entry> {
        let spans = spans(&moments_of(entries), |_| BEFORE);
        let is_near = |at| spans.iter().any(|(from, to)| (*from..=*to).contains(&at));
        let is_of_it = |row: &&Entry| match &row.volume {
            Some(of) => of == volume,
            None => is_near(row.at),
        };
        self.rows.iter().filter(is_of_it).collect()
    }

    /// What both logs show together: who called a tear-down, and why.
    pub(super) fn conclusions(&self) -> Vec<String> {
        let left_out = self.tear_downs.len().saturating_sub(TOLD);
        let more = several(left_out, "more tear-down", "more tear-downs");
        let more = format!("Before that, {more} followed a start of kubelet: name a volume.");
        let newest = self.tear_downs[left_out..].iter().map(TornDown::sentence);
        // As --since takes it.
        let minute = |at| timestamp::text(LOCAL.shown(at))[..16].to_owned();
        let last = self.since_ms.zip(self.last_tear_down_ms).map(|(since, at)| {
            let (since, at) = (minute(since), minute(at));
            format!(
                "No volume was torn down since {since}. To see the last tear-down: --since {at}"
            )
        });
        let zone = self.zone.iter().cloned();
        zone.chain(newest).chain((left_out > 0).then_some(more)).chain(last).collect()
    }

    /// The conclusions as text, to be shown above the story.
    pub(super) fn opening(&self, paint: Paint) -> String {
        self.conclusions().iter().map(|one| as_it_is("", one, |line| paint.bold(line))).collect()
    }

    /// What was not read, below the story.
    pub(super) fn closing(&self, paint: Paint) -> String {
        let text = |one| hanging("! ", &format!("Not seen: {one}"), |line| paint.doubtful(line));
        self.unread.iter().map(text).collect()
    }
}

impl Story {
    /// What people call the volume of a term.
    fn name_of(&self, term: &VolumeTerm) -> Option<String> {
        let of = self.entries.iter().find(|entry| entry.volume.as_ref() == Some(&term.volume));
        of.and_then(|entry| entry.name.clone())
    }
}

impl VolumeTerm {
    /// Where there are too many lines, those of a lower rank are shown: about the volume itself, then what is
    /// taken down beside it, then the rest about its pod.
    fn rank(&self, line: &KubeletLine) -> u8 {
        let is_told = line.is_deletion() || line.unread_claim().is_some();
        let is_tear_down =
            ["Unmount", "TearDown", "Detach"].iter().any(|of| line.text.contains(of));
        match () {
            () if !self.is_pods || is_told => 0,
            () if is_tear_down => 1,
            () => 2,
        }
    }
}

impl KubeletReading {
    fn of_span(span: (Millis, Millis)) -> Self {
        Self { span, ..Self::default() }
    }

    /// Whether a moment is one of those that it is about.
    pub(super) fn covers(&self, at: Millis) -> bool {
        (self.span.0..=self.span.1).contains(&at)
    }

    /// From when on it was read.
    pub(super) fn begin(&self) -> Millis {
        self.span.0
    }

    pub(super) fn first(&self) -> Option<Millis> {
        self.seen.map(|(first, _)| first)
    }

    pub(super) fn last(&self) -> Option<Millis> {
        self.seen.map(|(_, last)| last)
    }

    pub(super) fn all(&self, shows: Shows) -> impl Iterator<Item = &KubeletLine> {
        self.lines.iter().filter(move |line| line.shows == shows)
    }

    /// Reads what a log has of the span; answers what of it is not read.
    fn read(
        &mut self,
        log: &KubeletLog,
        bounds: &mut Bounds,
        terms: &VolumeTerms,
    ) -> Option<String> {
        if bounds.are_used_up() {
            return Some(unread_before(self.span.1));
        }
        let read = log.read(self.span, bounds, &mut |line| {
            if let Some(process) = line.process {
                let (first, last) = self.processes.entry(process).or_insert((line.at, line.at));
                (*first, *last) = ((*first).min(line.at), (*last).max(line.at));
            }
            let (first, last) = self.seen.get_or_insert((line.at, line.at));
            (*first, *last) = ((*first).min(line.at), (*last).max(line.at));
            line.shows != Shows::Nothing || terms.find(&line.text).is_some()
        });
        match read {
            Ok(read) => {
                // Two files may have the same line.
                let known: HashSet<_> = self.lines.iter().collect();
                let new = read.lines.into_iter().filter(|line| !known.contains(line));
                let new: Vec<_> = new.collect();
                self.lines.extend(new);
                read.unread_before.map(unread_before)
            }
            Err(error) => Some(format!("kubelet's log: {}; {}", error.cause, what_to_type())),
        }
    }

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

    pub(super) fn starts(&self) -> Vec<KubeletStart> {
        let stops: Vec<_> = self.all(Shows::Stop).map(|line| line.at).collect();
        let said =
            self.all(Shows::Start).map(|line| KubeletStart { at: line.at, is_restart: false });
        let changed =
            self.changes().into_iter().map(|(_, at)| KubeletStart { at, is_restart: true });
        let mut all: Vec<_> = said.chain(changed).collect();
        sort_by_key(&mut all, |start| start.at);
        let mut starts: Vec<KubeletStart> = Vec::new();
        for start in all {
            match starts.last_mut() {
                Some(last) if start.at - last.at <= ONE_START => {
                    last.is_restart |= start.is_restart;
                }
                _ => {
                    let is_restart = start.is_restart || stops.iter().any(|at| *at <= start.at);
                    starts.push(KubeletStart { is_restart, ..start });
                }
            }
        }
        starts
    }
}

impl VolumeTerms {
    pub(super) fn of(story: &Story, search: &Search) -> Self {
        let mut terms = BTreeSet::new();
        let mut add = |word: &str, volume: &str, is_pods| {
            if word.len() >= SHORTEST {
                let (word, volume) = (word.to_owned(), volume.to_owned());
                terms.insert(VolumeTerm { is_pods, word, volume });
            }
        };
        for entry in &story.entries {
            let Some(volume) = &entry.volume else { continue };
            let names = [Some(volume), entry.name.as_ref()];
            names.into_iter().flatten().for_each(|name| add(name, volume, false));
            let pod = entry.pod.iter();
            pod.flat_map(|pod| story.words_of(pod)).for_each(|word| add(&word, volume, true));
        }
        // What only an older driver knew, or kubelet.
        let older = story.older.iter().filter_map(|line| line.pod_and_name());
        let older = older.map(|(pod, name)| (Some(pod), name));
        let said = search.lines.iter();
        let said = said.filter_map(|line| Some((line.pod_uid(), flex_volume(line)?)));
        let pairs: Vec<_> = older.chain(said).collect();
        let of_pod = |name: &String| {
            pairs.iter().any(|(pod, _)| *pod == Some(name))
                || search.pods.iter().any(|(uid, of)| is_pod(name, of, uid))
        };
        let asked: Vec<_> = story.names.iter().filter(|name| !of_pod(name)).collect();
        let entries = || story.entries.iter().chain(&story.earlier);
        let volume_of = |name: &str| {
            let is_called = |entry: &&Entry| {
                [&entry.volume, &entry.name].iter().any(|of| of.as_deref() == Some(name))
            };
            let entry = entries().find(is_called);
            let entry = entry.or(entries().next().filter(|_| !asked.is_empty()));
            let known = entry.and_then(|entry| entry.volume.clone());
            known.or(asked.first().map(|name| (*name).clone())).unwrap_or_else(|| name.to_owned())
        };
        for name in &asked {
            add(name, &volume_of(name), false);
        }
        for (pod, name) in pairs {
            let volume = volume_of(name);
            add(name, &volume, false);
            let Some(uid) = pod else { continue };
            add(uid, &volume, true);
            let pod = story.pods.get(uid);
            pod.into_iter()
                .flat_map(|pod| story.words_of(pod))
                .for_each(|word| add(&word, &volume, true));
        }
        Self(terms)
    }

    pub(super) fn find(&self, text: &str) -> Option<&VolumeTerm> {
        // Those of volumes come first.
        self.0.iter().find(|term| is_named(text, &term.word))
    }
}

impl Story {
    /// What kubelet calls a pod.
    pub(super) fn words_of(&self, pod: &str) -> Vec<String> {
        // As kubelet 1.20 writes it: orders-0_shop(4e51…).
        let both = pod.split_once('/').map(|(namespace, name)| format!("{name}_{namespace}"));
        let uids = self.pods.iter().filter(|(_, name)| *name == pod).map(|(uid, _)| uid.clone());
        uids.chain(both).chain([pod.to_owned()]).collect()
    }
}

pub(super) fn is_named(text: &str, word: &str) -> bool {
    has_word(text, word, |sign| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_'))
}

/// When kubelet may have said something, and whether a volume was torn down then.
fn moments(story: &Story) -> Vec<(Millis, bool)> {
    let mut all = moments_of(story.entries.iter());
    all.extend(story.older.iter().filter_map(|older| {
        let line = older.line.to_ascii_lowercase();
        Some((older.moment()?, line.contains("unmount") || line.contains("detach")))
    }));
    all
}

fn moments_of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<(Millis, bool)> {
    let calls = entries.filter(|entry| !entry.call.is_empty() && entry.op != KERNEL);
    let both = |entry: &Entry| {
        [Some(entry.at), entry.until].map(|at| at.map(|at| (at, is_tear_down(entry))))
    };
    calls.flat_map(both).flatten().collect()
}

/// The spans of time around moments, in the order of time; none touches another.
fn spans(moments: &[(Millis, bool)], before: impl Fn(bool) -> Millis) -> Vec<(Millis, Millis)> {
    let span = |(at, is_tear_down): &(Millis, bool)| {
        (at.saturating_sub(before(*is_tear_down)), at + AFTER)
    };
    merged(moments.iter().map(span).collect())
}

fn merged(mut all: Vec<(Millis, Millis)>) -> Vec<(Millis, Millis)> {
    all.sort_unstable();
    let mut spans: Vec<(Millis, Millis)> = Vec::new();
    for (from, to) in all {
        match spans.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(to),
            _ => spans.push((from, to)),
        }
    }
    spans
}

fn is_start_at(row: &Entry, at: Millis) -> bool {
    row.at == at && matches!(row.kind.as_deref(), Some("start" | "process"))
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

pub(super) fn what_to_type() -> &'static str {
    if machine::is_root() {
        "if it is in a file: --kubelet-log FILE"
    } else {
        "run it with sudo, or name a file of it: --kubelet-log FILE"
    }
}

/// What these logs do not cover of the moments of a story.
fn not_covered(logs: &[KubeletLog], moments: &[(Millis, bool)], is_seen: bool) -> Vec<String> {
    let files = logs.iter().filter_map(|log| match log {
        KubeletLog::File(path, file, length) => Some((path.as_path(), file, *length)),
        KubeletLog::Journal => None,
    });
    let files: Vec<_> = files.collect();
    let edges = || files.iter().filter_map(|(path, file, length)| edges(path, file, *length));
    let first = edges().map(|(first, _, path)| (first, path)).min();
    let last = edges().map(|(_, last, path)| (last, path)).max();
    let said = |edge: Option<(Millis, &Path)>, word: &str| {
        edge.map(|(at, path)| format!("{} {word} at {}", path.display(), timestamp::text(at)))
    };
    let (begins, ends) = (said(first, "begins"), said(last, "ends"));
    if is_seen {
        let is_earlier = |(at, _): &(Millis, bool)| {
            first.is_some_and(|first| at.saturating_sub(BEFORE) < first.0)
        };
        let is_later = |(at, _): &(Millis, bool)| last.is_some_and(|last| *at > last.0);
        let tear_downs = || moments.iter().filter(|(_, is_tear_down)| *is_tear_down);
        let begins = begins.filter(|_| tear_downs().any(is_earlier));
        let ends = ends.filter(|_| tear_downs().any(is_later));
        let all = [begins, ends].into_iter().flatten();
        return all.map(|edge| format!("the rest of kubelet's log: {edge}")).collect();
    }
    if moments.is_empty() {
        return Vec::new();
    }
    let Some((path, ..)) = files.first() else {
        return vec![format!(
            "kubelet's log: the journal has none of the time of these operations (units {}); {}",
            UNITS.join(", "),
            what_to_type()
        )];
    };
    let edges = begins.zip(ends).map(|(begins, ends)| format!("{begins}, {ends}"));
    vec![format!(
        "kubelet's log: {} has no line of the time of these operations ({}); its times are taken as local ({}), which the variable TZ changes",
        path.display(),
        edges.as_deref().unwrap_or("none of its lines can be read"),
        LOCAL.name(clock::now())
    )]
}

/// The first and the last moment in a file.
fn edges<'a>(path: &'a Path, file: &File, length: u64) -> Option<(Millis, Millis, &'a Path)> {
    let now = clock::now();
    let moments = |at| -> Vec<Millis> {
        let mut bytes = vec![0; EDGE];
        let read = file.read_at(&mut bytes, at).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[..read]);
        text.lines().filter_map(|line| of_file(line, LOCAL, now)).map(|line| line.at).collect()
    };
    let first = moments(0).into_iter().min()?;
    Some((first, moments(length.saturating_sub(EDGE as u64)).into_iter().max()?, path))
}

pub(super) fn row(
    at: Millis,
    kind: &str,
    volume: Option<&str>,
    name: Option<String>,
    text: String,
) -> Entry {
    let (volume, kind) = (volume.map(str::to_owned), Some(kind.to_owned()));
    Entry { volume, name, kind, ..Entry::new(at, KUBELET, text) }
}

/// A row's sentence: kubelet's words in quotation marks, and how often it said so.
pub(super) fn sentence(entry: &Entry) -> String {
    let text = &entry.text;
    match (entry.kind.as_deref(), entry.until) {
        (Some("process" | "gap"), _) => LOCAL.in_text(text).into_owned(),
        (Some("api"), None) => format!("API request failed: \"{text}\""),
        (Some("api"), Some(until)) => {
            format!(
                "API requests failed, {} lines until {}: \"{text}\"",
                entry.count,
                LOCAL.clock(until)
            )
        }
        (_, Some(until)) => {
            format!("{} lines until {}: \"{text}\"", entry.count, LOCAL.clock(until))
        }
        (_, None) => format!("\"{text}\""),
    }
}

#[cfg(test)]
#[path = "kubelet_story_tests.rs"]
mod tests;
