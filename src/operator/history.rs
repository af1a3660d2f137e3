//! `disk history`: what became of a volume or a pod, as a story.

use super::journal::{self, LogQuery, Older, Story};
use super::kernel_story;
use super::kubelet_story::{self, KUBELET, KubeletStory};
use super::naming::{self, NamesInTheLog};
use super::tear_downs::is_tear_down;
use super::terminal::{Paint, Stage, as_it_is, hanging, in_two_lines, line_of, width_of};
use super::timeline::{Ending, Entry, KERNEL};
use crate::app::FACES;
use crate::cli::views::HistoryArguments;
use crate::configuration::Config;
use crate::host::machine::uptime;
use crate::host::records::RecordFiles;
use crate::host::zone::LOCAL;
use crate::model::error::{Error, Kind, Result};
use crate::model::record::VolumeRecord;
use crate::model::report::log_event::LogEvent;
use crate::model::report::refusal::Refusal;
use crate::model::report::tear_down::TearDown;
use crate::model::text::several;
use crate::model::timestamp::{self, Millis};
use crate::ports::clock;
use crate::ports::store::Records;
use serde::Serialize;
use std::collections::BTreeSet;

/// The row of a line of an older driver's.
const OLDER: &str = "older driver";

/// The answer for machines.
#[derive(Debug, Serialize)]
struct History<'a> {
    format: u32,
    entries: &'a [Entry],
    /// What an older driver wrote, in prose: not read, only shown.
    older: &'a [Older],
    /// How many lines of the log cannot be read.
    unreadable: usize,
    /// What kubelet's log says around the entries.
    kubelet: &'a KubeletStory,
}

pub(super) fn run(
    arguments: &HistoryArguments,
    names: Option<NamesInTheLog>,
    config: &Config,
    stage: &mut Stage<'_>,
) -> Result<u8> {
    let NamesInTheLog { names, near } = names.unwrap_or_default();
    let records = RecordFiles::below(&config.paths.state_dir, &config.paths.run_dir);
    let logs = kubelet_story::logs(&arguments.kubelet_log)?;
    let mut story = of(config, names, arguments)?;
    let asked = story.names.iter().next().cloned();
    story.entries = kernel_story::with_rows(config, story.entries);
    story.entries.retain(|entry| {
        arguments.since.is_none_or(|since| entry.until.unwrap_or(entry.at) >= since)
    });
    let kubelet = KubeletStory::of(&logs, &mut story);
    let Story { mut entries, older, unreadable, .. } = story;
    entries.extend(now_refused(&entries, &records));
    if arguments.json {
        stage.say_json(&History {
            format: 1,
            entries: &entries,
            older: &older,
            unreadable,
            kubelet: &kubelet,
        })?;
    } else if entries.is_empty() && older.is_empty() && kubelet.is_empty() {
        let about = asked.map(|name| format!(" about {name}")).unwrap_or_default();
        let folder = config.paths.log_dir.display();
        let files = arguments.kubelet_log.iter().map(|file| format!(", nor in {}", file.display()));
        let what = format!("nothing{about} is in the log in {folder}{}", files.collect::<String>());
        let near = naming::proposed(&near).map(|near| format!("; {near}")).unwrap_or_default();
        return Err(Error::new(Kind::Missing, what).hint(format!(
            "logs of the driver before this one are read too if they are in paths.log_dir{near}"
        )));
    } else {
        let paint = stage.paint();
        let text = text(&kubelet.among(&[entries, rows_of(&older)].concat()), paint);
        let opening = kubelet.opening(paint) + &as_written(&older, paint);
        stage.say(&(opening + &text + &not_read(unreadable, paint) + &kubelet.closing(paint)));
    }
    Ok(0)
}

fn of(config: &Config, volume: BTreeSet<String>, arguments: &HistoryArguments) -> Result<Story> {
    let (pod, since) = (arguments.pod.clone(), arguments.since);
    if !arguments.kubelet_log.is_empty() && !config.paths.log_dir.exists() {
        let names = volume.into_iter().chain(pod).collect();
        return Ok(Story { since, names, ..Story::default() });
    }
    journal::story_and_before(&config.paths, &LogQuery { volume, pod, since, with_older: true })
}

/// What of the log is torn.
pub(super) fn not_read(unreadable: usize, paint: Paint) -> String {
    let lines = several(unreadable, "line of the log", "lines of the log");
    let text =
        hanging("! ", &format!("Not seen: {lines} cannot be read"), |line| paint.doubtful(line));
    if unreadable > 0 { text } else { String::new() }
}

/// What is refused at this moment, for the volumes of a story: the log counts it in powers of ten.
pub(super) fn now_refused(entries: &[Entry], records: &dyn Records) -> Vec<Entry> {
    let now = clock::now();
    let told: BTreeSet<_> = entries.iter().filter_map(|entry| entry.volume.clone()).collect();
    let all = records.list().unwrap_or_default();
    let ours = all.iter().filter(|record| told.contains(record.volume.as_str()));
    ours.filter_map(|record| refused_of(record, now)).collect()
}

fn refused_of(record: &VolumeRecord, now: Millis) -> Option<Entry> {
    let uptime = uptime();
    let current = record.guard.refused.iter().filter(|(_, refusal)| refusal.is_current(&uptime));
    let current: Vec<_> = current.collect();
    let since = current.iter().map(|(_, refusal)| refusal.since).min()?;
    let one = |(tear_down, refusal): &(&TearDown, &Refusal)| {
        let what = FACES
            .words_of(refusal.face.as_ref())
            .told(tear_down, |pod| record.mounts.consumers.get(pod).cloned());
        let count = usize::try_from(refusal.count).unwrap_or(usize::MAX);
        format!("{what} ({})", several(count, "time", "times"))
    };
    let all: Vec<_> = current.iter().map(one).collect();
    let span = timestamp::duration((now / 1000).saturating_sub(since) * 1000);
    let text = format!("still refused, for {span}: {}", all.join(", "));
    Some(Entry {
        volume: Some(record.volume.to_string()),
        name: record.name.as_ref().map(ToString::to_string),
        ending: Ending::Refused,
        kind: Some("guarded".to_owned()),
        event: Some(LogEvent::Refused),
        ..Entry::new(now, "now", text)
    })
}

/// The lines of an older driver that say when they were written, as rows.
pub(super) fn rows_of(older: &[Older]) -> Vec<Entry> {
    let row = |one: &Older| {
        let text = format!("\"{}\"", one.brief());
        Some(Entry {
            op: OLDER.to_owned(),
            ..kubelet_story::row(one.moment()?, "", None, None, text)
        })
    };
    older.iter().filter_map(row).collect()
}

/// The others, each behind a mark that no line of the story has.
pub(super) fn as_written(older: &[Older], paint: Paint) -> String {
    let mut text = String::new();
    let older: Vec<_> = older.iter().filter(|one| one.moment().is_none()).collect();
    if !older.is_empty() {
        text += &paint.bold("as an older driver wrote it, not checked");
        text.push('\n');
    }
    for one in older {
        text += &as_it_is("  | ", &one.line, |line| paint.dim(line));
    }
    text
}

/// The story, for people.
pub(super) fn text(entries: &[Entry], paint: Paint) -> String {
    let volumes: BTreeSet<_> = entries.iter().filter_map(|entry| entry.volume.as_ref()).collect();
    let mut text = String::new();
    let mut day = String::new();
    if let [volume] = volumes.iter().collect::<Vec<_>>()[..] {
        let name = entries.iter().find_map(|entry| entry.name.as_ref());
        let name = name.filter(|name| name != volume).map(|name| format!("  {name}"));
        text += &paint.bold(&format!("{volume}{}", name.unwrap_or_default()));
        text.push('\n');
    }
    for entry in entries {
        let today = format!("{} ({})", timestamp::day(LOCAL.shown(entry.at)), LOCAL.name(entry.at));
        if today != day {
            text += &format!("{}\n", paint.dim(&today));
            day = today;
        }
        let took = entry.took_ms.map(timestamp::duration).unwrap_or_default();
        let begin = format!("{}  {:<14} {took:>7}  ", LOCAL.clock(entry.at), entry.op);
        let of = match &entry.volume {
            Some(volume) if volumes.len() > 1 => {
                format!("[{}] ", entry.name.as_ref().unwrap_or(volume))
            }
            _ => String::new(),
        };
        let told = format!("{of}{}", sentence(entry));
        let paint = |line: &str| painted(entry.ending, paint, line);
        // A moment in kubelet's words stays as it wrote it.
        text += &match entry.op.as_str() {
            KUBELET => in_two_lines(&begin, &told, paint),
            OLDER => format!("{begin}{}\n", line_of(&told, width_of(&begin))),
            _ => hanging(&begin, &told, paint),
        };
    }
    text
}

fn painted(ending: Ending, paint: Paint, line: &str) -> String {
    match ending {
        Ending::Refused => paint.doubtful(line),
        Ending::Failed | Ending::Open => paint.bad(line),
        Ending::Already | Ending::Asked => paint.dim(line),
        Ending::Done | Ending::Event => line.to_owned(),
    }
}

/// What happened, as a sentence.
pub(super) fn sentence(entry: &Entry) -> String {
    let times = match entry.until {
        Some(until) if entry.count > 1 => {
            format!(" ({} times until {})", entry.count, clock_of(entry.at, until))
        }
        _ => String::new(),
    };
    let by = by_whom(entry).unwrap_or_default();
    match entry.ending {
        Ending::Refused if entry.op == "now" => entry.text.clone(),
        Ending::Refused => format!("REFUSED{by}{times}: {}", entry.text),
        Ending::Failed => {
            let kind = entry.kind.as_ref().map(|kind| format!(", {kind}")).unwrap_or_default();
            format!("FAILED{kind}{by}{times}: {}", entry.text)
        }
        Ending::Done | Ending::Already | Ending::Asked | Ending::Open => {
            format!("{}{by}{times}", entry.text)
        }
        Ending::Event if entry.op == KERNEL => kernel_story::sentence(entry),
        Ending::Event if entry.op == KUBELET => kubelet_story::sentence(entry),
        Ending::Event => entry.text.clone(),
    }
}

/// Who asked: of a tear-down always, else where that is not who usually does. A verb's own sentence says it.
fn by_whom(entry: &Entry) -> Option<String> {
    const USUAL: [&str; 3] = ["kubelet", "kube-controller", "hyperkube"];
    if entry.is_persons || matches!(entry.op.as_str(), "healing" | "guard" | "note" | "now") {
        return None;
    }
    let is_tear_down = is_tear_down(entry);
    match entry.by.as_deref().filter(|by| *by != "?") {
        None => is_tear_down.then(|| " (caller unknown)".to_owned()),
        // The kernel cuts the name of its process.
        Some(by) if is_tear_down && by.starts_with("kube-controller") => {
            Some(" (by the controller-manager)".to_owned())
        }
        Some(by) => {
            let is_usual = USUAL.iter().any(|usual| by.starts_with(usual));
            (is_tear_down || !is_usual).then(|| format!(" (by {by})"))
        }
    }
}

fn clock_of(from: Millis, until: Millis) -> String {
    let (from, until) = (LOCAL.shown(from), LOCAL.shown(until));
    let clock = timestamp::clock(until);
    if timestamp::day(from) == timestamp::day(until) {
        clock
    } else {
        format!("{} {clock}", timestamp::day(until))
    }
}
