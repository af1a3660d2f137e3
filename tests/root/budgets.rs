//! What calls ask of the kernel that find all as it should be: counted, and held to a budget each.
//!
//! A time wobbles with the machine; what is counted here does not. docs/speed.md has the times.

use crate::checks::{number_of, only_mount_at};
use crate::scene::scene;
use crate::support::counter::{Counted, KernelCall, count};
use crate::support::{DISK, Node, skip};
use crate::volume::{Call, POD, Volume};
use nix::libc;
use nix::mount::{MsFlags, mount};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most that a call may ask for.
#[derive(Debug, Clone, Copy)]
struct Budget {
    call: &'static str,
    /// System calls of all its processes and threads, without those of the loader of its libraries, and three
    /// more for each disk of the machine that is looked at. A verb asks of each process and each mount namespace of
    /// the machine, and those of other tests come and go: how often is for no test to say.
    calls: Option<usize>,
    /// How often each disk is looked at.
    looks: usize,
    /// Page faults of a debug build: a release has a third of them. Those of `status` depend on what else runs.
    faults: Option<usize>,
    /// How often the mount table is read.
    tables: Option<usize>,
    /// How often each file of the record is read.
    records: usize,
}

/// All of them: one worker with a thread for the log, no request, and of a release less than 8 MiB. A mount looks for the
/// disk once more, right before it would be bound.
const BUDGETS: [Budget; 6] = [
    Budget {
        call: "init",
        calls: Some(40),
        looks: 0,
        faults: Some(505),
        tables: Some(0),
        records: 0,
    },
    Budget {
        call: "isattached",
        calls: Some(240),
        looks: 1,
        faults: Some(930),
        tables: Some(0),
        records: 1,
    },
    Budget {
        call: "waitforattach",
        calls: Some(340),
        looks: 1,
        faults: Some(945),
        tables: Some(2),
        records: 1,
    },
    Budget {
        call: "mountdevice",
        calls: Some(360),
        looks: 1,
        faults: Some(960),
        tables: Some(2),
        records: 1,
    },
    Budget {
        call: "mount",
        calls: Some(445),
        looks: 2,
        faults: Some(965),
        tables: Some(4),
        records: 1,
    },
    Budget { call: "status", calls: None, looks: 1, faults: None, tables: None, records: 1 },
];
const MEMORY: usize = 8 << 10;

/// A node whose run folder is in memory, as it is on a machine, and whose timer has just come.
pub(crate) fn node() -> Node {
    let node = Node::new();
    let run = node.own().join("run");
    fs::create_dir_all(&run).unwrap();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("run"), &run, Some("tmpfs"), flags, Some("mode=0700")).unwrap();
    node.verb(&["heal"]).unwrap();
    node
}

pub(crate) fn counted(program: &Path, node: &Node, call: &Call) -> Counted {
    let mut command = Command::new(program);
    command.args(call).env("INCLOUD_DISK_CONFIG", node.config_path());
    count(command).expect("it was tried before")
}

/// The driver, and the one without libraries if there is one.
fn programs() -> Vec<(PathBuf, bool)> {
    let other = std::env::var_os("INCLOUD_DISK_STATIC").map(PathBuf::from);
    let is_release =
        |program: &PathBuf| program.components().any(|part| part.as_os_str() == "release");
    let all = std::iter::once(PathBuf::from(DISK)).chain(other);
    all.map(|program| (program.clone(), is_release(&program))).collect()
}

/// From where its own code begins: before it the loader has brought its libraries in.
fn of_its_own(counted: &Counted) -> usize {
    let is_first = |number: i64| number == libc::SYS_rt_sigprocmask || number == libc::SYS_poll;
    let first = counted.calls.iter().position(|call| is_first(call.number)).unwrap_or_default();
    counted.calls.len() - first
}

#[test]
fn calls_that_find_all_right_ask_for_little() {
    needs!(mounts, tracer);
    let node = node();
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring_to_pod();
    let calls: [(&str, Call); 6] = [
        ("init", vec!["init".to_owned()]),
        ("isattached", volume.is_attached()),
        ("waitforattach", volume.wait("")),
        ("mountdevice", volume.stage()),
        ("mount", volume.publish(POD)),
        ("status", vec!["status".to_owned()]),
    ];
    let mut wrong = Vec::new();
    for (program, is_release) in programs() {
        for (budget, (word, call)) in BUDGETS.iter().zip(&calls) {
            assert_eq!(budget.call, *word);
            // What it reads is in memory then, as of a call that comes again. Mounts of other tests make a look
            // begin anew now and then.
            let over = (0..5).map(|_| over(budget, &counted(&program, &node, call), is_release));
            let best = over.min_by_key(Vec::len).unwrap_or_default();
            wrong.extend(best.into_iter().map(|what| format!("{word}: {what}")));
        }
    }
    volume.take_away();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The page of the metrics is written after the answer, by one thread more.
#[test]
fn calls_with_a_page_of_metrics_ask_for_little_more() {
    /// To read all records, what the page showed before, and to write it.
    const MORE: usize = 125;
    needs!(mounts, tracer);
    let node = node();
    let page = node.own().join("disk.prom");
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring_to_pod();
    let calls = [volume.is_attached(), volume.wait(""), volume.stage(), volume.publish(POD)];
    let mut told = [0; 4];
    let mut wrong = Vec::new();
    for (program, _) in programs() {
        let least = |call: &Call| {
            let found = (0..5).map(|_| {
                let found = counted(&program, &node, call);
                (found.children, found.threads, without_others(&found, looks_of(&call[0])))
            });
            found.min().unwrap_or_default()
        };
        node.configure("");
        let without = calls.each_ref().map(least);
        node.configure(&format!("[metrics]\ntextfile = '{}'", page.display()));
        node.verb(&["heal"]).unwrap();
        for ((call, told), without) in calls.iter().zip(&mut told).zip(without) {
            let with = least(call);
            *told += 5;
            println!("{}: {with:?}, without metrics {without:?}", call[0]);
            if (with.0, with.1) != (1, 2) || with.2 > without.2 + MORE {
                wrong.push(format!("{}: {with:?}, without metrics {without:?}", call[0]));
            }
        }
        node.verb(&["heal"]).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        for (call, told) in calls.iter().zip(told) {
            let word = &call[0];
            let row = format!("calls_total{{operation=\"{word}\",outcome=\"already\"}} {told}\n");
            assert!(text.contains(&row), "{row}{text}");
        }
    }
    volume.take_away();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// How many system calls it made, but for those that each disk of the machine costs: other tests have disks too.
fn without_others(found: &Counted, looks: usize) -> usize {
    // A debug build of std asks of each file that it closes whether it is open.
    let closed = found.calls.iter().filter(|call| call.number == libc::SYS_fcntl).count();
    (of_its_own(found) - closed).saturating_sub(3 * disks_of(found) * looks)
}

fn disks_of(found: &Counted) -> usize {
    found.opened().keys().filter(|path| is_disk(path)).count()
}

fn is_disk(path: &Path) -> bool {
    path.starts_with("/sys") && path.ends_with("loop/backing_file")
}

fn looks_of(word: &str) -> usize {
    BUDGETS.iter().find(|budget| budget.call == word).map_or(1, |budget| budget.looks)
}

/// What is over its budget.
fn over(budget: &Budget, found: &Counted, is_release: bool) -> Vec<String> {
    let opened = found.opened();
    let own = without_others(found, budget.looks);
    println!(
        "{}{}: {own} calls besides those for {} disks, {} faults, {} KiB",
        budget.call,
        if is_release { " (release)" } else { "" },
        disks_of(found),
        found.faults,
        found.memory,
    );
    let mut over = Vec::new();
    let mut held = |what: &str, is: usize, most: usize| {
        if is > most {
            over.push(format!("{what}: {is}, and {most} are allowed"));
        }
    };
    if let Some(calls) = budget.calls {
        held("system calls", own, calls);
    }
    held("requests", found.sockets(), 0);
    // A verb asks other processes.
    if budget.call != "status" {
        let workers = usize::from(budget.call != "init");
        held("threads", found.threads, workers);
        held("children", found.children, workers);
    }
    for (path, times) in opened {
        let most = if path.ends_with("mountinfo") {
            budget.tables.unwrap_or(usize::MAX)
        } else if path.starts_with("/sys/block") && is_disk(&path) {
            budget.looks
        } else if path.starts_with("/") && path.extension().is_some_and(|is| is == "json") {
            budget.records
        } else {
            continue;
        };
        held(&format!("times that {} is opened", path.display()), times, most);
    }
    if let Some(most) = budget.faults {
        held("page faults", usize::try_from(found.faults).unwrap_or_default(), most);
    }
    if is_release {
        held("KiB", usize::try_from(found.memory).unwrap_or_default(), MEMORY);
    }
    over
}

/// The threads of a call that stay in this machine's namespace; others read the tables of those that they enter.
fn that_stay(counted: &Counted) -> impl Fn(&&KernelCall) -> bool {
    let enters = |call: &&KernelCall| {
        let kind = u64::from(libc::CLONE_NEWNS.unsigned_abs());
        call.number == libc::SYS_setns && call.arguments[1] & kind != 0
    };
    let gone: BTreeSet<i32> =
        counted.calls.iter().filter(enters).map(|call| call.process).collect();
    move |call| !gone.contains(&call.process)
}

/// How often this machine's own mount table is read from its beginning.
pub(crate) fn readings(counted: &Counted) -> usize {
    let is_own = |call: &&KernelCall| {
        let path = call.path.as_deref();
        call.opens && path.is_some_and(|path| path.ends_with("thread-self/mountinfo"))
    };
    counted.calls.iter().filter(that_stay(counted)).filter(is_own).count()
}

/// A heal asks for each mount alone what the whole table would say: with more mounts of this machine it reads that
/// no more often.
#[test]
fn a_heal_of_more_mounts_reads_the_table_no_more_often() {
    needs!(pods, tracer);
    if !incloud_disk::host::kernel::all_mounts().is_ok_and(|all| !all.is_empty()) {
        skip("a_heal_of_more_mounts_reads_the_table_no_more_often", "the kernel lists no mounts");
        return;
    }
    let [few, many] = [12, 36].map(|count| {
        let (node, volume, running) = scene().idle().start_in(count);
        node.verb(&["local", "yank", &volume.id]).unwrap();
        let found = counted(Path::new(DISK), &node, &volume.attach());
        assert!(found.text.contains("Success"), "{}", found.text);
        let number = number_of(&volume.letter());
        for (pod, container) in running {
            assert_eq!(only_mount_at(&volume.pod(pod.uid())).number, number);
            container.die();
            node.must(volume.unpublish(pod.uid()));
        }
        volume.take_away();
        readings(&found)
    });
    // Mounts of other tests may make it look once more; without this each of its own did.
    assert!(many < few + 12, "{few} readings for 12, {many} for 36");
}
