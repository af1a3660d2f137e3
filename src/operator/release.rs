//! The break-glasses: what the guard protects is given up by a person, who is told first what
//! breaks.

use super::terminal::told;
use crate::driver::Context;
use crate::driver::attachment::detach::{self, Force};
use crate::driver::guard::end_users;
use crate::driver::mount::release;
use crate::driver::operation::Outcome;
use crate::model::advice::advise;
use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, VolumeId};
use std::time::Duration;

/// How long who uses a volume is looked for, by who wants to know that, and by who acts in any case: force never waits
/// for those that it is used against.
const PLAN: Duration = Duration::from_secs(10);
const ACT: Duration = Duration::from_secs(2);

pub(super) fn detach(
    cx: &Context<'_>,
    id: &VolumeId,
    node: Option<&NodeName>,
    dry_run: bool,
) -> Result<String> {
    let node = node.filter(|node| node.as_str() != THIS_MACHINE);
    let is_here = node.is_none_or(|node| node == cx.this_node);
    cx.host.census.allow(if dry_run { PLAN } else { ACT });
    let breaks = is_here.then(|| release::what_would_break(cx, id));
    if dry_run {
        let fate = if is_here && release::would_wait(cx, id) { Fate::Waits } else { Fate::Fails };
        return Ok(would_break(breaks.as_deref(), &format!("disk detach --force {id}"), fate));
    }
    let done = detach::detach(cx, id, node, Force::Yes);
    let waits = is_here && release::waits(cx, id);
    let outcome = done.map_err(|error| if waits { not_again(error) } else { error })?;
    let heading = if waits { "this waits for its disk" } else { "this breaks" };
    let mut text = breaks.map(|breaks| lines(heading, &breaks)).unwrap_or_default();
    let node = node.unwrap_or(cx.this_node);
    text += &match outcome {
        Outcome::Done => format!("detached {id} from {node}\n"),
        Outcome::Already => format!("{id} was not attached to {node}\n"),
    };
    if waits {
        text += &told(&format!(
            "it goes on when {id} is attached again, unless something else wrote to it; disk explain {id} says \
             how long it waits, disk release {id} ends the wait with errors"
        ));
    }
    Ok(text)
}

/// Who was not told that it was done tries once more, and that ends the wait.
fn not_again(error: Error) -> Error {
    let again =
        "what has it open waits for its disk, and the same command once more ends that with errors";
    let hint = error.hint.clone().map(|hint| advise("{}; {}", [hint, again.into()]));
    error.hint(hint.unwrap_or_else(|| again.into()))
}

/// What becomes of reads and writes, when the disk is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fails,
    /// It is mounted with the shield.
    Waits,
}

/// What the predecessor's users type for "this machine".
const THIS_MACHINE: &str = "1";

pub(super) fn release(cx: &Context<'_>, id: &VolumeId, dry_run: bool) -> Result<String> {
    cx.host.census.allow(if dry_run { PLAN } else { ACT });
    let breaks = release::what_would_break(cx, id);
    if dry_run {
        return Ok(would_break(Some(&breaks), &format!("disk release {id}"), Fate::Fails));
    }
    let mut text = lines("this breaks", &breaks);
    let released = release::release(cx, id)?;
    for folder in released.folders {
        text += &told(&format!("unmounted {}", folder.display()));
    }
    text += &format!("no mount of {id} is left on this machine, outside of containers\n");
    if let Some(why) = released.lost {
        text += &told(&format!("data that programs wrote did not reach the disk: {why}"));
    }
    if let Some(why) = released.held {
        text += &told(&format!("a detach is refused until it is free: {why}"));
    }
    Ok(text)
}

/// Ends the processes of ordinary users that keep the volume in use.
pub(super) fn end_users(cx: &Context<'_>, id: &VolumeId, dry_run: bool) -> Result<String> {
    cx.host.census.allow(PLAN);
    let (processes, hidden) = if dry_run {
        end_users::users_with(cx, id)?
    } else {
        let ended = end_users::end_users(cx, id)?;
        let hidden = if ended.is_empty() { end_users::users_with(cx, id)?.1 } else { None };
        (ended, hidden)
    };
    if processes.is_empty() {
        let hidden = hidden.map(|one| told(&format!("cannot be examined, and may keep it: {one}")));
        let text = "no process of an ordinary user keeps it in use\n".to_owned();
        return Ok(text + &hidden.unwrap_or_default());
    }
    let word = if dry_run { "would end" } else { "ended" };
    let lines = processes.iter().map(|process| format!("{word} {process}\n"));
    let end = if dry_run { "Nothing was changed.\n" } else { "" };
    Ok(lines.collect::<String>() + end)
}

/// The plan: what has not happened is said first. Of another machine nothing is known.
fn would_break(what: Option<&[String]>, command: &str, fate: Fate) -> String {
    let then = match fate {
        Fate::Fails => "fail then",
        Fate::Waits => "wait then for the disk, or fail where a call hangs on it",
    };
    let heading = format!("{command} would take it from these, whose reads and writes {then}");
    let breaks = what.map(|what| lines(&heading, what)).unwrap_or_default();
    format!("Nothing was changed.\n{breaks}")
}

fn lines(heading: &str, what: &[String]) -> String {
    if what.is_empty() {
        return "nothing on this machine uses it\n".to_owned();
    }
    let lines = what.iter().map(|line| told(&format!("  {line}")));
    format!("{heading}:\n{}", lines.collect::<String>())
}
