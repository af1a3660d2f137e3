//! Who tore down a volume, and why: what our own log and kubelet's show together.

use super::journal::Story;
use super::kubelet_story::{
    AFTER, BEFORE, KUBELET, KubeletReading, KubeletStart, LONG_BEFORE, VolumeTerms, is_named,
    what_to_type,
};
use super::kubelet_words::{disk, tear_down};
use super::timeline::{Ending, Entry, KERNEL};
use crate::host::zone::LOCAL;
use crate::model::report::kubelet_line::{KubeletLine, Shows};
use crate::model::report::log_event::LogEvent;
use crate::model::sorting::{sort_by, sort_by_key};
use crate::model::text::several;
use crate::model::timestamp::{self, Millis};
use serde::Serialize;
use std::collections::BTreeSet;

/// So many claims are named.
const CLAIMS: usize = 3;

/// The processes in which kubelet runs.
const PROCESSES: [&str; 5] = ["kubelet", "hyperkube", "k3s", "rke2", "microk8s"];

/// Calls to tear down a volume that one caller made at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct TornDown {
    pub(super) called_ms: Millis,
    /// Who called, where it is known.
    caller: Option<String>,
    /// Whether only kubelet's log says so.
    pub(super) is_its_word: bool,
    /// The calls, in their order.
    pub(super) ops: Vec<String>,
    refused: Vec<String>,
    volume: String,
    name: Option<String>,
    /// The pod that kept the volume, by our own log.
    pub(super) kept_by: Option<String>,
    /// The start of kubelet that this followed.
    pub(super) start_ms: Option<Millis>,
    /// Whether the log shows that it ran before.
    is_restart: bool,
    /// How often it started while the API server could not be reached, and when first.
    starts: usize,
    first_start_ms: Millis,
    /// When the pod was deleted through the API server, by kubelet's log.
    pub(super) deleted_ms: Option<Millis>,
    /// The claims that kubelet could not read.
    claims: Vec<String>,
    /// How many lines say so before the first call, and how many after it.
    claim_lines: (usize, usize),
    claim_from_ms: Millis,
    /// The lines before the first call that say that the API server could not be reached, and those after it.
    pub(super) api_failures: usize,
    api_failures_after: usize,
    api_from_ms: Millis,
    /// Whether kubelet's log shows that they began then, and not before.
    is_api_begin_known: bool,
    /// The disk before it and the one after it, where they differ, and since when.
    pub(super) disks: Option<(String, String, Millis)>,
    /// Since when kubelet's log was read; nothing if what was read does not cover the first call.
    log_from_ms: Option<Millis>,
}

/// A call to tear down a volume.
#[derive(Debug, Clone, Default)]
struct Call {
    at: Millis,
    until: Millis,
    op: String,
    volume: String,
    pod: Option<String>,
    caller: Option<String>,
    is_refused: bool,
    lets_go: bool,
    /// Whether only kubelet's log has the caller.
    is_its_word: bool,
}

/// What a reading is judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) story: &'a Story,
    pub(super) terms: &'a VolumeTerms,
    /// Lines of kubelet's that name a disk of a volume, whenever that was.
    pub(super) disks: &'a [KubeletLine],
}

impl TornDown {
    /// The tear-downs in the time of a reading.
    pub(super) fn all(evidence: Evidence<'_>, reading: &KubeletReading) -> Vec<Self> {
        let starts = reading.starts();
        let failures: Vec<_> = reading.all(Shows::ApiFailure).map(|line| line.at).collect();
        let mut groups: Vec<(Option<KubeletStart>, Vec<Call>)> = Vec::new();
        for call in calls(evidence, reading) {
            let start = starts.iter().rev().find(|start| start.at <= call.at).copied();
            let start = start.filter(|start| {
                call.caller.as_deref() == Some(KUBELET) && follows(start.at, call.at, &failures)
            });
            let goes_on = |(of, calls): &&mut (Option<KubeletStart>, Vec<Call>)| {
                let last = calls.iter().map(|call| call.until).max().unwrap_or_default();
                *of == start
                    && (&calls[0].volume, &calls[0].caller) == (&call.volume, &call.caller)
                    && (start.is_some() || call.at <= last + BEFORE)
            };
            match groups.iter_mut().rev().find(goes_on) {
                Some((_, calls)) => calls.push(call),
                None => groups.push((start, vec![call])),
            }
        }
        let all = groups.into_iter();
        all.map(|(start, calls)| Self::of(evidence, reading, start, &calls, &failures)).collect()
    }

    fn of(
        evidence: Evidence<'_>,
        reading: &KubeletReading,
        start: Option<KubeletStart>,
        calls: &[Call],
        failures: &[Millis],
    ) -> Self {
        let Evidence { story, terms, .. } = evidence;
        let begin = calls[0].at;
        let volume = &calls[0].volume;
        let outage = start.map(|start| outage(failures, start.at, begin)).unwrap_or_default();
        let api_from_ms = outage.first().copied().unwrap_or_default();
        let (before, after) = outage.iter().partition::<Vec<Millis>, _>(|at| **at <= begin);
        let since = start.map_or(begin, |start| start.at);
        let since = since.min(outage.first().copied().unwrap_or(since));
        let within = reading.starts().into_iter().filter(|one| (since..=begin).contains(&one.at));
        let within: Vec<_> = within.collect();
        let pods: BTreeSet<_> = calls.iter().filter_map(|call| call.pod.clone()).collect();
        let words: Vec<String> = pods.iter().flat_map(|pod| story.words_of(pod)).collect();
        let is_of_pod = |line: &&KubeletLine| {
            if words.is_empty() {
                return terms.find(&line.text).is_some_and(|term| term.volume == *volume);
            }
            words.iter().any(|word| is_named(&line.text, word))
        };
        // A pod that was deleted before this mount is another one.
        let mounts = story.entries.iter().filter(|entry| {
            entry.op == "mount" && entry.volume.as_ref() == Some(volume) && entry.at < begin
        });
        let hour =
            || mounts.map(|entry| entry.at).max().max(Some(begin.saturating_sub(LONG_BEFORE)));
        let from = start.map(|start| start.at).or_else(hour).unwrap_or_default();
        let lines = || reading.lines.iter().filter(move |line| line.at >= from);
        let deleted = lines().filter(|line| line.at <= begin && line.is_deletion());
        let deleted_ms = deleted.filter(is_of_pod).map(|line| line.at).next_back();
        let claims = lines().filter(|line| line.at <= begin + AFTER).filter(is_of_pod);
        let claims: Vec<_> =
            claims.filter_map(|line| Some((line.at, line.unread_claim()?))).collect();
        // What was said later is no cause.
        let is_cause = claims.first().is_some_and(|(at, _)| *at <= begin);
        let claims = if is_cause { claims } else { Vec::new() };
        let names: BTreeSet<_> = claims.iter().map(|(_, claim)| (*claim).to_owned()).collect();
        let claims_before = claims.iter().filter(|(at, _)| *at <= begin).count();
        let is_odd = calls.iter().any(|call| call.is_refused || call.lets_go);
        let name =
            |entry: &Entry| entry.name.clone().filter(|_| entry.volume.as_ref() == Some(volume));
        Self {
            called_ms: begin,
            caller: calls[0].caller.clone(),
            is_its_word: calls.iter().all(|call| call.is_its_word),
            ops: distinct(calls.iter()),
            refused: distinct(calls.iter().filter(|call| call.is_refused)),
            volume: volume.clone(),
            name: story.entries.iter().chain(&story.earlier).find_map(name),
            kept_by: calls.iter().find(|call| call.lets_go).and_then(|call| call.pod.clone()),
            start_ms: start.map(|start| start.at),
            is_restart: start.is_some_and(|start| start.is_restart),
            starts: within.len(),
            first_start_ms: within.first().map_or(0, |start| start.at),
            deleted_ms,
            claim_lines: (claims_before, claims.len() - claims_before),
            claim_from_ms: claims.first().map_or(0, |(at, _)| *at),
            claims: names.into_iter().take(CLAIMS).collect(),
            api_failures: before.len(),
            api_failures_after: after.len(),
            api_from_ms,
            is_api_begin_known: reading.begin() + BEFORE < api_from_ms
                && reading.first().is_some_and(|at| at < api_from_ms),
            disks: if is_odd { None } else { disks(evidence, volume, begin) },
            log_from_ms: reading
                .first()
                .filter(|from| *from <= begin && reading.last().is_some_and(|last| last >= begin)),
        }
    }

    /// Whether it is told of however many there are: after a start of kubelet requests to the API server failed,
    /// or it was refused, or took nothing from its pod.
    pub(super) fn is_remarkable(&self) -> bool {
        self.start_ms.is_some() && (self.api_failures > 0 || self.is_odd())
    }

    /// The last one; of several callers at that time kubelet, if it was refused or the pod kept the volume.
    pub(super) fn last_of(all: Vec<Self>) -> Option<Self> {
        let last = all.iter().map(|one| one.called_ms).max()?;
        let at_last = all.into_iter().filter(|one| one.called_ms + BEFORE >= last);
        at_last.max_by_key(|one| {
            let is_of_kubelet = one.caller.as_deref().is_none_or(|caller| caller == KUBELET);
            (one.is_odd() && is_of_kubelet, one.called_ms)
        })
    }

    fn is_odd(&self) -> bool {
        !self.refused.is_empty() || self.kept_by.is_some()
    }

    /// From when on kubelet's lines belong to it.
    pub(super) fn shown_from(&self) -> Option<Millis> {
        let from = self.start_ms?.saturating_sub(BEFORE);
        Some(if self.api_failures > 0 { from.min(self.api_from_ms) } else { from })
    }

    pub(super) fn sentence(&self) -> String {
        let refused = match &self.refused[..] {
            [] => String::new(),
            [one] if self.ops.len() == 1 && self.ops[0] == *one => " (refused)".to_owned(),
            refused => format!(" ({}: refused)", listed(refused)),
        };
        let kept = self.kept_by.as_ref().map(|pod| format!(", while {pod} was still using it"));
        let what = format!(
            "{} for {} at {} {}{refused}{}",
            listed(&self.ops),
            self.name.as_ref().unwrap_or(&self.volume),
            timestamp::day(LOCAL.shown(self.called_ms)),
            LOCAL.clock(self.called_ms),
            kept.unwrap_or_default(),
        );
        let not_found = || format!("kubelet's log of that time was not found; {}", what_to_type());
        match (self.caller.as_deref(), self.log_from_ms) {
            (None, None) => format!("Who called {what} is not known: {}.", not_found()),
            (None, Some(_)) => format!(
                "Who called {what} is not known: kubelet's log covers that time, and does not show that kubelet called it."
            ),
            (Some(KUBELET), log) => {
                let its_word = if self.is_its_word { "According to kubelet's log, " } else { "" };
                let why = match (self.start_ms, log) {
                    _ if self.deleted_ms.is_some() => self.of_the_pod(),
                    (Some(start), _) => self.of_the_start(start),
                    (None, Some(from)) => format!(
                        " Its log shows neither a restart that this followed nor that the pod was deleted through the API; it was read from {} on.",
                        LOCAL.clock(from)
                    ),
                    (None, None) => format!(" Why is not known: {}.", not_found()),
                };
                let disks = self.disks.as_ref().map(|(was, is, at)| {
                    format!(
                        " The disk was {was} until then, and is {is} since {}.",
                        LOCAL.clock(*at)
                    )
                });
                format!("{its_word}kubelet called {what}.{why}{}", disks.unwrap_or_default())
            }
            (Some(caller), _) => format!("{caller} called {what}."),
        }
    }

    fn of_the_pod(&self) -> String {
        let deleted = self.deleted_ms.map(|at| LOCAL.clock(at)).unwrap_or_default();
        format!(" The pod had been deleted through the API at {deleted}.")
    }

    fn of_the_start(&self, start: Millis) -> String {
        let mut text = format!(
            " It had {} {} before, at {}",
            if self.is_restart { "restarted" } else { "started" },
            timestamp::duration(self.called_ms - start),
            LOCAL.clock(start),
        );
        if self.starts > 1 {
            let first = LOCAL.clock(self.first_start_ms);
            text += &format!(" ({} starts in this outage, the first at {first})", self.starts);
        }
        if !self.claims.is_empty() {
            let claim = if self.claims.len() == 1 { "claim" } else { "claims" };
            text += &format!(
                ", and could not read the {claim} {} from the API server ({}, the first at {})",
                listed(&self.claims),
                counted(self.claim_lines),
                LOCAL.clock(self.claim_from_ms)
            );
        }
        text += ".";
        if self.api_failures > 0 {
            let (least, read) = if self.is_api_begin_known {
                ("", "")
            } else {
                ("at least ", " (not read further back)")
            };
            text += &format!(
                " Its requests to the API server had failed since {least}{}{read}: {} the tear-down.",
                LOCAL.clock(self.api_from_ms),
                counted((self.api_failures, self.api_failures_after)),
            );
        }
        text
    }
}

/// `16 lines before`, `1 line before and 7 after`.
fn counted((before, after): (usize, usize)) -> String {
    let after = if after > 0 { format!(" and {after} after") } else { String::new() };
    format!("{} before{after}", several(before, "line", "lines"))
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => words.concat(),
    }
}

fn distinct<'a>(calls: impl Iterator<Item = &'a Call>) -> Vec<String> {
    let mut ops: Vec<String> = Vec::new();
    for call in calls.filter(|call| !call.op.is_empty()) {
        if !ops.contains(&call.op) {
            ops.push(call.op.clone());
        }
    }
    ops
}

/// Whether it is kubelet's call, or another's, to tear down a volume.
pub(super) fn is_tear_down(entry: &Entry) -> bool {
    !entry.is_persons && matches!(entry.op.as_str(), "unmount" | "unmountdevice" | "detach")
}

/// Who called: the kernel cuts the names of processes.
pub(super) fn caller(entry: &Entry) -> Option<String> {
    let by = entry.by.as_deref().filter(|by| !matches!(*by, "" | "?"))?;
    Some(match by {
        _ if PROCESSES.iter().any(|name| by.starts_with(name)) => KUBELET.to_owned(),
        _ if by.starts_with("kube-controller") => "the controller-manager".to_owned(),
        _ => by.to_owned(),
    })
}

/// The calls in the time of a reading: by our own log, by an older driver's, and those that only kubelet's has.
fn calls(Evidence { story, terms, .. }: Evidence<'_>, reading: &KubeletReading) -> Vec<Call> {
    let ours = story.entries.iter();
    let ours = ours.filter(|entry| reading.covers(entry.at) && is_tear_down(entry));
    let ours = ours.filter_map(|entry| {
        Some(Call {
            at: entry.at,
            until: entry.until.unwrap_or(entry.at),
            op: entry.op.clone(),
            volume: entry.volume.clone()?,
            pod: entry.pod.clone(),
            caller: caller(entry),
            is_refused: entry.ending == Ending::Refused,
            lets_go: entry.event == Some(LogEvent::FolderReleased),
            is_its_word: false,
        })
    });
    let said = |at, op: &str, text: &str| {
        let term = terms.find(text)?;
        let (op, volume) = (op.to_owned(), term.volume.clone());
        let call = Call { at, until: at, op, volume, ..Call::default() };
        (!term.is_pods).then_some(call)
    };
    let is_same = |known: &Call, call: &Call| {
        let span = known.at.saturating_sub(AFTER)..=known.until + AFTER;
        known.op == call.op && known.volume == call.volume && span.contains(&call.at)
    };
    let mut all: Vec<Call> = ours.collect();
    let older = story.older.iter();
    for call in older.filter_map(|of| said(of.moment()?, of.tear_down()?, &of.line)) {
        if reading.covers(call.at) && !all.iter().any(|known| is_same(known, &call)) {
            all.push(call);
        }
    }
    let theirs = reading.lines.iter();
    for call in theirs.filter_map(|line| said(line.at, tear_down(line)?, &line.text)) {
        let by_kubelet =
            |call| Call { caller: Some(KUBELET.to_owned()), is_its_word: true, ..call };
        let mut is_new = true;
        for known in all.iter_mut().filter(|known| is_same(known, &call)) {
            is_new = false;
            if known.caller.is_none() {
                *known = by_kubelet(known.clone());
            }
        }
        if is_new {
            all.push(by_kubelet(call));
        }
    }
    sort_by_key(&mut all, |call| call.at);
    all
}

/// Whether a call came of a start: soon after it, or while requests to the API server went on to fail.
fn follows(start: Millis, at: Millis, failures: &[Millis]) -> bool {
    let between = failures.iter().filter(|failure| (start..at).contains(*failure));
    let mut last = start;
    at - start <= LONG_BEFORE
        && between
            .chain([&at])
            .all(|moment| moment - std::mem::replace(&mut last, *moment) <= BEFORE)
}

/// The failed requests around a start and a call, back and forth as long as they went on.
fn outage(failures: &[Millis], start: Millis, at: Millis) -> Vec<Millis> {
    let (before, after): (Vec<_>, Vec<_>) = failures.iter().partition(|failure| **failure <= at);
    let goes_on = |from: Millis| {
        let mut last = from;
        move |moment: &Millis| moment.abs_diff(std::mem::replace(&mut last, *moment)) <= BEFORE
    };
    let (later, earlier): (Vec<_>, Vec<_>) = before.into_iter().partition(|at| *at >= start);
    let earlier = earlier.into_iter().rev().take_while(goes_on(start));
    let earlier: Vec<_> = earlier.collect();
    let after = after.into_iter().take_while(goes_on(at));
    earlier.into_iter().rev().chain(later).chain(after).collect()
}

/// The disk of a volume before a moment and the one after it, where they differ, and since when.
fn disks(
    Evidence { story, terms, disks }: Evidence<'_>,
    volume: &str,
    begin: Millis,
) -> Option<(String, String, Millis)> {
    let entries = story.earlier.iter().chain(&story.entries);
    let ours = entries.filter(|entry| entry.op != KERNEL && entry.ending == Ending::Done);
    let ours = ours.filter(|entry| entry.volume.as_deref() == Some(volume));
    let ours = ours.filter_map(|entry| Some((entry.at, entry.disk.clone()?, false)));
    let is_its = |line: &&KubeletLine| {
        terms.find(&line.text).is_some_and(|term| !term.is_pods && term.volume == *volume)
    };
    let theirs = disks.iter().filter(is_its).filter_map(|line| {
        let (name, is_old) = disk(line)?;
        Some((line.at, name.to_owned(), is_old))
    });
    let mut all: Vec<_> = ours.chain(theirs).collect();
    sort_by(&mut all, Ord::cmp);
    let (was, is): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(at, _, is_old)| *at < begin || *is_old && *at <= begin + AFTER);
    let (_, was, _) = was.into_iter().next_back()?;
    let (at, is, _) = is.into_iter().find(|(_, _, is_old)| !is_old)?;
    (was != is).then_some((was, is, at))
}
