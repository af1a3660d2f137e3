//! What a mount of a disk has in common, by whichever calls it is made.

use super::clones;
use super::failure::failed;
use crate::model::disk::file_system::FsType;
use crate::model::error::Error;
use crate::ports::host::MountRequest;
use nix::errno::Errno;

/// The options of the file system: what the owner wishes, and what we add.
pub(super) fn data_of<'a>(
    request: &'a MountRequest<'_>,
) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
    let wished = request.options.data.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
    // A journal is replayed on a read-only mount too, which writes to the disk.
    let untouched = match request.kind {
        FsType::Ext3 | FsType::Ext4 => ("noload", None),
        FsType::Xfs => ("norecovery", None),
        FsType::Btrfs => ("rescue", Some("nologreplay")),
    };
    let untouched = (request.untouched || request.disk.device().read_only).then_some(untouched);
    let twin = request.kind == FsType::Xfs && request.beside_its_twin;
    // A panic of the whole machine is not for an image to ask; the other answers to an error are.
    let is_wished = request.options.data.iter().any(|(key, _)| key == "errors");
    let is_overruled = request.asks_for_panic && !is_wished;
    let errors = is_overruled.then_some(("errors", Some("remount-ro")));
    wished.chain(untouched).chain(errors).chain(twin.then_some(("nouuid", None)))
}

pub(super) fn refused(request: &MountRequest<'_>, errno: Errno, words: &str) -> Error {
    let disk = &request.disk.device().kernel_name;
    let said = if words.is_empty() { String::new() } else { format!(" ({words})") };
    let doing =
        format!("mount {} of disk {disk} at {}{said}", request.kind, request.target.display());
    clones::refusal(request, errno)
        .unwrap_or_else(|| failed(doing, errno).hint("the kernel's log has the reason"))
}
