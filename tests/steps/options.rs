//! What the command line says.

use super::trace::Point;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Options {
    pub until: Instant,
    part: (u64, u64),
    only: Vec<String>,
    /// The first failure ends it.
    pub is_first: bool,
    /// What alone happens, such as `SIGTERM`.
    kind: Option<String>,
    /// Everything at every point, not a choice of them.
    pub is_every: bool,
    /// Where the trials are noted that came to a good end: they are not played again.
    pub done: Option<PathBuf>,
    pub report: Option<PathBuf>,
}

impl Options {
    pub fn of(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut minutes = 5.0;
        let mut options = Self {
            until: Instant::now(),
            part: (1, 1),
            only: Vec::new(),
            is_first: false,
            kind: None,
            is_every: false,
            done: None,
            report: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--minutes" => minutes = value()?.parse().map_err(|_| "minutes are a number")?,
                "--part" => {
                    let text = value()?;
                    let part = text
                        .split_once('/')
                        .and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
                    let part = part.filter(|(n, m): &(u64, u64)| *n >= 1 && n <= m);
                    options.part = part.ok_or("--part is such as 1/4")?;
                }
                "--first" => options.is_first = true,
                "--kind" => options.kind = Some(value()?),
                "--every" => options.is_every = true,
                "--only" => options.only.push(value()?),
                "--done" => options.done = Some(value()?.into()),
                "--report" => options.report = Some(value()?.into()),
                // What cargo hands on.
                _ => {}
            }
        }
        options.until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
        Ok(options)
    }

    /// The points that were found before, beside the list of what is done: to find them again takes
    /// minutes.
    fn points_file(&self) -> Option<PathBuf> {
        let done = self.done.as_ref()?;
        let suffix = if self.is_every { "all-points" } else { "points" };
        Some(PathBuf::from(format!("{}.{suffix}", done.display())))
    }

    /// Each with its play.
    pub fn kept_points(&self) -> Vec<(String, Point)> {
        let text = self.points_file().and_then(|path| fs::read_to_string(path).ok());
        let text = text.unwrap_or_default();
        let points = text.lines().filter_map(|line| {
            let (play, point) = line.split_once('\t')?;
            Some((play.to_owned(), Point::of_line(point)?))
        });
        points.collect()
    }

    pub fn keep_points(&self, play: &str, points: &[Point]) {
        let Some(path) = self.points_file() else { return };
        let mut lines = String::new();
        for point in points {
            lines += &format!("{play}\t{}\n", point.line());
        }
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(lines.as_bytes())).expect("the list of points");
    }

    /// Whether a play has trials that are meant.
    pub fn means(&self, play: &str) -> bool {
        let is_in = |only: &String| only.starts_with(play) || play.starts_with(only.as_str());
        self.only.is_empty() || self.only.iter().any(is_in)
    }

    /// Whether `--only` names it.
    fn names(&self, name: &str) -> bool {
        self.only.iter().any(|only| name.starts_with(only.as_str()))
    }

    /// Whether a trial is meant, and of this part.
    pub fn is_ours(&self, hash: u64, trial: &str, kind: &str) -> bool {
        if self.kind.as_ref().is_some_and(|wanted| wanted != kind) {
            return false;
        }
        let (n, m) = self.part;
        hash / 64 % m == n - 1 && (self.only.is_empty() || self.names(trial))
    }
}
