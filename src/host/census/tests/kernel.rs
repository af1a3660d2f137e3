//! Users that are no processes, as `/sys` and `/proc/swaps` show them.

use super::VOLUME;
use super::fake::Machine;
use crate::model::mount::disk_users::{Answer, KernelUse, Untold};
use crate::ports::host::Census;

/// The kernel's users and what could not be told of them, on a machine that has the volume
/// mounted at `/global`, and at `/data` of another namespace.
#[track_caller]
fn users(machine: &Machine) -> (Vec<KernelUse>, Vec<Untold>) {
    let ours = machine.usual_mounts("rw") + "25 20 240:77 / /global rw - ext4 x rw\n";
    machine.mounts(std::process::id(), &ours);
    machine.process(7, 5);
    machine.mounts(7, super::WITH_IT);
    match machine.census().device_users(&[VOLUME]) {
        Answer::Told(found) => (found.kernel, found.untold),
        Answer::CannotTell(why) => panic!("{why}"),
    }
}

#[test]
fn devices_made_of_the_disk_are_told() {
    let machine = Machine::new();
    machine.write("sys/dev/block/240:77/holders/dm-0/x", "");
    machine.write("sys/dev/block/7:4/holders/dm-1/x", "");
    assert_eq!(
        users(&machine),
        (
            vec![KernelUse::Holder {
                device: "dm-0".to_owned(),
                name: String::new(),
                kind: String::new()
            }],
            vec![]
        )
    );
}

#[test]
fn a_loop_device_that_cannot_be_asked_is_judged_by_its_path() {
    let machine = Machine::new();
    let seen = machine.path("elsewhere.img");
    machine.write("elsewhere.img", "");
    for (name, file) in [
        ("loop1", "/global/a.img"),
        ("loop2", "/data/a b.img (deleted)"),
        ("loop3", seen.to_str().unwrap()),
        ("loop4", "/nowhere/to/be/seen.img"),
    ] {
        machine.write(&format!("sys/block/{name}/loop/backing_file"), &format!("{file}\n"));
        machine.write(&format!("sys/block/{name}/dev"), "7:99\n");
        // The node is another device's.
        machine.write(&format!("dev/{name}"), "");
    }
    machine.write("sys/block/loop5/dev", "7:5\n");
    let (mut uses, untold) = users(&machine);
    uses.sort_by_key(|one| format!("{one:?}"));
    let on =
        |device: &str, file: &str| KernelUse::Loop { device: device.to_owned(), file: file.into() };
    assert_eq!(uses, [on("loop1", "/global/a.img"), on("loop2", "/data/a b.img (deleted)")]);
    assert_eq!(untold.len(), 1, "{untold:?}");
    assert_eq!(untold[0].what, "what is behind loop4 (/nowhere/to/be/seen.img)");
}

#[test]
fn a_swap_area_that_cannot_be_seen_is_judged_by_its_path() {
    let machine = Machine::new();
    let areas = ["/data/swap\\040file", "/nowhere/vdy", "/dev/null"];
    let lines = areas.map(|area| format!("{area}  file 1 0 -2\n")).concat();
    machine.write("proc/swaps", &format!("Filename Type Size Used Priority\n{lines}"));
    let (uses, untold) = users(&machine);
    assert_eq!(uses, [KernelUse::Swap("/data/swap file".into())]);
    assert_eq!(untold.len(), 1, "{untold:?}");
    assert_eq!(untold[0].what, "where the swap area /nowhere/vdy is");
}
