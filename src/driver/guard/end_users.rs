//! Processes of ordinary users that keep a volume busy; a person may end them.
//!
//! Any user can keep a mount namespace with copies of all mounts, or a file that he may read. No refusal may last as
//! long as such a user likes.

use crate::context::Context;
use crate::model::advice::Advice;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::after_heal::Wakeup;
use crate::model::mount::disk_users::{Answer, NamespaceKeeper, Process};
use crate::model::pauses::Steps;
use crate::ownership::words::way_to_end_users;
use crate::ports::host::HELD_AT_ONCE;
use crate::ports::store::what_ends_it;
use crate::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long to wait after the last of them was signalled.
const ENDS: Duration = Duration::from_secs(20);

/// How long one search for them may take.
const PLAN: Duration = Duration::from_secs(10);

/// The signalled processes, each held by a descriptor so that its id is not reused.
type Ending = BTreeMap<u32, (Process, OwnedFd)>;

/// Processes of ordinary users, outside pods and containers, that have files of the volume open or keep a mount
/// namespace of their own with the volume; and the first process that may do so but could not be examined, with what
/// ends it.
pub fn users_with(cx: &Context<'_>, id: &VolumeId) -> Result<(Vec<Process>, Option<String>)> {
    let numbers = Snapshot::of(cx, Some(id)).numbers(&[]);
    let users = match cx.host.census.device_users(&numbers) {
        Answer::Told(users) => users,
        Answer::CannotTell(why) => {
            return Err(Error::refused(format!(
                "who uses the volume cannot be told from here: {why}"
            )));
        }
    };
    let of_users = users.namespaces.iter().filter(|one| one.user.is_some());
    let in_theirs = of_users.flat_map(|one| {
        let openers = one.keepers.iter().filter_map(|keeper| match keeper {
            NamespaceKeeper::OpenIn { process, .. } => Some(process),
            NamespaceKeeper::MountedAt { .. } | NamespaceKeeper::Unexamined(_) => None,
        });
        one.processes.iter().chain(openers)
    });
    let with_files = users.files.iter().map(|file| &file.process);
    let all = in_theirs.chain(with_files).filter(|one| one.ordinary_user().is_some());
    let by_id: BTreeMap<u32, &Process> = all.map(|process| (process.pid, process)).collect();
    let unexamined = users.untold.iter().find(|one| one.way_out.is_some());
    Ok((by_id.into_values().cloned().collect(), unexamined.map(ToString::to_string)))
}

/// The command that ends them, for a refusal.
pub(crate) fn way_out_of_users(cx: &Context<'_>, id: Option<&VolumeId>) -> String {
    let has_any = |id: &&VolumeId| users_with(cx, id).is_ok_and(|(users, _)| !users.is_empty());
    let id = id.filter(has_any);
    id.map(|id| way_to_end_users(Some(id))).unwrap_or_default()
}

/// Ends them, waits until the kernel has released everything they held, and returns them.
pub fn end_users(cx: &Context<'_>, id: &VolumeId) -> Result<Vec<Process>> {
    let mut ended: Vec<Process> = Vec::new();
    let mut ending = Ending::new();
    let mut until = cx.deadline.at_most(ENDS);
    // A process that is ending may have started another one.
    for step in Steps::between(Duration::from_millis(5), Duration::from_millis(200)) {
        ending.retain(|_, (_, pin)| !cx.host.processes.has_ended(pin));
        let found = to_be_ended(cx, id, &ending)?;
        if found.is_empty() && ending.is_empty() {
            return Ok(ended);
        }
        // At least one: its resources may depend on it.
        let room = HELD_AT_ONCE.saturating_sub(ending.len()).max(1);
        let pinned =
            found.iter().filter_map(|one| Some((one, cx.host.processes.pin(one.pid).ok()?)));
        let pinned: Vec<_> = pinned.take(room).collect();
        // The id may have been reused before the process was held.
        let again = to_be_ended(cx, id, &ending)?;
        for (process, pin) in pinned.into_iter().filter(|(one, _)| again.contains(one)) {
            cx.host.processes.signal(&pin, Wakeup::Kill)?;
            if !ended.contains(process) {
                tracing::warn!(volume = %id, %process, "ended by a person: it kept the volume in use");
                ended.push(process.clone());
            }
            ending.insert(process.pid, (process.clone(), pin));
            until = cx.deadline.at_most(ENDS);
        }
        if !until.pause(step) {
            break;
        }
    }
    ending.retain(|_, (_, pin)| !cx.host.processes.has_ended(pin));
    let found = to_be_ended(cx, id, &ending)?;
    if found.is_empty() && ending.is_empty() {
        return Ok(ended);
    }
    let way = if found.is_empty() {
        what_ends(cx, &ending)
    } else {
        "they start new ones, or hang in the kernel: lock that user out, and repeat it".into()
    };
    let left = found.iter().chain(ending.values().map(|(process, _)| process));
    let left: Vec<_> = left.map(ToString::to_string).collect();
    let message = format!("processes of users still keep the volume: {}", left.join("; "));
    Err(Error::new(Kind::Busy, message).hint(way))
}

/// Processes that keep the volume busy or keep a signalled process from ending, except those already signalled.
fn to_be_ended(cx: &Context<'_>, id: &VolumeId, ending: &Ending) -> Result<Vec<Process>> {
    let tracers = tracers_of(cx, ending);
    // First, because ending one of them may end many others.
    let mut found: Vec<_> =
        tracers.into_iter().filter(|one| one.ordinary_user().is_some()).collect();
    // It is searched repeatedly while a person waits.
    cx.host.census.allow(PLAN);
    found.extend(users_with(cx, id)?.0);
    found.retain(|one| !ending.contains_key(&one.pid));
    Ok(found)
}

fn tracers_of(cx: &Context<'_>, ending: &Ending) -> Vec<Process> {
    let tracers = ending.keys().flat_map(|pid| cx.host.census.tracers_that_stop(*pid));
    let by_id: BTreeMap<_, _> = tracers.map(|one| (one.pid, one)).collect();
    by_id.into_values().collect()
}

/// What ends the signalled processes that do not end.
fn what_ends(cx: &Context<'_>, ending: &Ending) -> Advice {
    let tracers = tracers_of(cx, ending).into_iter();
    let tracers: Vec<_> = tracers.map(|one| format!("{one} (kill {})", one.pid)).collect();
    if tracers.is_empty() {
        return what_ends_it();
    }
    format!("it was killed, and is kept from its end by what traces it: {}", tracers.join("; "))
        .into()
}
