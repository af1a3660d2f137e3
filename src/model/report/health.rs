//! Whether a volume is well: facts in, a verdict and the next step for a person out. The one place
//! where that is decided; every view of it shares this. What a single mount is, it takes from
//! [`staleness`], as the heal does.

use crate::model::mount::staleness;
use crate::model::report::facts::{
    CloudFact, DiskFact, LetGoFact, MountFact, MountedOn, PodFact, Role, VolumeFacts,
};
use crate::model::report::tear_down::TearDown;
use crate::model::text::several;
use crate::model::timestamp;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// How a volume is, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be.
    Ok,
    /// A tear-down is asked for and refused: a pod still uses it.
    Guarded,
    /// Only namespaces that are no longer this machine's concern still have it.
    Leaked,
    /// Mounts stand on a disk that is gone, and its successor is there.
    Stale,
    /// Mounts stand on a disk that is gone, and there is no other.
    Dead,
    /// A mount is out of reach: its path leads elsewhere, because something is mounted over it.
    Covered,
    /// Which disk is the volume's, whose disk is mounted, or whether that will ever answer again,
    /// cannot be told.
    Ambiguous,
}

impl Health {
    /// Every one, best first.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::Guarded,
        Self::Leaked,
        Self::Stale,
        Self::Dead,
        Self::Covered,
        Self::Ambiguous,
    ];
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Guarded => "guarded",
            Self::Leaked => "leaked",
            Self::Stale => "stale",
            Self::Dead => "dead",
            Self::Covered => "covered",
            Self::Ambiguous => "ambiguous",
        })
    }
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// In one word.
    pub health: Health,
    /// Why, as a sentence.
    pub because: String,
    /// What a person can do; nothing if nothing is to be done.
    pub next: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// Judges what was seen.
#[must_use]
pub fn judge(facts: &VolumeFacts) -> Verdict {
    let ruled = ambiguous(facts)
        .or_else(|| covered(facts))
        .or_else(|| off_its_disk(facts))
        .or_else(|| forgotten(facts))
        .or_else(|| guarded(facts))
        .or_else(|| let_go_for_long(facts))
        .or_else(|| leaked(facts));
    let (health, because, next) =
        ruled.unwrap_or_else(|| (Health::Ok, as_it_should_be(facts), None));
    Verdict { health, because, next, notes: notes(facts) }
}

type Ruling = (Health, String, Option<String>);

fn ambiguous(facts: &VolumeFacts) -> Option<Ruling> {
    const NOTHING_IS_DONE: &str =
        "until then nothing of it is mounted, healed or detached by guess";
    if let DiskFact::Ambiguous { why } = &facts.disk {
        let next =
            format!("detach the disk or volume that does not belong here; {NOTHING_IS_DONE}");
        return Some((Health::Ambiguous, why.clone(), Some(next)));
    }
    let doubt = |mount: &MountFact| {
        let verdict = mount.verdict.clone()?;
        Some((mount.place.clone(), mount.number, verdict.hint(mount.number)?, verdict))
    };
    let (place, number, hint, verdict) = facts.mounts.iter().find_map(doubt)?;
    let now = match facts.disk.proven() {
        Some(disk) if disk.number == number => String::new(),
        Some(disk) => format!("; the volume's disk is {} ({})", disk.name, disk.number),
        None => "; no disk of this machine shows the volume's identity".to_owned(),
    };
    let because = format!("{} is mounted from {number}, and {verdict}{now}", place.display());
    Some((Health::Ambiguous, because, Some(format!("{hint}; {NOTHING_IS_DONE}"))))
}

fn covered(facts: &VolumeFacts) -> Option<Ruling> {
    let hidden = |mount: &MountFact| {
        let (place, why) = (mount.place.display(), mount.out_of_reach.as_ref()?);
        Some((format!("{place} does not lead to the mount there: {why}"), mount.way_out.clone()))
    };
    let (because, way_out) = facts.mounts.iter().find_map(hidden)?;
    let end =
        way_out.unwrap_or_else(|| "see the kernel's log, and mend what does not answer".to_owned());
    let next = format!(
        "{end}; until then what is written by that path goes elsewhere, and nothing of the volume is mounted or unmounted there"
    );
    Some((Health::Covered, because, Some(next)))
}

fn off_its_disk(facts: &VolumeFacts) -> Option<Ruling> {
    let is_dead =
        |mount: &&MountFact| mount.verdict.as_ref().is_some_and(staleness::MountVerdict::is_dead);
    let gone: Vec<&MountFact> = facts.mounts.iter().filter(is_dead).collect();
    let is_back = gone.first()?.verdict == Some(staleness::MountVerdict::Stale);
    let numbers: BTreeSet<_> = gone.iter().map(|mount| mount.number).collect();
    let numbers = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mounts = several(gone.len(), "mount stands", "mounts stand");
    let inside = gone.iter().filter(|mount| !mount.is_own()).count();
    let inside =
        if inside > 0 { format!(", {inside} of them inside containers") } else { String::new() };
    let id = name_of(facts);
    match &facts.disk {
        DiskFact::Proven(disk) if is_back => Some((
            Health::Stale,
            format!(
                "{mounts} on the disk that is gone ({numbers}){inside}, and the disk is back as {} ({})",
                disk.name, disk.number
            ),
            Some(format!(
                "disk heal {id} puts them onto {}; restart whatever `disk holders {id}` still shows on the old one",
                disk.name
            )),
        )),
        _ => Some((
            Health::Dead,
            format!(
                "{mounts} on a disk that is gone ({numbers}){inside}, and no other disk is there"
            ),
            Some(format!(
                "have it attached to this machine again, by the cluster or in the cloud's console, and its mounts are healed; or end its pods. Why it went: disk history {id}"
            )),
        )),
    }
}

fn guarded(facts: &VolumeFacts) -> Option<Ruling> {
    let mut current = facts.refused.iter().filter(|refusal| refusal.is_current);
    let refusal = current.clone().next()?;
    let times = several(usize::try_from(refusal.count).unwrap_or(usize::MAX), "time", "times");
    let what = &refusal.told;
    let if_kubelet_is_wrong =
        if current.any(|refusal| matches!(refusal.tear_down, TearDown::Unpublish(_))) {
            RESTART_KUBELET
        } else if facts.let_go.iter().any(|one| one.back.is_none()) {
            "it mounts the folder again when the API answers"
        } else {
            "nothing"
        };
    Some((
        Health::Guarded,
        format!("{what} is asked for and refused ({times}): {}", refusal.reason),
        Some(format!(
            "if the pod is to go, delete it: the refusal ends with its processes; if kubelet is wrong, {if_kubelet_is_wrong}; to give up the guard: disk release {}",
            name_of(facts)
        )),
    ))
}

/// After a refused unmount kubelet 1.20 waits for a mount that is there.
const RESTART_KUBELET: &str = "restart it once when the API answers again: until then kubelet 1.20 starts no container of that pod (kubernetes issue 41522)";

/// kubelet was restarted after it had let go, and the pod has ended: no call will come any more.
fn forgotten(facts: &VolumeFacts) -> Option<Ruling> {
    let one = facts.let_go.iter().find(|one| one.is_forgotten)?;
    let when = timestamp::text(one.since);
    Some((
        Health::Guarded,
        format!(
            "kubelet let go of {}'s folder at {when} and was restarted since: it does not know the volume any more, and the pod has ended. disk heal takes it down; its timer does so each minute",
            label_of(facts, one)
        ),
        Some("disk heal".to_owned()),
    ))
}

fn let_go_for_long(facts: &VolumeFacts) -> Option<Ruling> {
    let one = facts.let_go.iter().find(|one| one.lasts && one.back.is_none())?;
    Some((
        Health::Guarded,
        told_of_letting_go(facts, one),
        Some("see why kubelet does not mount it (kubectl describe pod, journalctl -u kubelet): until then it starts no container of that pod anew".to_owned()),
    ))
}

/// `kubelet let go of shop/orders-0's folder at …; the pod has the volume; mounted again at …`.
#[must_use]
pub fn told_of_letting_go(facts: &VolumeFacts, one: &LetGoFact) -> String {
    let (pod, when) = (label_of(facts, one), timestamp::text(one.since));
    let has_it = facts.pods.iter().any(|pod| pod.uid == one.pod && pod.has_it);
    let rest = match one.back {
        Some(back) => {
            format!("the pod kept the volume; mounted again at {}", timestamp::text(back))
        }
        None if has_it => {
            "the pod has the volume; kubelet has not mounted it there again yet".to_owned()
        }
        None => "the pod has ended since".to_owned(),
    };
    format!("kubelet let go of {pod}'s folder at {when}; {rest}")
}

fn label_of<'a>(facts: &'a VolumeFacts, one: &'a LetGoFact) -> &'a str {
    let pod = facts.pods.iter().find(|pod| pod.uid == one.pod);
    pod.map_or(one.pod.as_str(), PodFact::label)
}

fn leaked(facts: &VolumeFacts) -> Option<Ruling> {
    if facts.mounts.is_empty() || facts.mounts.iter().any(MountFact::is_own) {
        return None;
    }
    let who: Vec<String> = facts.mounts.iter().map(who_lives_at).collect();
    let in_pods = facts.mounts.iter().any(|mount| mount.role == Role::Container);
    let next = if in_pods {
        "end the pods that are named: this machine has no mount of the volume any more".to_owned()
    } else {
        format!(
            "the next unmount of its disk or detach takes the copy down; if it is refused, restart what is named (disk holders {})",
            name_of(facts)
        )
    };
    Some((
        Health::Leaked,
        format!("nothing is mounted on this machine itself, but still for {}", who.join(", ")),
        Some(next),
    ))
}

fn as_it_should_be(facts: &VolumeFacts) -> String {
    let count = |role| facts.mounts.iter().filter(|mount| mount.role == role).count();
    match (&facts.disk, facts.mounts.len()) {
        (DiskFact::Proven(disk), 0) => format!("{} is here and mounted nowhere", disk.name),
        (DiskFact::Proven(disk), _) => format!(
            "every mount stands on {}: {}, {}, {}",
            disk.name,
            if count(Role::Global) > 0 { "the global one" } else { "no global one" },
            several(count(Role::Pod), "pod's", "pods'"),
            several(count(Role::Container), "container's", "containers'"),
        ),
        (DiskFact::Unseen { why }, _) => format!("as far as can be seen: {why}"),
        (_, 0) => "no disk of it is here, and nothing is mounted".to_owned(),
        (_, _) => "nothing wrong was seen, but its disk could not be told".to_owned(),
    }
}

fn notes(facts: &VolumeFacts) -> Vec<String> {
    // What the verdict itself says is not said twice.
    let is_ruled = |one: &&LetGoFact| one.is_forgotten || one.lasts && one.back.is_none();
    let let_go = facts.let_go.iter().filter(|one| !is_ruled(one));
    let mut notes: Vec<String> = let_go.map(|one| told_of_letting_go(facts, one)).collect();
    let own = |mount: &&MountFact| mount.is_own() && mount.on == MountedOn::Disk;
    let writable_disk = facts.disk.proven().is_some_and(|disk| !disk.read_only);
    if writable_disk
        && facts.mounts.iter().filter(own).any(|mount| {
            mount.is_super_read_only() && mount.super_options.contains("errors=remount-ro")
        })
    {
        notes.push("the file system is read-only although its disk is not: the kernel may have made it so after an error; see its log".to_owned());
    }
    if let CloudFact::Known(view) = &facts.cloud {
        let disk_is_here = facts.disk.proven().is_some();
        if disk_is_here && !view.is_here {
            notes.push(format!(
                "the disk is here, but by the cloud's word the volume is {}",
                match view.servers.first() {
                    Some((server, _)) => format!("attached to {server}"),
                    None => "attached nowhere".to_owned(),
                }
            ));
        } else if !disk_is_here && view.is_here && facts.disk == DiskFact::None {
            notes.push("the cloud has it attached to this machine, but no disk shows".to_owned());
        }
    }
    if facts.cloud == CloudFact::Missing {
        notes.push("the cloud knows no such volume".to_owned());
    }
    let faults = facts.links.iter().filter_map(|link| Some((&link.link, link.fault.as_ref()?)));
    notes.extend(faults.map(|(link, fault)| format!("{} lies: {fault}", link.display())));
    for refusal in facts.refused.iter().filter(|refusal| !refusal.is_current) {
        notes.push(format!(
            "{} was refused {} and is no longer asked for: {}",
            refusal.told,
            several(usize::try_from(refusal.count).unwrap_or(usize::MAX), "time", "times"),
            refusal.reason
        ));
    }
    if facts.record.is_formatting {
        notes.push(
            "a format of it was begun and not finished: the next mount of its disk goes on".to_owned(),
        );
    }
    notes
}

/// The name that a command on the next line can take.
fn name_of(facts: &VolumeFacts) -> String {
    let id = facts.id.as_ref().map(ToString::to_string);
    id.or_else(|| facts.name.as_ref().map(ToString::to_string)).unwrap_or_default()
}

fn who_lives_at(mount: &MountFact) -> String {
    let Some(process) = mount.processes.first() else {
        let namespace = mount.namespace.map(|id| format!(" mnt:[{id}]")).unwrap_or_default();
        return format!("a mount namespace{namespace} without a process");
    };
    let pod = mount.pod.as_ref().map(|pod| format!(" of pod {pod}")).unwrap_or_default();
    format!("process {} ({}){pod}", process.pid, process.command)
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
