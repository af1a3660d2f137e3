//! A clone or a snapshot beside its original: two file systems of one UUID on one machine. The kernel
//! refuses the second one with an error that says nothing of it.

use super::table::read_table;
use crate::census::KernelCensus;
use crate::model::disk::contents::{FsType, uuid_text};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::Error;
use crate::model::mount::disk_users::Answer;
use crate::model::mount::mountinfo::Mount;
use crate::ports::host::{Census, MountRequest};
use crate::{kernel, worker};
use nix::errno::Errno;
use nix::libc::{O_DIRECTORY, O_NOFOLLOW};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The error in words, if it is that one.
pub(super) fn refusal(request: &MountRequest<'_>, errno: Errno) -> Option<Error> {
    let disk = &request.disk.device().kernel_name;
    let node = request.disk.device().kernel_node();
    let (beside, way) = match (request.kind, errno) {
        (FsType::Xfs, Errno::EINVAL) => {
            let way = format!("xfs_admin -U generate {}", node.display());
            (xfs_twin(request)?, way)
        }
        (FsType::Btrfs, Errno::EEXIST) => {
            let way = format!("btrfstune -u {}", node.display());
            ("as another disk that the kernel knows".to_owned(), way)
        }
        _ => return None,
    };
    let kind = request.kind;
    let error = Error::refused(format!(
        "the {kind} of disk {disk} has the same UUID {beside}: one is a clone of the other"
    ));
    Some(error.hint(format!("detach the other one first, or give this one its own UUID: {way}")))
}

/// Where an xfs with the UUID of the one that is to be mounted is in use, in words. In this mount
/// namespace only what the kernel has in memory is asked for; what is mounted elsewhere is read.
fn xfs_twin(request: &MountRequest<'_>) -> Option<String> {
    let table = read_table().ok()?;
    let is_other =
        |mount: &&Mount| mount.fs_type == "xfs" && mount.disk != request.disk.device().number;
    let uncovered =
        |mount: &&Mount| table.top_at(&mount.target).is_some_and(|top| top.id == mount.id);
    let mut others = table.mounts().iter().filter(is_other).filter(uncovered);
    if let Some(twin) = others.find(|mount| uuid_at(mount).as_deref() == Some(request.uuid)) {
        let (place, number) = (twin.target.display(), twin.disk);
        return Some(format!("as the one that is mounted at {place} (disk {number})"));
    }
    // The kernel lists each xfs that it has, wherever that is mounted, and also if nothing shows it.
    let all = fs::read_dir("/sys/fs/xfs").ok()?.flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    let mut others = names.filter(|name| *name != request.disk.device().kernel_name);
    let twin = others.find(|name| uuid_on(name).as_deref() == Some(request.uuid))?;
    let number: DeviceNumber =
        fs::read_to_string(format!("/sys/class/block/{twin}/dev")).ok()?.trim().parse().ok()?;
    let has_it = match KernelCensus::default().namespaces_with(&[number]) {
        Answer::Told(found) => found.namespaces.iter().find_map(|one| {
            let place = one.mounts.first()?.target.display();
            Some(format!(" by {} at {place}", one.processes.first()?))
        }),
        Answer::CannotTell(_) => None,
    };
    let has_it = has_it.unwrap_or_else(|| " by whom no mount table tells".to_owned());
    Some(format!("as disk {twin} ({number}), which is in use in another mount namespace{has_it}"))
}

fn uuid_at(mount: &Mount) -> Option<String> {
    let flags = O_DIRECTORY | O_NOFOLLOW;
    let root = OpenOptions::new().read(true).custom_flags(flags).open(&mount.target).ok()?;
    Some(uuid_text(&kernel::xfs_geometry(&root).ok()?.uuid))
}

/// The UUID in the superblock of an xfs (its 16 bytes stand at 32).
fn uuid_on(name: &str) -> Option<String> {
    let _doing = worker::doing(&format_args!("read which UUID disk {name} has"));
    let mut head = [0; 48];
    File::open(Path::new("/dev").join(name)).ok()?.read_exact_at(&mut head, 0).ok()?;
    let uuid: [u8; 16] = head[32..].try_into().ok()?;
    head.starts_with(b"XFSB").then(|| uuid_text(&uuid))
}
