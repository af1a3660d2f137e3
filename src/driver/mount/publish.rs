//! Bind the staged volume into a consumer's folder.

use crate::context::Context;
use crate::failpoints;
use crate::guard::{self, let_go_volumes};
use crate::lookup::{alias, find_disk, locking, memory};
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::layout::{PublishTarget, StageTarget};
use crate::model::mount::mountinfo::Mount;
use crate::model::report::tear_down::TearDown;
use crate::mount::stage::{self, StageOptions};
use crate::operation::{Outcome, Volume};
use crate::ownership::mount_place::{self, a_part_of_it, belonging, belongs_now};
use crate::ports::clock::now;
use std::path::Path;

/// Where a volume is to be published.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// The consumer, and its folder.
    pub target: &'a PublishTarget,
    /// The name that people know the consumer by, if it was told.
    pub label: Option<&'a str>,
    /// The folder where the volume is staged.
    pub stage: &'a StageTarget,
    /// How the volume is to be staged, if it is not.
    pub stage_options: &'a StageOptions,
    /// Whether the consumer must not write.
    pub read_only: bool,
}

/// Binds the volume into the consumer's folder. A volume that is not staged is staged first:
/// an empty folder is never bound.
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
    stage::stage_locked(cx, volume, publication.stage, publication.stage_options, "")?;
    let disk = find_disk::disk(cx, &volume.id)?;

    let look = cx.host.mounts.standing_at(&folder)?;
    let staged = cx.host.mounts.standing_at(&stage)?;
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
        bind_verified(cx, volume, &disk, staged, &folder, publication.read_only)?;
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
    cx: &Context<'_>,
    volume: &Volume,
    disk: &Device,
    stage: &Mount,
    folder: &Path,
    read_only: bool,
) -> Result<()> {
    stage::report_hidden(cx, &volume.id, folder);
    cx.host.mounts.bind(stage, folder, read_only)?;
    failpoints::step("publish.bound");
    let verified = verify_bind(cx, volume, folder, read_only);
    verified.map_err(|error| mount_place::undo_mount(cx, folder, disk.number, error))
}

fn verify_bind(cx: &Context<'_>, volume: &Volume, folder: &Path, read_only: bool) -> Result<()> {
    let look = cx.host.mounts.standing_at(folder)?;
    let mount = belongs_now(&look, &find_disk::disk(cx, &volume.id)?, folder)?;
    if mount.is_read_only() != read_only {
        return Err(Error::new(
            Kind::Host,
            format!("{} did not become what was asked for: {}", folder.display(), mount.options),
        ));
    }
    Ok(())
}

/// A bind that was killed half-way, or asked for differently now, is made right in place.
fn set_access(cx: &Context<'_>, mount: &Mount, read_only: bool) -> Result<()> {
    if read_only {
        return cx.host.mounts.make_read_only(mount);
    }
    Err(Error::refused(format!("{} is mounted read-only", mount.target.display()))
        .hint("it is mounted anew when the pod is restarted"))
}

/// A consumer that may write must not get a file system that refuses writes.
fn refuse_read_only_stage(stage: &Mount, read_only: bool) -> Result<()> {
    if read_only || !(stage.is_read_only() || stage.is_super_read_only()) {
        return Ok(());
    }
    let stage = stage.target.display();
    Err(Error::refused(format!("{stage} is read-only, but the pod wants to write"))
        .hint("the disk refuses writes, or the kernel made the file system read-only after an error: see its log"))
}
