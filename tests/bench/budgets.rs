//! The budgets: what each figure may be. A budget of time that is missed is told, and is no failure.

use crate::figures::{Counts, Figures, Row, difference, growth, ratio, size_of, spread};

/// What a figure is made of; rows by group and name.
#[derive(Debug, Clone, Copy)]
pub enum Of {
    /// The first row's time, in times of the second's.
    Times(&'static str, &'static str, &'static str),
    /// What the first row takes longer than the second, in milliseconds.
    Longer(&'static str, &'static str, &'static str),
    Milliseconds(&'static str, &'static str),
    Count(&'static str, &'static str, Which),
    /// How the time of processors grows with the size, over the two largest sizes of the rows whose names have this word.
    Growth(&'static str, &'static str),
    /// The largest of all calls, in crowds too.
    LargestMemory,
    Megabytes(&'static str, &'static str),
    Requests(&'static str, &'static str),
    Logins(&'static str, &'static str),
}

#[derive(Debug, Clone, Copy)]
pub enum Which {
    SystemCalls,
    Threads,
    Children,
    Faults,
    OpenedAgain,
}

#[derive(Debug, Clone, Copy)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Debug)]
pub struct Budget {
    pub what: &'static str,
    pub of: Of,
    pub bound: Bound,
    pub unit: &'static str,
}

const fn at_most(what: &'static str, of: Of, most: f64, unit: &'static str) -> Budget {
    Budget { what, of, bound: Bound::AtMost(most), unit }
}

const FLOOR: &str = "an empty static C program";
const ALREADY: &str = "mountdevice, already so";

use Of::{Count, Growth, LargestMemory, Logins, Longer, Megabytes, Milliseconds, Requests, Times};
use Which::{Children, Faults, OpenedAgain, SystemCalls, Threads};

/// All of them.
#[rustfmt::skip]
pub const BUDGETS: &[Budget] = &[
    at_most("init", Times("calls", "init", FLOOR), 1.25, "x the floor"),
    at_most("init with libudev", Times("calls", "init, with libudev", FLOOR), 2.0, "x the floor"),
    at_most("init: system calls", Count("calls", "init", SystemCalls), 44.0, ""),
    at_most("init: threads beside the first", Count("calls", "init", Threads), 0.0, ""),
    at_most("init: page faults", Count("calls", "init", Faults), 100.0, ""),
    at_most("isattached of a right volume", Times("calls", "isattached", FLOOR), 2.0, "x the floor"),
    at_most("isattached: children", Count("calls", "isattached", Children), 1.0, ""),
    at_most("isattached: threads beside the first", Count("calls", "isattached", Threads), 1.0, ""),
    at_most("isattached: files opened again", Count("calls", "isattached", OpenedAgain), 0.0, ""),
    at_most("waitforattach of a right volume", Times("calls", "waitforattach", FLOOR), 2.0, "x the floor"),
    at_most("waitforattach: children", Count("calls", "waitforattach", Children), 1.0, ""),
    at_most("waitforattach: threads beside the first", Count("calls", "waitforattach", Threads), 1.0, ""),
    at_most("waitforattach: files opened again", Count("calls", "waitforattach", OpenedAgain), 0.0, ""),
    at_most("mountdevice of a mounted volume", Times("calls", ALREADY, FLOOR), 2.0, "x the floor"),
    at_most("mountdevice, already so: children", Count("calls", ALREADY, Children), 1.0, ""),
    at_most("mountdevice, already so: threads beside the first", Count("calls", ALREADY, Threads), 1.0, ""),
    at_most("mountdevice, already so: files opened again", Count("calls", ALREADY, OpenedAgain), 0.0, ""),
    at_most("mountdevice of a clean ext4", Longer("mounts", "ext4: mountdevice", "ext4: mount(2) alone"), 1.0, "ms more than mount(2)"),
    Budget {
        what: "the three tools for a clean ext4",
        of: Times("mounts", "ext4: blkid, fsck -a, mount by hand", "ext4: mountdevice"),
        bound: Bound::AtLeast(7.0),
        unit: "x mountdevice",
    },
    at_most("attach: requests, up to three looks among them", Requests("cloud", "attach"), 9.0, ""),
    at_most("detach: requests, up to two looks among them", Requests("cloud", "detach"), 7.0, ""),
    at_most("attach of an attached volume: requests", Requests("cloud", "attach, already so"), 1.0, ""),
    at_most("200 isattached at once: logins", Logins("cloud", "200 isattached at once"), 1.0, ""),
    at_most("200 isattached of one volume at once: requests", Requests("cloud", "200 isattached of one volume at once"), 20.0, ""),
    at_most("a call with a page of metrics", Times("looking", "a call with metrics", "a call without metrics"), 1.05, "x without"),
    at_most("a disk is seen after the kernel's event", Milliseconds("devices", "this driver: events"), 1.0, "ms"),
    at_most("guard, from processes to processes", Growth("guard", "processes"), 1.15, "(1: in proportion)"),
    at_most("guard, from containers to containers", Growth("guard", "containers"), 1.15, "(1: in proportion)"),
    at_most("guard, from mounts to mounts", Growth("guard", "mounts"), 1.15, "(1: in proportion)"),
    at_most("heal, from processes to processes", Growth("heal", "processes"), 1.15, "(1: in proportion)"),
    at_most("heal, from containers to containers", Growth("heal", "containers"), 1.15, "(1: in proportion)"),
    at_most("heal, from mounts to mounts", Growth("heal", "mounts"), 1.15, "(1: in proportion)"),
    at_most("guard, 500 processes", Times("guard", "500 processes", "500 processes, before"), 0.5, "x before"),
    at_most("guard, 500 containers", Times("guard", "500 containers", "500 containers, before"), 0.5, "x before"),
    at_most("heal, 500 processes", Times("heal", "500 processes", "500 processes, before"), 0.5, "x before"),
    at_most("heal, 500 containers", Times("heal", "500 containers", "500 containers, before"), 0.5, "x before"),
    at_most("status of 100 volumes", Milliseconds("looking", "status of 100 volumes"), 30.0, "ms"),
    at_most("the most memory of a call", LargestMemory, 8192.0, "KiB"),
    at_most("the static program", Megabytes("size", "static program"), 5.5, "MB"),
];

/// What became of a budget.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Held(f64),
    Missed(f64),
    /// It was not measured in this run.
    Unknown,
}

impl Budget {
    pub fn verdict(&self, figures: &Figures) -> Verdict {
        let Some(found) = self.of.found(figures) else { return Verdict::Unknown };
        let is_held = match self.bound {
            Bound::AtMost(most) => found <= most,
            Bound::AtLeast(least) => found >= least,
        };
        if is_held { Verdict::Held(found) } else { Verdict::Missed(found) }
    }
}

impl Of {
    #[allow(clippy::cast_precision_loss, reason = "counts of a call are small")]
    fn found(self, figures: &Figures) -> Option<f64> {
        let times = |group, name| figures.row(group, name).map(|row| row.times.as_slice());
        match self {
            Times(group, one, other) => {
                ratio(times(group, one)?, times(group, other)?).map(|found| found.middle)
            }
            Longer(group, one, other) => {
                difference(times(group, one)?, times(group, other)?).map(|found| found.middle)
            }
            Milliseconds(group, name) => spread(times(group, name)?).map(|found| found.middle),
            Count(group, name, which) => {
                let counts = figures.row(group, name)?.counts.as_ref()?;
                which.among(counts).map(|count| count as f64)
            }
            Growth(group, word) => {
                let mut sizes = sizes(figures, group, word);
                let (large, small) = (sizes.pop()?, sizes.pop()?);
                Some(growth(small, large))
            }
            LargestMemory => {
                // kubelet's calls, by this driver; what people call is no process of every minute.
                let is_ours = |row: &&Row| {
                    ["memory", "guard", "heal"].contains(&row.group.as_str())
                        && !row.name.contains(", before")
                        && !row.name.contains(", with libudev")
                };
                let ours = figures.rows.iter().filter(is_ours);
                let all = ours.filter_map(|row| row.counts.as_ref()?.memory_kib);
                all.max().map(|most| most as f64)
            }
            Megabytes(group, name) => {
                figures.row(group, name)?.bytes.map(|bytes| bytes as f64 / 1e6)
            }
            Requests(group, name) => figures.row(group, name)?.requests.map(|count| count as f64),
            Logins(group, name) => figures.row(group, name)?.logins.map(|count| count as f64),
        }
    }
}

impl Which {
    fn among(self, counts: &Counts) -> Option<u64> {
        match self {
            SystemCalls => counts.system_calls,
            Threads => counts.threads,
            Children => counts.children,
            Faults => counts.faults,
            OpenedAgain => counts.opened_again,
        }
    }
}

/// Sizes of this driver's rows that are named by a number of these, and the median time of processors that each takes,
/// which other work on the machine changes little. The smallest first.
fn sizes(figures: &Figures, group: &str, word: &str) -> Vec<(f64, f64)> {
    let rows = figures.rows.iter().filter(|row| row.group == group && row.name.ends_with(word));
    let mut found: Vec<_> =
        rows.filter_map(|row| Some((size_of(&row.name)?, spread(&row.work)?.middle))).collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    found
}
