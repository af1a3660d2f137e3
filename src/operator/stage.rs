//! Where verbs speak: text for people, with colour only where somebody sees it.

use crate::model::error::{Error, Kind, Result};
use crate::model::health::Health;
use std::io::{ErrorKind, Write};

/// Lines are no longer than this.
pub(super) const WIDTH: usize = 100;

/// Where a verb speaks.
#[expect(missing_debug_implementations, reason = "it borrows a stream")]
pub struct Stage<'a> {
    /// The stream.
    pub out: &'a mut dyn Write,
    /// Whether somebody looks.
    pub is_terminal: bool,
    /// Whether something that was said got lost. There is nobody to tell but the exit status.
    pub has_failed: bool,
}

impl Stage<'_> {
    /// Says a text; answers whether somebody listens. Whoever closes the stream early has read
    /// enough.
    pub(super) fn say(&mut self, text: &str) -> bool {
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Ok(()) => true,
            Err(error) => {
                self.has_failed |= error.kind() != ErrorKind::BrokenPipe;
                false
            }
        }
    }

    /// Says a value as JSON.
    pub(super) fn say_json(&mut self, value: &impl serde::Serialize) -> Result<bool> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::new(Kind::Bug, error.to_string()))?;
        Ok(self.say(&(text + "\n")))
    }

    /// The paint for this stream: none where `NO_COLOR` is set (no-color.org), or nobody looks.
    pub(super) fn paint(&self) -> Paint {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Paint { is_on: self.is_terminal && !is_set("NO_COLOR") && !is_dumb }
    }
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) is_on: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(super) fn doubtful(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// A text in the colour of a health.
    pub(super) fn of(self, health: Health, text: &str) -> String {
        match health {
            Health::Ok => self.good(text),
            Health::Guarded | Health::Leaked => self.doubtful(text),
            Health::Stale | Health::Dead | Health::Ambiguous => self.bad(text),
        }
    }
}

/// The text in so many columns at most.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// Lines of a text that fit beside an indent: broken at blanks, and within a word that is longer.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        while let Some(line) = lines.last_mut() {
            let used = line.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + word.len() <= columns {
                line.push_str(if gap > 0 { " " } else { "" });
                line.extend(word);
                break;
            }
            if used == 0 {
                // A path is broken at a slash.
                let fits = columns.max(1).min(word.len());
                let slash = word[..fits].iter().rposition(|c| *c == '/').filter(|at| *at > 0);
                line.extend(word.drain(..slash.unwrap_or(fits)));
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Lines of a text, each after the first under it.
pub(super) fn hanging(first: &str, text: &str, paint: impl Fn(&str) -> String) -> String {
    let indent = first.chars().count();
    let mut told = String::new();
    for (number, line) in wrapped(text, WIDTH.saturating_sub(indent)).iter().enumerate() {
        let begin = if number == 0 { first.to_owned() } else { " ".repeat(indent) };
        told += format!("{begin}{}", paint(line)).trim_end();
        told.push('\n');
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_broken() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(wrapped("aa bb cccccc d", 5), ["aa bb", "ccccc", "c d"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(hanging("x: ", "a b", str::to_owned), "x: a b\n");
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_long_and_no_word_is_lost(text in "[a-z ]{0,300}", columns in 1usize..40) {
            let lines = wrapped(&text, columns);
            proptest::prop_assert!(lines.iter().all(|line| line.chars().count() <= columns));
            let all: String = lines.concat().split_whitespace().collect();
            proptest::prop_assert_eq!(all, text.split_whitespace().collect::<String>());
        }
    }

    #[test]
    fn without_paint_there_is_no_escape() {
        let paint = Paint { is_on: false };
        assert_eq!(paint.of(Health::Dead, "dead"), "dead");
        assert_eq!(Paint { is_on: true }.good("x"), "\x1b[32mx\x1b[0m");
    }
}
