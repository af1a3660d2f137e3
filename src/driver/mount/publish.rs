//! Bind-mount the staged volume into a consumer's directory.

use crate::context::Context;
use crate::failpoints;
use crate::guard::{self, let_go_volumes};
use crate::lookup::{alias, locking, memory};
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::layout::{PublishTarget, StageTarget};
use crate::model::mount::mountinfo::Mount;
use crate::model::report::tear_down::TearDown;
use crate::mount::stage::{self, StageOptions};
use crate::operation::{Outcome, Volume};
use crate::ownership::mount_place::{self, a_part_of_it, belonging, belongs_now};
use crate::ports::clock::now;
use crate::snapshot::{Renewal, Snapshot};
use std::path::Path;

/// Where to publish a volume.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    pub target: &'a PublishTarget,
    /// The consumer's name for people, if known.
    pub label: Option<&'a str>,
    /// Where the volume is staged.
    pub stage: &'a StageTarget,
    /// How to stage the volume, if it is not.
    pub stage_options: &'a StageOptions,
    pub read_only: bool,
}

/// Bind-mounts the volume into the consumer's directory. Stages it first if necessary, so that an empty directory is
/// never bound.
pub fn publish(
    cx: &Context<'_>,
    volume: &Volume,
    publication: &Publication<'_>,
) -> Result<Outcome> {
    let _lock = locking::lock(cx, &volume.id)?;
    alias::remember_name(cx, volume);
    let_go_volumes::note_caller(cx, &volume.id);
    let PublishTarget { consumer, folder } = publication.target;
    let unpublish = TearDown::Unpublish(consumer.clone());
    guard::wanted_again(cx, &volume.id, &[unpublish, TearDown::Unstage, TearDown::Detach]);
    let stage = cx.host.mounts.real_path(&publication.stage.0)?;
    let folder = cx.host.mounts.real_path(folder)?;
    let mut snapshot = Snapshot::of(cx, Some(&volume.id));
    stage::stage_locked(&mut snapshot, volume, publication.stage, publication.stage_options, "")?;
    let disk = snapshot.require_disk()?.clone();
    let look = snapshot.look(&folder)?;
    let staged = snapshot.look(&stage)?;
    let staged = belongs_now(&staged, &disk, &stage)?;
    let outcome = if let Some(mount) = belonging(&look, &disk, &folder)? {
        if mount.root != staged.root {
            return Err(a_part_of_it(mount));
        }
        if mount.is_read_only() == publication.read_only {
            Outcome::Already
        } else {
            set_access(cx, mount, publication.read_only)?;
            Outcome::Done
        }
    } else {
        refuse_read_only_stage(staged, publication.read_only)?;
        cx.host.mounts.make_folder(&folder)?;
        bind_verified(&mut snapshot, volume, &disk, staged, &folder, publication.read_only)?;
        Outcome::Done
    };
    let face = memory::face_of(cx, &folder);
    let recorded = cx.store.records.update(&volume.id, |record| {
        record.mounts.is_published(consumer, &folder, face, publication.label);
        record.disk.seen = Some(now());
        record.mounts.let_go.is_back(consumer, now());
    });
    if let Err(error) = recorded {
        tracing::warn!(volume = %volume.id, %error, "the publication is not remembered");
    }
    Ok(outcome)
}

fn bind_verified(
    snapshot: &mut Snapshot<'_>,
    volume: &Volume,
    disk: &Device,
    stage: &Mount,
    folder: &Path,
    read_only: bool,
) -> Result<()> {
    let cx = snapshot.cx;
    stage::report_hidden(cx, &volume.id, folder);
    cx.host.mounts.bind(stage, folder, read_only)?;
    failpoints::step("publish.bound");
    let verified = verify_bind(snapshot, folder, read_only);
    verified.map_err(|error| mount_place::undo_mount(cx, folder, disk.number, error))
}

fn verify_bind(snapshot: &mut Snapshot<'_>, folder: &Path, read_only: bool) -> Result<()> {
    let look = snapshot.look_again(folder, Renewal::Mounted)?;
    let mount = belongs_now(&look, snapshot.require_disk()?, folder)?;
    if mount.is_read_only() != read_only {
        return Err(Error::new(
            Kind::Host,
            format!("{} did not become what was asked for: {}", folder.display(), mount.options),
        ));
    }
    Ok(())
}

/// Fixes a bind mount whose call was killed, or whose access mode changed.
fn set_access(cx: &Context<'_>, mount: &Mount, read_only: bool) -> Result<()> {
    if read_only {
        return cx.host.mounts.make_read_only(mount);
    }
    Err(Error::refused(format!("{} is mounted read-only", mount.target.display()))
        .hint("it is mounted anew when the pod is restarted"))
}

/// A consumer that wants to write must not get a file system that refuses writes.
fn refuse_read_only_stage(stage: &Mount, read_only: bool) -> Result<()> {
    if read_only || !(stage.is_read_only() || stage.is_super_read_only()) {
        return Ok(());
    }
    let stage = stage.target.display();
    Err(Error::refused(format!("{stage} is read-only, but the pod wants to write"))
        .hint("the disk refuses writes, or the kernel made the file system read-only after an error: see its log"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeFileSystems, FakeMounts, MadeUp, moment};
    use crate::model::disk::contents::{Contents, FileSystem};
    use crate::model::disk::device::{Device, DeviceNumber};
    use crate::model::ids::{ConsumerId, VolumeId};
    use crate::model::mount::layout::Target;
    use crate::model::policy::HealMode;
    use crate::model::record::Staged;

    const ROOT: &str = "20 1 254:0 / / rw - ext4 d rw";
    const STAGED: &str = "40 20 253:0 / /k/stages/pv-1 rw - ext4 d rw";
    const DEAD: &str = "39 20 253:48 / /k/stages/pv-1 rw - ext4 d rw";
    const BOUND: &str = "41 20 253:0 / /k/pods/1/pv-1 rw - ext4 d rw";
    const ANOTHERS: &str = "42 20 253:16 / /k/pods/1/pv-1 rw - ext4 e rw";

    /// The answer to a publication, with these successive readings of the mount table.
    fn published(
        tables: &[&[&str]],
        heal: HealMode,
        before: impl FnOnce(&Context<'_>, &VolumeId, &Device),
    ) -> Result<Outcome> {
        let devices = FakeDevices { opens: true, ..FakeDevices::default() };
        let devices = devices.with("vda", 1, "v-1").with("vdb", 1, "v-2");
        let cloud = FakeCloud::default().with("v-1", 1, &["here"]);
        let holds = Some(Contents::FileSystem(FileSystem::of_a_test("its-uuid", 1)));
        let file_systems = FakeFileSystems { holds: holds.into(), ..FakeFileSystems::default() };
        let mounts = FakeMounts::in_turn(tables);
        let made_up = MadeUp { file_systems, mounts, heal, ..MadeUp::with(&cloud, &devices) };
        let below = |text: &str| Target { root: "/k".into(), below: text.into() };
        let target = PublishTarget {
            consumer: ConsumerId::parse("1").unwrap(),
            folder: below("pods/1/pv-1"),
        };
        let volume = Volume::new(VolumeId::parse("v-1").unwrap(), None);
        let publication = Publication {
            target: &target,
            label: None,
            stage: &StageTarget(below("stages/pv-1")),
            stage_options: &StageOptions::default(),
            read_only: false,
        };
        made_up.drive(|cx| {
            before(cx, &volume.id, &devices.disks[0].0);
            publish(cx, &volume, &publication)
        })
    }

    #[test]
    fn what_a_bind_made_is_told_by_a_look_after_it() {
        let then = |last: &[&str]| published(&[&[ROOT, STAGED], last], HealMode::Off, |_, _, _| {});
        assert_eq!(then(&[ROOT, STAGED, BOUND]), Ok(Outcome::Done));
        assert!(then(&[ROOT, STAGED]).is_err(), "nothing is there");
        assert!(then(&[ROOT, STAGED, ANOTHERS]).is_err(), "another disk is there");
    }

    #[test]
    fn what_stands_at_the_folder_after_a_heal_is_told_by_a_look_after_it() {
        let was_mounted = |cx: &Context<'_>, id: &VolumeId, disk: &Device| {
            let dead = Device { number: DeviceNumber { major: 253, minor: 48 }, ..disk.clone() };
            let staged =
                Staged::new(Path::new("/k/stages/pv-1"), &moment(&dead), "ext4", "its-uuid");
            cx.store.records.update(id, |record| record.is_staged(staged)).unwrap();
        };
        let healed: &[&str] = &[ROOT, STAGED, BOUND];
        assert_eq!(
            published(&[&[ROOT, DEAD], healed], HealMode::Auto, was_mounted),
            Ok(Outcome::Already)
        );
        assert!(published(&[&[ROOT, DEAD]], HealMode::Auto, was_mounted).is_err());
    }
}
