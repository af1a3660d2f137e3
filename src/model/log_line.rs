//! One line of our log, read back: time, level, the call it belongs to, the message, and fields.
//!
//! `2026-11-21T03:50:23.5Z  INFO call{id="x" op="attach"}: begin object="volume v" pid=1`: texts are
//! quoted as Rust quotes them, everything else is as it prints itself. What may hold anything comes
//! last on its line.

use super::moment::{self, Millis};
use std::collections::BTreeMap;

/// One line.
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
    /// What is said.
    pub message: String,
    /// With which facts.
    pub fields: BTreeMap<String, String>,
}

impl LogLine {
    /// A field's text; empty if there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A field that is a whole number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.fields.get(name)?.parse().ok()
    }
}

/// The words of these go on to the end of the line.
const LAST: [&str; 2] = ["reason", "error"];

/// Reads a line; nothing if it is not one of ours.
#[must_use]
pub fn parse(line: &str) -> Option<LogLine> {
    let (time, rest) = line.split_once(' ')?;
    let at = moment::parse(time)?;
    let (level, rest) = rest.trim_start().split_once(' ')?;
    if !matches!(level, "ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE") {
        return None;
    }
    let span = ["call{", "verb{"].iter().find_map(|start| rest.strip_prefix(start));
    let is_verb = rest.starts_with("verb{");
    let (span, rest) = match span {
        Some(inner) => {
            let end = end_of_span(inner)?;
            (fields(&inner[..end]), inner[end..].strip_prefix("}: ")?)
        }
        None => (BTreeMap::new(), rest),
    };
    let begin = field_at(rest).unwrap_or(rest.len());
    let text = |name: &str| span.get(name).cloned().unwrap_or_default();
    Some(LogLine {
        at,
        level: level.to_owned(),
        id: text("id"),
        op: text("op"),
        is_verb,
        message: rest[..begin].trim().to_owned(),
        fields: fields(&rest[begin..]),
    })
}

/// The brace that ends the span, outside of quotes.
fn end_of_span(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Where the next `name=` begins.
fn field_at(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let length =
            rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(rest.len());
        if length > 0 && rest[length..].starts_with('=') {
            return Some(at);
        }
        at += rest.find(' ')? + 1;
    }
}

fn fields(mut text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while let Some(begin) = field_at(text) {
        let Some((name, rest)) = text[begin..].split_once('=') else { break };
        let (value, length) = value(name, rest);
        found.insert(name.to_owned(), value);
        text = &rest[length..];
    }
    found
}

/// A value and how much of the text it takes.
fn value(name: &str, text: &str) -> (String, usize) {
    if let Some(inner) = text.strip_prefix('"') {
        let (value, length) = unquoted(inner);
        return (value, length + 1);
    }
    if LAST.contains(&name) {
        return (text.to_owned(), text.len());
    }
    let length = if text.starts_with(['[', '{', '(']) {
        end_of_brackets(text)
    } else {
        // As it prints itself: it may have blanks, and ends before the next name.
        let next =
            text.find(' ').and_then(|blank| field_at(&text[blank + 1..]).map(|at| blank + at));
        next.unwrap_or(text.len())
    };
    (text[..length].to_owned(), length)
}

/// A text after its opening quote, as `{:?}` wrote it, and its length with the closing one.
fn unquoted(text: &str) -> (String, usize) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, at + 1),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, '0')) => value.push('\0'),
                Some((_, 'u')) => {
                    // `\u{1b}`
                    let digits: String = chars
                        .by_ref()
                        .map(|(_, c)| c)
                        .take_while(|c| *c != '}')
                        .filter(char::is_ascii_hexdigit)
                        .collect();
                    value.extend(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32));
                }
                Some((_, other)) => value.push(other),
                None => {}
            },
            other => value.push(other),
        }
    }
    (value, text.len())
}

fn end_of_brackets(text: &str) -> usize {
    let (mut depth, mut is_quoted, mut is_escaped) = (0usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '[' | '{' | '(' if !is_quoted => depth += 1,
            ']' | '}' | ')' if !is_quoted => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + c.len_utf8();
                }
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calls_line_is_taken_apart() {
        let line = r#"2026-11-21T03:50:23.5Z  WARN call{id="m-5" op="unmount"}: refused volume="v1" what="unmount u" reason="pod \"a\" still runs: 4242 (x=y) {" count=10"#;
        let line = parse(line).unwrap();
        assert_eq!((line.id.as_str(), line.op.as_str(), line.is_verb), ("m-5", "unmount", false));
        assert_eq!((line.level.as_str(), line.message.as_str()), ("WARN", "refused"));
        assert_eq!(line.field("reason"), "pod \"a\" still runs: 4242 (x=y) {");
        assert_eq!((line.field("what"), line.number("count")), ("unmount u", Some(10)));
        assert_eq!(line.at % 1000, 500);
    }

    #[test]
    fn what_prints_itself_ends_before_the_next_name() {
        let line = r#"2026-11-21T03:50:23Z  INFO call{id="m" op="attach"}: heal volume=v1 place=42 (sh) at /a b target=/c outcome=Switched notes=["x y=1", "]"]"#;
        let line = parse(line).unwrap();
        assert_eq!(line.field("place"), "42 (sh) at /a b");
        assert_eq!((line.field("target"), line.field("outcome")), ("/c", "Switched"));
        assert_eq!(line.field("notes"), r#"["x y=1", "]"]"#);
        let line = "2026-11-21T03:50:23Z ERROR call{id=\"m\" op=\"attach\"}: end: Failure object=\"volume v\" duration_ms=7 kind=\"busy\" reason=it is so: a=1 b=2";
        let line = parse(line).unwrap();
        assert_eq!(
            (line.message.as_str(), line.field("reason")),
            ("end: Failure", "it is so: a=1 b=2")
        );
        assert_eq!(line.number("duration_ms"), Some(7));
    }

    #[test]
    fn a_verb_and_a_line_of_nobody_are_read() {
        let line = parse("2026-11-21T03:50:23Z  INFO verb{id=\"m\" op=\"detach --force\"}: begin who=\"ann (uid 0)\"").unwrap();
        assert!(line.is_verb && line.op == "detach --force" && line.field("who") == "ann (uid 0)");
        let line = parse("2026-11-21T03:50:23Z  WARN a link lies volume=v1").unwrap();
        assert_eq!((line.id.as_str(), line.message.as_str()), ("", "a link lies"));
        for other in ["", "old", "2026-11-21T03:50:23Z", "x y z", "2026-11-21T03:50:23Z NOTE x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_rust_quotes_comes_back(text in ".{0,60}") {
            let line = format!("2026-11-21T03:50:23Z  INFO call{{id=\"m\" op={text:?}}}: begin object={text:?} pid=1");
            let line = parse(&line).unwrap();
            proptest::prop_assert_eq!(&line.op, &text);
            proptest::prop_assert_eq!(line.field("object"), &text);
            proptest::prop_assert_eq!(line.number("pid"), Some(1));
        }

        #[test]
        fn no_line_makes_the_reader_panic(text in ".{0,200}") {
            let _ = parse(&format!("2026-11-21T03:50:23Z  INFO {text}"));
            let _ = parse(&text);
        }
    }
}
