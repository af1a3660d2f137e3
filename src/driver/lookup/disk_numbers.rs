//! The numbers under which a volume lives or lived: its disk now, and those of its disks that are gone.

use crate::cloud::Cloud;
use crate::driver::lookup::find_disk::Disks;
use crate::driver::lookup::own_maps::OwnMaps;
use crate::host::machine::boot_id;
use crate::host::records::Records;
use crate::host::{Census, Devices, Mounts, device_nodes};
use crate::model::disk::contents::FsType;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, NamespaceUse};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::staleness::{Here, MountVerdict, Presence, judge};
use crate::model::record::{Staged, VolumeRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The numbers under which volumes live and lived.
pub(in crate::driver) struct DiskNumbers<'a> {
    pub(in crate::driver) cloud: &'a dyn Cloud,
    pub(in crate::driver) devices: &'a dyn Devices,
    pub(in crate::driver) mounts: &'a dyn Mounts,
    pub(in crate::driver) records: &'a Records,
    pub(in crate::driver) census: &'a dyn Census,
    pub(in crate::driver) disks: &'a Disks<'a>,
    pub(in crate::driver) own_maps: &'a OwnMaps<'a>,
}

/// Whether the mounts of a number that a volume's disk had are the volume's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum Belonging {
    /// They say so, or have its file system.
    Proven,
    /// They say that they are another volume's, or have another file system.
    Disproven,
    /// They show neither.
    Unknown,
}

impl DiskNumbers<'_> {
    /// The numbers under which the volume's file system lives: mounted, now, and before its disk
    /// came back under another letter. A number that went to another disk since is not it.
    pub(in crate::driver) fn numbers_of(
        &self,
        id: Option<&VolumeId>,
        mounted: &[DeviceNumber],
    ) -> Vec<DeviceNumber> {
        let table = if id.is_some() { self.mounts.table() } else { Ok(MountTable::default()) };
        self.numbers_by(id, mounted, table.as_ref().map_err(Clone::clone))
    }

    /// The same by a table that was read for this very question.
    pub(in crate::driver) fn numbers_by(
        &self,
        id: Option<&VolumeId>,
        mounted: &[DeviceNumber],
        table: Result<&MountTable>,
    ) -> Vec<DeviceNumber> {
        let mut numbers: BTreeSet<_> = mounted.iter().copied().collect();
        if let Some(id) = id {
            numbers.extend(self.known_dead_numbers_of(id, table));
            if let Ok(Some(disk)) = self.disks.find_disk(id) {
                numbers.insert(disk.number);
            }
            // While it waits it shows no serial, and its mounts are the volume's all the same.
            numbers.extend(self.own_maps.number_of(id));
        }
        numbers.into_iter().collect()
    }

    /// The numbers of dead disks on which mounts of this very volume stand, as far as they are known.
    pub(in crate::driver) fn known_dead_numbers_of(
        &self,
        id: &VolumeId,
        table: Result<&MountTable>,
    ) -> Vec<DeviceNumber> {
        let dead = table.and_then(|table| self.dead_numbers_of(id, table));
        dead.unwrap_or_else(|error| {
            tracing::debug!(%error, "the numbers before are not known");
            Vec::new()
        })
    }

    pub(in crate::driver) fn all_gone(&self, numbers: &[DeviceNumber]) -> &'static str {
        let gone = numbers.iter().all(|number| self.devices.is_gone(*number).unwrap_or(false));
        if gone { " (on a disk that is gone)" } else { "" }
    }

    /// The numbers of dead disks on which mounts of this very volume stand.
    pub(in crate::driver) fn dead_numbers_of(
        &self,
        id: &VolumeId,
        table: &MountTable,
    ) -> Result<Vec<DeviceNumber>> {
        let mut dead = self.verdicts(id, (table, &[]), Here::Nothing, MountVerdict::is_dead)?;
        let record = self.records.load(id);
        let unseen: Vec<_> = dead
            .iter()
            .map(|(number, _)| *number)
            .filter(|number| table.of(*number).next().is_none())
            .collect();
        let others =
            if unseen.is_empty() { Vec::new() } else { self.in_other_namespaces(&unseen)? };
        dead.retain(|(number, _)| {
            self.belonging(id, *number, table, &others, &record) == Belonging::Proven
        });
        Ok(dead.into_iter().map(|(number, _)| number).collect())
    }

    /// What became of each number from which this volume may have been mounted, as far as it matters.
    /// A number that was the volume's may be another disk's by now: `belonging` tells. Mounts in other namespaces
    /// that show the volume's label are asked about where the caller has looked for them.
    pub(in crate::driver) fn verdicts(
        &self,
        id: &VolumeId,
        (table, labelled_elsewhere): (&MountTable, &[DeviceNumber]),
        here: Here,
        matters: impl Fn(&MountVerdict) -> bool,
    ) -> Result<Vec<(DeviceNumber, MountVerdict)>> {
        let record = self.records.load(id);
        let labelled = labelled(table, id).map(|mount| mount.disk);
        let ours: BTreeSet<_> = labelled.chain(labelled_elsewhere.iter().copied()).collect();
        let mut numbers: BTreeSet<_> = record.former_numbers(&boot_id()).collect();
        numbers.extend(&ours);
        let wanted = self.cloud.identity(id);
        let mut verdicts = Vec::new();
        for number in numbers {
            let presence = self.devices.presence(number, &wanted)?;
            let is_reused = matches!(presence, Presence::Other(_)) && !ours.contains(&number);
            let verdict = judge(number, &presence, here);
            if !is_reused && matters(&verdict) {
                verdicts.push((number, verdict));
            }
        }
        Ok(verdicts)
    }

    /// Whether any mount of the volume's disks of this boot lives on, here or in any other
    /// namespace; where that cannot be seen it may.
    pub(in crate::driver) fn is_left_behind(&self, id: &VolumeId) -> bool {
        let record = self.records.load(id);
        let numbers: Vec<_> = record.former_numbers(&boot_id()).collect();
        let Ok(table) = self.mounts.table() else { return true };
        if labelled(&table, id).next().is_some() {
            return true;
        }
        if numbers.is_empty() {
            return false;
        }
        match self.census.namespaces_with(&numbers) {
            // A number that was given away again shows other volumes' labels.
            Answer::Told(uses) => {
                let mut mounts = uses.namespaces.iter().flat_map(|one| &one.mounts);
                uses.hidden(|pod| record.knows(pod)).is_some()
                    || mounts.any(|mount| device_nodes::owner_of(mount).as_ref() == Some(id))
            }
            Answer::CannotTell(_) => true,
        }
    }

    /// Whether the mounts of a number are this volume's.
    pub(in crate::driver) fn belonging(
        &self,
        id: &VolumeId,
        number: DeviceNumber,
        table: &MountTable,
        others: &[NamespaceUse],
        record: &VolumeRecord,
    ) -> Belonging {
        let own: Vec<&Mount> = table.of(number).collect();
        let elsewhere = others.iter().flat_map(|one| &one.mounts);
        let elsewhere: Vec<_> = elsewhere.filter(|mount| mount.number == number).collect();
        belonging_of(id, (&own, &elsewhere), record.mounted_as(), || {
            self.ext_ids().ok()?.remove(&number)
        })
    }

    /// The numbers of mounts in other namespaces that show the volume's label: a record may be lost, and it
    /// remembers so many disks and no more.
    pub(in crate::driver) fn labelled_elsewhere(&self, id: &VolumeId) -> Result<Vec<DeviceNumber>> {
        let label = Path::new(device_nodes::FOLDER).join(id.as_str());
        match self.census.namespaces_of(&[], &label) {
            Answer::Told(uses) => {
                let mounts = uses.namespaces.iter().flat_map(|one| &one.mounts);
                let ours =
                    mounts.filter(|mount| device_nodes::owner_of(mount).as_ref() == Some(id));
                // A btrfs shows a number there that is no disk's; and it is not healed.
                Ok(ours.map(|mount| mount.number).filter(|number| number.major != 0).collect())
            }
            Answer::CannotTell(why) => Err(Error::refused(format!(
                "which mounts of the volume stand in other namespaces cannot be told from here: {why}"
            ))),
        }
    }

    fn in_other_namespaces(&self, numbers: &[DeviceNumber]) -> Result<Vec<NamespaceUse>> {
        match self.census.namespaces_with(numbers) {
            Answer::Told(uses) => Ok(uses.namespaces),
            Answer::CannotTell(why) => Err(Error::refused(format!(
                "who stands on the dead disk cannot be told from here: {why}"
            ))),
        }
    }

    pub(in crate::driver) fn numbers_with(&self, told: u64) -> Result<Vec<DeviceNumber>> {
        let ids = self.ext_ids()?.into_iter();
        Ok(ids.filter(|(_, id)| *id == told).map(|(number, _)| number).collect())
    }

    fn ext_ids(&self) -> Result<BTreeMap<DeviceNumber, u64>> {
        match self.census.ext_file_system_ids() {
            Answer::Told(ids) => Ok(ids),
            Answer::CannotTell(why) => Err(Error::new(
                Kind::Refused,
                format!("which file systems are mounted cannot be told from here: {why}"),
            )),
        }
    }

    pub(in crate::driver) fn own_mounts(&self, id: &VolumeId) -> Result<Vec<Mount>> {
        let table = self.mounts.table()?;
        let numbers = self.numbers_by(Some(id), &[], Ok(&table));
        let ours = table.mounts().iter().filter(|mount| numbers.contains(&mount.disk));
        Ok(ours.cloned().collect())
    }

    pub(in crate::driver) fn is_mounted_here(&self, id: &VolumeId) -> bool {
        let Ok(table) = self.mounts.table() else { return false };
        let numbers = self.numbers_by(Some(id), &[], Ok(&table));
        table.mounts().iter().any(|one| numbers.contains(&one.disk))
    }
}

/// Whether mounts that have one number are this volume's: they must say so themselves, by the label that they were
/// made with. While a mount stands its number belongs to no other disk, so one label tells for all of them.
fn belonging_of(
    id: &VolumeId,
    (own, elsewhere): (&[&Mount], &[&Mount]),
    staged: Option<&Staged>,
    told_id: impl FnOnce() -> Option<u64>,
) -> Belonging {
    let all = if own.is_empty() { elsewhere } else { own };
    let mut labelled = all.iter().filter(|mount| device_nodes::is_labelled(mount)).peekable();
    if labelled.peek().is_some() {
        let is_its = labelled.any(|mount| device_nodes::owner_of(mount).as_ref() == Some(id));
        return if is_its { Belonging::Proven } else { Belonging::Disproven };
    }
    // The predecessor's mounts have no label: then only what stands in the folder where this machine staged the
    // volume is its, or what has the id of its file system, which the kernel keeps also of a dead one.
    let Some(staged) = staged else { return Belonging::Unknown };
    if own.iter().any(|mount| mount.target == staged.folder) {
        return Belonging::Proven;
    }
    let is_of_its_kind = |mount: &&Mount| family(&mount.fs_type) == family(&staged.fs_type);
    if !all.is_empty() && !all.iter().any(is_of_its_kind) {
        return Belonging::Disproven;
    }
    let wanted = FsType::named(&staged.fs_type).and_then(|kind| told_by_statfs(kind, &staged.uuid));
    match wanted.and_then(|wanted| Some(told_id()? == wanted)) {
        Some(true) => Belonging::Proven,
        Some(false) => Belonging::Disproven,
        None => Belonging::Unknown,
    }
}

/// The kernel mounts an ext3 as either of the two.
fn family(fs_type: &str) -> &str {
    if fs_type.starts_with("ext") { "ext" } else { fs_type }
}

/// The mounts that say they are the volume's.
pub(in crate::driver) fn labelled<'t>(
    table: &'t MountTable,
    id: &VolumeId,
) -> impl Iterator<Item = &'t Mount> {
    table.mounts().iter().filter(move |mount| device_nodes::owner_of(mount).as_ref() == Some(id))
}

/// What statfs(2) says of a file system's id, dead or alive: ext folds its UUID into 64 bits. xfs
/// gives its disk's number there, which tells nothing.
pub(in crate::driver) fn told_by_statfs(kind: FsType, uuid: &str) -> Option<u64> {
    if !matches!(kind, FsType::Ext3 | FsType::Ext4) {
        return None;
    }
    let digits: String = uuid.chars().filter(|c| *c != '-').collect();
    let bytes = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    let half = |at: usize| bytes[at..].first_chunk().map(|half| u64::from_le_bytes(*half));
    (digits.len() == 32).then_some(half(0)? ^ half(8)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::fakes::{FakeCloud, FakeDevices, FakeMounts, FakeNamespaces, MadeUp};
    use crate::driver::lookup::memory::staged;
    use crate::model::ids::ConsumerId;
    use crate::model::mount::disk_users::Untold;
    use crate::model::record::DiskMoment;

    #[test]
    fn an_ext_folds_its_uuid() {
        let uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(told_by_statfs(FsType::Ext4, uuid), Some(0x0808_0808_0808_0808));
        assert_eq!(told_by_statfs(FsType::Xfs, uuid), None);
        assert_eq!(told_by_statfs(FsType::Ext4, ""), None);
        assert_eq!(told_by_statfs(FsType::Ext4, "08"), None);
    }

    const UUID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";
    const ITS_ID: u64 = 0x0808_0808_0808_0808;

    fn mounts(lines: &[&str]) -> Vec<Mount> {
        MountTable::parse(lines.join("\n").as_bytes()).unwrap().mounts().to_vec()
    }

    /// A mount of 7:1 at this folder, with this file system and source.
    fn mount(folder: &str, kind: &str, source: &str) -> String {
        format!("30 1 7:1 / {folder} rw - {kind} {source} rw")
    }

    fn of(own: &[String], elsewhere: &[String], kind: &str, told: Option<u64>) -> Belonging {
        let lines = |all: &[String]| mounts(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let (own, elsewhere) = (lines(own), lines(elsewhere));
        let staged = (!kind.is_empty()).then(|| Staged {
            folder: "/k/staged".into(),
            fs_type: kind.to_owned(),
            uuid: UUID.to_owned(),
            disk: DiskMoment {
                number: DeviceNumber { major: 7, minor: 2 },
                sequence: None,
                size: 1,
                boot: String::new(),
            },
            options: String::new(),
            mounts: None,
            untouched: false,
            journal: None,
        });
        let id = VolumeId::parse("v1").unwrap();
        let all = (&own.iter().collect::<Vec<_>>()[..], &elsewhere.iter().collect::<Vec<_>>()[..]);
        belonging_of(&id, all, staged.as_ref(), || told)
    }

    #[test]
    fn a_label_tells_whose_the_mounts_of_a_number_are() {
        let ours = mount("/a", "ext4", "/dev/incloud-disk/v1");
        let anothers = mount("/b", "ext4", "/dev/incloud-disk/v2");
        let bare = mount("/k/staged", "ext4", "/dev/vdb");
        let one = |mount: &String| vec![mount.clone()];
        assert_eq!(of(&[bare.clone(), ours.clone()], &[], "", None), Belonging::Proven);
        assert_eq!(of(&one(&anothers), &[], "ext4", Some(ITS_ID)), Belonging::Disproven);
        assert_eq!(of(&[], &one(&ours), "", None), Belonging::Proven);
        assert_eq!(of(&[], &one(&anothers), "ext4", Some(ITS_ID)), Belonging::Disproven);
        // This machine's own are nearer than those of others, who may name a source as they like.
        assert_eq!(of(&one(&bare), &one(&anothers), "ext4", None), Belonging::Proven);
    }

    #[test]
    fn without_a_label_the_folder_tells_or_the_file_system() {
        let bare = |folder: &str, kind: &str| vec![mount(folder, kind, "/dev/vdb")];
        let own = |folder: &str, kind: &str, told| of(&bare(folder, kind), &[], "ext4", told);
        assert_eq!(of(&bare("/k/staged", "ext4"), &[], "", Some(ITS_ID)), Belonging::Unknown);
        assert_eq!(own("/k/staged", "ext4", None), Belonging::Proven);
        assert_eq!(own("/x", "ext4", Some(ITS_ID)), Belonging::Proven);
        // An ext3 is mounted as either.
        assert_eq!(own("/x", "ext3", Some(ITS_ID)), Belonging::Proven);
        assert_eq!(own("/x", "ext4", Some(1)), Belonging::Disproven);
        assert_eq!(own("/x", "ext4", None), Belonging::Unknown, "it could not be asked");
        assert_eq!(own("/x", "xfs", None), Belonging::Disproven, "another kind");
        assert_eq!(of(&bare("/x", "xfs"), &[], "xfs", None), Belonging::Unknown);
        assert_eq!(of(&bare("/x", "btrfs"), &[], "xfs", None), Belonging::Disproven);
        // In another namespace a folder is named as its owner likes.
        assert_eq!(of(&[], &bare("/k/staged", "ext4"), "ext4", Some(1)), Belonging::Disproven);
        assert_eq!(of(&[], &[], "ext4", Some(ITS_ID)), Belonging::Proven, "seen by its id alone");
        assert_eq!(of(&[], &[], "ext4", None), Belonging::Unknown);
    }
    fn its() -> VolumeId {
        VolumeId::parse("v-1").unwrap()
    }

    fn number(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 7, minor }
    }

    fn line(minor: u32, source: &str) -> String {
        format!("40 20 7:{minor} / /x rw - ext4 {source} rw")
    }

    /// A namespace with these mounts.
    fn namespace(lines: &[String]) -> NamespaceUse {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        NamespaceUse::of_a_test(mounts(&lines), Vec::new())
    }

    /// A machine that remembers mounts of the volume from these disks, has these mounts, and other namespaces that have
    /// these. The disk at 7:1 is another volume's.
    fn asked<T>(
        (remembered, own): (&[u32], &[String]),
        namespaces: FakeNamespaces,
        ask: impl FnOnce(&DiskNumbers<'_>) -> T,
    ) -> T {
        let cloud = FakeCloud::default();
        let mut devices = FakeDevices::default().with("vda", 1, "v-1").with("loop1", 1, "v-2");
        devices.disks[1].0.number = number(1);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let mounts = FakeMounts::of(&own);
        let made_up = MadeUp { mounts, namespaces, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|driver| {
            for minor in remembered {
                let disk = DiskMoment::of_a_test(*minor, &boot_id());
                let staged = staged(Path::new("/stage"), &disk, "ext4", UUID);
                driver.ports.records.update(&its(), |record| record.is_staged(staged)).unwrap();
            }
            ask(driver.surveying.numbers)
        })
    }

    #[test]
    fn a_volume_lives_at_its_disk_and_at_dead_ones_that_its_mounts_stand_on() {
        let ours = line(5, "/dev/incloud-disk/v-1");
        let all = |own: &[String]| {
            asked((&[], own), FakeNamespaces::default(), |numbers| {
                let dead = numbers.known_dead_numbers_of(
                    &its(),
                    numbers.mounts.table().as_ref().map_err(Clone::clone),
                );
                (numbers.numbers_of(Some(&its()), &[number(9)]), dead)
            })
        };
        let now = DeviceNumber { major: 253, minor: 0 };
        assert_eq!(all(&[]), (vec![number(9), now], vec![]));
        assert_eq!(all(&[ours]), (vec![number(5), number(9), now], vec![number(5)]));
        asked((&[], &[]), FakeNamespaces::default(), |numbers| {
            assert_eq!(numbers.all_gone(&[number(5)]), " (on a disk that is gone)");
            assert_eq!(numbers.all_gone(&[number(5), now]), "");
        });
    }

    #[test]
    fn a_dead_number_that_only_other_namespaces_have_is_the_volumes_if_they_say_so() {
        let dead = |source: &str| {
            let namespaces = vec![namespace(&[line(5, source)])].into();
            let census = FakeNamespaces { namespaces, ..FakeNamespaces::default() };
            asked((&[5], &[]), census, |numbers| {
                numbers.dead_numbers_of(&its(), &MountTable::default()).unwrap()
            })
        };
        assert_eq!(dead("/dev/incloud-disk/v-1"), [number(5)]);
        assert_eq!(dead("/dev/incloud-disk/v-2"), []);
        assert_eq!(dead("/dev/vdb"), [], "it shows neither");
        let blind = asked((&[5], &[]), FakeNamespaces::blind(), |numbers| {
            numbers.dead_numbers_of(&its(), &MountTable::default()).unwrap_err()
        });
        assert_eq!(blind.kind, Kind::Refused);
    }

    #[test]
    fn a_number_that_went_to_another_disk_is_the_volumes_no_more_unless_its_mounts_have_it() {
        let verdicts = |remembered: &[u32], own: &[String], elsewhere: &[DeviceNumber]| {
            asked((remembered, own), FakeNamespaces::default(), |numbers| {
                let table = numbers.mounts.table().unwrap();
                let of = |matters: fn(&MountVerdict) -> bool| {
                    let at = (&table, elsewhere);
                    let all = numbers.verdicts(&its(), at, Here::Nothing, matters).unwrap();
                    all.into_iter().map(|(number, _)| number.minor).collect::<Vec<_>>()
                };
                (of(|_| true), of(MountVerdict::is_dead))
            })
        };
        let anothers = line(1, "/dev/incloud-disk/v-1");
        assert_eq!(verdicts(&[5], &[], &[]), (vec![5], vec![5]));
        assert_eq!(verdicts(&[1, 5], &[], &[]), (vec![5], vec![5]));
        assert_eq!(verdicts(&[1], &[anothers], &[]), (vec![1], vec![]));
        assert_eq!(verdicts(&[], &[], &[number(1), number(6)]), (vec![1, 6], vec![6]));
    }

    #[test]
    fn what_may_be_left_of_a_volume_is_told_from_what_is_anothers() {
        let left = |remembered: &[u32], own: &[String], census: FakeNamespaces| {
            asked((remembered, own), census, |numbers| {
                let pod = ConsumerId::parse("1d5c9c9e-1f55-4b1b-8a53-9c6c5a3e0001").unwrap();
                let knows =
                    |record: &mut VolumeRecord| drop(record.consumers.insert(pod, String::new()));
                numbers.records.update(&its(), knows).unwrap();
                numbers.is_left_behind(&its())
            })
        };
        let has = |source: &str| {
            let namespaces = vec![namespace(&[line(5, source)])].into();
            FakeNamespaces { namespaces, ..FakeNamespaces::default() }
        };
        let hidden = |pod: &str| {
            let pods = [ConsumerId::parse(pod).unwrap()].into();
            let untold = vec![Untold { what: "a".to_owned(), why: "b".to_owned(), pods }];
            FakeNamespaces { untold, ..FakeNamespaces::default() }
        };
        assert!(!left(&[], &[], FakeNamespaces::blind()), "it was never mounted");
        assert!(left(&[], &[line(5, "/dev/incloud-disk/v-1")], FakeNamespaces::default()));
        assert!(left(&[5], &[], FakeNamespaces::blind()), "it cannot be told");
        assert!(!left(&[5], &[line(5, "/dev/incloud-disk/v-2")], FakeNamespaces::default()));
        assert!(left(&[5], &[], has("/dev/incloud-disk/v-1")));
        assert!(!left(&[5], &[], has("/dev/incloud-disk/v-2")));
        assert!(left(&[5], &[], hidden("1d5c9c9e-1f55-4b1b-8a53-9c6c5a3e0001")));
        assert!(!left(&[5], &[], hidden("1d5c9c9e-1f55-4b1b-8a53-9c6c5a3e0002")));
    }

    #[test]
    fn mounts_elsewhere_that_show_the_label_are_told_by_their_numbers() {
        let ours = |minor| line(minor, "/dev/incloud-disk/v-1");
        let of_btrfs = "41 20 0:9 / /y rw - btrfs /dev/incloud-disk/v-1 rw".to_owned();
        let lines = [ours(5), ours(5), line(5, "/dev/vdb"), of_btrfs, line(6, "/dev/vdc")];
        let census = FakeNamespaces {
            namespaces: vec![namespace(&lines)].into(),
            ..FakeNamespaces::default()
        };
        let told = asked((&[], &[]), census, |numbers| numbers.labelled_elsewhere(&its()).unwrap());
        assert_eq!(told, [number(5), number(5)]);
    }
}
