//! What both rings of tests need: a node of its own for each test, and kubelet's way of calling.
#![allow(dead_code, unused_imports, reason = "each ring uses its own part")]
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unnecessary_debug_formatting,
    clippy::must_use_candidate,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

pub mod browser;
pub mod counter;
pub mod disks;
mod failing_disk;
pub mod journal;
pub mod kubelets;
pub mod old_kernel;
pub mod pods;
mod processes;
pub mod refusals;
pub mod seccomp;
pub mod server_disks;
pub mod sysfs;
pub mod tracer;

pub use failing_disk::{Counts, FailingDisk, private_mounts_and_fuse};
pub use processes::{copy_program, output_of, spawn, start, with_files, write_program};

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// The executable under test: this build's, or a release's that is put here.
pub const DISK: &str = match option_env!("INCLOUD_DISK_UNDER_TEST") {
    Some(program) => program,
    None => env!("CARGO_BIN_EXE_disk"),
};

/// One machine: folders of its own, a configuration of its own, a local cloud.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: String,
    dir: std::sync::Arc<Scene>,
    /// Answer its calls in turn; all but the tests of two versions have one.
    drivers: Vec<Driver>,
    calls: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

/// A build of the driver, and the configuration that it reads.
#[derive(Debug, Clone)]
struct Driver {
    program: PathBuf,
    config: PathBuf,
}

/// The folder of a test; what is mounted or attached below it goes with it.
#[derive(Debug)]
struct Scene {
    dir: TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::env::var_os("KEEP_SCENE").is_some() {
            println!("the scene stays in {}", self.dir.path().display());
            self.dir.disable_cleanup(true);
            return;
        }
        clean(self.dir.path());
    }
}

/// Unmounts and detaches what a test left below its folder, so that a failed test leaves nothing.
fn clean(dir: &Path) {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let targets = table.lines().filter_map(|line| line.split(' ').nth(4));
    for target in
        targets.filter(|target| Path::new(target).starts_with(dir)).collect::<Vec<_>>().iter().rev()
    {
        let _ = nix::mount::umount2(*target, nix::mount::MntFlags::MNT_DETACH);
    }
    remove_links_of(dir);
    detach_loops_below(dir);
}

/// Removes the links in `/dev` of volumes that were still mounted when the test ended.
fn remove_links_of(dir: &Path) {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let records = entries(dir.to_owned()).map(|node| node.path().join("state/volumes"));
    let files = records.chain([dir.join("cloud/volumes")]).flat_map(entries);
    for id in files.filter_map(|file| Some(file.path().file_stem()?.to_owned())) {
        let link = Path::new("/dev/incloud-disk").join(id);
        if link.is_symlink() {
            let _ = fs::remove_file(&link);
            let _ = fs::remove_dir("/dev/incloud-disk");
        }
    }
}

/// Detaches the loop devices on files below a folder.
pub fn detach_loops_below(dir: &Path) {
    for device in loop_devices_below(dir) {
        // A device that is open stays what it is: without that it might go by itself, and be
        // another test's by now.
        let Ok(pinned) = fs::File::open(&device) else { continue };
        if loop_devices_below(dir).contains(&device) {
            let _ = incloud_disk::host::kernel::loop_unbind(&pinned);
        }
    }
}

/// Loop devices on files below a folder, removed files included.
pub fn loop_devices_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file"));
            file.is_ok_and(|file| Path::new(file.trim()).starts_with(dir))
        })
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .collect()
}

impl Node {
    /// A node with a local cloud of its own.
    pub fn new() -> Self {
        leave_the_machines_volumes();
        let dir = TempDir::with_prefix("incloud-disk-").expect("a temporary folder");
        Self::in_scene(std::sync::Arc::new(Scene { dir }), "node-a")
    }

    /// Another node of the same cloud.
    pub fn neighbour(&self, name: &str) -> Self {
        Self::in_scene(std::sync::Arc::clone(&self.dir), name)
    }

    fn in_scene(dir: std::sync::Arc<Scene>, name: &str) -> Self {
        let config = dir.dir.path().join(format!("{name}.toml"));
        let drivers = vec![Driver { program: DISK.into(), config }];
        let node = Self { name: name.to_owned(), dir, drivers, calls: std::sync::Arc::default() };
        node.configure("");
        fs::create_dir_all(node.kubelet_root()).expect("kubelet's root");
        node
    }

    /// The same node, whose calls these builds answer in turn: each is the name of its configuration file,
    /// and the program.
    #[must_use]
    pub fn driven_by<'a>(&self, builds: impl IntoIterator<Item = (&'a str, &'a Path)>) -> Self {
        let driver = |(name, program): (&str, &Path)| {
            let config = self.dir.dir.path().join(format!("{}.{name}.toml", self.name));
            Driver { program: program.to_owned(), config }
        };
        let drivers = builds.into_iter().map(driver).collect();
        let node = Self { drivers, calls: std::sync::Arc::default(), ..self.clone() };
        node.configure("");
        node
    }

    /// Writes the configuration: the node's own folders, and more lines of TOML.
    pub fn configure(&self, more: &str) {
        let (base, own) = (self.base(), self.own());
        let text = format!(
            "cloud.kind = \"local\"\nlocal.dir = {:?}\nnode.name = {:?}\n\n[paths]\nkubelet_root = {:?}\nstate_dir = {:?}\nrun_dir = {:?}\nlog_dir = {:?}\n\n{more}\n",
            base.join("cloud"),
            self.name,
            own.join("kubelet"),
            own.join("state"),
            own.join("run"),
            own.join("log"),
        );
        for config in self.config_paths() {
            fs::write(config, &text).expect("the configuration");
        }
    }

    /// The scene's folder, shared by all nodes of it.
    pub fn base(&self) -> PathBuf {
        fs::canonicalize(self.dir.dir.path()).expect("the scene's folder")
    }

    /// This node's folder.
    pub fn own(&self) -> PathBuf {
        self.base().join(&self.name)
    }

    pub fn kubelet_root(&self) -> PathBuf {
        self.own().join("kubelet")
    }

    pub fn config_path(&self) -> &Path {
        &self.drivers[0].config
    }

    /// How many calls were made, verbs included.
    pub fn calls_made(&self) -> usize {
        self.calls.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// One for each of its drivers.
    pub fn config_paths(&self) -> impl Iterator<Item = &Path> {
        self.drivers.iter().map(|driver| driver.config.as_path())
    }

    /// kubelet's global folder of a volume; not made.
    pub fn global(&self, pv: &str) -> PathBuf {
        self.kubelet_root().join("plugins/kubernetes.io/flexvolume/incloud/disk/mounts").join(pv)
    }

    /// A pod's folder of a volume; not made.
    pub fn pod(&self, uid: &str, pv: &str) -> PathBuf {
        self.kubelet_root().join("pods").join(uid).join("volumes/incloud~disk").join(pv)
    }

    /// The local cloud's link to the disk of a volume.
    pub fn link(&self, id: &str) -> PathBuf {
        self.base().join("cloud/by-id").join(format!("virtio-{}", server_disks::serial(id)))
    }

    /// The loop device that the volume has on this machine now, such as `loop3`.
    pub fn letter(&self, id: &str) -> Option<String> {
        let target = fs::read_link(self.link(id)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    pub fn image(&self, id: &str) -> PathBuf {
        self.base().join("cloud/volumes").join(format!("{id}.img"))
    }

    /// All that the driver logged on this node, a line each: time, level, call, message, `fact=value`.
    #[track_caller]
    pub fn log(&self) -> String {
        journal::in_words(&self.log_as_written())
    }

    /// The same as it stands in the files.
    pub fn log_as_written(&self) -> String {
        self.log_files().filter_map(|path| fs::read_to_string(path).ok()).collect()
    }

    pub fn log_files(&self) -> impl Iterator<Item = PathBuf> {
        let files = fs::read_dir(self.own().join("log")).into_iter().flatten().flatten();
        let paths = files.map(|file| file.path());
        paths.filter(|path| path.extension().is_some_and(|is| is == "jsonl"))
    }

    /// The command of a call, with both streams in one pipe as kubelet has them.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let call = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let driver = &self.drivers[call % self.drivers.len()];
        let mut command = Command::new(&driver.program);
        command.args(arguments).env("INCLOUD_DISK_CONFIG", &driver.config).stdin(Stdio::null());
        command.env("TZ", "UTC");
        if !self.own().join("log-may-hang").exists() {
            command.env("INCLOUD_DISK_PATIENT", "1");
        }
        if self.proc().exists() {
            command.env("INCLOUD_DISK_PROC", self.proc());
        }
        command
    }

    /// Calls the driver as kubelet does.
    pub fn call<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Answer {
        Answer::of(self.command(arguments))
    }

    /// Calls and demands Success.
    #[track_caller]
    pub fn must<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Value {
        let answer = self.call(arguments);
        assert_eq!(answer.json["status"], "Success", "{}", answer.text);
        answer.json
    }

    /// Calls, demands Failure, and returns its message.
    #[track_caller]
    pub fn fails<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        let answer = self.call(arguments);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        answer.json["message"].as_str().expect("a message").to_owned()
    }

    /// A person's verb; returns what it printed, or both streams as the error.
    pub fn verb(&self, arguments: &[&str]) -> Result<String, String> {
        let output = output_of(&mut self.command(arguments));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(text) } else { Err(text + &complaint) }
    }

    /// Makes a volume in the local cloud.
    #[track_caller]
    pub fn create(&self, id: &str, size: &str) {
        self.verb(&["local", "create", id, "--size", size]).expect("the volume is made");
    }
}

/// What came back from a call.
#[derive(Debug)]
pub struct Answer {
    /// Both streams, as they came.
    pub text: String,
    /// The one JSON value in them.
    pub json: Value,
}

impl Answer {
    /// Runs a call with stdout and stderr in one pipe, and demands what kubelet demands: one JSON
    /// object in one line, exit status 0.
    #[track_caller]
    pub fn of(command: Command) -> Self {
        let (child, output) = spawn(command);
        Self::finish(child, output)
    }

    /// The same for a call that was started before.
    #[track_caller]
    pub fn finish(child: Child, output: std::io::PipeReader) -> Self {
        let answer = Self::read(child, output);
        answer.is_told();
        answer
    }

    /// The same, and a refusal is not yet held against its page: it may be of what another test does.
    #[track_caller]
    pub fn read(mut child: Child, mut output: std::io::PipeReader) -> Self {
        let mut text = String::new();
        output.read_to_string(&mut text).expect("UTF-8");
        let status = child.wait().expect("the call ends");
        assert_eq!(status.code(), Some(0), "exit status of a call that said {text:?}");
        assert!(text.ends_with('\n') && text.matches('\n').count() == 1, "not one line: {text:?}");
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
        assert!(json.is_object(), "{text}");
        let message = json["message"].as_str().unwrap_or_default();
        assert!(!message.contains('%') && !message.contains('\n'), "{text}");
        Self { text, json }
    }

    /// A refusal must read as its page has it.
    #[track_caller]
    pub fn is_told(&self) {
        if self.json["status"] == "Failure" {
            let message = self.json["message"].as_str().unwrap_or_default();
            let call = message.split([' ', ':']).next().unwrap_or_default();
            refusals::told(call, message);
        }
    }
}

/// kubelet's options for a volume, as its Go encoder writes them.
pub fn options(id: &str, pv: &str, fs_type: &str) -> String {
    options_with(id, pv, fs_type, "rw")
}

/// The same with `rw` or `ro`.
pub fn options_with(id: &str, pv: &str, fs_type: &str, access: &str) -> String {
    format!(
        "{{\"kubernetes.io/fsType\":\"{fs_type}\",\"kubernetes.io/pvOrVolumeName\":\"{pv}\",\
         \"kubernetes.io/readwrite\":\"{access}\",\"volumeID\":\"{id}\"}}"
    )
}

/// Demands that a text for people has all these words; what was broken into lines is read as one.
#[track_caller]
pub fn has(text: &str, words: &[&str]) {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(joined.contains(word), "{word}:\n{text}");
    }
}

/// The variable that breaks a call at a step.
pub const SEAM: &str = "INCLOUD_DISK_SEAM";

/// Whether the executable can be broken at a step: a release knows no such variable.
pub fn has_seams(test: &str) -> bool {
    static HAS_SEAMS: LazyLock<bool> = LazyLock::new(|| {
        output_of(Command::new("grep").args(["-qaF", SEAM, DISK])).status.success()
    });
    if !*HAS_SEAMS {
        skip(test, "needs a debug build");
    }
    *HAS_SEAMS
}

/// Why a test cannot run here, told on a line that `install.sh test` counts. What `REQUIRE` names must be
/// here: `REQUIRE=root,loop` makes a test fail that "needs root" or "needs loop devices".
#[track_caller]
pub fn skip(test: &str, reason: &str) {
    let demanded = std::env::var("REQUIRE").unwrap_or_default();
    let need = reason.strip_prefix("needs ").and_then(|need| need.split([' ', ':']).next());
    let is_demanded = need.is_some_and(|need| demanded.split(',').any(|word| word == need));
    assert!(!is_demanded, "REQUIRE={demanded}: {reason}");
    // Not through the macros: what they print of a passing test is thrown away.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// What changes something for a person: to a user who is not root the driver says so.
#[must_use]
pub fn is_root_here(test: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip(test, "needs root");
    }
    is_root
}

/// Whether strace is here and may trace, by a program that cannot fail: that ours fails is no reason to skip.
#[must_use]
pub fn may_trace(test: &str) -> bool {
    let probe = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let reason = match probe {
        Ok(output) if output.status.success() => return true,
        Ok(_) => "strace cannot trace here",
        Err(_) => "needs strace",
    };
    skip(test, reason);
    false
}

/// What Prometheus' own checker says, and whether it is content; nothing where it is missing, which
/// counts as skipped. `install.sh test` puts one beside the build.
pub fn promtool(test: &str, words: &[&OsStr], input: Option<fs::File>) -> Option<(bool, String)> {
    let beside = Path::new(DISK).ancestors().nth(2).map(|target| target.join("tools/promtool"));
    let beside = beside.filter(|program| program.exists());
    let told = std::env::var_os("PROMTOOL").map(PathBuf::from);
    let mut command = Command::new(told.or(beside).unwrap_or_else(|| "promtool".into()));
    command.args(words).stdin(input.map_or_else(Stdio::null, Stdio::from));
    match command.output() {
        // One that lies in a folder of another user is none either.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            skip(test, "needs promtool (Debian's package prometheus)");
            None
        }
        other => {
            let output = other.expect("promtool");
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into();
            Some((output.status.success(), said))
        }
    }
}

/// The places of volumes that a driver in use on this machine has mounted, the newest first.
fn the_machines_volumes() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let places = table.lines().rev().filter_map(|line| line.split(' ').nth(4));
    let is_a_volumes = |place: &&str| {
        !place.starts_with(std::env::temp_dir().to_str().unwrap_or("/tmp"))
            && ["/flexvolume/incloud/disk/mounts/", "/volumes/incloud~disk/"]
                .iter()
                .any(|part| place.contains(part))
    };
    places.filter(is_a_volumes).map(str::to_owned).collect()
}

/// Where the driver is in use a test neither sees its volumes nor can touch them: this thread, and
/// the children it starts, get a mount namespace without them.
pub fn leave_the_machines_volumes() {
    use nix::mount::{MntFlags, umount2};
    if the_machines_volumes().is_empty() || !nix::unistd::geteuid().is_root() {
        return;
    }
    own_mount_namespace().expect("a mount namespace without the machine's volumes");
    for place in the_machines_volumes() {
        umount2(place.as_str(), MntFlags::MNT_DETACH).expect("the test's view of the machine");
    }
}

/// A test of what is said where no volume is: a user cannot leave the machine's out of sight.
pub fn sees_no_volume(test: &str) -> bool {
    leave_the_machines_volumes();
    let sees_none = the_machines_volumes().is_empty();
    if !sees_none {
        skip(test, "needs root: this machine has volumes of its own");
    }
    sees_none
}

fn own_mount_namespace() -> nix::Result<()> {
    use nix::mount::{MsFlags, mount};
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    if mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).is_err() {
        // In a plain chroot "/" is no mount point: then what the tests mount on becomes one.
        for folder in [std::env::temp_dir(), "/run".into(), "/var".into()] {
            let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(&folder), &folder, None::<&str>, bind, None::<&str>)?;
            mount(None::<&str>, &folder, None::<&str>, flags, None::<&str>)?;
        }
    }
    Ok(())
}

/// Gives this thread, and the children it starts, a mount namespace of its own. Says whether the
/// test can run.
pub fn private_mounts(test: &str) -> bool {
    if !is_root_here(test) {
        return false;
    }
    if !Path::new("/dev/loop-control").exists() {
        skip(test, "needs loop devices");
        return false;
    }
    if let Err(errno) = own_mount_namespace() {
        skip(test, &format!("needs a mount namespace of its own: {errno}"));
        return false;
    }
    leave_the_machines_volumes();
    true
}
