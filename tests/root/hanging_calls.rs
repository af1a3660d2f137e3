//! Further system calls that hang: unmounts, opens, binds, mkfs, e2fsck, a look at who uses the
//! disk. What is promised of each is in `hanging.rs`.

use crate::checks::{eventually, layers_at, nothing_is_left, random_bytes};
use crate::files;
use crate::hanging::{
    ANSWERED, BROKEN, Running, Scene, children_of, hurry, left_in, takes_a_signal, verb_within,
};
use crate::holders::{must_end, must_hang, run, state_of};
use crate::support::{FailingDisk, Node, start};
use crate::volume::{Call, POD, Volume, make_folder};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Another (udev, a person) has a disk's partitions read anew, for which what was written comes to
/// the disk first, and that hangs: a process that opens the disk waits for the same lock in the kernel.
struct Rereading {
    child: Child,
    /// With a block that is not written out, which is what it was.
    _written: File,
    /// A frozen file system is thawed first, or the rest waits for ever.
    frozen: Option<Frozen>,
}

impl Rereading {
    /// The disk hangs when this returns, and so does who reads it.
    #[track_caller]
    fn of(node: &Path, hangs: impl FnOnce() -> Option<Frozen>) -> Self {
        let written = File::options().read(true).write(true).open(node).unwrap();
        has_partitions(&written);
        let mut block = [0; 4096];
        written.read_exact_at(&mut block, 0).unwrap();
        let frozen = hangs();
        written.write_all_at(&block, 0).unwrap();
        let mut command = Command::new("blockdev");
        command.arg("--rereadpt").arg(node).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let reading = Self { child: start(&mut command), _written: written, frozen };
        let pid = Pid::from_raw(i32::try_from(reading.child.id()).unwrap());
        // A process that only starts is in that state too, for a moment.
        let mut since = None;
        eventually("the partitions are being read", || {
            let is_there = state_of(pid) == Some('D');
            since = since.filter(|_| is_there).or_else(|| is_there.then(Instant::now));
            since.is_some_and(|since| since.elapsed() > Duration::from_millis(100))
        });
        reading
    }
}

impl Drop for Rereading {
    fn drop(&mut self) {
        self.frozen = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file system that is frozen for a while: by a process of its own, which thaws it even if this one
/// is killed, for the whole machine's loop devices could wait for it.
pub struct Frozen(Child);

impl Frozen {
    const LONGEST: &str = "20";

    #[track_caller]
    pub fn at(folder: &Path) -> Self {
        let script =
            "fsfreeze -f \"$1\" && echo frozen && { read -t \"$2\" _; fsfreeze -u \"$1\"; }";
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash"]).arg(folder).arg(Self::LONGEST);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = start(&mut command);
        let mut said = [0; 7];
        child.stdout.as_mut().unwrap().read_exact(&mut said).expect("it is frozen");
        Self(child)
    }

    /// Whether it was not thawed meanwhile, for its time was over.
    pub fn is_still(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// From here on the kernel looks for partitions on the loop device, as it does on a cloud's disk.
#[allow(unsafe_code)]
fn has_partitions(device: &File) {
    /// Of `struct loop_info64` (`linux/loop.h`): how long it is, and where its flags stand.
    const LENGTH: usize = 232;
    const FLAGS: usize = 52;
    const LO_FLAGS_PARTSCAN: u8 = 8;
    let mut status = [0_u8; LENGTH];
    let ask = |request: u64, status: &mut [u8; LENGTH]| {
        // SAFETY: both requests take the whole structure, which lives until they return.
        let done =
            unsafe { nix::libc::ioctl(device.as_raw_fd(), request as _, status.as_mut_ptr()) };
        nix::errno::Errno::result(done).expect("a loop device");
    };
    ask(0x4c05, &mut status);
    status[FLAGS] |= LO_FLAGS_PARTSCAN;
    ask(0x4c04, &mut status);
}

/// The disk of a scene's volume.
fn node_of(scene: &Scene) -> PathBuf {
    Path::new("/dev").join(scene.volume.letter())
}

/// A forced detach goes on beside what hangs; the local cloud cannot do more than say what holds the
/// disk, for its disks are this machine's.
#[track_caller]
fn a_person_is_answered(scene: &Scene) {
    let begin = Instant::now();
    let words = ["detach", "--force", scene.volume.id.as_str()];
    assert!(verb_within(&scene.volume.node, &words, BROKEN).is_some(), "detach did not end");
    assert!(begin.elapsed() < BROKEN);
}

/// A forced detach may come to its end only when the disk answers.
#[track_caller]
fn is_mounted_again(scene: &Scene) {
    let is_done = |call: Call| scene.volume.node.call(call).json["status"] == "Success";
    eventually("it is mounted", || is_done(scene.volume.attach()) && is_done(scene.volume.stage()));
}

/// The flush is done; the unmount itself writes to the disk, and hangs. (That of a btrfs writes
/// nothing more then.)
#[test]
fn an_unmount_that_hangs_is_answered_and_named() {
    needs!(fuse, seams);
    let kind = "ext4";
    let node = Node::new();
    let scene = Scene::with(&node, kind, "64M");
    node.must(scene.volume.stage());
    files::write_synced(&scene.volume.global().join("late"), &random_bytes(1 << 16));
    let unstage = scene.volume.unstage();
    let running = scene.hangs_at(&unstage, "mounts.unmount");
    let left = scene.is_answered(running, &["unmount ", "does not come back"]);
    // Nothing is mounted there any more, and the disk is not free: no untrue success.
    let begin = Instant::now();
    let again = Running::start(node.command(&unstage)).answer(ANSWERED);
    let message = again.expect("the process did not end").text;
    assert!(message.contains("Failure"), "{kind}: {message}");
    assert!(begin.elapsed() < ANSWERED, "{:?}", begin.elapsed());
    assert!(message.contains(&left.to_string()), "{kind}: {left}: {message}");
    scene.is_not_begun_again(&scene.volume.stage(), left);
    a_person_is_answered(&scene);
    scene.disk.release();
    node.configure("");
    must_end(left);
    eventually("it is unmounted", || node.call(&unstage).json["status"] == "Success");
    is_mounted_again(&scene);
    scene.has_its_data();
    scene.ends();
}

/// The disk is not read: the open alone hangs.
#[test]
fn an_open_that_hangs_is_answered_named_and_not_begun_again() {
    needs!(fuse);
    let node = Node::new();
    let scene = Scene::with(&node, "ext4", "64M");
    let stage = scene.volume.stage();
    hurry(&node);
    let reading = Rereading::of(&node_of(&scene), || {
        scene.disk.hang();
        None
    });
    let running = Running::start(node.command(&stage));
    let left = scene.is_answered(running, &["openat(2)", "open /dev/"]);
    scene.is_not_begun_again(&stage, left);
    a_person_is_answered(&scene);
    scene.disk.release();
    drop(reading);
    must_end(left);
    node.configure("");
    is_mounted_again(&scene);
    scene.has_its_data();
    scene.ends();
}

/// `unmountdevice` and `detach` say that a disk is free when an exclusive open passes.
#[test]
fn an_exclusive_open_that_hangs_is_no_success_and_no_free_disk() {
    needs!(fuse, seams);
    let node = Node::new();
    let scene = Scene::with(&node, "ext4", "64M");
    node.must(scene.volume.stage());
    hurry(&node);
    let unstage = scene.volume.unstage();
    let (running, held) = Running::held_at(&node, &unstage, "devices.exclusive_open");
    assert_eq!(layers_at(&scene.volume.global()), 0);
    let reading = Rereading::of(&node_of(&scene), || {
        scene.disk.hang();
        None
    });
    fs::remove_file(held).unwrap();
    let left = scene.is_answered(running, &["openat(2)", "exclusively"]);
    for call in [&unstage, &scene.volume.detach()] {
        let running = Running::start(node.command(call)).answer(ANSWERED);
        let answer = running.expect("the process did not end");
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        assert!(node.letter(&scene.volume.id).is_some(), "it was detached");
    }
    a_person_is_answered(&scene);
    scene.disk.release();
    drop(reading);
    must_end(left);
    node.configure("");
    is_mounted_again(&scene);
    scene.has_its_data();
    scene.ends();
}

/// A disk for kubelet's folders of pods, which can be made to hang.
struct Pods {
    disk: FailingDisk,
    device: String,
    place: PathBuf,
}

impl Pods {
    /// With the pod's folders on it, and nothing of them in memory.
    #[track_caller]
    fn on_a_disk(node: &Node) -> Self {
        let image = node.base().join("pods.img");
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
        let disk = FailingDisk::over(&image);
        let device = run("losetup", &["-f", "--show", image.to_str().unwrap()]).trim().to_owned();
        let place = node.kubelet_root().join("pods");
        make_folder(&place);
        let pods = Self { disk, device, place };
        pods.mount();
        pods
    }

    fn mount(&self) {
        let device = Some(self.device.as_str());
        mount(device, &self.place, Some("ext4"), MsFlags::empty(), None::<&str>).unwrap();
    }

    fn forgets(&self) {
        umount2(&self.place, MntFlags::empty()).unwrap();
        run("blockdev", &["--flushbufs", &self.device]);
        self.mount();
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.disk.release();
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
    }
}

/// What the bind goes to does not answer: the volume's own disk is well.
#[test]
fn a_bind_that_hangs_is_answered_and_named() {
    needs!(fuse);
    let node = Node::new();
    let pods = Pods::on_a_disk(&node);
    let volume = Volume::create(&node, "ext4", "64M");
    make_folder(volume.pod(POD).parent().unwrap());
    volume.bring();
    pods.forgets();
    hurry(&node);
    pods.disk.hang();
    let publish = volume.publish(POD);
    let answer = Running::start(node.command(&publish)).answer(ANSWERED);
    let answer = answer.expect("the process did not end");
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    let message = answer.json["message"].as_str().unwrap();
    assert!(message.contains("openat2(2)") || message.contains("stat"), "{message}");
    let left = left_in(message);
    must_hang(left);
    // Its disk is not concerned, but a person may give it up: that ends as well.
    for verb in [&["release"][..], &["detach", "--force"]] {
        let words = [verb, &[volume.id.as_str()]].concat();
        assert!(verb_within(&node, &words, BROKEN).is_some(), "{verb:?} did not end");
    }
    pods.disk.release();
    node.configure("");
    must_end(left);
    node.must(volume.attach());
    make_folder(&volume.global());
    node.must(volume.stage());
    node.must(&publish);
    assert_eq!(layers_at(&volume.pod(POD)), 1);
    volume.take_away();
    volume.must_be_sound();
    drop(pods);
    nothing_is_left(&node, &[&volume]);
}

/// A program of the machine's that hangs: it is named with its number, and the disk is let alone
/// until it ends.
#[test]
fn a_mkfs_that_hangs_is_answered_and_named() {
    needs!(fuse, seams);
    for (kind, size) in [("ext4", "64M"), ("btrfs", "256M")] {
        let (node, volume) = Volume::on_a_node(kind, size);
        let disk = FailingDisk::over(&volume.image());
        node.must(volume.attach());
        make_folder(&volume.global());
        let stage = volume.stage();
        // Longer than the blank test takes on such a disk beside other work.
        node.configure("[deadline]\nmountdevice = 8");
        let message = hangs_in_a_program(&node, &disk, &stage, "stage.format.intent");
        assert!(
            message.contains(&format!("mkfs.{kind}")) || message.contains("disk loop"),
            "{message}"
        );
        // What mkfs reads first may be in memory no more, and then a signal ends it in that read.
        let left = (kind == "ext4" || !takes_a_signal(&message)).then(|| left_in(&message));
        if let Some(left) = left {
            must_hang(left);
            let again = Running::start(node.command(&stage)).answer(Duration::from_secs(25));
            let again = again.expect("the process did not end").text;
            assert!(again.contains("Failure") && again.contains(&left.to_string()), "{again}");
        }
        assert_eq!(layers_at(&volume.global()), 0);
        disk.release();
        node.configure("");
        left.into_iter().for_each(must_end);
        node.must(&stage);
        files::write_synced(&volume.global().join("f"), b"kept");
        volume.take_away();
        drop(disk);
        volume.must_be_sound();
        nothing_is_left(&node, &[&volume]);
    }
}

/// The call runs until this step, and there the disk hangs; its message.
#[track_caller]
fn hangs_in_a_program(node: &Node, disk: &FailingDisk, call: &Call, step: &str) -> String {
    let (running, held) = Running::held_at(node, call, step);
    disk.hang();
    fs::remove_file(held).unwrap();
    let answer = running.answer(Duration::from_secs(25)).expect("the process did not end");
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    answer.json["message"].as_str().unwrap().to_owned()
}

#[test]
fn an_e2fsck_that_hangs_is_answered_and_named() {
    needs!(fuse, seams);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let data = random_bytes(1 << 20);
    volume.bring();
    files::write_synced(&volume.global().join("data"), &data);
    volume.take_away();
    run("debugfs", &["-w", "-R", "set_super_value state 2", volume.image().to_str().unwrap()]);
    let disk = FailingDisk::over(&volume.image());
    node.must(volume.attach());
    make_folder(&volume.global());
    let stage = volume.stage();
    node.configure("[deadline]\nmountdevice = 5\ndetach = 2");
    let message = hangs_in_a_program(&node, &disk, &stage, "filesystems.check");
    assert!(message.contains("e2fsck") && message.contains("process "), "{message}");
    let told = volume.node.fails(&stage);
    assert!(told.contains("e2fsck"), "{told}");
    assert_eq!(layers_at(&volume.global()), 0);
    disk.release();
    node.configure("");
    eventually("the check has ended", || node.call(&stage).json["status"] == "Success");
    assert!(files::read(volume.global().join("data")).unwrap() == data);
    volume.take_away();
    drop(disk);
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}

/// Who looks at all users of the disk meets a device that does not answer: a loop device on a file of
/// the volume, which another process opens.
#[test]
fn a_look_at_the_users_that_hangs_is_answered() {
    needs!(fuse);
    let node = Node::new();
    let scene = Scene::with(&node, "ext4", "64M");
    node.must(scene.volume.stage());
    let inner = scene.volume.global().join("inner.img");
    files::write_synced(&inner, &random_bytes(1 << 20));
    let device = run("losetup", &["-f", "--show", inner.to_str().unwrap()]).trim().to_owned();
    hurry(&node);
    let folder = scene.volume.global();
    // Its path leads nowhere: it must be asked itself.
    fs::remove_file(&inner).unwrap();
    let reading = Rereading::of(Path::new(&device), || Some(Frozen::at(&folder)));
    let unstage = scene.volume.unstage();
    let answer = Running::start(node.command(&unstage)).answer(ANSWERED);
    let answer = answer.expect("the process did not end");
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert_eq!(layers_at(&scene.volume.global()), 1, "{}", answer.text);
    let status = verb_within(&node, &["status"], BROKEN);
    assert!(status.is_some(), "status did not end");
    drop(reading);
    run("losetup", &["-d", &device]);
    node.configure("");
    scene.has_its_data();
    scene.ends();
}

/// A person ends the process that waits, with the one signal that it cannot hear: the lock stays with
/// what hangs, and that is said.
#[test]
fn a_lock_of_a_killed_call_that_hangs_is_explained_and_can_be_got_round() {
    needs!(fuse, seams);
    let node = Node::new();
    let scene = Scene::with(&node, "ext4", "64M");
    let stage = scene.volume.stage();
    let mut running = scene.hangs_at(&stage, "stage.looked");
    let pid = running.pid();
    let mut left = None;
    eventually("it hangs", || {
        left = children_of(pid).into_iter().find(|one| state_of(*one) == Some('D'));
        left.is_some()
    });
    let left = left.unwrap();
    kill(pid, Signal::SIGKILL).unwrap();
    assert!(running.ends_within(Duration::from_secs(5)), "it does not end by SIGKILL");
    drop(running);
    must_hang(left);
    let message = node.fails(&stage);
    let words = format!("process {left} (mountdevice)");
    assert!(message.contains(&words) && message.contains("hangs"), "{message}");
    assert!(message.contains("detach --force"), "what ends it: {message}");
    let release = verb_within(&node, &["release", &scene.volume.id], BROKEN);
    let release = release.expect("release did not end");
    assert!(release.contains(&words) && release.contains("detach --force"), "{release}");
    a_person_is_answered(&scene);
    scene.disk.release();
    node.configure("");
    must_end(left);
    is_mounted_again(&scene);
    scene.has_its_data();
    scene.ends();
}
