//! What became of a volume, told from the log's lines: one entry for each call, with what happened
//! on its way; a call that says the same again is counted with the first.

use crate::model::report::log_line::LogLine;
use crate::model::sorting::sort_by_key;
use crate::model::text::several;
use crate::model::timestamp::{self, Millis};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The row of something that the kernel said.
pub const KERNEL: &str = "kernel";

/// The message of the line in which a look keeps that.
pub const SAID: &str = "what the kernel said of the disk";

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
}

impl Entry {
    /// Something that happened, of which no more is known.
    pub(super) fn new(at: Millis, op: &str, text: String) -> Self {
        let (written, op) = (timestamp::text(at), op.to_owned());
        Self { at, written, count: 1, op, text, ..Self::default() }
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
    #[must_use]
    pub fn pods(&self) -> BTreeMap<String, String> {
        self.pods.clone().into_iter().collect()
    }

    fn learn_pod(&mut self, uid: &str, name: &str) {
        if !uid.is_empty() && !name.is_empty() {
            self.pods.insert(uid.to_owned(), name.to_owned());
        }
    }

    /// The id behind a name, or the text itself.
    #[must_use]
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
#[must_use]
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
        let mut all: Vec<Entry> =
            self.lines.iter().filter_map(|line| event(line, &entry, &self.lines)).collect();
        all.extend(self.lines.iter().flat_map(|line| kept_of_the_kernel(line, &entry)));
        all.insert(0, self.ended(entry));
        all
    }

    fn ended(&self, entry: Entry) -> Entry {
        let refusal = self.lines.iter().find(|line| line.message == "refused");
        let ended = self
            .lines
            .iter()
            .find(|line| line.message == "end" || line.message.starts_with("end: "));
        let took_ms = ended.and_then(|end| {
            end.number("duration_ms").or_else(|| Some(end.at.saturating_sub(entry.at)))
        });
        let entry = Entry { took_ms, ..entry };
        let is_plan = self.first_of(&["dry_run"]).is_some();
        match ended {
            Some(end) if is_plan && end.level == "INFO" => {
                let by = entry.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
                let text = format!("asked{by} what would be done");
                Entry { ending: Ending::Asked, text, ..entry }
            }
            Some(end) if end.field("outcome") == "Waits" => {
                let text = "its disk is gone, and none is here: its mounts wait for it".to_owned();
                Entry { ending: Ending::Event, text, ..entry }
            }
            Some(end)
                if end.message == "end: Success"
                    || (end.message == "end" && end.level == "INFO") =>
            {
                let is_already = end.field("outcome") == "Already";
                let ending = if is_already { Ending::Already } else { Ending::Done };
                let formatted =
                    self.lines.iter().find(|line| line.message == "formatting a blank disk");
                let let_go = self.lines.iter().find(|line| line.message == LET_GO);
                let text = match let_go {
                    Some(line) => {
                        format!(
                            "{LETS_GO}{}'s folder: the pod keeps the volume",
                            line.field("whose")
                        )
                    }
                    None => success(&entry, is_already, formatted.map(|line| line.field("kind"))),
                };
                Entry { ending, text, ..entry }
            }
            Some(end) => {
                let kind = Some(end.field("kind")).filter(|kind| !kind.is_empty());
                let is_refused = kind == Some("guarded");
                let reason = match refusal {
                    Some(refusal) if is_refused => refusal.field("reason"),
                    _ if end.message == "end: panicked" => "the driver failed inside",
                    _ => end.field("reason"),
                };
                Entry {
                    ending: if is_refused { Ending::Refused } else { Ending::Failed },
                    kind: kind.map(str::to_owned),
                    text: reason.to_owned(),
                    ..entry
                }
            }
            // The timer's look where heal.mode is report: the plan is all that it writes.
            None if entry.is_persons && self.has_a_plan() => {
                let text = "looked what would be healed".to_owned();
                Entry { ending: Ending::Asked, text, ..entry }
            }
            None => {
                let text = "its end is not in the log".to_owned();
                Entry { ending: Ending::Open, text, ..entry }
            }
        }
    }

    fn has_a_plan(&self) -> bool {
        self.lines.iter().any(|line| line.message.starts_with("would be healed"))
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

/// What an unmount says that took the folder from kubelet, and nothing from the pod.
const LET_GO: &str = "let go of the folder: the pod keeps the volume";

/// How the entry of such an unmount begins.
const LETS_GO: &str = "let go of ";

/// Whether the pod keeps the volume behind an unmount that was done.
pub(super) fn lets_go(entry: &Entry) -> bool {
    entry.op == "unmount" && entry.text.starts_with(LETS_GO)
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
            let by = entry.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            (format!("done{by}"), format!("nothing to do{by}"))
        }
    };
    if is_already { already } else { done }
}

/// What the kernel said, as an earlier look kept it: each with its own moment.
fn kept_of_the_kernel(line: &LogLine, of: &Entry) -> Vec<Entry> {
    if line.message != SAID {
        return Vec::new();
    }
    let told: Vec<String> = serde_json::from_str(line.field("told")).unwrap_or_default();
    let row = |said: &String| {
        let (at, text) = said.split_once(' ')?;
        Some(Entry {
            at: timestamp::parse(at)?,
            written: at.to_owned(),
            op: KERNEL.to_owned(),
            ending: Ending::Event,
            text: text.to_owned(),
            took_ms: None,
            kind: None,
            by: None,
            ..of.clone()
        })
    };
    told.iter().filter_map(row).collect()
}

/// What happened on the way, if it is worth an entry of its own.
fn event(line: &LogLine, of: &Entry, lines: &[LogLine]) -> Option<Entry> {
    let entry = |op: &str, ending: Ending, text: String| Entry {
        at: line.at,
        written: timestamp::text(line.at),
        op: op.to_owned(),
        ending,
        text,
        took_ms: None,
        kind: None,
        ..of.clone()
    };
    let is_quiet = |message: &str| {
        message == "begin"
            || message == "refused"
            || message == LET_GO
            || message == SAID
            || message.starts_with("end")
            || message.starts_with("healing: ")
    };
    match line.message.as_str() {
        "healed" => {
            let begun = lines.iter().find(|line| line.message.starts_with("healing: "));
            let switched = lines.iter().filter(|line| line.message == "heal");
            let switched = switched.filter(|line| {
                matches!(line.field("outcome"), "Switched" | "DetachedOnly" | "Stacked")
            });
            let places = usize::try_from(line.number("places").unwrap_or_default());
            let places = several(places.unwrap_or_default(), "namespace", "namespaces");
            let dead = begun.map(|begun| begun.field("dead"));
            let dead = dead.map(|dead| format!(" from {dead}, which is gone,")).unwrap_or_default();
            let pods = match line.field("pods") {
                "" => String::new(),
                pods => format!(", for {pods}"),
            };
            let left = match line.field("left") {
                "" | "[]" => String::new(),
                left => format!("; left: {left}"),
            };
            let text = format!(
                "{} in {places} put{dead} onto {}{pods}{left}",
                several(switched.count(), "mount", "mounts"),
                of.disk.as_deref().unwrap_or("the disk that is there now"),
            );
            let took = begun.map(|begun| line.at.saturating_sub(begun.at));
            Some(Entry { took_ms: took, ..entry("healing", Ending::Done, text) })
        }
        "not healed" => {
            let why = [line.field("error"), line.field("left")].join("");
            Some(entry("healing", Ending::Failed, why))
        }
        "no longer refused" => {
            let times = line.number("count").map(|count| format!(" after {count} times"));
            let span =
                line.number("seconds").map(|s| format!(" in {}", timestamp::duration(s * 1000)));
            let text = format!(
                "{} is no longer refused{}{}",
                line.field("what"),
                times.unwrap_or_default(),
                span.unwrap_or_default()
            );
            Some(entry("guard", Ending::Event, text))
        }
        message if matches!(line.level.as_str(), "WARN" | "ERROR") && !is_quiet(message) => {
            let facts: Vec<String> = line
                .fields
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "volume" | "call"))
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            let facts =
                if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
            Some(entry("note", Ending::Event, format!("{message}{facts}")))
        }
        _ => None,
    }
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
