//! What the harness is told, and what it tells.

use crate::play::Tally;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Options {
    pub time: Duration,
    pub seed: u64,
    pub steps: usize,
    pub volumes: usize,
    /// Histories at a time.
    pub jobs: usize,
    pub shrink: Duration,
    pub replay: Option<String>,
    pub report: Option<PathBuf>,
    pub orders: bool,
    pub only: Option<String>,
    pub part: (usize, usize),
}

impl Options {
    pub fn read() -> Result<Self, String> {
        let mut options = Self {
            time: Duration::from_secs(180),
            seed: 1,
            steps: 40,
            volumes: 2,
            jobs: 3,
            shrink: Duration::from_secs(120),
            replay: None,
            report: None,
            orders: false,
            only: None,
            part: (1, 1),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let number = |text: String| {
                text.parse::<f64>().map_err(|_| format!("{word} needs a number, not {text}"))
            };
            let whole = |text: String| {
                text.parse().map_err(|_| format!("{word} needs a number, not {text}"))
            };
            let count = |text: String| {
                text.parse().map_err(|_| format!("{word} needs a number, not {text}"))
            };
            match word.as_str() {
                "--minutes" => options.time = Duration::from_secs_f64(number(value()?)? * 60.0),
                "--shrink" => options.shrink = Duration::from_secs_f64(number(value()?)? * 60.0),
                "--seed" => options.seed = whole(value()?)?,
                "--steps" => options.steps = count(value()?)?,
                "--volumes" => options.volumes = usize::clamp(count(value()?)?, 1, 64),
                "--jobs" => options.jobs = count(value()?)?,
                "--replay" => options.replay = Some(value()?),
                "--report" => options.report = Some(value()?.into()),
                "--orders" => options.orders = true,
                "--only" => options.only = Some(value()?),
                "--part" => {
                    let text = value()?;
                    let part = text.split_once('/');
                    let part = part.and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
                    let part = part.filter(|(n, m): &(usize, usize)| *n >= 1 && n <= m);
                    options.part = part.ok_or("--part is such as 1/4")?;
                }
                // What cargo hands on.
                _ => {}
            }
        }
        Ok(options)
    }
}

/// What was played, as a table.
pub fn table(tally: &Tally, time: Duration) -> String {
    let mut rows: BTreeMap<_, BTreeMap<&str, u64>> = BTreeMap::new();
    for ((action, how), count) in &tally.ends {
        rows.entry(*action).or_default().insert(how, *count);
    }
    let calls: u64 = rows.iter().filter(|(a, _)| a.is_call()).flat_map(|(_, r)| r.values()).sum();
    let faults: u64 =
        rows.iter().filter(|(a, _)| !a.is_call()).filter_map(|(_, r)| r.get("done")).sum();
    let mut text = format!(
        "{} histories, {} steps, {calls} calls, {faults} other events, {} min\n\n",
        tally.histories,
        tally.steps,
        time.as_secs().div_ceil(60)
    );
    text += "| event | success | failure | killed | done | not possible |\n| --- | --- | --- | --- | --- | --- |\n";
    for (action, row) in rows {
        let _ = write!(text, "| {action:?} |");
        for how in ["success", "failure", "killed", "done", "not possible"] {
            let _ = write!(text, " {} |", row.get(how).map_or(String::new(), u64::to_string));
        }
        text.push('\n');
    }
    text
}

/// Writes the table between the marks of a page.
pub fn report(path: &Path, tally: &Tally, time: Duration) {
    write_between(path, "histories", &table(tally, time));
}

pub fn write_between(path: &Path, name: &str, text: &str) {
    let (begin, end) = (format!("<!-- {name} -->"), format!("<!-- end of {name} -->"));
    let page = fs::read_to_string(path).expect("the page");
    let (before, rest) = page.split_once(&begin).expect("the mark of the table's begin");
    let (_, after) = rest.split_once(&end).expect("the mark of the table's end");
    fs::write(path, format!("{before}{begin}\n{text}\n{end}{after}")).expect("the page");
}
