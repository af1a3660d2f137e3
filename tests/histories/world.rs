//! The parts of a world: a cloud, two servers with mounts of their own, volumes, pods, tenants; and
//! what the model knows of them.

use crate::hypervisor::{Hypervisor, backing_of};
use crate::scene;
use crate::seeded::Seeded;
use crate::server::{Delays, Server, World as Cloud};
use crate::steps::{Action, NODES, PODS};
use crate::support::pods::{Container, Naming, Plan, Pod};
use crate::support::server_disks::Shown;
use crate::support::{DISK, Node, options, spawn};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What must not be, and was.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Of which kind, in a few words; the same fault shows the same kind again.
    pub kind: &'static str,
    pub text: String,
}

pub type Held = Result<(), Violation>;

pub fn broken(kind: &'static str, text: impl Into<String>) -> Held {
    Err(Violation { kind, text: text.into() })
}

/// A server of the cloud, with its kubelet's folders.
pub struct Machine {
    pub node: Node,
    /// The cloud's id of it.
    pub server: String,
    pub shown: Shown,
    namespace: File,
    /// Lives in the machine's own mount namespace from its start to its end.
    init: Option<Container>,
}

/// What a volume's disk holds, as far as the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    Blank,
    /// A file system of the driver's making, with all that was confirmed.
    Data,
    /// A person's, of no kind that anyone knows.
    /// With or without its first part.
    Archive(usize),
    /// It had data, and a person overwrote all of it with zeros.
    Zeroed,
    /// A person's format was killed.
    Unknown,
}

pub struct Volume {
    pub id: String,
    pub pv: String,
    pub fs_type: &'static str,
    pub size: u64,
    pub contents: Contents,
    /// Confirmed writes: file and content.
    pub files: BTreeMap<String, String>,
}

/// A container that was given a volume.
pub struct Inside {
    pub container: Container,
    /// Where it has the volume.
    pub place: String,
    /// Whether it stood on the volume's living disk when it was looked at last.
    pub is_live: bool,
}

pub struct World {
    // First: what the cloud does ends before what it does it to.
    pub cloud: Server,
    pub machines: Vec<Machine>,
    pub volumes: Vec<Volume>,
    /// By node, volume and pod.
    pub containers: BTreeMap<(usize, usize, usize), Inside>,
    pub pods: BTreeMap<(usize, usize), Pod>,
    pub uids: Vec<Vec<String>>,
    /// Processes of users without rights, by node, and what each of them tries.
    pub tenants: Vec<(usize, Action, Container)>,
    pub covers: Vec<(usize, PathBuf)>,
    /// Where a person mounted a volume's disk for himself.
    pub by_hand: Vec<(usize, PathBuf)>,
    /// Node and volume of each detach that succeeded, until it is asked for again.
    pub away: BTreeSet<(usize, usize)>,
    /// Node and volume of each attachment that the compute service has forgotten.
    pub forgotten: Vec<(usize, usize)>,
    /// The services that were down, and until when: none if they still are.
    pub were_down: BTreeMap<&'static str, Option<Instant>>,
    pub has_cgroups: bool,
    pub written: usize,
    lists: AtomicUsize,
    pub hypervisor: Arc<Hypervisor>,
}

/// How a call or verb ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub text: String,
    pub reply: Value,
    pub code: Option<i32>,
    pub time: Duration,
}

impl Ended {
    pub fn is_success(&self) -> bool {
        if self.reply.is_object() {
            self.reply["status"] == "Success"
        } else {
            self.code == Some(0)
        }
    }

    pub fn is_killed(&self) -> bool {
        self.code.is_none()
    }
}

/// What a test build is told beside the call.
#[derive(Debug, Clone, Default)]
pub struct Seams {
    pub killed_at: Option<usize>,
    /// Killed when it has run for so long.
    pub killed_after: Option<Duration>,
    /// Held at this seam while that file is there.
    pub held_at: Option<(usize, PathBuf)>,
    /// The seams that it passes, in a file.
    pub list: Option<PathBuf>,
}

/// Does work in a mount namespace.
pub fn within<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // A thread that shares its root with others may not change its mounts.
            unshare(CloneFlags::CLONE_FS).expect("a root of its own");
            setns(namespace, CloneFlags::CLONE_NEWNS).expect("the namespace");
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// kubelet's folders; a user may walk through, as on most machines. What stands on a dead disk is
/// there, and cannot be looked at.
pub fn make_folder(path: &Path) {
    let _ = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
}

fn new_namespace(own: &Path, is_shared: bool) -> File {
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
            let nothing = None::<&str>;
            if is_shared {
                mount(Some(own), own, nothing, MsFlags::MS_BIND, nothing).expect("a bind");
                mount(nothing, own, nothing, MsFlags::MS_SHARED, nothing).expect("shared");
            }
            File::open("/proc/thread-self/ns/mnt").expect("its namespace")
        });
        made.join().expect("a namespace")
    })
}

impl Machine {
    fn new(node: Node, cloud: &Server, hypervisor: &Hypervisor, is_shared: bool) -> Self {
        let calls = ["attach", "detach", "isattached", "waitforattach", "mount"];
        let more = ["unmount", "unmountdevice", "expandfs"];
        let deadlines = calls.iter().chain(&more).map(|call| format!("deadline.{call} = 8\n"));
        let limits = "openstack.limits = { per_second = 500, burst = 500, at_once = 8 }\n\
                      openstack.timeouts = { connect = 3, read = 3, change = 5, metadata = 1 }\n";
        scene::configure(&node, cloud, &(limits.to_owned() + &deadlines.collect::<String>()));
        let server = cloud.world().server_id(&node.name);
        let shown = hypervisor.shown_to(&server);
        let namespace = new_namespace(&node.own(), is_shared);
        let mut machine = Self { node, server, shown, namespace, init: None };
        machine.init = Some(machine.start(Plan::outside().in_our_namespace()));
        machine
    }

    pub fn start(&self, plan: Plan) -> Container {
        within(&self.namespace, || plan.start())
    }

    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.namespace, work)
    }

    /// A path as the machine's own processes see it.
    pub fn sees(&self, path: &Path) -> PathBuf {
        self.init.as_ref().expect("it runs").sees(path.to_str().expect("UTF-8"))
    }

    fn mountinfo(&self) -> String {
        let pid = self.init.as_ref().expect("it runs").pid();
        fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("its mounts")
    }

    /// All mounts of the machine: number, place, options.
    pub fn mounts(&self) -> Vec<(String, PathBuf, bool)> {
        let table = self.mountinfo();
        let rows = table.lines().map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let super_options = words.last().copied().unwrap_or_default();
            let writes = |options: &str| options.split(',').any(|option| option == "rw");
            let is_writable = writes(words[5]) && writes(super_options);
            (words[2].to_owned(), PathBuf::from(words[4]), is_writable)
        });
        rows.collect()
    }

    /// Whether there is anything at a place, be it dead.
    pub fn has(&self, place: &Path) -> bool {
        let found = fs::symlink_metadata(self.sees(place));
        !matches!(found, Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    }

    /// The numbers of what is mounted at a place, the lowest layer first.
    pub fn layers(&self, place: &Path) -> Vec<String> {
        let mounts = self.mounts().into_iter().filter(|(_, target, _)| target == place);
        mounts.map(|(number, ..)| number).collect()
    }

    /// Calls the driver, or a verb of it.
    pub fn call(&self, arguments: &[String], seams: &Seams) -> Result<Ended, Violation> {
        self.caller().call(arguments, seams)
    }

    /// What is needed for a call, to make it while the world goes on.
    pub fn caller(&self) -> Caller {
        Caller {
            config: self.node.config_path().to_owned(),
            shown: self.shown.clone(),
            namespace: self.namespace.try_clone().expect("a descriptor"),
        }
    }
}

/// Makes a machine's calls.
pub struct Caller {
    config: PathBuf,
    shown: Shown,
    namespace: File,
}

impl Caller {
    pub fn call(&self, arguments: &[String], seams: &Seams) -> Result<Ended, Violation> {
        within(&self.namespace, || {
            let mut command = Command::new(DISK);
            command.args(arguments).stdin(Stdio::null());
            command.env("INCLOUD_DISK_CONFIG", &self.config);
            command.env("INCLOUD_DISK_SYSFS", &self.shown.sysfs);
            command.env("INCLOUD_DISK_BY_ID", &self.shown.by_id);
            if let Some(list) = &seams.list {
                command.env("INCLOUD_DISK_SEAM_LIST", list);
            }
            let hold = seams
                .held_at
                .as_ref()
                .map(|(seam, path)| format!("#{seam}=hold:{}", path.display()));
            let kill = seams.killed_at.map(|seam| format!("#{seam}=kill"));
            if let Some(script) = hold.or(kill) {
                command.env("INCLOUD_DISK_SEAM", script);
            }
            finish(spawn(command), seams.killed_after, &arguments.join(" "))
        })
    }
}

/// The number of the file system that a path is on.
pub fn number_at(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?.dev();
    Some(format!("{}:{}", nix::sys::stat::major(found), nix::sys::stat::minor(found)))
}

/// Waits for the end of a call, and for that of its output.
fn finish(
    (mut child, mut output): (std::process::Child, std::io::PipeReader),
    killed_after: Option<Duration>,
    what: &str,
) -> Result<Ended, Violation> {
    const TOO_LONG: Duration = Duration::from_secs(150);
    let begin = Instant::now();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = output.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    let status = loop {
        if let Ok(Some(status)) = child.try_wait() {
            break status;
        }
        if killed_after.is_some_and(|limit| begin.elapsed() > limit) {
            let _ = child.kill();
        }
        if begin.elapsed() > TOO_LONG {
            let _ = child.kill();
            let _ = child.wait();
            let text = format!("{what}: no end after {TOO_LONG:?}");
            return Err(Violation { kind: "a call without an end", text });
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let Ok(text) = receiver.recv_timeout(Duration::from_secs(20)) else {
        let text = format!("{what}: its process has ended, and its output is still open");
        return Err(Violation { kind: "a pipe that stays open", text });
    };
    let lines: Vec<_> = text.lines().collect();
    let reply = match &lines[..] {
        [line] => serde_json::from_str(line).unwrap_or_default(),
        _ => Value::Null,
    };
    Ok(Ended { text, reply, code: status.code(), time: begin.elapsed() })
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64, volumes: usize, has_cgroups: bool) -> Self {
        let mut seeded = Seeded::new(seed ^ 0x5eed);
        let node = Node::new();
        let base = node.base();
        for path in [&base, &node.own()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        let hypervisor = Hypervisor::below(&base);
        // Slow enough to tell who does not wait for the end.
        let delays = Delays { attaching: 60, detaching: 120, ..Delays::default() };
        let mut world = Cloud::demo().hook(hypervisor.hook()).delays(delays);
        world.settings.dates = true;
        for n in 0..NODES {
            world = world.server(&name_of(n));
        }
        for n in 0..volumes {
            world = world.volume(&format!("data-{n}"), 1);
        }
        let cloud = Server::start(world);
        let is_shared = seeded.one_in(2);
        let others: Vec<_> = (1..NODES).map(|n| node.neighbour(&name_of(n))).collect();
        let machines = std::iter::once(node).chain(others);
        let machines = machines.map(|node| Machine::new(node, &cloud, &hypervisor, is_shared));
        let machines = machines.collect();
        let volume = |n: usize| {
            let id = cloud.world().volume_id(&format!("data-{n}"));
            cloud.world().volume_mut(&id).multiattach = seeded.one_in(2);
            let fs_type = seeded.one_of(&["ext4", "ext4", "xfs"]);
            let pv = format!("pvc-{n}-{}", &id[24..]);
            // Most volumes have lived before; a disk that is blank takes its time.
            let contents = if seeded.one_in(3) { Contents::Blank } else { Contents::Data };
            if contents == Contents::Data {
                hypervisor.format(&id, fs_type);
            }
            let files = BTreeMap::new();
            Volume { id, pv, fs_type, size: 1, contents, files }
        };
        let volumes = (0..volumes).map(volume).collect();
        let uid =
            |node, pod| format!("{:08x}-0000-4000-8{pod:03x}-{node:012x}", seed & 0xffff_ffff);
        let uids = (0..NODES).map(|node| (0..PODS).map(|pod| uid(node, pod)).collect()).collect();
        Self {
            machines,
            volumes,
            containers: BTreeMap::new(),
            pods: BTreeMap::new(),
            uids,
            tenants: Vec::new(),
            covers: Vec::new(),
            by_hand: Vec::new(),
            away: BTreeSet::new(),
            forgotten: Vec::new(),
            were_down: BTreeMap::new(),
            has_cgroups,
            written: 0,
            lists: AtomicUsize::new(0),
            cloud,
            hypervisor,
        }
    }

    pub fn base(&self) -> PathBuf {
        self.machines[0].node.base()
    }

    /// A file for the seams of a call.
    pub fn list(&self) -> PathBuf {
        self.base().join(format!("seams-{}", self.lists.fetch_add(1, Ordering::Relaxed)))
    }

    pub fn global(&self, node: usize, volume: usize) -> PathBuf {
        self.machines[node].node.global(&self.volumes[volume].pv)
    }

    pub fn folder(&self, node: usize, volume: usize, pod: usize) -> PathBuf {
        self.machines[node].node.pod(&self.uids[node][pod], &self.volumes[volume].pv)
    }

    pub fn options(&self, volume: usize) -> String {
        let Volume { id, pv, fs_type, .. } = &self.volumes[volume];
        options(id, pv, fs_type)
    }

    /// The kernel's name of the living disk of a volume at a node.
    pub fn disk(&self, node: usize, volume: usize) -> Option<String> {
        self.hypervisor.disk(&self.machines[node].server, &self.volumes[volume].id)
    }

    /// The number of that disk.
    pub fn number(&self, node: usize, volume: usize) -> Option<String> {
        let name = self.disk(node, volume)?;
        Some(fs::read_to_string(format!("/sys/block/{name}/dev")).ok()?.trim().to_owned())
    }

    /// The volume whose disk has a number, living or dead; by the file behind it.
    pub fn volume_of(&self, number: &str) -> Option<usize> {
        let minor = number.strip_prefix("7:")?;
        let file = backing_of(&format!("loop{minor}"))?;
        let file = file.to_str()?.trim_end_matches(" (deleted)");
        let id = Path::new(file).file_name()?.to_str()?;
        self.volumes.iter().position(|volume| volume.id == id)
    }

    /// Whether the cloud lists the volume at the node's server.
    pub fn is_listed(&self, node: usize, volume: usize) -> bool {
        let world = self.cloud.world();
        let found = world.storage.volume(&self.volumes[volume].id).expect("the volume");
        found.servers().contains(&self.machines[node].server.as_str())
    }

    /// Whether any server has it, or is to have it.
    pub fn is_anywhere(&self, volume: usize) -> bool {
        let id = &self.volumes[volume].id;
        let in_cloud = |id: &str| {
            let world = self.cloud.world();
            !world.storage.volume(id).expect("the volume").attachments.is_empty()
        };
        in_cloud(id) || !self.hypervisor.servers_of(id).is_empty()
    }

    /// A pod's cgroup, made when it is asked for first.
    pub fn pod(&mut self, node: usize, pod: usize) -> Pod {
        let uid = &self.uids[node][pod];
        let naming = [Naming::Cgroupfs, Naming::Systemd][pod % 2];
        self.pods.entry((node, pod)).or_insert_with(|| Pod::with_uid(naming, uid)).clone()
    }

    /// The machine is switched off, and on again: its processes and mounts, and what lies in its
    /// run folder, are gone; its disks come back, each under another letter.
    pub fn reboot(&mut self, node: usize) {
        self.containers.retain(|(at, ..), _| *at != node);
        self.tenants.retain(|(at, ..)| *at != node);
        self.covers.retain(|(at, _)| *at != node);
        self.by_hand.retain(|(at, _)| *at != node);
        let server = self.machines[node].server.clone();
        for volume in 0..self.volumes.len() {
            let Volume { id, size, .. } = &self.volumes[volume];
            if self.hypervisor.pull(&server, id).is_ok() {
                self.hypervisor.plug(&server, id, *size).expect("the disk comes back");
            }
        }
        let own = self.machines[node].node.own();
        self.machines[node].init = None;
        let is_shared = self.machines[1 - node]
            .mounts()
            .iter()
            .any(|(_, place, _)| *place == self.machines[1 - node].node.own());
        let machine = &mut self.machines[node];
        machine.namespace = new_namespace(&own, is_shared);
        let _ = fs::remove_dir_all(own.join("run"));
        machine.init = Some(machine.start(Plan::outside().in_our_namespace()));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.containers.clear();
        self.tenants.clear();
        self.pods.clear();
        // Labelled nodes are the whole machine's: a failed history must not leave its own.
        for volume in &self.volumes {
            for path in [
                format!("/dev/incloud-disk/.locks/{}.lock", volume.id),
                format!("/dev/incloud-disk/{}", volume.id),
            ] {
                let _ = fs::remove_file(&path);
            }
        }
        for machine in &mut self.machines {
            machine.init = None;
        }
    }
}

fn name_of(node: usize) -> String {
    format!("node-{}", char::from(b'a' + u8::try_from(node).unwrap_or(0)))
}
