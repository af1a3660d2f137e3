//! Who tore down a volume after a start of kubelet, and why: what our own log and kubelet's show together.

use super::journal::Story;
use super::kubelet_story::{
    AFTER, BEFORE, KubeletReading, KubeletStart, LONG_BEFORE, VolumeTerms, is_named,
};
use super::timeline::{Ending, Entry, KERNEL, lets_go};
use crate::host::zone::LOCAL;
use crate::model::report::kubelet_line::{KubeletLine, Shows};
use crate::model::text::several;
use crate::model::timestamp::{self, Millis};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// So many claims are named.
const CLAIMS: usize = 3;

/// How kubelet begins to tear down a volume, and the call that it makes then.
const TEAR_DOWNS: [(&str, &str); 3] =
    [("UnmountVolume", "unmount"), ("UnmountDevice", "unmountdevice"), ("DetachVolume", "detach")];

/// The processes in which kubelet runs.
const PROCESSES: [&str; 5] = ["kubelet", "hyperkube", "k3s", "rke2", "microk8s"];

/// The tear-down of a volume that kubelet called after its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct AfterRestart {
    pub(super) start_ms: Millis,
    /// Whether the log shows that it ran before.
    is_restart: bool,
    pub(super) called_ms: Millis,
    /// The calls, in their order.
    pub(super) ops: Vec<String>,
    refused: Vec<String>,
    /// Whether only kubelet's log says so.
    pub(super) is_its_word: bool,
    volume: String,
    name: Option<String>,
    /// The pod that kept the volume, by our own log.
    pub(super) kept_by: Option<String>,
    /// When the pod was deleted through the API server, by kubelet's log.
    pub(super) deleted_ms: Option<Millis>,
    /// The claims that kubelet could not read.
    claims: Vec<String>,
    claim_lines: usize,
    claim_from_ms: Millis,
    /// The lines before the first call that say that the API server could not be reached.
    api_failures: usize,
    api_from_ms: Millis,
    /// The disk before it and the one after it, where they differ, and since when.
    pub(super) disks: Option<(String, String, Millis)>,
}

/// A call to tear down a volume.
#[derive(Debug, Clone, Default)]
struct Call {
    at: Millis,
    until: Millis,
    op: String,
    volume: String,
    pod: Option<String>,
    is_refused: bool,
    lets_go: bool,
    /// Whether only kubelet's log has it.
    is_its_word: bool,
}

impl AfterRestart {
    /// The tear-downs that kubelet called after it was started: those that were refused, or that took nothing
    /// from their pod, and those before which requests to the API server failed.
    pub(super) fn all(
        story: &Story,
        reading: &KubeletReading,
        starts: &[KubeletStart],
        terms: &VolumeTerms,
    ) -> Vec<Self> {
        let failures = reading.lines.iter().filter(|line| line.shows == Shows::ApiFailure);
        let failures: Vec<_> = failures.map(|line| line.at).collect();
        let calls = calls(story, reading, terms);
        let mut groups: BTreeMap<(Millis, &str), (KubeletStart, Vec<&Call>)> = BTreeMap::new();
        for call in &calls {
            let start = starts.iter().rev().find(|start| start.at <= call.at);
            if let Some(start) = start.filter(|start| follows(start.at, call.at, &failures)) {
                let group = groups.entry((start.at, &call.volume)).or_insert((*start, Vec::new()));
                group.1.push(call);
            }
        }
        let concluded = groups.into_values().filter_map(|(start, calls)| {
            let begin = calls[0].at;
            let since = start.at.saturating_sub(BEFORE);
            let before: Vec<_> =
                failures.iter().filter(|at| (since..=begin).contains(*at)).copied().collect();
            let is_odd = |call: &&Call| call.is_refused || call.lets_go;
            if before.is_empty() && !calls.iter().any(is_odd) {
                return None;
            }
            let ops = |is_asked: fn(&Call) -> bool| {
                let mut ops: Vec<String> = Vec::new();
                for call in calls.iter().filter(|call| is_asked(call)) {
                    if !ops.contains(&call.op) {
                        ops.push(call.op.clone());
                    }
                }
                ops
            };
            let volume = &calls[0].volume;
            let entries =
                || story.entries.iter().filter(|entry| entry.volume.as_ref() == Some(volume));
            let pods: BTreeSet<_> = calls.iter().filter_map(|call| call.pod.clone()).collect();
            let words: Vec<String> = pods.iter().flat_map(|pod| story.words_of(pod)).collect();
            let is_of_pod = |line: &&KubeletLine| {
                if words.is_empty() {
                    return terms.find(&line.text).is_some_and(|term| term.volume == *volume);
                }
                words.iter().any(|word| is_named(&line.text, word))
            };
            let lines = || reading.lines.iter().filter(move |line| line.at >= start.at);
            let deleted = lines().filter(|line| line.at <= begin && line.is_deletion());
            let deleted_ms = deleted.filter(is_of_pod).map(|line| line.at).next();
            let claims = lines().filter(|line| line.at <= begin + AFTER).filter(is_of_pod);
            let claims: Vec<_> =
                claims.filter_map(|line| Some((line.at, line.unread_claim()?))).collect();
            // What was said later is no cause.
            let claims = if claims.first().is_some_and(|(at, _)| *at <= begin) {
                claims
            } else {
                Vec::new()
            };
            let names: BTreeSet<_> = claims.iter().map(|(_, claim)| (*claim).to_owned()).collect();
            let disks =
                entries().filter(|entry| entry.op != KERNEL && entry.ending == Ending::Done);
            let disks = disks.filter_map(|entry| Some((entry.at, entry.disk.clone()?)));
            let (was, is): (Vec<_>, Vec<_>) = disks.partition(|(at, _)| *at < begin);
            let disks = was.into_iter().next_back().zip(is.into_iter().next());
            let disks = disks.filter(|_| !calls.iter().any(is_odd));
            Some(Self {
                start_ms: start.at,
                is_restart: start.is_restart,
                called_ms: begin,
                ops: ops(|_| true),
                refused: ops(|call| call.is_refused),
                is_its_word: calls.iter().all(|call| call.is_its_word),
                volume: volume.clone(),
                name: entries().find_map(|entry| entry.name.clone()),
                kept_by: calls.iter().find(|call| call.lets_go).and_then(|call| call.pod.clone()),
                deleted_ms,
                claim_lines: claims.len(),
                claim_from_ms: claims.first().map_or(0, |(at, _)| *at),
                claims: names.into_iter().take(CLAIMS).collect(),
                api_failures: before.len(),
                api_from_ms: before.first().copied().unwrap_or_default(),
                disks: disks
                    .map(|((_, was), (at, is))| (was, is, at))
                    .filter(|(was, is, _)| was != is),
            })
        });
        concluded.collect()
    }

    pub(super) fn sentence(&self) -> String {
        let clock = |at| timestamp::clock(LOCAL.shown(at));
        let its_word = if self.is_its_word { "By its own log, " } else { "" };
        let refused = match &self.refused[..] {
            [] => String::new(),
            [one] if self.ops.len() == 1 && self.ops[0] == *one => " (refused)".to_owned(),
            refused => format!(" ({}: refused)", listed(refused)),
        };
        let kept = self.kept_by.as_ref().map(|pod| format!(", while {pod} was still using it"));
        let mut text = format!(
            "{its_word}kubelet called {} for {} at {} {}{refused}{}.",
            listed(&self.ops),
            self.name.as_ref().unwrap_or(&self.volume),
            timestamp::day(LOCAL.shown(self.called_ms)),
            clock(self.called_ms),
            kept.unwrap_or_default(),
        );
        if let Some(deleted) = self.deleted_ms {
            text += &format!(" The pod had been deleted through the API at {}.", clock(deleted));
            return text;
        }
        text += &format!(
            " It had {} {} before, at {}",
            if self.is_restart { "restarted" } else { "started" },
            timestamp::duration(self.called_ms - self.start_ms),
            clock(self.start_ms),
        );
        if !self.claims.is_empty() {
            let claim = if self.claims.len() == 1 { "claim" } else { "claims" };
            text += &format!(
                ", and could not read the {claim} {} from the API server ({}, the first at {})",
                listed(&self.claims),
                several(self.claim_lines, "line", "lines"),
                clock(self.claim_from_ms)
            );
        }
        text += ".";
        if self.api_failures > 0 {
            text += &format!(
                " Its requests to the API server had failed since {}: {} before the tear-down.",
                clock(self.api_from_ms),
                several(self.api_failures, "line", "lines"),
            );
        }
        if let Some((was, is, at)) = &self.disks {
            text += &format!(" The disk was {was} until then, and is {is} since {}.", clock(*at));
        }
        text
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => words.concat(),
    }
}

/// Whether it is kubelet's call, or another's, to tear down a volume.
pub(super) fn is_tear_down(entry: &Entry) -> bool {
    !entry.is_persons && matches!(entry.op.as_str(), "unmount" | "unmountdevice" | "detach")
}

/// The call that kubelet makes next to tear down a volume, by its own words.
fn tear_down(line: &KubeletLine) -> Option<&'static str> {
    let words = line.words()?.strip_prefix("operationExecutor.")?;
    let is_said = |(name, _): &&(&str, &str)| {
        words.strip_prefix(name).is_some_and(|rest| rest.starts_with(" started for volume "))
    };
    TEAR_DOWNS.iter().find(is_said).map(|(_, op)| *op)
}

/// The tear-downs that kubelet called: by our own log, and those that only its log has.
fn calls(story: &Story, reading: &KubeletReading, terms: &VolumeTerms) -> Vec<Call> {
    let by_kubelet = |entry: &&Entry| {
        let by = entry.by.as_deref().unwrap_or_default();
        is_tear_down(entry) && PROCESSES.iter().any(|name| by.starts_with(name))
    };
    let ours = story.entries.iter().filter(by_kubelet).filter_map(|entry| {
        Some(Call {
            at: entry.at,
            until: entry.until.unwrap_or(entry.at),
            op: entry.op.clone(),
            volume: entry.volume.clone()?,
            pod: entry.pod.clone(),
            is_refused: entry.ending == Ending::Refused,
            lets_go: lets_go(entry),
            is_its_word: false,
        })
    });
    let ours: Vec<Call> = ours.collect();
    let theirs = reading.lines.iter().filter_map(|line| {
        let op = tear_down(line)?;
        let term = terms.find(&line.text).filter(|term| !term.is_pods)?;
        let is_ours = |call: &Call| {
            let span = call.at.saturating_sub(AFTER)..=call.until + AFTER;
            call.op == op && call.volume == term.volume && span.contains(&line.at)
        };
        let (op, volume) = (op.to_owned(), term.volume.clone());
        let (at, is_its_word) = (line.at, true);
        let call = Call { at, until: at, op, volume, is_its_word, ..Call::default() };
        (!ours.iter().any(is_ours)).then_some(call)
    });
    let theirs: Vec<Call> = theirs.collect();
    let mut all = [ours, theirs].concat();
    all.sort_by_key(|call| call.at);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubelet 1.20 and 1.36 write it. What a container printed is quoted behind other words.
    #[test]
    fn a_tear_down_is_read_where_kubelet_itself_says_so() {
        let line = |words: &str| {
            let text = words.to_owned();
            KubeletLine { at: 0, process: Some(7), shows: Shows::Nothing, text }
        };
        let started = "started for volume \"pv-orders\"";
        for (words, op) in [
            (format!("a.go:1] operationExecutor.UnmountVolume {started}"), Some("unmount")),
            (format!("a.go:1] \"operationExecutor.UnmountDevice {started}"), Some("unmountdevice")),
            (format!("a.go:1] operationExecutor.DetachVolume {started}"), Some("detach")),
            (format!("a.go:1] operationExecutor.MountVolume {started}"), None),
            (format!("a.go:1] operationExecutor.UnmountVolumeX {started}"), None),
            (format!("a.go:1] probe failed: operationExecutor.DetachVolume {started}"), None),
            (format!("a.go:1] x] operationExecutor.DetachVolume {started}"), None),
            (format!("operationExecutor.DetachVolume {started}"), None),
        ] {
            assert_eq!(tear_down(&line(&words)), op, "{words}");
        }
        let words = "a.go:1] operationExecutor.DetachVolume started for volume \"pv-orders\"";
        let other = KubeletLine { process: None, ..line(words) };
        assert_eq!(tear_down(&other), None, "no line of klog");
    }
}
