//! `disk format`: the one way to lose what is on a volume's disk, and it is a person's.

use super::terminal::told;
use crate::driver::mount::format::{self, OnDisk};
use crate::driver::mount::stage::StageOptions;
use crate::driver::{Context, Volume};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::mount_options::MkfsOptions;

/// What the command line says.
pub(super) struct FormatRequest {
    pub(super) fs_type: String,
    pub(super) mkfs_options: String,
    pub(super) yes: bool,
    pub(super) keep: Option<String>,
}

pub(super) fn run(cx: &Context<'_>, id: &VolumeId, request: &FormatRequest) -> Result<String> {
    let kind = StageOptions::for_file_system(&request.fs_type)?.file_system.unwrap_or_default();
    let options = MkfsOptions::parse(&request.mkfs_options)?;
    options.check_new(kind)?;
    let volume = Volume::new(id.clone(), None);
    if let Some(uuid) = &request.keep {
        let before = format::keep(cx, &volume, uuid)?;
        return Ok(format!(
            "{}kept    file system {uuid}: the next mount accepts it\n",
            shown(&volume, &before)
        ));
    }
    if request.yes {
        let before = format::format_for_good(cx, &volume, kind, &options)?;
        return Ok(format!("{}made    a new {kind}\n", shown(&volume, &before)));
    }
    let found = format::what_is_on(cx, &volume)?;
    let more = match request.mkfs_options.as_str() {
        "" => String::new(),
        options => format!(" --mkfs-options {options:?}"),
    };
    Ok(format!(
        "{}Nothing was changed. To lose all that is on the disk and make a new {kind}:\n  \
         disk format {} --fs-type {kind}{more} --yes\n",
        shown(&volume, &found),
        volume.id
    ))
}

fn shown(volume: &Volume, found: &OnDisk) -> String {
    let OnDisk { disk, contents, was_mounted, objections } = found;
    let before =
        if *was_mounted { "this machine has mounted it before" } else { "never seen mounted here" };
    let against =
        objections.iter().fold(String::new(), |text, one| text + &told(&format!("against {one}")));
    format!(
        "volume  {}\ndisk    {} ({}), {} bytes\n{}before  {before}\n{against}",
        volume.id,
        disk.kernel_name,
        disk.number,
        disk.size,
        told(&format!("holds   {contents}"))
    )
}
