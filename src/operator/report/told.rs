//! What the log and the kernel tell a report, as much of it as a person may read.

use super::sight::Sight;
use crate::configuration::Config;
use crate::host::kubelet_log::KubeletLog;
use crate::host::records::RecordFiles;
use crate::model::ids::VolumeId;
use crate::model::sorting::sort_by_key;
use crate::model::text::{several, shortened};
use crate::model::timestamp::{self, Millis};
use crate::operator::journal::{self, LogQuery, Older, Story};
use crate::operator::kubelet_story::KubeletStory;
use crate::operator::timeline::Entry;
use crate::operator::{history, kernel_story, naming};
use std::collections::{BTreeMap, BTreeSet};

/// So many entries of the history are told, the newest; of each volume a tenth.
const ENTRIES: usize = 10_000;

/// So long is one of them at most.
const LONGEST_ENTRY: usize = 4000;

/// No name of Kubernetes is longer.
pub(super) const LONGEST_NAME: usize = 253;

/// What the log and the kernel tell.
#[derive(Default)]
pub(super) struct Told {
    /// The history since the first moment.
    pub(super) entries: Vec<Entry>,
    /// The same of the volumes that are told in full, from the log's beginning on.
    pub(super) whole: BTreeMap<String, Vec<Entry>>,
    pub(super) older: Vec<Older>,
    pub(super) kubelet: KubeletStory,
    pub(super) unreadable: usize,
    left_out: usize,
    pub(super) trouble: Option<String>,
}

impl Told {
    pub(super) fn of(
        config: &Config,
        sight: &Sight,
        logs: &[KubeletLog],
        (since, now): (Millis, Millis),
    ) -> Self {
        let records = RecordFiles::below(&config.paths.state_dir, &config.paths.run_dir);
        let mut names: BTreeSet<String> = BTreeSet::new();
        for (place, ..) in &sight.explained {
            let facts = &sight.rows()[*place].facts;
            let name = facts.id.as_ref().map(VolumeId::as_name).or_else(|| facts.name.clone());
            names.extend(name.into_iter().flat_map(|name| naming::names_of(&name, &records)));
        }
        if let Some(meant) = &sight.meant {
            names.extend(meant.id.iter().map(ToString::to_string));
            names.extend(meant.names.iter().cloned());
        }
        let volume = if sight.meant.is_some() { names.clone() } else { BTreeSet::new() };
        let asked = volume.clone();
        let query =
            LogQuery { volume, since: Some(since), with_older: true, ..LogQuery::default() };
        let (mut story, trouble) = match journal::story_and_before(&config.paths, &query) {
            Ok(story) => (story, None),
            Err(error) => {
                let story = Story { names: asked, since: Some(since), ..Story::default() };
                (story, Some(error.to_string()))
            }
        };
        // A disk that was lost was named when it came, perhaps days ago.
        let query = LogQuery { volume: names, ..LogQuery::default() };
        let of_unwell = (!query.volume.is_empty()).then(|| journal::story(&config.paths, &query));
        let of_unwell = of_unwell.and_then(Result::ok).unwrap_or_default();
        let mut whole: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        story.pods.extend(of_unwell.pods);
        for entry in of_unwell.entries {
            whole.entry(key(&entry)).or_default().push(entry);
        }
        let others = std::mem::take(&mut story.entries)
            .into_iter()
            .filter(|entry| !whole.contains_key(&key(entry)));
        let mut all: Vec<Entry> = others.collect();
        all.extend(whole.into_values().flatten());
        let mut told = Self { trouble, ..Self::default() };
        for mut entry in kernel_story::with_rows(config, all) {
            entry.text = shortened(&entry.text, LONGEST_ENTRY).into_owned();
            for name in [&mut entry.name, &mut entry.pod, &mut entry.by, &mut entry.disk] {
                *name = name.as_deref().map(|name| shortened(name, LONGEST_NAME).into_owned());
            }
            told.whole.entry(key(&entry)).or_default().push(entry);
        }
        let is_recent = |entry: &&Entry| entry.until.unwrap_or(entry.at).max(entry.at) >= since;
        let recent = told.whole.values().flatten().filter(is_recent).cloned();
        let mut entries: Vec<Entry> = recent.collect();
        sort_by_key(&mut entries, |entry| entry.at);
        entries.extend(history::now_refused(&entries, &records).into_iter().map(|mut entry| {
            // It is so at the moment of the report.
            entry.at = now;
            entry.written = timestamp::text(now);
            entry
        }));
        told.left_out = keep_newest(&mut entries);
        story.entries = entries;
        told.kubelet = KubeletStory::of(logs, &mut story);
        (told.entries, told.older, told.unreadable) =
            (story.entries, story.older, story.unreadable);
        told
    }

    /// Whether the history is too long for a report.
    pub(super) fn left_out(&self) -> Option<String> {
        let count = several(self.left_out, "earlier entry is", "earlier entries are");
        let text = format!("{count} left out: disk history tells all of a volume");
        (self.left_out > 0).then_some(text)
    }

    /// What happened to a volume, as far as the history tells it, and what was before.
    pub(super) fn about(&self, key: &str, since: Millis) -> impl Iterator<Item = &Entry> {
        let before = self.whole.get(key).into_iter().flatten();
        let before =
            before.filter(move |entry| entry.until.unwrap_or(entry.at).max(entry.at) < since);
        before.chain(self.by_key(key))
    }

    pub(super) fn by_key<'a>(&'a self, of: &str) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let of = of.to_owned();
        self.entries.iter().filter(move |entry| key(entry) == of)
    }
}

/// What tells the volumes of entries apart; empty for what is of none.
fn key(entry: &Entry) -> String {
    entry.volume.clone().unwrap_or_default()
}

/// Leaves the newest entries; one volume does not take the place of all others. Answers how many are left
/// out.
fn keep_newest(entries: &mut Vec<Entry>) -> usize {
    let all = entries.len();
    let mut of_each: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries.drain(..).rev() {
        let count = of_each.entry(key(&entry)).or_default();
        *count += 1;
        if *count <= ENTRIES / 10 && kept.len() < ENTRIES {
            kept.push(entry);
        }
    }
    kept.reverse();
    *entries = kept;
    all - entries.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(volume: usize, at: Millis) -> Entry {
        Entry {
            volume: Some(format!("v{volume}")),
            ..Entry::new(at, "mount", "mounted".to_owned())
        }
    }

    #[test]
    fn of_a_long_history_the_newest_of_each_volume_is_told() {
        let wild = (0..50_000).map(|at| entry(0, at));
        let mut entries: Vec<_> = std::iter::once(entry(1, 0)).chain(wild).collect();
        assert_eq!(keep_newest(&mut entries), 49_000);
        assert_eq!(entries.len(), 1001);
        assert_eq!((entries[0].at, entries[1].at), (0, 49_000), "the other volume's is there");
        let mut many: Vec<_> = (0..30_000).map(|nth| entry(nth % 500, nth as u64)).collect();
        assert_eq!((keep_newest(&mut many), many.len()), (20_000, ENTRIES));
        assert_eq!(many[0].at, 20_000);
    }
}
