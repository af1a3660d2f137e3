//! Which processes use a disk that is gone. When the last of them lets go, the kernel gives its number to
//! another disk: whoever uses that one is not of the lost disk, and must not be told so, nor signalled.

use crate::host::{Census, Devices};
use crate::model::disk::device::DeviceNumber;
use crate::model::mount::disk_users::{Answer, DeviceUses};

pub(in crate::driver) fn users_of_lost(
    census: &dyn Census,
    devices: &dyn Devices,
    numbers: &[DeviceNumber],
) -> Answer<DeviceUses> {
    // A file system with a number of its own has no disk to ask for.
    let is_anothers =
        |number: DeviceNumber| number.major != 0 && matches!(devices.is_gone(number), Ok(false));
    let lost: Vec<_> = numbers.iter().copied().filter(|number| !is_anothers(*number)).collect();
    if lost.is_empty() {
        return Answer::Told(DeviceUses::default());
    }
    match census.device_users(&lost) {
        Answer::Told(mut users) => {
            // While a file of the lost disk is open nothing else gets its number: so this look counts.
            users.files.retain(|one| !is_anothers(one.number));
            Answer::Told(users)
        }
        unseen @ Answer::CannotTell(_) => unseen,
    }
}
