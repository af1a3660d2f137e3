//! A machine made of files: `/proc`, `/sys`, `/dev` and the cgroup trees.

use crate::census::KernelCensus;
use crate::census::inspection::CensusSetting;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The mount namespace of the process that looks.
pub(super) const OURS: u64 = 4_026_531_841;

pub(super) struct Machine {
    dir: TempDir,
}

impl Machine {
    /// One on which this process sees everything, and process 1 lives beside it.
    pub(super) fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["proc", "sys/block", "sys/dev/block", "dev", "cgroup"] {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        let own = std::process::id();
        machine.process(own, OURS);
        symlink(own.to_string(), machine.path("proc/self")).unwrap();
        symlink(own.to_string(), machine.path("proc/thread-self")).unwrap();
        machine.link("proc/self/ns/pid", "pid:[4026531836]");
        machine.link("proc/self/ns/user", "user:[4026531837]");
        machine.link("proc/self/ns/cgroup", "cgroup:[4026531835]");
        machine.write("proc/self/status", "Name:\tdisk\nCapEff:\t000001ffffffffff\n");
        machine.write("proc/self/cgroup", "0::/system.slice/kubelet.service\n");
        machine.mounts(own, &machine.usual_mounts("rw"));
        machine.process(1, OURS);
        machine.mounts(1, &machine.usual_mounts("rw"));
        machine
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(below)
    }

    pub(super) fn census(&self) -> KernelCensus {
        let (root, trusted) = (self.path(""), nix::unistd::getuid().as_raw());
        KernelCensus::of(CensusSetting { root, trusted, ..CensusSetting::default() })
    }

    /// The root, a procfs with these options, and the one cgroup tree.
    pub(super) fn usual_mounts(&self, proc_options: &str) -> String {
        let (proc, cgroup) = (self.path("proc"), self.path("cgroup"));
        format!(
            "20 1 254:0 / / rw - ext4 /dev/root rw\n\
             21 20 0:21 / {} rw - proc proc {proc_options}\n\
             22 20 0:22 / {} rw - cgroup2 cgroup2 rw\n",
            proc.display(),
            cgroup.display()
        )
    }

    /// A process in a mount namespace, without mounts yet.
    pub(super) fn process(&self, pid: u32, namespace: u64) {
        for folder in ["ns", &format!("task/{pid}"), "fd", "fdinfo"] {
            fs::create_dir_all(self.path(&format!("proc/{pid}/{folder}"))).unwrap();
        }
        for (file, text) in [("status", "Name:\tprogram\n"), ("cgroup", "0::/\n"), ("maps", "")] {
            self.write(&format!("proc/{pid}/{file}"), text);
        }
        self.link(&format!("proc/{pid}/ns/mnt"), &format!("mnt:[{namespace}]"));
        for link in ["exe", "root", "cwd"] {
            self.link(&format!("proc/{pid}/{link}"), "/");
        }
    }

    /// Closes one of the links of a process: reading it is an error, though not the one that
    /// means that the process has ended.
    pub(super) fn close(&self, pid: u32, link: &str) {
        let path = self.path(&format!("proc/{pid}/{link}"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }

    pub(super) fn mounts(&self, pid: u32, text: &str) {
        self.write(&format!("proc/{pid}/mountinfo"), text);
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A link, in the place of another one if there is one.
    pub(super) fn link(&self, path: &str, to: &str) {
        let path = self.path(path);
        let _ = fs::remove_file(&path);
        symlink(Path::new(to), path).unwrap();
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_dir_all(self.path(path)).unwrap();
    }
}
