//! A node whose cloud is of loop devices, with volumes that have all that kubelet gives them.

use crate::program::Program;
use crate::support::{Node, options};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::path::{Path, PathBuf};

/// A build of the driver; the first one of a run is the one that the figures are about.
#[derive(Debug, Clone)]
pub struct Driver {
    /// What follows the names of its rows, nothing for the first one.
    pub mark: &'static str,
    pub file: PathBuf,
}

#[derive(Debug)]
pub struct Machine {
    pub node: Node,
}

#[derive(Debug)]
pub struct Volume {
    pub id: String,
    pub pv: String,
    fs_type: &'static str,
}

fn uuid() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

impl Machine {
    /// Its run folder is in memory, as a node's is below /run.
    pub fn new() -> Self {
        let node = Node::new();
        let run = node.own().join("run");
        fs::create_dir_all(&run).unwrap();
        mount(Some("run"), &run, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        Self { node }
    }

    /// A call of a build of the driver.
    pub fn call(&self, driver: &Driver, words: &[String]) -> Program {
        Program::new(&driver.file, words).setting("INCLOUD_DISK_CONFIG", self.node.config_path())
    }

    /// Where the links to the disks are.
    pub fn links(&self, volume: &Volume) -> PathBuf {
        self.node.link(&volume.id).parent().unwrap().to_owned()
    }

    /// A volume of this file system, attached and mounted at its global folder.
    pub fn bring(&self, fs_type: &'static str, size: &str) -> Volume {
        let volume = Volume { id: uuid(), pv: format!("pvc-{}", uuid()), fs_type };
        self.node.create(&volume.id, size);
        self.node.must(self.attach(&volume));
        fs::create_dir_all(self.global(&volume)).unwrap();
        self.node.must(self.stage(&volume));
        volume
    }

    /// Unmounted and detached.
    pub fn take(&self, volume: &Volume) {
        self.node.must(self.unstage(volume));
        self.node.must(self.detach(volume));
    }

    pub fn global(&self, volume: &Volume) -> PathBuf {
        self.node.global(&volume.pv)
    }

    pub fn device(&self, volume: &Volume) -> PathBuf {
        fs::canonicalize(self.node.link(&volume.id)).unwrap()
    }

    pub fn attach(&self, volume: &Volume) -> Vec<String> {
        words(["attach", &volume.options(), &self.node.name])
    }

    pub fn is_attached(&self, volume: &Volume) -> Vec<String> {
        words(["isattached", &volume.options(), &self.node.name])
    }

    pub fn wait(&self, volume: &Volume) -> Vec<String> {
        words(["waitforattach", "", &volume.options()])
    }

    pub fn stage(&self, volume: &Volume) -> Vec<String> {
        words(["mountdevice", text(&self.global(volume)), "", &volume.options()])
    }

    pub fn unstage(&self, volume: &Volume) -> Vec<String> {
        words(["unmountdevice", text(&self.global(volume))])
    }

    pub fn publish(&self, volume: &Volume, uid: &str) -> Vec<String> {
        let more = format!(
            "{{\"kubernetes.io/pod.name\":\"orders-0\",\"kubernetes.io/pod.namespace\":\"shop\",\
             \"kubernetes.io/pod.uid\":\"{uid}\","
        );
        let options = volume.options().replacen('{', &more, 1);
        words(["mount", text(&self.pod(volume, uid)), &options])
    }

    pub fn unpublish(&self, volume: &Volume, uid: &str) -> Vec<String> {
        words(["unmount", text(&self.pod(volume, uid))])
    }

    pub fn pod(&self, volume: &Volume, uid: &str) -> PathBuf {
        self.node.pod(uid, &volume.pv)
    }

    pub fn detach(&self, volume: &Volume) -> Vec<String> {
        words(["detach", &volume.pv, &self.node.name])
    }
}

impl Volume {
    fn options(&self) -> String {
        options(&self.id, &self.pv, self.fs_type)
    }
}

pub fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
