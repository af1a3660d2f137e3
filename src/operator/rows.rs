//! `disk status` for programs: lines for a script, and one line with an exit status for a monitor.

use super::status::{Row, Status, called, disk};
use crate::model::report::health::Health;
use crate::model::text::{several, visible};

/// A line of the node, then one for each volume, the worst first; cells have tabs between them.
///
/// `node NAME VOLUMES CLOUD UNSEEN`, where CLOUD is `answers` or why it does not;
/// `volume RANK HEALTH PODS VOLUME DISK CONSEQUENCE TO-DO COMMAND ID NAME`, where a higher RANK is worse.
/// `-` is nothing. Further cells may follow these one day.
pub(super) fn rows(status: &Status) -> String {
    let cloud = status.cloud_silence.as_deref().unwrap_or("answers");
    let mut text = line(&[
        "node",
        &status.node,
        &status.volumes.len().to_string(),
        cloud,
        &status.unseen.join("; "),
    ]);
    for Row { facts, verdict, .. } in &status.volumes {
        text += &line(&[
            "volume",
            &verdict.health.rank().to_string(),
            verdict.health.word(),
            &facts.users().join(", "),
            &called(facts),
            &disk(facts),
            verdict.consequence.as_deref().unwrap_or_default(),
            verdict.next.as_deref().unwrap_or_default(),
            &verdict.command.as_ref().map(ToString::to_string).unwrap_or_default(),
            &facts.id.as_ref().map(ToString::to_string).unwrap_or_default(),
            &facts.name.as_ref().map(ToString::to_string).unwrap_or_default(),
        ]);
    }
    text
}

fn line(cells: &[&str]) -> String {
    let cell = |text: &&str| match *text {
        "" => "-".to_owned(),
        // No tab and no end of a line is left in it.
        text => visible(text).into_owned(),
    };
    cells.iter().map(cell).collect::<Vec<_>>().join("\t") + "\n"
}

/// The worst volume in a line that stays the same while nothing changes, and the exit status. The line
/// begins with what counts: monitors cut it.
pub(super) fn check(status: &Status) -> (String, u8) {
    let count = |is: &dyn Fn(Health) -> bool| {
        status.volumes.iter().filter(|row| is(row.verdict.health)).count()
    };
    let harmed = count(&Health::harms);
    let unknown = count(&|health| health == Health::Unknown);
    let worst = status.volumes.first().map(|row| {
        let called = called(&row.facts);
        let user = [row.facts.users(), vec![&called]].concat().join(", ");
        format!("{} ({user})", row.verdict.health)
    });
    let worst = worst.unwrap_or_default();
    let others = |count: usize| match count {
        0 | 1 => String::new(),
        count => format!(", {} more", count - 1),
    };
    let volumes = several(status.volumes.len(), "volume", "volumes");
    let (text, exit) = match (harmed, unknown) {
        (0, 0) if !status.unseen.is_empty() => {
            return (not_seen(&status.unseen.join("; ")), UNKNOWN);
        }
        (0, 0) => (format!("{volumes}, none is harmed"), 0),
        (0, count) => (format!("{worst}{}", others(count)), UNKNOWN),
        (count, _) => (format!("{worst}{}", others(count)), HARMED),
    };
    (visible(&text).into_owned() + "\n", exit)
}

/// The line where it could not be looked.
pub(super) fn not_seen(why: &str) -> String {
    format!("not seen: {}\n", visible(why))
}

const HARMED: u8 = 1;

/// No number that a shell or a signal uses.
pub(super) const UNKNOWN: u8 = 3;
