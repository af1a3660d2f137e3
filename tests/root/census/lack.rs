//! A process short of descriptors tells the whole or that it cannot tell: never a part of it.

use super::census;
use super::{mounted, users_of};
use crate::checks::eventually;
use crate::support::pods::{Naming, Order, Plan, Pod};
use crate::support::{Node, output_of};
use incloud_disk::host::census::KernelCensus;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::ids::ConsumerId;
use incloud_disk::model::mount::disk_users::{
    Answer, NamespaceId, NamespaceKeeper, NamespaceUse, NamespaceUses, Process,
};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::host::Census;
use nix::libc::{RLIMIT_NOFILE, rlimit, setrlimit};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What the other process looks for.
const LOOKS_FOR: &str = "TEST_LOOKS_FOR";
/// So many descriptors it may have.
const MOST: u64 = 48;

#[test]
fn a_lack_of_descriptors_is_never_an_absence() {
    const NAME: &str = "a_lack_of_descriptors_is_never_an_absence";
    if let Ok(wanted) = std::env::var(LOOKS_FOR) {
        let [number, pod, kept, keeper] = wanted.split(' ').collect::<Vec<_>>().try_into().unwrap();
        return look(&Question {
            number: number.parse().unwrap(),
            pod: ConsumerId::parse(pod).unwrap(),
            kept: NamespaceId(kept.parse().unwrap()),
            keeper: keeper.parse().unwrap(),
        });
    }
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Systemd);
    let with = || pod.container().seeing(&volume.global(), "/data");
    let mut threaded = with().start();
    threaded.must(&Order::ThreadWithMounts);
    threaded.must(&Order::Unmount { place: "/data".into() });
    let user = with().with_children(2).start();
    let left = Plan::outside().seeing(&volume.global(), "/data").start();
    let kept = std::fs::metadata(format!("/proc/{}/ns/mnt", left.pid())).unwrap().ino();
    let mut keeper = Plan::outside().in_our_namespace().start();
    keeper.must(&Order::Open { path: format!("/proc/{}/ns/mnt", left.pid()).into() });
    left.die();
    eventually("one is only kept open", || {
        let found = users_of(number).namespaces;
        found.len() == 3 && found.iter().any(|one| !one.keepers.is_empty())
    });
    let mut looking = Command::new(std::env::current_exe().unwrap());
    looking.args([&format!("census::lack::{NAME}"), "--exact", "--nocapture"]);
    looking.env(LOOKS_FOR, format!("{number} {} {kept} {}", pod.uid(), keeper.pid()));
    let output = output_of(&mut looking);
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("test result: ok. 1 passed"), "{text}");
    drop((threaded, user, keeper));
    volume.take_away();
}

struct Question {
    number: DeviceNumber,
    pod: ConsumerId,
    /// The namespace where no process lives.
    kept: NamespaceId,
    /// The process that keeps it open. Other tests of this machine may do so for a moment too.
    keeper: u32,
}

/// Looks again and again while another thread takes the descriptors and gives them back.
fn look(asked: &Question) {
    let listed = census();
    let both = [listed.clone(), listed.without_the_list_of_namespaces()];
    let whole = both.each_ref().map(|census| Seen::by(census, asked));
    for whole in &whole {
        assert_eq!(whole.namespaces.as_ref().unwrap().len(), 3, "{whole:?}");
        assert!(whole.pod.as_ref().unwrap().len() >= 4, "{whole:?}");
    }
    allow_descriptors(MOST);
    let is_over = AtomicBool::new(false);
    let mut lacking = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| take_and_give(&is_over));
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            for (census, whole) in both.iter().zip(&whole) {
                let found = Seen::by(census, asked);
                lacking += usize::from(found.namespaces.is_none());
                if found.is_part_of(whole) {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("{found:#?}\nis a part of {whole:#?}");
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(lacking > 0, "nothing was ever lacking");
    for (census, whole) in both.iter().zip(&whole) {
        let found = Seen::by(census, asked);
        assert!(!found.is_part_of(whole), "afterwards {found:#?}\nis a part of {whole:#?}");
        eventually("all is told again", || Seen::by(census, asked) == *whole);
    }
}

/// What each question was answered; nothing where it cannot be told.
#[derive(Debug, PartialEq)]
struct Seen {
    namespaces: Option<Vec<Told>>,
    /// Those of a heal, if it was told that these are all.
    healed: Option<Vec<Told>>,
    users: Option<Vec<Told>>,
    pod: Option<BTreeSet<u32>>,
}

/// A namespace with the pod's processes that live there, and whether the keeper is told. Another test's
/// look has a process in it for a moment, and then that one is told in the keeper's place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    id: Option<NamespaceId>,
    places: Vec<PathBuf>,
    processes: BTreeSet<u32>,
    is_kept: bool,
}

impl Told {
    fn of(one: &NamespaceUse, asked: &Question) -> Self {
        let is_its = |one: &&Process| one.owner.pod.as_ref() == Some(&asked.pod);
        let keeps = |keeper: &NamespaceKeeper| matches!(keeper, NamespaceKeeper::OpenIn { process, .. } if process.pid == asked.keeper);
        Self {
            id: one.id,
            places: one.mounts.iter().map(|mount| mount.target.clone()).collect(),
            processes: one.processes.iter().filter(is_its).map(|one| one.pid).collect(),
            is_kept: one.keepers.iter().any(keeps)
                || one.id == Some(asked.kept) && !one.processes.is_empty(),
        }
    }
}

impl Seen {
    fn by(census: &KernelCensus, asked: &Question) -> Self {
        let (census, numbers) = (census.of_another_call(), [asked.number]);
        let in_order = |found: Vec<NamespaceUse>| {
            let mut told: Vec<_> = found.iter().map(|one| Told::of(one, asked)).collect();
            // A namespace that another test makes is a copy of ours for a moment, with its mounts.
            told.retain(|one| one.id == Some(asked.kept) || !one.processes.is_empty());
            told.sort();
            told
        };
        // A process of the pod that could not be read is told as that, and is refused for.
        let is_whole = |found: &NamespaceUses| found.hidden(|pod| *pod == asked.pod).is_none();
        let namespaces = if_told(census.namespaces_with(&numbers)).filter(is_whole);
        let deadline = Deadline::after(Duration::from_secs(60));
        let healed = if_told(census.namespaces_in_time(&numbers, &BTreeSet::new(), deadline));
        let users = if_told(census.device_users(&numbers));
        let own = census.own_namespace().ok();
        let pod = own.and_then(|own| if_told(census.pod_users(&asked.pod, &numbers, own)));
        Self {
            namespaces: namespaces.map(|found| in_order(found.namespaces)),
            healed: healed
                .filter(|it| it.later.is_empty() && is_whole(it))
                .map(|it| in_order(it.namespaces)),
            users: users.map(|found| in_order(found.namespaces)),
            pod: pod.map(|found| found.holders.iter().map(|one| one.process.pid).collect()),
        }
    }

    /// Whether something of it is told, and not the whole.
    fn is_part_of(&self, whole: &Self) -> bool {
        fn differs<T: PartialEq>(one: Option<&T>, whole: Option<&T>) -> bool {
            one.is_some() && one != whole
        }
        differs(self.namespaces.as_ref(), whole.namespaces.as_ref())
            || differs(self.healed.as_ref(), whole.healed.as_ref())
            || differs(self.users.as_ref(), whole.users.as_ref())
            || differs(self.pod.as_ref(), whole.pod.as_ref())
    }
}

fn if_told<T>(answer: Answer<T>) -> Option<T> {
    match answer {
        Answer::Told(told) => Some(told),
        Answer::CannotTell(_) => None,
    }
}

fn take_and_give(is_over: &AtomicBool) {
    let mut given: u16 = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut taken = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        taken.truncate(taken.len().saturating_sub(usize::from(given)));
        given = (given + 1) % 12;
        // As long as a look takes, more or less.
        std::thread::sleep(Duration::from_micros(300) * u32::from(1 + given % 5));
    }
}

#[allow(unsafe_code)]
fn allow_descriptors(most: u64) {
    let limit = rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the kernel reads one structure, which lives until it returns.
    assert_eq!(unsafe { setrlimit(RLIMIT_NOFILE, &raw const limit) }, 0);
}
