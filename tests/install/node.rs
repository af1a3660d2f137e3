//! `disk node`: an image without a shell installs into the machine whose root is mounted in it. The machine
//! here is a small root with the driver's libraries; nothing of the real one is in it, and no shell.

use crate::machine::is_same;
use crate::support::{DISK, copy_program, private_mounts, skip};
use nix::fcntl::{Flock, FlockArg};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

const DRIVER: &str = "usr/libexec/kubernetes/kubelet-plugins/volume/exec/incloud~disk/disk";

pub struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// A driver as an image has it, and a machine's root.
    pub fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["usr", "run", "var"] {
            fs::create_dir_all(scene.root().join(folder)).unwrap();
        }
        for library in libraries_of(DISK) {
            let copy = scene.root().join(library.strip_prefix("/").unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(&library, copy).unwrap();
        }
        fs::create_dir(scene.folder.path().join("image")).unwrap();
        copy_program(DISK, scene.image());
        scene
    }

    pub fn image(&self) -> PathBuf {
        self.folder.path().join("image/disk")
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("machine")
    }

    pub fn driver(&self) -> PathBuf {
        self.root().join(DRIVER)
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.image());
        command.args(["node", "--root"]).arg(self.root()).args(words);
        for name in ["DESTDIR", "INSTALL_PROC", "INSTALL_SEAM", "INSTALL_SYSTEMD"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn installed(&self) -> String {
        let output = self.run(&["install", "--cloud", "local"]);
        let text = crate::machine::text_of(&output);
        assert!(output.status.success(), "{text}");
        text
    }
}

fn libraries_of(program: &str) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(|word| Path::new(word).to_path_buf()).collect()
}

fn is_possible(test: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip(test, "needs root to enter another root");
    }
    is_root
}

#[test]
fn an_image_installs_itself_on_a_machine_without_a_shell() {
    if !is_possible("an_image_installs_itself_on_a_machine_without_a_shell") {
        return;
    }
    let scene = Scene::new();
    let text = scene.installed();
    assert!(text.contains("renaming it to /usr/libexec/"), "{text}");
    assert!(is_same(&scene.driver(), &scene.image()));
    let config = fs::read_to_string(scene.root().join("etc/incloud-disk/config.toml")).unwrap();
    assert!(config.contains("\nkind = \"local\"\n"), "{config}");
    let output = scene.run(&["verify"]);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"==> as installed: disk "), "{output:?}");
    // A word that fails or is wrong says so by its status.
    for (words, status, wanted) in [
        (&["upgrade", "--plugin-dir", "/none"][..], 1, "nothing to upgrade"),
        (&["rollback"], 1, "nothing to go back to"),
        (&["verify", "--cloud", "local"], 2, "unexpected argument '--cloud'"),
    ] {
        let output = scene.run(words);
        let said = crate::machine::text_of(&output);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
    let left = fs::read_dir(scene.root().join("run")).unwrap().count();
    assert_eq!(left, 0, "nothing is left");
}

#[test]
fn a_damaged_image_installs_nothing() {
    if !is_possible("a_damaged_image_installs_nothing") {
        return;
    }
    let scene = Scene::new();
    let sums = scene.folder.path().join("image/SHA256SUMS");
    fs::write(&sums, format!("{}  disk\n", "0".repeat(64))).unwrap();
    let output = scene.run(&["install"]);
    assert_eq!(output.status.code(), Some(1));
    let said = crate::machine::text_of(&output);
    assert!(said.contains("unpack the release again"), "{said}");
    assert!(!scene.driver().exists());
    let script = "cd \"$0\" && sha256sum disk >SHA256SUMS";
    let folder = scene.folder.path().join("image");
    assert!(Command::new("sh").args(["-c", script]).arg(folder).status().unwrap().success());
    scene.installed();
}

#[test]
fn drift_is_told_when_it_comes() {
    if !is_possible("drift_is_told_when_it_comes") {
        return;
    }
    let scene = Scene::new();
    scene.installed();
    let watch = Watch::start(&scene, &["verify"]);
    let first = watch.until("as installed: disk ");
    // What was said already is not said again.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(fs::read_to_string(&watch.told).unwrap(), first);
    fs::set_permissions(scene.driver(), fs::Permissions::from_mode(0o700)).unwrap();
    let told = watch.until("has other permissions than 0755");
    assert!(told.starts_with(&first) && told.lines().count() == 3, "{told}");
}

#[test]
fn a_folder_that_is_no_machines_root_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(DISK);
    let output = command.args(["node", "--root"]).arg(empty.path()).arg("verify").output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains("is no machine's root"), "{complaint}");
}

/// What the watch said so far.
struct Watch {
    child: Child,
    told: PathBuf,
}

impl Watch {
    /// Each time may take two seconds, and comes after one.
    fn start(scene: &Scene, words: &[&str]) -> Self {
        let told = scene.folder.path().join("told");
        let mut command = scene.command(&[&["--every", "1"], words].concat());
        command.env("INCLOUD_DISK_NODE_AT_MOST", "2");
        let child = command.stdout(fs::File::create(&told).unwrap()).spawn().unwrap();
        Self { child, told }
    }

    /// The processes that it has begun and that have not ended.
    fn begun(&self) -> usize {
        let id = self.child.id();
        let path = format!("/proc/{id}/task/{id}/children");
        fs::read_to_string(path).unwrap().split_whitespace().count()
    }

    #[track_caller]
    fn until(&self, words: &str) -> String {
        for _ in 0..3000 {
            let told = fs::read_to_string(&self.told).unwrap();
            if told.contains(words) {
                return told;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not {words:?}: {:?}", fs::read_to_string(&self.told));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_time_that_does_not_end_is_given_up_and_the_next_one_comes() {
    if !is_possible("a_time_that_does_not_end_is_given_up_and_the_next_one_comes") {
        return;
    }
    let scene = Scene::new();
    scene.installed();
    let lock = fs::File::open(scene.root().join("var/lib/incloud-disk/.install.lock")).unwrap();
    let lock = Flock::lock(lock, FlockArg::LockExclusive).unwrap();
    let watch = Watch::start(&scene, &["install"]);
    watch.until("not done within 2 s");
    drop(lock);
    watch.until("is what is here already");
}

/// What takes no signal is named and left alone, and nothing is begun beside it.
#[test]
fn nothing_new_is_begun_while_something_of_it_hangs() {
    let test = "nothing_new_is_begun_while_something_of_it_hangs";
    if !is_possible(test) || !private_mounts(test) {
        return;
    }
    let scene = Scene::new();
    let folder = scene.root().join("var/lib");
    let image = scene.folder.path().join("disk.img");
    let must = |program: &str, arguments: &[&Path]| {
        let done = Command::new(program).args(arguments).output().unwrap();
        assert!(done.status.success(), "{program}: {done:?}");
    };
    fs::create_dir(&folder).unwrap();
    fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
    must("mkfs.ext4", &["-q".as_ref(), &image]);
    must("mount", &["-o".as_ref(), "loop".as_ref(), &image, &folder]);
    scene.installed();
    must("fsfreeze", &["-f".as_ref(), &folder]);
    let watch = Watch::start(&scene, &["install"]);
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let told = watch.until("not done within 2 s");
        std::thread::sleep(Duration::from_secs(3));
        (told, watch.begun())
    }));
    must("fsfreeze", &["-u".as_ref(), &folder]);
    let (told, begun) = told.unwrap();
    watch.until("is what is here already");
    drop(watch);
    // What the watch had begun dies a moment after it.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while let Err(errno) = nix::mount::umount(&folder) {
        assert!(std::time::Instant::now() < until, "{errno}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(told.contains("hangs in"), "{told}");
    assert_eq!(begun, 1, "one more was begun beside it");
}
