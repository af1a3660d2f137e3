//! The log: one file a day, one JSON object per event, the call's id on every line.
//!
//! What tenants, processes and clouds name as they like stands in it, so nothing is put together
//! by hand: the library quotes, serde reads (`model/log_line.rs`). Files that end in `.log` are of
//! an older driver, in prose, where a name could pass for a line; they are shown, never read.
//!
//! Nothing here can fail a call, or keep it waiting for long: without a log it goes on.

use crate::configuration::{Config, LogLevel};
use crate::host::aside::AsideWriter;
use crate::host::clock;
use crate::host::kept_lines::{Keeping, KeptLines};
pub use crate::host::machine::new_call_id;
use crate::host::worker::late;
use crate::model::report::log_line;
use crate::model::timestamp::{self, Millis};
use nix::fcntl::OFlag;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Files are called `incloud-disk.YYYY-MM-DD.jsonl`, by UTC.
const PREFIX: &str = "incloud-disk";

/// Begins to log. False if it cannot; the call goes on without.
#[must_use]
pub fn start(config: &Config) -> bool {
    let paths = config.paths.clone();
    let place = Place { folder: paths.log_dir, run_dir: paths.run_dir, most: config.log.max_files };
    let lines = if late::is_alone() {
        State::Memory(Memory { place, lines: Vec::new(), has_news: false })
    } else {
        place.on_disk()
    };
    let is_kept = !matches!(lines, State::Nowhere);
    // What this process had in memory is written by its worker.
    let begun_before = std::mem::replace(&mut *state(), lines);
    if !matches!(begun_before, State::Nowhere) {
        return is_kept;
    }
    let level = match config.log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let started = is_kept.then(|| {
        tracing_subscriber::fmt()
            .json()
            .with_span_list(false)
            .with_writer(Lines)
            .with_max_level(level)
            .with_target(false)
            .log_internal_errors(false)
            .try_init()
    });
    started.is_some_and(|started| started.is_ok())
}

/// This process may wait for the log's disk: what was kept in memory is written there first.
pub fn onto_disk() {
    let before = std::mem::replace(&mut *state(), State::Nowhere);
    let State::Memory(Memory { place, lines, .. }) = before else {
        *state() = before;
        return;
    };
    let disk = place.on_disk();
    if let State::Disk(disk) = &disk
        && !lines.is_empty()
    {
        let _ = disk.write(lines);
    }
    *state() = disk;
}

/// Whether something is in memory that belongs on the disk.
#[must_use]
pub fn has_news() -> bool {
    matches!(&*state(), State::Memory(memory) if memory.has_news)
}

/// The call is done, and found all as it should be: its lines stay in memory, as far as there is room.
pub fn keep() {
    let kept = match &mut *state() {
        State::Memory(Memory { place, lines, .. }) => {
            let kept = of_looks(&place.run_dir).keep(lines);
            if kept == Keeping::Yes {
                lines.clear();
            }
            kept
        }
        _ => Keeping::Yes,
    };
    if kept == Keeping::No {
        late::may_hang();
    }
}

/// The lines of calls that only looked, until the next call that writes to the log takes them there.
#[must_use]
pub fn of_looks(run_dir: &Path) -> KeptLines {
    KeptLines::below(run_dir, "looks", "jsonl")
}

/// Where the log is.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    run_dir: PathBuf,
    most: usize,
}

/// Where lines go.
#[derive(Debug)]
enum State {
    Nowhere,
    Memory(Memory),
    Disk(Disk),
}

/// The lines of a call that has no worker.
#[derive(Debug)]
struct Memory {
    place: Place,
    lines: Vec<u8>,
    /// Whether one of them is a warning, or they are too many.
    has_news: bool,
}

/// The file of today, and what writes to it.
#[derive(Debug)]
struct Disk {
    today: Arc<Mutex<Today>>,
    writer: AsideWriter,
}

static STATE: Mutex<State> = Mutex::new(State::Nowhere);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    fn on_disk(self) -> State {
        let Some(writer) = AsideWriter::at(&self.folder, &self.run_dir) else {
            return State::Nowhere;
        };
        let begin = move || {
            let mut today = Today::begin(self.folder, self.most)?;
            if let Some(looks) = of_looks(&self.run_dir).take()
                && today.append(&looks.lines).is_ok()
            {
                looks.are_written();
            }
            Some(today)
        };
        match writer.write(begin) {
            Some(Some(today)) => State::Disk(Disk { today: Arc::new(Mutex::new(today)), writer }),
            _ => State::Nowhere,
        }
    }
}

impl Disk {
    fn write(&self, lines: Vec<u8>) -> std::io::Result<()> {
        let today = Arc::clone(&self.today);
        let append = move || {
            let mut today = today.lock().unwrap_or_else(PoisonError::into_inner);
            today.append(&lines)
        };
        self.writer.write(append).unwrap_or(Ok(()))
    }
}

/// Where lines go: into the file of the day that it is now, also after the clock was set back.
#[derive(Debug)]
struct Today {
    folder: PathBuf,
    day: File,
    open: fs::File,
}

impl Today {
    fn begin(folder: PathBuf, most: usize) -> Option<Self> {
        fs::create_dir_all(&folder).ok()?;
        let day = File::of(clock::now());
        let open = open(&day.path(&folder)).ok()?;
        prune(&folder, most, &day);
        Some(Self { folder, day, open })
    }

    /// One write(2) for all: calls that log at the same time never mix. The rest of a line that a full
    /// disk cut would stand there as a line of its own: it is not written.
    fn append(&mut self, lines: &[u8]) -> std::io::Result<()> {
        let now = File::of(clock::now());
        if self.day != now {
            self.open = open(&now.path(&self.folder))?;
            self.day = now;
        }
        self.open.write(lines).map(drop)
    }
}

/// The lines of this process.
#[derive(Debug)]
struct Lines;

/// One line on its way.
struct Line {
    is_warning: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { is_warning: true }
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Line {
        Line { is_warning: *meta.level() <= tracing::Level::WARN }
    }
}

impl Write for Line {
    /// All of a line counts as taken, whatever becomes of it.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        /// More than a call has to say that finds all as it should be.
        const MOST: usize = 32 << 10;
        let text = log_line::as_written(line);
        match &mut *state() {
            State::Nowhere => {}
            State::Memory(memory) => {
                memory.lines.extend_from_slice(&text);
                memory.has_news |= self.is_warning || memory.lines.len() > MOST;
            }
            State::Disk(disk) => disk.write(text.into_owned())?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Opens a file to append to it. Opening a pipe would wait for its reader, and a link leads
/// anywhere: neither is ours.
fn open(path: &Path) -> std::io::Result<fs::File> {
    const FLAGS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);
    let mut options = fs::OpenOptions::new();
    let file = options.append(true).create(true).custom_flags(FLAGS.bits()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(std::io::ErrorKind::InvalidInput.into()) }
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
            "jsonl" => false,
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
        Self { name: format!("{PREFIX}.{day}.jsonl"), day, is_prose: false }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.name)
    }
}

/// The files that another maker's driver left in the folder, the oldest first; they are shown, and never removed.
#[must_use]
pub fn files_of_predecessor(folder: &Path) -> Vec<File> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<_> = names.filter_map(|name| File::of_predecessor(&name)).collect();
    files.sort();
    files
}

/// The files of the log, the oldest first: they sort by day.
pub fn files(folder: &Path) -> std::io::Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.extend(entry?.file_name().to_str().and_then(File::named));
    }
    files.sort();
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
