//! Record how a volume is mounted on this node.

use crate::context::Context;
use crate::model::disk::contents::Contents;
use crate::model::disk::device::Device;
use crate::model::error::Result;
use crate::model::face::FaceName;
use crate::model::ids::VolumeId;
use crate::model::mount::mountinfo::Mount;
use crate::model::record::Staged;
use crate::operation::moment;
use crate::ports::clock::now;
use std::path::Path;

/// `attachment` identifies the volume's attachment, if the cloud was asked.
pub(crate) fn remember_staged(
    cx: &Context<'_>,
    id: &VolumeId,
    staged: Staged,
    attachment: Option<String>,
) -> Result<()> {
    let (folder, face) = (staged.folder.clone(), face_of(cx, &staged.folder));
    cx.store.records.update(id, |record| {
        record.is_staged(staged);
        if let Some(file_system) = &mut record.disk.file_system {
            file_system.attachment = attachment.or(file_system.attachment.take());
        }
        record.mounts.faces.insert(folder, face);
        record.disk.seen = Some(now());
    })
}

/// The front end that owns a directory, also of a mount that was found; otherwise the calling one.
pub(crate) fn face_of(cx: &Context<'_>, folder: &Path) -> FaceName {
    let owner = cx.faces.face_of(folder).map(|(face, ..)| face);
    owner.unwrap_or(cx.face).name()
}

/// The mount was undone. If that cannot be recorded, the next call fixes the record.
pub(crate) fn forget_staged(cx: &Context<'_>, id: &VolumeId) {
    if let Err(error) = cx.store.records.update(id, |record| record.mounts.is_unstaged()) {
        tracing::warn!(volume = %id, %error, "the end of a mount is not remembered");
    }
}

/// Records an existing mount of a killed call, of the predecessor, or from before the records were lost.
pub(crate) fn remember_found(cx: &Context<'_>, id: &VolumeId, disk: &Device, mount: &Mount) {
    let record = cx.store.records.load(id);
    let now = moment(cx, disk);
    let known = record.mounts.staged.as_ref().filter(|staged| staged.disk.is_of(&now));
    if let Some(known) = known.filter(|_| record.disk.was_mounted) {
        if known.disk != now {
            // It grew. Everything else about the mount still holds.
            let grown = Staged { disk: now, ..known.clone() };
            remember_or_say(cx, id, grown);
        }
        return;
    }
    let (uuid, mounts) = match cx.host.file_systems.look(disk, cx.deadline) {
        Ok(Contents::FileSystem(found)) => (found.uuid, found.mounts),
        _ => (String::new(), None),
    };
    let mut staged = Staged::new(&mount.target, &now, &mount.fs_type, &uuid);
    // It was counted when it was mounted.
    staged.mounts = mounts;
    staged.transport = disk.transport().cloned();
    // After an error the kernel makes the file system read-only, but not the mount.
    staged.untouched = mount.is_read_only() && mount.is_super_read_only();
    remember_or_say(cx, id, staged);
}

fn remember_or_say(cx: &Context<'_>, id: &VolumeId, staged: Staged) {
    if let Err(error) = remember_staged(cx, id, staged, None) {
        tracing::warn!(volume = %id, %error, "the mount is not remembered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeFileSystems, MadeUp, moment};
    use crate::model::disk::contents::FileSystem;
    use crate::model::mount::mountinfo::MountTable;
    use crate::model::record::{DiskMoment, VolumeRecord};

    fn id() -> VolumeId {
        VolumeId::parse("v-1").unwrap()
    }

    fn mount(options: &str, file_system: &str) -> Mount {
        let line = format!("40 20 253:0 / /stage {options} - ext4 /dev/vda {file_system}");
        MountTable::parse(line.as_bytes()).unwrap().mounts()[0].clone()
    }

    /// The record after a mount was found, starting from a given record.
    fn found(
        before: impl FnOnce(&mut VolumeRecord, &DiskMoment),
        size: u64,
        mount: &Mount,
        holds: Option<Contents>,
    ) -> VolumeRecord {
        let devices = FakeDevices::default().with("vda", size, "v-1");
        let (cloud, disk) = (FakeCloud::default(), devices.disks[0].0.clone());
        let file_systems = FakeFileSystems { holds: holds.into(), ..FakeFileSystems::default() };
        let made_up = MadeUp { file_systems, ..MadeUp::with(&cloud, &devices) };
        made_up.drive(|cx| {
            cx.store.records.update(&id(), |record| before(record, &moment(&disk))).unwrap();
            remember_found(cx, &id(), &disk, mount);
            cx.store.records.load(&id())
        })
    }

    fn ext4() -> Contents {
        let found = FileSystem::of_a_test("its-uuid", 1);
        Contents::FileSystem(FileSystem { mounts: Some(3), ..found })
    }

    #[test]
    fn a_mount_without_a_record_is_remembered_as_it_is_found() {
        let of = |mount: &Mount, holds| found(|_, _| {}, 5, mount, holds).mounts.staged.unwrap();
        let told = of(&mount("rw", "rw"), Some(ext4()));
        assert_eq!((told.folder.to_str(), told.fs_type.as_str()), (Some("/stage"), "ext4"));
        assert_eq!((told.uuid.as_str(), told.mounts), ("its-uuid", Some(3)));
        assert_eq!(told.disk.size, 5);
        assert!(!told.untouched);
        assert!(of(&mount("ro", "ro"), Some(ext4())).untouched);
        assert!(!of(&mount("rw", "ro"), Some(ext4())).untouched, "it stopped after an error");
        assert!(!of(&mount("ro", "rw"), Some(ext4())).untouched, "another mount of it may write");
        let unread = of(&mount("rw", "rw"), None);
        assert_eq!((unread.uuid.as_str(), unread.mounts), ("", None));
    }

    #[test]
    fn of_a_mount_that_is_remembered_only_the_size_of_its_disk_is_new() {
        let known = |size| {
            move |record: &mut VolumeRecord, disk: &DiskMoment| {
                let disk = DiskMoment { size, ..disk.clone() };
                record.is_staged(Staged::new(Path::new("/stage"), &disk, "ext4", "known"));
                record.disk.seen = None;
            }
        };
        let same = found(known(5), 5, &mount("rw", "rw"), Some(ext4()));
        assert_eq!(same.disk.seen, None, "nothing is written down");
        let grown = found(known(5), 7, &mount("rw", "rw"), Some(ext4()));
        let told = grown.mounts.staged.unwrap();
        assert_eq!((told.disk.size, told.uuid.as_str()), (7, "known"));
        let killed = |record: &mut VolumeRecord, disk: &DiskMoment| {
            known(5)(record, disk);
            record.disk.was_mounted = false;
        };
        let staged = found(killed, 5, &mount("rw", "rw"), Some(ext4())).mounts.staged.unwrap();
        assert_eq!(staged.uuid, "its-uuid");
    }
}
