//! `disk status`: every volume of this machine at a glance.

use super::journal;
use super::terminal::{Paint, Stage, cell, hanging, line_of};
use super::timeline::{Ending, Entry};
use crate::configuration::Config;
use crate::driver::Driver;
use crate::driver::report::survey::Survey;
use crate::host::clock;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::report::facts::{DiskFact, MountFact, MountedOn, PodFact, Role, VolumeFacts};
use crate::model::report::health::{Health, Verdict, judge};
use crate::model::text::several;
use crate::model::timestamp::{self, Millis};
use serde::Serialize;

/// One volume and what is thought of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    /// What was seen.
    #[serde(flatten)]
    pub(super) facts: VolumeFacts,
    /// What follows.
    pub(super) verdict: Verdict,
    /// The last call that did something, or tried to.
    pub(super) last_call: Option<Entry>,
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
    /// That.
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
    driver: &Driver<'_>,
    config: &Config,
    unseen: &[String],
    also: &[VolumeId],
) -> Status {
    let Survey { volumes, not_ours, cloud_silence, unseen: more } = driver.surveying.survey(also);
    let calls = journal::last_calls(&config.paths.log_dir);
    let row = |facts: VolumeFacts| {
        let verdict = judge(&facts);
        let last_call = calls.iter().rev().find(|entry| is_about(entry, &facts)).cloned();
        Row { facts, verdict, last_call }
    };
    let mut volumes: Vec<Row> = volumes.into_iter().map(row).collect();
    volumes.sort_by_key(|row| std::cmp::Reverse(row.verdict.health));
    Status {
        format: 1,
        node: driver.ports.this_node.to_string(),
        at: timestamp::text(clock::now()),
        not_ours,
        cloud_answered: cloud_silence.is_none(),
        cloud_silence,
        unseen: unseen.iter().cloned().chain(more).collect(),
        volumes,
    }
}

fn is_about(entry: &Entry, facts: &VolumeFacts) -> bool {
    let Some(volume) = &entry.volume else { return false };
    facts.id.as_ref().is_some_and(|id| id.as_str() == volume)
        || facts.name.as_ref().is_some_and(|name| name.as_str() == volume)
}

/// Says it, as a person or a machine wants it.
pub(super) fn say(status: &Status, json: bool, stage: &mut Stage<'_>) -> Result<bool> {
    if json {
        return stage.say_json(status);
    }
    let paint = stage.paint();
    Ok(stage.say(&text(status, paint, clock::now())))
}

const HEADS: [&str; 7] = ["VOLUME", "DISK", "CLOUD", "GLOBAL", "PODS", "CONTAINERS", "HEALTH"];
const WIDTHS: [usize; 7] = [36, 14, 9, 6, 4, 10, 9];

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

/// Cells beside each other; the last one is painted.
fn line(cells: &[String; 7], paint: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for (place, (told, width)) in cells.iter().zip(WIDTHS).enumerate() {
        let told = cell(told, width);
        if place + 1 == cells.len() {
            text += &paint(told.trim_end());
        } else {
            text += &format!("{told}  ");
        }
    }
    text
}

fn row_text(row: &Row, paint: Paint, now: Millis) -> String {
    let Row { facts, verdict, last_call } = row;
    let health = verdict.health;
    let cells = [
        facts.id.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string),
        disk(facts),
        facts.cloud.word(),
        global(facts),
        counted(facts, Role::Pod),
        if facts.unseen_mounts.is_some() {
            "?".to_owned()
        } else {
            counted(facts, Role::Container)
        },
        health.to_string(),
    ];
    let mut text = line(&cells, |cell| paint.of(health, cell)) + "\n";
    let pods: Vec<_> = facts.pods.iter().filter(|pod| pod.has_it).map(PodFact::label).collect();
    let name = facts.name.as_ref().map(ToString::to_string);
    // What the table cuts must still be there to be copied.
    let whole = Some(&cells[0]).filter(|id| id.len() > WIDTHS[0]).cloned();
    let used = (!pods.is_empty()).then(|| format!("used by {}", pods.join(", ")));
    let about: Vec<String> = whole.into_iter().chain(name).chain(used).collect();
    if !about.is_empty() {
        text += &hanging("  ", &about.join(", "), str::to_owned);
    }
    if health != Health::Ok {
        text += &hanging("  ", &verdict.because, |line| paint.of(health, line));
    }
    for note in &verdict.notes {
        text += &hanging("  ", note, |line| paint.doubtful(line));
    }
    if let Some(entry) = last_call {
        let told = line_of(&last(entry, now), 2);
        text += &format!("  {}\n", paint.dim(&told));
    }
    text
}

/// The disk, and how well it is proven.
fn disk(facts: &VolumeFacts) -> String {
    match &facts.disk {
        DiskFact::Proven(disk) => {
            format!("{} {}", disk.name, if disk.shows_whole_id { "whole" } else { "cut" })
        }
        DiskFact::None => "none".to_owned(),
        DiskFact::Ambiguous { .. } => "not certain".to_owned(),
        DiskFact::Unseen { .. } => "?".to_owned(),
    }
}

fn global(facts: &VolumeFacts) -> String {
    let of_role = facts.mounts.iter().filter(|mount| mount.role == Role::Global);
    if of_role.clone().any(|mount| mount.out_of_reach.is_some()) {
        return "hidden".to_owned();
    }
    let on = of_role.map(|mount| mount.on).max();
    match on {
        None => "no",
        Some(MountedOn::Disk) => "yes",
        Some(MountedOn::Gone) => "dead",
        Some(MountedOn::Halted) => "halted",
        Some(MountedOn::Other) => "other",
        Some(MountedOn::Unknown) => "?",
    }
    .to_owned()
}

fn counted(facts: &VolumeFacts, role: Role) -> String {
    let all: Vec<&MountFact> = facts.mounts.iter().filter(|mount| mount.role == role).collect();
    let is_well = |mount: &&&MountFact| mount.on == MountedOn::Disk && mount.out_of_reach.is_none();
    let well = all.iter().filter(is_well).count();
    if well == all.len() { all.len().to_string() } else { format!("{well}/{}", all.len()) }
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
