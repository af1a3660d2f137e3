//! Volumes that kubelet has released and forgotten. A kubelet that unmounted a pod's directory and was then restarted
//! no longer knows the volume. If the pod ends before kubelet can read its claim, kubelet never asks to unstage and
//! detach the volume. The timer does that instead.

use crate::context::Context;
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::mount::disk_users::Answer;
use crate::model::mount::folders_let_go::{Caller, LetGo, LetGoes};
use crate::model::mount::layout::FolderKind;
use crate::model::mount::ownership::{Machine, NamespaceRole};
use crate::model::record::VolumeRecord;
use crate::model::report::facts::LetGoFact;
use crate::model::timestamp::{Millis, Uptime};
use crate::ownership;
use crate::ports::clock::now;
use crate::snapshot::{Renewal, Snapshot};
use std::path::Path;
use std::time::Duration;

/// By then an orchestrator that can read its claims has mounted the directory again.
const LASTS: Duration = Duration::from_secs(600);

/// How long, in milliseconds, that is reported.
const TOLD_FOR: u64 = 86_400_000;

/// A call names the volume and will bring it to its end. The caller holds the volume's lock.
pub(crate) fn note_caller(cx: &Context<'_>, id: &VolumeId) {
    let (by, before) = (cx.host.environment.caller(), cx.store.records.load(id));
    let is_other = is_other_caller(&before.mounts.let_go, by.as_ref());
    if !is_other && before.mounts.unstaged_at.is_none() {
        return;
    }
    let noted = cx.store.records.update(id, |record| {
        if is_other {
            record.mounts.let_go.asked_by = by;
        }
        record.mounts.unstaged_at = None;
    });
    if let Err(error) = noted {
        tracing::warn!(volume = %id, %error, "who asked for it last is not remembered");
    }
}

/// Records a detach call: as long as it is repeated, the timer need not detach.
pub(crate) fn note_detach(cx: &Context<'_>, id: &VolumeId) {
    /// A detach that follows the unmount at once needs no record.
    const SOON: Duration = Duration::from_secs(60);
    let now = cx.host.environment.uptime();
    let is_old = |at: &Uptime| now.since(at).is_none_or(|gap| gap >= SOON);
    if !cx.store.records.load(id).mounts.unstaged_at.as_ref().is_some_and(is_old) {
        return;
    }
    if let Err(error) = cx.store.records.update(id, |record| record.mounts.unstaged_at = Some(now))
    {
        tracing::warn!(volume = %id, %error, "the call is not remembered");
    }
}

/// Whether no call will come for the volume: it was released and not mounted again, and the process that last named it
/// and all processes of its pods have ended.
pub(crate) fn is_forgotten(cx: &Context<'_>, record: &VolumeRecord) -> bool {
    let boot = cx.host.environment.boot_id();
    let let_go = &record.mounts.let_go;
    let was_asked_by_the_dead =
        let_go.asked_by.as_ref().is_some_and(|caller| !cx.host.environment.lives(caller));
    let_go.open(&boot).next().is_some() && was_asked_by_the_dead && belongs_to_no_pod(cx, record)
}

/// Whether no pod uses it, by a directory or by a container that was given it.
fn belongs_to_no_pod(cx: &Context<'_>, record: &VolumeRecord) -> bool {
    let mut snapshot = Snapshot::of(cx, Some(&record.volume));
    let numbers = snapshot.numbers(&[]);
    let Answer::Told(uses) = cx.host.census.namespaces_with(&numbers) else { return false };
    snapshot.renew(Renewal::NamespacesRead);
    let Ok(table) = snapshot.table() else { return false };
    let is_pods = |place: &Path| {
        matches!(cx.faces.place_of(place), Some((FolderKind::Consumer(_) | FolderKind::Part(_), _)))
    };
    let mut own = table.mounts().iter().filter(|mount| numbers.contains(&mount.disk));
    if own.any(|mount| is_pods(&mount.target)) {
        return false;
    }
    let machine = Machine::new(cx.faces, table, Some(record), &numbers);
    let is_hidden = uses.hidden(|pod| record.mounts.knows(pod)).is_some();
    !is_hidden && uses.namespaces.iter().all(|one| machine.role(one) != NamespaceRole::Claim)
}

/// The released directories, for people, without old news.
pub(crate) fn let_go_facts(cx: &Context<'_>, record: &VolumeRecord) -> Vec<LetGoFact> {
    let (boot, uptime) = (cx.host.environment.boot_id(), cx.host.environment.uptime());
    let is_forgotten = is_forgotten(cx, record);
    let fact = |(pod, one): (&ConsumerId, &LetGo)| fact_of(pod, one, &uptime, is_forgotten);
    let is_news = |one: &LetGoFact| match one.back {
        Some(back) => is_told_still(back, now()),
        None => one.is_forgotten || ownership::may_have_it(cx, &record.volume, &one.pod),
    };
    let of_this_boot = record.mounts.let_go.folders.iter().filter(|(_, one)| one.when.boot == boot);
    of_this_boot.map(fact).filter(is_news).collect()
}

/// Whether another process than the last one asks for a released volume, as far as known.
fn is_other_caller(let_go: &LetGoes, by: Option<&Caller>) -> bool {
    !let_go.is_empty() && by.is_some() && let_go.asked_by.as_ref() != by
}

/// What to report about one directory. One that was mounted again is neither lasting nor forgotten.
fn fact_of(pod: &ConsumerId, one: &LetGo, now: &Uptime, is_forgotten: bool) -> LetGoFact {
    let is_back = one.back.is_some();
    LetGoFact {
        pod: pod.clone(),
        since: one.at,
        back: one.back,
        lasts: !is_back && now.since(&one.when).is_some_and(|gap| gap >= LASTS),
        is_forgotten: is_forgotten && !is_back,
    }
}

fn is_told_still(back: Millis, now: Millis) -> bool {
    now < back.saturating_add(TOLD_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_volume_that_was_let_go_of_is_noted_where_it_is_another_process() {
        let caller = |pid| Caller { pid, began: 7 };
        let mut let_go = LetGoes::default();
        assert!(!is_other_caller(&let_go, Some(&caller(4))), "nothing was let go of");
        let when = Uptime { boot: "this".to_owned(), seconds: 100 };
        let_go.note(&ConsumerId::parse("a-pod").unwrap(), 7, &when, Some(caller(3)));
        assert!(is_other_caller(&let_go, Some(&caller(4))));
        assert!(!is_other_caller(&let_go, Some(&caller(3))));
        assert!(!is_other_caller(&let_go, None), "it has ended");
    }

    #[test]
    fn what_is_let_go_of_lasts_or_is_forgotten_until_it_is_back() {
        let pod = ConsumerId::parse("a-pod").unwrap();
        let at = |seconds| Uptime { boot: "this".to_owned(), seconds };
        let told = |back, seconds, is_forgotten| {
            let one = LetGo { at: 7, when: at(100), back };
            let fact = fact_of(&pod, &one, &at(seconds), is_forgotten);
            assert_eq!((fact.since, fact.back), (7, back));
            (fact.lasts, fact.is_forgotten)
        };
        assert_eq!(told(None, 699, false), (false, false));
        assert_eq!(told(None, 700, false), (true, false));
        assert_eq!(told(None, 699, true), (false, true));
        assert_eq!(told(Some(9), 700, true), (false, false));
        let day = 86_400_000;
        assert_eq!([day + 4, day + 5].map(|now| is_told_still(5, now)), [true, false]);
    }
}
