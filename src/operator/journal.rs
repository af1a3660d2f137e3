//! The log, read for the calls of a volume or a pod.

use crate::log;
use crate::model::error::{Error, Result};
use crate::model::log_line::{self, LogLine};
use crate::model::moment::{self, Millis};
use crate::model::story::{Ending, Entry, Names, tell};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The newest part of the log that is read for the last calls.
const TAIL: u64 = 4 << 20;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wish {
    /// The names of one volume; any if empty.
    pub(super) volume: BTreeSet<String>,
    /// A pod: its UID, its name, or both with the namespace.
    pub(super) pod: Option<String>,
    /// Nothing that began earlier.
    pub(super) since: Option<Millis>,
}

/// The story that was asked for.
pub(super) fn story(folder: &Path, wish: &Wish) -> Result<Vec<Entry>> {
    let files = files_since(folder, wish.since)?;
    let is_known = |text: &str, of: &BTreeSet<String>| of.contains(text);
    let mut names = Names::default();
    let mut aliases = wish.volume.clone();
    if let Some(pod) = &wish.pod {
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
            return Ok(Vec::new());
        }
    }
    // A line may name the volume by another of its names, which is then looked for too.
    let mut calls = BTreeSet::new();
    let is_all = aliases.is_empty();
    let mut known = 0;
    while !is_all && known != aliases.len() {
        known = aliases.len();
        let wanted: Vec<String> = aliases.iter().cloned().collect();
        each(
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
    each(&files, is_asked, |line| {
        if !line.id.is_empty() {
            lines.push(line);
        }
    })?;
    let mut entries = tell(lines, &mut names);
    entries.retain(|entry| wish.since.is_none_or(|since| entry.until.unwrap_or(entry.at) >= since));
    if let Some(pod) = &wish.pod {
        let uids: BTreeSet<_> = pods_of(&files, pod)?;
        entries.retain(|entry| entry.pod.as_ref().is_none_or(|of| uids.contains(of)));
    }
    Ok(entries)
}

/// The last call of every volume, out of the newest part of the log; nothing if it cannot be read.
pub(super) fn last_calls(folder: &Path) -> Vec<Entry> {
    let Ok(files) = log::files(folder) else { return Vec::new() };
    let mut texts = Vec::new();
    let mut room = TAIL;
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
        !matches!(entry.op.as_str(), "healing" | "guard" | "note" | "isattached")
            && entry.ending != Ending::Asked
    });
    entries.sort_by_key(|entry| entry.until.unwrap_or(entry.at));
    entries
}

fn tail(path: &Path, room: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
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

fn files_since(folder: &Path, since: Option<Millis>) -> Result<Vec<PathBuf>> {
    let mut files = log::files(folder).map_err(|error| {
        Error::io(format!("read the log in {}", folder.display()), &error)
            .hint("it is written by calls; paths.log_dir says where")
    })?;
    if let Some(since) = since {
        let first = format!("incloud-disk.{}.log", moment::day(since));
        files.retain(|file| file.file_name().is_some_and(|name| *name >= *first.as_str()));
    }
    Ok(files)
}

/// Reads the lines of all files that are asked for.
fn each(
    files: &[PathBuf],
    mut is_asked: impl FnMut(&str) -> bool,
    mut take: impl FnMut(LogLine),
) -> Result<()> {
    let io =
        |path: &Path, error: &std::io::Error| Error::io(format!("read {}", path.display()), error);
    for path in files {
        let file = match File::open(path) {
            Ok(file) => file,
            // Just pruned.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io(path, &error)),
        };
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match reader.read_until(b'\n', &mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(io(path, &error)),
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_end_matches('\n');
            if is_asked(text)
                && let Some(line) = log_line::parse(text)
            {
                take(line);
            }
        }
    }
    Ok(())
}

/// The call's id, without reading all of the line.
fn call_id(text: &str) -> Option<&str> {
    text.split_once("{id=\"")?.1.split('"').next()
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
