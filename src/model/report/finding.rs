//! What a look at a machine found, one thing at a time, and how to put it right.

use crate::advice::{Remedy, advise};
use crate::error::Error;
use serde::Serialize;
use std::fmt;

/// How much a finding matters, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Something works less well than it could, or will not for long.
    Warning,
    /// It could not be checked by this user.
    Skipped,
    /// Calls will fail.
    Error,
}

impl Level {
    /// The exit status that tells it.
    pub fn status(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Skipped => 3,
            Self::Error => 2,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Skipped => "skipped",
            Self::Error => "error",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two: the same for each machine.
    pub check: &'static str,
    /// How much it matters.
    pub level: Level,
    pub found: String,
    /// How to put it right.
    pub fix: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), fix: None }
    }

    /// It could be better.
    pub fn warning(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    /// It must be put right.
    pub fn error(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Error, found: found.into(), fix: Some(fix.into()) }
    }

    /// Only root can check it.
    pub fn skipped(check: &'static str, why: impl Into<String>) -> Self {
        let fix = Some(advise("run: {}", [Remedy::DoctorAsRoot.into()]).to_string());
        Self { check, level: Level::Skipped, found: why.into(), fix }
    }

    /// It could not be looked at.
    pub fn not_looked_at(check: &'static str, why: Error) -> Self {
        let fix = why.hint.unwrap_or_else(|| "put that right, and look again".into());
        Self::error(check, why.cause, fix.to_string())
    }
}

/// The worst of them.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_exit_status() {
        let (good, bad) = (Finding::ok("a", "b"), Finding::error("a", "b", "c"));
        assert_eq!(worst(&[]).status(), 0);
        assert_eq!(worst(&[good.clone(), Finding::warning("a", "b", "c")]).status(), 1);
        let skipped = Finding::skipped("a", "b");
        assert_eq!(worst(&[good.clone(), skipped.clone()]).status(), 3);
        assert_eq!(worst(&[skipped, Finding::warning("a", "b", "c")]).status(), 3);
        assert_eq!(worst(&[bad, Finding::skipped("a", "b"), good]).status(), 2);
    }
}
