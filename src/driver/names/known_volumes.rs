//! The volumes that this node and the cloud know, with all their names for people.

use crate::context::Context;
use crate::lookup::disk_owner::volume_on;
use crate::lookup::find_disk;
use crate::model::disk::device::{DeviceNumber, link_names};
use crate::model::error::{Error, Result};
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::known_volume::{KnownVolume, TypedName};
use crate::model::mount::label;
use crate::model::mount::layout::FolderKind;
use crate::names;
use crate::ports::clock::Deadline;
use crate::ports::cloud::CloudVolume;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The volumes that this node knows, without asking the cloud. Reads disks only if a device was typed.
pub fn here(cx: &Context<'_>, typed: TypedName<'_>) -> Vec<KnownVolume> {
    let mut known = Collected::default();
    let boot = cx.host.environment.boot_id();
    for record in cx.store.records.list().unwrap_or_default() {
        let one = known.volume(&record.volume);
        // A name that another volume has got since belongs to that one.
        let is_its = |name: &&VolumeName| {
            cx.store.records.named(name).is_none_or(|last| last == record.volume)
        };
        one.names.extend(record.name.iter().filter(is_its).map(ToString::to_string));
        one.consumers.extend(record.mounts.consumers.clone());
        let numbers = record.disk.former_numbers(&boot);
        one.dead.extend(numbers.filter(|number| is_gone(cx, *number)));
    }
    for (name, id) in cx.store.records.names() {
        known.volume(&id).names.insert(name.to_string());
    }
    let table = cx.host.mounts.table().unwrap_or_default();
    for mount in table.mounts() {
        let place = cx.faces.place_of(&mount.target);
        let own = cx.faces.name_of_own(&mount.target);
        let by_folder =
            |name: &VolumeName| names::volume_mounted_at(cx, name, &mount.target).ok()?;
        let id = label::owner_of(mount).or_else(|| own.as_ref().and_then(by_folder));
        let one = match (&id, &own) {
            (Some(id), _) => known.volume(id),
            (None, Some(name)) => known.without_id(name),
            (None, None) => continue,
        };
        if let Some((kind, name)) = place {
            one.names.insert(name.to_string());
            if let FolderKind::Consumer(uid) | FolderKind::Part(uid) = kind {
                one.consumers.entry(uid).or_default();
            }
        }
        one.dead.extend([mount.number, mount.disk].into_iter().filter(|n| is_gone(cx, *n)));
    }
    if let Some(shown) = typed.number.and_then(|n| volume_on(cx, n).ok().flatten()) {
        known.volume(&shown);
    }
    known.finish(|one| complete(cx, one, typed))
}

/// Adds what the cloud knows about this node's server and the typed name. Also returns why the cloud did not answer.
pub fn everywhere(
    cx: &Context<'_>,
    typed: TypedName<'_>,
    here: Vec<KnownVolume>,
    patience: Duration,
) -> (Vec<KnownVolume>, Option<Error>) {
    let mut known = Collected::from(here);
    let silence = ask(cx, typed, &mut known, cx.deadline.at_most(patience)).err();
    (known.finish(|one| complete(cx, one, typed)), silence)
}

fn ask(
    cx: &Context<'_>,
    typed: TypedName<'_>,
    known: &mut Collected,
    deadline: Deadline,
) -> Result<()> {
    // A name that this node remembers is outdated if the cloud has another one.
    for one in known.0.values_mut().filter(|one| one.names.contains(typed.text)) {
        let Some(id) = &one.id else { continue };
        let volume = cx.cloud.volume(id, deadline)?;
        let name = volume.and_then(|volume| volume.recorded_name);
        if name.is_some_and(|name| name.as_str() != typed.text) {
            one.names.remove(typed.text);
        }
    }
    let mut found = Vec::new();
    if let Ok(name) = VolumeName::parse(typed.text) {
        found.extend(cx.cloud.recorded_as(&name, deadline)?);
    }
    if let Ok(id) = VolumeId::parse(typed.text) {
        found.extend(cx.cloud.volume(&id, deadline)?);
    }
    if let Some(server) = cx.cloud.server(cx.this_node, deadline)? {
        found.extend(cx.cloud.attached_to(&server, deadline)?);
    }
    for CloudVolume { id, recorded_name, name, .. } in found {
        let one = known.volume(&id);
        // The display name counts if no orchestrator recorded a name.
        let called = name.filter(|_| recorded_name.is_none());
        one.names.extend(recorded_name.map(String::from).or(called));
    }
    Ok(())
}

fn complete(cx: &Context<'_>, one: &mut KnownVolume, typed: TypedName<'_>) {
    let Some(id) = &one.id else { return };
    let by_id = Path::new("/dev/disk/by-id");
    one.links.extend(link_names(id).into_iter().map(|name| by_id.join(name)));
    one.links.extend([cx.cloud.link(id), label::label_of(id)]);
    if typed.number.is_some() && one.disk.is_none() {
        one.disk = find_disk::find_disk(cx, id).ok().flatten().map(|disk| disk.number);
    }
}

fn is_gone(cx: &Context<'_>, number: DeviceNumber) -> bool {
    cx.host.devices.is_gone(number).unwrap_or(false)
}

/// Every volume once, by its id or otherwise by its directory's name.
#[derive(Default)]
struct Collected(BTreeMap<(bool, String), KnownVolume>);

impl Collected {
    fn from(known: Vec<KnownVolume>) -> Self {
        Self(
            known
                .into_iter()
                .map(|one| ((one.id.is_none(), one.label().to_owned()), one))
                .collect(),
        )
    }

    fn volume(&mut self, id: &VolumeId) -> &mut KnownVolume {
        let known = || KnownVolume::of(id.clone());
        self.0.entry((false, id.to_string())).or_insert_with(known)
    }

    fn without_id(&mut self, name: &VolumeName) -> &mut KnownVolume {
        self.0.entry((true, name.to_string())).or_default()
    }

    fn finish(self, complete: impl Fn(&mut KnownVolume)) -> Vec<KnownVolume> {
        let mut all: Vec<_> = self.0.into_values().collect();
        all.iter_mut().for_each(complete);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, MadeUp, boot_id};
    use crate::model::face::OF_TESTS;
    use crate::model::ids::ConsumerId;
    use crate::model::record::DiskMoment;
    use std::collections::BTreeSet;

    const POD: &str = "1d5c9c9e-1f55-4b1b-8a53-9c6c5a3e0001";

    fn id(text: &str) -> VolumeId {
        VolumeId::parse(text).unwrap()
    }

    fn name(text: &str) -> VolumeName {
        VolumeName::parse(text).unwrap()
    }

    fn number(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 7, minor }
    }

    fn typed(text: &str, number: Option<DeviceNumber>) -> TypedName<'_> {
        TypedName { text, number }
    }

    /// A node with a recorded volume, a mounted one, and the directory of an unknown one.
    fn asked<T>(cloud: &FakeCloud, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        let devices = FakeDevices::default().with("vda", 1, "v-1").with("vdb", 1, "v-4");
        let mounts = FakeMounts::of(&[
            "40 20 7:5 / /root/mounts/x rw - ext4 /dev/incloud-disk/v-3 rw",
            &format!("41 20 7:6 / /root/pods/{POD}/volumes/ours~disk/pv-8 rw - ext4 /dev/vdx rw"),
            "42 20 7:7 / /other rw - ext4 /dev/vdy rw",
            &format!(
                "43 20 7:8 / /root/pods/{POD}/volume-subpaths/pv-6/main/0 rw - ext4 /dev/vdz rw"
            ),
            &format!(
                "44 20 7:8 / /root/pods/{POD}/volumes/every~driver/pv-6 rw - ext4 /dev/vdz rw"
            ),
        ]);
        let made_up = MadeUp { mounts, ..MadeUp::with(cloud, &devices) };
        made_up.drive(|cx| {
            let records = cx.store.records;
            let pod = ConsumerId::parse(POD).unwrap();
            records
                .update(&id("v-1"), |record| {
                    record.name = Some(name("pv-1"));
                    record.mounts.consumers.insert(pod, "db/postgres-0".to_owned());
                    record.disk.former.push(DiskMoment::of_a_test(9, &boot_id()));
                    record.disk.former.push(DiskMoment {
                        number: DeviceNumber { major: 253, minor: 0 },
                        ..DiskMoment::of_a_test(0, &boot_id())
                    });
                })
                .unwrap();
            records.update(&id("v-2"), |record| record.name = Some(name("pv-5"))).unwrap();
            records.note_name(&name("pv-5"), &id("v-5")).unwrap();
            ask(&Context { faces: OF_TESTS, ..*cx })
        })
    }

    fn found<'k>(all: &'k [KnownVolume], called: &str) -> &'k KnownVolume {
        let mut fitting = all.iter().filter(|one| one.label() == called);
        let one = fitting.next().unwrap();
        assert!(fitting.next().is_none(), "{called} twice");
        one
    }

    fn names(one: &KnownVolume) -> Vec<&str> {
        one.names.iter().map(String::as_str).collect()
    }

    #[test]
    fn this_machine_knows_volumes_by_records_by_names_and_by_mounts() {
        let cloud = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        let all = asked(&cloud, |cx| here(cx, typed("v-1", None)));
        let labels: BTreeSet<_> = all.iter().map(KnownVolume::label).collect();
        assert_eq!(labels, ["pv-8", "v-1", "v-2", "v-3", "v-5"].into());
        let one = found(&all, "v-1");
        assert_eq!(names(one), ["pv-1"]);
        assert_eq!(one.dead, [number(9)].into(), "another disk has the second one");
        assert_eq!(one.consumers.values().collect::<Vec<_>>(), ["db/postgres-0"]);
        assert!(one.links.contains(Path::new("/dev/disk/by-id/virtio-v-1")));
        assert!(one.links.contains(Path::new("/dev/incloud-disk/v-1")));
        assert_eq!(one.disk, None, "no device was typed");
        assert_eq!(names(found(&all, "v-2")), [""; 0], "its name went to another");
        assert_eq!(names(found(&all, "v-5")), ["pv-5"]);
        assert_eq!(found(&all, "v-3").dead, [number(5)].into());
        let folder = found(&all, "pv-8");
        assert_eq!((folder.id.as_ref(), folder.consumers.len()), (None, 1));
        assert_eq!(folder.dead, [number(6)].into());
        assert!(folder.links.is_empty());
    }

    #[test]
    fn a_device_that_is_typed_is_looked_at() {
        let cloud = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        let device = DeviceNumber { major: 253, minor: 16 };
        let all = asked(&cloud, |cx| here(cx, typed("/dev/vdb", Some(device))));
        assert_eq!(found(&all, "v-4").disk, Some(device));
        assert_eq!(found(&all, "v-1").disk, Some(DeviceNumber { major: 253, minor: 0 }));
    }

    #[test]
    fn the_cloud_tells_what_it_has_here_and_of_what_was_typed() {
        let cloud = FakeCloud::default().with("v-1", 1, &[]).with("v-6", 1, &["here"]);
        let cloud = cloud.with("v-7", 1, &["there"]).with("v-8", 1, &["there"]);
        let ask = |text: &str| {
            asked(&cloud, |cx| {
                let here = here(cx, typed(text, None));
                everywhere(cx, typed(text, None), here, Duration::from_secs(1))
            })
        };
        {
            let mut volumes = cloud.volumes.borrow_mut();
            volumes[1].name = Some("logs".to_owned());
            volumes[3].name = Some("data".to_owned());
            volumes[3].recorded_name = Some(name("pv-9"));
        }
        let (all, silence) = ask("v-7");
        assert_eq!(silence, None);
        let labels: BTreeSet<_> = all.iter().map(KnownVolume::label).collect();
        assert_eq!(labels, ["pv-8", "v-1", "v-2", "v-3", "v-5", "v-6", "v-7"].into());
        assert_eq!(names(found(&all, "v-6")), ["logs"], "the cloud's own name");
        assert!(found(&all, "v-7").links.contains(Path::new("/dev/disk/by-id/virtio-v-7")));
        assert_eq!(names(found(&all, "v-1")), ["pv-1"]);
        let (all, _) = ask("pv-9");
        assert_eq!(names(found(&all, "v-8")), ["pv-9"]);

        assert_eq!(names(found(&ask("pv-1").0, "v-1")), ["pv-1"]);
        cloud.volumes.borrow_mut()[0].recorded_name = Some(name("pv-1"));
        assert_eq!(names(found(&ask("pv-1").0, "v-1")), ["pv-1"]);
        cloud.volumes.borrow_mut()[0].recorded_name = Some(name("pv-10"));
        assert_eq!(names(found(&ask("pv-1").0, "v-1")), [""; 0], "it has another name by now");
        cloud.is_down.set(true);
        let (all, silence) = ask("v-1");
        assert!(silence.is_some() && all.len() == 5);
    }
}
