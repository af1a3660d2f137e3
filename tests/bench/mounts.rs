//! What `mountdevice` of a clean disk costs, beside the three programs that it stands for:
//! `cargo bench --bench mounts` (as root). Figures only; nothing here passes or fails by time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::unnecessary_debug_formatting,
    missing_docs,
    reason = "a benchmark prints, and fails by panicking"
)]

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 60;
const PV: &str = "pv-bench";
const ID: &str = "3f0d2c1b-5a49-4877-9665-b4a3928170ff";

fn main() {
    if !nix::unistd::geteuid().is_root() {
        println!("needs root for loop devices and mounts");
        return;
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
    println!(
        "mounting a clean file system, {ROUNDS} rounds each, in turn; milliseconds, median and fastest"
    );
    for (kind, size) in [("ext4", "1G"), ("xfs", "1G")] {
        Bench::new(kind, size).run();
    }
}

struct Bench {
    program: PathBuf,
    folder: tempfile::TempDir,
    kind: &'static str,
    global: PathBuf,
}

impl Bench {
    fn new(kind: &'static str, size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        let config = format!(
            "cloud.kind = \"local\"\nlocal.dir = {:?}\nnode.name = \"bench\"\n[paths]\nstate_dir = {:?}\nrun_dir = {:?}\nlog_dir = {:?}\n",
            base.join("cloud"),
            base.join("state"),
            base.join("run"),
            base.join("log")
        );
        fs::write(base.join("config.toml"), config).unwrap();
        // As on a node, where the run folder is below /run.
        fs::create_dir(base.join("run")).unwrap();
        let (tmpfs, flags) = (Some("tmpfs"), MsFlags::empty());
        mount(tmpfs, &base.join("run"), tmpfs, flags, None::<&str>).unwrap();
        let global =
            base.join("kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts").join(PV);
        fs::create_dir_all(&global).unwrap();
        // The release's is the static one: DISK names it. A copy, as on a node: what the linker wrote
        // lies in smaller pieces in memory, and each costs a fault.
        let built = std::env::var("DISK").unwrap_or(env!("CARGO_BIN_EXE_disk").to_owned());
        let program = base.join("disk");
        fs::copy(built, &program).unwrap();
        let bench = Self { program, folder, kind, global };
        bench.disk(&["local", "create", ID, "--size", size]);
        bench.disk(&["attach", &bench.options(), "bench"]);
        bench.stage();
        bench.unmount();
        bench
    }

    fn run(&self) {
        let device = fs::canonicalize(
            self.folder.path().join("cloud/by-id").join(format!("virtio-{}", &ID[..20])),
        )
        .unwrap();
        let (mut ours, mut typed, mut called) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(self.timed(|| self.stage()));
            typed.push(self.timed(|| self.typed(&device)));
            called.push(self.timed(|| self.called(&device)));
        }
        self.disk(&["detach", PV, "bench"]);
        let ours = figures(ours);
        println!(
            "{:<5} mountdevice, whole process      {:>7.2} {:>7.2}",
            self.kind, ours.0, ours.1
        );
        for (what, times) in [
            ("blkid, fsck -a, mount in a shell", typed),
            ("the same as kubelet calls them", called),
        ] {
            let (median, fastest) = figures(times);
            println!(
                "      {what:<32} {median:>7.2} {fastest:>7.2}   {:.1} times",
                median / ours.0
            );
        }
    }

    fn timed(&self, work: impl FnOnce()) -> Duration {
        let begin = Instant::now();
        work();
        let took = begin.elapsed();
        self.unmount();
        took
    }

    fn stage(&self) {
        let options = self.options();
        let arguments = ["mountdevice", self.global.to_str().unwrap(), "", &options];
        // Like the others: the answer is not read, the mount itself tells.
        let config = self.folder.path().join("config.toml");
        run(Command::new(&self.program).args(arguments).env("INCLOUD_DISK_CONFIG", config));
    }

    /// What a person types.
    fn typed(&self, device: &Path) {
        let (device, global) = (device.display(), self.global.display());
        let line = format!("blkid {device} && fsck -a {device} && mount {device} {global}");
        run(Command::new("sh").args(["-c", &line]));
    }

    /// What kubelet's own mounter calls.
    fn called(&self, device: &Path) {
        let device = device.to_str().unwrap();
        let looked = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device];
        run(Command::new("blkid").args(looked));
        run(Command::new("fsck").args(["-a", device]));
        let mounted = ["-t", self.kind, "-o", "defaults", device];
        run(Command::new("mount").args(mounted).arg(&self.global));
    }

    fn unmount(&self) {
        umount2(&self.global, MntFlags::empty()).unwrap();
    }

    fn options(&self) -> String {
        format!(
            "{{\"kubernetes.io/fsType\":\"{}\",\"kubernetes.io/pvOrVolumeName\":\"{PV}\",\"volumeID\":\"{ID}\"}}",
            self.kind
        )
    }

    fn disk(&self, arguments: &[&str]) {
        let output = Command::new(&self.program)
            .args(arguments)
            .env("INCLOUD_DISK_CONFIG", self.folder.path().join("config.toml"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !text.contains("Failure"), "{arguments:?}: {text}");
    }
}

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.unwrap().success(), "{command:?}");
}

/// Median and fastest, in milliseconds.
fn figures(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    (times[times.len() / 2].as_secs_f64() * 1e3, times[0].as_secs_f64() * 1e3)
}
