//! A machine of the cloud: the guest, its hypervisor, and the cloud itself.

use super::channel::{Channel, GONE};
use super::image::Image;
use super::parts::{Kernel, Parts};
use super::plug::{Bus, Plug};
use super::qemu::{Accelerator, CLOUD, Qemu, Wish};
use super::qmp::Qmp;
use crate::busy::longer;
use crate::orders::{Ask, Said};
use crate::server::connection::{Stream, Wrap};
use crate::server::{Server, World};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The machine's name in the cloud and in Kubernetes.
pub(crate) const NODE: &str = "node-a";

/// How long a boot may take in software.
const BOOT: Duration = Duration::from_secs(120);
/// How long KVM is waited for: where it does not work it says nothing.
const BOOT_BY_KVM: Duration = Duration::from_secs(15);

/// What does not change while the tests run.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) parts: Parts,
    pub(crate) image: Image,
    pub(crate) folder: PathBuf,
}

/// A machine that runs.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cloud: Server,
    pub(crate) plug: Arc<Plug>,
    pub(crate) kernel: Kernel,
    pub(crate) folder: PathBuf,
    /// From the start of QEMU until the agent was there.
    pub(crate) boot: Duration,
    accelerator: Accelerator,
    initrd: PathBuf,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    channel: Channel,
    qemu: Qemu,
}

impl Machine {
    /// The folder of the machine that a job has.
    pub(crate) fn place(bench: &Bench, job: usize) -> PathBuf {
        bench.folder.join(format!("machine-{job}"))
    }

    /// A new machine with a cloud of its own.
    pub(crate) fn boot(
        bench: &Bench,
        kernel: &Kernel,
        bus: Bus,
        accelerator: Accelerator,
        job: usize,
    ) -> Result<Self, String> {
        let initrd = bench.image.for_kernel(&bench.parts, kernel)?;
        let folder = Self::place(bench, job);
        let _ = fs::remove_dir_all(&folder);
        let told = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&folder).map_err(told)?;
        let own = File::create(folder.join("own-disk")).map_err(told)?;
        own.set_len(256 << 20).map_err(told)?;
        let program = std::env::current_exe().map_err(told)?;
        std::os::unix::fs::symlink(program, folder.join("forward")).map_err(told)?;
        let plug = Plug::new(&folder, bus);
        let world = World::demo().hook(plug.hook()).server(NODE);
        let cloud = Server::listen(world, "127.0.0.1:0", Box::new(Outside)).map_err(told)?;
        let boot = Duration::ZERO;
        let mut machine = Self {
            cloud,
            plug,
            kernel: kernel.clone(),
            folder,
            boot,
            accelerator,
            initrd,
            running: None,
        };
        machine.start(&bench.parts, false)?;
        Ok(machine)
    }

    /// As a power cut: what was not written is gone, and the disks are found in their new order.
    pub(crate) fn restart(&mut self, bench: &Bench, volumes_first: bool) -> Result<(), String> {
        self.running = None;
        let console = self.folder.join("console.log");
        let _ = fs::rename(&console, self.folder.join("console-before-restart.log"));
        self.start(&bench.parts, volumes_first)
    }

    /// Whether it has shut down, after so long at most.
    pub(crate) fn goes_down(&mut self, limit: Duration) -> Result<bool, String> {
        let running = self.running.as_mut().ok_or("the machine does not run")?;
        Ok(running.qemu.ends_within(limit))
    }

    /// A kernel that dies before a program of ours runs tells nothing of the driver: under software emulation one in
    /// some hundred does. It is said, and the machine is started once more.
    fn start(&mut self, parts: &Parts, volumes_first: bool) -> Result<(), String> {
        match self.start_once(parts, volumes_first) {
            Err(why) if why == GONE => {
                println!("  the kernel died while the machine started: once more");
                let console = self.folder.join("console.log");
                let _ = fs::rename(&console, self.folder.join("console-of-a-dead-start.log"));
                self.start_once(parts, volumes_first)
            }
            done => done,
        }
    }

    fn start_once(&mut self, parts: &Parts, volumes_first: bool) -> Result<(), String> {
        let begun = Instant::now();
        let server = self.cloud.world().server_id(NODE);
        let (qemu, [monitor, agent]) = Qemu::start(&Wish {
            parts,
            kernel: &self.kernel,
            initrd: &self.initrd,
            accelerator: self.accelerator,
            plug: &self.plug,
            server: &server,
            port: port_of(&self.cloud)?,
            folder: &self.folder,
            volumes_first,
        })?;
        let log = File::options().create(true).append(true).open(self.folder.join("qmp.log"));
        let log = log.map_err(|error| error.to_string())?;
        let mut channel = Channel::over(agent)?;
        self.plug.connect(Arc::new(Qmp::over(monitor, log)?));
        let limit = match self.accelerator {
            Accelerator::Kvm => BOOT_BY_KVM,
            Accelerator::Tcg => longer(BOOT),
        };
        match channel.ready(limit)? {
            Said::Ready { kernel, .. } if kernel == self.kernel.version => {}
            other => return Err(format!("the agent began with {other:?}")),
        }
        self.boot = begun.elapsed();
        self.running = Some(Running { channel, qemu });
        Ok(())
    }

    /// Gives the agent an order.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<Said, String> {
        let limit = match ask {
            Ask::Run { limit, .. } => *limit + Duration::from_secs(15),
            _ => longer(Duration::from_secs(60)),
        };
        let running = self.running.as_mut().ok_or("the machine does not run")?;
        running.channel.ask(ask, limit)
    }

    /// Runs a program in the guest; answers its exit status and what it printed.
    pub(crate) fn run(
        &mut self,
        argv: &[&str],
        limit: Duration,
    ) -> Result<(Option<i32>, String), String> {
        let argv = argv.iter().map(|&text| text.to_owned()).collect();
        match self.ask(&Ask::Run { argv, limit: longer(limit) })? {
            Said::Ended { code, text } => Ok((code, text)),
            other => Err(format!("the agent said {other:?}")),
        }
    }

    /// Runs a line of shell that must succeed; answers what it printed.
    pub(crate) fn shell(&mut self, line: &str) -> Result<String, String> {
        match self.run(&["/bin/sh", "-c", line], Duration::from_secs(60))? {
            (Some(0), text) => Ok(text.trim_end().to_owned()),
            (code, text) => Err(format!("{line:?} ended with {code:?}: {text}")),
        }
    }

    /// Writes a file in the guest.
    pub(crate) fn put(&mut self, path: &str, text: &str) -> Result<(), String> {
        self.ask(&Ask::Put { path: path.into(), text: text.to_owned() }).map(drop)
    }

    /// What each part of the machine has logged, in a folder that stays.
    pub(crate) fn keep_logs(&mut self, folder: &Path) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(told)?;
        for (name, line) in [
            ("driver.log", "cat /var/log/incloud-volume/*.jsonl"),
            ("journal.log", "journalctl --no-pager -b -o short-monotonic"),
            ("kernel.log", "dmesg"),
            ("mounts.log", "cat /proc/self/mountinfo; ls -l /dev/disk/by-id; ls /sys/block"),
        ] {
            let text = self.shell(line).unwrap_or_else(|error| error);
            fs::write(folder.join(name), text).map_err(told)?;
        }
        for name in ["console.log", "console-before-restart.log", "qmp.log", "qemu.err"] {
            if let Ok(text) = fs::read(self.folder.join(name)) {
                fs::write(folder.join(name), text).map_err(told)?;
            }
        }
        let mut asked = String::new();
        for entry in self.cloud.log() {
            asked += &format!("{entry:?}\n");
        }
        fs::write(folder.join("cloud.log"), asked).map_err(told)
    }
}

fn port_of(cloud: &Server) -> Result<u16, String> {
    let url = cloud.url();
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
    port.ok_or_else(|| format!("no port in {url}"))
}

/// Whether this machine's processor can run guests: it is tried once, for where it cannot it
/// hangs without a word.
pub(crate) fn accelerator(bench: &Bench, kernel: &Kernel, job: usize) -> Accelerator {
    match std::env::var("INCLOUD_DISK_VM_ACCELERATOR").as_deref() {
        Ok("kvm") => return Accelerator::Kvm,
        Ok("tcg") => return Accelerator::Tcg,
        _ => {}
    }
    let can_open = File::options().read(true).write(true).open("/dev/kvm").is_ok();
    if can_open && Machine::boot(bench, kernel, Bus::VirtioBlk, Accelerator::Kvm, job).is_ok() {
        return Accelerator::Kvm;
    }
    Accelerator::Tcg
}

/// The cloud names itself by the address that it has in the guest's network.
#[derive(Debug)]
struct Outside;

impl Wrap for Outside {
    fn scheme(&self) -> &'static str {
        "http"
    }

    fn host(&self) -> Option<&str> {
        Some(CLOUD)
    }

    fn wrap(&self, stream: TcpStream) -> std::io::Result<Box<dyn Stream>> {
        Ok(Box::new(stream))
    }
}
