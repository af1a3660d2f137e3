//! The language of `cloud.conf`: git's configuration format as Kubernetes' `OpenStack` provider
//! reads it (gcfg).
//!
//! Sections and keys know no case. `#` and `;` begin a comment, after an unquoted value too, so
//! a value that holds one must be quoted. A later value wins. A key alone means true.

use crate::error::{Error, Kind, Result};

/// One `key = value`.
#[derive(Clone, PartialEq, Eq)]
pub struct GcfgEntry {
    /// The section's name in lower case.
    pub section: String,
    /// The subsection's name as written.
    pub subsection: Option<String>,
    /// The key in lower case.
    pub key: String,
    /// The value; nothing for a key alone.
    pub value: Option<String>,
    /// The line it began on, from 1.
    pub line: usize,
}

impl std::fmt::Debug for GcfgEntry {
    // Values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} {:?}] {} (line {})", self.section, self.subsection, self.key, self.line)
    }
}

/// Reads the text of a file; `origin` is named in errors, values never are.
pub fn parse(text: &str, origin: &str) -> Result<Vec<GcfgEntry>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { rest: text.chars().peekable(), line: 1 };
    reader
        .file()
        .map_err(|what| Error::new(Kind::Config, format!("{origin}: line {}: {what}", reader.line)))
}

type Parsed<T> = std::result::Result<T, &'static str>;

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn file(&mut self) -> Parsed<Vec<GcfgEntry>> {
        let mut entries = Vec::new();
        let mut section: Option<(String, Option<String>)> = None;
        loop {
            self.blanks();
            match self.rest.peek().copied() {
                None => return Ok(entries),
                Some('\n') => self.newline(),
                Some('#' | ';') => self.comment(),
                Some('[') => section = Some(self.section()?),
                Some(c) if c.is_ascii_alphabetic() => {
                    let Some((section, subsection)) = section.clone() else {
                        return Err("a key before the first section");
                    };
                    let line = self.line;
                    let (key, value) = self.entry()?;
                    entries.push(GcfgEntry { section, subsection, key, value, line });
                }
                Some(_) => return Err("neither a section, a key nor a comment"),
            }
        }
    }

    fn blanks(&mut self) {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t' | '\r')).is_some() {}
    }

    fn newline(&mut self) {
        self.rest.next();
        self.line += 1;
    }

    fn comment(&mut self) {
        while self.rest.next_if(|c| *c != '\n').is_some() {}
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) =
            self.rest.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        {
            name.push(c.to_ascii_lowercase());
        }
        name
    }

    fn section(&mut self) -> Parsed<(String, Option<String>)> {
        self.rest.next();
        self.blanks();
        let name = self.name();
        if name.is_empty() {
            return Err("a section without a name");
        }
        self.blanks();
        let subsection = match self.rest.peek() {
            Some('"') => Some(self.subsection()?),
            _ => None,
        };
        self.blanks();
        if self.rest.next_if_eq(&']').is_none() {
            return Err("a section's name is not closed by ]");
        }
        Ok((name, subsection))
    }

    fn subsection(&mut self) -> Parsed<String> {
        self.rest.next();
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some('"') => return Ok(name),
                Some('\\') => match self.rest.next() {
                    Some(c @ ('"' | '\\')) => name.push(c),
                    _ => return Err("an unknown escape in a section's name"),
                },
                Some('\n') | None => return Err("a section's name is not closed by a quote"),
                Some(c) => name.push(c),
            }
        }
    }

    fn entry(&mut self) -> Parsed<(String, Option<String>)> {
        let key = self.name();
        self.blanks();
        match self.rest.peek() {
            Some('=') => {
                self.rest.next();
                Ok((key, Some(self.value()?)))
            }
            None | Some('\n' | '#' | ';') => Ok((key, None)),
            Some(_) => Err("no = after a key"),
        }
    }

    /// To the end of the line: quoted and bare parts may alternate, blanks at the ends of the
    /// bare ones go, a backslash before the newline joins lines.
    fn value(&mut self) -> Parsed<String> {
        self.blanks();
        let mut value = String::new();
        // How much of the value is certain: blanks after that may be at its end.
        let mut certain = 0;
        let mut quoted = false;
        loop {
            match self.rest.peek().copied() {
                None if quoted => return Err("a quote is not closed"),
                Some('\n') if quoted => return Err("a quote is not closed in its line"),
                None | Some('\n') => break,
                Some('#' | ';') if !quoted => {
                    self.comment();
                    break;
                }
                Some('"') => {
                    quoted = !quoted;
                    certain = value.len();
                    self.rest.next();
                }
                Some('\\') => {
                    self.rest.next();
                    match self.escape()? {
                        Some(c) => value.push(c),
                        None => continue,
                    }
                    certain = value.len();
                }
                Some(c) => {
                    self.rest.next();
                    value.push(c);
                    if quoted || !matches!(c, ' ' | '\t' | '\r') {
                        certain = value.len();
                    }
                }
            }
        }
        value.truncate(certain);
        Ok(value)
    }

    fn escape(&mut self) -> Parsed<Option<char>> {
        self.rest.next_if_eq(&'\r');
        match self.rest.next() {
            Some(c @ ('"' | '\\')) => Ok(Some(c)),
            Some('n') => Ok(Some('\n')),
            Some('t') => Ok(Some('\t')),
            Some('\n') => {
                self.line += 1;
                Ok(None)
            }
            _ => Err("an unknown escape: a backslash is written twice"),
        }
    }
}

/// A boolean as git writes them; a key alone is true.
pub fn boolean(value: Option<&str>) -> Option<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "yes" | "on" | "1") => Some(true),
        Some("false" | "no" | "off" | "0" | "") => Some(false),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, Option<String>)> {
        let entries = parse(text, "f").unwrap();
        entries.into_iter().map(|e| (format!("{}.{}", e.section, e.key), e.value)).collect()
    }

    fn value(text: &str) -> String {
        values(&format!("[g]\nk = {text}"))[0].1.clone().unwrap()
    }

    #[test]
    fn a_file_of_the_wild_is_read() {
        let text = "\u{feff}# cloud\r\n[Global]\r\nAuth-URL = https://k:5000/v3 ; note\r\n\
                    password=\"a#b;c\\\"d\\\\e\"\r\ntls-insecure\r\n\n[LoadBalancer \"x\"] \nuse-octavia=true\n";
        assert_eq!(
            values(text),
            [
                ("global.auth-url".into(), Some("https://k:5000/v3".into())),
                ("global.password".into(), Some("a#b;c\"d\\e".into())),
                ("global.tls-insecure".into(), None),
                ("loadbalancer.use-octavia".into(), Some("true".into())),
            ]
        );
    }

    #[test]
    fn values_are_cut_and_joined_as_git_does() {
        for (text, expected) in [
            ("a b  c ", "a b  c"),
            ("\" a \"", " a "),
            ("a\" b\"c", "a bc"),
            ("", ""),
            ("a#b", "a"),
            ("a \\\n b", "a  b"),
            ("a\\\\b\\tc", "a\\b\tc"),
            ("x ; y", "x"),
        ] {
            assert_eq!(value(text), expected, "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_line_and_no_value() {
        for (text, line) in [
            ("key = hunter2", 1),
            ("[g]\nk = \"hunter2", 2),
            ("[g]\n\n  k hunter2", 3),
            ("[g\nk = 1", 1),
            ("[g]\nk = hunter2\\x", 2),
            ("[]", 1),
            ("[g]\nk = a\\\nb\n=", 4),
        ] {
            let error = parse(text, "f").unwrap_err();
            assert!(error.cause.starts_with(&format!("f: line {line}: ")), "{text:?}: {error}");
            assert!(!error.cause.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn booleans_are_gits() {
        assert_eq!(boolean(None), Some(true));
        assert_eq!(boolean(Some("YES")), Some(true));
        assert_eq!(boolean(Some("off")), Some(false));
        assert_eq!(boolean(Some("maybe")), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(\\PC|[\n\\[\\]\"\\\\=;# ]){0,80}") {
            let _ = parse(&text, "f");
        }

        #[test]
        fn what_is_quoted_comes_back(secret in "\\PC{0,30}") {
            let quoted = secret.replace('\\', "\\\\").replace('"', "\\\"");
            proptest::prop_assert_eq!(value(&format!("\"{quoted}\"")), secret);
        }
    }
}
