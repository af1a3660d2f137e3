//! What real processes cannot be made to do on every machine: to hide, to be closed, to lie.

mod fake;
mod floods;
mod kernel;

use super::KernelCensus;
use super::answers::answer_all;
use super::proc::{Proc, Task};
use super::question::{Batch, Filter, Line, Question};
use super::scan::{Scan, TimedAnswer, gathered};
use crate::model::disk::device::DeviceNumber;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{Answer, Holder, NamespaceId};
use crate::ports::host::Census;
use fake::{Machine, OURS};
use std::time::Duration;

/// Answers as a reader does.
pub(super) fn read_here(scan: &Scan, batch: &Batch) -> Vec<TimedAnswer> {
    let (proc, mut lines) = (Proc::at(&scan.proc, scan.trusted).unwrap(), Vec::new());
    let mut say = |line| {
        lines.push(line);
        Ok(0)
    };
    answer_all(&proc, batch, &mut None, &mut say).unwrap();
    gathered(lines).0
}

/// However quickly they come, long answers leave no time for more of them.
#[test]
fn what_is_told_costs_time_by_its_length() {
    let machine = Machine::new();
    let asked = 1..=8;
    for pid in asked.clone() {
        machine.process(pid, 5);
        machine.mounts(pid, WITHOUT_IT);
    }
    let proc = Proc::at(&machine.path("proc"), nix::unistd::getuid().as_raw()).unwrap();
    let told = |length: usize| {
        let questions = asked.clone().map(|pid| Question::Home(Task::first_of(pid))).collect();
        let (limit, each) = (Duration::from_secs(9), Duration::from_secs(9));
        let batch = Batch { filter: Filter::default(), limit, each, questions };
        let mut answered = 0;
        let mut say = |line| {
            answered += usize::from(matches!(line, Line::End(Ok(()), _)));
            Ok(length)
        };
        answer_all(&proc, &batch, &mut None, &mut say).unwrap();
        answered
    };
    assert_eq!((told(100), told(1 << 20)), (8, 1));
}

const UID: &str = "2f399ae2-a3cd-41e8-95ee-5254001f7ecb";

const NONE: [u32; 0] = [];
const OTHER: &str = "3f399ae2-a3cd-41e8-95ee-5254001f7ecb";

const VOLUME: DeviceNumber = DeviceNumber { major: 240, minor: 77 };
const WITH_IT: &str =
    "90 80 0:50 / / rw - overlay overlay rw\n91 90 240:77 / /data rw - ext4 x rw\n";
const WITHOUT_IT: &str = "90 80 0:50 / / rw - overlay overlay rw\n";

fn ask(census: &KernelCensus) -> Answer<Vec<Holder>> {
    match census.pod_users(&ConsumerId::parse(UID).unwrap(), &[VOLUME], NamespaceId(OURS)) {
        Answer::Told(found) => Answer::Told(found.holders),
        Answer::CannotTell(why) => Answer::CannotTell(why),
    }
}

#[track_caller]
fn pids(machine: &Machine) -> Vec<u32> {
    match ask(&machine.census()) {
        Answer::Told(holders) => holders.iter().map(|holder| holder.process.pid).collect(),
        Answer::CannotTell(why) => panic!("{why}"),
    }
}

#[track_caller]
fn cannot_tell(machine: &Machine, why: &str) {
    match ask(&machine.census()) {
        Answer::CannotTell(said) => assert!(said.contains(why), "{said:?} is not {why:?}"),
        Answer::Told(told) => panic!("told {told:?} in spite of {why:?}"),
    }
}

/// A machine with the volume in a container of the pod, listed in the cgroup tree alone.
fn with_a_pod(mounts: &str) -> Machine {
    let machine = Machine::new();
    machine.process(7, 5);
    machine.mounts(7, mounts);
    let folder = format!("cgroup/kubepods/burstable/pod{UID}");
    machine.write(&format!("{folder}/cgroup.procs"), "");
    machine.write(&format!("{folder}/abc/cgroup.procs"), "7\n");
    machine
}

#[test]
fn a_pod_is_read_from_files() {
    assert_eq!(pids(&with_a_pod(WITH_IT)), [7]);
    assert_eq!(pids(&with_a_pod(WITHOUT_IT)), NONE);
}

#[test]
fn without_seeing_every_process_users_cannot_be_told() {
    let machine = with_a_pod(WITH_IT);
    machine.link("proc/self/ns/pid", "pid:[4026532000]");
    cannot_tell(&machine, "a PID namespace of its own");

    let machine = with_a_pod(WITH_IT);
    machine.link("proc/self", "1");
    machine.link("proc/1/ns/pid", "pid:[4026531836]");
    cannot_tell(&machine, "another PID namespace than this process's");

    let machine = with_a_pod(WITH_IT);
    machine.remove("proc/1");
    cannot_tell(&machine, "does not show process 1: no such file");

    let machine = with_a_pod(WITH_IT);
    machine.remove("proc");
    cannot_tell(&machine, "open ");

    let machine = with_a_pod(WITH_IT);
    machine.mounts(std::process::id(), "torn\n");
    cannot_tell(&machine, "a line of the mount table");
}

#[test]
fn what_hides_processes_does_not_hide_them_from_a_tracer() {
    let own = std::process::id();
    let no_tracer = |machine: &Machine| {
        machine.write("proc/self/status", "CapEff:\t000001fffff7ffff\n");
    };
    for option in ["hidepid=2", "hidepid=invisible", "hidepid=4"] {
        let machine = with_a_pod(WITH_IT);
        machine.mounts(own, &machine.usual_mounts(&format!("rw,{option}")));
        assert_eq!(pids(&machine), [7], "{option}");
        no_tracer(&machine);
        cannot_tell(&machine, &format!("mounted with {option}"));
        // The capability counts in the machine's own user namespace.
        machine.write("proc/self/status", "CapEff:\t000001ffffffffff\n");
        machine.link("proc/self/ns/user", "user:[4026532000]");
        cannot_tell(&machine, option);
    }
    for option in ["hidepid=0", "hidepid=off", "gid=5"] {
        let machine = with_a_pod(WITH_IT);
        no_tracer(&machine);
        machine.mounts(own, &machine.usual_mounts(&format!("rw,{option}")));
        assert_eq!(pids(&machine), [7], "{option}");
    }
}

/// The trees are believed if all of them are here and whole; else each process is asked, and this
/// one says that no pod owns it.
#[test]
fn trees_that_are_not_whole_are_not_asked() {
    let own = std::process::id();
    let is_asked = |machine: &Machine| pids(machine) == [7];
    let machine = with_a_pod(WITH_IT);
    machine.write("proc/self/cgroup", "4:memory:/\n0::/\n");
    assert!(!is_asked(&machine), "one tree is not mounted");
    let more =
        format!("23 20 0:23 / {} rw - cgroup cgroup rw,memory\n", machine.path("m").display());
    machine.mounts(own, &(machine.usual_mounts("rw") + &more));
    machine.write("m/cgroup.procs", "");
    assert!(is_asked(&machine), "now all are");
    let part = more.replace(" / /", " /kubepods /");
    machine.mounts(own, &(machine.usual_mounts("rw") + &part));
    assert!(!is_asked(&machine), "one is mounted in part");
    let cover = format!("24 22 0:9 / {} rw - tmpfs x rw\n", machine.path("cgroup").display());
    machine.mounts(own, &(machine.usual_mounts("rw") + &more + &cover));
    assert!(!is_asked(&machine), "one is covered");

    let machine = with_a_pod(WITH_IT);
    machine.link("proc/self/ns/cgroup", "cgroup:[4026532000]");
    assert!(!is_asked(&machine), "this process sees a part of the tree");

    let machine = with_a_pod(WITH_IT);
    machine.write(&format!("cgroup/kubepods/burstable/pod{UID}/abc/cgroup.procs"), "7\n0\n");
    assert!(!is_asked(&machine), "a user has no number here");

    machine.write("proc/7/cgroup", &format!("0::/kubepods/burstable/pod{UID}/abc\n"));
    assert!(is_asked(&machine), "then the process itself says it");
}

#[test]
fn pods_inside_of_a_pod_are_looked_for_from_there_only() {
    let machine = Machine::new();
    machine.process(7, 5);
    machine.mounts(7, WITH_IT);
    let inner = format!("cgroup/kubepods/pod{OTHER}/abc/kubepods/pod{UID}");
    machine.write(&format!("{inner}/cgroup.procs"), "7\n");
    assert_eq!(pids(&machine), NONE);
    machine.write("proc/self/cgroup", &format!("0::/kubepods/pod{OTHER}/abc\n"));
    assert_eq!(pids(&machine), [7]);
}

#[test]
fn a_process_whose_links_are_closed_is_judged_by_its_mounts() {
    let machine = with_a_pod(WITH_IT);
    machine.close(7, "ns/mnt");
    assert_eq!(pids(&machine), [7], "no mount of its is ours");
    // It has mounts of ours, so it lives where we do.
    let own = std::process::id();
    let ours = machine.usual_mounts("rw") + "25 20 240:77 / /global rw - ext4 x rw\n";
    machine.mounts(own, &ours);
    machine.mounts(7, &ours);
    assert_eq!(pids(&machine), NONE);
    // Not if the namespace of another is the one to leave out.
    let except = NamespaceId(OURS + 1);
    let found = machine.census().pod_users(&ConsumerId::parse(UID).unwrap(), &[VOLUME], except);
    assert!(matches!(&found, Answer::Told(found) if found.holders.len() == 1), "{found:?}");

    machine.mounts(7, "torn\n");
    cannot_tell(&machine, "a line of the mount table");
    machine.remove("proc/7");
    assert_eq!(pids(&machine), NONE, "it has ended");
}

#[test]
fn a_namespace_that_cannot_be_read_is_told_as_such() {
    let machine = with_a_pod("torn\n");
    cannot_tell(&machine, "a line of the mount table");
    let Answer::Told(found) = machine.census().namespaces_with(&[VOLUME]) else { panic!() };
    assert!(found.namespaces.is_empty());
    assert_eq!(found.untold.len(), 1);
    let told = found.untold[0].to_string();
    assert!(told.starts_with("mount namespace mnt:[5] of process 7 "), "{told}");
    assert!(told.contains(": a line"), "{told}");
}

#[test]
fn a_process_that_cannot_be_looked_into_is_told_as_such() {
    let machine = with_a_pod(WITHOUT_IT);
    machine.close(7, "exe");
    let Answer::Told(found) = machine.census().device_users(&[VOLUME]) else { panic!() };
    let untold: Vec<_> = found.untold.iter().map(ToString::to_string).collect();
    assert_eq!(untold, ["process 7 (program): invalid argument"]);
}

/// The whole of process 1 may be closed even to root, by a security module: it is known by its
/// mounts that it lives with us.
#[test]
fn a_closed_process_of_our_own_namespace_is_no_foreigner() {
    let machine = with_a_pod(WITHOUT_IT);
    machine.close(1, "ns/mnt");
    let ours = machine.usual_mounts("rw") + "25 20 240:77 / /global rw - ext4 x rw\n";
    machine.mounts(std::process::id(), &ours);
    machine.mounts(1, &ours);
    let namespaces = || match machine.census().namespaces_with(&[VOLUME]) {
        Answer::Told(found) => found.namespaces,
        Answer::CannotTell(why) => panic!("{why}"),
    };
    assert!(namespaces().is_empty());
    machine.mounts(1, "60 50 240:77 / /foreign rw - ext4 x rw\n");
    let found = namespaces();
    assert_eq!((found.len(), found[0].id, found[0].processes[0].pid), (1, None, 1));
    assert!(machine.census().open_namespace(&found[0]).is_err());
}
