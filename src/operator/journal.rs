//! The log, read for the calls of a volume or a pod.

use super::tear_downs::is_tear_down;
use super::timeline::{Ending, Entry, Names, tell};
use crate::configuration::Paths;
use crate::host::files;
use crate::host::zone::LOCAL;
use crate::log;
use crate::model::error::{Error, Result};
use crate::model::report::kernel_line::Claim;
use crate::model::report::kubelet_line;
use crate::model::report::log_line::{self, LogLine, call_id};
use crate::model::sorting::sort_by_key;
use crate::model::timestamp::{self, Millis};
use crate::ports::clock;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind::{InvalidInput, NotFound};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The newest part of the log that is read for the last calls.
const TAIL: u64 = 4 << 20;

/// So many lines of an older driver's log are shown, the newest.
const OLDER: usize = 200;

/// How glog begins a file.
const GLOG_HEADERS: [&str; 4] =
    ["Log file created at: ", "Running on machine: ", "Binary: Built with ", "Log line format: "];

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct LogQuery {
    /// The names of one volume; any if empty.
    pub(super) volume: BTreeSet<String>,
    /// A pod: its UID, its name, or both with the namespace.
    pub(super) pod: Option<String>,
    /// Nothing that began earlier.
    pub(super) since: Option<Millis>,
    /// Also what an older driver wrote.
    pub(super) with_older: bool,
}

/// What the log tells.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) entries: Vec<Entry>,
    /// When the story begins, if it does not tell all.
    pub(super) since: Option<Millis>,
    /// What was before that, as far as it is known.
    pub(super) earlier: Vec<Entry>,
    /// When a volume was torn down last before that.
    pub(super) torn_down_before: Option<Millis>,
    /// The names of pods by their UIDs.
    pub(super) pods: BTreeMap<String, String>,
    /// Lines in prose, of an older driver: a name could have passed for one of them, so nothing is
    /// concluded from them.
    pub(super) older: Vec<Older>,
    /// All names of the volume that was asked for; none if all were.
    pub(super) names: BTreeSet<String>,
    /// How many lines about it cannot be read.
    pub(super) unreadable: usize,
}

/// A line of an older driver's log.
#[derive(Debug, Serialize)]
pub(super) struct Older {
    /// The day of its file.
    pub(super) day: String,
    pub(super) line: String,
}

impl Older {
    /// When it was written, if it says so.
    pub(super) fn moment(&self) -> Option<Millis> {
        // Ours wrote a whole moment, the driver before it what klog writes.
        let own = || timestamp::parse(self.line.split(' ').next()?);
        let klog = kubelet_line::of_file(&self.line, LOCAL, clock::now());
        klog.map(|line| line.at).or_else(own)
    }

    /// The call to tear down a volume that it seems to be about.
    pub(super) fn tear_down(&self) -> Option<&'static str> {
        let line = self.line.to_ascii_lowercase();
        ["unmountdevice", "unmount", "detach"].into_iter().find(|op| line.contains(op))
    }

    /// What it says, without its place in the source and the beginnings of its paths.
    pub(super) fn brief(&self) -> String {
        let place = self.line.split_once("] ").filter(|(place, _)| place.contains(".go:"));
        let own = self.line.split_once(' ').filter(|(at, _)| timestamp::parse(at).is_some());
        let text = place.or(own).map_or(self.line.as_str(), |(_, words)| words.trim_start());
        let short = |word: &str| match word.rsplit_once('/') {
            Some((path, end)) if path.starts_with('/') && !end.is_empty() => format!("…/{end}"),
            _ => word.to_owned(),
        };
        text.split(' ').map(short).collect::<Vec<_>>().join(" ")
    }

    /// The pod and the volume's name in the path of a pod's volume, if there is one.
    pub(super) fn pod_and_name(&self) -> Option<(&str, &str)> {
        let (_, path) = self.line.split_once("/pods/")?;
        let mut parts = path.splitn(5, '/');
        let (pod, volumes, _, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let name = name.split(|sign: char| sign.is_whitespace() || "\"',".contains(sign)).next()?;
        (volumes == "volumes" && kubelet_line::is_uid(pod)).then_some((pod, name))
    }
}

impl Story {
    /// When volumes were torn down.
    pub(super) fn tear_downs(&self) -> impl Iterator<Item = Millis> {
        let ours = self.entries.iter().filter(|entry| is_tear_down(entry));
        let older = self.older.iter().filter(|older| older.tear_down().is_some());
        ours.map(|entry| entry.until.unwrap_or(entry.at)).chain(older.filter_map(Older::moment))
    }

    /// Leaves only what has happened since a moment in the story.
    pub(super) fn begin_at(&mut self, since: Millis) {
        self.torn_down_before = self.tear_downs().filter(|at| *at < since).max();
        let entries = std::mem::take(&mut self.entries).into_iter();
        (self.entries, self.earlier) =
            entries.partition(|entry| entry.until.unwrap_or(entry.at).max(entry.at) >= since);
        self.older.retain(|older| older.moment().is_none_or(|at| at >= since));
        self.since = Some(since);
    }
}

/// The story that was asked for, and what was before it: of one volume all, for its disk was named when it came,
/// perhaps days ago; of all volumes only if none was torn down since.
pub(super) fn story_and_before(paths: &Paths, query: &LogQuery) -> Result<Story> {
    let whole = || story(paths, &LogQuery { since: None, ..query.clone() });
    let Some(since) = query.since else { return whole() };
    let is_of_one = !query.volume.is_empty() || query.pod.is_some();
    let mut told = if is_of_one { whole()? } else { story(paths, query)? };
    told.begin_at(since);
    if !is_of_one && told.tear_downs().next().is_none() {
        told = whole()?;
        told.begin_at(since);
    }
    Ok(told)
}

/// The story that was asked for.
pub(super) fn story(paths: &Paths, query: &LogQuery) -> Result<Story> {
    let folder = &paths.log_dir;
    let (mut prose, files): (Vec<_>, Vec<_>) =
        files_since(folder, query.since)?.into_iter().partition(|file| file.is_prose);
    prose.extend(since_day(log::files_of_predecessor(folder), query.since));
    let files = with_looks(paths, files.iter());
    let is_known = |text: &str, of: &BTreeSet<String>| of.contains(text);
    let mut names = Names::default();
    let mut aliases = query.volume.clone();
    if let Some(pod) = &query.pod {
        each(
            &files,
            |text| text.contains(pod.as_str()),
            |line| {
                if is_of_pod(&line, pod) {
                    aliases.extend(names_in(&line));
                }
            },
        )?;
        if aliases.is_empty() {
            aliases.insert(pod.clone());
        }
    }
    // A line may name the volume by another of its names, which is then looked for too.
    let mut calls = BTreeSet::new();
    let is_all = aliases.is_empty();
    let (mut known, mut unreadable) = (0, 0);
    while !is_all && known != aliases.len() {
        known = aliases.len();
        let wanted: Vec<String> = aliases.iter().cloned().collect();
        unreadable = each(
            &files,
            |text| wanted.iter().any(|alias| text.contains(alias.as_str())),
            |line| {
                let found = names_in(&line);
                if found.iter().any(|name| is_known(name, &aliases)) {
                    aliases.extend(found);
                    calls.insert(line.id);
                }
            },
        )?;
    }
    let mut lines = Vec::new();
    let is_asked = |text: &str| is_all || call_id(text).is_some_and(|id| calls.contains(id));
    let torn = each(&files, is_asked, |line| {
        if !line.id.is_empty() {
            lines.push(line);
        }
    })?;
    unreadable = unreadable.max(torn);
    let mut entries = tell(lines, &mut names);
    // A look after all volumes told of others too.
    let is_asked = |of: &String| is_all || aliases.contains(of);
    entries.retain(|entry| entry.volume.as_ref().is_none_or(is_asked));
    entries
        .retain(|entry| query.since.is_none_or(|since| entry.until.unwrap_or(entry.at) >= since));
    if let Some(pod) = &query.pod {
        let uids: BTreeSet<_> = pods_of(&files, pod)?;
        entries.retain(|entry| entry.pod.as_ref().is_none_or(|of| uids.contains(of)));
    }
    let older = if query.with_older { older(folder, &prose, &aliases)? } else { Vec::new() };
    Ok(Story { entries, pods: names.pods(), older, names: aliases, unreadable, ..Story::default() })
}

/// Which volumes had disks of these names since, as any call of the machine says.
pub(super) fn claims(paths: &Paths, since: Millis, disks: &BTreeSet<&str>) -> Result<Vec<Claim>> {
    let files = files_since(&paths.log_dir, Some(since))?;
    let files = with_looks(paths, files.iter().filter(|file| !file.is_prose));
    let wanted: Vec<_> = disks.iter().map(|disk| format!(r#""disk":"{disk}""#)).collect();
    let mut claims = Vec::new();
    each(
        &files,
        |text| wanted.iter().any(|words| text.contains(words)),
        |line| {
            let (volume, disk) = (line.field("volume"), line.field("disk"));
            if !volume.is_empty() && disks.contains(disk) {
                let (volume, disk) = (Some(volume.to_owned()), disk.to_owned());
                claims.push(Claim { at: line.at, volume, disk });
            }
        },
    )?;
    Ok(claims)
}

/// What an older driver wrote of these names, or of all if there are none.
fn older(folder: &Path, prose: &[log::File], names: &BTreeSet<String>) -> Result<Vec<Older>> {
    let mut lines = VecDeque::new();
    for file in prose {
        each_text(&[file.path(folder)], |text| {
            // glog writes a warning into the file of each lower level too.
            let is_asked =
                names.is_empty() || names.iter().any(|name| text.contains(name.as_str()));
            let is_header = GLOG_HEADERS.iter().any(|words| text.starts_with(words));
            let is_new = || !lines.iter().any(|one: &Older| one.line == text);
            if is_asked && !is_header && is_new() {
                lines.extend([Older { day: file.day.clone(), line: text.to_owned() }]);
                if lines.len() > OLDER {
                    lines.pop_front();
                }
            }
        })?;
    }
    Ok(lines.into())
}

/// The last call of every volume, out of the newest part of the log; nothing if it cannot be read.
pub(super) fn last_calls(paths: &Paths) -> Vec<Entry> {
    let files = log::files(&paths.log_dir).unwrap_or_default();
    let mut texts = Vec::new();
    let mut room = TAIL;
    let files = with_looks(paths, files.iter().filter(|file| !file.is_prose));
    for file in files.iter().rev() {
        let Some(text) = tail(file, room) else { continue };
        room = room.saturating_sub(text.len() as u64);
        texts.push(text);
        if room == 0 {
            break;
        }
    }
    texts.reverse();
    let lines = texts.iter().flat_map(|text| text.lines()).filter_map(log_line::parse);
    let mut entries =
        tell(lines.filter(|line| !line.id.is_empty()).collect(), &mut Names::default());
    // What happens on a call's way is none, and a question tells nothing of what was done.
    entries.retain(|entry| {
        !matches!(entry.op.as_str(), "healing" | "guard" | "note" | "kernel" | "isattached")
            && !matches!(entry.ending, Ending::Asked | Ending::Event)
    });
    sort_by_key(&mut entries, |entry| entry.until.unwrap_or(entry.at));
    entries
}

fn tail(path: &Path, room: u64) -> Option<String> {
    let mut file = files::open_regular(path).ok()?;
    let length = file.metadata().ok()?.len();
    let begin = length.saturating_sub(room);
    file.seek(SeekFrom::Start(begin)).ok()?;
    let mut bytes = Vec::new();
    file.take(room).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line may have lost its beginning.
    let whole = if begin == 0 { 0 } else { text.find('\n').map_or(text.len(), |end| end + 1) };
    Some(text[whole..].to_owned())
}

/// The files of the log, the oldest first, and the lines that older drivers kept in memory.
fn with_looks<'a>(paths: &Paths, files: impl Iterator<Item = &'a log::File>) -> Vec<PathBuf> {
    let in_memory = ["looks.taken.jsonl", "looks.jsonl"].map(|name| paths.run_dir.join(name));
    files.map(|file| file.path(&paths.log_dir)).chain(in_memory).collect()
}

fn files_since(folder: &Path, since: Option<Millis>) -> Result<Vec<log::File>> {
    let files = log::files(folder).map_err(|error| {
        let error = Error::io(format!("read the log in {}", folder.display()), &error);
        if error.is_denied() {
            return error;
        }
        error.hint("it is written by calls; paths.log_dir says where")
    })?;
    Ok(since_day(files, since))
}

fn since_day(mut files: Vec<log::File>, since: Option<Millis>) -> Vec<log::File> {
    if let Some(since) = since {
        let first = timestamp::day(since);
        files.retain(|file| file.day >= first);
    }
    files
}

/// Reads the lines of all files that are asked for; answers how many of these cannot be read.
fn each(
    files: &[PathBuf],
    mut is_asked: impl FnMut(&str) -> bool,
    mut take: impl FnMut(LogLine),
) -> Result<usize> {
    let mut unreadable = 0;
    each_text(files, |text| {
        if is_asked(text) {
            match log_line::parse(text) {
                Some(line) => take(line),
                None => unreadable += 1,
            }
        }
    })?;
    Ok(unreadable)
}

/// The lines of all files as text. What is longer than a line of ours can be is left out, and so is
/// a file that is none: a pipe would never end.
fn each_text(files: &[PathBuf], mut take: impl FnMut(&str)) -> Result<()> {
    const ROOM: u64 = 2 * log_line::LONGEST as u64;
    let io =
        |path: &Path, error: &std::io::Error| Error::io(format!("read {}", path.display()), error);
    for path in files {
        let file = match files::open_regular(path) {
            Ok(file) => file,
            // Just pruned, or put there by another program.
            Err(error) if matches!(error.kind(), NotFound | InvalidInput) => continue,
            Err(error) => return Err(io(path, &error)),
        };
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let mut bytes = Vec::new();
        let mut is_rest = false;
        loop {
            bytes.clear();
            let found = reader.by_ref().take(ROOM).read_until(b'\n', &mut bytes);
            if found.map_err(|error| io(path, &error))? == 0 {
                break;
            }
            let is_whole = bytes.ends_with(b"\n");
            if is_whole && !is_rest {
                take(String::from_utf8_lossy(&bytes).trim_end_matches('\n'));
            }
            is_rest = !is_whole;
        }
    }
    Ok(())
}

/// The volume by all the names that a line has for it.
fn names_in(line: &LogLine) -> Vec<String> {
    let object = line.field("object").strip_prefix("volume ").unwrap_or_default();
    let names = [object, line.field("volume"), line.field("name")];
    names.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn is_of_pod(line: &LogLine, pod: &str) -> bool {
    let name = line.field("pod_name");
    line.field("pod") == pod || name == pod || name.rsplit('/').next() == Some(pod)
}

/// What entries call the pod.
fn pods_of(files: &[PathBuf], pod: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::from([pod.to_owned()]);
    each(
        files,
        |text| text.contains(pod),
        |line| {
            if is_of_pod(&line, pod) {
                let both = [line.field("pod"), line.field("pod_name")];
                found.extend(both.into_iter().filter(|text| !text.is_empty()).map(str::to_owned));
            }
        },
    )?;
    Ok(found)
}
