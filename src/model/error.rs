//! The one error type: what went wrong, whether waiting can help, what a person should do.

use super::advice::Advice;
use super::text::visible;
use std::borrow::Cow;
use std::fmt;

/// What sort of trouble it is; decides how callers and people should react.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The call itself is malformed: repeating it cannot help.
    BadCall,
    /// The configuration is missing or wrong.
    Config,
    /// The cloud says for certain that the volume or server does not exist.
    Missing,
    /// The volume is attached to another server.
    Elsewhere,
    /// Another process works on it right now, or a holder keeps it busy.
    Busy,
    /// The cloud does not do it while the server is in its state, however often one call asks.
    Barred,
    /// The cloud did not answer properly.
    Unreachable,
    /// What was waited for did not happen in time.
    Timeout,
    /// A pod that runs still uses the volume.
    Guarded,
    /// We could go on and will not: data might be lost.
    Refused,
    /// The kernel or a tool of this machine failed.
    Host,
    /// A defect of this program.
    Bug,
}

impl Kind {
    /// One lower-case word for logs and tables.
    pub fn word(self) -> &'static str {
        match self {
            Kind::BadCall => "bad-call",
            Kind::Config => "config",
            Kind::Missing => "missing",
            Kind::Elsewhere => "elsewhere",
            Kind::Busy => "busy",
            Kind::Barred => "barred",
            Kind::Unreachable => "unreachable",
            Kind::Timeout => "timeout",
            Kind::Guarded => "guarded",
            Kind::Refused => "refused",
            Kind::Host => "host",
            Kind::Bug => "bug",
        }
    }
}

/// A failure with its cause and the next step for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What sort of trouble it is.
    pub kind: Kind,
    /// What was found, as one lower-case clause.
    pub cause: String,
    /// What a person can do about it.
    pub hint: Option<Advice>,
    /// Whether the same was said before, so that a log need not say it again.
    pub is_repeated: bool,
}

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind.
    pub fn new(kind: Kind, cause: impl Into<String>) -> Self {
        let cause = in_one_line(cause.into());
        Self { kind, cause, hint: None, is_repeated: false }
    }

    /// The same error with advice for a person.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Advice>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with a second trouble that came while undoing things.
    #[must_use]
    pub fn and_also(mut self, also: &Error) -> Self {
        self.cause = format!("{}; then undoing failed too: {}", self.cause, also.cause);
        self
    }

    /// This error about a mount of a dead disk, with why it was not healed.
    #[must_use]
    pub fn not_healed(mut self, why: Option<String>) -> Self {
        if let Some(why) = why {
            self.cause = format!("{}; not healed: {}", self.cause, visible(&why));
        }
        self
    }

    /// A failed system call or file access: `doing` says on what.
    pub fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(Kind::Host, format!("{doing}: {}", errno_text(error)))
    }

    /// Whether the caller's user may not do what was tried. Another user may: nothing was found out.
    pub fn is_denied(&self) -> bool {
        DENIED.iter().any(|words| self.cause.ends_with(words))
    }

    /// A malformed call.
    pub fn bad_call(cause: impl Into<String>) -> Self {
        Self::new(Kind::BadCall, cause)
    }

    /// A refusal to go on because data might be lost.
    pub fn refused(cause: impl Into<String>) -> Self {
        Self::new(Kind::Refused, cause)
    }
}

/// A message quotes paths of tenants, names of processes, words of the cloud.
fn in_one_line(text: String) -> String {
    match visible(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => shown,
    }
}

/// How `errno_text` words `EACCES` and `EPERM`.
const DENIED: [&str; 2] = ["permission denied", "operation not permitted"];

/// `No such file or directory (os error 2)` without the tail.
pub fn errno_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_cause_then_hint() {
        let error = Error::refused("the disk holds a partition table").hint("look at it first");
        assert_eq!(error.to_string(), "the disk holds a partition table; look at it first");
    }

    #[test]
    fn what_is_quoted_stays_in_its_line() {
        let error = Error::refused("has it at /a\nb\u{1b}[8m").hint("see \u{202e}x");
        assert_eq!(error.to_string(), r"has it at /a\nb\u{1b}[8m; see \u{202e}x");
        assert_eq!(
            error.not_healed(Some("\r".into())).cause,
            r"has it at /a\nb\u{1b}[8m; not healed: \r"
        );
    }

    #[test]
    fn a_system_error_loses_its_number() {
        let error = Error::io("open /nowhere", &std::io::Error::from_raw_os_error(2));
        assert_eq!(error.cause, "open /nowhere: no such file or directory");
        assert!(!error.is_denied());
        let denied = std::io::Error::from_raw_os_error(nix::libc::EACCES);
        assert!(Error::io("open /x", &denied).is_denied());
    }
}
