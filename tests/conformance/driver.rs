//! The driver on the smallest cloud: what it does without notes, and what it refuses.

use crate::shelf::{OnShelf, Shelf};
use crate::suite::Subject;
use crate::tagged::Tagged;
use incloud_disk::driver::attachment::attach;
use incloud_disk::driver::attachment::detach::Force;
use incloud_disk::driver::call_counts::CallCounts;
use incloud_disk::driver::shield::NoShield;
use incloud_disk::driver::{Context, Host, Outcome, Policy, Store, Volume, names};
use incloud_disk::flexvolume::FACE;
use incloud_disk::host::census::KernelCensus;
use incloud_disk::host::devices::SysfsDevices;
use incloud_disk::host::filesystems::KernelFileSystems;
use incloud_disk::host::locks::LockFiles;
use incloud_disk::host::machine::ThisMachine;
use incloud_disk::host::mounts::KernelMounts;
use incloud_disk::host::pace::PaceFile;
use incloud_disk::host::processes::KernelProcesses;
use incloud_disk::host::records::RecordFiles;
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::host::shared_answers::AnswerFiles;
use incloud_disk::model::cloud::attachment_state::Sharing;
use incloud_disk::model::error::{Kind, Result};
use incloud_disk::model::face::Faces;
use incloud_disk::model::ids::{NodeName, VolumeId, VolumeName};
use incloud_disk::model::mount::after_heal::After;
use incloud_disk::model::policy::{GuardPolicy, HealMode, ShieldPolicy, Takeover};
use incloud_disk::node::kubelet::ConfiguredKubelet;
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::cloud::Cloud;
use std::time::Duration;
use tempfile::TempDir;

/// One call on a machine that remembers nothing: what is found again is found in the cloud.
fn call<T>(cloud: &dyn Cloud, work: impl FnOnce(&Context<'_>) -> T) -> T {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    work(&Context {
        cloud,
        host: Host {
            devices: &SysfsDevices::default(),
            shield: &NoShield,
            file_systems: &KernelFileSystems::below(path),
            mounts: &KernelMounts { faces: Faces::default() },
            remounts: &KernelRemounts::default(),
            census: &KernelCensus::default().read_by(env!("CARGO_BIN_EXE_disk").into()),
            processes: &KernelProcesses,
            environment: &ThisMachine,
            kubelets: &ConfiguredKubelet { proc: "/nowhere".into(), root: None },
        },
        store: Store {
            records: &RecordFiles::below(&path.join("state"), &path.join("run")),
            locks: &LockFiles::below(path),
            answers: &AnswerFiles::below(path, ""),
            pace: &PaceFile::below(path),
            scratch: path,
        },
        policy: Policy {
            guard: &GuardPolicy::default(),
            heal: HealMode::Off,
            shield: &ShieldPolicy::default(),
            after: &After::Nothing,
            takeover: Takeover::Off,
        },
        this_node: &NodeName::parse("controller").unwrap(),
        faces: Faces::default(),
        face: &FACE,
        operation: "test",
        deadline: Deadline::after(Duration::from_secs(5)),
        counts: &CallCounts::default(),
    })
}

fn attach(
    cloud: &dyn Cloud,
    id: &VolumeId,
    name: Option<&str>,
    node: &NodeName,
) -> Result<Outcome> {
    let name = name.map(|name| VolumeName::parse(name).unwrap());
    let volume = Volume::new(id.clone(), name);
    call(cloud, |cx| attach::attach(cx, &volume, node, Sharing::Alone)).map(|(_, it)| it)
}

fn is_attached(cloud: &dyn Cloud, id: &VolumeId, node: &NodeName) -> bool {
    let volume = Volume::new(id.clone(), None);
    call(cloud, |cx| attach::is_attached(cx, &volume, node)).unwrap()
}

fn detach(cloud: &dyn Cloud, name: &str, node: &NodeName) -> Result<Outcome> {
    let name = VolumeName::parse(name).unwrap();
    call(cloud, |cx| names::detach(cx, &name, Some(node), Force::No))
}

#[test]
fn without_notes_a_volume_goes_by_its_id_and_by_nothing_else() {
    let subject = OnShelf::new(|shelf| Box::new(shelf) as Box<dyn Cloud>);
    let (cloud, id, [one, two]) = (subject.cloud(), subject.make(), subject.nodes());
    // Its detach, on a machine that does not know it, would find no volume of that name: it would
    // answer that nothing is attached.
    let error = attach(&*cloud, &id, Some("pvc-1"), &one).unwrap_err();
    assert_eq!(error.kind, Kind::Config, "{error}");
    assert!(error.to_string().contains("PersistentVolume"), "{error}");
    assert!(!is_attached(&*cloud, &id, &one));

    assert_eq!(attach(&*cloud, &id, None, &one).unwrap(), Outcome::Done);
    assert_eq!(attach(&*cloud, &id, None, &one).unwrap(), Outcome::Already);
    assert!(is_attached(&*cloud, &id, &one));
    assert!(!is_attached(&*cloud, &id, &two));
    let error = attach(&*cloud, &id, None, &two).unwrap_err();
    assert_eq!(error.kind, Kind::Elsewhere, "{error}");
    assert_eq!(detach(&*cloud, id.as_str(), &two).unwrap(), Outcome::Already);
    assert!(is_attached(&*cloud, &id, &one), "a detach from another node took it away");
    assert_eq!(detach(&*cloud, id.as_str(), &one).unwrap(), Outcome::Done);
    assert_eq!(detach(&*cloud, id.as_str(), &one).unwrap(), Outcome::Already);
    assert!(!is_attached(&*cloud, &id, &one));
}

#[test]
fn with_notes_it_goes_by_its_name_on_every_machine() {
    let subject = OnShelf::new(|shelf: Shelf| Box::new(Tagged { shelf }) as Box<dyn Cloud>);
    let (cloud, id, [one, two]) = (subject.cloud(), subject.make(), subject.nodes());
    assert_eq!(attach(&*cloud, &id, Some("pvc-1"), &one).unwrap(), Outcome::Done);
    let noted = cloud.volume(&id, Deadline::after(Duration::from_secs(1))).unwrap().unwrap();
    assert_eq!(noted.recorded_name.as_ref().map(VolumeName::as_str), Some("pvc-1"));
    assert_eq!((noted.requested, noted.tenure.map(|tenure| tenure.count)), (None, Some(1)));
    assert_eq!(detach(&*cloud, "pvc-1", &two).unwrap(), Outcome::Already);
    assert_eq!(detach(&*cloud, "pvc-1", &one).unwrap(), Outcome::Done);
    assert!(!is_attached(&*cloud, &id, &one));
}
