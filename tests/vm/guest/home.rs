//! What the machine needs before it is a node: its network, and its own disk, which keeps `/var/lib`
//! over a restart as a real node's does.

use crate::host::qemu::OWN_DISK;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const PLACE: &str = "/persistent";

pub(super) fn settle_in() -> Result<(), String> {
    wait_for("the network card", || Path::new("/sys/class/net/eth0").exists().then_some(()))?;
    run("/sbin/ip", &["link", "set", "lo", "up"])?;
    run("/sbin/ip", &["addr", "add", "10.0.2.15/24", "dev", "eth0"])?;
    run("/sbin/ip", &["link", "set", "eth0", "up"])?;
    let disk = wait_for("the machine's own disk", own_disk)?;
    let disk = disk.to_str().ok_or("a name")?;
    let mount = || run("/bin/mount", &["-t", "ext4", disk, PLACE]);
    if mount().is_err() {
        // A new one is blank.
        run("/sbin/mkfs.ext4", &["-q", disk])?;
        mount()?;
    }
    let lib = Path::new(PLACE).join("lib");
    if !lib.exists() {
        run("/bin/cp", &["-a", "/var/lib", PLACE])?;
    }
    run("/bin/mount", &["--bind", lib.to_str().ok_or("a name")?, "/var/lib"])?;
    // Else every mount below would be seen there too.
    run("/bin/umount", &[PLACE])
}

fn own_disk() -> Option<PathBuf> {
    let entries = fs::read_dir("/sys/block").ok()?.flatten();
    let mut found = entries.filter(|entry| {
        let serial = fs::read_to_string(entry.path().join("serial"));
        serial.is_ok_and(|serial| serial.trim() == OWN_DISK)
    });
    let node = Path::new("/dev").join(found.next()?.file_name());
    node.exists().then_some(node)
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match look() {
            Some(found) => return Ok(found),
            None if Instant::now() > end => return Err(format!("{what} does not come")),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
