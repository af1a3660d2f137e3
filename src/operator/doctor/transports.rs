//! Disks that look like volumes and are connected in a way that the configuration does not allow: an
//! upgrade or another configuration leaves them unused.

use crate::configuration::{CloudKind, Config};
use crate::host::records::RecordFiles;
use crate::model::disk::device::{Device, Identity, Shown};
use crate::model::disk::transport::Admission;
use crate::model::ids::{VolumeId, shows_a_uuid};
use crate::model::report::finding::Finding;
use crate::ports::host::Devices;
use crate::ports::store::Records as _;
use crate::wiring;

pub(super) const CHECK: &str = "transports";

pub(super) fn look(config: &Config) -> Vec<Finding> {
    // The local cloud knows its disks by their images.
    if config.cloud.kind == Some(CloudKind::Local) {
        return Vec::new();
    }
    let devices = wiring::devices().allowing(&config.disks.transports);
    let strangers = match devices.strangers() {
        Ok(strangers) => strangers,
        Err(error) => return vec![Finding::not_looked_at(CHECK, error)],
    };
    let records = RecordFiles::below(&config.paths.state_dir, &config.paths.run_dir);
    let known = records.list().unwrap_or_default().into_iter().map(|record| record.volume);
    let known: Vec<VolumeId> = known.collect();
    strangers
        .iter()
        .filter_map(|(disk, shown)| Some(finding(disk, sign_of_a_volume(shown, &known)?)))
        .collect()
}

/// What a disk shows that is a known volume's id, or looks like an id. World-wide names of real disks have as
/// many digits, but no dashes between them.
fn sign_of_a_volume<'s>(shown: &'s [Shown], known: &[VolumeId]) -> Option<&'s Shown> {
    let is_known = |one: &Shown| {
        known
            .iter()
            .any(|id| Identity::Serial(id.clone()).proven_by(std::slice::from_ref(one)).is_some())
    };
    let looks_like_an_id = |text: &str| text.contains('-') && shows_a_uuid(text);
    shown.iter().find(|one| is_known(one) || looks_like_an_id(&one.to_string()))
}

fn finding(disk: &Device, shown: &Shown) -> Finding {
    let transport = disk.transport().map(ToString::to_string).unwrap_or_default();
    let found = format!(
        "{} ({}) shows {shown} like a volume, but its transport {transport} is not allowed: it is not used for new mounts",
        disk.kernel_name, disk.number
    );
    let fix = match disk.admission() {
        Admission::Never => format!(
            "nothing, unless it is a volume: no configuration allows {transport}; what is mounted from it can still be healed and unmounted"
        ),
        _ => format!(
            "if the cloud attaches volumes this way, add \"{transport}\" to disks.transports; otherwise nothing"
        ),
    };
    Finding::warning(CHECK, found, fix)
}
