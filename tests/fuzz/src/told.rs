//! What is shown to people, and what is read back of it.

use crate::text_of;
use incloud_disk::model::report::log_line;
use incloud_disk::model::report::redaction::{Redaction, names_a_secret, secrets_in, values_in};
use incloud_disk::model::text::{is_hidden, shortened, visible};
use incloud_disk::model::timestamp;

pub fn log(bytes: &[u8]) {
    let text = text_of(bytes);
    for line in text.lines() {
        let _ = (log_line::parse(line), log_line::call_id(line));
    }
    if let Some(at) = timestamp::parse(text) {
        assert!(at < 253_402_300_800_000 + 60_000, "behind the year 9999: {at}");
    }
}

pub fn redaction(bytes: &[u8]) {
    let text = text_of(bytes);
    let (secret, text) = text.split_once('\n').unwrap_or(("", text));
    let _ = (names_a_secret(secret), values_in(text));
    let known = Redaction::of([secret.to_owned()].into_iter().chain(secrets_in(text)));
    let told = known.redacted(text);
    // What is shorter may be a part of any word.
    let is_word = secret.len() >= 12 && secret.chars().all(|sign| sign.is_ascii_alphanumeric());
    let is_mark = "(redacted)".contains(secret) || secret.contains("redacted");
    if is_word && !is_mark {
        assert!(!told.contains(secret), "{told}");
    }
}

pub fn text(bytes: &[u8]) {
    let text = text_of(bytes);
    let shown = visible(text);
    assert!(!shown.chars().any(is_hidden), "{shown:?}");
    for most in [3, 16, 100, 1000] {
        assert!(shortened(text, most).len() <= most.max(5), "{most}");
    }
}
