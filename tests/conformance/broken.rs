//! Clouds that are broken on purpose: each must fail at the check that is about its fault. What a
//! check does not catch here it would not catch of a stranger's cloud.

use crate::shelf::{OnShelf, Shelf};
use crate::suite::CHECKS;
use crate::tagged::Tagged;
use incloud_disk::model::cloud::attachment_state::{Mapping, VolumePhase, VolumeStatus};
use incloud_disk::model::disk::device::Identity;
use incloud_disk::model::error::{Error, Kind, Result};
use incloud_disk::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::cloud::{
    Attachment, Capabilities, Cloud, CloudVolume, Note, ServerState, ServerView,
};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    SaysNotFoundOnAnError,
    SaysNoVolumesOnAnError,
    SaysNoServerOnAnError,
    SaysServerGoneOnAnError,
    InventsServers,
    InventsVolumes,
    ShowsAnotherSize,
    ShowsAStoppedServer,
    GivesTwoVolumesOneDisk,
    AttachesToASecondServer,
    AttachesASecondTime,
    AttachesNothing,
    AttachesWhatIsNotThere,
    ForgetsTheMapping,
    ListsVolumesOfOthers,
    DetachesNothing,
    DetachesFromWhoeverHasIt,
    DetachesWhatIsNotAttached,
    RefusesWithoutSayingThatNothingIsThere,
    IsNeverFree,
    LosesAMark,
    LosesTheRequest,
    KeepsWhatIsRemoved,
    WritesOneNoteOverTheOthers,
    TakesNotesOfNothing,
    PromisesMarksAndRefusesThem,
    FindsNamesByTheirBeginning,
    FindsNamesInAnyCase,
    LosesNotesWithADetach,
    Shrinks,
    GrowsInWordsAlone,
    ForgetsTheDeadline,
}

/// Each fault, and the check that must find it.
const FOUND_BY: &[(Fault, &str)] = &[
    (Fault::SaysNotFoundOnAnError, "an_error_is_never_nothing"),
    (Fault::SaysNoVolumesOnAnError, "an_error_is_never_nothing"),
    (Fault::SaysNoServerOnAnError, "an_error_is_never_nothing"),
    (Fault::SaysServerGoneOnAnError, "an_error_is_never_nothing"),
    (Fault::InventsServers, "what_does_not_exist_is_nothing"),
    (Fault::InventsVolumes, "what_does_not_exist_is_nothing"),
    (Fault::ShowsAnotherSize, "a_volume_is_shown_as_it_is"),
    (Fault::ShowsAStoppedServer, "what_does_not_exist_is_nothing"),
    (Fault::GivesTwoVolumesOneDisk, "a_volume_is_shown_as_it_is"),
    (Fault::AttachesToASecondServer, "a_volume_of_one_server_is_given_to_no_second"),
    (Fault::AttachesASecondTime, "a_server_has_a_volume_once"),
    (Fault::AttachesNothing, "an_attach_is_seen_from_both_sides"),
    (Fault::AttachesWhatIsNotThere, "a_request_about_what_does_not_exist_is_no_success"),
    (Fault::ForgetsTheMapping, "an_attach_is_seen_from_both_sides"),
    (Fault::ListsVolumesOfOthers, "an_attach_is_seen_from_both_sides"),
    (Fault::DetachesNothing, "a_detach_frees_the_volume"),
    (Fault::DetachesFromWhoeverHasIt, "a_detach_of_what_is_not_attached_is_no_success"),
    (Fault::DetachesWhatIsNotAttached, "a_detach_of_what_is_not_attached_is_no_success"),
    (
        Fault::RefusesWithoutSayingThatNothingIsThere,
        "a_detach_of_what_is_not_attached_is_no_success",
    ),
    (Fault::IsNeverFree, "a_detach_frees_the_volume"),
    (Fault::LosesAMark, "a_note_that_was_taken_is_shown"),
    (Fault::LosesTheRequest, "a_note_that_was_taken_is_shown"),
    (Fault::KeepsWhatIsRemoved, "a_note_that_was_taken_is_shown"),
    (Fault::WritesOneNoteOverTheOthers, "a_note_disturbs_no_other"),
    (Fault::TakesNotesOfNothing, "a_request_about_what_does_not_exist_is_no_success"),
    (Fault::PromisesMarksAndRefusesThem, "a_note_that_was_taken_is_shown"),
    (Fault::FindsNamesByTheirBeginning, "a_name_is_found_exactly"),
    (Fault::FindsNamesInAnyCase, "a_name_is_found_exactly"),
    (Fault::LosesNotesWithADetach, "notes_outlive_attach_and_detach"),
    (Fault::Shrinks, "a_volume_never_shrinks"),
    (Fault::GrowsInWordsAlone, "a_volume_never_shrinks"),
    (Fault::ForgetsTheDeadline, "a_call_ends_with_its_deadline"),
];

struct Broken {
    tagged: Tagged,
    fault: Fault,
}

impl Broken {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// There once a volume of this cloud was detached.
    fn was_taken(&self) -> PathBuf {
        self.tagged.shelf.folder.join("was-taken")
    }

    fn all(&self, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let ids = fs::read_dir(self.tagged.shelf.folder.join("volumes")).unwrap();
        ids.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter_map(|id| self.volume(&VolumeId::parse(&id).unwrap(), deadline).transpose())
            .collect()
    }
}

impl Cloud for Broken {
    fn capabilities(&self) -> Capabilities {
        self.tagged.capabilities()
    }

    fn identity(&self, id: &VolumeId) -> Identity {
        if self.is(Fault::GivesTwoVolumesOneDisk) {
            return Identity::Serial(VolumeId::parse("one-for-all").unwrap());
        }
        self.tagged.identity(id)
    }

    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>> {
        if self.is(Fault::ForgetsTheDeadline) && self.tagged.shelf.folder.join("hangs").exists() {
            std::thread::sleep(deadline.total().min(Duration::from_secs(1)) * 10);
        }
        let mut found = match self.tagged.volume(id, deadline) {
            Err(_) if self.is(Fault::SaysNotFoundOnAnError) => return Ok(None),
            Ok(None) if self.is(Fault::InventsVolumes) => Some(CloudVolume::new(
                id.clone(),
                1 << 30,
                VolumeStatus::new(VolumePhase::Available, "on the shelf"),
            )),
            found => found?,
        };
        if let Some(volume) = &mut found {
            if self.is(Fault::ShowsAnotherSize) {
                volume.size /= 1024;
            }
            if self.is(Fault::IsNeverFree) && self.was_taken().exists() {
                volume.status.phase = VolumePhase::Detaching;
            }
            if let Ok(second) = fs::read_link(self.tagged.shelf.folder.join("second")) {
                let server = ServerId::parse(&second.to_string_lossy()).unwrap();
                volume.attachments.push(Attachment::to(server));
            }
        }
        Ok(found)
    }

    fn server(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>> {
        match self.tagged.server(node, deadline) {
            Err(_) if self.is(Fault::SaysNoServerOnAnError) => Ok(None),
            Ok(None) if self.is(Fault::InventsServers) => ServerId::parse(node.as_str()).map(Some),
            found => found,
        }
    }

    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        match self.tagged.attached_to(server, deadline) {
            Err(_) if self.is(Fault::SaysNoVolumesOnAnError) => Ok(Vec::new()),
            Ok(_) if self.is(Fault::ListsVolumesOfOthers) => self.all(deadline),
            found => found,
        }
    }

    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        if self.is(Fault::AttachesNothing) {
            return Ok(());
        }
        if self.is(Fault::AttachesWhatIsNotThere) {
            fs::File::options()
                .append(true)
                .create(true)
                .open(self.tagged.shelf.volume_file(id))
                .unwrap();
        }
        let answer = self.tagged.attach(id, server, deadline);
        let is_twice = self.tagged.shelf.holder(id)?.as_ref() == Some(server)
            && self.is(Fault::AttachesASecondTime);
        if answer.is_err() && (is_twice || self.is(Fault::AttachesToASecondServer)) {
            let _ = std::os::unix::fs::symlink(
                server.as_str(),
                self.tagged.shelf.folder.join("second"),
            );
            return Ok(());
        }
        answer
    }

    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        let there = match self.tagged.shelf.holder(id)? {
            Some(holder) if self.is(Fault::DetachesFromWhoeverHasIt) => holder,
            _ => server.clone(),
        };
        if self.is(Fault::DetachesNothing) {
            return Ok(());
        }
        let answer = self.tagged.detach(id, &there, deadline);
        match &answer {
            Err(error) if error.kind == Kind::Missing => {
                if self.is(Fault::DetachesWhatIsNotAttached) {
                    return Ok(());
                }
                if self.is(Fault::RefusesWithoutSayingThatNothingIsThere) {
                    return Err(Error::refused("no"));
                }
            }
            Ok(()) if self.is(Fault::LosesNotesWithADetach) => {
                let _ = fs::remove_dir_all(self.tagged.notes_of(id));
            }
            Ok(()) if self.is(Fault::IsNeverFree) => {
                fs::write(self.was_taken(), "").unwrap();
            }
            _ => {}
        }
        answer
    }

    fn mapping(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<Mapping> {
        if self.is(Fault::ForgetsTheMapping) {
            return Ok(Mapping::NotMapped);
        }
        let volume = self.tagged.volume(id, deadline)?;
        let is_mapped = volume.is_some_and(|volume| volume.attachment_to(server).is_some());
        Ok(if is_mapped { Mapping::Mapped } else { Mapping::NotMapped })
    }

    fn note(&self, id: &VolumeId, notes: &[Note<'_>], deadline: Deadline) -> Result<()> {
        let is_lost = |note: &Note<'_>| match note {
            Note::MountedOn(Some(_)) => self.is(Fault::LosesAMark),
            Note::Request(Some(_)) => self.is(Fault::LosesTheRequest),
            note => note.value().is_none() && self.is(Fault::KeepsWhatIsRemoved),
        };
        if notes.iter().any(is_lost) {
            return Ok(());
        }
        if self.is(Fault::PromisesMarksAndRefusesThem)
            && notes.iter().any(|note| matches!(note, Note::MountedOn(_)))
        {
            return Err(Error::new(Kind::Config, "no marks"));
        }
        if self.is(Fault::WritesOneNoteOverTheOthers) {
            let _ = fs::remove_dir_all(self.tagged.notes_of(id));
        }
        match self.tagged.note(id, notes, deadline) {
            Err(_) if self.is(Fault::TakesNotesOfNothing) => Ok(()),
            answer => answer,
        }
    }

    fn recorded_as(&self, name: &VolumeName, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let is_meant = |volume: &CloudVolume| {
            let recorded = volume.recorded_name.as_ref().map_or("", VolumeName::as_str);
            if self.is(Fault::FindsNamesByTheirBeginning) {
                recorded.starts_with(name.as_str())
            } else {
                recorded.eq_ignore_ascii_case(name.as_str())
            }
        };
        if self.is(Fault::FindsNamesByTheirBeginning) || self.is(Fault::FindsNamesInAnyCase) {
            let mut all = self.all(deadline)?;
            all.retain(is_meant);
            return Ok(all);
        }
        self.tagged.recorded_as(name, deadline)
    }

    fn server_view(&self, server: &ServerId, deadline: Deadline) -> Result<Option<ServerView>> {
        let node = NodeName::parse(server.as_str())?;
        let found = match self.tagged.server(&node, deadline) {
            Err(_) if self.is(Fault::SaysServerGoneOnAnError) => return Ok(None),
            found => found?,
        };
        let is_stopped = self.is(Fault::ShowsAStoppedServer);
        let state = if is_stopped { ServerState::Stopped } else { ServerState::Running };
        Ok(found.map(|_| ServerView { name: None, state, word: "there".to_owned() }))
    }

    fn extend(&self, id: &VolumeId, bytes: u64, deadline: Deadline) -> Result<()> {
        if self.is(Fault::GrowsInWordsAlone) {
            return Ok(());
        }
        if self.is(Fault::Shrinks) {
            let file =
                fs::File::options().write(true).open(self.tagged.shelf.volume_file(id)).unwrap();
            file.set_len(bytes).unwrap();
            return Ok(());
        }
        self.tagged.extend(id, bytes, deadline)
    }
}

/// A cloud with this fault.
fn with(fault: Fault) -> OnShelf<impl Fn(Shelf) -> Box<dyn Cloud>> {
    OnShelf::new(move |shelf: Shelf| {
        Box::new(Broken { tagged: Tagged { shelf }, fault }) as Box<dyn Cloud>
    })
}

#[test]
fn without_a_fault_each_check_passes() {
    for (name, check) in CHECKS {
        assert_eq!(check(&with(Fault::None)), Ok(()), "{name}");
    }
}

#[test]
fn each_fault_is_found_by_its_check() {
    let missed: Vec<String> = std::thread::scope(|scope| {
        let trials: Vec<_> = FOUND_BY
            .iter()
            .map(|(fault, by)| {
                scope.spawn(move || {
                    let (_, check) = CHECKS.iter().find(|(name, _)| name == by).unwrap();
                    let verdict = check(&with(*fault));
                    println!("{fault:?}: {verdict:?}");
                    verdict.is_ok().then(|| format!("{fault:?} passes {by}"))
                })
            })
            .collect();
        trials.into_iter().filter_map(|trial| trial.join().unwrap()).collect()
    });
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn each_check_finds_a_fault() {
    for (check, _) in CHECKS {
        assert!(FOUND_BY.iter().any(|(_, by)| by == check), "{check} was never seen to fail");
    }
}
