//! kubelet's own log: the journal, or a file. It is another program's, of any length, so all that reads it is
//! bounded, and reads the newest part first.

use super::{files, tool};
use crate::failpoints;
use crate::model::error::{Error, Kind, Result};
use crate::model::report::kubelet_line::{KubeletLine, UNITS, of_file, of_journal};
use crate::model::timestamp::Millis;
use crate::ports::clock::{self, Deadline};
use crate::zone::LOCAL;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long all of the reading may take.
const TIME: Duration = Duration::from_secs(2);

/// So much is read of it at most.
const BYTES: u64 = 64 << 20;

/// So many lines are kept at most.
const LINES: usize = 20_000;

/// Longer lines are left out: kubelet quotes what a program printed.
const LONGEST: usize = 256 << 10;

/// A file is read in pieces of this size.
const BLOCK: u64 = 1 << 20;

/// How a file of gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// So near the search by time comes to a moment.
const NEAR: u64 = 64 << 10;

/// Where kubelet's log is.
#[derive(Debug)]
pub enum KubeletLog {
    Journal,
    /// In this file of this length.
    File(PathBuf, File, u64),
}

/// What of the log may still be read.
#[derive(Debug)]
pub struct Bounds {
    deadline: Deadline,
    bytes: u64,
    lines: usize,
}

/// What was read of a span of time.
#[derive(Debug, Default)]
pub struct Span {
    /// The lines that were asked for, in the order of time.
    pub lines: Vec<KubeletLine>,
    /// How many lines were seen.
    pub seen: usize,
    /// The moment before which nothing was read, if a bound ended the reading.
    pub unread_before: Option<Millis>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { deadline: Deadline::after(TIME), bytes: BYTES, lines: LINES }
    }
}

impl Bounds {
    /// Whether nothing more may be read.
    pub fn are_used_up(&self) -> bool {
        self.bytes == 0 || self.lines == 0 || self.deadline.over()
    }

    fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

impl KubeletLog {
    /// The journal, or the file that a person names.
    pub fn of(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::Journal) };
        let wrong = |error: std::io::Error| match error.kind() {
            ErrorKind::InvalidInput => {
                Error::bad_call(format!("{} is not a regular file", path.display()))
            }
            _ => Error::io(format!("read {}", path.display()), &error),
        };
        // klog's name for the newest file is a link.
        let real = fs::canonicalize(path).map_err(wrong)?;
        let file = files::open_regular(&real).map_err(wrong)?;
        let length = file.metadata().map_err(wrong)?.len();
        if block(&file, 0, GZIP.len() as u64).map_err(wrong)? == GZIP {
            let name = path.display();
            return Err(Error::bad_call(format!("{name} is compressed"))
                .hint(format!("unpack it first: zcat {name} >kubelet.log")));
        }
        Ok(Self::File(path.to_owned(), file, length))
    }

    /// Reads the lines from one moment to another that are wanted. An error if there is no log, or it may not be
    /// read.
    pub fn read(
        &self,
        span: (Millis, Millis),
        bounds: &mut Bounds,
        wanted: &mut dyn FnMut(&KubeletLine) -> bool,
    ) -> Result<Span> {
        match self {
            Self::Journal => of_the_journal(span, bounds, wanted),
            Self::File(path, file, length) => of_the_file(file, *length, span, bounds, wanted)
                .map_err(|error| Error::io(format!("read {}", path.display()), &error)),
        }
    }
}

fn of_the_journal(
    (from, to): (Millis, Millis),
    bounds: &mut Bounds,
    wanted: &mut dyn FnMut(&KubeletLine) -> bool,
) -> Result<Span> {
    let program = match failpoints::wish("INCLOUD_DISK_JOURNALCTL") {
        Some(path) => PathBuf::from(path),
        None => tool::locate("journalctl")?,
    };
    let since = format!("--since=@{}", from / 1000);
    let until = format!("--until=@{}", to / 1000 + 1);
    let units: Vec<_> = UNITS.iter().map(|unit| format!("--unit={unit}")).collect();
    // Not --grep, nor --output-fields: systemd 219 has neither.
    let mut arguments = vec!["--output=json", "--all", "--no-pager", "--reverse", &since, &until];
    arguments.extend(units.iter().map(String::as_str));
    let mut span = Span::default();
    let mut oldest = to;
    let mut said = Vec::new();
    let deadline = bounds.deadline;
    let end = tool::lines(&program, &arguments, LONGEST, deadline, |record| {
        match of_journal(record) {
            Some(line) => {
                oldest = line.at;
                span.take(line, (from, to), bounds, wanted);
            }
            None if said.len() < 2 && !record.starts_with(b"--") && !record.starts_with(b"{") => {
                said.push(String::from_utf8_lossy(record).into_owned());
            }
            None => {}
        }
        bounds.spend(record.len());
        !bounds.are_used_up()
    })?;
    if end == tool::LinesEnd::Late && span.seen == 0 {
        let seconds = deadline.total().as_secs();
        let late = format!("journalctl did not answer within {seconds} s");
        return Err(Error::new(Kind::Timeout, late));
    }
    if span.seen == 0 && !said.is_empty() {
        let said = said.join(" ");
        let said = format!("journalctl said: {}", said.trim_end_matches('.'));
        return Err(Error::new(Kind::Host, said));
    }
    span.lines.reverse();
    span.unread_before = (!matches!(end, tool::LinesEnd::All(_))).then_some(oldest);
    Ok(span)
}

impl Span {
    fn take(
        &mut self,
        line: KubeletLine,
        (from, to): (Millis, Millis),
        bounds: &mut Bounds,
        wanted: &mut dyn FnMut(&KubeletLine) -> bool,
    ) {
        if (from..=to).contains(&line.at) {
            self.seen += 1;
            if wanted(&line) {
                bounds.lines = bounds.lines.saturating_sub(1);
                self.lines.push(line);
            }
        }
    }
}

fn of_the_file(
    file: &File,
    length: u64,
    (from, to): (Millis, Millis),
    bounds: &mut Bounds,
    wanted: &mut dyn FnMut(&KubeletLine) -> bool,
) -> std::io::Result<Span> {
    let now = clock::now();
    let begin = place_of(file, length, from, now)?.0;
    let mut end = length.min(place_of(file, length, to + 1, now)?.1 + NEAR);
    let mut all = Span::default();
    let mut blocks = Vec::new();
    let mut oldest = to;
    while end > begin {
        if bounds.are_used_up() {
            all.unread_before = Some(oldest);
            break;
        }
        let at = begin.max(end.saturating_sub(BLOCK));
        let text = block(file, at, end)?;
        bounds.spend(text.len());
        // The first line may have lost its beginning: it is read with the block before.
        let next = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1);
        let whole = if at == 0 { 0 } else { next };
        let mut read = Span::default();
        for line in text[whole..].split(|byte| *byte == b'\n').filter(|l| l.len() <= LONGEST) {
            if let Some(line) = of_file(&String::from_utf8_lossy(line), LOCAL, now) {
                oldest = oldest.min(line.at);
                read.take(line, (from, to), bounds, wanted);
            }
        }
        all.seen += read.seen;
        blocks.push(read.lines);
        // A line that is longer than a block is left out.
        let is_cut = at == begin || whole == text.len();
        end = if is_cut { at } else { at + whole as u64 };
    }
    all.lines = blocks.into_iter().rev().flatten().collect();
    Ok(all)
}

/// Two places, near each other: before the first is nothing of this moment or later, and from the second on
/// nothing that is earlier. A log is in the order of time.
fn place_of(file: &File, length: u64, moment: Millis, now: Millis) -> std::io::Result<(u64, u64)> {
    let (mut low, mut high) = (0, length);
    while high - low > NEAR {
        let middle = low + (high - low) / 2;
        match first_moment(file, middle, high, now)? {
            Some(at) if at < moment => low = middle,
            _ => high = middle,
        }
    }
    Ok((low, high))
}

/// The moment of the first whole line behind a place.
fn first_moment(file: &File, at: u64, end: u64, now: Millis) -> std::io::Result<Option<Millis>> {
    let text = block(file, at, end.min(at + BLOCK))?;
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    let mut lines = lines.map(String::from_utf8_lossy);
    Ok(lines.find_map(|line| of_file(&line, LOCAL, now)).map(|line| line.at))
}

fn block(file: &File, at: u64, end: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end - at).unwrap_or_default()];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], at + length as u64) {
            // It was cut meanwhile.
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
