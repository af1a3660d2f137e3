//! What of a text may stand in a message or on a terminal.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// Longer texts than this are no names and no paths.
const LONGEST: usize = 300;

/// The text, if it looks like a name or a path; arguments that were mixed up may hold secrets.
pub fn shown(text: &str) -> &str {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | ':');
    if text.is_empty() {
        "(empty)"
    } else if text.len() <= LONGEST && text.chars().all(is_plain) {
        text
    } else {
        "(not shown)"
    }
}

/// `1 mount`, `2 mounts`.
pub fn several(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// The text without its numbers: of two that say the same of other processes, sectors or spans, it is one.
pub fn without_digits(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_ascii_digit()).collect()
}

/// Whether the text has the word, and not only as a part of a longer one.
pub fn has_word(text: &str, word: &str, is_part: impl Fn(char) -> bool) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(&is_part) && !after.starts_with(&is_part)
    })
}

/// Whether a terminal obeys the sign, turns the line by it, or shows nothing for it: controls,
/// newlines, marks of direction, signs without a width, and all that has no picture.
pub fn is_hidden(sign: char) -> bool {
    // Letters by their kind, but blank: fillers of Hangul, and the empty Braille pattern.
    const BLANK: [char; 5] = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}', '\u{2800}'];
    !matches!(sign, '"' | '\'' | '\\') && sign.escape_debug().len() > 1 || BLANK.contains(&sign)
}

/// The text as it may be shown to a person, in one line: what is hidden is written by its number,
/// as Rust writes it. Tenants, processes and clouds name things as they like. This is the one rule
/// for messages, tables and stories.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            sign if !is_hidden(sign) => all.push(sign),
            '\n' | '\t' | '\r' | '\0' => all.extend(sign.escape_debug()),
            sign => all.extend(sign.escape_unicode()),
        }
    }
    Cow::Owned(all)
}

/// The text as it may stand in a part of an address (RFC 3986).
pub fn percent_encoded(text: &str) -> String {
    const SIGNS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, SIGNS).to_string()
}

/// The text as it may stand between tags of HTML, and in quotes there.
pub fn html_escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len() + 16);
    for sign in text.chars() {
        match sign {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\'' => all.push_str("&#39;"),
            sign => all.push(sign),
        }
    }
    Cow::Owned(all)
}

/// The text in at most so many bytes. What is too much is left out of its middle: messages begin with
/// what happened, and end with what ends it.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    const GAP: &str = " … ";
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let room = most.saturating_sub(GAP.len());
    let is_between = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=room - room / 3).rev().find(is_between).unwrap_or_default();
    let tail = (text.len() - room / 3..text.len()).find(is_between).unwrap_or(text.len());
    Cow::Owned([&text[..head], GAP, &text[tail..]].concat())
}

/// The sentence as a volume's record keeps it: it names what tenants have named as they like, and as many of them
/// as they made.
pub fn kept(sentence: &str) -> String {
    const LONGEST_KEPT: usize = 4 << 10;
    shortened(sentence, LONGEST_KEPT).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_keeps_its_beginning_and_its_end() {
        assert_eq!(shortened("abc", 3), "abc");
        let long = format!("begin {} end", "é".repeat(5000));
        for most in [0, 5, 20, 21, 22, 23, 800] {
            let short = shortened(&long, most);
            assert!(short.len() <= most.max(5), "{most}: {short}");
            if most > 19 {
                assert!(short.starts_with("begin ") && short.ends_with(" end"), "{short}");
            }
        }
    }

    #[test]
    fn a_record_keeps_a_sentence_up_to_a_length() {
        assert_eq!(kept("it is covered"), "it is covered");
        let long = kept(&format!("begin {} end", "/data, ".repeat(1_000_000)));
        assert!(long.len() <= 4096 && long.starts_with("begin") && long.ends_with("end"));
    }

    #[test]
    fn what_a_terminal_hides_or_obeys_is_written_out() {
        for plain in ["", "/a b/c", "磁盘", "é \"x\" 'y' \\", "a=b; {c} …"] {
            assert!(matches!(visible(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
        for (text, shown) in [
            ("a\nb\r\tc\0", r"a\nb\r\tc\0"),
            ("\u{1b}[2J\u{9b}\u{7f}", r"\u{1b}[2J\u{9b}\u{7f}"),
            ("\u{202e}\u{2066}\u{200f}\u{61c}", r"\u{202e}\u{2066}\u{200f}\u{61c}"),
            ("\u{200b}\u{feff}\u{ad}\u{3164}\u{a0}", r"\u{200b}\u{feff}\u{ad}\u{3164}\u{a0}"),
            ("\u{2028}\u{e0041}\u{301}", r"\u{2028}\u{e0041}\u{301}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn what_stands_in_an_address_is_escaped() {
        assert_eq!(percent_encoded("^a.b$"), "%5Ea.b%24");
        assert_eq!(percent_encoded("{'k': 'v'}"), "%7B%27k%27%3A%20%27v%27%7D");
        assert_eq!(percent_encoded("a-Z_0.~é/"), "a-Z_0.~%C3%A9%2F");
    }

    #[test]
    fn signs_of_markup_are_written_out() {
        assert_eq!(
            html_escaped("<a href=\"x\" b='&'>"),
            "&lt;a href=&quot;x&quot; b=&#39;&amp;&#39;&gt;"
        );
        assert!(matches!(html_escaped("shop/orders-0 磁盘"), Cow::Borrowed(_)));
    }

    #[test]
    fn only_names_and_paths_are_shown() {
        assert_eq!(shown("/dev/vdb"), "/dev/vdb");
        assert_eq!(shown(""), "(empty)");
        for text in ["{\"a\":\"b\"}", "c2VjcmV0=", "a b", "100%", &"x".repeat(301)] {
            assert_eq!(shown(text), "(not shown)", "{text}");
        }
    }
}
