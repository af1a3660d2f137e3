//! What one owner has in great numbers takes its own share of a look, and no other. The times are made up.

use super::fake::{Machine, OURS};
use super::{OTHER, UID, VOLUME};
use crate::census::proc::Task;
use crate::census::question::{Batch, Excerpt, Found, Question, Why};
use crate::census::scan::{Budget, Response, SLICE, Scan, Start, TimedAnswer};
use crate::model::mount::disk_users::{Answer, NamespaceId, NamespaceUses};
use crate::ports::host::Census;
use std::time::Duration;

/// The first process of a user or a pod of which there are many.
const MANY: u32 = 1000;
const USER: u32 = 61_000;
const LIST_ENDS: fn(&Scan, &Batch) -> Vec<TimedAnswer> = |_, batch| answers(batch, 300, 100);
const LIST_IS_ENDLESS: fn(&Scan, &Batch) -> Vec<TimedAnswer> = |_, batch| answers(batch, 9000, 1);

/// A question about one of the many takes as long; the one about all namespaces takes this long.
fn answers(batch: &Batch, list: u64, other: u64) -> Vec<TimedAnswer> {
    let (mut spent, mut all) = (Duration::ZERO, Vec::new());
    for question in &batch.questions {
        if spent >= SLICE {
            break;
        }
        let (found, wanted) = match question {
            Question::List { is_only: false, .. } => {
                let listed = |id| Found::Listed(NamespaceId(id), Some(USER));
                ((100..4196).map(listed).collect(), list)
            }
            Question::Home(task) => {
                let namespace =
                    NamespaceId(if task.pid < MANY { OURS + u64::from(task.pid) } else { OURS });
                let mut found = vec![Found::Home(*task, namespace)];
                if !batch.filter.known.contains(&namespace) {
                    found.push(table(namespace));
                }
                (found, if task.pid < MANY { 0 } else { other })
            }
            Question::References(pid) if *pid >= MANY => (Vec::new(), other),
            Question::Listed(Task { pid, .. }) if *pid >= MANY => {
                (vec![Found::Table(Excerpt { first: *pid, ..Excerpt::default() })], other)
            }
            _ => (Vec::new(), 0),
        };
        let wanted = Duration::from_millis(wanted);
        let took = wanted.min(batch.each).min(batch.limit.saturating_sub(spent));
        spent += took;
        let end = if took < wanted { Err(Why::Late) } else { Ok(()) };
        all.push((Response { found, end }, took));
    }
    all
}

fn table(namespace: NamespaceId) -> Found {
    let (lines, first) = (super::WITH_IT.to_owned(), 90);
    Found::Table(Excerpt { namespace: Some(namespace), user: None, lines, first })
}

/// A machine with a process of a pod, process 7, and 40 processes in this cgroup.
fn machine(cgroup: &str) -> Machine {
    let machine = Machine::new();
    machine.process(7, OURS + 7);
    for pod in [UID, OTHER] {
        machine.write(&format!("cgroup/kubepods/pod{pod}/abc/cgroup.procs"), "");
    }
    machine.write("proc/7/cgroup", &format!("0::/kubepods/pod{UID}/abc\n"));
    for pid in MANY..MANY + 40 {
        machine.process(pid, OURS);
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
        machine.write(&format!("proc/{pid}/status"), &format!("Uid:\t{USER}\t0\t0\t0\n"));
    }
    machine
}

/// The last of so many looks of one call.
#[track_caller]
fn uses(
    machine: &Machine,
    looks: u32,
    script: fn(&Scan, &Batch) -> Vec<TimedAnswer>,
) -> NamespaceUses {
    let budget = Budget { system: Duration::from_secs(3), users: Duration::from_secs(1) };
    let census = machine.census().with(|setting| {
        (setting.start, setting.budget) = (Start::Test(script), budget);
    });
    let look = || match census.namespaces_with(&[VOLUME]) {
        Answer::Told(uses) => uses,
        Answer::CannotTell(why) => panic!("{why}"),
    };
    (1..looks).for_each(|_| drop(look()));
    look()
}

#[track_caller]
fn is_read(uses: &NamespaceUses) {
    let all: Vec<_> = uses.namespaces.iter().flat_map(|one| &one.processes).collect();
    assert!(all.iter().any(|process| process.pid == 7), "{all:?}");
}

#[test]
fn many_processes_of_a_user_use_up_only_what_users_have() {
    let uses = uses(&machine("/user.slice"), 4, LIST_ENDS);
    is_read(&uses);
    let all: Vec<_> = uses.untold.iter().map(ToString::to_string).collect();
    let words = format!("40 processes of user {USER}: not examined");
    let end = format!("to end it: loginctl kill-user --signal=KILL {USER}");
    assert!(all.iter().any(|one| one.starts_with(&words) && one.ends_with(&end)), "{all:?}");
    assert!(uses.hidden(|_| true).is_none(), "{all:?}");
}

#[test]
fn many_processes_of_a_pod_count_for_that_pod_alone() {
    let uses = uses(&machine(&format!("/kubepods/pod{OTHER}/abc")), 4, LIST_ENDS);
    is_read(&uses);
    let hidden = |pod: &str| uses.hidden(|one| one.as_str() == pod).map(ToString::to_string);
    assert!(hidden(OTHER).is_some_and(|one| one.contains("39 more")), "{:?}", hidden(OTHER));
    assert_eq!(hidden(UID), None);
}

#[test]
fn many_namespaces_of_a_user_use_up_only_what_users_have() {
    for (script, is_endless) in [(LIST_ENDS, false), (LIST_IS_ENDLESS, true)] {
        let uses = uses(&machine("/"), 4, script);
        is_read(&uses);
        let all: Vec<_> = uses.untold.iter().map(ToString::to_string).collect();
        let (words, end) =
            ("mount namespaces where no process lives", "loginctl kill-user --signal=KILL");
        assert!(all.iter().any(|one| one.contains(words)), "{all:?}");
        assert!(all.iter().any(|one| one.contains(end)) || !is_endless, "{all:?}");
        assert!(uses.hidden(|_| true).is_none(), "{all:?}");
    }
}

/// It may be the one that lives where the volume is mounted, and no process is known to live.
#[test]
fn a_process_that_was_not_examined_may_live_anywhere() {
    let script: fn(&Scan, &Batch) -> Vec<TimedAnswer> = |_, batch| match batch.questions.as_slice()
    {
        [Question::List { .. }] => {
            let found = vec![Found::Listed(NamespaceId(77), None)];
            vec![(Response { found, end: Ok(()) }, Duration::ZERO)]
        }
        [Question::Enter(_)] => {
            vec![(Response { found: vec![table(NamespaceId(77))], end: Ok(()) }, Duration::ZERO)]
        }
        _ => answers(batch, 0, 100),
    };
    let uses = uses(&machine("/user.slice"), 1, script);
    let found = uses.namespaces.iter().find(|one| one.id.is_some_and(|id| id.0 == 77));
    let keepers = &found.unwrap().keepers;
    assert!(format!("{keepers:?}").contains("Unexamined"), "{keepers:?}");
}
