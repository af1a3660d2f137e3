//! Which processes use a lost disk. When the last one releases it, the kernel reuses its number; a process that uses
//! the new disk must be neither named nor signalled.

use crate::model::disk::device::DeviceNumber;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, DeviceUses};
use crate::model::record::VolumeRecord;
use crate::model::sorting::sort_by_key;
use crate::ports::host::{Census, Devices};
use std::collections::BTreeMap;

/// The numbers of lost disks with their latest volume. While a file of one volume was open there, no other volume got
/// the number.
pub(crate) fn lost_numbers(
    records: &[VolumeRecord],
    boot: &str,
    devices: &dyn Devices,
) -> BTreeMap<DeviceNumber, VolumeId> {
    let mut had: Vec<_> = records
        .iter()
        .flat_map(|record| record.disk.former.iter().map(|former| (former, &record.volume)))
        .filter(|(former, _)| {
            former.boot == boot && devices.is_gone(former.number).unwrap_or(false)
        })
        .collect();
    sort_by_key(&mut had, |(former, _)| former.sequence);
    had.into_iter().map(|(former, id)| (former.number, id.clone())).collect()
}

pub(crate) fn users_of_lost(
    census: &dyn Census,
    devices: &dyn Devices,
    numbers: &[DeviceNumber],
) -> Answer<DeviceUses> {
    // A file system with an anonymous number has no disk to check.
    let is_anothers =
        |number: DeviceNumber| number.major != 0 && matches!(devices.is_gone(number), Ok(false));
    users_while_lost(numbers, is_anothers, |numbers| census.device_users(numbers))
}

fn users_while_lost(
    numbers: &[DeviceNumber],
    is_anothers: impl Fn(DeviceNumber) -> bool,
    look: impl FnOnce(&[DeviceNumber]) -> Answer<DeviceUses>,
) -> Answer<DeviceUses> {
    let lost: Vec<_> = numbers.iter().copied().filter(|number| !is_anothers(*number)).collect();
    if lost.is_empty() {
        return Answer::Told(DeviceUses::default());
    }
    match look(&lost) {
        Answer::Told(mut users) => {
            // While a file on the lost disk is open its number is not reused, so this check counts.
            users.files.retain(|one| !is_anothers(one.number));
            Answer::Told(users)
        }
        unseen @ Answer::CannotTell(_) => unseen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeDevices, FakeNamespaces};
    use crate::model::mount::disk_users::{FileUse, Process, Tie};
    use std::cell::Cell;

    fn user_of(number: DeviceNumber) -> FileUse {
        let process = Process::of_a_test(41);
        FileUse { process, tie: Tie::Map, path: "/data/wal".into(), number }
    }

    fn found(answer: Answer<DeviceUses>) -> usize {
        let Answer::Told(users) = answer else { panic!("it was looked for") };
        users.files.len()
    }

    #[test]
    fn a_user_of_the_next_disk_of_that_number_is_not_of_the_lost_one() {
        let number: DeviceNumber = "253:16".parse().unwrap();
        let look = |numbers: &[DeviceNumber]| {
            let files = numbers.iter().map(|number| user_of(*number)).collect();
            Answer::Told(DeviceUses { files, ..DeviceUses::default() })
        };
        assert_eq!(found(users_while_lost(&[number], |_| false, look)), 1);
        assert_eq!(found(users_while_lost(&[number], |_| true, look)), 0, "given away before");
        let is_given = Cell::new(false);
        let given_meanwhile = |numbers: &[DeviceNumber]| {
            is_given.set(true);
            look(numbers)
        };
        assert_eq!(found(users_while_lost(&[number], |_| is_given.get(), given_meanwhile)), 0);
    }

    #[test]
    fn a_number_that_no_disk_has_is_lost_and_one_of_no_disk_is_not_asked_for() {
        let devices = FakeDevices::default().with("vda", 1, "v-1");
        let here = devices.disks[0].0.number;
        let numbers = ["0:40", "7:1"].map(|number| number.parse().unwrap());
        let files = numbers.iter().chain([&here]).map(|number| user_of(*number)).collect();
        let users = DeviceUses { files, ..DeviceUses::default() };
        let census = FakeNamespaces { users, ..FakeNamespaces::default() };
        let used = |numbers: &[DeviceNumber]| {
            let Answer::Told(users) = users_of_lost(&census, &devices, numbers) else { panic!() };
            users.files.iter().map(|one| one.number).collect::<Vec<_>>()
        };
        assert_eq!(used(&numbers), numbers);
        assert_eq!(used(&[here]), [], "another disk has it");
        // An anonymous number exists regardless of disks.
        let mut of_none = FakeDevices::default().with("none", 1, "");
        of_none.disks[0].0.number = numbers[0];
        let told = users_of_lost(&census, &of_none, &numbers[..1]);
        assert!(found(told) > 0);
    }
}
