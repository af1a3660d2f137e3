//! Write data to the disk before the last mount goes, while an error can still be reported.
//!
//! Every final unmount starts with this, and so does unmounting copies of the mount: a copy that is a peer of this
//! node's own mount takes it along.

use crate::context::Context;
use crate::model::advice::{Remedy, advise};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::NamespaceUse;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::propagation;
use crate::model::record::VolumeRecord;
use crate::ports::clock::Deadline;

/// Writes out the file system. A loss is reported once per tear-down: lost data stays lost, and failing every call
/// would keep the volume here for ever.
pub(crate) fn flush(cx: &Context<'_>, mount: &Mount, id: Option<&VolumeId>) -> Result<()> {
    tell_once(cx, mount, id, cx.host.mounts.flush(mount, cx.deadline))
}

/// Writes out the file system if no other mount of it remains in this namespace.
pub(crate) fn flush_if_last(
    cx: &Context<'_>,
    table: &MountTable,
    mount: &Mount,
    id: Option<&VolumeId>,
    deadline: Deadline,
) -> Result<()> {
    let mut others = table.of(mount.number).filter(|other| other.id != mount.id);
    if others.any(|other| !may_go_along(table, mount, other)) {
        return Ok(());
    }
    tell_once(cx, mount, id, cx.host.mounts.flush(mount, deadline))
}

/// Writes out the file systems of copies in other namespaces before they are unmounted, through a mount of this
/// namespace or otherwise the first copy that can be opened.
pub(crate) fn flush_before_copies_go(
    cx: &Context<'_>,
    id: Option<&VolumeId>,
    table: &MountTable,
    numbers: &[DeviceNumber],
    copies: &[NamespaceUse],
) -> Result<()> {
    // A covered mount cannot be reached by its path.
    let is_seen =
        |own: &&Mount| matches!(cx.host.mounts.leads_to(&own.target), Ok(Some(id)) if id == own.id);
    for number in numbers {
        // A lost disk accepts no writes, and may hang.
        if cx.host.devices.is_gone(*number)? {
            continue;
        }
        if let Some(mount) = table.of(*number).find(is_seen) {
            flush(cx, mount, id)?;
            continue;
        }
        for copy in copies {
            let Some(mount) = copy.mounts.iter().find(|mount| mount.number == *number) else {
                continue;
            };
            // A namespace that ended or cannot be entered reports no loss.
            let Ok(door) = cx.host.census.open_namespace(copy) else { continue };
            let flushed = cx.host.mounts.flush_inside(&door, mount, cx.deadline);
            let is_reached = flushed.as_ref().is_ok_and(|is_reached| *is_reached);
            tell_once(cx, mount, id, flushed.map(drop))?;
            if is_reached {
                break;
            }
        }
    }
    Ok(())
}

/// The tear-down is finished or not wanted any more: report the next loss again.
pub(crate) fn tell_losses_anew(cx: &Context<'_>, id: &VolumeId) {
    if cx.store.records.load(id).guard.told_lost_writes.is_none() {
        return;
    }
    if let Err(error) = cx.store.records.update(id, |record| record.guard.told_lost_writes = None) {
        tracing::warn!(volume = %id, %error, "the next lost writes may go untold");
    }
}

fn tell_once(
    cx: &Context<'_>,
    mount: &Mount,
    id: Option<&VolumeId>,
    flushed: Result<()>,
) -> Result<()> {
    let folder = mount.target.display();
    let was_told =
        id.is_some_and(|id| cx.store.records.load(id).guard.told_lost_writes == Some(mount.id));
    let error = match flushed.and_then(|()| refuse_if_it_stopped(mount)) {
        // The kernel reports an error only once, so its silence proves nothing.
        Ok(()) if was_told => Error::new(Kind::Host, "told before"),
        Ok(()) => return Ok(()),
        // Nothing was attempted, so no data is known to be lost.
        Err(error) if error.kind != Kind::Host => return Err(error),
        Err(error) => error,
    };
    if was_told {
        tracing::error!(%folder, %error, "written data is lost; unmounting all the same");
        return Ok(());
    }
    let Some(id) = id else {
        return Err(error.hint(format!(
            "data that programs wrote did not reach the disk, and which volume it is cannot be told; if it may be lost: umount {folder}"
        )));
    };
    let mark = |record: &mut VolumeRecord| record.guard.told_lost_writes = Some(mount.id);
    Err(match cx.store.records.update(id, mark) {
        Ok(()) => error.hint(
            "data that programs wrote did not reach the disk; the next try unmounts without it",
        ),
        Err(also) => {
            tracing::error!(%error, %also, "written data is lost, and this cannot be remembered");
            error.hint(advise("data that programs wrote did not reach the disk, and that this was told cannot be remembered ({}); mend that, or: {}", [also.cause.into(), Remedy::Release.of(id)]))
        }
    })
}

/// After an error a file system accepts no more writes, and its flush succeeds.
fn refuse_if_it_stopped(mount: &Mount) -> Result<()> {
    // The mount is writable but the file system is not; a remount by a person would change the mount too.
    let is_read_only = mount.is_super_read_only() && !mount.is_read_only();
    let mut options = mount.super_options.split(',');
    if is_read_only || options.any(|option| matches!(option, "emergency_ro" | "shutdown")) {
        let folder = mount.target.display();
        return Err(Error::new(
            Kind::Host,
            format!("the file system at {folder} stopped to write after an error"),
        ));
    }
    Ok(())
}

/// Whether unmounting one mount may take another one along: it is at the same place of a peer or a follower of the
/// first one's parent mount. True if that is uncertain.
fn may_go_along(table: &MountTable, mount: &Mount, other: &Mount) -> bool {
    let parent_of = |one: &Mount| table.mounts().iter().find(|parent| parent.id == one.parent);
    let (Some(its), Some(others)) = (parent_of(mount), parent_of(other)) else { return true };
    propagation::may_go_along((mount, its), (other, others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, MadeUp};
    use crate::ports::store::Records as _;

    const TABLE: &str = "\
20 1 254:0 / / rw shared:1 - ext4 d rw
21 20 254:0 /kubelet /view rw shared:1 - ext4 d rw
22 20 254:0 /kubelet /slave rw master:1 - ext4 d rw
23 20 254:0 /kubelet /private rw - ext4 d rw
40 20 7:0 / /kubelet/mounts/pv rw shared:5 - ext4 v rw
41 21 7:0 / /view/mounts/pv rw shared:5 - ext4 v rw
42 22 7:0 / /slave/mounts/pv rw master:5 - ext4 v rw
43 23 7:0 / /private/mounts/pv rw - ext4 v rw
44 20 7:0 / /kubelet/pods/pv rw shared:5 - ext4 v rw
";

    #[test]
    fn what_goes_along_stands_at_the_same_place_of_a_peer() {
        let table = MountTable::parse(TABLE.as_bytes()).unwrap();
        let by_id = |id| table.mounts().iter().find(|mount| mount.id == id).unwrap();
        let along = |id| may_go_along(&table, by_id(40), by_id(id));
        assert_eq!([41, 42, 43, 44].map(along), [true, true, false, false]);
        assert!(!may_go_along(&table, by_id(43), by_id(40)), "a private one takes nothing along");
    }

    #[test]
    fn a_loss_is_told_once_and_what_was_not_done_is_no_loss() {
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let made_up = MadeUp::with(&cloud, &devices);
        let records = made_up.records();
        let id = VolumeId::parse("v-1").unwrap();
        let table = MountTable::parse(TABLE.as_bytes()).unwrap();
        let mount = table.mounts().iter().find(|mount| mount.id == 40).unwrap();
        let tell = |flushed| made_up.drive(|cx| tell_once(cx, mount, Some(&id), flushed));

        tell(Ok(())).unwrap();
        let was_slow = tell(Err(Error::new(Kind::Timeout, "slow"))).unwrap_err();
        assert_eq!((was_slow.kind, was_slow.hint), (Kind::Timeout, None));
        assert_eq!(records.load(&id).guard.told_lost_writes, None, "nothing is known to be lost");

        let lost = || Err(Error::new(Kind::Host, "I/O error"));
        let told = tell(lost()).unwrap_err();
        assert!(told.hint.is_some_and(|hint| hint.to_string().contains("the next try unmounts")));
        assert_eq!(records.load(&id).guard.told_lost_writes, Some(40));
        tell(lost()).unwrap();
        tell(Ok(())).unwrap();

        made_up.drive(|cx| tell_losses_anew(cx, &id));
        tell(lost()).expect_err("another tear-down is told of it");
        let of_none = made_up.drive(|cx| tell_once(cx, mount, None, lost())).unwrap_err();
        assert!(
            of_none.hint.is_some_and(|hint| hint.to_string().contains("umount /kubelet/mounts/pv"))
        );
    }

    #[test]
    fn a_file_system_that_stopped_is_told_from_one_that_is_read() {
        let mount = |flags: &str, file_system: &str| {
            let line = format!("40 20 7:0 / /x {flags} - ext4 v {file_system}");
            MountTable::parse(line.as_bytes()).unwrap().mounts()[0].clone()
        };
        for (flags, file_system, is_fine) in [
            ("rw", "rw,errors=remount-ro", true),
            ("ro", "ro", true),
            ("ro", "rw", true),
            ("rw", "ro,errors=remount-ro", false),
            ("rw", "rw,emergency_ro", false),
            ("ro", "rw,shutdown", false),
        ] {
            let told = refuse_if_it_stopped(&mount(flags, file_system));
            assert_eq!(told.is_ok(), is_fine, "{flags} {file_system}");
        }
    }
}
