//! What `node_exporter`'s textfile collector shows of the driver: counters that outlive a call, and
//! what is so now; and both in Prometheus' text format.

use super::tear_down::TearDownWords;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Upper limits of the classes of durations, in seconds: calls take from a millisecond to minutes.
pub const CLASSES: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// What a heal can come to. Each has its row from the first page on, and so has each tear-down that can be
/// refused: a row that comes with its first event is to Prometheus no increase.
const HEALS: [&str; 3] = ["failed", "healed", "partly"];

/// How a wait for a disk can end without a person: the disk was put under its map, or the patience was over.
const WAITS: [&str; 2] = ["patience", "returned"];

/// Counters since they were first written on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Calls by operation and outcome.
    pub calls: BTreeMap<String, BTreeMap<String, u64>>,
    /// How long they took, by operation.
    pub durations: BTreeMap<String, Durations>,
    /// Refusals of the guard by operation.
    pub refusals: BTreeMap<String, u64>,
    /// Heals by outcome: `healed`, `partly`, `failed`.
    pub heals: BTreeMap<String, u64>,
    /// Mounts that were replaced.
    pub healed_mounts: u64,
    /// Waits for a disk that have ended, by outcome: `returned`, `patience`.
    pub waits: BTreeMap<String, u64>,
    /// What calls had to tell and was not counted: torn, or more than can wait.
    pub lost: u64,
    /// What was so at the last look, kept for calls that could not look.
    pub gauges: Gauges,
    /// By the file that calls left their lines in, the first call of those that were taken in last.
    pub taken: BTreeMap<String, String>,
}

/// Durations in classes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Durations {
    /// How many fell into each class of [`CLASSES`], not summed up; what was longer is in none.
    pub classes: Vec<u64>,
    /// How many there were.
    pub count: u64,
    /// Their sum in seconds.
    pub sum: f64,
}

/// What is so now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gauges {
    /// Mounts that stand on a disk that is gone, by volume.
    pub stale: BTreeMap<String, u64>,
    /// Volumes with such mounts whose disk is not here under another number either.
    pub absent: Vec<Absence>,
    /// Volumes whose maps wait for their disks.
    pub waiting: Vec<WaitingMap>,
    /// How many volumes are how well, by the verdict of `status`; counted by each look of a heal.
    pub healths: BTreeMap<String, u64>,
    /// Tear-downs that are asked for and refused.
    pub refused: Vec<Refused>,
    /// Folders that kubelet was let go of while their pods have the volume.
    pub let_go: Vec<LetGone>,
    /// Volumes that are remembered here.
    pub volumes: u64,
    /// Numbers of disks that are gone and that have no mount any more.
    pub left: BTreeSet<String>,
    /// The boot in which that was seen: numbers begin anew with each.
    pub boot: String,
}

/// One of those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub volume: String,
    pub name: String,
    pub operation: String,
    pub pod: String,
    pub pod_name: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
}

/// A volume whose mounts wait for its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    pub volume: String,
    pub name: String,
    /// When that was first seen, in seconds since 1970.
    pub since: u64,
}

/// A volume whose map waits for its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMap {
    pub volume: String,
    /// The name of its `PersistentVolume`.
    pub name: String,
    /// What it waits for: its disk is `gone`, or here and `refused` or `failing`.
    pub disk: String,
    /// When that was first seen, in seconds since 1970.
    pub since: u64,
}

/// A folder that kubelet was let go of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetGone {
    pub volume: String,
    pub name: String,
    pub pod: String,
    pub pod_name: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
}

/// What one call adds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// An id of the line itself: of one call there may be two, its own and that of the process that gave it up.
    pub id: String,
    /// The call's word, or a person's verb.
    pub operation: String,
    /// `done`, `already`, or the kind of its failure.
    pub outcome: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What it refused: the operations.
    pub refusals: Vec<String>,
    /// What became of a heal on its way, and how many mounts were replaced.
    pub heals: Vec<(String, u64)>,
    /// How waits for a disk ended.
    pub waits: Vec<String>,
    /// What is so after it; nothing if it could not look.
    pub gauges: Option<Gauges>,
}

impl Counters {
    /// Takes in the lines that calls left, a sample each, and returns how many could not be read. Who did so before may
    /// have been killed before the file was removed: its first sample is known, and then nothing is counted twice.
    pub fn take_in(&mut self, lines: &[u8]) -> u64 {
        /// Older drivers have a second file.
        const FILE: &str = "pending";
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let samples: Vec<_> =
            lines.map(|line| serde_json::from_slice::<Sample>(line).ok()).collect();
        if let Some(first) = samples.iter().flatten().find(|sample| !sample.id.is_empty()) {
            if self.taken.get(FILE) == Some(&first.id) {
                return 0;
            }
            self.taken.insert(FILE.to_owned(), first.id.clone());
        }
        samples.iter().flatten().for_each(|sample| self.add(sample));
        samples.iter().filter(|sample| sample.is_none()).count() as u64
    }

    /// Takes a call in.
    pub fn add(&mut self, sample: &Sample) {
        let add = |counter: &mut u64, more: u64| *counter = counter.saturating_add(more);
        let of_operation = self.calls.entry(sample.operation.clone()).or_default();
        add(of_operation.entry(sample.outcome.clone()).or_default(), 1);
        self.durations.entry(sample.operation.clone()).or_default().add(sample.seconds);
        for operation in &sample.refusals {
            add(self.refusals.entry(operation.clone()).or_default(), 1);
        }
        for (outcome, mounts) in &sample.heals {
            add(self.heals.entry(outcome.clone()).or_default(), 1);
            add(&mut self.healed_mounts, *mounts);
        }
        for outcome in &sample.waits {
            add(self.waits.entry(outcome.clone()).or_default(), 1);
        }
        if let Some(gauges) = &sample.gauges {
            self.gauges = gauges.clone();
        }
    }
}

impl Durations {
    fn add(&mut self, seconds: f64) {
        self.classes.resize(CLASSES.len(), 0);
        if let Some(class) = CLASSES.iter().position(|limit| seconds <= *limit) {
            self.classes[class] += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// The page, in Prometheus' text format.
pub fn page(counters: &Counters, words: &TearDownWords, version: &str) -> String {
    let mut page = Page::default();
    page.family("build_info", "gauge", "The version of the driver that wrote this page.");
    page.row("build_info", &[("version", version)], "1");
    page.family(
        "calls_total",
        "counter",
        "Calls by operation and outcome: done, already, or the kind of the failure.",
    );
    for (operation, outcomes) in &counters.calls {
        for (outcome, count) in outcomes {
            page.row(
                "calls_total",
                &[("operation", operation), ("outcome", outcome)],
                &count.to_string(),
            );
        }
    }
    page.family("samples_lost_total", "counter", "What calls had to tell and was not counted.");
    page.row("samples_lost_total", &[], &counters.lost.to_string());
    page.family("call_duration_seconds", "histogram", "How long calls took, by operation.");
    for (operation, durations) in &counters.durations {
        let mut below = 0;
        for (limit, count) in CLASSES.iter().zip(&durations.classes) {
            below += count;
            let limit = limit.to_string();
            page.row(
                "call_duration_seconds_bucket",
                &[("operation", operation), ("le", &limit)],
                &below.to_string(),
            );
        }
        let (labels, count) = ([("operation", operation.as_str())], durations.count.to_string());
        page.row("call_duration_seconds_bucket", &[labels[0], ("le", "+Inf")], &count);
        page.row("call_duration_seconds_sum", &labels, &format!("{:.6}", durations.sum));
        page.row("call_duration_seconds_count", &labels, &count);
    }
    page.family(
        "refusals_total",
        "counter",
        "Tear-downs that the guard refused, each time they were asked for.",
    );
    for (operation, count) in with_zeros(words.all(), &counters.refusals) {
        page.row("refusals_total", &[("operation", operation)], &count.to_string());
    }
    page.family(
        "heals_total",
        "counter",
        "Heals by outcome: healed, partly (something stays on the old disk), failed. To wait for a disk is none.",
    );
    for (outcome, count) in with_zeros(HEALS, &counters.heals) {
        page.row("heals_total", &[("outcome", outcome)], &count.to_string());
    }
    page.family("healed_mounts_total", "counter", "Mounts that were replaced by heals.");
    page.row("healed_mounts_total", &[], &counters.healed_mounts.to_string());
    page.family(
        "waits_total",
        "counter",
        "Waits for a disk that have ended: returned (the disk is back under its map), patience (it was over).",
    );
    for (outcome, count) in with_zeros(WAITS, &counters.waits) {
        page.row("waits_total", &[("outcome", outcome)], &count.to_string());
    }
    let gauges = &counters.gauges;
    page.family("volumes", "gauge", "Volumes that this machine remembers.");
    page.row("volumes", &[], &gauges.volumes.to_string());
    page.family("stale_mounts", "gauge", "Mounts that stand on a disk that is gone.");
    for (volume, count) in &gauges.stale {
        page.row("stale_mounts", &[("volume", volume)], &count.to_string());
    }
    let absent = gauges.absent.iter().map(|one| (one.labels().to_vec(), one.since));
    page.state(
        ("absent", "1 while mounts of the volume wait for its disk, which is gone."),
        "When that was first seen.",
        absent,
    );
    let waiting = gauges.waiting.iter().map(|one| (one.labels().to_vec(), one.since));
    page.state(
        (
            "waiting",
            "1 while the volume's map waits. Its disk is gone, refused (something else may have written to it) or \
             failing (requests to it fail, and are sent again).",
        ),
        "When that was first seen.",
        waiting,
    );
    health_rows(&mut page, gauges);
    let refused = gauges.refused.iter().map(|one| (one.labels().to_vec(), one.since));
    page.state(
        ("refused", "1 while a tear-down of the volume is asked for and refused."),
        "When that began.",
        refused,
    );
    let let_go = gauges.let_go.iter().map(|one| (one.labels().to_vec(), one.since));
    page.state(
        ("let_go", "1 while kubelet has not mounted a folder again that it was let go of."),
        "When it was let go of.",
        let_go,
    );
    page.text
}

fn health_rows(page: &mut Page, gauges: &Gauges) {
    page.family(
        "health_volumes",
        "gauge",
        "Volumes by health, as status has it, at the last look.",
    );
    for (health, count) in &gauges.healths {
        page.row("health_volumes", &[("health", health)], &count.to_string());
    }
}

fn with_zeros<'a, const COUNT: usize>(
    names: [&'static str; COUNT],
    counted: &'a BTreeMap<String, u64>,
) -> BTreeMap<&'a str, u64> {
    let zeros = names.into_iter().map(|name| (name, 0));
    zeros.chain(counted.iter().map(|(name, count)| (name.as_str(), *count))).collect()
}

impl Refused {
    fn labels(&self) -> [(&str, &str); 5] {
        [
            ("volume", &self.volume),
            ("persistentvolume", &self.name),
            ("operation", &self.operation),
            ("pod_uid", &self.pod),
            ("pod_name", &self.pod_name),
        ]
    }
}

impl Absence {
    fn labels(&self) -> [(&str, &str); 2] {
        [("volume", &self.volume), ("persistentvolume", &self.name)]
    }
}

impl WaitingMap {
    fn labels(&self) -> [(&str, &str); 3] {
        [("volume", &self.volume), ("persistentvolume", &self.name), ("disk", &self.disk)]
    }
}

impl LetGone {
    fn labels(&self) -> [(&str, &str); 4] {
        [
            ("volume", &self.volume),
            ("persistentvolume", &self.name),
            ("pod_uid", &self.pod),
            ("pod_name", &self.pod_name),
        ]
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP incloud_disk_{name} {help}");
        let _ = writeln!(self.text, "# TYPE incloud_disk_{name} {kind}");
    }

    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "incloud_disk_{name}{labels} {value}");
    }

    /// What is so of some volumes: 1 for each, and since when.
    fn state<'a>(
        &mut self,
        (name, help): (&str, &str),
        since_help: &str,
        all: impl Iterator<Item = (Vec<(&'a str, &'a str)>, u64)> + Clone,
    ) {
        self.family(name, "gauge", help);
        for (labels, _) in all.clone() {
            self.row(name, &labels, "1");
        }
        let since_name = format!("{name}_since_timestamp_seconds");
        self.family(&since_name, "gauge", since_help);
        for (labels, since) in all {
            self.row(&since_name, &labels, &since.to_string());
        }
    }
}

/// As label values are written.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_add_up_and_the_page_shows_them() {
        let mut counters = Counters::default();
        let call = |outcome: &str, seconds| Sample {
            operation: "mount".to_owned(),
            outcome: outcome.to_owned(),
            seconds,
            ..Sample::default()
        };
        for sample in [call("done", 0.02), call("done", 0.004), call("timeout", 999.0)] {
            counters.add(&sample);
        }
        let refused = Refused {
            volume: "v\"1".to_owned(),
            name: "pv".to_owned(),
            operation: "unpublish".to_owned(),
            pod: "u".to_owned(),
            pod_name: "shop/orders-0".to_owned(),
            since: 7,
        };
        counters.add(&Sample {
            refusals: vec!["unpublish".to_owned()],
            heals: vec![("healed".to_owned(), 3)],
            waits: vec!["returned".to_owned()],
            gauges: Some(Gauges {
                refused: vec![refused],
                let_go: vec![LetGone {
                    volume: "v1".to_owned(),
                    name: "pv".to_owned(),
                    pod: "u".to_owned(),
                    pod_name: "shop/orders-0".to_owned(),
                    since: 9,
                }],
                waiting: vec![WaitingMap {
                    volume: "v1".to_owned(),
                    name: "pv".to_owned(),
                    disk: "refused".to_owned(),
                    since: 10,
                }],
                absent: vec![Absence { volume: "v".to_owned(), name: "p".to_owned(), since: 8 }],
                healths: BTreeMap::from([("dead".to_owned(), 1), ("ok".to_owned(), 0)]),
                volumes: 2,
                stale: BTreeMap::from([("v".to_owned(), 4)]),
                ..Gauges::default()
            }),
            ..call("guarded", 0.001)
        });
        // A call that cannot look leaves what was seen.
        counters.add(&call("config", 0.001));
        let page = page(&counters, &TearDownWords::PLAIN, "1");
        for line in [
            "incloud_disk_calls_total{operation=\"mount\",outcome=\"done\"} 2",
            "incloud_disk_call_duration_seconds_bucket{operation=\"mount\",le=\"0.005\"} 3",
            "incloud_disk_call_duration_seconds_bucket{operation=\"mount\",le=\"0.025\"} 4",
            "incloud_disk_call_duration_seconds_bucket{operation=\"mount\",le=\"300\"} 4",
            "incloud_disk_call_duration_seconds_bucket{operation=\"mount\",le=\"+Inf\"} 5",
            "incloud_disk_refusals_total{operation=\"unpublish\"} 1",
            "incloud_disk_heals_total{outcome=\"healed\"} 1",
            "incloud_disk_heals_total{outcome=\"failed\"} 0",
            "incloud_disk_refusals_total{operation=\"detach\"} 0",
            "incloud_disk_healed_mounts_total 3",
            "incloud_disk_let_go{volume=\"v1\",persistentvolume=\"pv\",pod_uid=\"u\",pod_name=\"shop/orders-0\"} 1",
            "incloud_disk_let_go_since_timestamp_seconds{volume=\"v1\",persistentvolume=\"pv\",pod_uid=\"u\",pod_name=\"shop/orders-0\"} 9",
            "incloud_disk_waiting{volume=\"v1\",persistentvolume=\"pv\",disk=\"refused\"} 1",
            "incloud_disk_waiting_since_timestamp_seconds{volume=\"v1\",persistentvolume=\"pv\",disk=\"refused\"} 10",
            "incloud_disk_waits_total{outcome=\"returned\"} 1",
            "incloud_disk_waits_total{outcome=\"patience\"} 0",
            "incloud_disk_stale_mounts{volume=\"v\"} 4",
            "incloud_disk_absent{volume=\"v\",persistentvolume=\"p\"} 1",
            "incloud_disk_absent_since_timestamp_seconds{volume=\"v\",persistentvolume=\"p\"} 8",
            "incloud_disk_health_volumes{health=\"dead\"} 1",
            "incloud_disk_health_volumes{health=\"ok\"} 0",
            "incloud_disk_refused{volume=\"v\\\"1\",persistentvolume=\"pv\",operation=\"unpublish\",pod_uid=\"u\",pod_name=\"shop/orders-0\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        let json = serde_json::to_string(&counters).unwrap();
        assert_eq!(serde_json::from_str::<Counters>(&json).unwrap(), counters);
    }

    #[test]
    fn the_lines_of_a_file_are_taken_in_once() {
        let line = |id: &str| {
            let sample =
                Sample { id: id.to_owned(), operation: "mount".to_owned(), ..Sample::default() };
            serde_json::to_string(&sample).unwrap() + "\n"
        };
        let mut counters = Counters::default();
        let first = format!("\u{0}torn\n\n{}{}", line("a"), line("b"));
        assert_eq!(counters.take_in(first.as_bytes()), 1);
        // Who took it in was killed before it was removed, and another call read the counters.
        let json = serde_json::to_string(&counters).unwrap();
        let mut counters: Counters = serde_json::from_str(&json).unwrap();
        assert_eq!(counters.take_in(first.as_bytes()), 0);
        let count = |counters: &Counters| counters.durations["mount"].count;
        assert_eq!(count(&counters), 2);
        counters.take_in(line("c").as_bytes());
        assert_eq!(count(&counters), 3);
        // An older driver's lines have no id.
        counters.take_in(line("").as_bytes());
        counters.take_in(line("").as_bytes());
        assert_eq!(count(&counters), 5);
    }

    #[test]
    fn counters_of_another_version_are_read_as_far_as_they_go() {
        let read: Counters = serde_json::from_str(r#"{"healed_mounts": 3, "colour": 1}"#).unwrap();
        assert_eq!(read.healed_mounts, 3);
        let mut short = Counters::default();
        short.durations.insert("x".to_owned(), Durations { classes: vec![1], count: 1, sum: 0.1 });
        short.add(&Sample { operation: "x".to_owned(), seconds: 0.1, ..Sample::default() });
        assert_eq!(short.durations["x"].classes.len(), CLASSES.len());
    }
}
