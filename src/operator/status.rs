//! `disk status`: every volume of this machine at a glance.

use super::journal;
use super::terminal::{Paint, Stage, hanging, line_of, table_row, width};
use super::timeline::{Ending, Entry};
use crate::configuration::Config;
use crate::driver::Context;
use crate::driver::report::survey::{self, Survey};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::known_volume::KnownVolume;
use crate::model::report::facts::{DiskFact, MountedOn, VolumeFacts};
use crate::model::report::health::{Health, Verdict, judge};
use crate::model::report::kubelet_line::is_uid;
use crate::model::sorting::sort_by_key;
use crate::model::text::several;
use crate::model::timestamp::{self, Millis};
use crate::ports::clock;
use serde::Serialize;

/// One volume and what is thought of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) facts: VolumeFacts,
    pub(super) verdict: Verdict,
    /// The last call that did something, or tried to.
    pub(super) last_call: Option<Entry>,
}

impl Row {
    /// Whether it is the volume that is meant.
    pub(super) fn is(&self, meant: &KnownVolume) -> bool {
        match &self.facts.id {
            Some(id) => Some(id) == meant.id.as_ref(),
            None => self.facts.names().any(|name| meant.names.contains(name)),
        }
    }
}

/// The whole machine.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    /// The format of this answer.
    pub(super) format: u32,
    /// The machine's node name.
    pub(super) node: String,
    /// When it was looked.
    pub(super) at: String,
    /// Whether the cloud answered; if not, why.
    pub(super) cloud_answered: bool,
    pub(super) cloud_silence: Option<String>,
    /// Mounts in other namespaces of volumes that the cloud does not know.
    pub(super) not_ours: Vec<String>,
    /// What could not be seen from here.
    pub(super) unseen: Vec<String>,
    /// The volumes, the worst first.
    pub(super) volumes: Vec<Row>,
}

/// Looks at everything, and at these volumes wherever they are.
pub(super) fn look(
    cx: &Context<'_>,
    config: &Config,
    unseen: &[String],
    also: &[VolumeId],
) -> Status {
    let Survey { volumes, not_ours, cloud_silence, unseen: more } = survey::survey(cx, also);
    let calls = journal::last_calls(&config.paths);
    let row = |facts: VolumeFacts| {
        let verdict = judge(&facts);
        let last_call = calls.iter().rev().find(|entry| is_about(entry, &facts)).cloned();
        Row { facts, verdict, last_call }
    };
    let mut volumes: Vec<Row> = volumes.into_iter().map(row).collect();
    sort_by_key(&mut volumes, |row| std::cmp::Reverse(row.verdict.health));
    Status {
        format: 1,
        node: cx.this_node.to_string(),
        at: timestamp::text(clock::now()),
        not_ours,
        cloud_answered: cloud_silence.is_none(),
        cloud_silence,
        unseen: unseen.iter().cloned().chain(more).collect(),
        volumes,
    }
}

fn is_about(entry: &Entry, facts: &VolumeFacts) -> bool {
    entry.volume.as_ref().is_some_and(|volume| facts.names().any(|name| name == volume))
}

/// Says it, as a person or a machine wants it.
pub(super) fn say(status: &Status, json: bool, stage: &mut Stage<'_>) -> Result<bool> {
    if json {
        return stage.say_json(status);
    }
    let paint = stage.paint();
    Ok(stage.say(&text(status, paint, clock::now())))
}

const HEADS: [&str; 4] = ["HEALTH", "POD", "VOLUME", "DISK"];
const WIDTHS: [usize; 4] = [11, 24, 36, 14];

/// Names are cut on a narrow terminal.
fn widths() -> [usize; 4] {
    const GAPS: usize = 6;
    let [health, pod, volume, disk] = WIDTHS;
    let names = width().saturating_sub(health + disk + GAPS);
    let pod = (names * 2 / 5).clamp(12, pod);
    [health, pod, names.saturating_sub(pod).clamp(12, volume), disk]
}

/// The table, for people.
pub(super) fn text(status: &Status, paint: Paint, now: Millis) -> String {
    let mut text = String::new();
    if status.volumes.is_empty() {
        text += &format!("no volume is on {}\n", status.node);
    } else {
        text += &paint.dim(line(&HEADS.map(str::to_owned), str::to_owned).trim_end());
        text.push('\n');
    }
    for row in &status.volumes {
        text += &row_text(row, paint, now);
    }
    if !status.volumes.is_empty() {
        text += &format!("\n{}\n", summary(status));
    }
    if let Some(why) = &status.cloud_silence {
        text += &hanging(
            "! ",
            &format!("The cloud did not answer, so its view is unknown: {why}"),
            |line| paint.doubtful(line),
        );
    }
    for what in &status.not_ours {
        text += &hanging(
            "! ",
            &format!("Mounted in containers, unknown to the cloud: {what}"),
            str::to_owned,
        );
    }
    for what in &status.unseen {
        text += &hanging("! ", &format!("Not seen: {what}"), |line| paint.doubtful(line));
    }
    text
}

fn summary(status: &Status) -> String {
    let count = |health| status.volumes.iter().filter(|row| row.verdict.health == health).count();
    let counted: Vec<_> = Health::ALL
        .into_iter()
        .rev()
        .filter(|health| count(*health) > 0)
        .map(|health| format!("{} {health}", count(health)))
        .collect();
    format!(
        "{} on {}: {}",
        several(status.volumes.len(), "volume", "volumes"),
        status.node,
        counted.join(", ")
    )
}

/// Cells beside each other; the first one is painted.
fn line(cells: &[String; 4], paint: impl Fn(&str) -> String) -> String {
    let row = table_row(cells, &widths());
    row.trim_end().replacen(&cells[0], &paint(&cells[0]), 1)
}

/// Who has it, what it is called, where it is; then what that means, and what can be done.
fn row_text(row: &Row, paint: Paint, now: Millis) -> String {
    let Row { facts, verdict, last_call } = row;
    let health = verdict.health;
    let is_well = health == Health::Ok;
    let word = health.to_string();
    let pods = facts.users();
    let cells = [
        if is_well { word } else { word.to_uppercase() },
        match pods.as_slice() {
            [] => "-".to_owned(),
            [one] => shortened(one).to_owned(),
            [first, others @ ..] => format!("{} +{}", shortened(first), others.len()),
        },
        called(facts),
        disk(facts),
    ];
    let mut text = line(&cells, |cell| paint.of(health, cell)) + "\n";
    let indent = " ".repeat(WIDTHS[0] + 2);
    let mut tell = |what: &str, paint: &dyn Fn(&str) -> String| {
        text += &hanging(&indent, what, paint);
    };
    // What the table cuts must still be there to be copied.
    let [_, of_pod, of_volume, _] = widths();
    let is_cut = |pod: &&str| shortened(pod) != *pod || pod.len() > of_pod;
    if pods.len() > 1 || pods.iter().any(is_cut) {
        tell(&format!("used by {}", pods.join(", ")), &str::to_owned);
    }
    if cells[2].len() > of_volume {
        tell(&format!("volume {}", cells[2]), &str::to_owned);
    }
    if let Some(consequence) = &verdict.consequence {
        tell(consequence, &str::to_owned);
    }
    if let Some(next) = &verdict.next {
        tell(&format!("To do: {next}."), &str::to_owned);
    }
    for note in &verdict.notes {
        tell(note, &|line| paint.doubtful(line));
    }
    if let Some(command) = &verdict.command {
        // On a line of its own, and whole, so that it can be copied.
        text += &format!("{indent}$ {}\n", paint.bold(&command.to_string()));
    }
    let failed = |entry: &&Entry| matches!(entry.ending, Ending::Failed | Ending::Open);
    if let Some(entry) = last_call.as_ref().filter(failed) {
        let told = line_of(&last(entry, now), indent.len());
        text += &format!("{indent}{}\n", paint.dim(&told));
    }
    text
}

/// Names that people know it by: `pvc-adf2bebe (46ef0efd)`. Each verb takes a beginning that fits one
/// volume alone.
pub(super) fn called(facts: &VolumeFacts) -> String {
    let id = facts.id.as_ref().map(|id| shortened(id.as_str()));
    match (facts.name.as_ref().map(|name| shortened(name.as_str())), id) {
        (Some(name), Some(id)) => format!("{name} ({id})"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "?".to_owned(),
    }
}

/// A name that ends with a UUID, up to the first part of that.
fn shortened(name: &str) -> &str {
    const UUID: usize = 36;
    const FIRST_PART: usize = 8;
    let begin = name.len().saturating_sub(UUID);
    let has_uuid = name.get(begin..).is_some_and(is_uid);
    if has_uuid { &name[..begin + FIRST_PART] } else { name }
}

pub(super) fn disk(facts: &VolumeFacts) -> String {
    let is_mounted = facts.mounts.iter().any(|mount| mount.on == MountedOn::Gone);
    match &facts.disk {
        DiskFact::Proven(disk) => disk.name.clone(),
        DiskFact::None if is_mounted => "gone".to_owned(),
        DiskFact::None => "not here".to_owned(),
        DiskFact::Ambiguous { .. } => "in doubt".to_owned(),
        DiskFact::Unseen { .. } => "?".to_owned(),
    }
}

/// `last: unmount refused 38 times, 12 s ago, in 3 ms`.
fn last(entry: &Entry, now: Millis) -> String {
    let at = entry.until.unwrap_or(entry.at);
    let took = entry.took_ms.map(|took| format!(", in {}", timestamp::duration(took)));
    let pod = entry.pod.as_ref().map(|pod| format!(" for {pod}")).unwrap_or_default();
    let ended = match entry.ending {
        Ending::Done | Ending::Event => "done".to_owned(),
        Ending::Already => "found it so already".to_owned(),
        Ending::Asked => "asked for a plan".to_owned(),
        Ending::Refused if entry.count > 1 => format!("refused {} times", entry.count),
        Ending::Refused => "refused".to_owned(),
        Ending::Failed => "failed".to_owned(),
        Ending::Open => "has not ended".to_owned(),
    };
    let why =
        if entry.ending == Ending::Failed { format!(": {}", entry.text) } else { String::new() };
    format!(
        "last: {}{pod} {ended}, {} ago{}{why}",
        entry.op,
        timestamp::duration(now.saturating_sub(at)),
        took.unwrap_or_default()
    )
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
