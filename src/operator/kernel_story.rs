//! What the kernel said of the disks that volumes had, as rows between the calls of their history.

use super::journal::{self, LogQuery};
use super::timeline::{Ending, Entry, KERNEL};
use crate::configuration::Config;
use crate::host::kernel_log::KernelLog;
use crate::host::zone::LOCAL;
use crate::model::ids::VolumeId;
use crate::model::report::kernel_line::{Claim, owner_at};
use crate::model::report::log_event::LogEvent;
use crate::model::sorting::sort_by_key;
use crate::model::text::{several, shortened, without_digits};
use crate::model::timestamp::{self, Millis};
use std::collections::{BTreeMap, BTreeSet};

/// More rows of one volume are counted, not shown: a disk that fails says so for hours.
const MOST: usize = 40;

/// A longer line is cut.
const LONGEST: usize = 400;

/// So far apart the same line may seem to be when it is read twice.
const SAME_MOMENT: Millis = 2000;

/// So many lines are kept in our own log, which outlives the ring.
const KEPT: usize = 10;

/// The rows for these entries of a story.
fn rows(config: &Config, entries: &[Entry]) -> Vec<Entry> {
    let own = claims_in(entries);
    let disks: BTreeSet<&str> = own.iter().map(|claim| claim.disk.as_str()).collect();
    if disks.is_empty() {
        return Vec::new();
    }
    let Some(ring) = KernelLog::read() else { return Vec::new() };
    let since = ring.lines.first().map_or(ring.zero, |line| ring.at(line));
    // A name may have become another volume's meanwhile.
    let others = journal::claims(&config.paths, since, &disks).unwrap_or_default();
    rows_of(&ring, &[own, others].concat(), entries)
}

/// Keeps in our own log what the kernel said of the volume's disks: that outlives the ring, and the boot.
pub(super) fn keep(config: &Config, id: &VolumeId) {
    let query = LogQuery { volume: BTreeSet::from([id.to_string()]), ..LogQuery::default() };
    let Ok(story) = journal::story(&config.paths, &query) else { return };
    let all = with_rows(config, story.entries);
    let last_kept = all.iter().rposition(|entry| !entry.call.is_empty() && entry.op == KERNEL);
    let news = all.iter().skip(last_kept.map_or(0, |place| place + 1));
    let news = news.filter(|entry| entry.op == KERNEL && entry.disk.is_some()).take(KEPT);
    let told: Vec<_> = news.map(|row| format!("{} {}", row.written, sentence(row))).collect();
    if !told.is_empty() {
        let told = serde_json::to_string(&told).unwrap_or_default();
        tracing::info!(volume = %id, told, event = "kernel_message", "what the kernel said of the disk");
    }
}

/// The entries, and between them what the kernel said.
pub(super) fn with_rows(config: &Config, mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut rows = rows(config, &entries);
    // What was kept is not told twice; both clocks are read anew each time.
    rows.retain(|row| {
        let is_it = |one: &Entry| {
            one.op == KERNEL
                && one.volume == row.volume
                && one.text.starts_with(&row.text)
                && one.at.abs_diff(row.at) <= SAME_MOMENT
        };
        !entries.iter().any(is_it)
    });
    entries.extend(rows);
    sort_by_key(&mut entries, |entry| entry.at);
    entries
}

/// Which volume had which disk: a call names it, and a detach ends that.
fn claims_in(entries: &[Entry]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut held: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries {
        let Some(volume) = entry.volume.as_deref() else { continue };
        if entry.op.starts_with("detach") && entry.ending == Ending::Done {
            let at = entry.until.unwrap_or(entry.at) + entry.took_ms.unwrap_or_default();
            for disk in held.remove(volume).unwrap_or_default() {
                claims.push(Claim { at, volume: None, disk: disk.to_owned() });
            }
        } else if let Some(disk) = entry.disk.as_deref() {
            held.entry(volume).or_default().insert(disk);
            let volume = Some(volume.to_owned());
            claims.push(Claim { at: entry.at, volume, disk: disk.to_owned() });
        }
    }
    claims
}

fn rows_of(ring: &KernelLog, claims: &[Claim], entries: &[Entry]) -> Vec<Entry> {
    let disks: BTreeSet<&str> = claims.iter().map(|claim| claim.disk.as_str()).collect();
    let asked: BTreeMap<&str, Option<String>> = entries
        .iter()
        .filter_map(|entry| Some((entry.volume.as_deref()?, entry.name.clone())))
        .collect();
    let mut rows: Vec<Entry> = Vec::new();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    // Where each kind of line stands: the sectors differ.
    let mut known: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for line in &ring.lines {
        let at = ring.at(line);
        for disk in disks.iter().filter(|disk| line.tells_of(disk)) {
            let Some(volume) = owner_at(claims, disk, at) else { continue };
            let Some(name) = asked.get(volume) else { continue };
            let kind = (volume, without_digits(&line.text));
            if let Some(&place) = known.get(&kind) {
                rows[place].count += 1;
                rows[place].until = Some(at);
                continue;
            }
            let told = count.entry(volume).or_default();
            *told += 1;
            if *told > MOST {
                continue;
            }
            known.insert(kind, rows.len());
            let text = shortened(&line.text, LONGEST).into_owned();
            rows.push(row(at, volume, name.clone(), Some(disk), text));
        }
    }
    rows.extend(what_is_lost(ring, claims, &asked));
    rows
}

/// The ring may have lost what it said while the volume was here; a sleep moves its times.
fn what_is_lost(
    ring: &KernelLog,
    claims: &[Claim],
    asked: &BTreeMap<&str, Option<String>>,
) -> Vec<Entry> {
    let mut rows = Vec::new();
    for (volume, name) in asked {
        let own = claims.iter().filter(|claim| claim.volume.as_deref() == Some(*volume));
        let Some(first) = own.map(|claim| claim.at).filter(|at| *at >= ring.zero).min() else {
            continue;
        };
        if let Some(begin) = ring.begins_late().filter(|begin| first < *begin) {
            let text =
                "what the kernel said before this moment is lost: its ring was full".to_owned();
            rows.push(row(begin, volume, name.clone(), None, text));
        }
        if let Some(slept) = ring.slept {
            let slept = u64::try_from(slept.as_millis()).unwrap_or_default();
            let text = format!(
                "the machine slept for {} since its boot: what the kernel said before that was up to so much earlier than is shown here",
                timestamp::duration(slept)
            );
            rows.push(row(first, volume, name.clone(), None, text));
        }
    }
    rows
}

fn row(at: Millis, volume: &str, name: Option<String>, disk: Option<&str>, text: String) -> Entry {
    let (volume, event) = (Some(volume.to_owned()), disk.map(|_| LogEvent::KernelMessage));
    let disk = disk.map(str::to_owned);
    Entry { volume, name, disk, event, ..Entry::new(at, KERNEL, text) }
}

/// A row's sentence, with how often the kernel said the same of other sectors.
pub(super) fn sentence(entry: &Entry) -> String {
    let more = usize::try_from(entry.count.saturating_sub(1)).unwrap_or(usize::MAX);
    match entry.until {
        Some(until) if more > 0 => {
            let last = LOCAL.clock(until);
            format!("{} (and {} like it until {last})", entry.text, several(more, "line", "lines"))
        }
        _ => entry.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::kernel_line::parse;

    const ZERO: Millis = 1_000_000;

    /// A ring; each line with its second.
    fn ring(first: u64, lines: &[(u64, &str)]) -> KernelLog {
        let one = |(nth, (second, text)): (usize, &(u64, &str))| {
            parse(&format!("3,{},{},-;{text}", first + nth as u64, second * 1_000_000)).unwrap()
        };
        let lines = lines.iter().enumerate().map(one).collect();
        KernelLog { lines, zero: ZERO, slept: None }
    }

    fn entry(second: u64, op: &str, disk: Option<&str>) -> Entry {
        let row = row(ZERO + second * 1000, "v1", Some("pv-1".to_owned()), disk, String::new());
        Entry { op: op.to_owned(), ending: Ending::Done, call: "c".to_owned(), ..row }
    }

    fn told(rows: &[Entry]) -> Vec<(u64, String)> {
        rows.iter().map(|row| ((row.at - ZERO) / 1000, sentence(row))).collect()
    }

    /// The disk goes, comes back under another letter, and is detached; then its letter is another's.
    #[test]
    fn the_kernel_speaks_of_the_disk_while_it_was_the_volumes() {
        let lines = [
            (1, "I/O error, dev vdc, sector 8"),
            (20, "EXT4-fs (vdc): shut down requested (2)"),
            (21, "I/O error, dev vdc, sector 8"),
            (22, "I/O error, dev vdc, sector 16"),
            (23, "I/O error, dev vdz, sector 16"),
            (31, "I/O error, dev vdd, sector 8"),
            (50, "I/O error, dev vdd, sector 8"),
            (70, "EXT4-fs error (device vdc): of another volume"),
        ];
        let entries = [
            entry(10, "mountdevice", Some("vdc")),
            entry(30, "attach", Some("vdd")),
            entry(40, "detach", None),
        ];
        let mut claims = claims_in(&entries);
        let other = Some("v2".to_owned());
        claims.push(Claim { at: ZERO + 60_000, volume: other, disk: "vdc".to_owned() });
        let rows = rows_of(&ring(0, &lines), &claims, &entries);
        assert_eq!(
            told(&rows),
            [
                (20, "EXT4-fs (vdc): shut down requested (2)".to_owned()),
                (
                    21,
                    "I/O error, dev vdc, sector 8 (and 1 line like it until 00:17:02.000)"
                        .to_owned()
                ),
                (31, "I/O error, dev vdd, sector 8".to_owned()),
            ]
        );
        assert!(rows.iter().all(|row| row.op == KERNEL && row.name.as_deref() == Some("pv-1")));
    }

    #[test]
    fn what_the_ring_lost_and_a_sleep_are_said() {
        let entries = [entry(10, "mountdevice", Some("vdc"))];
        let claims = claims_in(&entries);
        let late = [(30, "I/O error, dev vdc, sector 8")];
        let whole = rows_of(&ring(0, &late), &claims, &entries);
        assert_eq!(whole.len(), 1, "nothing is lost of a ring that has its first line");
        let torn = rows_of(&ring(900, &late), &claims, &entries);
        assert!(torn.iter().any(|row| row.text.contains("its ring was full")), "{torn:#?}");
        let slept = KernelLog { slept: Some(std::time::Duration::from_secs(60)), ..ring(0, &late) };
        let slept = rows_of(&slept, &claims, &entries);
        assert!(slept.iter().any(|row| row.text.contains("slept for 1 min")), "{slept:#?}");
        let before = [entry(10, "mountdevice", Some("vdc"))].map(|one| Entry { at: 5, ..one });
        let before = rows_of(&ring(900, &late), &claims_in(&before), &before);
        assert!(!before.iter().any(|row| row.disk.is_none()), "of another boot: {before:#?}");
    }

    #[test]
    fn a_disk_that_fails_for_hours_fills_no_page() {
        let texts: Vec<_> = (0..200)
            .map(|nth| format!("EXT4-fs error (device vdc): comm {}", "x".repeat(nth)))
            .collect();
        let lines: Vec<_> = texts.iter().map(|text| (20, text.as_str())).collect();
        let entries = [entry(10, "mountdevice", Some("vdc"))];
        assert_eq!(rows_of(&ring(0, &lines), &claims_in(&entries), &entries).len(), MOST);
    }
}
