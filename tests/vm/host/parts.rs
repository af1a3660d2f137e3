//! What the virtual machine is made of: `parts.sh` gets it, this knows where it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What machines boot, oldest kernel first.
pub(crate) const KERNELS: [&str; 6] = [COUNTS_TWICE, "6.1", CGROUPS_1, SELINUX, "6.12", "newest"];

/// The one whose device mapper counts a write twice that flushes first.
pub(crate) const COUNTS_TWICE: &str = "5.10";

/// Linux 6.1 with cgroups of version 1 alone, as most nodes of Kubernetes 1.20 had them.
pub(crate) const CGROUPS_1: &str = "6.1-cgroups1";

/// For systemd, which from its version 256 on wants to be told twice.
const CGROUPS_1_ARGUMENTS: &str = "systemd.unified_cgroup_hierarchy=0 \
    systemd.legacy_systemd_cgroup_controller=1 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1";

/// Linux 6.1 whose security module is `SELinux`. It boots without a policy; a scenario loads one.
pub(crate) const SELINUX: &str = "6.1-selinux";

const SELINUX_ARGUMENTS: &str = "security=selinux selinux=1 enforcing=0";

/// A folder that stays from run to run.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) cache: PathBuf,
}

/// A kernel that is here.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// One of [`KERNELS`].
    pub(crate) name: &'static str,
    /// What it is told when it boots, besides what each is told.
    pub(crate) arguments: &'static str,
    /// The whole version.
    pub(crate) version: String,
    folder: PathBuf,
}

impl Kernel {
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    pub(crate) fn modules(&self) -> PathBuf {
        self.folder.join("modules")
    }
}

impl Parts {
    /// Gets what is missing; databases only where they are called.
    pub(crate) fn get(with_programs: bool) -> Result<Self, String> {
        let parts = Self { cache: cache() };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/parts.sh");
        let more = with_programs.then_some("programs");
        let status = Command::new(script).arg(&parts.cache).args(more).status();
        match status.map_err(|error| format!("parts.sh: {error}"))? {
            status if status.success() => Ok(parts),
            status => Err(format!("the parts of the virtual machine are not here: {status}")),
        }
    }

    /// The kernel of that name, or why it is not here.
    pub(crate) fn kernel(&self, name: &'static str) -> Result<Kernel, String> {
        // As `parts.sh` calls it.
        let (its, arguments) = match name {
            CGROUPS_1 => ("6.1", CGROUPS_1_ARGUMENTS),
            SELINUX => ("6.1", SELINUX_ARGUMENTS),
            _ => (name, ""),
        };
        let folder = self.cache.join(format!("kernel-{its}"));
        match fs::read_to_string(folder.join("version")) {
            Ok(version) => {
                Ok(Kernel { name, arguments, version: version.trim().to_owned(), folder })
            }
            Err(_) => Err(fs::read_to_string(folder.join("missing"))
                .map_or_else(|error| error.to_string(), |text| text.trim().to_owned())),
        }
    }

    pub(crate) fn guest(&self) -> PathBuf {
        self.cache.join("guest")
    }

    /// A root of its own, with databases.
    pub(crate) fn programs(&self) -> PathBuf {
        self.cache.join("programs")
    }

    /// A program of the parts, with the libraries and the loader that came with it.
    pub(crate) fn program(&self, root: &str, program: &str) -> Command {
        let root = self.cache.join(root);
        let mut command = Command::new(root.join("lib64/ld-linux-x86-64.so.2"));
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        command.arg("--library-path").arg(&libraries).arg(root.join(program));
        // QEMU's own parts that are loaded when they are needed.
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command
    }
}

/// Beside what cargo builds, or where the person keeps such things.
fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("INCLOUD_DISK_VM_CACHE") {
        return folder.into();
    }
    // target/debug/deps/vm-…
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(3).unwrap_or(Path::new("target")).join("vm")
}
