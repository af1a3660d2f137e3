//! A driver is asked before it is one: kubelet calls whatever it finds.

use super::console::{NodeResult, Stop};
use super::durable;
use super::site::Site;
use crate::host::tool::{self, ProgramOutput};
use crate::model::error::Result;
use crate::model::hexadecimal::digits_of;
use crate::ports::clock::Deadline;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// How long a driver may take for an answer that is a constant.
const PATIENCE: Duration = Duration::from_secs(20);

/// The driver's own answer. The tests tell when it is another one there.
const ANSWER_TO_INIT: &str = r#"{"status":"Success","capabilities":{"attach":true,"selinuxRelabel":true,"supportsMetrics":true,"fsGroup":true,"requiresFSResize":true}}"#;

/// How a program of this machine begins.
const MAGIC: &[u8] = b"\x7fELF";

/// So much of it has word size, byte order and processor.
const HEADER: usize = 20;

/// The driver's answer to words. It reads no configuration of this machine.
pub(super) fn ask(driver: &Path, words: &[&str]) -> Result<ProgramOutput> {
    let nothing = [("INCLOUD_DISK_CONFIG", "/dev/null".to_owned())];
    tool::launch(driver, words, &nothing, Deadline::after(PATIENCE))
}

/// Its version; nothing of one that does not tell. Of a script it is not asked: what that does with a word
/// that it does not know is its own.
pub(super) fn version(driver: &Path) -> String {
    if !first_bytes(driver).starts_with(MAGIC) {
        return String::new();
    }
    let answer = ask(driver, &["--version"]).map(|answer| answer.text);
    answer.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Whether it is a script.
pub(super) fn is_script(driver: &Path) -> bool {
    first_bytes(driver).starts_with(b"#!")
}

/// Whether it is a version of this driver: another maker's program may have its name, and a version.
pub(super) fn is_ours(driver: &Path) -> bool {
    const HELP: &str = "FlexVolume driver for cloud block disks";
    let says = |words: &[&str]| ask(driver, words).map(|answer| answer.text).unwrap_or_default();
    is_version(&version(driver))
        && (says(&["init"]).trim_end() == ANSWER_TO_INIT || says(&["--help"]).contains(HELP))
}

/// Whether all volumes can be healed by it: not by what was there before this driver, which would take
/// the word for anything.
pub(super) fn has_heal(driver: &Path) -> bool {
    has_option(driver, "heal", "--device")
}

/// Whether it knows volumes that are mounted through maps of device mapper: one that does not would take their
/// mounts for another disk's, and mount the disk beside its map.
pub(super) fn knows_maps(driver: &Path) -> bool {
    has_option(driver, "release", "--waits")
}

/// Whether the help of a verb tells of an option. A script is not asked.
fn has_option(driver: &Path, verb: &str, option: &str) -> bool {
    let tells = || ask(driver, &[verb, "--help"]).is_ok_and(|help| help.text.contains(option));
    first_bytes(driver).starts_with(MAGIC) && tells()
}

/// Refuses what is no driver. The predecessor of this one (`is_before`) may be a script, or answer in
/// other words.
pub(super) fn must_be_driver(site: &Site, file: &Path, is_before: bool) -> NodeResult {
    match what_is_wrong(site, file, is_before) {
        None => Ok(()),
        Some(why) => Err(Stop::new(format!("refused, nothing was changed: this driver {why}"))),
    }
}

fn what_is_wrong(site: &Site, file: &Path, is_before: bool) -> Option<String> {
    let head = first_bytes(file);
    if is_before && head.starts_with(b"#!") {
        return asked(file, "init", is_success);
    }
    if !head.starts_with(MAGIC) {
        let begin = digits_of(&head[..head.len().min(4)]);
        let begin = if begin.is_empty() { "not there" } else { &begin };
        return Some(format!("is no program (its first bytes are {begin})"));
    }
    // The kernel might have an interpreter for it here, and not on another day.
    if kind_of_machine(&head) != kind_of_machine(&own_header(site)) {
        return Some("is for another kind of processor".to_owned());
    }
    if is_before {
        return asked(file, "init", is_success);
    }
    asked(file, "init", |answer| answer == ANSWER_TO_INIT)
        .or_else(|| asked(file, "--version", |answer| is_version(answer) && !answer.contains('\n')))
}

/// What kubelet takes for a yes: one JSON value, on as many lines as it likes.
fn is_success(answer: &str) -> bool {
    let status = |value: serde_json::Value| value["status"].as_str() == Some("Success");
    serde_json::from_str(answer).is_ok_and(status)
}

/// `disk 1.2`, whatever follows.
fn is_version(answer: &str) -> bool {
    let number = answer.strip_prefix("disk ").and_then(|rest| rest.split_once('.'));
    number.is_some_and(|(one, other)| {
        one.starts_with(|c: char| c.is_ascii_digit())
            && other.contains(|c: char| c.is_ascii_digit())
    })
}

/// Both streams are one, as they are for kubelet.
fn asked(file: &Path, word: &str, is_right: impl Fn(&str) -> bool) -> Option<String> {
    let answer = match ask(file, &[word]) {
        Ok(answer) => answer,
        Err(error) => return Some(format!("failed at {word}: {}", error.cause)),
    };
    let text = answer.text.trim_end_matches('\n');
    if answer.status != Some(0) {
        return Some(format!("failed at {word}: {}", printable(text)));
    }
    (!is_right(text)).then(|| format!("answered {word} with: {}", printable(text)))
}

/// So much of an answer is shown.
const SHOWN: usize = 300;

fn printable(text: &str) -> String {
    text.chars().take(SHOWN).filter(|c| *c == ' ' || c.is_ascii_graphic()).collect()
}

fn first_bytes(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = durable::open(file) {
        let _ = file.take(HEADER as u64).read_to_end(&mut bytes);
    }
    bytes
}

/// The first bytes of this program, which may have no path in another root.
fn own_header(site: &Site) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let _ = site.own.file.read_at(&mut bytes, 0);
    bytes
}

/// Word size and byte order, and the processor.
fn kind_of_machine(head: &[u8]) -> Option<(&[u8], &[u8])> {
    head.get(4..6).zip(head.get(18..20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_other_words() {
        for text in ["disk 0.1.0", "disk 12.3 (abc)"] {
            assert!(is_version(text), "{text}");
        }
        for text in ["disk", "disk x.1", "disk 1", "--version", "disk 1.x"] {
            assert!(!is_version(text), "{text}");
        }
        assert_eq!(printable("a\u{1b}b\nc"), "abc");
    }
}
