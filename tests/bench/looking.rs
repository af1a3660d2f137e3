//! What the metrics cost a call, and how long people wait for `status` and `history`:
//! `cargo bench --bench looking` (as root). Figures only; nothing here passes or fails by time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark prints, and fails by panicking"
)]

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;
const VOLUMES: usize = 48;
/// A node with some dozens of volumes logs so much in a few weeks.
const CALLS: usize = 200_000;

fn main() {
    if !nix::unistd::geteuid().is_root() {
        println!("needs root for loop devices and mounts");
        return;
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench { base: fs::canonicalize(folder.path()).unwrap() };
    bench.configure("");
    println!("{VOLUMES} volumes, attached and mounted; milliseconds, median and fastest");
    for number in 0..VOLUMES {
        bench.bring(number);
    }
    let call = ["mountdevice", &text(&bench.global(0)), "", &options(0)].map(str::to_owned);
    let page = format!("[metrics]\ntextfile = '{}'\n", bench.base.join("disk.prom").display());
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bench.configure("");
        without.push(timed(|| bench.disk(&call)));
        bench.configure(&page);
        with.push(timed(|| bench.disk(&call)));
    }
    println!("  a call that finds all well       {}", figures(without));
    println!("  the same, with metrics           {}", figures(with));
    let storm = timed(|| bench.storm(&call));
    println!("  {ROUNDS} such calls at once, with metrics, each  {:.2}", ms(storm) / 200.0);
    bench.configure("");
    let storm = timed(|| bench.storm(&call));
    println!("  and without, each                {:.2}", ms(storm) / 200.0);
    let status = (0..20).map(|_| timed(|| bench.disk(&["status".to_owned()]))).collect();
    println!("  disk status                      {}", figures(status));
    let explain = ["explain".to_owned(), "pv-7".to_owned()];
    let explain = (0..20).map(|_| timed(|| bench.disk(&explain))).collect();
    println!("  disk explain                     {}", figures(explain));
    let bytes = bench.long_log();
    let history = ["history".to_owned(), "pv-7".to_owned()];
    let history = (0..5).map(|_| timed(|| bench.disk(&history))).collect();
    println!("  disk history, {CALLS} calls in {} MiB of log  {}", bytes >> 20, figures(history));
    let status = (0..20).map(|_| timed(|| bench.disk(&["status".to_owned()]))).collect();
    println!("  disk status beside that log      {}", figures(status));
    for number in 0..VOLUMES {
        umount2(&bench.global(number), MntFlags::MNT_DETACH).unwrap();
        bench.disk(&["detach".to_owned(), format!("pv-{number}"), "bench".to_owned()]);
    }
}

struct Bench {
    base: PathBuf,
}

impl Bench {
    fn configure(&self, more: &str) {
        let place = |name: &str| self.base.join(name).display().to_string();
        let config = format!(
            "cloud.kind = \"local\"\nlocal.dir = '{}'\nnode.name = \"bench\"\n[paths]\nstate_dir = '{}'\nrun_dir = '{}'\nlog_dir = '{}'\n{more}",
            place("cloud"),
            place("state"),
            place("run"),
            place("log"),
        );
        fs::write(self.base.join("config.toml"), config).unwrap();
    }

    fn global(&self, number: usize) -> PathBuf {
        let folder = "kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts";
        self.base.join(folder).join(format!("pv-{number}"))
    }

    fn bring(&self, number: usize) {
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        fs::create_dir_all(self.global(number)).unwrap();
        self.disk(&owned(&["local", "create", &id(number), "--size", "32M"]));
        self.disk(&owned(&["attach", &options(number), "bench"]));
        self.disk(&owned(&["mountdevice", &text(&self.global(number)), "", &options(number)]));
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disk"));
        command.args(words).env("INCLOUD_DISK_CONFIG", self.base.join("config.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn disk(&self, words: &[String]) {
        let output = self.command(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !text.contains("Failure"), "{words:?}: {text}");
    }

    fn storm(&self, words: &[String]) {
        let children: Vec<_> = (0..ROUNDS)
            .map(|_| self.command(words).stdout(Stdio::null()).spawn().unwrap())
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
    }

    fn long_log(&self) -> usize {
        let mut log = String::new();
        for call in 0..CALLS {
            let number = call % VOLUMES;
            let time = format!(
                "2026-01-02T{:02}:{:02}:{:02}.000001Z",
                call / 3600 % 24,
                call / 60 % 60,
                call % 60
            );
            let span = format!(r#""span":{{"id":"c{call}","op":"isattached","name":"call"}}"#);
            let id = id(number);
            let _ = writeln!(
                log,
                r#"{{"timestamp":"{time}","level":"INFO","fields":{{"message":"begin","object":"volume {id}","volume":"{id}","name":"pv-{number}","node":"bench","pid":1,"parent":"kube-controller"}},{span}}}"#,
            );
            let _ = writeln!(
                log,
                r#"{{"timestamp":"{time}","level":"INFO","fields":{{"message":"end: Success","object":"volume {id}","duration_ms":2,"outcome":"Already"}},{span}}}"#,
            );
        }
        fs::write(self.base.join("log/incloud-disk.2026-01-02.jsonl"), &log).unwrap();
        log.len()
    }
}

fn id(number: usize) -> String {
    format!("6f1c2d3e-4a5b-4c6d-8e7f-{number:012}")
}

fn options(number: usize) -> String {
    format!(
        "{{\"kubernetes.io/fsType\":\"ext4\",\"kubernetes.io/pvOrVolumeName\":\"pv-{number}\",\"kubernetes.io/readwrite\":\"rw\",\"volumeID\":\"{}\"}}",
        id(number)
    )
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn figures(mut times: Vec<Duration>) -> String {
    times.sort();
    format!("{:8.2} {:8.2}", ms(times[times.len() / 2]), ms(times[0]))
}
