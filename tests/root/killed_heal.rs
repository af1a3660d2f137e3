//! A heal that is killed at each of its system calls that change something; the next one comes to
//! the same end.
//!
//! After some of the kills the disk goes once more. `HEAL_KILLS=1` strikes every call of every
//! method; otherwise one in 23.

use crate::checks::{nothing_is_left, number_of, table, the_dead_disk_is_let_go};
use crate::heal::goes_on;
use crate::scene::{Scene, scene};
use crate::support::disks::{table_of, within};
use crate::support::pods::{Container, Plan, Pod};
use crate::support::tracer::{self, Fate, Traced};
use crate::support::{Node, output_of, with_files};
use crate::switch::kinds::{bind, essence, must_become_the_same, propagate, tmpfs};
use crate::switch::methods;
use crate::volume::Volume;
use incloud_disk::host::device_nodes;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::mount::mountinfo::MountTable;
use incloud_disk::model::mount::replacement::{Method, group_of};
use nix::mount::MsFlags;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A volume in two namespaces besides the machine's own: a pod's container, and a service with
/// mounts of every propagation.
struct Machine {
    volume: Volume,
    pod: Pod,
    container: Container,
    service: Container,
    area: PathBuf,
    /// What its disks were, one after the other.
    numbers: Vec<DeviceNumber>,
    before: Vec<Vec<String>>,
}

impl Machine {
    /// `shares` is whether kubelet's folders are shared, as on a real machine.
    fn set_up(node: &Node, shares: bool) -> Self {
        if shares {
            let root = node.kubelet_root();
            tmpfs(root.to_str().unwrap());
            propagate(root.to_str().unwrap(), MsFlags::MS_SHARED);
        }
        let area = node.base().join("area");
        fs::create_dir(&area).unwrap();
        tmpfs(area.to_str().unwrap());
        propagate(area.to_str().unwrap(), MsFlags::MS_SHARED);
        let Scene { volume, pod, mut container, .. } = scene().on(node).idle().start();
        let source = volume.pod(pod.uid());
        for folder in ["sub", "nested", "inner"] {
            fs::create_dir(source.join(folder)).unwrap();
        }
        // What is not on the disk when that is pulled is lost.
        with_files(|| nix::unistd::syncfs(fs::File::open(&source).unwrap()).unwrap());
        within(container.pid(), || {
            bind("/data/sub", "/sub", MsFlags::MS_RDONLY | MsFlags::MS_NOATIME);
            tmpfs("/data/nested");
        });
        container.write("/data/log", Duration::from_millis(2));
        container.must_write_on(5);
        let service = Plan::outside().copying_all_mounts().following_our_mounts().start();
        let from = source.to_str().unwrap();
        within(service.pid(), || {
            let at = |name: &str| area.join(name).to_str().unwrap().to_owned();
            bind(from, &at("data"), MsFlags::empty());
            tmpfs(&at("data/inner"));
            propagate(&at("data/inner"), MsFlags::MS_SHARED);
            fs::create_dir(at("shared")).unwrap();
            tmpfs(&at("shared"));
            propagate(&at("shared"), MsFlags::MS_SHARED);
            bind(from, &at("shared/data"), MsFlags::empty());
            bind(from, &at("shared/private"), MsFlags::empty());
            propagate(&at("shared/private"), MsFlags::MS_PRIVATE);
        });
        let numbers = vec![number_of(&volume.letter())];
        let mut machine =
            Self { volume, pod, container, service, area, numbers, before: Vec::new() };
        machine.before = machine.now();
        machine
    }

    fn tables(&self) -> [MountTable; 3] {
        [table(), table_of(self.container.pid()), table_of(self.service.pid())]
    }

    fn now(&self) -> Vec<Vec<String>> {
        self.tables().iter().map(|table| essence(table, &self.numbers)).collect()
    }

    /// The disk goes and comes back; nothing heals it yet.
    fn lose_the_disk(&mut self) {
        let node = &self.volume.node;
        let before = self.volume.letter();
        assert_eq!(number_of(&before), *self.numbers.last().unwrap(), "it has another disk");
        node.configure("[heal]\nmode = \"off\"");
        node.verb(&["local", "yank", &self.volume.id]).unwrap();
        node.must(self.volume.attach());
        self.numbers.push(number_of(&self.volume.letter()));
        node.configure("");
    }

    /// Heals, and is killed at this one of its changing calls.
    fn heal_and_kill(&self, method: Method, at: usize) -> Traced {
        let node = &self.volume.node;
        let mut command = node.command(["heal", &self.volume.id]);
        command.env("INCLOUD_DISK_SWITCH", method.to_string());
        let own = node.own();
        let fate = Fate { written: Some(&own), killed_at: Some(at), ..Fate::default() };
        tracer::run(command, fate).unwrap()
    }

    /// All is as it was, but the disk.
    #[track_caller]
    fn must_be_as_before(&mut self, what: &str) {
        let told = format!("{what}: its disks were {:?}\n{}", self.numbers, self.volume.node.log());
        for (nth, before) in self.before.iter().enumerate() {
            must_become_the_same(before, || self.now().swap_remove(nth), &told);
        }
        let (newest, older) = self.numbers.split_last().unwrap();
        for table in self.tables() {
            assert!(table.of(*newest).count() > 0, "{what}: nothing of the disk");
            let label = self.volume.label();
            // By its label the next heal knows whose mount it is.
            let others: Vec<_> =
                table.of(*newest).filter(|mount| label != Path::new(&mount.source)).collect();
            assert!(others.is_empty(), "{what}: without its label: {others:?}");
            // A number may be another test's by now, but not in these namespaces.
            assert!(
                older.iter().all(|old| old == newest || table.of(*old).count() == 0),
                "{what}: a dead one"
            );
        }
        let own = table();
        let groups: BTreeSet<_> =
            own.of(*newest).filter_map(|one| group_of(&one.propagation, "shared:")).collect();
        assert!(groups.len() <= 1, "{what}: the machine's own share with others: {groups:?}");
        goes_on(&mut self.container, 3);
        assert_eq!(self.volume.record()["switching"], serde_json::Value::Null, "{what}");
        the_dead_disk_is_let_go(&self.volume.node);
        let [lock, label] = self.volume.label_and_lock();
        assert!(fs::symlink_metadata(&lock).is_err(), "{what}: {} is left", lock.display());
        let leads_to = fs::metadata(&label).map(|disk| device_nodes::number_of(&disk));
        assert_eq!(leads_to.unwrap(), Some(*newest), "{what}: where the link leads");
    }

    fn take_down(self) {
        let Self { volume, pod, container, service, area, .. } = self;
        container.die();
        service.die();
        nix::mount::umount2(&area, nix::mount::MntFlags::MNT_DETACH).unwrap();
        volume.node.must(volume.unpublish(pod.uid()));
        volume.take_away();
        volume.must_be_sound();
        let _ = nix::mount::umount2(&volume.node.kubelet_root(), nix::mount::MntFlags::empty());
        nothing_is_left(&volume.node, &[&volume]);
    }
}

/// A namespace that one round does not reach is reached by a later one, and nothing of it is left half done.
#[test]
fn what_a_round_was_kept_from_is_put_right_by_the_same_heal() {
    needs!(pods, seams);
    let node = Node::new();
    let mut machine = Machine::set_up(&node, true);
    for visit in 1..=2 {
        machine.lose_the_disk();
        let mut heal = node.command(["heal", &machine.volume.id]);
        heal.env("INCLOUD_DISK_SEAM", format!("heal.reach=fail:{visit}"));
        let output = output_of(&mut heal);
        assert!(output.status.success(), "{visit}: {output:?}\n{}", node.log());
        let failures = node.log().matches("heal.reach was made to fail").count();
        assert_eq!(failures, visit, "{}", node.log());
        machine.must_be_as_before(&format!("visit {visit}"));
    }
    machine.take_down();
}

#[test]
fn a_heal_killed_at_any_change_is_finished_by_the_next_one() {
    needs!(pods, seams, tracer);
    let every = if std::env::var_os("HEAL_KILLS").is_some() { 1 } else { 23 };
    let mut struck: Vec<&str> = Vec::new();
    for (nth, method) in methods().into_iter().enumerate() {
        let node = Node::new();
        // A mount by mount(2) joins no peer group.
        let mut machine = Machine::set_up(&node, method != Method::TuckByMount);
        // Not the same calls of each method.
        let first = if every == 1 { 0 } else { nth };
        for at in (first..).step_by(every) {
            machine.lose_the_disk();
            let traced = machine.heal_and_kill(method, at);
            let what = format!("{method}, {at}: {:?}, {}", traced.changes.last(), traced.text);
            if !traced.is_killed {
                machine.must_be_as_before(&what);
                println!("{method}: it makes {} changes", traced.changes.len());
                break;
            }
            struck.extend(traced.changes.last());
            if at % 3 == 2 {
                // And before a call comes again.
                machine.lose_the_disk();
            }
            let mut again = node.command(["heal", &machine.volume.id]);
            again.env("INCLOUD_DISK_SWITCH", method.to_string());
            let output = output_of(&mut again);
            let is_healed = output.status.success();
            // Whose mounts they are shows at once, or never.
            let seen = if is_healed {
                String::new()
            } else {
                node.verb(&["explain", &machine.volume.id]).unwrap_or_else(|error| error)
            };
            assert!(is_healed, "{what}: {output:?}\n{seen}\n{}", node.log());
            machine.must_be_as_before(&what);
        }
        machine.take_down();
    }
    let total = struck.len();
    struck.sort_unstable();
    struck.dedup();
    println!("{total} kills, at {struck:?}");
}
