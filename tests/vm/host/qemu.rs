//! QEMU: what it is told, and its process.

use super::parts::{Kernel, Parts};
use super::plug::Plug;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Who runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The processor itself.
    Kvm,
    /// QEMU, in software.
    Tcg,
}

impl Accelerator {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Tcg => "software emulation",
        }
    }

    fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // QEMU 7.2 gets cmpxchg16b wrong here, and newer kernels die of it in their allocator.
            Self::Tcg => ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "qemu64,-cx16"],
        }
    }
}

/// What a machine is started with.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) kernel: &'a Kernel,
    pub(crate) initrd: &'a Path,
    pub(crate) accelerator: Accelerator,
    pub(crate) plug: &'a Plug,
    /// Its id in the cloud, which it also finds in its firmware.
    pub(crate) server: &'a str,
    /// The cloud's port on the outside.
    pub(crate) port: u16,
    /// Sockets, logs and the machine's own disk.
    pub(crate) folder: &'a Path,
    /// Whether the volumes come before the machine's own disk.
    pub(crate) volumes_first: bool,
}

/// A running machine; it is switched off when this is dropped.
#[derive(Debug)]
pub(crate) struct Qemu {
    child: Child,
}

/// The cloud's address in the guest's network.
pub(crate) const CLOUD: &str = "10.0.2.100";

impl Qemu {
    /// Starts it; its monitor and the agent's channel come connected.
    pub(crate) fn start(wish: &Wish<'_>) -> Result<(Self, [UnixStream; 2]), String> {
        let file = |name: &str| File::create(wish.folder.join(name)).map_err(|e| e.to_string());
        let mut command = command(wish);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file("qemu.err")?);
        die_with_the_test(&mut command);
        let child = command.spawn().map_err(|error| format!("QEMU: {error}"))?;
        let mut qemu = Self { child };
        let end = Instant::now() + Duration::from_secs(20);
        let mut connect = |name| {
            let socket = wish.folder.join(name);
            loop {
                // A socket that is there may not be listened to yet.
                let error = match UnixStream::connect(&socket) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => error,
                };
                let is_gone = qemu.child.try_wait().is_ok_and(|status| status.is_some());
                if is_gone || Instant::now() > end {
                    let why = std::fs::read_to_string(wish.folder.join("qemu.err"));
                    let why = why.unwrap_or_default();
                    return Err(format!("QEMU does not start: {name}: {error} {}", why.trim()));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let streams = [connect("qmp")?, connect("agent")?];
        Ok((qemu, streams))
    }
}

impl Qemu {
    /// Whether the machine has switched itself off, after so long at most.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return true;
            }
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(wish: &Wish<'_>) -> Command {
    let mut command = wish.parts.program("qemu", "usr/bin/qemu-system-x86_64");
    for folder in ["usr/share/qemu", "usr/share/seabios"] {
        command.arg("-L").arg(wish.parts.cache.join("qemu").join(folder));
    }
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-machine", "pc", "-m", "768", "-smp", "2"]).args(wish.accelerator.arguments());
    command.args(["-uuid", wish.server]);
    command.arg("-kernel").arg(wish.kernel.image()).arg("-initrd").arg(wish.initrd);
    command.args(["-append", &format!("{KERNEL_ARGUMENTS} {}", wish.kernel.arguments)]);
    command.arg("-chardev").arg(with_path("file,id=console", &wish.folder.join("console.log")));
    command.args(["-serial", "chardev:console"]);
    command.arg("-chardev").arg(with_path(SOCKET, &wish.folder.join("agent")));
    command.args(["-device", "virtio-serial-pci", "-device"]);
    command.arg(format!("virtserialport,chardev=agent,name={}", crate::orders::CHANNEL));
    command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", text(&wish.folder.join("qmp"))));
    command.args(["-netdev".to_owned(), network(wish)]);
    command.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
    command.args(["-device", "virtio-scsi-pci,id=scsi"]);
    let own = own_disk(&wish.folder.join("own-disk"));
    if !wish.volumes_first {
        command.args(&own);
    }
    for disk in wish.plug.plugged() {
        command.args(wish.plug.arguments(&disk));
    }
    if wish.volumes_first {
        command.args(&own);
    }
    command
}

const SOCKET: &str = "socket,id=agent,server=on,wait=off";

/// Without the early look at the timer: on a machine that others use too it may be late, and the kernel panics.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 loglevel=5 panic=-1 net.ifnames=0 no_timer_check \
    systemd.hostname=node-a systemd.show_status=false systemd.journald.max_level_console=crit";

/// The serial of the machine's own disk.
pub(crate) const OWN_DISK: &str = "own-disk-of-node-a";

fn own_disk(image: &Path) -> [String; 4] {
    let node = serde_json::json!({
        "driver": "raw", "node-name": "own", "file": {"driver": "file", "filename": image},
    });
    let device = format!("virtio-blk-pci,drive=own,serial={OWN_DISK}");
    ["-blockdev".to_owned(), node.to_string(), "-device".to_owned(), device]
}

/// A network from which one way leads out, to the cloud's port.
fn network(wish: &Wish<'_>) -> String {
    let port = wish.port;
    let program = text(&wish.folder.join("forward"));
    format!("user,id=net,restrict=on,guestfwd=tcp:{CLOUD}:{port}-cmd:{program} forward {port}")
}

fn with_path(start: &str, path: &Path) -> String {
    format!("{start},path={}", text(path))
}

/// In QEMU's options a comma is written twice.
fn text(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A test that is killed takes its machines along.
#[allow(unsafe_code)]
fn die_with_the_test(command: &mut Command) {
    // SAFETY: between fork and exec only prctl(2) is called.
    unsafe {
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?));
    }
}
