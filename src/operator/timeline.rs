//! What became of a volume, told from the log's lines: one entry for each call, with what happened
//! on its way; a call that says the same again is counted with the first.

use crate::model::report::log_event::LogEvent;
use crate::model::report::log_line::LogLine;
use crate::model::sorting::sort_by_key;
use crate::model::text::several;
use crate::model::timestamp::{self, Millis};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The row of something that the kernel said.
pub const KERNEL: &str = "kernel";

/// How something ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    Done,
    /// It was so already.
    Already,
    /// A person only asked what would be done.
    Asked,
    /// The guard refused it.
    Refused,
    Failed,
    /// Its end is not in the log: it was killed, or it is under way.
    Open,
    /// It happened on the way of a call.
    #[default]
    Event,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// When it began, in milliseconds since 1970.
    #[serde(rename = "at_ms")]
    pub at: Millis,
    /// The same as a person reads it.
    #[serde(rename = "at")]
    pub written: String,
    /// When it happened last, if more than once.
    #[serde(rename = "until_ms")]
    pub until: Option<Millis>,
    pub count: u64,
    /// The volume's id, where it is known.
    pub volume: Option<String>,
    /// The orchestrator's name of it.
    pub name: Option<String>,
    /// The call, a person's verb, or `healing`, `guard`, `note`.
    pub op: String,
    /// Who asked: the process that called, or the person.
    pub by: Option<String>,
    /// Whether it is a person's verb, and no call.
    pub is_persons: bool,
    pub pod: Option<String>,
    pub node: Option<String>,
    /// The disk that was worked on.
    pub disk: Option<String>,
    pub ending: Ending,
    /// The kind of a failure.
    pub kind: Option<String>,
    /// What happened, as a sentence.
    pub text: String,
    /// How long it took.
    pub took_ms: Option<u64>,
    /// The call's id: all its lines in the log have it.
    pub call: String,
    /// The log's name for what happened, if it has one.
    pub event: Option<LogEvent>,
}

impl Entry {
    /// Something that happened, of which no more is known.
    pub(super) fn new(at: Millis, op: &str, text: String) -> Self {
        let (written, op) = (timestamp::text(at), op.to_owned());
        Self { at, written, count: 1, op, text, ..Self::default() }
    }

    fn by_whom(&self) -> String {
        self.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default()
    }
}

/// The names that a volume goes by, learnt from the log.
#[derive(Debug, Clone, Default)]
pub struct Names {
    by_name: HashMap<String, String>,
    pods: HashMap<String, String>,
}

impl Names {
    /// Learns that a name is a volume's.
    pub fn learn(&mut self, name: &str, id: &str) {
        if !name.is_empty() && !id.is_empty() && name != id {
            self.by_name.insert(name.to_owned(), id.to_owned());
        }
    }

    /// The names of pods by their UIDs.
    pub fn pods(&self) -> BTreeMap<String, String> {
        self.pods.clone().into_iter().collect()
    }

    fn learn_pod(&mut self, uid: &str, name: &str) {
        if !uid.is_empty() && !name.is_empty() {
            self.pods.insert(uid.to_owned(), name.to_owned());
        }
    }

    /// The id behind a name, or the text itself.
    pub fn id_of(&self, text: &str) -> String {
        self.by_name.get(text).cloned().unwrap_or_else(|| text.to_owned())
    }

    fn name_of(&self, id: &str) -> Option<String> {
        let mut names: Vec<_> =
            self.by_name.iter().filter(|(_, of)| *of == id).map(|(name, _)| name).collect();
        names.sort();
        names.first().map(|name| (*name).clone())
    }

    /// Whether the id is one that a name leads to.
    fn knows(&self, id: &str) -> bool {
        self.by_name.values().any(|of| of == id)
    }
}

/// One call as the log has it.
#[derive(Debug, Default)]
struct Call {
    lines: Vec<LogLine>,
}

/// Tells the story of all these lines, in the order of time.
pub fn tell(lines: Vec<LogLine>, names: &mut Names) -> Vec<Entry> {
    let mut order: Vec<String> = Vec::new();
    let mut calls: HashMap<String, Call> = HashMap::new();
    for line in lines {
        names.learn(line.field("name"), line.field("volume"));
        // Only a mount is told the pod's name.
        names.learn_pod(line.field("pod"), line.field("pod_name"));
        let call = calls.entry(line.id.clone()).or_insert_with(|| {
            order.push(line.id.clone());
            Call::default()
        });
        call.lines.push(line);
    }
    for call in calls.values() {
        // A call that was given the name alone tells the id on its way.
        if let (Some(name), Some(id)) = (call.object(), call.first_of(&["volume"])) {
            names.learn(&name, &id);
        }
    }
    let mut entries = Vec::new();
    for call in order.iter().filter_map(|id| calls.remove(id)) {
        for one in call.by_volume() {
            entries.extend(one.entries(names));
        }
    }
    // Calls overlap; each entry stands where it began.
    sort_by_key(&mut entries, |entry| entry.at);
    folded(entries)
}

impl Call {
    /// A look after all volumes is one call to its log, and a story of each volume.
    fn by_volume(self) -> Vec<Self> {
        let is_of_one = !self.lines.iter().all(|line| line.is_verb) || self.object().is_some();
        let mut volumes: Vec<String> = Vec::new();
        for line in &self.lines {
            let volume = line.field("volume");
            if !volume.is_empty() && !volumes.iter().any(|known| known == volume) {
                volumes.push(volume.to_owned());
            }
        }
        if is_of_one || volumes.len() < 2 {
            return vec![self];
        }
        let of = |volume: &String| {
            let lines = self.lines.iter().filter(|line| line.field("volume") == volume);
            Self { lines: lines.cloned().collect() }
        };
        volumes.iter().map(of).collect()
    }

    fn entries(&self, names: &Names) -> Vec<Entry> {
        let Some(first) = self.lines.first() else { return Vec::new() };
        if first.id.is_empty() {
            return Vec::new();
        }
        let about = self.first_of(&["volume"]).or_else(|| self.object());
        let id = about.as_ref().map(|about| names.id_of(about));
        let name = self.first_of(&["name"]).or_else(|| {
            let id = id.as_ref()?;
            if names.knows(id) { names.name_of(id) } else { None }
        });
        let by = match self.first_of(&["who"]) {
            Some(person) => Some(person),
            None => self.first_of(&["parent"]),
        };
        let entry = Entry {
            volume: id,
            name,
            by,
            is_persons: first.is_verb,
            pod: self.first_of(&["pod"]).map(|uid| names.pods.get(&uid).cloned().unwrap_or(uid)),
            node: self.first_of(&["node"]),
            disk: self.last_of("disk"),
            call: first.id.clone(),
            ..Entry::new(first.at, &first.op, String::new())
        };
        let on_its_way = self.lines.iter().flat_map(|line| self.on_its_way(line, &entry));
        std::iter::once(self.ended(entry.clone())).chain(on_its_way).collect()
    }

    fn ended(&self, mut entry: Entry) -> Entry {
        let ends = [LogEvent::CallDone, LogEvent::CallFailed, LogEvent::DiskAwaited].map(Some);
        let end = self.lines.iter().find(|line| ends.contains(&line.event));
        entry.event = end.and_then(|end| end.event);
        entry.took_ms = end.map(|end| {
            end.number("duration_ms").unwrap_or_else(|| end.at.saturating_sub(entry.at))
        });
        let is_plan = self.first_of(&["dry_run"]).is_some();
        (entry.ending, entry.text) = match (end, entry.event) {
            (Some(_), Some(LogEvent::CallDone)) if is_plan => {
                (Ending::Asked, format!("asked{} what would be done", entry.by_whom()))
            }
            (Some(end), Some(LogEvent::CallDone)) => {
                let is_already = end.field("outcome") == "Already";
                let text = if let Some(line) = self.line_of(LogEvent::FolderReleased) {
                    entry.event = line.event;
                    format!("let go of {}'s folder: the pod keeps the volume", line.field("whose"))
                } else {
                    let formatted = self.line_of(LogEvent::FormatStarted);
                    success(&entry, is_already, formatted.map(|line| line.field("kind")))
                };
                (if is_already { Ending::Already } else { Ending::Done }, text)
            }
            (Some(_), Some(LogEvent::DiskAwaited)) => {
                let text = "its disk is gone, and none is here: its mounts wait for it";
                (Ending::Event, text.to_owned())
            }
            (Some(end), _) => {
                entry.kind = Some(end.field("kind").to_owned()).filter(|kind| !kind.is_empty());
                let is_refused = entry.kind.as_deref() == Some("guarded");
                let refusal = self.line_of(LogEvent::Refused).filter(|_| is_refused);
                let reason = match refusal.unwrap_or(end).field("reason") {
                    "" => "the driver failed inside",
                    reason => reason,
                };
                if is_refused {
                    entry.event = Some(LogEvent::Refused);
                }
                (if is_refused { Ending::Refused } else { Ending::Failed }, reason.to_owned())
            }
            // The timer's look where heal.mode is report: the plan is all that it writes.
            (None, _) if entry.is_persons && self.line_of(LogEvent::WouldHeal).is_some() => {
                entry.event = Some(LogEvent::WouldHeal);
                (Ending::Asked, "looked what would be healed".to_owned())
            }
            (None, _) => (Ending::Open, "its end is not in the log".to_owned()),
        };
        entry
    }

    /// What happened on the way, if it is worth an entry of its own.
    fn on_its_way(&self, line: &LogLine, of: &Entry) -> Vec<Entry> {
        let entry = |at, op: &str, ending, text| {
            let (written, op) = (timestamp::text(at), op.to_owned());
            Entry { at, written, op, ending, text, event: line.event, ..of.clone() }
        };
        let number = |name| usize::try_from(line.number(name).unwrap_or_default());
        let counted = |name, one, more| several(number(name).unwrap_or(usize::MAX), one, more);
        let one = match line.event {
            // Each with its own moment.
            Some(LogEvent::KernelMessage) => {
                let told: Vec<String> =
                    serde_json::from_str(line.field("told")).unwrap_or_default();
                let row = |said: &String| {
                    let (at, text) = said.split_once(' ')?;
                    let row = entry(timestamp::parse(at)?, KERNEL, Ending::Event, text.to_owned());
                    Some(Entry { by: None, ..row })
                };
                return told.iter().filter_map(row).collect();
            }
            Some(LogEvent::Healed) => {
                let begun = self.line_of(LogEvent::HealStarted);
                let dead =
                    begun.map(|begun| format!(" from {}, which is gone,", begun.field("dead")));
                let pods = match line.field("pods") {
                    "" => String::new(),
                    pods => format!(", for {pods}"),
                };
                let left = match line.field("left") {
                    "" | "[]" => String::new(),
                    left => format!("; left: {left}"),
                };
                let text = format!(
                    "{} in {} put{} onto {}{pods}{left}",
                    counted("switched", "mount", "mounts"),
                    counted("places", "namespace", "namespaces"),
                    dead.unwrap_or_default(),
                    of.disk.as_deref().unwrap_or("the disk that is there now"),
                );
                let took_ms = begun.map(|begun| line.at.saturating_sub(begun.at));
                Entry { took_ms, ..entry(line.at, "healing", Ending::Done, text) }
            }
            Some(LogEvent::NotHealed) => {
                let why = [line.field("error"), line.field("left")].join("");
                entry(line.at, "healing", Ending::Failed, why)
            }
            Some(LogEvent::RefusalEnded) => {
                let times = line.number("count").map(|count| format!(" after {count} times"));
                let span = line.number("seconds");
                let span = span.map(|s| format!(" in {}", timestamp::duration(s * 1000)));
                let text = format!(
                    "{} is no longer refused{}{}",
                    line.field("what"),
                    times.unwrap_or_default(),
                    span.unwrap_or_default()
                );
                entry(line.at, "guard", Ending::Event, text)
            }
            None | Some(LogEvent::WouldHeal) if matches!(line.level.as_str(), "WARN" | "ERROR") => {
                let facts = line.fields.iter();
                let facts = facts.filter(|(name, _)| !matches!(name.as_str(), "volume" | "call"));
                let facts: Vec<_> = facts.map(|(name, value)| format!("{name} {value}")).collect();
                let facts = match &facts[..] {
                    [] => String::new(),
                    facts => format!(" ({})", facts.join(", ")),
                };
                entry(line.at, "note", Ending::Event, format!("{}{facts}", line.message))
            }
            _ => return Vec::new(),
        };
        vec![one]
    }

    fn line_of(&self, event: LogEvent) -> Option<&LogLine> {
        self.lines.iter().find(|line| line.event == Some(event))
    }

    /// The volume as the call named it.
    fn object(&self) -> Option<String> {
        self.first_of(&["object"])?.strip_prefix("volume ").map(str::to_owned)
    }

    fn first_of(&self, names: &[&str]) -> Option<String> {
        let found = self.lines.iter().flat_map(|line| names.iter().map(|name| line.field(name)));
        found.filter(|text| !text.is_empty()).map(str::to_owned).next()
    }

    fn last_of(&self, name: &str) -> Option<String> {
        let mut found = self.lines.iter().rev().map(|line| line.field(name));
        found.find(|text| !text.is_empty()).map(str::to_owned)
    }
}

fn success(entry: &Entry, is_already: bool, formatted: Option<&str>) -> String {
    let disk = entry.disk.as_deref().unwrap_or("the disk");
    let for_pod = entry.pod.as_ref().map(|pod| format!(" for {pod}")).unwrap_or_default();
    let node = entry.node.as_deref().map(|node| format!(" {node}"));
    let (done, already) = match entry.op.as_str() {
        "attach" => (
            format!("attached{}", node.map(|node| format!(" to{node}")).unwrap_or_default()),
            "was attached already".to_owned(),
        ),
        "detach" => (
            format!("detached{}", node.map(|node| format!(" from{node}")).unwrap_or_default()),
            "was not attached".to_owned(),
        ),
        "waitforattach" => (format!("the disk is {disk}"), format!("the disk is {disk}")),
        "isattached" => ("asked".to_owned(), "asked".to_owned()),
        "mountdevice" => match formatted {
            Some(kind) => (format!("formatted {disk} as {kind} and mounted it"), String::new()),
            None => (format!("mounted {disk}"), format!("{disk} was mounted already")),
        },
        "mount" => (format!("mounted{for_pod}"), format!("was mounted already{for_pod}")),
        "unmount" => (format!("unmounted{for_pod}"), format!("was not mounted{for_pod}")),
        "unmountdevice" => ("unmounted".to_owned(), "was not mounted".to_owned()),
        "expandfs" => ("grown".to_owned(), "was large enough".to_owned()),
        _ => {
            let by = entry.by_whom();
            (format!("done{by}"), format!("nothing to do{by}"))
        }
    };
    if is_already { already } else { done }
}

/// Entries that say the same as the last one of their kind are counted with it, until something
/// was done with the volume.
fn folded(entries: Vec<Entry>) -> Vec<Entry> {
    type Key = (Option<String>, String, Option<String>);
    let mut told: Vec<Entry> = Vec::new();
    let mut last: BTreeMap<Key, usize> = BTreeMap::new();
    for entry in entries {
        let key = (entry.volume.clone(), entry.op.clone(), entry.pod.clone());
        if let Some(&place) = last.get(&key) {
            let before = &mut told[place];
            // A refusal that is repeated is not written out each time.
            let is_same = match (before.ending, entry.ending) {
                (Ending::Refused, Ending::Open) => true,
                // So is a failure of the look of each minute.
                (Ending::Failed, Ending::Open) => entry.op == "heal",
                (Ending::Refused, Ending::Refused) => {
                    without_processes(&before.text) == without_processes(&entry.text)
                }
                (one, other) => one == other && before.text == entry.text,
            };
            if is_same {
                before.count += 1;
                before.until = Some(entry.at);
                continue;
            }
        }
        if entry.ending == Ending::Done {
            last.retain(|key, _| key.0 != entry.volume);
        } else {
            last.insert(key, told.len());
        }
        told.push(entry);
    }
    told
}

/// A reason without its processes, `21711 (sleep)`: a shell's child is another one with each look.
fn without_processes(reason: &str) -> String {
    let is_process = |word: &str, next: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) && next.starts_with('(')
    };
    let words: Vec<&str> = reason.split(' ').collect();
    let mut kept = Vec::new();
    let brackets = |word: &str| {
        word.matches('(').count().cast_signed() - word.matches(')').count().cast_signed()
    };
    let (mut is_name, mut open) = (false, 0);
    for (place, word) in words.iter().enumerate() {
        if is_name {
            open += brackets(word);
            is_name = open > 0;
        } else if is_process(word, words.get(place + 1).copied().unwrap_or_default()) {
            (is_name, open) = (true, 0);
        } else {
            kept.push(*word);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
