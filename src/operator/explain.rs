//! `disk explain`: every fact about one volume, where it was read, and what to do.

use super::holders::{self, Holding};
use super::status::Row;
use super::terminal::{Paint, Stage, hanging};
use super::timeline::Entry;
use super::{history, journal, kernel_story, naming};
use crate::configuration::Config;
use crate::driver::Context;
use crate::host::records::RecordFiles;
use crate::model::disk::device::UdevEntry;
use crate::model::disk::formatting::{self, FormatRequester};
use crate::model::error::Result;
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::mount::staleness::MountVerdict;
use crate::model::report::facts::{CloudFact, DiskFact, MountFact, MountedOn, Role, VolumeFacts};
use crate::model::timestamp;
use crate::ports::clock;
use serde::Serialize;

/// So many of the last entries of the story.
pub(super) const LAST: usize = 8;

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Explanation<'a> {
    pub(super) format: u32,
    pub(super) volume: &'a Row,
    pub(super) cloud_silence: Option<&'a str>,
    /// Nothing where the driver was built without libudev.
    pub(super) udev: Option<UdevEntry>,
    #[serde(flatten)]
    pub(super) holding: Holding,
    pub(super) history: Vec<Entry>,
}

pub(super) fn run(
    cx: &Context<'_>,
    config: &Config,
    row: &Row,
    cloud_silence: Option<&str>,
    json: bool,
    stage: &mut Stage<'_>,
) -> Result<u8> {
    let id = row.facts.id.as_ref().map(VolumeId::as_name);
    let name = id.or_else(|| row.facts.name.clone());
    let history = name.map(|name| last_entries(config, &name)).unwrap_or_default();
    let holding = holders::look(cx, row);
    let udev = udev_entry(cx, row);
    let all = Explanation { format: 1, volume: row, cloud_silence, udev, holding, history };
    if json {
        stage.say_json(&all)?;
    } else {
        let paint = stage.paint();
        stage.say(&text(&all, paint));
    }
    Ok(0)
}

/// What udev's database says about the disk that is proven to be the volume's.
pub(super) fn udev_entry(cx: &Context<'_>, row: &Row) -> Option<UdevEntry> {
    let (Some(id), DiskFact::Proven(disk)) = (&row.facts.id, &row.facts.disk) else { return None };
    cx.host.devices.udev_entry(&cx.cloud.identity(id), disk.number)
}

fn last_entries(config: &Config, name: &VolumeName) -> Vec<Entry> {
    let records = RecordFiles::below(&config.paths.state_dir, &config.paths.run_dir);
    let query =
        journal::LogQuery { volume: naming::names_of(name, &records), ..Default::default() };
    let mut entries = journal::story(&config.paths, &query).unwrap_or_default().entries;
    entries.drain(..entries.len().saturating_sub(LAST));
    // A volume that was mounted and has no disk now: the kernel may have said why.
    kernel_story::with_rows(config, entries)
}

/// The page, for people: the verdict, then the facts.
pub(super) fn text(all: &Explanation<'_>, paint: Paint) -> String {
    let Row { facts, verdict, .. } = all.volume;
    let mut page = Page { text: String::new(), paint };
    let id = facts
        .id
        .as_ref()
        .map_or_else(|| "a volume without a known id".to_owned(), ToString::to_string);
    let name = facts.name.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
    page.text += &format!("{}\n\n", paint.bold(&format!("{id}{name}")));
    let health = verdict.health;
    page.fact("verdict", &format!("{health}: {}", verdict.because), |line| paint.of(health, line));
    if let Some(consequence) = &verdict.consequence {
        page.plain("means", consequence);
    }
    if let Some(next) = &verdict.next {
        page.fact("what to do", next, |line| paint.bold(line));
    }
    if let Some(command) = &verdict.command {
        // Whole, so that it can be copied.
        page.text += &format!("  {:<12} {}\n", "type", paint.bold(&command.to_string()));
    }
    for note in &verdict.notes {
        page.doubtful("note", note);
    }
    for refusal in &facts.refused {
        let times = format!(
            "{}, {} times since {}, last {}: {}",
            refusal.told,
            refusal.count,
            timestamp::text(refusal.since * 1000),
            timestamp::text(refusal.last * 1000),
            refusal.reason
        );
        page.plain(if refusal.is_current { "refused" } else { "was refused" }, &times);
    }
    cloud(&mut page, facts);
    disk(&mut page, facts);
    if let Some(udev) = &all.udev {
        page.plain("udev has", udev.serial.as_deref().unwrap_or("no serial of it"));
        for link in &udev.links {
            page.plain("udev's link", &link.display().to_string());
        }
        if let Some(disagreement) = &udev.disagreement {
            page.doubtful("DISAGREES", &format!("{disagreement}; sysfs decides"));
        }
    }
    mounts(&mut page, facts);
    page.head("Holders", "/proc: open files, maps, folders, mounts; /sys: devices made of it");
    page.text += &holders::text(&all.holding, paint);
    memory(&mut page, facts);
    if !all.history.is_empty() {
        page.head("Last calls", "the log; all of it: disk history");
        // The volume's name stands at the top of this page.
        let story = history::text(&all.history, paint);
        page.text += story.split_once('\n').map_or("", |(_, rest)| rest);
    }
    page.text
}

fn cloud(page: &mut Page, facts: &VolumeFacts) {
    page.head("Cloud", "its services");
    match &facts.cloud {
        CloudFact::Unknown { why } => page.doubtful("says", &format!("unknown: {why}")),
        CloudFact::Missing => page.plain("says", "there is no such volume"),
        CloudFact::Known(view) => {
            page.plain("status", &format!("{} ({} bytes)", view.status, view.size));
            for (server, since) in &view.servers {
                let here =
                    if view.is_here && view.servers.len() == 1 { " (this machine)" } else { "" };
                let since = since.as_deref().map(|since| timestamp::told(since, clock::now()));
                let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
                page.plain("attached to", &format!("{server}{here}{since}"));
            }
            if view.servers.is_empty() {
                page.plain("attached to", "no server");
            }
            page.maybe("called", view.name.as_deref());
            page.maybe("recorded as", view.recorded_name.as_ref().map(VolumeName::as_str));
            page.maybe("mounted on", view.mounted_on.as_deref());
            page.maybe("noted", view.life.as_ref().map(ToString::to_string).as_deref());
            page.maybe("made from", view.origin.as_deref());
            if view.is_encrypted {
                page.plain("encrypted", "its disk is smaller by up to 16 MiB");
            }
        }
    }
}

fn disk(page: &mut Page, facts: &VolumeFacts) {
    page.head("Disk", "sysfs, on every disk of this machine");
    if !facts.identity.is_empty() {
        page.plain("must show", &facts.identity);
    }
    match &facts.disk {
        DiskFact::Proven(disk) => {
            let proof = if disk.shows_whole_id {
                "shows the whole id"
            } else {
                "shows its first 20 characters"
            };
            let access = if disk.read_only { ", refuses writes" } else { "" };
            let sequence =
                disk.sequence.map(|n| format!(", disk {n} since the start")).unwrap_or_default();
            page.plain(
                "is",
                &format!(
                    "/dev/{} ({}), {} bytes{access}{sequence}; {proof}",
                    disk.name, disk.number, disk.size
                ),
            );
            for shown in &disk.shows {
                page.plain("shows", shown);
            }
        }
        DiskFact::None => page.plain("is", "not here: no disk shows that"),
        DiskFact::Ambiguous { why, .. } => page.plain("is", &format!("not certain: {why}")),
        DiskFact::Unseen { why, .. } => page.plain("is", &format!("unknown: {why}")),
    }
    if let Some(map) = &facts.map {
        let on = map.path.map(|path| format!(", on {path}")).unwrap_or_default();
        let (name, number, words) = (&map.name, map.number, map.state.words());
        page.plain("map", &format!("{name} ({number}){on}; it {words}"));
    }
    if let Some(text) = if_blank(facts) {
        page.plain("if blank", &text);
    }
    for link in &facts.links {
        let target = link.target.as_ref().map(|target| format!(" -> {}", target.display()));
        let fault = link.fault.as_ref().map(|fault| format!(" LIES: {fault}"));
        let text = format!(
            "{}{}{}",
            link.link.display(),
            target.unwrap_or_default(),
            fault.unwrap_or_default()
        );
        page.plain("link", &text);
    }
}

/// Whether the disk would get a file system by itself, should it be blank: by the same judgement as
/// when it is mounted. Nothing for one that is mounted.
fn if_blank(facts: &VolumeFacts) -> Option<String> {
    let (CloudFact::Known(view), DiskFact::Proven(disk), Some(volume)) =
        (&facts.cloud, &facts.disk, &facts.id)
    else {
        return None;
    };
    if !facts.mounts.is_empty() {
        return None;
    }
    let known = formatting::Facts {
        volume,
        disk: (&disk.name, disk.size, disk.read_only),
        was_mounted: facts.record.was_mounted,
        here: view.here.as_deref(),
        attached_to: view.servers.iter().map(|(server, _)| server.as_str()).collect(),
        size: view.size,
        is_encrypted: view.is_encrypted,
        origin: view.origin.as_deref(),
        life: view.life.as_ref(),
        mounted_on: view.mounted_on.as_deref(),
    };
    Some(match formatting::may_format(&known, FormatRequester::Mount) {
        Ok(_) => "the next mountdevice makes its file system".to_owned(),
        Err(objection) => format!("it stays blank: {}", objection.cause),
    })
}

fn mounts(page: &mut Page, facts: &VolumeFacts) {
    page.head("Mounts", "/proc/*/mountinfo, in every mount namespace");
    for mount in &facts.mounts {
        let paint = page.paint;
        page.fact(role(mount.role), &mount_text(mount), |line| match mount.on {
            _ if mount.out_of_reach.is_some() => paint.bad(line),
            MountedOn::Gone | MountedOn::Halted | MountedOn::Other => paint.bad(line),
            MountedOn::Disk | MountedOn::Unknown => line.to_owned(),
        });
    }
    if facts.mounts.is_empty() {
        page.plain("none", "");
    }
    if let Some(why) = &facts.unseen_mounts {
        page.plain("not seen", &format!("other namespaces: {why}"));
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Global => "global",
        Role::Pod => "pod",
        Role::Machine => "machine",
        Role::Container => "container",
        Role::Stranger => "stranger",
    }
}

/// What the disk shows, where that is what is wrong.
fn why(mount: &MountFact) -> String {
    match &mount.verdict {
        Some(MountVerdict::NotProvenDead(doubt)) => format!(", {}", doubt.state),
        Some(MountVerdict::Foreign(why)) => format!(", {why}"),
        _ => String::new(),
    }
}

fn mount_text(mount: &MountFact) -> String {
    let on = match mount.on {
        MountedOn::Disk => "the disk".to_owned(),
        MountedOn::Gone => "a disk that is GONE".to_owned(),
        MountedOn::Halted => format!("a disk that DOES NOT WORK{}", why(mount)),
        MountedOn::Other => format!("ANOTHER disk{}", why(mount)),
        MountedOn::Unknown => "a disk that is not certain".to_owned(),
    };
    let below = if mount.root.as_os_str() == "/" {
        String::new()
    } else {
        format!(", its folder {}", mount.root.display())
    };
    let namespace = mount.namespace.map(|id| format!(", namespace mnt:[{id}]")).unwrap_or_default();
    let who = match mount.processes.as_slice() {
        [] if mount.is_own() => String::new(),
        [] => ", which has no process".to_owned(),
        [first, rest @ ..] => {
            let more =
                if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            format!(", {} ({}){more}", first.pid, first.command)
        }
    };
    let pod = mount.pod.as_ref().map(|pod| format!(" of pod {pod}")).unwrap_or_default();
    let hidden = mount.out_of_reach.as_ref();
    let hidden = hidden.map(|why| format!(", OUT OF REACH: {why}")).unwrap_or_default();
    format!(
        "{} on {on} ({}){below}: {} {}, source {}{namespace}{who}{pod}{hidden}",
        mount.place.display(),
        mount.number,
        mount.fs_type,
        mount.options,
        mount.source
    )
}

fn memory(page: &mut Page, facts: &VolumeFacts) {
    let record = &facts.record;
    page.head("Memory", &record.file.display().to_string());
    match &record.unseen {
        Some(why) => page.plain("not seen", why),
        None if !record.is_there => page.plain("none", ""),
        None => {}
    }
    if let Some(staged) = &record.staged {
        let from = record.staged_from.map(|number| format!(" from {number}")).unwrap_or_default();
        page.plain("staged", &format!("{}{from}", staged.display()));
    }
    page.maybe("file system", record.uuid.as_deref());
    if !record.former.is_empty() {
        let numbers: Vec<_> = record.former.iter().map(ToString::to_string).collect();
        page.plain("had numbers", &numbers.join(", "));
    }
    for pod in &facts.pods {
        let now = if pod.has_it { "has it" } else { "had it" };
        let name = pod.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        page.plain("pod", &format!("{}{name} {now}", pod.uid));
    }
    if record.refusals > 0 {
        page.plain("refusals", &format!("{} since the machine was started", record.refusals));
    }
    let free = match &record.unseen {
        Some(_) => "not seen",
        None => "free: no call works on it now",
    };
    page.plain("lock", facts.lock.as_deref().unwrap_or(free));
}

struct Page {
    text: String,
    paint: Paint,
}

impl Page {
    fn head(&mut self, head: &str, source: &str) {
        let paint = self.paint;
        let first = format!("{head} ");
        let told = hanging(&first, &format!("({source})"), |line| paint.dim(line));
        self.text += &format!("\n{}{}", paint.bold(head), &told[head.len()..]);
    }

    fn fact(&mut self, key: &str, text: &str, paint: impl Fn(&str) -> String) {
        self.text += &hanging(&format!("  {key:<12} "), text, paint);
    }

    fn plain(&mut self, key: &str, text: &str) {
        self.fact(key, text, str::to_owned);
    }

    fn doubtful(&mut self, key: &str, text: &str) {
        let paint = self.paint;
        self.fact(key, text, |line| paint.doubtful(line));
    }

    fn maybe(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.plain(key, text);
        }
    }
}
