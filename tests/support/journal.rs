//! The driver's log as tests look for words in it.

use super::Node;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt::{self, Write};
use std::fs;

#[derive(Deserialize)]
struct Line {
    timestamp: String,
    level: String,
    fields: Facts,
    span: Option<Value>,
}

/// An object's members in the order in which they are written.
struct Facts(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Facts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Facts, A::Error> {
                let mut facts = Vec::new();
                while let Some(fact) = map.next_entry()? {
                    facts.push(fact);
                }
                Ok(Facts(facts))
            }
        }
        from.deserialize_map(Each)
    }
}

/// Each line of the log in words: `TIME  LEVEL call{id="x" op="y"}: message fact=value`. A line that
/// is no JSON object fails the test.
#[track_caller]
pub fn in_words(log: &str) -> String {
    log.lines().map(|line| words_of(line) + "\n").collect()
}

#[track_caller]
fn words_of(line: &str) -> String {
    let read = |error| panic!("not a line of JSON: {error}: {line}");
    let Line { timestamp, level, fields, span } = serde_json::from_str(line).unwrap_or_else(read);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let span = span.map_or_else(String::new, |span| {
        let [name, id, op] = ["name", "id", "op"].map(|part| text(&span[part]));
        format!("{name}{{id={id:?} op={op:?}}}: ")
    });
    let (mut message, mut facts, mut last) = (String::new(), String::new(), String::new());
    for (name, value) in &fields.0 {
        let value = text(value);
        // What may hold anything comes last.
        let _ = match name.as_str() {
            "message" => message.write_str(&value),
            "reason" | "error" => write!(last, " {name}={value}"),
            _ if value.contains(' ') => write!(facts, " {name}={value:?}"),
            _ => write!(facts, " {name}={value}"),
        };
    }
    format!("{timestamp} {level:>5} {span}{message}{facts}{last}")
}

impl Node {
    /// The history does not depend on the words of messages: it is the same if the log were from the time before its
    /// lines had events, and if its messages were others. Only notes show them.
    #[track_caller]
    pub fn history_needs_no_words(&self) {
        let story = || {
            let text = self.verb(&["history", "--json"]).unwrap();
            let mut entries = serde_json::from_str::<Value>(&text).unwrap()["entries"].take();
            let entries = entries.as_array_mut().unwrap();
            // Other rows come out of no log.
            entries.retain(|entry| entry["call"] != "");
            std::mem::take(entries)
        };
        let without_notes = |mut story: Vec<Value>| {
            for note in story.iter_mut().filter(|one| one["op"] == "note") {
                note["text"].take();
            }
            story
        };
        let log: Vec<_> =
            self.log_files().map(|path| (fs::read_to_string(&path).unwrap(), path)).collect();
        let rewrite = |edit: fn(&mut Value)| {
            for (text, path) in &log {
                let lines = text.lines().map(|line| rewritten(line, edit) + "\n");
                fs::write(path, lines.collect::<String>()).unwrap();
            }
        };
        let told = story();
        rewrite(|line| {
            line["format"].take();
            line["fields"].as_object_mut().unwrap().remove("event");
        });
        assert_eq!(story(), told, "as an older version would have written it");
        rewrite(|line| line["fields"]["message"] = "in other words".into());
        assert_eq!(without_notes(story()), without_notes(told), "in other words");
        for (text, path) in &log {
            fs::write(path, text).unwrap();
        }
    }
}

fn rewritten(line: &str, edit: fn(&mut Value)) -> String {
    let mut parts: Value = serde_json::from_str(line).unwrap();
    edit(&mut parts);
    // The reader knows a line by its first key, and a call by the first one of its span.
    let parts = ["timestamp", "level", "fields", "span", "format"].map(|key| (key, &parts[key]));
    let parts = parts.into_iter().filter(|(_, value)| !value.is_null());
    let parts: Vec<_> = parts.map(|(key, value)| format!("{key:?}:{value}")).collect();
    format!("{{{}}}", parts.join(","))
}
