//! Where verbs speak: text for people, with colour only on a terminal.

use crate::host::worker;
use crate::host::zone::LOCAL;
use crate::model::error::{Error, Kind, Result};
use crate::model::report::health::Health;
use crate::model::report::log_line::escaped;
use crate::model::report::redaction::Redaction;
use crate::model::text::visible;
use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{ErrorKind, Write};
use unicode_width::UnicodeWidthChar;

/// Lines are no longer than this where no terminal says how wide it is.
const USUAL: usize = 100;

/// No terminal is taken for narrower.
const LEAST: usize = 60;

/// Lines are no longer than this.
pub(super) fn width() -> usize {
    if PAPER.with_borrow(Option::is_some) { USUAL } else { width_for(worker::columns()) }
}

fn width_for(columns: Option<usize>) -> usize {
    columns.map_or(USUAL, |columns| columns.max(LEAST))
}

thread_local! {
    /// What is taken out of all that is written for a reader elsewhere.
    static PAPER: RefCell<Option<Redaction>> = const { RefCell::new(None) };
}

/// Lets it be written for a file that leaves the machine: as wide as usual, and without secrets. They are
/// taken out here because a text that is cut or broken into lines already has them in pieces.
pub(super) fn on_paper<T>(redaction: Redaction, work: impl FnOnce() -> T) -> T {
    PAPER.set(Some(redaction));
    let done = work();
    PAPER.set(None);
    done
}

/// A text as it may be shown where it is shown.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    let redacted = PAPER.with_borrow(|paper| match paper {
        Some(redaction) => match redaction.redacted(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        },
        None => None,
    });
    match redacted {
        Some(text) => Cow::Owned(visible(&text).into_owned()),
        None => visible(text),
    }
}

/// Where a verb speaks.
#[expect(missing_debug_implementations, reason = "it borrows a stream")]
pub struct Stage<'a> {
    pub out: &'a mut dyn Write,
    /// Whether it is a terminal.
    pub is_terminal: bool,
    /// Whether something that was said got lost. Only the exit status can still tell it.
    pub has_failed: bool,
}

impl Stage<'_> {
    /// Says a text; answers whether it is still read. A reader that closes the stream early has read
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

    pub(super) fn say_json(&mut self, value: &impl serde::Serialize) -> Result<bool> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::new(Kind::Bug, error.to_string()))?;
        Ok(self.say(&(escaped(&text) + "\n")))
    }

    /// The paint for this stream: none where `NO_COLOR` is set (no-color.org), or where it is no terminal.
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
        let text = printable(text);
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into_owned() }
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
            health if health.harms() => self.bad(text),
            _ => self.doubtful(text),
        }
    }
}

/// To a reader who may have gone: what is done does not depend on it.
pub(super) fn say(text: &str) {
    let mut out = worker::out();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// How many columns a sign takes: those of East Asia take two.
fn columns_of(sign: char) -> usize {
    UnicodeWidthChar::width(sign).unwrap_or(1)
}

/// How many columns a text takes.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// The text in so many columns at most.
fn cut(text: &str, columns: usize) -> String {
    let text = printable(text);
    if width_of(&text) <= columns {
        return text.into_owned();
    }
    let mut used = 1;
    let fits = |sign: &char| {
        used += columns_of(*sign);
        used <= columns
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// A line of what a verb did. It quotes what others have named.
pub(super) fn told(text: &str) -> String {
    format!("{}\n", printable(text))
}

/// One line that fits beside an indent.
pub(super) fn line_of(text: &str, indent: usize) -> String {
    cut(text, width().saturating_sub(indent))
}

/// A cell of a table: the text in exactly so many columns.
pub(super) fn cell(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let blanks = " ".repeat(columns.saturating_sub(width_of(&text)));
    text + &blanks
}

/// A row of a table: cells with gaps between them.
pub(super) fn table_row(cells: &[String], widths: &[usize]) -> String {
    cells.iter().zip(widths).map(|(text, width)| cell(text, *width) + "  ").collect()
}

/// Lines of a text that fit beside an indent: broken at blanks, and within a word that is longer. A path
/// stays whole on its line, however long it is, so that it can be copied.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    // No further than it fits: a name may have many thousand signs.
    let fitting = |signs: &[char], room: usize| {
        let mut used = 0;
        let fits = |sign: &&char| {
            used += columns_of(**sign);
            used <= room
        };
        signs.iter().take_while(fits).count()
    };
    let mut lines = vec![String::new()];
    for word in printable(text).split_whitespace() {
        let word: Vec<char> = word.chars().collect();
        let mut rest = word.as_slice();
        while let Some(line) = lines.last_mut() {
            let used = width_of(line);
            let gap = usize::from(used > 0);
            let is_path = word.contains(&'/');
            let fits = fitting(rest, columns.saturating_sub(used + gap));
            if fits == rest.len() || used == 0 && is_path {
                line.push_str(if gap > 0 { " " } else { "" });
                line.extend(rest);
                break;
            }
            if used == 0 {
                let (begin, end) = rest.split_at(fits.max(1));
                line.extend(begin);
                rest = end;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Lines of a text, each after the first under it; its moments in local time.
pub(super) fn hanging(first: &str, text: &str, paint: impl Fn(&str) -> String) -> String {
    as_it_is(first, &LOCAL.in_text(text), paint)
}

/// The words of another program in two lines at most, the second under the first.
pub(super) fn in_two_lines(first: &str, text: &str, paint: impl Fn(&str) -> String) -> String {
    let columns = width().saturating_sub(width_of(first));
    let mut lines = wrapped(text, columns);
    let rest = lines.split_off(1).join(" ");
    lines.extend((!rest.is_empty()).then_some(rest));
    let lines: Vec<_> = lines.iter().map(|line| cut(line, columns)).collect();
    under(first, &lines, paint)
}

/// Lines that another program wrote, each after the first under it.
pub(super) fn as_it_is(first: &str, text: &str, paint: impl Fn(&str) -> String) -> String {
    let first = &*printable(first);
    under(first, &wrapped(text, width().saturating_sub(width_of(first))), paint)
}

fn under(first: &str, lines: &[String], paint: impl Fn(&str) -> String) -> String {
    let indent = " ".repeat(width_of(first));
    let line = |(number, line): (usize, &String)| {
        let begin = if number == 0 { first } else { &indent };
        format!("{}\n", format!("{begin}{}", paint(line)).trim_end())
    };
    lines.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_wide_as_the_terminal() {
        assert_eq!((width_for(None), width_for(Some(180)), width_for(Some(20))), (100, 180, 60));
    }

    #[test]
    fn long_texts_are_cut_and_broken() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cell("abcdefg", 6), "abcde…");
        assert_eq!(cell("abc", 6), "abc   ");
        assert_eq!(wrapped("aa bb cccccc d", 5), ["aa bb", "ccccc", "c d"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("at /a/long/path: x y", 5), ["at", "/a/long/path:", "x y"]);
        assert_eq!(hanging("x: ", "a b", str::to_owned), "x: a b\n");
    }

    #[test]
    fn the_words_of_another_program_take_two_lines_at_most() {
        let shown = |text: &str| in_two_lines("a: ", text, str::to_owned);
        assert_eq!(shown("b c"), "a: b c\n");
        let long = [&"x".repeat(40), " /", &"y/".repeat(200), " z ", &"磁".repeat(900)].concat();
        for text in [&long, &"/".repeat(999), "", "\n\u{1b}[2J\u{202e}", &"b ".repeat(999)] {
            let shown = shown(text);
            assert!(shown.lines().count() <= 2 && shown.ends_with('\n'), "{shown}");
            assert!(shown.lines().all(|line| width_of(line) <= USUAL), "{shown}");
            assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
        }
    }

    #[test]
    fn wide_signs_take_two_columns_and_none_commands_the_terminal() {
        assert_eq!(cut("磁盘磁盘", 8), "磁盘磁盘");
        assert_eq!(cut("磁盘磁盘", 7), "磁盘磁…");
        assert_eq!(cut("磁盘磁盘", 6), "磁盘…");
        assert_eq!(cell("磁盘", 6), "磁盘  ");
        assert_eq!(wrapped("磁盘磁盘 a", 5), ["磁盘", "磁盘", "a"]);
        assert_eq!(cut("a\x1b[2J\nb", 20), r"a\u{1b}[2J\nb");
        assert_eq!(wrapped("a\x1b[2J\n\u{9b}b", 40), [r"a\u{1b}[2J\n\u{9b}b"]);
        assert_eq!(hanging("\n", "a\nb", str::to_owned), "\\na\\nb\n");
        assert_eq!(Paint { is_on: false }.bold("\r"), r"\r");
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_long_and_no_word_is_lost(text in "[a-z磁 ]{0,300}", columns in 2usize..40) {
            let lines = wrapped(&text, columns);
            proptest::prop_assert!(lines.iter().all(|line| width_of(line) <= columns));
            let all: String = lines.concat().split_whitespace().collect();
            proptest::prop_assert_eq!(all, text.split_whitespace().collect::<String>());
        }
    }

    #[test]
    fn what_leaves_the_machine_has_no_secret_however_it_is_cut() {
        let secret = "hunter2-canary-of-forty-signs-and-a-few-more";
        let redaction = Redaction::of([secret.to_owned()]);
        let text = on_paper(redaction, || {
            let paint = Paint { is_on: true };
            let told = [told(secret), cell(secret, 20), line_of(secret, 90), paint.bold(secret)];
            told.concat() + &wrapped(secret, 10).concat() + &hanging(secret, secret, str::to_owned)
        });
        assert!(!text.contains("hunter2") && !text.contains("few-more"), "{text}");
        assert_eq!(text.matches("(redacted)").count(), 7, "{text}");
        assert_eq!(told(secret).trim_end(), secret, "only there");
    }

    #[test]
    fn without_paint_there_is_no_escape() {
        let paint = Paint { is_on: false };
        assert_eq!(paint.of(Health::Dead, "dead"), "dead");
        assert_eq!(Paint { is_on: true }.good("x"), "\x1b[32mx\x1b[0m");
    }
}
