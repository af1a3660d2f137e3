//! What must not leave a machine: secrets that are known, and what looks like one, taken out of a text.

use crate::error::Error;
use crate::text::{html_escaped, percent_encoded, visible};
use base64::prelude::{BASE64_STANDARD, Engine};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt;

/// What stands in the place of a secret.
pub const REDACTED: &str = "(redacted)";

/// A shorter secret is not looked for: it would be found in half of all words.
const SHORTEST: usize = 4;

/// What stands behind a name that only sounds like a secret's: a switch.
const NO_SECRETS: [&str; 6] = ["true", "false", "none", "null", "default", "enabled"];

/// A shorter one is looked for as a whole word.
const WITHIN_WORDS: usize = 8;

/// So much of a secret's beginning, at the place where a text was cut, is a secret too.
const CUT: usize = 4;

/// What a key is called that has a secret behind it.
const SECRET_KEYS: [&str; 15] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "adminpass",
    "secret",
    "token",
    "credential",
    "apikey",
    "privatekey",
    "accesskey",
    "authkey",
    "authorization",
    "signature",
    "cookie",
];

/// The same, where it is the whole name.
const SECRET_WORD: &str = "pass";

/// What a key ends with that names a secret and does not hold it.
const NAMES_OF_SECRETS: [&str; 8] =
    ["id", "name", "file", "path", "folder", "url", "type", "expires"];

/// How tokens begin, in any text: Keystone's, a JWT, and those of well-known services.
const TOKENS: [&str; 6] = ["gAAAA", "eyJ", "ghp_", "glpat-", "xoxb-", "AKIA"];

/// So much must follow.
const TOKEN: usize = 12;

/// Takes secrets out of texts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redaction {
    known: Vec<String>,
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redaction({} secrets)", self.known.len())
    }
}

/// Places in a text, from and to.
type Places = Vec<(usize, usize)>;

impl Redaction {
    /// One that knows these secrets, in every form in which a message may quote them.
    pub fn of(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut known: Vec<String> = Vec::new();
        for secret in secrets {
            let secret = secret.trim();
            let is_switch = NO_SECRETS.contains(&secret.to_ascii_lowercase().as_str());
            if is_switch || secret.len() < SHORTEST {
                continue;
            }
            let escaped = format!("{secret:?}");
            let forms = [
                secret.to_owned(),
                visible(secret).into_owned(),
                escaped.trim_matches('"').to_owned(),
                percent_encoded(secret),
                percent_encoded(secret).to_ascii_lowercase(),
                html_escaped(secret).into_owned(),
                BASE64_STANDARD.encode(secret).trim_end_matches('=').to_owned(),
            ];
            let within = base64_within(secret.as_bytes());
            let all = forms.into_iter().chain(within);
            known.extend(all.filter(|form| form.len() >= SHORTEST));
            // A secret of several lines is quoted by its lines.
            known.extend(
                secret.lines().map(str::trim).filter(|l| l.len() > TOKEN).map(str::to_owned),
            );
        }
        known.sort();
        known.dedup();
        Self { known }
    }

    /// The error without them.
    pub fn error_without(&self, error: &Error) -> Error {
        let hint = error.hint.as_ref().map(|hint| self.redacted(&hint.to_string()).as_ref().into());
        Error { cause: self.redacted(&error.cause).into_owned(), hint, ..error.clone() }
    }

    /// The text without them.
    pub fn redacted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        /// What is taken out may make something else look like a secret; that ends.
        const ROUNDS: usize = 8;
        let mut told = self.once(text);
        for _ in 0..ROUNDS {
            let Cow::Owned(before) = &told else { break };
            match self.once(before) {
                Cow::Owned(after) if after != *before => told = Cow::Owned(after),
                _ => break,
            }
        }
        told
    }

    /// The text without those that are known, and with whatever else looks like one: a text that is used as
    /// well as shown must stay as it is.
    pub fn without_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        without(text, self.whole_in(text))
    }

    fn once<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut places = self.whole_in(text);
        places.extend(self.known.iter().flat_map(|secret| cut_short(text, secret)));
        places.extend(users_of_urls(text));
        places.extend(values_of_keys(text));
        places.extend(tokens(text));
        places.extend(private_keys(text));
        without(text, places)
    }

    fn whole_in(&self, text: &str) -> Places {
        let mut places = Places::new();
        for secret in &self.known {
            for (from, found) in text.match_indices(secret.as_str()) {
                let to = from + found.len();
                let is_word = !text[..from].ends_with(char::is_alphanumeric)
                    && !text[to..].starts_with(char::is_alphanumeric);
                if secret.len() >= WITHIN_WORDS || is_word {
                    places.push((from, to));
                }
            }
        }
        places
    }
}

/// The text without what is at these places.
fn without(text: &str, mut places: Places) -> Cow<'_, str> {
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    places.sort_unstable();
    let mut all = String::with_capacity(text.len());
    let mut done = 0;
    for (from, to) in places {
        if to <= done {
            continue;
        }
        if from >= done {
            all.push_str(&text[done..from]);
            if !all.ends_with(REDACTED) {
                all.push_str(REDACTED);
            }
        }
        done = to;
    }
    all.push_str(&text[done..]);
    Cow::Owned(all)
}

/// What is left of a secret where a text was cut: at its end, and before or behind a mark of that.
fn cut_short(text: &str, secret: &str) -> Places {
    if secret.len() < WITHIN_WORDS {
        return Places::new();
    }
    let lengths = || (CUT..secret.len()).rev().filter(|length| secret.is_char_boundary(*length));
    let ends = text.match_indices('…').map(|(at, _)| at).chain([text.len()]);
    let heads = ends.filter_map(|at| {
        let before = text[..at].trim_end();
        let length = lengths().find(|length| before.ends_with(&secret[..*length]))?;
        let from = before.len() - length;
        let is_begin = !text[..from].ends_with(char::is_alphanumeric);
        (is_begin || length >= WITHIN_WORDS).then_some((from, before.len()))
    });
    let tails = text.match_indices('…').filter_map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let begin = text.len() - rest.trim_start().len();
        let length = (CUT..secret.len()).rev().find(|length| {
            let at = secret.len() - length;
            secret.is_char_boundary(at) && text[begin..].starts_with(&secret[at..])
        })?;
        let is_end = !text[begin + length..].starts_with(char::is_alphanumeric);
        (is_end || length >= WITHIN_WORDS).then_some((begin, begin + length))
    });
    heads.chain(tails).collect()
}

/// What is secret in an address: what stands before its host, as it is written and as it is meant, and the
/// password in it.
pub fn secrets_of_url(url: &str) -> Vec<String> {
    // A person may have left the scheme out.
    let url = if url.contains("://") { url.to_owned() } else { format!("x://{url}") };
    let users = users_of_urls(&url).into_iter().map(|(from, to)| &url[from..to]);
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let forms = |text: &str| [text.to_owned(), decoded(text)];
    let all = users.flat_map(|user| {
        let password = user.split_once(':').map_or(user, |(_, password)| password);
        forms(user).into_iter().chain(forms(password))
    });
    all.collect()
}

/// Whether a text is certainly a secret wherever it stands: no person would give it to a thing as its name.
pub fn is_no_name(text: &str) -> bool {
    let is_of_names = |sign: char| sign.is_ascii_alphanumeric() || "_-. ".contains(sign);
    looks_random(text) || (text.len() >= WITHIN_WORDS && !text.chars().all(is_of_names))
}

/// `https://user:password@host`: what stands before the host.
fn users_of_urls(text: &str) -> Places {
    let mut places = Places::new();
    for (at, mark) in text.match_indices("://") {
        let from = at + mark.len();
        let is_end = |sign: char| sign.is_whitespace() || "/?#\"'<>\\`".contains(sign);
        let authority = text[from..].split(is_end).next().unwrap_or_default();
        if let Some(to) = authority.rfind('@')
            && to > 0
            && &authority[..to] != REDACTED
        {
            places.push((from, from + to));
        }
    }
    places
}

fn is_of_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-' | '.')
}

/// Whether a key of this name has a secret behind it.
pub fn names_a_secret(key: &str) -> bool {
    let key = key.trim_start_matches(['-', '.', '_']).to_ascii_lowercase();
    let last = key.rsplit(['_', '-', '.']).next().unwrap_or_default();
    if NAMES_OF_SECRETS.contains(&last) {
        return false;
    }
    let plain: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET_KEYS.iter().any(|name| plain.contains(name)) || last == SECRET_WORD
}

/// `password = "…"`, `token: …`, `"secret":"…"`, `--password …`, `Authorization: Bearer …`, `token gAAA…`.
fn values_of_keys(text: &str) -> Places {
    let mut places = Places::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find(is_of_name).map(|found| at + found) {
        let end = text[begin..].find(|sign| !is_of_name(sign)).map_or(text.len(), |to| begin + to);
        let name = &text[begin..end];
        at = end;
        if !names_a_secret(name) && !is_scheme(name) {
            continue;
        }
        places.extend(value_behind(text, name, end));
    }
    places
}

/// `Authorization: Bearer …` and its like.
fn is_scheme(name: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| name.eq_ignore_ascii_case(scheme))
}

/// Where the value of a key is whose name ends here.
fn value_behind(text: &str, name: &str, end: usize) -> Option<(usize, usize)> {
    let is_quote = |sign: char| matches!(sign, '"' | '\'' | '`' | '\\');
    let rest = text[end..].trim_start_matches(is_quote);
    let behind = rest.trim_start_matches([' ', '\t']);
    let sign = behind.chars().next()?;
    let (value, is_assigned) = match sign {
        '=' | ':' => (behind[1..].trim_start_matches(['>', '=', ':', ' ', '\t']), true),
        // A flag has its value behind a blank; in prose only what looks like a token is one.
        _ if behind.len() < rest.len() || rest.len() < text[end..].len() => (behind, false),
        _ => return None,
    };
    let from = text.len() - value.len();
    if value.starts_with(REDACTED) {
        return None;
    }
    if is_assigned && let Some(scheme) = value.split(' ').next().filter(|word| is_scheme(word)) {
        let credential = value[scheme.len()..].trim_start();
        let length = credential.find(char::is_whitespace).unwrap_or(credential.len());
        let is_done = credential.starts_with(REDACTED) || length == 0;
        let from = text.len() - credential.len();
        return (!is_done).then_some((from, from + length));
    }
    let quotes = value.len() - value.trim_start_matches(is_quote).len();
    let (open, inner) = value.split_at(quotes);
    if inner.starts_with(REDACTED) {
        return None;
    }
    let length = match open.chars().last() {
        Some(quote) => inner.find(quote).unwrap_or(inner.len()),
        None => bare_length(inner),
    };
    // The backslash of an escaped quote is not the value's.
    let length =
        if open.contains('\\') { inner[..length].trim_end_matches('\\').len() } else { length };
    let is_flag = name.starts_with("--") && !inner.starts_with('-');
    let is_secret = is_assigned || is_flag || looks_random(&inner[..length]);
    (length > 0 && is_secret).then_some((from + quotes, from + quotes + length))
}

/// The secrets in a text of keys and values, one in a line: TOML, `cloud.conf`, YAML, JSON. It need not be
/// right in any of them.
pub fn secrets_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        for (from, to) in values_of_keys(line) {
            found.push(line[from..to].to_owned());
            // Where no quotes are needed blanks may be in it.
            let rest = line[from..].trim();
            found.push(rest.to_owned());
            found
                .extend(rest.split(['}', ',', '#', '"']).next().map(|part| part.trim().to_owned()));
        }
        found.extend(users_of_urls(line).into_iter().map(|(from, to)| line[from..to].to_owned()));
        found.extend(tokens(line).into_iter().map(|(from, to)| line[from..to].to_owned()));
    }
    found.retain(|secret| !secret.is_empty());
    found
}

/// All that may be a value in such a text: of one that cannot be read each may be a secret at the wrong
/// place.
pub fn values_in(text: &str) -> Vec<String> {
    let is_quote = |sign: char| matches!(sign, '"' | '\'' | '`');
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let behind = line.split_once(['=', ':']).map_or(line, |(_, value)| value);
        let value = behind.trim().trim_matches(is_quote);
        found.push(value.to_owned());
        found.push(
            value
                .split(" #")
                .next()
                .unwrap_or_default()
                .trim_end()
                .trim_matches(is_quote)
                .to_owned(),
        );
        found.extend(line.split(is_quote).skip(1).step_by(2).map(str::to_owned));
        found.extend(
            behind.split(|c: char| c.is_whitespace() || ",[]{}\"'`".contains(c)).map(str::to_owned),
        );
    }
    found.retain(|value| !value.is_empty());
    found
}

/// How long a value without quotes is.
fn bare_length(value: &str) -> usize {
    let is_end = |sign: char| sign.is_whitespace() || ",;&\"'<>)]}".contains(sign);
    value.find(is_end).unwrap_or(value.len())
}

/// Whether no person chose the word: long, of one alphabet, with digits in it.
fn looks_random(word: &str) -> bool {
    let is_of_token = |sign: char| sign.is_ascii_alphanumeric() || "_-=.+/".contains(sign);
    word.len() >= 16
        && !word.starts_with(['/', '-', '.'])
        && word.chars().all(is_of_token)
        && word.contains(|sign: char| sign.is_ascii_digit())
}

/// What is a token wherever it stands.
fn tokens(text: &str) -> Places {
    let is_of_token = |sign: char| sign.is_ascii_alphanumeric() || "_-.=".contains(sign);
    let mut places = Places::new();
    for (from, found) in TOKENS.iter().flat_map(|begin| text.match_indices(begin)) {
        let rest = &text[from..];
        let length = rest.find(|sign| !is_of_token(sign)).unwrap_or(rest.len());
        let is_word = !text[..from].ends_with(|sign: char| sign.is_ascii_alphanumeric());
        if is_word && length >= found.len() + TOKEN {
            places.push((from, from + length));
        }
    }
    places
}

/// A key as OpenSSL writes it, up to its end.
fn private_keys(text: &str) -> Places {
    const END: &str = "-----END";
    let keys = text.match_indices("-----BEGIN ").filter(|(at, _)| {
        text[*at..].split("-----").nth(1).is_some_and(|head| head.contains("PRIVATE KEY"))
    });
    let to = |at: usize| match text[at..].find(END) {
        Some(end) => {
            let tail = &text[at + end + END.len()..];
            at + end + END.len() + tail.find("-----").map_or(tail.len(), |more| more + 5)
        }
        None => text.len(),
    };
    keys.map(|(at, _)| (at, to(at))).collect()
}

/// What is the same in base 64 wherever these bytes stand in others, as a password does behind its user.
fn base64_within(bytes: &[u8]) -> [String; 3] {
    [0, 1, 2].map(|before| {
        let whole = BASE64_STANDARD.encode([&vec![0; before], bytes].concat());
        whole[(8 * before).div_ceil(6)..8 * (before + bytes.len()) / 6].to_owned()
    })
}

#[cfg(test)]
#[path = "redaction_tests.rs"]
mod tests;
