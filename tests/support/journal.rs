//! The driver's log as tests look for words in it.

use serde_json::{Map, Value};

/// Each line of the log in words: `TIME  LEVEL call{id="x" op="y"}: message fact=value`. A line that
/// is no JSON object fails the test.
#[track_caller]
pub fn in_words(log: &str) -> String {
    log.lines().map(|line| words_of(line) + "\n").collect()
}

#[track_caller]
fn words_of(line: &str) -> String {
    let read = |error| panic!("not a line of JSON: {error}: {line}");
    let value: Map<String, Value> = serde_json::from_str(line).unwrap_or_else(read);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let of = |name: &str| value.get(name).map(&text).unwrap_or_default();
    let span = value.get("span").map_or_else(String::new, |span| {
        let [name, id, op] = ["name", "id", "op"].map(|part| text(&span[part]));
        format!("{name}{{id={id:?} op={op:?}}}: ")
    });
    let fields = value["fields"].as_object().expect("an object of fields");
    let facts = fields.iter().filter(|(name, _)| *name != "message").map(|(name, value)| {
        let value = text(value);
        let is_last = name == "reason" || name == "error";
        if value.contains(' ') && !is_last {
            format!(" {name}={value:?}")
        } else {
            format!(" {name}={value}")
        }
    });
    // What may hold anything comes last.
    let (last, facts): (Vec<_>, Vec<_>) =
        facts.partition(|fact| fact.starts_with(" reason=") || fact.starts_with(" error="));
    let message = text(&fields["message"]);
    format!(
        "{} {:>5} {span}{message}{}{}",
        of("timestamp"),
        of("level"),
        facts.concat(),
        last.concat()
    )
}
