//! Whether a volume is well: facts in, a verdict and the next step for a person out. The one place
//! where that is decided; every view of it shares this. What a single mount is, it takes from
//! [`staleness`], as the heal does.

use crate::advice::{Advice, Remedy};
use crate::disk::device::DeviceNumber;
use crate::mount::staleness::{self, Doubt, MountVerdict};
use crate::report::facts::{
    CloudFact, DiskFact, HolderFact, LeftAttached, LetGoFact, MapFact, MountFact, MountedOn,
    PodFact, ProcessFact, Role, VolumeFacts, WaitFact,
};
use crate::report::tear_down::TearDown;
use crate::shield::own_map::MapState;
use crate::text::several;
use crate::timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How a volume is, as a process that uses it would see it; worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// As it should be.
    Ok,
    /// The orchestrator let go of the folder of a pod that has the volume.
    LetGo,
    /// kubelet unmounted it and will not detach it.
    Orphaned,
    /// A tear-down is asked for and refused: a pod still uses it.
    Guarded,
    /// Only namespaces that are no longer this machine's concern still have it.
    Leaked,
    /// What decides could not be seen.
    Unknown,
    /// Its mounts are right, and processes still use the disk that is gone.
    HalfHealed,
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
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::LetGo,
        Self::Orphaned,
        Self::Guarded,
        Self::Leaked,
        Self::Unknown,
        Self::HalfHealed,
        Self::Stale,
        Self::Dead,
        Self::Covered,
        Self::Ambiguous,
    ];

    /// Whether a process that uses it meets an error, loses what it writes, or may.
    pub fn harms(self) -> bool {
        self >= Self::HalfHealed
    }

    /// A number for scripts, higher is worse. Those of other versions know the numbers, so they do not change.
    pub fn rank(self) -> u8 {
        self as u8 - u8::from(self > Self::LetGo)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::LetGo => "let-go",
            Self::Orphaned => "orphaned",
            Self::Guarded => "guarded",
            Self::Leaked => "leaked",
            Self::Unknown => "unknown",
            Self::HalfHealed => "half-healed",
            Self::Stale => "stale",
            Self::Dead => "dead",
            Self::Covered => "covered",
            Self::Ambiguous => "ambiguous",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub health: Health,
    /// What it means for those who use the volume; nothing if it is well.
    pub consequence: Option<String>,
    /// Why, as a sentence.
    pub because: String,
    /// What a person can do; nothing if nothing is to be done.
    pub next: Option<String>,
    /// What is typed for that, if it is one command.
    pub command: Option<Advice>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// Judges what was seen.
pub fn judge(facts: &VolumeFacts) -> Verdict {
    let ruled = ambiguous(facts)
        .or_else(|| covered(facts))
        .or_else(|| off_its_disk(facts))
        .or_else(|| fails_over_its_disk(facts))
        .or_else(|| half_healed(facts))
        .or_else(|| forgotten(facts))
        .or_else(|| orphaned(facts))
        .or_else(|| guarded(facts))
        .or_else(|| let_go_for_long(facts))
        .or_else(|| leaked(facts))
        .or_else(|| unknown(facts));
    let notes = notes(facts);
    match ruled {
        Some(Ruling { health, consequence, because, next, command }) => {
            let consequence = Some(consequence);
            Verdict { health, consequence, because, next: Some(next), command, notes }
        }
        None => Verdict {
            health: Health::Ok,
            consequence: None,
            because: as_it_should_be(facts),
            next: None,
            command: None,
            notes,
        },
    }
}

/// What one rule says of a volume that is not well.
struct Ruling {
    health: Health,
    consequence: String,
    because: String,
    next: String,
    command: Option<Advice>,
}

fn ambiguous(facts: &VolumeFacts) -> Option<Ruling> {
    const NOTHING_IS_DONE: &str =
        "Until that is settled the driver mounts, heals and detaches nothing of it";
    if let DiskFact::Ambiguous { why, among } = &facts.disk {
        let is_mounted = |one: &&DeviceNumber| facts.mounts.iter().any(|m| m.number == **one);
        let mounted: Vec<_> = among.iter().filter(is_mounted).collect();
        // Of others it is not known whether they are mounted: a btrfs has a number of its own.
        let (goes_on, next) = match mounted.as_slice() {
            [one] if among.len() == 2 => (
                format!(" The disk with the number {one} is mounted, and what uses it goes on."),
                format!("leave the one with the number {one}. If nothing uses the other (lsblk), detach that: in the cloud's console, or with losetup -d if it is a loop device"),
            ),
            _ => (String::new(), "compare them, and detach the one that is not the volume's; never one that is mounted and works".to_owned()),
        };
        return Some(Ruling {
            health: Health::Ambiguous,
            consequence: format!(
                "Which disk is this volume's cannot be told: {why}.{goes_on} {NOTHING_IS_DONE}."
            ),
            because: why.clone(),
            next,
            command: Some(Remedy::Explain.of(name_of(facts))),
        });
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
    if let MountVerdict::NotProvenDead(Doubt { state, is_pause: true, .. }) = &verdict {
        return Some(Ruling {
            health: Health::Ambiguous,
            consequence: format!(
                "Reads and writes wait, and none has failed: {state}. {}",
                what_becomes_of_the_wait(facts)
            ),
            because,
            next: hint.to_string(),
            command: None,
        });
    }
    Some(Ruling {
        health: Health::Ambiguous,
        consequence: format!("A disk is mounted that may be the wrong one: {because}."),
        because,
        next: format!("{hint}. {NOTHING_IS_DONE}"),
        command: None,
    })
}

/// What ends a pause by itself.
fn what_becomes_of_the_wait(facts: &VolumeFacts) -> String {
    let Some(wait) = facts.map.as_ref().and_then(|map| map.wait.as_ref()) else {
        return "They go on when the disk is back and nothing else wrote to it.".to_owned();
    };
    let WaitFact { paused, patience_left, not_switched } = wait;
    let goes_on = match not_switched {
        Some(why) => format!("The disk that is here was not put there: {why}."),
        None => "They go on when the disk is back and nothing else wrote to it.".to_owned(),
    };
    format!(
        "{goes_on} It was seen to wait for {paused} s; in {patience_left} s what waits fails, by \
         shield.patience, and a heal replaces the mounts."
    )
}

fn covered(facts: &VolumeFacts) -> Option<Ruling> {
    let mount = facts.mounts.iter().find(|mount| mount.out_of_reach.is_some())?;
    let (place, why) = (mount.place.display(), mount.out_of_reach.as_ref()?);
    let because = format!("{place} does not lead to the mount there: {why}");
    let why = why.strip_suffix(&format!(" at {place}")).unwrap_or(why);
    let (next, command) = match mount.way_out.clone() {
        Some(command) => (AFTER_A_LOOK.to_owned(), Some(command.into())),
        None => ("see the kernel's log, and mend what does not answer".to_owned(), None),
    };
    Some(Ruling {
        health: Health::Covered,
        consequence: format!(
            "Containers that run are not harmed, but what is written to {place} does not reach the volume: {why}."
        ),
        because,
        next,
        command,
    })
}

const AFTER_A_LOOK: &str = "look whether something in that folder is needed (what a tmpfs holds is lost with it), then type this once. Until then nothing of the volume is mounted or unmounted there";

/// Whether these mounts are known neither by the record nor by a label of this driver.
fn are_unrecorded(facts: &VolumeFacts, gone: &[&MountFact]) -> bool {
    let record = &facts.record;
    let is_known = |mount: &&MountFact| {
        record.staged_from == Some(mount.number)
            || record.former.contains(&mount.number)
            || mount.source.starts_with(LABELLED)
    };
    record.unseen.is_none() && !gone.iter().any(is_known)
}

/// Sources of mounts that this driver made.
const LABELLED: &str = "/dev/incloud-disk/";

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
    let is_btrfs = gone.iter().any(|mount| mount.fs_type == "btrfs");
    let stands = format!("{mounts} on the disk that is gone ({numbers}){inside}");
    match &facts.disk {
        DiskFact::Proven(disk) if is_back && is_btrfs => {
            Some(btrfs_off_its_disk(facts, &disk.name, &stands))
        }
        DiskFact::Proven(disk) if is_back && are_unrecorded(facts, &gone) => Some(Ruling {
            health: Health::Stale,
            consequence: format!(
                "Reads and writes fail: the disk went away and came back as {}, and {mounts} on the lost one.",
                disk.name
            ),
            because: format!(
                "{stands}, and the disk is back as {} ({}); the driver has no record of these mounts, so it cannot prove that they are this volume's",
                disk.name, disk.number
            ),
            next: "heal it: another driver made these mounts, so this takes your word that no other machine mounted the volume since they died".to_owned(),
            command: Some(Remedy::Adopt.of(&id)),
        }),
        DiskFact::Proven(disk) if is_back => Some(Ruling {
            health: Health::Stale,
            consequence: format!(
                "Reads and writes fail: the disk went away and came back as {}, and {mounts} on the lost one.",
                disk.name
            ),
            because: format!("{stands}, and the disk is back as {} ({})", disk.name, disk.number),
            next: format!(
                "heal it: the mounts are moved onto {} while the pods run. Status then shows which of them must be restarted",
                disk.name
            ),
            command: Some(Remedy::Heal.of(&id)),
        }),
        _ => Some(Ruling {
            health: Health::Dead,
            consequence: "Reads and writes fail: the disk is gone.".to_owned(),
            because: match &facts.disk {
                DiskFact::Unseen { why, .. } => {
                    format!("{stands}; whether the disk is back could not be seen: {why}")
                }
                _ => format!(
                    "{mounts} on a disk that is gone ({numbers}){inside}, and no other disk is there. A controller-manager that attaches brings it back within two minutes. Where kubelet attaches, restart kubelet: 1.20 attaches it then, and for later versions, which only wait for it, the driver does"
                ),
            },
            next: format!(
                "attach it to this node again, in the cloud's console if the cluster does not; {}. If another node has it, detach it there first. Why it went is in its history",
                if is_btrfs {
                    "then restart its pods, for no heal moves a btrfs"
                } else {
                    "its mounts are healed then, without a restart"
                }
            ),
            command: Some(Remedy::History.of(&id)),
        }),
    }
}

/// A request failed, its map waits no more, and the disk is there still.
fn fails_over_its_disk(facts: &VolumeFacts) -> Option<Ruling> {
    let map = facts.map.as_ref()?;
    if map.state != MapState::Fails || map.opened == 0 {
        return None;
    }
    let id = name_of(facts);
    Some(Ruling {
        health: Health::Ambiguous,
        consequence: "Reads and writes fail: a request to the disk failed, and the disk is not proven to be as its mount left it.".to_owned(),
        because: format!("the map {} {}", map.name, map.state.words()),
        next: format!("heal it: where the disk is as it was, they go on; else that says what differs, and {} takes the volume from its pods, which must be restarted", Advice::from(Remedy::Release)),
        command: Some(Remedy::Heal.of(&id)),
    })
}

/// The kernel takes the disk that is back for one more of the file system that died: no heal moves it.
fn btrfs_off_its_disk(facts: &VolumeFacts, disk: &str, because: &str) -> Ruling {
    let pods = facts.users();
    let whom =
        if pods.is_empty() { "the pods that use the volume".to_owned() } else { pods.join(", ") };
    Ruling {
        health: Health::Stale,
        consequence: format!("Reads and writes fail: its disk went, and is back as {disk}."),
        because: format!("{because}, and a btrfs cannot be mounted beside its dead self"),
        next: format!("restart {whom}: no heal moves a btrfs"),
        command: Some(match pods.first() {
            Some(pod) => command_that_restarts(pod).into(),
            None => Remedy::Holders.of(name_of(facts)),
        }),
    }
}

/// The heal moves mounts, and what a program has open stays where it was opened.
fn half_healed(facts: &VolumeFacts) -> Option<Ruling> {
    let users = &facts.users_of_lost_disk;
    let processes: BTreeMap<u32, &HolderFact> =
        users.iter().filter_map(|one| Some((one.process.as_ref()?.pid, one))).collect();
    let (first, others) = (*processes.values().next()?, processes.len() - 1);
    let name = |one: &HolderFact| one.process.as_ref().map(numbered_process).unwrap_or_default();
    let all: Vec<_> = processes
        .values()
        .map(|one| match &one.pod_name {
            Some(pod) => format!("{} of {pod}", name(one)),
            None => name(one),
        })
        .collect();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    let whose = first.pod_name.as_ref().map(|pod| format!(" of {pod}")).unwrap_or_default();
    let pods: BTreeSet<_> = processes.values().filter_map(|one| one.pod_name.clone()).collect();
    let without: Vec<_> = processes
        .iter()
        .filter(|(_, one)| one.pod_name.is_none())
        .map(|(pid, _)| pid.to_string())
        .collect();
    let mut ends: Vec<String> = Vec::new();
    if !pods.is_empty() {
        let pods: Vec<_> = pods.iter().cloned().collect();
        ends.push(format!(
            "end its process: kubelet restarts the container in place, on the healed mount. This command says \
             which, and does it without --dry-run; or restart {} ({})",
            pods.join(", "),
            command_that_restarts(&pods[0])
        ));
    }
    if !without.is_empty() {
        ends.push(format!("restart what runs as process {}", without.join(", ")));
    }
    Some(Ruling {
        health: Health::HalfHealed,
        consequence: format!(
            "What {}{whose}{more} writes is lost: it still has files open on the disk that is gone. The mounts are right.",
            format_args!("process {}", name(first))
        ),
        because: format!("files of the disk that is gone are still open in {}", all.join(", ")),
        next: ends.join("; "),
        command: Some(match pods.first() {
            Some(_) => Remedy::EndHolders.of(name_of(facts)),
            None => Remedy::Holders.of(name_of(facts)),
        }),
    })
}

/// `kubectl delete pod -n shop orders-0`, of a pod that what owns it makes again.
fn command_that_restarts(pod: &str) -> String {
    match pod.split_once('/') {
        Some((namespace, name)) => format!("kubectl delete pod -n {namespace} {name}"),
        None => format!("delete pod {pod}"),
    }
}

/// Nothing wrong was seen, and what would show it could not be seen.
fn unknown(facts: &VolumeFacts) -> Option<Ruling> {
    let id = name_of(facts);
    if let DiskFact::Unseen { why, check: Some(check) } = &facts.disk {
        return Some(Ruling {
            health: Health::Unknown,
            consequence: format!("Whether it is well cannot be determined: {why}."),
            because: format!("its disk could not be identified: {why}"),
            next: check.clone(),
            command: None,
        });
    }
    let is_elsewhere = matches!(&facts.disk, DiskFact::None) && facts.mounts.is_empty();
    let (what, why, explain) = match (&facts.disk, &facts.unseen_mounts, &facts.cloud) {
        (DiskFact::Unseen { why, .. }, _, _) => ("its disk", why, Remedy::ExplainAsRoot),
        (_, Some(why), _) => ("who has it mounted, and who uses it,", why, Remedy::ExplainAsRoot),
        (_, None, CloudFact::Unknown { why }) if is_elsewhere => {
            ("where it is", why, Remedy::Explain)
        }
        _ => match (&facts.unseen_users, &facts.record.unseen) {
            (Some(why), _) => ("who has files of its lost disk open", why, Remedy::ExplainAsRoot),
            (None, Some(why)) => ("the driver's record of it", why, Remedy::ExplainAsRoot),
            (None, None) => return None,
        },
    };
    Some(Ruling {
        health: Health::Unknown,
        consequence: format!("Whether it is well is not known: {what} could not be seen."),
        because: format!("{what} could not be seen: {why}"),
        next: if explain == Remedy::ExplainAsRoot {
            "run it as root".to_owned()
        } else {
            let doctor = Advice::from(Remedy::Doctor);
            format!("ask again when the cloud answers; {doctor} says what keeps it from that")
        },
        command: Some(explain.of(id)),
    })
}

fn guarded(facts: &VolumeFacts) -> Option<Ruling> {
    let mut current = facts.refused.iter().filter(|refusal| refusal.is_current);
    // A refused detach says where it is mounted; what comes before it says which pod has it.
    let refusal =
        current.clone().min_by_key(|refusal| matches!(refusal.tear_down, TearDown::Detach))?;
    let times = several(usize::try_from(refusal.count).unwrap_or(usize::MAX), "time", "times");
    let what = &refusal.told;
    let if_kubelet_is_wrong =
        if current.any(|refusal| matches!(refusal.tear_down, TearDown::Unpublish(_))) {
            RESTART_KUBELET
        } else if facts.let_go.iter().any(|one| one.back.is_none()) {
            "do nothing: kubelet mounts its folder again by itself when the API server answers it"
        } else {
            "do nothing"
        };
    let users = facts.users();
    let still = match users.as_slice() {
        [] => "it is still in use".to_owned(),
        [one] => format!("{one} uses it and goes on"),
        many => format!("{} use it and go on", many.join(", ")),
    };
    Some(Ruling {
        health: Health::Guarded,
        consequence: format!("No harm: {still}. {} was refused {times}.", capital(what)),
        because: format!("{what} is asked for and refused ({times}): {}", refusal.reason),
        next: format!(
            "if it should run, {if_kubelet_is_wrong}. If it should not run, delete it, and the refusal ends. ({} takes it from the pod, whose writes fail then)",
            Remedy::Release.of(name_of(facts))
        ),
        command: None,
    })
}

/// With a capital letter, for the beginning of a sentence.
fn capital(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map(|first| first.to_uppercase().chain(signs).collect()).unwrap_or_default()
}

/// After a refused unmount kubelet 1.20 waits for a mount that is there.
const RESTART_KUBELET: &str = "restart kubelet once when the API answers again: until then kubelet 1.20 starts no container of that pod (kubernetes issue 41522)";

/// kubelet was restarted after it had let go, and the pod has ended: no call will come any more.
fn forgotten(facts: &VolumeFacts) -> Option<Ruling> {
    let one = facts.let_go.iter().find(|one| one.is_forgotten)?;
    let when = timestamp::text(one.since);
    let pod = label_of(facts, one);
    Some(Ruling {
        health: Health::LetGo,
        consequence: format!(
            "It is still mounted although {pod} has ended: kubelet was restarted and has forgotten it."
        ),
        because: format!(
            "kubelet let go of {pod}'s folder at {when} and was restarted since: it does not know the volume any more, and the pod has ended. {} takes it down; its timer does so each minute",
            Advice::from(Remedy::Heal)
        ),
        next: "nothing: the timer takes it down within a minute".to_owned(),
        command: Some(Remedy::Heal.into()),
    })
}

/// kubelet was restarted while it was mounted, and does not take it for attached.
fn orphaned(facts: &VolumeFacts) -> Option<Ruling> {
    let LeftAttached { silent_for, doubt } = facts.left_attached.as_ref()?;
    let minutes = silent_for / 60;
    let named = facts.name.as_ref().map_or_else(|| name_of(facts), ToString::to_string);
    let (next, command) = match doubt {
        None => ("nothing: the timer detaches it within a minute".to_owned(), Remedy::Heal.into()),
        Some(why) => (
            format!(
                "if no pod here needs it, detach it: nothing does so automatically, because {why}"
            ),
            Remedy::Detach(None).of(named),
        ),
    };
    Some(Ruling {
        health: Health::Orphaned,
        consequence: format!(
            "No harm here, but a pod on another node cannot start: it is attached to this node, and kubelet, which unmounted it {minutes} minutes ago, does not detach it."
        ),
        because: format!(
            "kubelet unmounted it {minutes} minutes ago and has not called for it since: after its restart a kubelet of 1.26 or later that attaches does not detach what it found mounted"
        ),
        next,
        command: Some(command),
    })
}

fn let_go_for_long(facts: &VolumeFacts) -> Option<Ruling> {
    let one = facts.let_go.iter().find(|one| one.lasts && one.back.is_none())?;
    let (pod, when) = (label_of(facts, one), timestamp::text(one.since));
    // As systemd reads it.
    let since = when.split('.').next().unwrap_or_default().replace('T', " ");
    Some(Ruling {
        health: Health::LetGo,
        consequence: format!(
            "{pod} keeps the volume and works, but kubelet unmounted its folder at {when} and does not mount it again: a container of it that ends is not started anew."
        ),
        because: told_of_letting_go(facts, one),
        next: format!(
            "see why kubelet does not mount it: kubectl describe pod{}, and kubelet's log",
            pod.split_once('/')
                .map(|(space, name)| format!(" -n {space} {name}"))
                .unwrap_or_default()
        ),
        command: Some(format!("journalctl -u kubelet --since \"{since} UTC\"").into()),
    })
}

/// `kubelet let go of shop/orders-0's folder at …; the pod has the volume; mounted again at …`.
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
    let who = who.join(", ");
    let (consequence, next) = if in_pods {
        (
            format!("It is mounted nowhere on this node itself, but {who} still has it."),
            "end the pods that are named: this machine has no mount of the volume any more",
        )
    } else {
        (
            format!("No harm: no pod has it any more, and {who} kept a mount of it."),
            "nothing: the next detach takes that mount away. If that detach is refused, restart the process",
        )
    };
    Some(Ruling {
        health: Health::Leaked,
        consequence,
        because: format!("only another mount namespace still has it mounted: {who}"),
        next: next.to_owned(),
        command: Some(Remedy::Holders.of(name_of(facts))),
    })
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
        (DiskFact::Unseen { why, .. }, _) => format!("as far as can be seen: {why}"),
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
    if let Some(map) = &facts.map {
        notes.push(told_of_map(map));
    }
    if facts.record.is_formatting {
        notes.push(format!(
            "mkfs was started on its disk and did not finish; if the next mount is refused: {}",
            Remedy::Format.of(name_of(facts))
        ));
    }
    notes
}

/// `it is used through the map dm-0 (253:0) on 254:16, which works; open 1 time`.
fn told_of_map(map: &MapFact) -> String {
    let on = map.path.map(|path| format!(" on {path}")).unwrap_or_default();
    let opened = several(usize::try_from(map.opened).unwrap_or(usize::MAX), "time", "times");
    format!(
        "it is used through the map {} ({}){on}, which {}; open {opened}",
        map.name,
        map.number,
        map.state.words()
    )
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
    format!("process {}{pod}", numbered_process(process))
}

/// `4711 (prometheus)`.
fn numbered_process(process: &ProcessFact) -> String {
    format!("{} ({})", process.pid, process.command)
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
