use super::*;
use crate::cgroup::Owner;
use crate::disk::device::DeviceNumber;
use crate::face::OF_TESTS;
use crate::mount::disk_users::{Process, Tie};
use crate::mount::ownership::beneath;

const FOLDER: &str = "/var/lib/nodeagent/pods/u/volumes/ours~disk/pv";

/// The machine as most are: all is shared, and the volume is in the pod's folder.
const SHARED: &str = "\
20 1 254:0 / / rw shared:1 - ext4 d rw
44 20 7:0 / /var/lib/nodeagent/pods/u/volumes/ours~disk/pv rw shared:5 - ext4 v rw
";

fn of(lines: &str) -> NamespaceUse {
    let table = MountTable::parse(lines.as_bytes()).unwrap();
    let number = DeviceNumber { major: 7, minor: 0 };
    let mounts: Vec<_> = table.of(number).cloned().collect();
    NamespaceUse {
        id: Some(NamespaceId(9)),
        beneath: beneath(&mounts, &table),
        ..NamespaceUse::of_a_test(mounts, vec![process(41)])
    }
}

fn process(pid: u32) -> Process {
    let pod = Some(ConsumerId::parse("u").unwrap());
    let owner = Owner { pod, container: None };
    Process { owner, ..Process::of_a_test(pid) }
}

fn judged(machine: &str, container: &str) -> Option<Vec<u32>> {
    let own = MountTable::parse(machine.as_bytes()).unwrap();
    let numbers = [DeviceNumber { major: 7, minor: 0 }];
    let machine = Machine::new(OF_TESTS, &own, None, &numbers);
    match judge(Path::new(FOLDER), &own, &machine, &[of(container)]) {
        Ruling::Free => panic!("it has the volume"),
        Ruling::LetGo(kept) => Some(kept.iter().map(|one| one.mount.id).collect()),
        Ruling::Takes(_) => None,
    }
}

#[test]
fn what_a_container_was_given_is_its_own_whatever_its_propagation() {
    for fields in ["", "shared:5 ", "master:5 ", "shared:7 master:5 "] {
        for root in ["", "master:1 ", "shared:1 "] {
            let container = format!(
                "60 50 0:40 / / rw {root}- overlay o rw\n61 60 7:0 / /data rw {fields}- ext4 v rw\n"
            );
            assert_eq!(judged(SHARED, &container), Some(vec![61]), "{container}");
        }
    }
}

#[test]
fn what_stands_where_the_folder_is_goes_with_it_if_it_is_shared_or_followed() {
    let seen = |fields: &str| {
        format!(
            "60 50 254:0 / /host rw {fields}- ext4 d rw\n\
             61 60 7:0 / /host{FOLDER} rw - ext4 v rw\n"
        )
    };
    for fields in ["shared:1 ", "master:1 ", "shared:8 master:1 "] {
        assert_eq!(judged(SHARED, &seen(fields)), None, "{fields}");
        // One that has it at a place of its own too keeps it there.
        let both =
            seen(fields) + "70 50 0:40 / / rw - overlay o rw\n71 70 7:0 / /data rw - ext4 v rw\n";
        assert_eq!(judged(SHARED, &both), Some(vec![71]), "{fields}");
    }
    // A private copy stays, and so does everything where the machine shares nothing.
    assert_eq!(judged(SHARED, &seen("")), Some(vec![61]));
    assert_eq!(judged(&SHARED.replace("shared:1 ", ""), &seen("master:1 ")), Some(vec![61]));
    // Who sees another of the machine's folders too has nothing of his own there.
    let global = "/plugins/stages/";
    let global = format!("62 60 7:0 / /host/var/lib/nodeagent{global}pv rw - ext4 v rw\n");
    assert_eq!(judged(SHARED, &(seen("master:1 ") + &global)), None);
    let elsewhere = seen("master:1 ").replace("/pods/u/volumes/ours~disk/", "/elsewhere/");
    assert_eq!(judged(SHARED, &elsewhere), Some(vec![61]));
    // What it stands on is not seen.
    assert_eq!(judged(SHARED, "61 60 7:0 / /data rw - ext4 v rw\n"), None);
}

#[test]
fn one_that_would_lose_it_is_enough() {
    let own = MountTable::parse(SHARED.as_bytes()).unwrap();
    let machine = Machine::new(OF_TESTS, &own, None, &[]);
    let judge = |uses| super::judge(Path::new(FOLDER), &own, &machine, uses);
    assert_eq!(judge(&[]), Ruling::Free);
    let keeps = of("60 50 0:40 / / rw - overlay o rw\n61 60 7:0 / /data rw - ext4 v rw\n");
    let loses = of(&format!(
        "80 50 254:0 / / rw master:1 - ext4 d rw\n81 80 7:0 / {FOLDER} rw master:5 - ext4 v rw\n"
    ));
    let both = [keeps.clone(), loses.clone()];
    assert_eq!(judge(&both), Ruling::Takes(vec![&loses]));
    let Ruling::LetGo(kept) = judge(&both[..1]) else { panic!() };
    assert!(kept[0].is_in(&both) && !kept[0].is_in(&both[1..]));
    let mut other = keeps;
    other.mounts[0].target = "/elsewhere".into();
    assert!(!kept[0].is_in(&[other]), "its id was given away");
}

#[test]
fn in_the_way_is_who_has_no_mount_of_his_own() {
    let file = |pid| FileUse {
        process: process(pid),
        tie: Tie::WorkingFolder,
        path: "/x".into(),
        number: "7:0".parse().unwrap(),
    };
    let files = [file(41), file(42)];
    let uses = [of("61 60 7:0 / /data rw - ext4 v rw\n")];
    let pod = ConsumerId::parse("u").unwrap();
    assert_eq!(in_the_way(&pod, &files, &uses), [&files[1]]);
    assert!(in_the_way(&ConsumerId::parse("v").unwrap(), &files, &uses).is_empty());
}
