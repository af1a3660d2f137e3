//! What happened to a volume over time, sorted into lanes: marks for what happened at a moment, bars for
//! which disk it had and which pods had it.

use crate::sorting::sort_by_key;
use crate::timestamp::{self, Millis};
use std::collections::BTreeMap;

/// Something that happened to a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    pub at: Millis,
    /// When it happened last, if more than once.
    pub until: Option<Millis>,
    pub count: u64,
    pub sign: Sign,
    pub shift: Shift,
    /// The kernel's name of the disk that was worked on.
    pub disk: Option<String>,
    /// The pod, by the name that people know.
    pub pod: Option<String>,
    /// The call or verb, in a word.
    pub what: String,
    /// All of it, as a sentence.
    pub text: String,
}

/// What a mark shows, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sign {
    /// A call that was done, or found it so.
    Done,
    /// Something that is worth knowing.
    Note,
    /// A word of kubelet.
    Kubelet,
    /// A call whose end is not known.
    Open,
    /// A call that failed.
    Failed,
    /// A refusal that ended.
    NoLongerRefused,
    /// A refusal.
    Refused,
    Healed,
    /// A heal that failed.
    NotHealed,
    /// Something that is worth knowing of what the kernel said.
    KernelNote,
    /// A word of the kernel.
    Kernel,
}

/// What a happening changes of who has what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// Nothing; a disk that it names was there.
    None,
    /// The disk is there from now on.
    Arrives,
    /// The kernel's word that the disk has ended.
    Ends,
    /// The volume left the machine.
    Leaves,
    /// The pod gets the volume.
    PodGets,
    PodLoses,
    AllPodsLose,
}

/// How it is at the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Present {
    pub disk: PresentDisk,
    /// The pods that have it, by all names that each has; the first is shown.
    pub pods: Vec<Vec<String>>,
}

/// Where the disk is at the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PresentDisk {
    Here(String),
    /// Mounts stand on one that is gone.
    Gone,
    /// That was not seen, or none is wanted.
    #[default]
    Unknown,
}

/// The lanes, from the top.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// Calls and verbs.
    Calls,
    /// Tear-downs that were refused.
    Refusals,
    /// Which disk it had.
    Disk,
    Heals,
    Pod(String),
    /// What kubelet said.
    Kubelet,
    /// What the kernel said.
    Kernel,
}

impl LaneKind {
    /// What people call it.
    pub fn label(&self) -> &str {
        match self {
            Self::Calls => "calls",
            Self::Refusals => "refusals",
            Self::Disk => "disk",
            Self::Heals => "heals",
            Self::Pod(name) => name,
            Self::Kubelet => "kubelet",
            Self::Kernel => "kernel",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeLane {
    pub kind: LaneKind,
    /// Moments, in the order of time.
    pub marks: Vec<LaneMark>,
    pub bars: Vec<LaneBar>,
}

/// A moment on a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMark {
    pub at: Millis,
    /// When last.
    pub until: Option<Millis>,
    pub count: u64,
    pub sign: Sign,
    /// The call or verb, in a word.
    pub what: String,
    pub text: String,
}

/// A span on a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneBar {
    /// The disk, or the pod.
    pub label: String,
    pub from: Millis,
    /// Until when, or as long as it was seen.
    pub until: Millis,
    /// Whether it began before that was seen.
    pub is_from_before: bool,
    pub end: BarEnd,
    /// Whether the disk was gone, and not there.
    pub is_gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarEnd {
    /// Something that was seen ended it.
    Seen,
    /// It goes on.
    Now,
    /// That was not seen.
    Unknown,
}

impl LaneBar {
    /// The span in words.
    pub fn told(&self) -> String {
        let before = if self.is_from_before { "before " } else { "" };
        let until = match self.end {
            BarEnd::Seen => format!("until {}", timestamp::text(self.until)),
            BarEnd::Now => "until now".to_owned(),
            BarEnd::Unknown => {
                format!("seen until {}, its end is not known", timestamp::text(self.until))
            }
        };
        format!("{} from {before}{} {until}", self.label, timestamp::text(self.from))
    }
}

/// The label of a span in which the disk was lost.
pub const GONE: &str = "gone";

/// Sorts what happened between two moments into lanes. What happened before tells what was so at the
/// first one.
pub fn lanes(
    mut happenings: Vec<Happening>,
    (begin, end): (Millis, Millis),
    present: Option<&Present>,
) -> Vec<TimeLane> {
    sort_by_key(&mut happenings, |one| one.at);
    let mut disks = Bars::new(begin, end);
    let mut pods: BTreeMap<String, Bars> = BTreeMap::new();
    let mut tracked = DiskTrack::default();
    for one in &happenings {
        tracked.goes_on(one, &mut disks);
        pods_go_on(one, &mut pods, (begin, end));
    }
    // kubelet's words say nothing of how long a disk was seen.
    let seen = happenings.iter().filter(|one| one.sign != Sign::Kubelet);
    let last = seen.map(|one| one.until.unwrap_or(one.at).max(one.at)).max();
    tracked.ends(last, present, &mut disks);
    pods_end(last, present, &mut pods, (begin, end));
    let mut all: BTreeMap<LaneKind, TimeLane> = BTreeMap::new();
    for one in happenings {
        if one.until.unwrap_or(one.at).max(one.at) < begin {
            continue;
        }
        let kind = match one.sign {
            Sign::Done | Sign::Note | Sign::Open | Sign::Failed => LaneKind::Calls,
            Sign::Refused | Sign::NoLongerRefused => LaneKind::Refusals,
            Sign::Healed | Sign::NotHealed => LaneKind::Heals,
            Sign::Kubelet => LaneKind::Kubelet,
            Sign::KernelNote | Sign::Kernel => LaneKind::Kernel,
        };
        let Happening { at, until, count, sign, what, text, .. } = one;
        of_kind(&mut all, kind).marks.push(LaneMark { at, until, count, sign, what, text });
    }
    let disks = disks.in_sight();
    if !disks.is_empty() {
        of_kind(&mut all, LaneKind::Disk).bars = disks;
    }
    for (name, bars) in pods {
        let bars = bars.in_sight();
        if !bars.is_empty() {
            of_kind(&mut all, LaneKind::Pod(name)).bars = bars;
        }
    }
    all.into_values().collect()
}

fn of_kind(all: &mut BTreeMap<LaneKind, TimeLane>, kind: LaneKind) -> &mut TimeLane {
    let empty = TimeLane { kind: kind.clone(), marks: Vec::new(), bars: Vec::new() };
    all.entry(kind).or_insert(empty)
}

/// The bars of one lane, one of which may be open.
#[derive(Debug)]
struct Bars {
    begin: Millis,
    end: Millis,
    all: Vec<LaneBar>,
    is_open: bool,
}

impl Bars {
    fn new(begin: Millis, end: Millis) -> Self {
        Self { begin, end, all: Vec::new(), is_open: false }
    }

    fn open(&self) -> Option<&LaneBar> {
        self.all.last().filter(|_| self.is_open)
    }

    fn begins(&mut self, label: &str, at: Millis, is_from_before: bool) {
        self.closes(at, BarEnd::Seen);
        let from = if is_from_before { self.begin.min(at) } else { at };
        let is_gone = false;
        let label = label.to_owned();
        self.all.push(LaneBar {
            label,
            from,
            until: at,
            is_from_before,
            end: BarEnd::Now,
            is_gone,
        });
        self.is_open = true;
    }

    fn is_gone(&mut self, at: Millis) {
        self.begins(GONE, at, false);
        if let Some(bar) = self.all.last_mut() {
            bar.is_gone = true;
        }
    }

    fn closes(&mut self, at: Millis, end: BarEnd) {
        if let Some(bar) = self.all.last_mut().filter(|_| self.is_open) {
            // The clock may have gone back.
            bar.until = at.max(bar.from);
            bar.end = end;
        }
        self.is_open = false;
    }

    fn goes_on_to_the_end(&mut self) {
        let end = self.end;
        self.closes(end, BarEnd::Now);
    }

    /// What is left of them between the two moments.
    fn in_sight(self) -> Vec<LaneBar> {
        let begin = self.begin;
        let bars = self.all.into_iter().filter(|bar| bar.until >= begin);
        let cut = |bar: LaneBar| LaneBar {
            from: bar.from.max(begin),
            is_from_before: bar.is_from_before || bar.from < begin,
            ..bar
        };
        bars.map(cut).collect()
    }
}

/// Which disk the volume has, as far as the story has come.
#[derive(Debug, Default)]
struct DiskTrack {
    is_begun: bool,
    /// The one that was lost last.
    lost: Option<String>,
}

impl DiskTrack {
    fn goes_on(&mut self, one: &Happening, bars: &mut Bars) {
        let open = bars.open().map(|bar| (bar.label.clone(), bar.is_gone));
        let is_gone = open.as_ref().is_some_and(|(_, is_gone)| *is_gone);
        match (one.shift, one.disk.as_deref()) {
            (Shift::Leaves, _) => {
                bars.closes(one.at, BarEnd::Seen);
                (self.is_begun, self.lost) = (true, None);
            }
            (Shift::Ends, Some(disk)) => {
                // What the kernel says of another disk, or again, changes nothing.
                let is_ours = open.as_ref().is_none_or(|(label, _)| label == disk) && !is_gone;
                if is_ours && self.lost.as_deref() != Some(disk) {
                    if open.is_none() && !self.is_begun {
                        bars.begins(disk, one.at, true);
                    }
                    if open.is_some() || !self.is_begun {
                        bars.is_gone(one.at);
                        (self.is_begun, self.lost) = (true, Some(disk.to_owned()));
                    }
                }
            }
            (shift, Some(disk)) if one.sign < Sign::KernelNote => {
                let is_same = open.as_ref().is_some_and(|(label, _)| label == disk);
                // Calls name a disk that is lost until there is another.
                let is_lost = is_gone && self.lost.as_deref() == Some(disk);
                if !is_same && (shift == Shift::Arrives || !is_lost) {
                    bars.begins(disk, one.at, !self.is_begun && shift != Shift::Arrives);
                    (self.is_begun, self.lost) = (true, None);
                }
            }
            _ => {}
        }
    }

    fn ends(&self, last: Option<Millis>, present: Option<&Present>, bars: &mut Bars) {
        let last = last.unwrap_or(bars.begin);
        let open = bars.open().map(|bar| (bar.label.clone(), bar.is_gone));
        match (present.map(|present| &present.disk), open) {
            (Some(PresentDisk::Here(name)), Some((label, false))) if label == *name => {
                bars.goes_on_to_the_end();
            }
            (Some(PresentDisk::Here(name)), _) => {
                let is_from_before = !self.is_begun;
                bars.begins(name, last, is_from_before);
                bars.goes_on_to_the_end();
            }
            (Some(PresentDisk::Gone), open) => {
                if open.is_none_or(|(_, is_gone)| !is_gone) {
                    // When it went was not seen.
                    bars.closes(last, BarEnd::Unknown);
                    bars.is_gone(last);
                }
                bars.goes_on_to_the_end();
            }
            (Some(PresentDisk::Unknown) | None, _) => bars.closes(last, BarEnd::Unknown),
        }
    }
}

fn pods_go_on(one: &Happening, pods: &mut BTreeMap<String, Bars>, (begin, end): (Millis, Millis)) {
    match (one.shift, one.pod.as_deref()) {
        (Shift::PodGets, Some(pod)) => {
            let bars = pods.entry(pod.to_owned()).or_insert_with(|| Bars::new(begin, end));
            if bars.open().is_none() {
                bars.begins(pod, one.at, false);
            }
        }
        (Shift::PodLoses, Some(pod)) => {
            let is_known = pods.contains_key(pod);
            let bars = pods.entry(pod.to_owned()).or_insert_with(|| Bars::new(begin, end));
            if !is_known {
                bars.begins(pod, one.at, true);
            }
            bars.closes(one.at, BarEnd::Seen);
        }
        (Shift::AllPodsLose | Shift::Leaves, _) => {
            for bars in pods.values_mut() {
                bars.closes(one.at, BarEnd::Seen);
            }
        }
        _ => {}
    }
}

fn pods_end(
    last: Option<Millis>,
    present: Option<&Present>,
    pods: &mut BTreeMap<String, Bars>,
    (begin, end): (Millis, Millis),
) {
    for names in present.map(|present| present.pods.as_slice()).unwrap_or_default() {
        let Some(shown) = names.first() else { continue };
        let known = names.iter().find(|name| pods.contains_key(*name)).unwrap_or(shown).clone();
        let is_new = !pods.contains_key(&known);
        let bars = pods.entry(known).or_insert_with(|| Bars::new(begin, end));
        if bars.open().is_none() {
            // It has it, whatever was seen of its unmount.
            let from = bars.all.last().map_or(begin, |bar| bar.until);
            bars.begins(shown, from, is_new);
        }
        bars.goes_on_to_the_end();
    }
    let last = last.unwrap_or(begin);
    for bars in pods.values_mut() {
        bars.closes(last, BarEnd::Unknown);
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
