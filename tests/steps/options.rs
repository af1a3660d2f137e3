//! What the command line says.

use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Options {
    pub until: Instant,
    part: (u64, u64),
    only: Vec<String>,
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

    /// Whether a play has trials that are meant.
    pub fn means(&self, play: &str) -> bool {
        let is_in = |only: &String| only.starts_with(play) || play.starts_with(only.as_str());
        self.only.is_empty() || self.only.iter().any(is_in)
    }

    /// Whether a trial is meant, and of this part.
    pub fn is_ours(&self, hash: u64, trial: &str) -> bool {
        let (n, m) = self.part;
        let is_meant = |only: &String| trial.starts_with(only.as_str());
        hash / 64 % m == n - 1 && (self.only.is_empty() || self.only.iter().any(is_meant))
    }
}
