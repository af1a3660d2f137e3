//! One volume of one node, in the local cloud or in `OpenStack`'s test server: the calls that kubelet
//! and the controller-manager make for it, and what is to be seen of it from outside.

use super::plug::Plug;
use super::scene::configure;
use super::server::{Server, World};
use super::support::{
    Answer, Node, loop_devices_below, options_with, output_of, spawn, with_files,
};
use crate::support::server_disks::Shown;
use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The consumer of a volume that has only one.
pub const POD: &str = "7a5c1e0b-3d52-4f0e-9a35-6f1d0c8b2e44";

/// How often kubelet would repeat a call in the time that a person waits.
const REPEATS: usize = 8;

/// The arguments of one call.
pub type Call = Vec<String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Local,
    Openstack,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Local => "local",
            Kind::Openstack => "openstack",
        }
    }
}

#[derive(Debug)]
enum Cloud {
    Local,
    Openstack { server: Server, plug: Arc<Plug>, shown: Shown },
}

/// Where in its life a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Created,
    Attached,
    Staged,
    Published,
}

/// What the cloud does ends before what it does it to: so the node is last.
#[derive(Debug)]
pub struct Volume {
    cloud: Cloud,
    pub id: String,
    pub pv: String,
    pub fs_type: &'static str,
    /// The pod's UID.
    pub uid: String,
    pub node: Node,
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A failed trial must not leave its node to the next run.
        for path in self.label_and_lock() {
            let _ = fs::remove_file(&path);
        }
    }
}

pub fn uuid() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a UUID").trim().to_owned()
}

fn call<const N: usize>(words: [&str; N]) -> Call {
    words.map(str::to_owned).to_vec()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// What the application wrote, was told is on the disk, and must find again.
pub fn data() -> Vec<u8> {
    let line = |n: u32| format!("{n:8} what the application wrote and was told is on the disk\n");
    (0..4000).map(line).collect::<String>().into_bytes()
}

impl Volume {
    pub fn create(kind: Kind, fs_type: &'static str) -> Self {
        let node = Node::new();
        let (id, pv) = (uuid(), format!("pvc-{}", uuid()));
        let cloud = match kind {
            Kind::Local => {
                node.create(&id, if fs_type == "xfs" { "320M" } else { "24M" });
                Cloud::Local
            }
            Kind::Openstack => {
                let plug = Plug::below(&node.base());
                let world = World::demo().hook(plug.hook()).server(&node.name).server("node-b");
                let server = Server::start(world.volume_as("data", &id, 1));
                let shown = plug.shown_to(&server.world().server_id(&node.name));
                Cloud::Openstack { server, plug, shown }
            }
        };
        let volume = Self { cloud, id, pv, fs_type, uid: POD.to_owned(), node };
        volume.configure(&[]);
        volume
    }

    /// The configuration, with more settings such as `deadline.mount = 1`.
    pub fn configure(&self, more: &[String]) {
        self.node.configure("");
        let path = self.node.config_path();
        let settings = more.join("\n");
        if let Cloud::Openstack { server, .. } = &self.cloud {
            configure(&self.node, server, &settings);
        } else {
            let text = fs::read_to_string(path).expect("the configuration");
            fs::write(path, format!("{settings}\n{text}")).expect("the configuration");
        }
    }

    /// The words with what this node's driver is told of its machine.
    pub fn command(&self, words: &[String]) -> Command {
        let mut command = self.node.command(words);
        if let Cloud::Openstack { shown, .. } = &self.cloud {
            command.env("INCLOUD_DISK_SYSFS", &shown.sysfs);
            command.env("INCLOUD_DISK_BY_ID", &shown.by_id);
        }
        command
    }

    /// The test server, if it is in that cloud.
    pub fn cloud(&self) -> Option<&Server> {
        match &self.cloud {
            Cloud::Local => None,
            Cloud::Openstack { server, .. } => Some(server),
        }
    }

    pub fn base(&self) -> String {
        text(&self.node.base()).to_owned()
    }

    pub fn image(&self) -> PathBuf {
        match &self.cloud {
            Cloud::Local => self.node.image(&self.id),
            Cloud::Openstack { plug, .. } => plug.image(&self.id),
        }
    }

    fn link(&self) -> PathBuf {
        match &self.cloud {
            Cloud::Local => self.node.link(&self.id),
            Cloud::Openstack { shown, .. } => shown.link(&self.id),
        }
    }

    /// The labelled node that a mount is made from, and the lock beside it.
    fn label_and_lock(&self) -> [PathBuf; 2] {
        let lock = format!("/dev/incloud-disk/.locks/{}.lock", self.id);
        [lock.into(), Path::new("/dev/incloud-disk").join(&self.id)]
    }

    pub fn global(&self) -> PathBuf {
        self.node.global(&self.pv)
    }

    pub fn pod(&self) -> PathBuf {
        self.node.pod(&self.uid, &self.pv)
    }

    fn options(&self) -> String {
        options_with(&self.id, &self.pv, self.fs_type, "rw")
    }

    /// kubelet's arguments of a call; the folder that it makes before is made.
    pub fn call(&self, name: &str) -> Call {
        let (options, node) = (self.options(), self.node.name.as_str());
        let (global, pod, link) = (self.global(), self.pod(), self.link());
        match name {
            "attach" => call(["attach", &options, node]),
            "isattached" => call(["isattached", &options, node]),
            "waitforattach" => call(["waitforattach", "", &options]),
            "mountdevice" => {
                make_folder(&global);
                call(["mountdevice", text(&global), text(&link), &options])
            }
            "mount" => {
                make_folder(&pod);
                call(["mount", text(&pod), &options])
            }
            "expandfs" => {
                let bytes = self.larger().to_string();
                call(["expandfs", &options, text(&link), text(&pod), &bytes, "1"])
            }
            "unmount" => call(["unmount", text(&pod)]),
            "unmountdevice" => call(["unmountdevice", text(&global)]),
            "detach" => call(["detach", &self.pv, node]),
            other => panic!("no call {other}"),
        }
    }

    /// The size that a claim for more asks for.
    pub fn larger(&self) -> u64 {
        match (&self.cloud, self.fs_type) {
            (Cloud::Openstack { .. }, _) => 2 << 30,
            (Cloud::Local, "xfs") => 384 << 20,
            (Cloud::Local, _) => 32 << 20,
        }
    }

    pub fn ask(&self, name: &str) -> Answer {
        Answer::of(self.command(&self.call(name)))
    }

    /// Of another node, as the controller-manager does: its name is the call's last word.
    pub fn ask_of(&self, name: &str, node: &str) -> Answer {
        let mut words = self.call(name);
        words.pop();
        words.push(node.to_owned());
        Answer::of(self.command(&words))
    }

    /// The same call until it succeeds, as kubelet repeats it. The last Failure otherwise.
    pub fn repeat(&self, name: &str) -> Result<(), String> {
        self.repeat_few(name, REPEATS)
    }

    fn repeat_few(&self, name: &str, count: usize) -> Result<(), String> {
        let mut said = String::new();
        for n in 0..count {
            if n > 0 {
                std::thread::sleep(Duration::from_millis(200));
            }
            let answer = self.ask(name);
            if answer.json["status"] == "Success" {
                return Ok(());
            }
            said = answer.text;
        }
        Err(said)
    }

    #[track_caller]
    pub fn through(&self, name: &str) {
        self.repeat(name).unwrap_or_else(|said| panic!("{name} does not come through: {said}"));
    }

    /// A person's verb: what it printed, or both streams as the error.
    pub fn verb(&self, words: &[&str]) -> Result<String, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let output = output_of(&mut self.command(&words));
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    /// Up to this state, from wherever it is.
    #[track_caller]
    pub fn bring_to(&self, state: State) {
        let calls = ["attach", "waitforattach", "mountdevice", "mount"];
        let count = [0, 1, 3, 4][state as usize];
        for name in &calls[..count] {
            self.through(name);
        }
    }

    /// A mount of a dead disk that is not known for ours is not healed: the refusal says that the
    /// pods are to be restarted, and so they are.
    #[track_caller]
    pub fn restart_if_told(&self) {
        self.through("attach");
        let is_told = |said: &String| said.contains("restart the pods that use the volume");
        if self.repeat_few("mountdevice", 1).err().is_some_and(|said| is_told(&said)) {
            self.take_away();
        }
    }

    /// The disk goes from under those who use it. What they write late must not reach the volume: it goes to
    /// a file without a name.
    pub fn pull(&self) {
        if matches!(self.cloud, Cloud::Local) {
            self.verb(&["local", "yank", &self.id]).expect("pulled");
            return;
        }
        let mut shutdown = Command::new("xfs_io");
        shutdown.args(["-x", "-c", "shutdown"]).arg(self.global());
        assert!(output_of(&mut shutdown).status.success(), "the file system is not shut down");
        self.verb(&["detach", "--force", &self.id]).expect("detached");
        let (image, aside) = (self.image(), self.node.base().join("copy"));
        copy(&image, &aside);
        fs::rename(aside, image).expect("the old disk's file has no name");
    }

    /// Everything back, from wherever it is, with the folders as kubelet removes them.
    #[track_caller]
    pub fn take_away(&self) {
        for (name, folder) in [("unmount", self.pod()), ("unmountdevice", self.global())] {
            if is_there(&folder) {
                self.through(name);
                fs::remove_dir(folder).expect("kubelet's rmdir");
            }
        }
        self.through("detach");
    }

    /// Unmount, unmountdevice and detach at once, each until it succeeds.
    #[track_caller]
    pub fn release(&self) {
        let calls = ["unmount", "unmountdevice", "detach"];
        let begun = calls.map(|name| spawn(self.command(&self.call(name))));
        for (child, output) in begun {
            Answer::finish(child, output);
        }
        for name in calls {
            self.through(name);
        }
        assert!(!self.is_mounted(&self.pod()) && !self.is_mounted(&self.global()), "mounted still");
    }

    pub fn is_mounted(&self, folder: &Path) -> bool {
        let table = fs::read_to_string("/proc/thread-self/mountinfo").expect("the mounts");
        let folder = text(folder);
        table.lines().any(|line| line.split(' ').nth(4) == Some(folder))
    }

    /// Whether this is the disk, by the file behind it.
    pub fn is_disk(&self, device: &Path) -> bool {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim()) == self.image())
    }

    /// Whether the disk is on this machine.
    pub fn has_disk(&self) -> bool {
        fs::canonicalize(self.link()).is_ok()
    }

    /// As the cloud sees it: dead mounts may keep the kernel's device for a while.
    #[track_caller]
    pub fn must_be_away(&self) {
        assert!(!self.has_disk(), "Success, and the disk is here");
        if let Cloud::Openstack { server, .. } = &self.cloud {
            let world = server.world();
            let servers = world.storage.volume(&self.id).expect("the volume").servers().len();
            assert_eq!(servers, 0, "Success, and still attached in the cloud");
        }
    }

    /// As the cloud and the kernel see it.
    #[track_caller]
    pub fn must_be_detached(&self) {
        self.must_be_away();
        let base = self.node.base();
        let left = || loop_devices_below(&base);
        eventually(|| left().is_empty(), || format!("Success, and still attached: {:?}", left()));
    }

    /// Written, flushed, and all taken away again.
    pub fn write_data(&self) {
        self.bring_to(State::Published);
        with_files(|| {
            let mut file = fs::File::create(self.pod().join("data")).expect("a file");
            file.write_all(&data()).expect("written");
            file.sync_all().expect("flushed");
        });
        self.take_away();
    }

    #[track_caller]
    pub fn must_have_data(&self) {
        let found = with_files(|| fs::read(self.pod().join("data")));
        let found = found.unwrap_or_else(|error| panic!("the application's file: {error}"));
        assert!(found == data(), "the data is another ({} bytes)", found.len());
    }

    /// It is used as ever, keeps what it has, and goes without a trace.
    #[track_caller]
    pub fn lives_on(&self, has_data: bool) {
        self.restart_if_told();
        self.bring_to(State::Published);
        if has_data {
            self.must_have_data();
        }
        self.take_away();
        self.must_be_detached();
        must_be_sound(&self.image());
        self.nothing_is_left();
    }

    #[track_caller]
    pub fn nothing_is_left(&self) {
        let base = self.node.base();
        let devices = || loop_devices_below(&base);
        eventually(|| devices().is_empty(), || format!("left: {:?}", devices()));
        let table = fs::read_to_string("/proc/thread-self/mountinfo").expect("the mounts");
        let inside = format!(" {}/", base.display());
        let mounts: Vec<_> = table.lines().filter(|line| line.contains(&inside)).collect();
        assert!(mounts.is_empty(), "left: {mounts:?}");
        for path in self.label_and_lock() {
            assert!(fs::symlink_metadata(&path).is_err(), "left: {}", path.display());
        }
        let links = match &self.cloud {
            Cloud::Local => self.node.base().join("cloud/by-id"),
            Cloud::Openstack { shown, .. } => shown.by_id.clone(),
        };
        let links = fs::read_dir(links).into_iter().flatten().flatten().count();
        assert_eq!(links, 0, "left: links to disks");
        let scratch = self.node.own().join("run/scratch");
        let scratch = fs::read_dir(scratch).into_iter().flatten().flatten().count();
        assert_eq!(scratch, 0, "left in the scratch folder");
        let mut stack = vec![self.node.own()];
        while let Some(folder) = stack.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                assert!(!name.starts_with(".tmp"), "left: {}", entry.path().display());
                if entry.file_type().is_ok_and(|is| is.is_dir()) {
                    stack.push(entry.path());
                }
            }
        }
    }
}

/// A folder on which a dead file system is mounted gives an error, and is there.
pub fn is_there(folder: &Path) -> bool {
    fs::symlink_metadata(folder)
        .map_or_else(|error| error.kind() != std::io::ErrorKind::NotFound, |_| true)
}

/// kubelet's `os.MkdirAll` with mode 0750. On a dead file system the folder is there, and cannot be
/// looked at.
pub fn make_folder(path: &Path) {
    let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(path);
    assert!(made.is_ok() || is_there(path), "kubelet's folder: {made:?}");
}

/// Waits for what the kernel or the cloud does a moment later.
#[track_caller]
pub fn eventually(mut is_so: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let end = Instant::now() + Duration::from_secs(15);
    while !is_so() {
        assert!(Instant::now() < end, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The file system in the image, unmounted, has no flaw.
#[track_caller]
pub fn must_be_sound(image: &Path) {
    let kind =
        output_of(Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE"]).arg(image));
    let kind = String::from_utf8(kind.stdout).expect("a name");
    let mut checker = match kind.trim() {
        "xfs" => Command::new("xfs_repair"),
        kind => Command::new(format!("fsck.{kind}")),
    };
    let output = output_of(checker.args(["-n", "-f"]).arg(image));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{checker:?}: {}", String::from_utf8_lossy(&said));
}

/// With its holes.
pub fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.args(["--sparse=always", "--reflink=auto"]).args([from, to]);
    assert!(output_of(&mut copy).status.success(), "{} is not copied", from.display());
}

/// Images of volumes that have the application's data, one for each cloud and file system.
#[derive(Debug)]
pub struct Templates {
    folder: tempfile::TempDir,
}

impl Templates {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A volume with data, or a blank one.
    pub fn volume(&self, kind: Kind, fs_type: &'static str, has_data: bool) -> Volume {
        let volume = Volume::create(kind, fs_type);
        if has_data {
            let image = self.folder.path().join(format!("{}-{fs_type}", kind.name()));
            if !image.exists() {
                let first = Volume::create(kind, fs_type);
                first.write_data();
                copy(&first.image(), &image);
            }
            copy(&image, &volume.image());
        }
        volume
    }
}
