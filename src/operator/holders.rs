//! `disk holders`: who uses a volume.

use super::status::Row;
use super::terminal::{Paint, Stage, hanging, table_row};
use crate::driver::Context;
use crate::driver::report::holders;
use crate::host::machine;
use crate::model::error::{Error, Result};
use crate::model::mount::disk_users::Answer;
use crate::model::report::facts::HolderFact;
use crate::model::text::several;
use serde::Serialize;

/// The answer for machines.
#[derive(Debug, Serialize)]
struct HoldersView<'a> {
    format: u32,
    #[serde(flatten)]
    holding: &'a Holding,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Holding {
    /// All users that were found.
    pub(super) holders: Vec<HolderFact>,
    /// Why its users could not be looked for.
    pub(super) unseen: Option<String>,
    /// What could not be read.
    pub(super) untold: Vec<String>,
    /// The command that sees all, where this user does not.
    #[serde(skip)]
    pub(super) sees_all: Option<String>,
}

pub(super) fn look(cx: &Context<'_>, row: &Row) -> Holding {
    let command = || format!("sudo disk holders {}", row.facts.label());
    let sees_all = (!machine::is_root()).then(command);
    match holders::holders(cx, &row.facts) {
        Answer::Told(found) => {
            Holding { holders: found.all, unseen: None, untold: found.untold, sees_all }
        }
        Answer::CannotTell(why) => {
            Holding { holders: Vec::new(), unseen: Some(why), untold: Vec::new(), sees_all }
        }
    }
}

pub(super) fn run(cx: &Context<'_>, row: &Row, json: bool, stage: &mut Stage<'_>) -> Result<u8> {
    let found = look(cx, row);
    if json {
        stage.say_json(&HoldersView { format: 1, holding: &found })?;
    } else if let Some(why) = &found.unseen {
        return Err(Error::refused(format!("who uses the volume cannot be seen: {why}"))
            .hint("run it as root, beside the machine's own processes"));
    } else {
        let paint = stage.paint();
        stage.say(&text(&found, paint));
    }
    Ok(0)
}

/// The table, for people.
pub(super) fn text(found: &Holding, paint: Paint) -> String {
    let mut text = String::new();
    if found.holders.is_empty() && found.unseen.is_none() {
        text += if found.untold.is_empty() {
            "no process holds it\n"
        } else {
            "no process that can be seen from here holds it\n"
        };
    } else if !found.holders.is_empty() {
        let heads = ["PID", "COMMAND", "CONTAINER", "POD"].map(str::to_owned);
        let heads = table_row(&heads, &WIDTHS) + "HOLDS";
        text += &format!("{}\n", paint.dim(&heads));
    }
    for holder in &found.holders {
        let process = holder.process.as_ref();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let gone = if holder.is_on_gone_disk { " (on the disk that is gone)" } else { "" };
        let cells = [
            or_dash(process.map(|process| process.pid.to_string())),
            or_dash(process.map(|process| process.command.clone())),
            or_dash(process.and_then(|process| process.container.as_deref()).map(begin_of_id)),
            or_dash(holder.pod_name.clone().or_else(|| Some(process?.pod.as_ref()?.to_string()))),
        ];
        let holds = format!("{} {}{gone}", holder.how, holder.what);
        text += &hanging(&table_row(&cells, &WIDTHS), &holds, |line| {
            if holder.is_on_gone_disk { paint.bad(line) } else { line.to_owned() }
        });
    }
    if let (Some(command), false) = (&found.sees_all, found.untold.is_empty()) {
        let places = several(found.untold.len(), "place", "places");
        let what = format!("Not seen: {places} that only root may read; {command} sees all");
        return text + &hanging("! ", &what, |line| paint.doubtful(line));
    }
    for what in found.unseen.iter().chain(&found.untold) {
        text += &hanging("! ", &format!("Not seen: {what}"), |line| paint.doubtful(line));
    }
    text
}

const WIDTHS: [usize; 4] = [7, 15, 12, 20];

/// Enough of a container's id for the runtime's own tools.
fn begin_of_id(id: &str) -> String {
    id.get(..WIDTHS[2]).unwrap_or(id).to_owned()
}
