//! Compares an answer with a recorded one: all values, but for ids, times and addresses that cannot
//! be the same.

use crate::client::Answer;
use regex_lite::{Captures, Regex};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

static IDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!("{UUID}|[0-9a-f]{{56}}|[0-9a-f]{{32}}")).expect("a pattern")
});
static TIMES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z?").expect("a pattern"));
static AUDIT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[A-Za-z0-9_-]{22}$").expect("a pattern"));

/// The ports of the recorded services, and the same services' paths at our one port.
const SERVICES: [(&str, &str); 4] =
    [(":5001", "/identity"), (":5000", "/identity"), (":8774", "/compute"), (":8776", "/volume")];

/// Where a recorded target is at our server.
pub(super) fn our_target(target: &str) -> String {
    let (port, path) = SERVICES
        .iter()
        .find_map(|(port, path)| target.strip_prefix(port).map(|rest| (path, rest)))
        .expect("a known port");
    format!("{port}{path}")
}

/// Makes texts comparable.
#[derive(Debug)]
pub(super) struct Mask {
    /// Our server's address.
    pub(super) base: String,
    /// Ids that both sides have; all others are only compared by their form.
    pub(super) known: BTreeSet<String>,
}

impl Mask {
    /// A recorded or our text with what must differ replaced by its form.
    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (port, path) in SERVICES {
            text = text.replace(&format!("http://127.0.0.1{port}"), &format!("{{cloud}}{path}"));
        }
        // In our catalog the interface is part of the address.
        for interface in ["/internal", "/admin", ""] {
            text = text.replace(&format!("{}{interface}/", self.base), "{cloud}/");
        }
        let times = |found: &Captures<'_>| found[0].replace(|c: char| c.is_ascii_digit(), "0");
        let text = TIMES.replace_all(&text, times);
        let ids = |found: &Captures<'_>| {
            let id = &found[0];
            match id.len() {
                _ if self.known.contains(id) => id.to_owned(),
                36 => "{uuid}".to_owned(),
                _ => "{hex}".to_owned(),
            }
        };
        let text = IDS.replace_all(&text, ids);
        if AUDIT.is_match(&text) { "{audit}".to_owned() } else { text.into_owned() }
    }

    /// A body with masked texts, and in one order where the services have none.
    pub(super) fn body(&self, body: &Value) -> Value {
        match body {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(all) => all.iter().map(|one| self.body(one)).collect(),
            Value::Object(members) => {
                let masked = members.iter().map(|(name, value)| {
                    let mut value = self.body(value);
                    let by = match name.as_str() {
                        "endpoints" => "interface",
                        "roles" => "name",
                        _ => "",
                    };
                    if let (Value::Array(all), true) = (&mut value, !by.is_empty()) {
                        all.sort_by_key(|one| one[by].to_string());
                    }
                    (name.clone(), value)
                });
                Value::Object(masked.collect())
            }
            other => other.clone(),
        }
    }

    /// What is different about the headers: those of the transcript must be there and no others,
    /// but for the ones that the transcript leaves out everywhere.
    pub(super) fn headers(&self, recorded: &[(String, String)], answer: &Answer) -> Vec<String> {
        const EVERYWHERE: [&str; 5] = [
            "vary",
            "x-openstack-request-id",
            "x-compute-request-id",
            "x-openstack-nova-api-version",
            "content-length",
        ];
        let mut differences = Vec::new();
        for (name, value) in recorded {
            let ours = answer.header(name);
            let same = match name.as_str() {
                // The recorder has cut it and noted its length.
                "X-Subject-Token" => ours.is_some_and(|ours| {
                    value.starts_with(&ours[..7])
                        && value.contains(&format!("({} chars)", ours.len()))
                }),
                _ => ours.is_some_and(|ours| self.text(ours) == self.text(value)),
            };
            if !same {
                differences.push(format!("header {name}: recorded {value:?}, ours {ours:?}"));
            }
        }
        for (name, value) in &answer.headers {
            let lower = name.to_ascii_lowercase();
            let known = recorded.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
            if !known && !EVERYWHERE.contains(&lower.as_str()) {
                differences.push(format!("header {name}: {value:?} is not recorded"));
            }
        }
        differences
    }
}

/// Where two masked bodies differ, by path.
pub(super) fn differences(path: &str, recorded: &Value, ours: &Value, found: &mut Vec<String>) {
    match (recorded, ours) {
        (Value::Object(recorded), Value::Object(ours)) => {
            let names: BTreeSet<&String> = recorded.keys().chain(ours.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (recorded.get(name), ours.get(name)) {
                    (Some(recorded), Some(ours)) => differences(&path, recorded, ours, found),
                    (Some(value), None) => found.push(format!("{path}: only recorded: {value}")),
                    (None, Some(value)) => found.push(format!("{path}: only ours: {value}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(recorded), Value::Array(ours)) if recorded.len() == ours.len() => {
            for (at, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
                differences(&format!("{path}[{at}]"), recorded, ours, found);
            }
        }
        (recorded, ours) if recorded == ours => {}
        (recorded, ours) => found.push(format!("{path}: recorded {recorded}, ours {ours}")),
    }
}

/// The names of members in a text that is JSON but for its lost end, and those of a whole body.
pub(super) fn names_in(text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(r#""([^"]*)":"#).expect("a pattern");
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// What is alike and what is not: a comparison that finds nothing proves nothing.
#[test]
fn the_comparison_bites() {
    const OURS: &str = "11111111-1111-4111-8111-111111111111";
    const OTHER: &str = "22222222-2222-4222-8222-222222222222";
    let mask =
        Mask { base: "http://127.0.0.1:4711".to_owned(), known: BTreeSet::from([OURS.to_owned()]) };
    let alike = |recorded: Value, ours: Value| {
        let mut found = Vec::new();
        differences("", &mask.body(&recorded), &mask.body(&ours), &mut found);
        found.is_empty()
    };
    let request = |id: &str| json!({"message": format!("no (Request-ID: req-{id})")});
    assert!(alike(request(OTHER), request("33333333-3333-4333-8333-333333333333")));
    assert!(alike(json!("2026-11-21T01:50:14.000000"), json!("2027-01-01T00:00:00.000000")));
    assert!(alike(
        json!("http://127.0.0.1:8774/v2.1/"),
        json!("http://127.0.0.1:4711/compute/v2.1/")
    ));
    for (recorded, ours) in [
        (json!({"a": 1}), json!({"a": 1, "b": 2})),
        (json!({"a": 1, "b": 2}), json!({"a": 1})),
        (json!({"a": 1}), json!({"a": "1"})),
        (json!({"a": null}), json!({"a": ""})),
        (json!([1]), json!([1, 1])),
        (json!("Instance could not be found."), json!("Instance could not be found")),
        (json!(OURS), json!(OTHER)),
        (json!(OTHER), json!("none")),
        (json!("2026-11-21T01:50:14.000000"), json!("2026-11-21T01:50:14Z")),
        (json!("http://127.0.0.1:8774/v2.1/"), json!("http://127.0.0.1:4711/volume/v2.1/")),
    ] {
        assert!(!alike(recorded.clone(), ours.clone()), "{recorded} and {ours}");
    }
}
