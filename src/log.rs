//! The log: one file a day, one JSON object per event, with the call's id on every line.
//!
//! Names that tenants, processes and clouds choose end up in it, so lines are never put together by hand: the
//! library quotes, serde reads (`model/log_line.rs`). Files that end in `.log` were written by an older driver as
//! prose, where a name could pass for a line; they are shown, never parsed.
//!
//! Nothing here fails a call or delays it noticeably: without a log the call goes on.

use crate::configuration::{Config, LogLevel};
use crate::host::aside::AsideWriter;
pub use crate::host::machine::new_call_id;
use crate::model::report::log_line;
use crate::model::sorting::sort_by;
use crate::model::timestamp::{self, Millis};
use crate::ports::clock;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tracing::level_filters::LevelFilter;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::fmt::MakeWriter;

/// Files are called `incloud-disk.YYYY-MM-DD.jsonl`, by UTC.
const PREFIX: &str = "incloud-disk";
const SUFFIX: &str = "jsonl";

/// Starts to log; false if it cannot.
pub fn start(config: &Config) -> bool {
    let (folder, most) = (config.paths.log_dir.clone(), config.log.max_files);
    let Some(aside) = AsideWriter::at(&folder, &config.paths.run_dir) else { return false };
    let appender = Arc::new(OnceLock::new());
    let opened = Arc::clone(&appender);
    let open = move || open(&folder, most).map(|appender| drop(opened.set(appender)));
    // What is not opened in time may be opened yet: the lines come after it.
    if let Some(Err(_)) = aside.write(open) {
        return false;
    }
    let level = match config.log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .json()
        .with_span_list(false)
        .with_writer(Lines { appender, aside })
        .with_max_level(level)
        .with_target(false)
        .log_internal_errors(false)
        .try_init()
        .is_ok()
}

/// Opens today's file. The appender would wait for the reader of a pipe and follow a link, and it prunes on every
/// start, today's file included: both are decided here.
fn open(folder: &Path, most: usize) -> std::io::Result<RollingFileAppender> {
    fs::create_dir_all(folder)?;
    let today = File::of(clock::now());
    match fs::symlink_metadata(today.path(folder)) {
        Ok(found) if !found.is_file() => return Err(ErrorKind::InvalidInput.into()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let builder = RollingFileAppender::builder().rotation(Rotation::DAILY);
    let appender = builder.filename_prefix(PREFIX).filename_suffix(SUFFIX).build(folder);
    let appender = appender.map_err(std::io::Error::other)?;
    prune(folder, most, &today);
    Ok(appender)
}

/// Where lines go.
struct Lines {
    appender: Arc<OnceLock<RollingFileAppender>>,
    aside: AsideWriter,
}

/// One line on its way.
struct Line<'a>(&'a Lines);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    /// All of a line counts as taken, whatever becomes of it. One write(2) takes it, so lines of processes never mix;
    /// the rest of a line that a full disk cut would be a line of its own.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let appender = Arc::clone(&self.0.appender);
        let text = log_line::as_written(line);
        let write = move || {
            appender.get().map(|file| file.make_writer().write(text.as_bytes())).transpose()
        };
        self.0.aside.write(write).transpose()?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Its day, as in its name.
    pub day: String,
    /// Whether it is in prose, of an older driver.
    pub is_prose: bool,
    name: String,
}

impl File {
    /// `incloud-disk.YYYY-MM-DD.jsonl` or `.log`, and nothing that merely begins so.
    fn named(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?.strip_prefix('.')?;
        let (day, suffix) = rest.split_once('.')?;
        let is_day =
            day.len() == "YYYY-MM-DD".len() && day.chars().all(|c| c.is_ascii_digit() || c == '-');
        let is_prose = match suffix {
            SUFFIX => false,
            "log" => true,
            _ => return None,
        };
        is_day.then(|| Self { day: day.to_owned(), is_prose, name: name.to_owned() })
    }

    /// `disk.<host>.<user>.log.<LEVEL>.<date>`, as glog names its files: the date is `20261121-035023.812`.
    fn of_predecessor(name: &str) -> Option<Self> {
        let (_, rest) = name.strip_prefix("disk.")?.split_once(".log.")?;
        let (level, date) = rest.split_once('.')?;
        let digits: String = date.chars().filter(char::is_ascii_digit).take(8).collect();
        let day = format!("{}-{}-{}", digits.get(..4)?, digits.get(4..6)?, digits.get(6..8)?);
        let is_level = matches!(level, "INFO" | "WARNING" | "ERROR" | "FATAL");
        is_level.then(|| Self { day, is_prose: true, name: name.to_owned() })
    }

    fn of(at: Millis) -> Self {
        let day = timestamp::day(at);
        Self { name: format!("{PREFIX}.{day}.{SUFFIX}"), day, is_prose: false }
    }

    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.name)
    }
}

/// The files that another maker's driver left in the folder, the oldest first; they are shown, and never removed.
pub fn files_of_predecessor(folder: &Path) -> Vec<File> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<_> = names.filter_map(|name| File::of_predecessor(&name)).collect();
    sort_by(&mut files, Ord::cmp);
    files
}

/// The files of the log, the oldest first: they sort by day.
pub fn files(folder: &Path) -> std::io::Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.extend(entry?.file_name().to_str().and_then(File::named));
    }
    sort_by(&mut files, Ord::cmp);
    Ok(files)
}

/// Removes the oldest files beyond the limit, by the days in their names: a copy changes times.
///
/// Today's file is never removed. Files of days to come are what a clock that was wrong left: they
/// go before all others, the farthest first, or they would be the newest for years.
fn prune(folder: &Path, most: usize, today: &File) {
    let Ok(files) = files(folder) else { return };
    if files.len() <= most {
        return;
    }
    let (mut to_come, past): (Vec<_>, Vec<_>) =
        files.into_iter().filter(|file| file != today).partition(|file| file.day > today.day);
    to_come.reverse();
    let others: Vec<_> = to_come.into_iter().chain(past).collect();
    let too_many = (others.len() + 1).saturating_sub(most.max(1));
    for file in others.iter().take(too_many) {
        let _ = fs::remove_file(file.path(folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(most: usize, names: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let of = |day: &str| format!("{PREFIX}.{day}");
        for name in names {
            fs::write(folder.path().join(of(name)), "x").unwrap();
        }
        let today = File::named(&of("2026-05-05.jsonl")).unwrap();
        prune(folder.path(), most, &today);
        files(folder.path()).unwrap().into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn files_of_days_to_come_go_first_and_todays_stays() {
        let names = ["2026-05-03.log", "2026-05-04.jsonl", "2026-05-05.jsonl", "2031-01-01.log"];
        let future = ["2026-05-05.jsonl", "2027-01-01.jsonl", "2028-01-01.jsonl"];
        let of =
            |days: &[&str]| days.iter().map(|day| format!("{PREFIX}.{day}")).collect::<Vec<_>>();
        assert_eq!(left(4, &names), of(&names));
        assert_eq!(left(3, &names), of(&names[..3]));
        assert_eq!(left(2, &names), of(&names[1..3]));
        assert_eq!(left(1, &names), of(&names[2..3]));
        assert_eq!(left(0, &names), of(&names[2..3]));
        assert_eq!(left(2, &future), of(&future[..2]), "the farthest goes first");
        assert_eq!(left(1, &future), of(&future[..1]));
    }

    #[test]
    fn the_predecessors_files_are_known_and_stay() {
        let name = "disk.node-a.example.root.log.WARNING.20261121-035023.812";
        assert_eq!(File::of_predecessor(name).unwrap().day, "2026-11-21");
        for name in ["disk.INFO", "disk.node-a.root.log.INFO.1", "disk.n.root.log.x.20261121"] {
            assert_eq!(File::of_predecessor(name), None, "{name}");
        }
        assert_eq!(File::named(name), None, "prune removes what this names");
    }

    #[test]
    fn only_whole_names_are_files_of_the_log() {
        for name in [
            "incloud-disk.2026-05-05.jsonl.gz",
            "incloud-disk.log",
            "incloud-disk.2026-05.log",
            "x",
        ] {
            assert_eq!(File::named(name), None, "{name}");
        }
    }
}
