//! The table for people.

use crate::budgets::{BUDGETS, Bound, Budget, Verdict};
use crate::figures::{Counts, Figures, Machine, Row, Spread, ratio, spread};
use std::fmt::Write;
use std::fs;
use std::time::Duration;

/// What a group is about, and what its ratios are to.
const TITLES: [(&str, &str); 9] = [
    ("size", "programs"),
    ("calls", "calls that only answer or find all right; x: times an empty static C program"),
    ("mounts", "mounting a clean file system of 1 GiB; x: times mountdevice"),
    ("memory", "memory of each call"),
    ("devices", "from the kernel's event of a new disk to the answer;finding one disk"),
    ("looking", "metrics, and what people call"),
    ("guard", "unmountdevice that is refused, in a crowd"),
    ("heal", "attach that heals, in a crowd"),
    ("cloud", "the cloud, with the times of real services"),
];

const NAME: usize = 44;

pub fn text(figures: &Figures) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", figures.machine.told());
    for (group, title) in TITLES {
        let rows: Vec<_> = figures.rows.iter().filter(|row| row.group == group).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{title}");
        let _ = writeln!(
            out,
            "  {:<NAME$} {:>9} {:>8} {:>7} {:>14} {:>6} {:>6} {:>7} {:>8} {:>5} {:>5} {:>5} {:>5}",
            "",
            "ms",
            "work ms",
            "x",
            "middle half",
            "calls",
            "faults",
            "KiB",
            "read",
            "again",
            "child",
            "thr.",
            "req."
        );
        for row in rows {
            out.push_str(&line(figures, row));
        }
    }
    out.push_str(&budgets(figures));
    out
}

fn line(figures: &Figures, row: &Row) -> String {
    if let Some(why) = &row.not_here {
        return format!("  {:<NAME$} not here: {why}\n", row.name);
    }
    let beside = row.beside.as_ref().and_then(|name| figures.row(&row.group, name));
    let against = beside.and_then(|other| ratio(&row.times, &other.times));
    let (times, around) = against.map_or((String::new(), String::new()), |found| {
        (format!("{:.2}", found.middle), half(found))
    });
    let median = |values: &[f64]| {
        spread(values).map_or(String::new(), |found| format!("{:.2}", found.middle))
    };
    let none = Counts::default();
    let counts = row.counts.as_ref().unwrap_or(&none);
    let count = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let size = row.bytes.map_or(String::new(), |bytes| {
        #[allow(clippy::cast_precision_loss, reason = "for people")]
        let megabytes = bytes as f64 / 1e6;
        format!(" {megabytes:.2} MB")
    });
    let line = format!(
        "  {:<NAME$} {:>9} {:>8} {:>7} {:>14} {:>6} {:>6} {:>7} {:>8} {:>5} {:>5} {:>5} {:>5}{size}",
        row.name,
        median(&row.times),
        median(&row.work),
        times,
        around,
        count(counts.system_calls),
        count(counts.faults),
        count(counts.memory_kib),
        count(counts.bytes_read),
        count(counts.opened_again),
        count(counts.children),
        count(counts.threads),
        count(row.requests),
    );
    format!("{}\n", line.trim_end())
}

fn half(found: Spread) -> String {
    format!("{:.2} to {:.2}", found.low, found.high)
}

fn budgets(figures: &Figures) -> String {
    let mut out = String::from("\nbudgets\n");
    let (mut held, mut missed, mut unknown) = (0, 0, 0);
    for budget in BUDGETS {
        let (found, verdict) = match budget.verdict(figures) {
            Verdict::Held(found) => {
                held += 1;
                (number(found), "held")
            }
            Verdict::Missed(found) => {
                missed += 1;
                (number(found), "MISSED")
            }
            Verdict::Unknown => {
                unknown += 1;
                (String::new(), "not measured")
            }
        };
        let _ = writeln!(
            out,
            "  {:<52} {:>10} {:<22} {:>9}  {verdict}",
            budget.what,
            bound(budget),
            budget.unit,
            found
        );
    }
    let _ =
        writeln!(out, "\n{held} budgets held, {missed} missed, {unknown} not measured in this run");
    out
}

fn bound(budget: &Budget) -> String {
    match budget.bound {
        Bound::AtMost(most) => format!("<= {}", number(most)),
        Bound::AtLeast(least) => format!(">= {}", number(least)),
    }
}

/// Two digits where they say something.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

impl Machine {
    /// Looks at what it is.
    pub fn look(&mut self) {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        self.kernel = text("/proc/sys/kernel/osrelease").trim().to_owned();
        let about = text("/proc/cpuinfo");
        let model =
            about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        self.processor = model.map_or("unknown", |(_, name)| name).to_owned();
        self.cores = std::thread::available_parallelism().map_or(0, usize::from);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let is_process =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().is_ok();
        self.processes = entries.filter(is_process).count();
        self.load.push(load());
    }

    /// Looks what became of it.
    pub fn look_again(&mut self, took: Duration) {
        self.load.push(load());
        self.wall_seconds = took.as_secs_f64();
    }

    fn told(&self) -> String {
        let loads: Vec<_> = self.load.iter().map(|load| format!("{load:.1}")).collect();
        format!(
            "{} cores ({}), Linux {}, {} processes, load {}; {:.0} s\n\
             medians; `x` is a ratio of medians of rounds in turn, beside it the middle half of the rounds",
            self.cores,
            self.processor,
            self.kernel,
            self.processes,
            loads.join(" to "),
            self.wall_seconds
        )
    }
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or_default()
}
