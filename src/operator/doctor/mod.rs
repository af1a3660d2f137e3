//! `disk doctor`: whether this machine is fit for the driver, and what to do where it is not.

mod cloud;
mod files;
mod for_root;
mod kubelet;
mod machine;
mod shield;
mod takeover;
mod transports;
mod written;

use self::for_root::not_looked_at;
use super::configured::Configured;
use super::explain;
use super::status;
use super::terminal::{Paint, Stage, hanging};
use crate::cli::views::DoctorPart;
use crate::driver::Context;
use crate::driver::guard::remote_mark;
use crate::host::machine as host;
use crate::model::error::Result;
use crate::model::kubelet::Attacher;
use crate::model::report::finding::{Finding, Level, worst};
use crate::model::report::health::Health;
use crate::model::text::several;
use crate::node::kubelet::{Kubelet, USUAL_ROOT, ours};
use crate::node::system::System;
use crate::ports::cloud::Trouble;
use serde::Serialize;

/// The answer for machines.
#[derive(Debug, Serialize)]
struct Report<'a> {
    format: u32,
    worst: Level,
    findings: &'a [Finding],
}

/// Looks at everything; the exit status tells the worst.
pub(super) fn run(
    configured: &Configured,
    json: bool,
    only: Option<DoctorPart>,
    stage: &mut Stage<'_>,
) -> Result<u8> {
    let findings = match only {
        None => findings(configured),
        Some(DoctorPart::Configuration) => written::look(configured),
        Some(DoctorPart::Takeover) => takeover::look(configured),
    };
    if json {
        stage.say_json(&Report { format: 1, worst: worst(&findings), findings: &findings })?;
    } else {
        let paint = stage.paint();
        stage.say(&text(&findings, paint));
    }
    Ok(worst(&findings).status())
}

/// All that was found.
pub(super) fn findings(configured: &Configured) -> Vec<Finding> {
    let system = System::default();
    let all_kubelets = system.kubelets();
    let running = ours(&all_kubelets, configured.config.paths.kubelet_root.as_deref());
    let mut all = vec![written::configuration(configured)];
    all.extend(kubelet::look(&all_kubelets, configured));
    all.extend(machine::look(&system, running));
    let is_hidden = configured.is_hidden();
    if let Some(named) =
        running.and_then(|kubelet| system.node_name_of(kubelet)).filter(|_| !is_hidden)
    {
        all.push(kubelet::node_name(&named, configured.config.node.name.as_ref()));
    }
    if is_hidden {
        let why = "depends on the configuration, which only root may read";
        all.extend(OF_THE_CONFIGURATION.map(|check| Finding::skipped(check, why)));
    } else {
        all.extend(transports::look(&configured.config));
        all.extend(files::look(configured, running));
    }
    let root = match (&configured.config.paths.kubelet_root, running) {
        (Some(root), _) => root.clone(),
        (None, Some(kubelet)) => kubelet.root_dir.clone(),
        (None, None) => USUAL_ROOT.into(),
    };
    let by_driver = configured.with_context("doctor", |cx| {
        let mut found = machine::by_driver(cx);
        if !is_hidden {
            found.push(machine::propagation(cx, &root));
            found.extend(cloud::look(cx));
        }
        found.extend(volumes(cx, configured));
        if !is_hidden {
            found.extend(marks(cx, running));
        }
        found.extend(shield::maps(cx, &system));
        if !is_hidden {
            found.extend(shield::shield(cx, &system));
        }
        Ok(found)
    });
    match by_driver {
        Ok(more) => all.extend(more),
        Err(error) => all.push(not_looked_at("driver", error)),
    }
    all
}

/// Checks that would look in the wrong place where the configuration cannot be read.
const OF_THE_CONFIGURATION: [&str; 5] =
    ["credentials", "log", "free space", "propagation", "cloud"];

/// The volumes that are not well: by the same verdict as everywhere.
fn volumes(cx: &Context<'_>, configured: &Configured) -> Vec<Finding> {
    const CHECK: &str = "volumes";
    let status = status::look(cx, &configured.config, &[], &[]);
    let finding = |row: &status::Row| {
        let id = row.facts.label();
        let found = format!("{id} is {}: {}", row.verdict.health, row.verdict.because);
        let verdict = &row.verdict;
        let fix = match (&verdict.command, &verdict.next) {
            (Some(command), Some(next)) => format!("{command}: {next}"),
            (Some(command), None) => command.to_string(),
            (None, Some(next)) => next.clone(),
            (None, None) => format!("disk explain {id}"),
        };
        match row.verdict.health {
            Health::Ok => None,
            health if health.harms() => Some(Finding::error(CHECK, found, fix)),
            Health::Unknown if !host::is_root() => Some(Finding::skipped(CHECK, found)),
            _ => Some(Finding::warning(CHECK, found, fix)),
        }
    };
    let mut found: Vec<_> = status.volumes.iter().filter_map(finding).collect();
    if found.is_empty()
        && let Some(first) = status.unseen.first()
        && !host::is_root()
    {
        let why = format!("volumes may be here that only root can see: {first}");
        found.push(Finding::skipped(CHECK, why));
    } else if found.is_empty() {
        let count = several(status.volumes.len(), "volume is", "volumes are");
        found.push(Finding::ok(
            CHECK,
            format!("{count} on this machine, and nothing is wrong with any"),
        ));
    }
    found.extend(notes(cx, &status.volumes));
    found.extend(status.volumes.iter().filter_map(|row| {
        let disagreement = explain::udev_entry(cx, row)?.disagreement?;
        let disk = &row.facts.disk.proven()?.name;
        Some(Finding::warning(
            machine::UDEV,
            format!(
                "{disagreement}: the driver relies on sysfs, but programs that follow udev's links may open another disk"
            ),
            format!("udevadm trigger --action=change --sysname-match={disk}"),
        ))
    }));
    found
}

/// A kubelet that let go of a volume and was restarted does not tell a controller any more that it is
/// in use: then the mark in the cloud alone stops a detach from elsewhere.
fn marks(cx: &Context<'_>, kubelet: Option<&Kubelet>) -> Option<Finding> {
    if kubelet?.attacher == Attacher::Kubelet {
        return None;
    }
    let forbidden = || {
        let records = cx.store.records.list().unwrap_or_default();
        records.iter().any(|record| record.mark.notes_forbidden.is_some())
    };
    let why = remote_mark::why_no_marks(cx)
        .or_else(|| forbidden().then_some("the cloud allows no notes with volumes"))?;
    Some(Finding::error(
        "marks",
        format!(
            "the controller-manager detaches, and {why}: when kubelet is restarted twice in one \
             outage nothing stops it from detaching what a pod still has"
        ),
        "let marks be left (guard.mode, guard.remote, the cloud's policy for metadata), or let \
         kubelet attach (enableControllerAttachDetach: false)",
    ))
}

/// Where the cloud allows no notes, that a volume has data is known to the machine alone that mounted
/// it.
fn notes(cx: &Context<'_>, rows: &[status::Row]) -> Option<Finding> {
    let mut refused = rows.iter().filter_map(|row| row.facts.record.notes_forbidden.as_deref());
    let first = refused.next()?;
    let advice = cx.cloud.advice(Trouble::NotesForbidden);
    Some(Finding::warning(
        "notes",
        format!(
            "the cloud allows no notes with {} ({first}): only this machine's memory and the \
             reading of the disk keep a volume with data from being formatted",
            several(1 + refused.count(), "volume", "volumes")
        ),
        advice.unwrap_or_else(|| "let this user note things with the cloud's volumes".to_owned()),
    ))
}

/// The list, for people.
pub(super) fn text(findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    for finding in findings {
        let colour = |line: &str| match finding.level {
            Level::Ok => paint.good(line),
            Level::Warning | Level::Skipped => paint.doubtful(line),
            Level::Error => paint.bad(line),
        };
        let begin = format!("{:<8} {:<14} ", finding.level, finding.check);
        let told = hanging(&begin, &finding.found, str::to_owned);
        // Only the level is painted: the rest is for reading.
        text += &told.replacen(&finding.level.to_string(), &colour(&finding.level.to_string()), 1);
        if let Some(fix) = &finding.fix {
            text += &hanging(&format!("{:24}fix: ", ""), fix, |line| paint.bold(line));
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let skipped = match count(Level::Skipped) {
        0 => String::new(),
        skipped => format!(", {skipped} skipped: run sudo disk doctor"),
    };
    text + &format!(
        "\n{}, {}, {} in order{skipped}\n",
        several(count(Level::Error), "error", "errors"),
        several(count(Level::Warning), "warning", "warnings"),
        count(Level::Ok),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_fits_and_shows_its_fix() {
        let long = "word ".repeat(60);
        let findings = [
            Finding::ok("kernel", "6.1"),
            Finding::warning("clock", long.clone(), "set it"),
            Finding::error("cloud", "silent", long),
        ];
        let text = text(&findings, Paint { is_on: false });
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(
            text.contains("fix: set it") && text.contains("1 error, 1 warning, 1 in order\n"),
            "{text}"
        );
        let skipped = super::text(&[Finding::skipped("sight", "x")], Paint { is_on: false });
        assert!(skipped.contains("0 in order, 1 skipped"), "{skipped}");
    }
}
