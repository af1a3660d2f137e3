//! `disk node`: an image without a shell lets the machine's own run the script. The machine here is
//! a small root of copied files; nothing of the real one is in it.

use crate::support::{DISK, private_mounts, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// A release whose script says what it was told and what lies beside it, and a root with a
    /// shell.
    fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        let release = scene.release();
        fs::create_dir_all(release.join("examples/systemd")).unwrap();
        fs::copy(DISK, release.join("disk")).unwrap();
        for file in ["SHA256SUMS", "examples/config.toml", "examples/systemd/unit"] {
            fs::write(release.join(file), "").unwrap();
        }
        let script = "echo \"told $*\"; cd \"${0%/*}\"; echo *; [ \"$1\" != fail ] || exit 3\n\
                      echo done >/var/done\n";
        fs::write(release.join("install.sh"), script).unwrap();
        for folder in ["bin", "run", "var"] {
            fs::create_dir_all(scene.root().join(folder)).unwrap();
        }
        for library in libraries_of("/bin/sh") {
            let copy = scene.root().join(library.strip_prefix("/").unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(&library, copy).unwrap();
        }
        fs::copy("/bin/sh", scene.root().join("bin/sh")).unwrap();
        scene
    }

    fn release(&self) -> PathBuf {
        self.folder.path().join("release")
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("machine")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.release().join("disk"));
        command.args(["node", "--root"]).arg(self.root()).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
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
fn the_machines_shell_runs_the_script_of_the_image() {
    if !is_possible("the_machines_shell_runs_the_script_of_the_image") {
        return;
    }
    let scene = Scene::new();
    let output = scene.run(&["install", "--cloud", "local"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text, "told install --cloud local\nSHA256SUMS disk examples install.sh\n");
    assert_eq!(fs::read_to_string(scene.root().join("var/done")).unwrap(), "done\n");

    // Who only looks needs no driver, and a script that fails is told with its status.
    let output = scene.run(&["verify"]);
    assert_eq!(output.stdout, b"told verify\ninstall.sh\n");
    let output = scene.run(&["fail"]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains("exit status: 3") && complaint.contains("told fail"), "{complaint}");
    assert_eq!(fs::read_dir(scene.root().join("run")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn drift_is_told_when_it_comes() {
    if !is_possible("drift_is_told_when_it_comes") {
        return;
    }
    let scene = Scene::new();
    let told = scene.folder.path().join("told");
    let mut command = scene.command(&["--every", "1", "verify"]);
    let mut child = command.stdout(fs::File::create(&told).unwrap()).spawn().unwrap();
    let until = |text: &str| {
        for _ in 0..1000 {
            if fs::read_to_string(&told).unwrap() == text {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("not {text:?}: {:?}", fs::read_to_string(&told));
    };
    until("told verify\ninstall.sh\n");
    fs::write(scene.release().join("install.sh"), "echo it differs\n").unwrap();
    // What was said already is not said again.
    until("told verify\ninstall.sh\nit differs\n");
    child.kill().unwrap();
    child.wait().unwrap();
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

/// What the watch said so far, and how often the script began.
struct Watch {
    child: Child,
    told: PathBuf,
    begun: PathBuf,
}

impl Watch {
    /// Each time may take two seconds, and comes after one.
    fn start(scene: &Scene, script: &str) -> Self {
        let told = scene.folder.path().join("told");
        let begun = scene.root().join("var/begun");
        fs::write(scene.release().join("install.sh"), format!("echo x >>/var/begun\n{script}"))
            .unwrap();
        let mut command = scene.command(&["--every", "1", "verify"]);
        command.env("INCLOUD_DISK_NODE_AT_MOST", "2");
        let child = command.stdout(fs::File::create(&told).unwrap()).spawn().unwrap();
        Self { child, told, begun }
    }

    fn begun(&self) -> usize {
        fs::read_to_string(&self.begun).unwrap_or_default().lines().count()
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
    nix::unistd::mkfifo(&scene.root().join("var/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let script = "echo $$ >/var/pid; read x </var/pipe\n";
    let watch = Watch::start(&scene, script);
    watch.until("not done within 2 s");
    let pid = fs::read_to_string(scene.root().join("var/pid")).unwrap();
    let is_gone = || !Path::new("/proc").join(pid.trim()).exists() || watch.begun() > 1;
    for _ in 0..1000 {
        if is_gone() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(is_gone(), "the script's process is left");
    fs::write(scene.release().join("install.sh"), "echo well again\n").unwrap();
    watch.until("well again");
}

/// What takes no signal is named and left alone, and nothing is begun beside it.
#[test]
fn nothing_new_is_begun_while_something_of_it_hangs() {
    let test = "nothing_new_is_begun_while_something_of_it_hangs";
    if !is_possible(test) || !private_mounts(test) {
        return;
    }
    let scene = Scene::new();
    let folder = scene.root().join("var/frozen");
    let image = scene.folder.path().join("image");
    let must = |program: &str, arguments: &[&Path]| {
        let done = Command::new(program).args(arguments).output().unwrap();
        assert!(done.status.success(), "{program}: {done:?}");
    };
    fs::create_dir(&folder).unwrap();
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    must("mkfs.ext4", &["-q".as_ref(), &image]);
    must("mount", &["-o".as_ref(), "loop".as_ref(), &image, &folder]);
    must("fsfreeze", &["-f".as_ref(), &folder]);
    let watch = Watch::start(&scene, "echo >/var/frozen/x; echo thawed\n");
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let told = watch.until("not done within 2 s");
        std::thread::sleep(Duration::from_secs(5));
        (told, watch.begun())
    }));
    must("fsfreeze", &["-u".as_ref(), &folder]);
    let (told, begun) = told.unwrap();
    watch.until("thawed");
    drop(watch);
    must("umount", &[&folder]);
    assert!(told.contains("hangs in"), "{told}");
    assert_eq!(begun, 1, "one more was begun beside it");
}
