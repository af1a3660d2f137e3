//! What a report holds, gathered from the verbs that look.

use super::document::{Document, Panel, Section, VolumeVerdict};
use super::happenings;
use crate::cli::TypedVolume;
use crate::configuration::Config;
use crate::driver::Driver;
use crate::host::machine;
use crate::host::records::Records;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::known_volume::KnownVolume;
use crate::model::report::facts::{DiskFact, MountedOn, PodFact, VolumeFacts};
use crate::model::report::finding::{Finding, Level};
use crate::model::report::health::Health;
use crate::model::report::lanes::{LaneKind, Present, PresentDisk, lanes};
use crate::model::text::{several, shortened};
use crate::model::timestamp::{self, Millis};
use crate::node::system::{System, kernel_release};
use crate::operator::configured::Configured;
use crate::operator::explain::{self, Explanation};
use crate::operator::holders::{self, Holding};
use crate::operator::journal::{self, LogQuery, Older, Story};
use crate::operator::status::{self, Row, Status};
use crate::operator::terminal::{Paint, hanging, printable};
use crate::operator::timeline::Entry;
use crate::operator::{doctor, history, kernel_story, naming};
use crate::wiring;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const PLAIN: Paint = Paint { is_on: false };

/// So many volumes have all their facts in a report.
const EXPLAINED: usize = 30;

/// So many have a picture.
const PANELS: usize = 100;

/// So many entries of the history are told, the newest; of each volume a tenth.
const ENTRIES: usize = 10_000;

/// So long is one of them at most.
const LONGEST_ENTRY: usize = 4000;

/// No name of Kubernetes is longer.
const LONGEST_NAME: usize = 253;

/// What was seen of the volumes.
#[derive(Default)]
struct Sight {
    status: Option<Status>,
    /// The volumes that are told in full, by their place in it.
    explained: Vec<(usize, Holding)>,
    /// The volume that the report is about.
    meant: Option<KnownVolume>,
    trouble: Option<String>,
}

pub(super) fn gather(
    configured: &Configured,
    volume: Option<&TypedVolume>,
    span: (Millis, Millis),
) -> Result<Document> {
    let config = &configured.config;
    let mut unseen = unseen(configured);
    let findings = doctor::findings(configured);
    let sight = look(configured, volume, &unseen)?;
    if let (Some(TypedVolume(typed)), None) = (volume, &sight.meant) {
        unseen.push(format!("which volume {typed} is, so this is about all of them"));
    }
    let told = Told::of(config, &sight, span);
    let mut document = Document {
        node: wiring::this_node(config).map_or_else(|_| "this node".to_owned(), |n| n.to_string()),
        about: sight.meant.as_ref().map(|meant| printable(meant.label()).into_owned()),
        head: head(configured, &unseen, span),
        findings: counted(&findings),
        unseen_volumes: sight.trouble.as_deref().map(|why| printable(why).into_owned()),
        left_out: told.left_out(),
        ..Document::default()
    };
    let rows = sight.status.as_ref().map(|status| status.volumes.as_slice()).unwrap_or_default();
    let rows: Vec<&Row> = rows.iter().filter(|row| sight.is_about(row)).collect();
    document.volumes = rows.len();
    let unwell = rows.iter().filter(|row| row.verdict.health != Health::Ok);
    document.verdicts = unwell.map(|row| verdict(row)).collect();
    panels(&mut document, &rows, &told, span);
    sections(&mut document, configured, &findings, &sight, &told, span.1);
    Ok(document)
}

/// What is hidden from this look: never a reason to fail.
fn unseen(configured: &Configured) -> Vec<String> {
    configured.unseen().unwrap_or_else(|error| {
        let broken =
            format!("the configuration, which is broken, so the defaults are taken: {error}");
        let rights = "what only root may read: run it with sudo".to_owned();
        std::iter::once(broken).chain((!machine::is_root()).then_some(rights)).collect()
    })
}

fn counted(findings: &[Finding]) -> (usize, usize) {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    (count(Level::Error), count(Level::Warning))
}

impl Sight {
    fn is_about(&self, row: &Row) -> bool {
        self.meant.as_ref().is_none_or(|meant| is_row_of(row, meant))
    }
}

fn is_row_of(row: &Row, meant: &KnownVolume) -> bool {
    match &row.facts.id {
        Some(id) => Some(id) == meant.id.as_ref(),
        None => row.facts.name.as_ref().is_some_and(|name| meant.names.contains(name.as_str())),
    }
}

/// Looks at the volumes; only a volume that is not known is an error, for it is a slip of the pen.
fn look(configured: &Configured, volume: Option<&TypedVolume>, unseen: &[String]) -> Result<Sight> {
    let config = &configured.config;
    let mut unknown = None;
    let seen = configured.with_driver("report", |driver| {
        let mut sight = Sight::default();
        if let Some(TypedVolume(typed)) = volume {
            match naming::volume_to_look_at(driver, typed, config) {
                Ok(meant) => sight.meant = Some(meant),
                Err(error) if configured.trouble.is_none() => {
                    unknown = Some(error.clone());
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        let also: Vec<VolumeId> = sight.meant.iter().filter_map(|meant| meant.id.clone()).collect();
        let status = status::look(driver, config, unseen, &also);
        sight.explained = explained(driver, &sight, &status);
        sight.status = Some(status);
        Ok(sight)
    });
    match (seen, unknown) {
        (_, Some(error)) => Err(error),
        (Ok(sight), None) => Ok(sight),
        (Err(error), None) => Ok(Sight { trouble: Some(error.to_string()), ..Sight::default() }),
    }
}

/// Those that are not well, the worst first, or the one that was asked for.
fn explained(driver: &Driver<'_>, sight: &Sight, status: &Status) -> Vec<(usize, Holding)> {
    let is_asked = |row: &Row| match &sight.meant {
        Some(meant) => is_row_of(row, meant),
        None => row.verdict.health != Health::Ok,
    };
    let rows = status.volumes.iter().enumerate().filter(|(_, row)| is_asked(row));
    rows.take(EXPLAINED).map(|(place, row)| (place, holders::look(driver, row))).collect()
}

/// What the log and the kernel tell.
#[derive(Default)]
struct Told {
    /// The history since the first moment.
    entries: Vec<Entry>,
    /// The same of the volumes that are told in full, from the log's beginning on.
    whole: BTreeMap<String, Vec<Entry>>,
    older: Vec<Older>,
    left_out: usize,
    trouble: Option<String>,
}

impl Told {
    fn of(config: &Config, sight: &Sight, (since, now): (Millis, Millis)) -> Self {
        let rows =
            sight.status.as_ref().map(|status| status.volumes.as_slice()).unwrap_or_default();
        let records = Records::below(&config.paths.state_dir, &config.paths.run_dir);
        let mut names: BTreeSet<String> = BTreeSet::new();
        for (place, _) in &sight.explained {
            let facts = &rows[*place].facts;
            let name = facts.id.as_ref().map(VolumeId::as_name).or_else(|| facts.name.clone());
            names.extend(name.into_iter().flat_map(|name| naming::names_of(&name, &records)));
        }
        if let Some(meant) = &sight.meant {
            names.extend(meant.id.iter().map(ToString::to_string));
            names.extend(meant.names.iter().cloned());
        }
        let story = |volume: BTreeSet<String>, since, with_older| {
            let query = LogQuery { volume, pod: None, since, with_older };
            journal::story(&config.paths.log_dir, &query)
        };
        let about_one = sight.meant.is_some();
        let recent =
            story(if about_one { names.clone() } else { BTreeSet::new() }, Some(since), true);
        let (Story { entries, older }, trouble) = match recent {
            Ok(story) => (story, None),
            Err(error) => (Story::default(), Some(error.to_string())),
        };
        // A disk that was lost was named when it came, perhaps days ago.
        let of_unwell = if names.is_empty() { None } else { story(names, None, false).ok() };
        let mut whole: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for entry in of_unwell.unwrap_or_default().entries {
            whole.entry(key(&entry)).or_default().push(entry);
        }
        let others = entries.into_iter().filter(|entry| !whole.contains_key(&key(entry)));
        let all: Vec<Entry> = others.chain(whole.values().flatten().cloned()).collect();
        whole.clear();
        let mut told = Self { older, trouble, ..Self::default() };
        for mut entry in kernel_story::with_rows(config, all) {
            entry.text = shortened(&entry.text, LONGEST_ENTRY).into_owned();
            for name in [&mut entry.name, &mut entry.pod, &mut entry.by, &mut entry.disk] {
                *name = name.as_deref().map(|name| shortened(name, LONGEST_NAME).into_owned());
            }
            told.whole.entry(key(&entry)).or_default().push(entry);
        }
        let is_recent = |entry: &&Entry| entry.until.unwrap_or(entry.at).max(entry.at) >= since;
        let recent = told.whole.values().flatten().filter(is_recent).cloned();
        let mut entries: Vec<Entry> = recent.collect();
        entries.sort_by_key(|entry| entry.at);
        entries.extend(history::now_refused(&entries, &records).into_iter().map(|mut entry| {
            // It is so at the moment of the report.
            entry.at = now;
            entry.written = timestamp::text(now);
            entry
        }));
        told.left_out = keep_newest(&mut entries);
        told.entries = entries;
        told
    }

    /// Whether the history is too long for a report.
    fn left_out(&self) -> Option<String> {
        let count = several(self.left_out, "earlier entry is", "earlier entries are");
        let text = format!("{count} left out: disk history tells all of a volume");
        (self.left_out > 0).then_some(text)
    }

    /// What happened to a volume, as far as the history tells it, and what was before.
    fn about(&self, key: &str, since: Millis) -> impl Iterator<Item = &Entry> {
        let before = self.whole.get(key).into_iter().flatten();
        let before =
            before.filter(move |entry| entry.until.unwrap_or(entry.at).max(entry.at) < since);
        before.chain(self.by_key(key))
    }

    fn by_key<'a>(&'a self, of: &str) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let of = of.to_owned();
        self.entries.iter().filter(move |entry| key(entry) == of)
    }
}

/// What tells the volumes of entries apart; empty for what is of none.
fn key(entry: &Entry) -> String {
    entry.volume.clone().unwrap_or_default()
}

/// Leaves the newest entries; one volume does not take the place of all others. Answers how many are left
/// out.
fn keep_newest(entries: &mut Vec<Entry>) -> usize {
    let all = entries.len();
    let mut of_each: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries.drain(..).rev() {
        let count = of_each.entry(key(&entry)).or_default();
        *count += 1;
        if *count <= ENTRIES / 10 && kept.len() < ENTRIES {
            kept.push(entry);
        }
    }
    kept.reverse();
    *entries = kept;
    all - entries.len()
}

fn head(
    configured: &Configured,
    unseen: &[String],
    (since, now): (Millis, Millis),
) -> Vec<(&'static str, String)> {
    let node = wiring::this_node(&configured.config);
    let node = node.map_or_else(|error| format!("not known: {error}"), |node| node.to_string());
    let up = timestamp::duration(machine::uptime().seconds * 1000);
    let kubelets = System::default().kubelets();
    let kubelets: Vec<_> = kubelets.iter().map(ToString::to_string).collect();
    let mut head = vec![
        ("node", node),
        ("driver", env!("INCLOUD_DISK_VERSION").to_owned()),
        ("kernel", format!("Linux {}, up for {up}", kernel_release())),
        ("kubelet", if kubelets.is_empty() { "none is seen".to_owned() } else { kubelets.join("; ") }),
        ("made", timestamp::text(now)),
        ("tells", format!("what happened since {}", timestamp::text(since))),
        ("times", "all are UTC".to_owned()),
        (
            "contents",
            "passwords, tokens and credentials are left out; names of nodes, pods and volumes, paths and addresses are in it: look at it before you send it on".to_owned(),
        ),
    ];
    head.extend(unseen.iter().map(|what| ("not seen", what.clone())));
    for (_, text) in &mut head {
        *text = printable(text).into_owned();
    }
    head
}

/// Its names: as people know it, and as the cloud does.
fn title(facts: &VolumeFacts) -> String {
    let id = facts.id.as_ref().map(ToString::to_string);
    let name =
        facts.name.as_ref().map(ToString::to_string).filter(|name| Some(name) != id.as_ref());
    let names: Vec<_> = name.into_iter().chain(id).collect();
    let names = names.join(", ");
    shortened(&printable(&names), 2 * LONGEST_NAME).into_owned()
}

fn verdict(row: &Row) -> VolumeVerdict {
    let shown = |text: &String| printable(text).into_owned();
    let mut verdict = row.verdict.clone();
    verdict.because = shown(&verdict.because);
    for text in [&mut verdict.consequence, &mut verdict.next, &mut verdict.command] {
        *text = text.as_ref().map(shown);
    }
    verdict.notes = verdict.notes.iter().map(shown).collect();
    let pods = row.facts.pods.iter().filter(|pod| pod.has_it);
    let pods = pods.map(|pod| printable(pod.label()).into_owned()).collect();
    VolumeVerdict { title: title(&row.facts), pods, verdict }
}

/// The worst first, then those to which something happened last.
fn panels(document: &mut Document, rows: &[&Row], told: &Told, span: (Millis, Millis)) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut all: Vec<(Millis, Panel)> = Vec::new();
    let mut add = |key: &str, title: String, health, present: Option<&Present>| {
        let happenings: Vec<_> = told.about(key, span.0).map(happenings::of).collect();
        let last = told.by_key(key).map(|entry| entry.until.unwrap_or(entry.at)).max();
        let end = happenings.iter().map(|one| one.until.unwrap_or(one.at).max(one.at)).max();
        let span = (span.0, end.unwrap_or_default().max(span.1));
        let lanes = lanes(happenings, span, present);
        all.push((last.unwrap_or_default(), Panel { title, health, span, lanes }));
    };
    for row in rows {
        let facts = &row.facts;
        let names = [
            facts.id.as_ref().map(ToString::to_string),
            facts.name.as_ref().map(ToString::to_string),
        ];
        known.extend(names.iter().flatten().cloned());
        let key = names.into_iter().flatten().next().unwrap_or_default();
        add(&key, title(facts), Some(row.verdict.health), Some(&present(facts)));
    }
    let of_log = told.entries.iter().filter_map(|entry| entry.volume.as_ref());
    let of_log: BTreeSet<&String> = of_log.filter(|volume| !known.contains(*volume)).collect();
    for volume in of_log {
        let name = told.by_key(volume).find_map(|entry| entry.name.clone());
        let name = name.filter(|name| name != volume).map(|name| format!("{name}, "));
        let title = format!("{}{volume}", name.unwrap_or_default());
        let title = shortened(&printable(&title), 2 * LONGEST_NAME).into_owned();
        add(volume, title, None, None);
    }
    all.retain(|(_, panel)| !panel.lanes.is_empty());
    all.sort_by_key(|(last, panel)| std::cmp::Reverse((panel.health, *last)));
    document.without_panel = all.len().saturating_sub(PANELS);
    document.panels = all.into_iter().map(|(_, panel)| panel).take(PANELS).collect();
}

fn present(facts: &VolumeFacts) -> Present {
    let is_on_gone = facts.mounts.iter().any(|mount| mount.on == MountedOn::Gone);
    let disk = match &facts.disk {
        DiskFact::Proven(disk) => PresentDisk::Here(printable(&disk.name).into_owned()),
        DiskFact::None if is_on_gone => PresentDisk::Gone,
        DiskFact::None | DiskFact::Ambiguous { .. } | DiskFact::Unseen { .. } => {
            PresentDisk::Unknown
        }
    };
    let names = |pod: &PodFact| {
        let all = [printable(pod.label()).into_owned(), printable(pod.uid.as_str()).into_owned()];
        all.into_iter().collect::<Vec<_>>()
    };
    let pods = facts.pods.iter().filter(|pod| pod.has_it).map(names).collect();
    Present { disk, pods }
}

fn sections(
    document: &mut Document,
    configured: &Configured,
    findings: &[Finding],
    sight: &Sight,
    told: &Told,
    now: Millis,
) {
    let sections = &mut document.sections;
    sections.push(Section::new("doctor", "disk doctor", doctor::text(findings, PLAIN)));
    if let Some(status) = &sight.status {
        sections.push(Section::new("status", "disk status", status::text(status, PLAIN, now)));
        explanations(sections, status, sight, told);
    } else {
        let why = hanging("", sight.trouble.as_deref().unwrap_or_default(), str::to_owned);
        sections.push(Section::new("status", "disk status", why));
    }
    sections.push(Section::new(
        "lanes",
        "Which disk, and which pods",
        who_had_what(&document.panels),
    ));
    sections.push(Section::new("history", "disk history", story(told)));
    let config = &configured.config;
    let from = match (&configured.origin, &configured.trouble) {
        (Some(origin), _) => format!("as it is read from {}", origin.display()),
        (None, Some(_)) => "the defaults, for it cannot be read".to_owned(),
        (None, None) => "the defaults, for there is none".to_owned(),
    };
    let text = hanging("", &from, str::to_owned) + "\n" + &keys(config);
    sections.push(Section::new("configuration", "Configuration", text));
}

fn explanations(sections: &mut Vec<Section>, status: &Status, sight: &Sight, told: &Told) {
    for (number, (place, holding)) in sight.explained.iter().enumerate() {
        let row = &status.volumes[*place];
        let names = [
            row.facts.id.as_ref().map(ToString::to_string),
            row.facts.name.as_ref().map(ToString::to_string),
        ];
        let all = names.iter().flatten().find_map(|name| told.whole.get(name));
        let all = all.map(Vec::as_slice).unwrap_or_default();
        let explanation = Explanation {
            format: 1,
            volume: row,
            cloud_silence: status.cloud_silence.as_deref(),
            holding: holding.clone(),
            history: all[all.len().saturating_sub(explain::LAST)..].to_vec(),
        };
        let text = explain::text(&explanation, PLAIN);
        let title =
            format!("disk explain {}", names.iter().flatten().next().cloned().unwrap_or_default());
        sections.push(Section::new(format!("explain-{}", number + 1), title, text));
    }
    let unwell = status.volumes.iter().filter(|row| row.verdict.health != Health::Ok).count();
    let rest = unwell.saturating_sub(EXPLAINED);
    if sight.meant.is_none() && rest > 0 {
        let volumes = several(rest, "more volume is", "more volumes are");
        let text =
            format!("{volumes} not well: disk status names each, disk explain tells all of it\n");
        sections.push(Section::new("explain-others", "The others", text));
    }
}

/// The bars of the picture in words.
fn who_had_what(panels: &[Panel]) -> String {
    let mut text = String::new();
    for panel in panels {
        let bars =
            panel.lanes.iter().flat_map(|lane| lane.bars.iter().map(|bar| (&lane.kind, bar)));
        let bars = bars.map(|(kind, bar)| {
            let word = if matches!(kind, LaneKind::Pod(_)) { "pod" } else { kind.label() };
            hanging(&format!("  {word:<5} "), &bar.told(), str::to_owned)
        });
        let bars: String = bars.collect();
        if !bars.is_empty() {
            text += &hanging("", &panel.title, str::to_owned);
            text += &bars;
        }
    }
    if text.is_empty() { "nothing of that was seen\n".to_owned() } else { text }
}

fn story(told: &Told) -> String {
    if let Some(trouble) = &told.trouble {
        return hanging("", trouble, str::to_owned);
    }
    let mut text = String::new();
    if let Some(left_out) = told.left_out() {
        text += &format!("{left_out}\n\n");
    }
    text += &history::as_written(&told.older, PLAIN);
    text += &history::text(&told.entries, PLAIN);
    if text.is_empty() { "the log tells nothing of that time\n".to_owned() } else { text }
}

/// Each key of the configuration with its value, as the driver has read it.
fn keys(config: &Config) -> String {
    fn each(value: &Value, key: &str, text: &mut String) {
        match value {
            Value::Object(map) => {
                for (name, inner) in map {
                    let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                    each(inner, &key, text);
                }
            }
            Value::Null => {}
            other => *text += &hanging(&format!("{key} = "), &other.to_string(), str::to_owned),
        }
    }
    let mut text = String::new();
    each(&serde_json::to_value(config).unwrap_or_default(), "", &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::timeline::Ending;

    fn entry(volume: usize, at: Millis) -> Entry {
        Entry {
            at,
            written: timestamp::text(at),
            until: None,
            count: 1,
            volume: Some(format!("v{volume}")),
            name: None,
            op: "mount".to_owned(),
            by: None,
            is_persons: false,
            pod: None,
            node: None,
            disk: None,
            ending: Ending::Done,
            kind: None,
            text: "mounted".to_owned(),
            took_ms: None,
            call: "c".to_owned(),
        }
    }

    #[test]
    fn of_a_long_history_the_newest_of_each_volume_is_told() {
        let wild = (0..50_000).map(|at| entry(0, at));
        let mut entries: Vec<_> = std::iter::once(entry(1, 0)).chain(wild).collect();
        assert_eq!(keep_newest(&mut entries), 49_000);
        assert_eq!(entries.len(), 1001);
        assert_eq!((entries[0].at, entries[1].at), (0, 49_000), "the other volume's is there");
        let mut many: Vec<_> = (0..30_000).map(|nth| entry(nth % 500, nth as u64)).collect();
        assert_eq!((keep_newest(&mut many), many.len()), (20_000, ENTRIES));
        assert_eq!(many[0].at, 20_000);
    }

    /// Each key has its value; a new one too, without a word of this file.
    #[test]
    fn the_configuration_is_told_without_its_secrets() {
        let text = "[openstack]\npassword = \"hunter2\"\nusername = \"u\"\n[heal]\nafter = \"signal:HUP\"\n";
        let config = Config::parse(text, "f").unwrap();
        let told = keys(&config);
        for line in [
            "openstack.password = \"(redacted)\"",
            "openstack.username = \"u\"",
            "heal.after = \"signal:HUP\"",
            "guard.mode = \"enforce\"",
            "deadline.attach = 180",
        ] {
            assert!(told.lines().any(|one| one == line), "{line}: {told}");
        }
        assert!(!told.contains("hunter2"), "{told}");
    }
}
