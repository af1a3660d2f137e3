//! What a report holds, gathered from the verbs that look.

use super::document::{Document, Panel, Section, VolumeVerdict};
use super::happenings;
use super::sight::{EXPLAINED, Sight, look};
use super::told::{LONGEST_NAME, Told};
use crate::cli::TypedVolume;
use crate::configuration::Config;
use crate::host::kubelet_log::KubeletLog;
use crate::host::machine;
use crate::host::zone::LOCAL;
use crate::model::error::Result;
use crate::model::report::facts::{DiskFact, MountedOn, PodFact, VolumeFacts};
use crate::model::report::finding::{Finding, Level};
use crate::model::report::health::Health;
use crate::model::report::lanes::{LaneKind, Present, PresentDisk, lanes};
use crate::model::sorting::sort_by_key;
use crate::model::text::{several, shortened};
use crate::model::timestamp::{self, Millis};
use crate::node::system::{System, kernel_release};
use crate::operator::configured::Configured;
use crate::operator::explain::{self, Explanation};
use crate::operator::status::{self, Row, Status};
use crate::operator::terminal::{Paint, hanging, printable};
use crate::operator::{doctor, history};
use crate::wiring;
use serde_json::Value;
use std::collections::BTreeSet;

const PLAIN: Paint = Paint { is_on: false };

/// So many have a picture.
const PANELS: usize = 100;

pub(super) fn gather(
    configured: &Configured,
    volume: Option<&TypedVolume>,
    logs: &[KubeletLog],
    span: (Millis, Millis),
) -> Result<Document> {
    let config = &configured.config;
    let mut unseen = configured.all_unseen();
    let findings = doctor::findings(configured);
    let sight = look(configured, volume, logs, &unseen)?;
    if let (Some(TypedVolume(typed)), None) = (volume, &sight.meant) {
        unseen.push(format!("which volume {typed} is, so this is about all of them"));
    }
    let told = Told::of(config, &sight, logs, span);
    let mut document = Document {
        node: wiring::this_node(config).map_or_else(|_| "this node".to_owned(), |n| n.to_string()),
        about: sight.meant.as_ref().map(|meant| printable(meant.label()).into_owned()),
        head: head(configured, &unseen, span),
        findings: counted(&findings),
        unseen_volumes: sight.trouble.as_deref().map(|why| printable(why).into_owned()),
        left_out: told.left_out(),
        conclusions: told
            .kubelet
            .conclusions()
            .iter()
            .map(|one| printable(one).into_owned())
            .collect(),
        ..Document::default()
    };
    let rows: Vec<&Row> = sight.rows().iter().filter(|row| sight.is_about(row)).collect();
    document.volumes = rows.len();
    let unwell = rows.iter().filter(|row| row.verdict.health != Health::Ok);
    document.verdicts = unwell.map(|row| verdict(row)).collect();
    panels(&mut document, &rows, &told, span);
    sections(&mut document, configured, &findings, &sight, &told, span.1);
    Ok(document)
}

fn counted(findings: &[Finding]) -> (usize, usize) {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    (count(Level::Error), count(Level::Warning))
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
        ("driver", crate::VERSION.to_owned()),
        ("kernel", format!("Linux {}, up for {up}", kernel_release())),
        ("kubelet", if kubelets.is_empty() { "none is seen".to_owned() } else { kubelets.join("; ") }),
        ("made", LOCAL.text(now)),
        ("tells", format!("what happened since {}", LOCAL.text(since))),
        ("times", format!("local, {}; the log is in UTC", LOCAL.name(now))),
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
    let mut names: Vec<_> = facts.names().collect();
    names.reverse();
    names.dedup();
    shortened(&printable(&names.join(", ")), 2 * LONGEST_NAME).into_owned()
}

fn verdict(row: &Row) -> VolumeVerdict {
    let shown = |text: &String| printable(text).into_owned();
    let mut verdict = row.verdict.clone();
    verdict.because = shown(&verdict.because);
    for text in [&mut verdict.consequence, &mut verdict.next] {
        *text = text.as_ref().map(shown);
    }
    verdict.command = verdict.command.map(|command| shown(&command.to_string()).into());
    verdict.notes = verdict.notes.iter().map(shown).collect();
    let pods = row.facts.users().into_iter().map(|pod| printable(pod).into_owned()).collect();
    VolumeVerdict { title: title(&row.facts), pods, verdict }
}

/// The worst first, then those to which something happened last.
fn panels(document: &mut Document, rows: &[&Row], told: &Told, span: (Millis, Millis)) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut all: Vec<(Millis, Panel)> = Vec::new();
    let mut add = |key: &str, title: String, health, present: Option<&Present>| {
        let kubelets = told.kubelet.around(told.by_key(key), key);
        let happenings = told.about(key, span.0).chain(kubelets).map(happenings::of);
        let happenings: Vec<_> = happenings.collect();
        let last = told.by_key(key).map(|entry| entry.until.unwrap_or(entry.at)).max();
        let end = happenings.iter().map(|one| one.until.unwrap_or(one.at).max(one.at)).max();
        let span = (span.0, end.unwrap_or_default().max(span.1));
        let lanes = lanes(happenings, span, present);
        all.push((last.unwrap_or_default(), Panel { title, health, span, lanes }));
    };
    for row in rows {
        let facts = &row.facts;
        known.extend(facts.names().map(str::to_owned));
        add(facts.label(), title(facts), Some(row.verdict.health), Some(&present(facts)));
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
    sort_by_key(&mut all, |(last, panel)| std::cmp::Reverse((panel.health, *last)));
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
    for (number, (place, holding, udev)) in sight.explained.iter().enumerate() {
        let row = &status.volumes[*place];
        let all = row.facts.names().find_map(|name| told.whole.get(name));
        let all = all.map(Vec::as_slice).unwrap_or_default();
        let explanation = Explanation {
            format: 1,
            volume: row,
            cloud_silence: status.cloud_silence.as_deref(),
            udev: udev.clone(),
            holding: holding.clone(),
            history: all[all.len().saturating_sub(explain::LAST)..].to_vec(),
        };
        let text = explain::text(&explanation, PLAIN);
        let title = format!("disk explain {}", row.facts.label());
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
    let mut text = String::new();
    if let Some(trouble) = &told.trouble {
        text += &hanging("", trouble, str::to_owned);
    }
    if let Some(left_out) = told.left_out() {
        text += &format!("{left_out}\n\n");
    }
    text += &told.kubelet.opening(PLAIN);
    text += &history::as_written(&told.older, PLAIN);
    let entries = [&told.entries[..], &history::rows_of(&told.older)].concat();
    text += &history::text(&told.kubelet.among(&entries), PLAIN);
    text += &history::not_read(told.unreadable, PLAIN);
    text += &told.kubelet.closing(PLAIN);
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
