//! The checks. Each gets a cloud of its own, asks it as the driver does, and answers what is wrong.

use incloud_disk::model::cloud::attachment_state::{Mapping, VolumePhase};
use incloud_disk::model::cloud::request::AttachRequest;
use incloud_disk::model::disk::formatting::Life;
use incloud_disk::model::error::{Kind, Result};
use incloud_disk::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::cloud::{Cloud, CloudVolume, Note, ServerState, Tenure};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is wrong with a cloud, if anything is.
pub type Verdict = std::result::Result<(), String>;

pub const MIB: u64 = 1 << 20;

/// A cloud under test, and what its own console can do.
pub trait Subject {
    /// The cloud as one call of the driver sees it: what it remembers goes with it.
    fn cloud(&self) -> Box<dyn Cloud + '_>;

    /// Makes a blank volume of 1 GiB.
    fn make(&self) -> VolumeId;

    /// Two nodes that have a server: this machine first.
    fn nodes(&self) -> [NodeName; 2] {
        ["node-a", "node-b"].map(|name| NodeName::parse(name).unwrap())
    }

    /// How long a change may take until it is seen.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// A node that certainly has none, if this cloud could tell.
    fn node_without_server(&self) -> Option<NodeName> {
        None
    }

    /// Ways in which the cloud can fail to answer. There must be one.
    fn troubles(&self) -> Vec<&'static str>;

    /// From now on it fails so, until the end of the test.
    fn begin(&self, trouble: &str);

    /// From now on it neither answers nor refuses; `false` where that cannot be.
    fn hang(&self) -> bool {
        false
    }
}

macro_rules! as_tests {
    (($make:expr) $($check:ident)*) => {
        $(#[test]
        fn $check() {
            // A cloud that cannot be on this machine says so, and is skipped.
            if let Some(subject) = $make(stringify!($check)) {
                $crate::suite::$check(&subject).unwrap();
            }
        })*
    };
}

/// Every check as a test of the cloud that a function makes.
macro_rules! conforms {
    ($make:expr) => {
        as_tests! {
            ($make)
            a_volume_is_shown_as_it_is
            what_does_not_exist_is_nothing
            an_error_is_never_nothing
            an_attach_is_seen_from_both_sides
            a_server_has_a_volume_once
            a_volume_of_one_server_is_given_to_no_second
            a_detach_frees_the_volume
            a_detach_of_what_is_not_attached_is_no_success
            a_request_about_what_does_not_exist_is_no_success
            a_note_that_was_taken_is_shown
            a_note_disturbs_no_other
            a_name_is_found_exactly
            notes_outlive_attach_and_detach
            a_volume_never_shrinks
            a_call_ends_with_its_deadline
        }
    };
}

/// A cloud may take its time for a change.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was refused, or undone, must not come true behind the answer.
const A_MOMENT: Duration = Duration::from_millis(300);

fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

/// An error in words, or nothing.
fn say<T: std::fmt::Debug>(found: &Result<T>) -> String {
    match found {
        Ok(found) => format!("Ok({found:?})"),
        Err(error) => format!("an error ({:?}: {error})", error.kind),
    }
}

fn done<T>(what: &str, result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn unknown_volume() -> VolumeId {
    VolumeId::parse("0a0a0a0a-0000-4000-8000-00000000abcd").unwrap()
}

/// The servers of the two nodes.
fn servers(subject: &dyn Subject) -> std::result::Result<[ServerId; 2], String> {
    let cloud = subject.cloud();
    let of = |node: &NodeName| {
        done("server", cloud.server(node, soon()))?.ok_or(format!("node {node} has no server"))
    };
    let [here, there] = subject.nodes();
    let (here, there) = (of(&here)?, of(&there)?);
    check(here != there, || format!("both nodes are server {here}"))?;
    Ok([here, there])
}

fn shown(subject: &dyn Subject, id: &VolumeId) -> std::result::Result<CloudVolume, String> {
    let found = done("volume", subject.cloud().volume(id, soon()))?;
    found.ok_or_else(|| format!("volume {id} is not shown"))
}

/// The volume once it shows something; each look is a new call's.
fn once(
    subject: &dyn Subject,
    id: &VolumeId,
    what: &str,
    holds: impl Fn(&CloudVolume) -> bool,
) -> std::result::Result<CloudVolume, String> {
    let begin = Instant::now();
    loop {
        let volume = shown(subject, id)?;
        if holds(&volume) {
            return Ok(volume);
        }
        check(begin.elapsed() < subject.patience(), || format!("never {what}: {volume:?}"))?;
        sleep(Duration::from_millis(20));
    }
}

fn is_at(volume: &CloudVolume, servers: &[&ServerId]) -> bool {
    let found: Vec<_> = volume.attachments.iter().map(|one| &one.server).collect();
    let phase = if servers.is_empty() { VolumePhase::Available } else { VolumePhase::Attached };
    found == servers && volume.status.phase == phase
}

fn attached(
    subject: &dyn Subject,
    id: &VolumeId,
    server: &ServerId,
) -> std::result::Result<CloudVolume, String> {
    done("attach", subject.cloud().attach(id, server, soon()))?;
    once(subject, id, "attached", |volume| is_at(volume, &[server]))
}

fn freed(
    subject: &dyn Subject,
    id: &VolumeId,
    server: &ServerId,
) -> std::result::Result<CloudVolume, String> {
    done("detach", subject.cloud().detach(id, server, soon()))?;
    once(subject, id, "detached", |volume| is_at(volume, &[]))
}

/// The volumes of a server, by what a new call is told.
fn volumes_of(
    subject: &dyn Subject,
    server: &ServerId,
) -> std::result::Result<BTreeSet<VolumeId>, String> {
    let all = done("attached_to", subject.cloud().attached_to(server, soon()))?;
    for volume in &all {
        check(volume.attachment_to(server).is_some(), || {
            format!("attached_to({server}) has a volume that is not attached to it: {volume:?}")
        })?;
    }
    Ok(all.into_iter().map(|volume| volume.id).collect())
}

pub fn a_volume_is_shown_as_it_is(subject: &dyn Subject) -> Verdict {
    let (one, two) = (subject.make(), subject.make());
    let volume = shown(subject, &one)?;
    check(volume.id == one && volume.size == 1024 * MIB, || format!("{volume:?}"))?;
    check(is_at(&volume, &[]) && !volume.is_marked(), || format!("new, and {volume:?}"))?;
    let cloud = subject.cloud();
    check(cloud.identity(&one) != cloud.identity(&two), || {
        format!("two volumes have the same disk: {}", cloud.identity(&one))
    })?;
    check(cloud.link(&one) != cloud.link(&two), || "two volumes have the same link".to_owned())
}

pub fn what_does_not_exist_is_nothing(subject: &dyn Subject) -> Verdict {
    let cloud = subject.cloud();
    let volume = cloud.volume(&unknown_volume(), soon());
    check(matches!(volume, Ok(None)), || format!("an unknown volume is {}", say(&volume)))?;
    if let Some(node) = subject.node_without_server() {
        let server = cloud.server(&node, soon());
        check(matches!(server, Ok(None)), || format!("an unknown node is {}", say(&server)))?;
    }
    let [here, _] = servers(subject)?;
    let view = done("server_view", cloud.server_view(&here, soon()))?;
    check(view.is_some_and(|view| view.state == ServerState::Running), || {
        "a server that runs is not shown running".to_owned()
    })
}

/// "There is none" makes the driver forget, and its caller give the volume to another server.
pub fn an_error_is_never_nothing(subject: &dyn Subject) -> Verdict {
    let ([here, _], [node, _]) = (servers(subject)?, subject.nodes());
    let (id, name) = (subject.make(), VolumeName::parse("pv-of-trouble").unwrap());
    attached(subject, &id, &here)?;
    let is_noted = subject.cloud().note(&id, &[Note::Name(Some(&name))], soon()).is_ok();
    check(!subject.troubles().is_empty(), || "nothing was tried".to_owned())?;
    for trouble in subject.troubles() {
        subject.begin(trouble);
        let cloud = subject.cloud();
        let brief = || Deadline::after(Duration::from_secs(1));
        let volume = cloud.volume(&id, brief());
        let lies = volume
            .as_ref()
            .is_ok_and(|volume| !volume.as_ref().is_some_and(|volume| is_at(volume, &[&here])));
        check(!lies, || format!("{trouble}: volume answers {}", say(&volume)))?;
        let server = cloud.server(&node, brief());
        let lies = matches!(server, Ok(None));
        check(!lies, || format!("{trouble}: server answers {}", say(&server)))?;
        let view = cloud.server_view(&here, brief());
        let lies = matches!(view, Ok(None));
        check(!lies, || format!("{trouble}: server_view answers {}", say(&view)))?;
        let mapping = cloud.mapping(&id, &here, brief());
        let lies = matches!(mapping, Ok(Mapping::NotMapped | Mapping::NoServer));
        check(!lies, || format!("{trouble}: mapping answers {}", say(&mapping)))?;
        let all = cloud.attached_to(&here, brief());
        let lies = all.as_ref().is_ok_and(Vec::is_empty);
        check(!lies, || format!("{trouble}: attached_to answers {}", say(&all)))?;
        let named = cloud.recorded_as(&name, brief());
        let lies = is_noted && named.as_ref().is_ok_and(Vec::is_empty);
        check(!lies, || format!("{trouble}: recorded_as answers {}", say(&named)))?;
    }
    Ok(())
}

pub fn an_attach_is_seen_from_both_sides(subject: &dyn Subject) -> Verdict {
    let ([here, there], id, other) = (servers(subject)?, subject.make(), subject.make());
    let before = done("mapping", subject.cloud().mapping(&id, &here, soon()))?;
    check(before == Mapping::NotMapped, || format!("attached nowhere, and {before:?}"))?;
    attached(subject, &id, &here)?;
    let found = done("mapping", subject.cloud().mapping(&id, &here, soon()))?;
    check(found == Mapping::Mapped, || format!("attached, and {found:?}"))?;
    let found = done("mapping", subject.cloud().mapping(&id, &there, soon()))?;
    check(found == Mapping::NotMapped, || format!("attached elsewhere, and {found:?}"))?;
    let (own, others) = (volumes_of(subject, &here)?, volumes_of(subject, &there)?);
    check(own == BTreeSet::from([id]) && others.is_empty(), || {
        format!("{here} has {own:?}, {there} has {others:?}")
    })?;
    let other = shown(subject, &other)?;
    check(is_at(&other, &[]), || format!("another volume is attached too: {other:?}"))
}

pub fn a_server_has_a_volume_once(subject: &dyn Subject) -> Verdict {
    let ([here, _], id) = (servers(subject)?, subject.make());
    attached(subject, &id, &here)?;
    // A second request is refused, or does nothing.
    let _ = subject.cloud().attach(&id, &here, soon());
    sleep(A_MOMENT);
    once(subject, &id, "attached once", |volume| is_at(volume, &[&here]))?;
    freed(subject, &id, &here).map(drop)
}

pub fn a_volume_of_one_server_is_given_to_no_second(subject: &dyn Subject) -> Verdict {
    let ([here, there], id) = (servers(subject)?, subject.make());
    for (first, second) in [(&here, &there), (&there, &here)] {
        attached(subject, &id, first)?;
        let answer = subject.cloud().attach(&id, second, soon());
        sleep(A_MOMENT);
        let volume = shown(subject, &id)?;
        check(is_at(&volume, &[first]), || {
            format!("asked for {second} while at {first}: {}, then {volume:?}", say(&answer))
        })?;
        let stolen = volumes_of(subject, second)?;
        check(stolen.is_empty(), || format!("{second} has {stolen:?}"))?;
        freed(subject, &id, first)?;
    }
    Ok(())
}

pub fn a_detach_frees_the_volume(subject: &dyn Subject) -> Verdict {
    let ([here, there], id, other) = (servers(subject)?, subject.make(), subject.make());
    attached(subject, &other, &here)?;
    for server in [&here, &there, &here] {
        attached(subject, &id, server)?;
        freed(subject, &id, server)?;
        let begin = Instant::now();
        // The servers' side may be a moment behind.
        while done("mapping", subject.cloud().mapping(&id, server, soon()))? != Mapping::NotMapped {
            check(begin.elapsed() < subject.patience(), || {
                "detached, and still mapped".to_owned()
            })?;
            sleep(Duration::from_millis(20));
        }
    }
    let left = volumes_of(subject, &here)?;
    check(left == BTreeSet::from([other]), || format!("{here} has {left:?}"))
}

pub fn a_detach_of_what_is_not_attached_is_no_success(subject: &dyn Subject) -> Verdict {
    let ([here, there], id) = (servers(subject)?, subject.make());
    let is_missing =
        |found: &Result<()>| matches!(found, Err(error) if error.kind == Kind::Missing);
    let found = subject.cloud().detach(&id, &here, soon());
    check(is_missing(&found), || format!("attached nowhere, and detached with {}", say(&found)))?;
    attached(subject, &id, &there)?;
    let found = subject.cloud().detach(&id, &here, soon());
    sleep(A_MOMENT);
    let volume = shown(subject, &id)?;
    check(is_at(&volume, &[&there]), || format!("another server lost the volume: {volume:?}"))?;
    check(is_missing(&found), || format!("attached elsewhere, and detached with {}", say(&found)))
}

pub fn a_request_about_what_does_not_exist_is_no_success(subject: &dyn Subject) -> Verdict {
    let ([here, _], unknown, id) = (servers(subject)?, unknown_volume(), subject.make());
    let cloud = subject.cloud();
    let name = VolumeName::parse("pv").unwrap();
    for (what, found) in [
        ("attach", cloud.attach(&unknown, &here, soon())),
        ("detach", cloud.detach(&unknown, &here, soon())),
        ("note", cloud.note(&unknown, &[Note::Name(Some(&name))], soon())),
        ("extend", cloud.extend(&unknown, 2048 * MIB, soon())),
    ] {
        check(found.is_err(), || format!("{what} of an unknown volume is a success"))?;
    }
    let left = cloud.volume(&unknown, soon());
    check(matches!(left, Ok(None)), || format!("asked about, it is there: {}", say(&left)))?;
    attached(subject, &id, &here)?;
    let _ = subject.cloud().forget_attachment("0a0a0a0a-0000-4000-8000-00000000dcba", soon());
    let volume = shown(subject, &id)?;
    check(is_at(&volume, &[&here]), || format!("another attachment was forgotten: {volume:?}"))
}

/// One note of each kind, how it shows, and what removes it.
struct Sample<'a> {
    note: Note<'a>,
    is_shown: &'a dyn Fn(&CloudVolume) -> bool,
    end: Option<Note<'a>>,
}

fn with_samples(
    [here, there]: &[ServerId; 2],
    work: impl FnOnce(&[Sample<'_>]) -> Verdict,
) -> Verdict {
    let name = VolumeName::parse("pvc-of-the-suite").unwrap();
    let request = AttachRequest { server: here.clone(), at: 1_800_000_000 };
    let tenure = Tenure { server: here.clone(), count: 7 };
    work(&[
        Sample {
            note: Note::Name(Some(&name)),
            is_shown: &|volume| volume.recorded_name.as_ref() == Some(&name),
            end: Some(Note::Name(None)),
        },
        Sample {
            note: Note::Life(&Life::HasData),
            is_shown: &|volume| volume.life == Some(Life::HasData),
            end: None,
        },
        Sample {
            note: Note::Request(Some(&request)),
            is_shown: &|volume| volume.requested.as_ref() == Some(&request),
            end: Some(Note::Request(None)),
        },
        Sample {
            note: Note::Tenure(Some(&tenure)),
            is_shown: &|volume| volume.tenure.as_ref() == Some(&tenure),
            end: None,
        },
        Sample {
            note: Note::MountedOn(Some(here)),
            is_shown: &|volume| volume.mounted_on.as_ref() == Some(here),
            end: Some(Note::MountedOn(None)),
        },
        Sample {
            note: Note::MountedBeside(there),
            is_shown: &|volume| volume.mounted_beside.contains(there),
            end: Some(Note::NotMountedBeside(there)),
        },
    ])
}

/// A note that is refused is not shown either; one that is taken is there for the next call.
pub fn a_note_that_was_taken_is_shown(subject: &dyn Subject) -> Verdict {
    with_samples(&servers(subject)?, |samples| {
        for Sample { note, is_shown, end } in samples {
            let id = subject.make();
            let answer = subject.cloud().note(&id, &[*note], soon());
            let is_there = is_shown(&shown(subject, &id)?);
            check(is_there == answer.is_ok(), || {
                format!("{note:?}: {}, and shown: {is_there}", say(&answer))
            })?;
            check(answer.is_ok() || !subject.cloud().capabilities().keeps_marks, || {
                format!("it keeps marks, and refuses {note:?}: {}", say(&answer))
            })?;
            let (Ok(()), Some(end)) = (answer, end) else { continue };
            for _ in 0..2 {
                // Removed twice: a call may be killed behind the first.
                done("note", subject.cloud().note(&id, &[*end], soon()))?;
                check(!is_shown(&shown(subject, &id)?), || format!("{note:?} stays"))?;
            }
        }
        Ok(())
    })
}

pub fn a_note_disturbs_no_other(subject: &dyn Subject) -> Verdict {
    with_samples(&servers(subject)?, |samples| {
        let (id, other) = (subject.make(), subject.make());
        let mut taken: Vec<&Sample<'_>> = Vec::new();
        let all_shown = |taken: &[&Sample<'_>], after: &Note<'_>| {
            let volume = shown(subject, &id)?;
            let lost = taken.iter().find(|one| !(one.is_shown)(&volume));
            check(lost.is_none(), || {
                format!("{:?} is lost after {after:?}", lost.map(|one| one.note))
            })
        };
        for sample in samples {
            if subject.cloud().note(&id, &[sample.note], soon()).is_ok() {
                taken.push(sample);
            }
            all_shown(&taken, &sample.note)?;
        }
        while let Some(sample) = taken.pop() {
            if let Some(end) = sample.end {
                done("note", subject.cloud().note(&id, &[end], soon()))?;
                all_shown(&taken, &end)?;
            }
        }
        let other = shown(subject, &other)?;
        let notes = samples.iter().filter(|one| (one.is_shown)(&other)).count();
        check(notes == 0, || format!("another volume has them too: {other:?}"))
    })
}

pub fn a_name_is_found_exactly(subject: &dyn Subject) -> Verdict {
    let names = ["pv-1", "pv-10", "PV-1", "xpv-1"].map(|text| VolumeName::parse(text).unwrap());
    let mut of = Vec::new();
    for name in &names {
        let id = subject.make();
        if subject.cloud().note(&id, &[Note::Name(Some(name))], soon()).is_err() {
            return Ok(());
        }
        of.push(id);
    }
    for (name, id) in names.iter().zip(&of) {
        let found = done("recorded_as", subject.cloud().recorded_as(name, soon()))?;
        let found: Vec<_> = found.into_iter().map(|volume| volume.id).collect();
        check(found == [id.clone()], || format!("{name} is {id}, and found is {found:?}"))?;
    }
    let none = VolumeName::parse("pv").unwrap();
    let found = done("recorded_as", subject.cloud().recorded_as(&none, soon()))?;
    check(found.is_empty(), || format!("{none} was never noted, and found is {found:?}"))
}

pub fn notes_outlive_attach_and_detach(subject: &dyn Subject) -> Verdict {
    let both = servers(subject)?;
    with_samples(&both, |samples| {
        let id = subject.make();
        let is_taken = |one: &&Sample<'_>| subject.cloud().note(&id, &[one.note], soon()).is_ok();
        let taken: Vec<_> = samples.iter().filter(is_taken).collect();
        for server in &both {
            for volume in [attached(subject, &id, server)?, freed(subject, &id, server)?] {
                let lost = taken.iter().find(|one| !(one.is_shown)(&volume));
                check(lost.is_none(), || format!("{:?} is lost", lost.map(|one| one.note)))?;
            }
        }
        Ok(())
    })
}

pub fn a_volume_never_shrinks(subject: &dyn Subject) -> Verdict {
    let ([here, _], id) = (servers(subject)?, subject.make());
    let mut size = shown(subject, &id)?.size;
    for is_attached in [false, true] {
        if is_attached {
            attached(subject, &id, &here)?;
        }
        let wanted = size + 1024 * MIB;
        if subject.cloud().extend(&id, wanted, soon()).is_ok() {
            once(subject, &id, "larger", |volume| {
                volume.size >= wanted && volume.status.phase != VolumePhase::Working
            })?;
            size = wanted;
        }
        let _ = subject.cloud().extend(&id, size - 512 * MIB, soon());
        sleep(A_MOMENT);
        let volume = shown(subject, &id)?;
        check(volume.size >= size, || format!("it had {size} bytes, and {volume:?}"))?;
    }
    Ok(())
}

/// The caller counts the seconds: an answer that comes later is no answer.
pub fn a_call_ends_with_its_deadline(subject: &dyn Subject) -> Verdict {
    const BRIEF: Duration = Duration::from_millis(500);
    // On a machine that is busy.
    const LATEST: Duration = Duration::from_secs(4);
    let ([here, _], id) = (servers(subject)?, subject.make());
    if !subject.hang() {
        return Ok(());
    }
    let call = |what: &str, ask: &dyn Fn(Deadline) -> Result<()>| {
        let begin = Instant::now();
        let answer = ask(Deadline::after(BRIEF));
        let took = begin.elapsed();
        check(took < LATEST, || format!("{what} took {took:?} of {BRIEF:?}"))?;
        let is_open = |kind| matches!(kind, Kind::Unreachable | Kind::Timeout | Kind::Busy);
        check(answer.as_ref().err().is_none_or(|error| is_open(error.kind)), || {
            format!("{what} was not answered, and says {}", say(&answer))
        })
    };
    let cloud = subject.cloud();
    call("volume", &|deadline| cloud.volume(&id, deadline).map(drop))?;
    call("attached_to", &|deadline| cloud.attached_to(&here, deadline).map(drop))?;
    call("attach", &|deadline| cloud.attach(&id, &here, deadline))?;
    call("detach", &|deadline| cloud.detach(&id, &here, deadline))
}
