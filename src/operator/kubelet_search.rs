//! What whole files of kubelet's log say of the volumes of a story, also where our own log has nothing.

use super::as_typed;
use super::journal::Story;
use super::kubelet_story::{AFTER, KUBELET, ONE_START, VolumeTerms};
use super::kubelet_words::{disk, flex_volume, tear_down};
use super::tear_downs::{self, is_tear_down};
use super::timeline::Entry;
use crate::host::kubelet_log::{Bounds, KubeletLog};
use crate::host::zone::LOCAL;
use crate::model::report::kubelet_line::KubeletLine;
use crate::model::sorting::sort_by_key;
use crate::model::timestamp::{self, Millis};
use crate::model::zone;
use crate::ports::clock;
use std::collections::{BTreeMap, BTreeSet};

/// In milliseconds.
const HOUR: i64 = 3_600_000;

/// No two zones that machines are in are further apart.
const MOST_HOURS: i64 = 14;

/// So many of our own tear-downs are compared with kubelet's, the newest.
const COMPARED: usize = 100;

/// What whole files of kubelet's say of the volumes of a story: where our own log has nothing, and of a disk that
/// came days before it went.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The lines with a tear-down or a disk.
    pub(super) lines: Vec<KubeletLine>,
    /// The names of pods by their UIDs, as far as they were asked for.
    pub(super) pods: BTreeMap<String, String>,
    /// What was not searched.
    pub(super) unread: Vec<String>,
}

/// Whether a file of kubelet's knows a volume or a pod.
pub(super) fn names(logs: &[KubeletLog], name: &str) -> bool {
    let names = BTreeSet::from([name.to_owned()]);
    !Search::of(logs, &Story { names, ..Story::default() }).lines.is_empty()
}

impl Search {
    /// Searches the files among these logs, the newest part of each first.
    pub(super) fn of(logs: &[KubeletLog], story: &Story) -> Self {
        let mut found = Self::default();
        let terms = VolumeTerms::of(story, &found);
        let names_one = |line: &KubeletLine| terms.find(&line.text).is_some_and(|of| !of.is_pods);
        let mut bounds = Bounds::default();
        for log in logs.iter().filter(|log| !matches!(log, KubeletLog::Journal)) {
            let pods = &mut found.pods;
            // Also what another zone puts into the future.
            let until = clock::now() + MOST_HOURS.unsigned_abs() * HOUR.unsigned_abs();
            let read = log.read((0, until), &mut bounds, &mut |line| {
                if !story.names.is_empty()
                    && let Some((name, uid)) = line.named_pod()
                    && story.names.iter().any(|asked| is_pod(asked, &name, uid))
                {
                    pods.insert(uid.to_owned(), name);
                }
                (tear_down(line).is_some() || disk(line).is_some())
                    && (flex_volume(line).is_some() || names_one(line))
            });
            match read {
                Ok(read) => {
                    found.lines.extend(read.lines);
                    found.unread.extend(read.unread_before.map(|at| {
                        format!(
                            "kubelet's log before {}: there is too much to search",
                            timestamp::text(at)
                        )
                    }));
                }
                Err(error) => found.unread.push(format!("kubelet's log: {}", error.cause)),
            }
        }
        let is_asked = |line: &KubeletLine| {
            story.names.is_empty()
                || names_one(line)
                || line.pod_uid().is_some_and(|uid| found.pods.contains_key(uid))
        };
        // A detach names no pod.
        let volumes = found.lines.iter().filter(|line| is_asked(line));
        let volumes = volumes.filter_map(|line| flex_volume(line).map(str::to_owned));
        let volumes: BTreeSet<_> = volumes.collect();
        let is_of_it =
            |line: &KubeletLine| flex_volume(line).is_some_and(|of| volumes.contains(of));
        let of_it = found.lines.iter().filter(|line| is_asked(line) || is_of_it(line)).cloned();
        found.lines = of_it.collect();
        sort_by_key(&mut found.lines, |line| line.at);
        found
    }

    /// What is wrong with the zone in which the times of the files were read: our own log has a tear-down, and the
    /// files have it so many hours away.
    pub(super) fn zone(&self, story: &Story, terms: &VolumeTerms) -> Option<String> {
        let by_kubelet = |entry: &&Entry| {
            is_tear_down(entry) && tear_downs::caller(entry).is_none_or(|by| by == KUBELET)
        };
        let ours: Vec<_> = story.entries.iter().rev().filter(by_kubelet).take(COMPARED).collect();
        let theirs = self.lines.iter().filter_map(|line| {
            let term = terms.find(&line.text).filter(|term| !term.is_pods)?;
            Some((line.at, tear_down(line)?, &term.volume))
        });
        let pairs = theirs.flat_map(|(at, op, volume)| {
            let is_it =
                move |entry: &&&Entry| entry.op == op && entry.volume.as_ref() == Some(volume);
            ours.iter().filter(is_it).map(move |entry| (at, *entry))
        });
        let pairs: Vec<_> = pairs.collect();
        let is_near = |(at, entry): &(Millis, &Entry)| {
            let until = entry.until.unwrap_or(entry.at);
            (entry.at.saturating_sub(AFTER)..=until + AFTER).contains(at)
        };
        if pairs.iter().any(is_near) {
            return None;
        }
        let hours = pairs.into_iter().filter_map(|(at, entry)| {
            let apart = at.cast_signed() - entry.at.cast_signed();
            let hours = (apart + HOUR / 2).div_euclid(HOUR);
            let is_exact = (apart - hours * HOUR).unsigned_abs() <= ONE_START;
            (is_exact && (1..=MOST_HOURS).contains(&hours.abs())).then_some((hours, at, entry))
        });
        let Some((hours, at, entry)) = hours.min_by_key(|(hours, ..)| hours.abs()) else {
            return self.ahead();
        };
        Some(format!(
            "The times in kubelet's log look {} h off: it has {} for {} at {}, and the driver's own log at {}. To read it in its zone: TZ={} {}",
            hours.abs(),
            entry.op,
            entry.name.as_ref().or(entry.volume.as_ref())?,
            LOCAL.clock(at),
            LOCAL.clock(entry.at),
            zone::variable((LOCAL.0)(at) + hours * 3600),
            as_typed()
        ))
    }

    /// What tells that the files are of another zone where our own log has none of their tear-downs: times to come.
    fn ahead(&self) -> Option<String> {
        let last = self.lines.iter().map(|line| line.at).max()?;
        let ahead = last.checked_sub(clock::now()).filter(|ahead| *ahead > AFTER)?;
        Some(format!(
            "The times in kubelet's log go up to {} h beyond this machine's clock, so that log is of another time zone. To read it in its zone, for instance: TZ=Asia/Shanghai {}",
            ahead.div_ceil(HOUR.unsigned_abs()),
            as_typed()
        ))
    }

    pub(super) fn tear_downs(&self) -> impl Iterator<Item = Millis> {
        self.lines.iter().filter(|line| tear_down(line).is_some()).map(|line| line.at)
    }
}

/// Whether a pod is meant: by its UID, its name, or both with the namespace.
pub(super) fn is_pod(asked: &str, name: &str, uid: &str) -> bool {
    asked == uid || asked == name || name.rsplit('/').next() == Some(asked)
}
