//! The log: one file a day, one line per event, the call's id on every line.
//!
//! The appender is used directly, not through its background thread: a process that lives for
//! milliseconds would lose lines. Nothing here can fail a call: without a log it goes on.

use crate::model::config::{Config, LogLevel};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::level_filters::LevelFilter;
use tracing_appender::rolling::{RollingFileAppender, Rotation};

/// Files are called `incloud-disk.YYYY-MM-DD.log`, by UTC.
const PREFIX: &str = "incloud-disk";

/// Begins to log. False if it cannot; the call goes on without.
#[must_use]
pub fn start(config: &Config) -> bool {
    // The appender would complain on stderr before it makes the folder itself.
    if std::fs::create_dir_all(&config.paths.log_dir).is_err() {
        return false;
    }
    let appender = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix(PREFIX)
        .filename_suffix("log")
        .build(&config.paths.log_dir);
    let Ok(appender) = appender else { return false };
    prune(&config.paths.log_dir, config.log.max_files);
    let level = match config.log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_writer(appender)
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .try_init()
        .is_ok()
}

/// The files of the log, the oldest first: they sort by day.
pub fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string().ok().filter(|name| is_ours(name)));
    }
    names.sort();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Removes the oldest files beyond the limit. The appender's own pruning goes by times that a
/// copy or a clock changes, and counts today's file or not; the names sort by day.
fn prune(folder: &Path, most: usize) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_ours(name)).collect();
    if names.len() <= most {
        return;
    }
    names.sort();
    for name in &names[..names.len() - most] {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// `incloud-disk.YYYY-MM-DD.log`, and nothing that merely begins so.
fn is_ours(name: &str) -> bool {
    let day = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(".log"));
    day.is_some_and(|day| {
        day.len() == ".YYYY-MM-DD".len()
            && day.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-'))
    })
}

/// A short id that no other call of this machine has: time and process, in base 36.
#[must_use]
pub fn new_call_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let milliseconds = u64::try_from(now.as_millis()).unwrap_or_default();
    format!("{}-{}", base36(milliseconds), base36(u64::from(std::process::id())))
}

fn base36(mut number: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    loop {
        let digit = usize::try_from(number % 36).unwrap_or_default();
        digits.push(char::from(DIGITS[digit]));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_base_36() {
        assert_eq!(base36(0), "0");
        assert_eq!(base36(35), "z");
        assert_eq!(base36(36 * 36), "100");
    }
}
