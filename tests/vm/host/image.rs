//! The guest's file system: Debian's userland, the kernel's modules, this program as its first
//! process and agent, and the driver as `install.sh` installs it.

use super::cpio::Archive;
use super::parts::{Kernel, Parts};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Where this program is in the guest.
pub(crate) const PROGRAM: &str = "/usr/lib/incloud-disk-vm/vm";

/// The driver in the guest.
pub(crate) const DRIVER: &str =
    "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/incloud~disk/disk";

/// Services that a node has and no test needs: each would cost a moment of every boot.
const WITHOUT: [&str; 14] = [
    "getty.target",
    "remote-fs.target",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-update-utmp.service",
    "systemd-user-sessions.service",
];

/// What every boot of a run has in common.
#[derive(Debug)]
pub(crate) struct Image {
    folder: PathBuf,
    installed: PathBuf,
    /// Of machines that boot at once one writes the archive, and the others wait for it.
    writing: Mutex<()>,
}

impl Image {
    /// Installs the driver into a folder, as a package would.
    pub(crate) fn new(folder: &Path, driver: &Path) -> Result<Self, String> {
        let installed = folder.join("installed");
        // What tells a script that the machine has systemd and udev.
        for part in ["usr/lib/systemd/system", "usr/lib/udev/rules.d"] {
            fs::create_dir_all(installed.join(part)).map_err(|error| error.to_string())?;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        let output = Command::new(script)
            .args(["install", "--cloud", "openstack", "--binary"])
            .arg(driver)
            .env("DESTDIR", &installed)
            // The machine that this runs on has nothing to do with it.
            .env("INSTALL_PROC", folder.join("no-processes"))
            .output()
            .map_err(|error| format!("install.sh: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("install.sh install: {text}"));
        }
        Ok(Self { folder: folder.to_owned(), installed, writing: Mutex::default() })
    }

    /// The archive that a kernel boots from.
    pub(crate) fn for_kernel(&self, parts: &Parts, kernel: &Kernel) -> Result<PathBuf, String> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join(format!("initrd-{}", kernel.name));
        if !path.exists() {
            let half = self.folder.join("initrd.new");
            self.write(&half, parts, kernel).map_err(|error| format!("the image: {error}"))?;
            fs::rename(&half, &path).map_err(|error| error.to_string())?;
        }
        Ok(path)
    }

    /// The file system of a disk with the programs that only some scenarios call: in the archive they would
    /// take each machine's memory.
    pub(crate) fn programs(&self, parts: &Parts) -> Result<PathBuf, String> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join("programs");
        if path.exists() {
            return Ok(path);
        }
        let half = self.folder.join("programs.new");
        let tree = parts.programs();
        let bytes = size_of(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;
        let mut command = parts.program("guest", "usr/sbin/mke2fs");
        command.env("MKE2FS_CONFIG", parts.guest().join("etc/mke2fs.conf"));
        command.args(["-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d"]);
        // A third more, for what the file system itself takes.
        command.arg(&tree).arg(&half).arg(format!("{}k", bytes / 1024 * 4 / 3));
        let output = command.output().map_err(|error| format!("mke2fs: {error}"))?;
        if !output.status.success() {
            return Err(format!("mke2fs: {}", String::from_utf8_lossy(&output.stderr)));
        }
        fs::rename(&half, &path).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// This program, without what a debugger wants of it, which is most of its size.
    fn program(&self) -> io::Result<PathBuf> {
        let (own, stripped) = (std::env::current_exe()?, self.folder.join("vm"));
        let done = Command::new("strip").arg("-o").arg(&stripped).arg(&own).status();
        Ok(if done.is_ok_and(|status| status.success()) { stripped } else { own })
    }

    fn write(&self, path: &Path, parts: &Parts, kernel: &Kernel) -> io::Result<()> {
        let mut archive = Archive::new(BufWriter::new(File::create(path)?));
        archive.tree(&parts.guest())?;
        archive.tree(&kernel.modules())?;
        for folder in
            ["dev", "etc", "mnt", "persistent", "proc", "root", "run", "sys", "tmp", "var"]
        {
            archive.folder(folder)?;
        }
        archive.folder(parent_of(PROGRAM))?;
        archive.file(&PROGRAM[1..], 0o755, &fs::read(self.program()?)?)?;
        let init = format!("#!/bin/sh\nexec {PROGRAM} init\n");
        archive.file("init", 0o755, init.as_bytes())?;
        for (name, text) in files() {
            archive.file(name, 0o644, text.as_bytes())?;
        }
        archive.folder("etc/systemd/system/multi-user.target.wants")?;
        archive
            .link("etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target")?;
        let wanted = "etc/systemd/system/multi-user.target.wants/agent.service";
        archive.link(wanted, "/etc/systemd/system/agent.service")?;
        // A package's script would make it.
        archive.link("usr/bin/awk", "gawk")?;
        for unit in WITHOUT {
            archive.link(&format!("etc/systemd/system/{unit}"), "/dev/null")?;
        }
        archive.tree(&self.installed)?;
        archive.end()?.flush()
    }
}

/// Bytes of all that is in a folder, each file in whole blocks.
fn size_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += found.len().next_multiple_of(4096);
        if found.is_dir() {
            bytes += size_of(&entry.path())?;
        }
    }
    Ok(bytes)
}

fn parent_of(path: &str) -> &str {
    path[1..].rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Small files of the guest.
fn files() -> [(&'static str, String); 6] {
    let groups = [
        "root",
        "tty",
        "disk",
        "lp",
        "dialout",
        "cdrom",
        "tape",
        "audio",
        "video",
        "kmem",
        "input",
        "sgx",
        "kvm",
        "render",
        "utmp",
        "systemd-journal",
    ];
    let mut lines = String::new();
    for (id, name) in groups.iter().enumerate() {
        lines += &format!("{name}:x:{id}:\n");
    }
    [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n".to_owned()),
        ("etc/group", lines),
        ("etc/machine-id", "0123456789abcdef0123456789abcdef\n".to_owned()),
        ("etc/fstab", String::new()),
        ("etc/hosts", "127.0.0.1 localhost node-a\n".to_owned()),
        (
            "etc/systemd/system/agent.service",
            format!(
                "[Unit]\nDescription=Agent of the test\nDefaultDependencies=no\n\
                 After=systemd-udev-trigger.service systemd-journald.socket local-fs.target\n\
                 [Service]\nExecStart={PROGRAM} agent\nStandardOutput=journal+console\n\
                 StandardError=journal+console\nKillMode=process\n"
            ),
        ),
    ]
}
