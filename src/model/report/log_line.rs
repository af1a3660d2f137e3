//! One line of our log, as it is written and as it is read back.
//!
//! ```text
//! {"timestamp":"2026-11-21T03:50:23.5Z","level":"INFO","fields":{"duration_ms":1,"event":"call_done","message":"end"},"span":{"id":"x","op":"attach","name":"call"},"format":2}
//! ```

use crate::report::log_event::LogEvent;
use crate::text::is_hidden;
use crate::timestamp::{self, Millis};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longer lines are cut before they are written, and not read: a tenant's thousand mounts stand in
/// one of them.
pub const LONGEST: usize = 256 << 10;

/// Lines of format 2 name their event; older ones have no format, and only the message's words.
const FORMAT: u32 = 2;

/// What is left of each text of a line that is cut.
const LONGEST_TEXT: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When, in milliseconds since 1970.
    pub at: Millis,
    /// The level's name.
    pub level: String,
    /// The id of the call or verb; empty if none.
    pub id: String,
    /// The word of the call, or a person's verb.
    pub op: String,
    /// Whether a person asked.
    pub is_verb: bool,
    pub message: String,
    pub event: Option<LogEvent>,
    pub fields: BTreeMap<String, String>,
}

impl LogLine {
    /// A field's text; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A field that is a whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.fields.get(name)?.parse().ok()
    }
}

/// The line as it is written. It is one JSON object, with its format: signs that a terminal hides or obeys are
/// written by their numbers, and of a line that is too long each text is cut.
pub fn as_written(line: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(line);
    if line.len() > LONGEST {
        let whole = serde_json::from_slice::<Whole>(line).and_then(|mut whole| {
            cut(&mut whole.fields);
            serde_json::to_string(&whole)
        });
        text = whole.unwrap_or_default().into();
    }
    // The library escapes all that is below a blank; nearly all lines have nothing else.
    if !text.is_ascii() || text.contains('\x7f') {
        text = escaped(&text).into();
    }
    let begin = text.trim_end().strip_suffix('}');
    begin.map(|begin| format!("{begin},\"format\":{FORMAT}}}\n")).unwrap_or_default()
}

/// A line that is written anew, in the library's order.
#[derive(Debug, Deserialize, Serialize)]
struct Whole {
    timestamp: String,
    level: String,
    fields: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<Value>,
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONGEST_TEXT => {
            let end = (0..=LONGEST_TEXT).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or_default());
            text.push('…');
        }
        Value::Object(map) => map.values_mut().for_each(cut),
        Value::Array(all) => all.iter_mut().for_each(cut),
        _ => {}
    }
}

/// JSON without hidden signs: they only stand inside of its texts, where a number is the same.
pub fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for sign in json.chars() {
        if sign == '\n' || !is_hidden(sign) {
            text.push(sign);
        } else {
            let mut units = [0; 2];
            for unit in sign.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// How the library begins each line. Inside of a text its quotes are escaped.
const BEGIN: &str = r#"{"timestamp":""#;

#[derive(Debug, Deserialize)]
struct Written {
    timestamp: String,
    level: String,
    #[serde(deserialize_with = "texts")]
    fields: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "texts")]
    span: BTreeMap<String, String>,
    format: Option<u32>,
}

/// A JSON object whose values are read as text.
fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let text = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let values = BTreeMap::<String, Value>::deserialize(from)?;
    Ok(values.into_iter().map(|(name, value)| (name, text(value))).collect())
}

/// Reads a line; nothing if it is not one of ours. A line that a power cut or a full disk tore has
/// the next one behind it: only the last beginning counts.
pub fn parse(line: &str) -> Option<LogLine> {
    let mut written: Written = serde_json::from_str(&line[line.rfind(BEGIN)?..]).ok()?;
    if !matches!(written.level.as_str(), "ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE") {
        return None;
    }
    let mut of_span = |name: &str| written.span.remove(name).unwrap_or_default();
    let (id, op, is_verb) = (of_span("id"), of_span("op"), of_span("name") == "verb");
    let mut fields = written.fields;
    let message = fields.remove("message").unwrap_or_default();
    let event = match (fields.remove("event"), written.format) {
        (Some(name), _) => LogEvent::named(&name),
        (None, Some(_)) => None,
        (None, None) => LogEvent::of_old(&written.level, &message),
    };
    let at = timestamp::parse(&written.timestamp)?;
    Some(LogLine { at, level: written.level, id, op, is_verb, message, event, fields })
}

/// The call's id, without reading all of the line.
pub fn call_id(line: &str) -> Option<&str> {
    line.rsplit_once(r#""span":{"id":""#)?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(fields: &Value, span: &Value) -> String {
        format!(
            r#"{{"timestamp":"2026-11-21T03:50:23.5Z","level":"WARN","fields":{fields},"span":{span}}}"#
        )
    }

    #[test]
    fn a_calls_line_is_taken_apart() {
        let text = line(
            &json!({"message": "refused", "volume": "v1", "reason": "pod \"a\" runs: {\n", "count": 10, "dry_run": true}),
            &json!({"id": "m-5", "op": "unmount", "name": "call"}),
        );
        assert_eq!(call_id(&text), Some("m-5"));
        let line = parse(&text).unwrap();
        assert_eq!((line.id.as_str(), line.op.as_str(), line.is_verb), ("m-5", "unmount", false));
        assert_eq!((line.level.as_str(), line.message.as_str()), ("WARN", "refused"));
        assert_eq!(line.field("reason"), "pod \"a\" runs: {\n");
        assert_eq!((line.field("volume"), line.number("count")), ("v1", Some(10)));
        assert_eq!((line.field("dry_run"), line.at % 1000), ("true", 500));
    }

    #[test]
    fn a_verb_and_a_line_without_a_call_are_read() {
        let verb = line(
            &json!({"message": "begin"}),
            &json!({"id": "m", "op": "detach --force", "name": "verb"}),
        );
        assert!(parse(&verb).unwrap().is_verb);
        let plain = r#"{"timestamp":"2026-11-21T03:50:23Z","level":"WARN","fields":{"message":"a link lies"}}"#;
        let plain = parse(plain).unwrap();
        assert_eq!((plain.id.as_str(), plain.message.as_str()), ("", "a link lies"));
    }

    #[test]
    fn what_is_no_line_of_ours_is_none() {
        let whole = line(&json!({"message": "begin"}), &json!({"id": "m"}));
        for other in [
            "",
            "old",
            "{}",
            "[]",
            "2026-11-21T03:50:23Z  INFO verb{id=\"m\" op=\"release\"}: begin who=\"alice\"",
            &whole[..whole.len() - 1],
            &whole.replace("WARN", "NOTE"),
            &whole.replace("2026", "x"),
            &format!("{whole}{{"),
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_torn_line_takes_nothing_of_the_next_one() {
        let forged = line(&json!({"message": "forged"}), &json!({"id": "f"}));
        let torn = line(&json!({"message": "x", "reason": forged}), &json!({"id": "m"}));
        let next =
            line(&json!({"message": "next"}), &json!({"id": "n", "op": "mount", "name": "call"}));
        for end in 0..torn.len() {
            if torn.is_char_boundary(end) {
                let found = parse(&format!("{}{next}", &torn[..end])).unwrap();
                assert_eq!((found.message.as_str(), found.id.as_str()), ("next", "n"), "{end}");
                assert_eq!(parse(&torn[..end]), None, "{end}");
            }
        }
        assert_eq!(parse(&torn).unwrap().message, "x");
    }

    #[test]
    fn long_and_hidden_texts_are_written_so_that_they_come_back() {
        let long = line(&json!({"message": "x", "plan": "é".repeat(LONGEST)}), &json!({"id": "m"}));
        let written = as_written(long.as_bytes());
        assert!(written.len() < LONGEST && written.ends_with('\n'), "{}", written.len());
        let found = parse(written.trim_end()).unwrap();
        assert!(found.id == "m" && found.field("plan").starts_with('é'));
        let text = "磁盘 \u{202e}\u{200b}\u{e0041}\u{7f}\u{9b}";
        let hidden = line(&json!({"message": text}), &json!({"id": "m"}));
        let written = as_written(hidden.as_bytes());
        assert!(written.contains("磁盘 \\u202e\\u200b\\udb40\\udc41\\u007f\\u009b"), "{written}");
        assert_eq!(parse(&written).unwrap().message, text);
    }

    #[test]
    fn each_event_is_read_by_its_name_whatever_the_message_says() {
        for event in LogEvent::ALL {
            let written = line(&json!({"message": "healed", "event": event}), &json!({"id": "m"}));
            let read = parse(&as_written(written.as_bytes())).unwrap();
            assert_eq!((read.event, read.field("event")), (Some(event), ""), "{written}");
        }
    }

    #[test]
    fn only_a_line_without_a_format_is_read_by_its_words() {
        let old = line(&json!({"message": "healed"}), &json!({"id": "m"}));
        let unknown =
            line(&json!({"message": "healed", "event": "of_tomorrow"}), &json!({"id": "m"}));
        assert_eq!(parse(&old).unwrap().event, Some(LogEvent::Healed));
        assert_eq!(parse(&as_written(old.as_bytes())).unwrap().event, None);
        assert_eq!(parse(&unknown).unwrap().event, None);
    }

    proptest::proptest! {
        #[test]
        fn what_was_written_comes_back(text in ".{0,60}") {
            let line = line(&json!({"message": text, "object": text}), &json!({"id": "m", "op": text}));
            let written = as_written(line.as_bytes());
            let found = parse(&written).unwrap();
            proptest::prop_assert_eq!(&found.op, &text);
            proptest::prop_assert_eq!(found.field("object"), &text);
            proptest::prop_assert_eq!(call_id(&written), Some("m"));
        }

        #[test]
        fn no_line_makes_the_reader_panic(text in ".{0,200}") {
            let _ = parse(&format!("{BEGIN}{text}"));
            let _ = parse(&text);
            let _ = call_id(&text);
        }
    }
}
