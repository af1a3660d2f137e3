//! One volume, and the calls that kubelet and the controller-manager make for it.

use crate::checks;
use crate::support::pods::{Container, Pod};
use crate::support::{Node, options_with};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The arguments of one call.
pub type Call = Vec<String>;

/// The consumer of tests that have only one.
pub const POD: &str = "7a5c1e0b-3d52-4f0e-9a35-6f1d0c8b2e44";

/// A volume of a node's cloud. Its id is a UUID: labelled nodes are the whole machine's, so no two
/// tests may use the same one.
#[derive(Debug)]
pub struct Volume {
    pub node: Node,
    pub id: String,
    pub pv: String,
    /// The file system that the claim asks for; may be empty.
    pub fs_type: &'static str,
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A failed test must not leave its node to the next run.
        for path in self.label_and_lock() {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir(path.parent().expect("a folder"));
        }
    }
}

fn uuid() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

fn call<const N: usize>(words: [&str; N]) -> Call {
    words.map(str::to_owned).to_vec()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// kubelet's `os.MkdirAll` with mode 0750.
pub fn make_folder(path: &Path) {
    fs::DirBuilder::new().recursive(true).mode(0o750).create(path).expect("kubelet's folder");
}

impl Volume {
    /// A new volume in the node's cloud.
    #[track_caller]
    pub fn create(node: &Node, fs_type: &'static str, size: &str) -> Self {
        let id = uuid();
        let pv = format!("pvc-{}", uuid());
        node.create(&id, size);
        Self { node: node.clone(), id, pv, fs_type }
    }

    /// The same on a node of its own.
    #[track_caller]
    pub fn on_a_node(fs_type: &'static str, size: &str) -> (Node, Self) {
        let node = Node::new();
        let volume = Self::create(&node, fs_type, size);
        (node, volume)
    }

    /// The same volume, seen from another node of the scene.
    pub fn seen_from(&self, node: &Node) -> Self {
        Self { node: node.clone(), id: self.id.clone(), pv: self.pv.clone(), fs_type: self.fs_type }
    }

    pub fn global(&self) -> PathBuf {
        self.node.global(&self.pv)
    }

    pub fn pod(&self, uid: &str) -> PathBuf {
        self.node.pod(uid, &self.pv)
    }

    pub fn image(&self) -> PathBuf {
        self.node.image(&self.id)
    }

    pub fn link(&self) -> PathBuf {
        self.node.link(&self.id)
    }

    /// The labelled node that a mount is made from.
    pub fn label(&self) -> PathBuf {
        Path::new("/dev/incloud-disk").join(&self.id)
    }

    /// What must not outlive a call, the inner one first.
    pub fn label_and_lock(&self) -> [PathBuf; 2] {
        let lock = format!("/dev/incloud-disk/.locks/{}.lock", self.id);
        [lock.into(), self.label()]
    }

    /// The volume's loop device, such as `loop3`.
    #[track_caller]
    pub fn letter(&self) -> String {
        self.node.letter(&self.id).expect("the volume is attached")
    }

    /// The state record.
    pub fn record(&self) -> serde_json::Value {
        let mut record = serde_json::Value::Null;
        for path in [self.record_path(), self.boot_record_path()] {
            let Ok(text) = fs::read_to_string(path) else { continue };
            let keys: serde_json::Value = serde_json::from_str(&text).expect("a whole record");
            for (key, value) in keys.as_object().expect("an object") {
                record[key] = value.clone();
            }
        }
        record
    }

    /// Where what ends with the boot is remembered.
    pub fn boot_record_path(&self) -> PathBuf {
        self.node.own().join("run/boot").join(format!("{}.json", self.id))
    }

    pub fn record_path(&self) -> PathBuf {
        self.node.own().join("state/volumes").join(format!("{}.json", self.id))
    }

    fn options(&self) -> String {
        options_with(&self.id, &self.pv, self.fs_type, "rw")
    }

    pub fn attach(&self) -> Call {
        self.attach_to(&self.node.name)
    }

    pub fn attach_to(&self, node: &str) -> Call {
        call(["attach", &self.options(), node])
    }

    pub fn is_attached(&self) -> Call {
        call(["isattached", &self.options(), &self.node.name])
    }

    /// With the device that kubelet remembers, possibly none.
    pub fn wait(&self, device: &str) -> Call {
        call(["waitforattach", device, &self.options()])
    }

    pub fn stage(&self) -> Call {
        self.stage_as(self.fs_type)
    }

    /// Asks for a file system other than the claim's.
    pub fn stage_as(&self, fs_type: &str) -> Call {
        let options = options_with(&self.id, &self.pv, fs_type, "rw");
        call(["mountdevice", text(&self.global()), text(&self.link()), &options])
    }

    pub fn publish(&self, uid: &str) -> Call {
        self.publish_as(uid, "rw")
    }

    /// `mount` is the one call that is told of the pod, and given its secrets.
    pub fn publish_as(&self, uid: &str, access: &str) -> Call {
        let options = format!(
            "{{\"kubernetes.io/fsType\":\"{}\",\"kubernetes.io/mounterArgs.FsGroup\":\"2000\",\
             \"kubernetes.io/pod.name\":\"orders-0\",\"kubernetes.io/pod.namespace\":\"shop\",\
             \"kubernetes.io/pod.uid\":\"{uid}\",\"kubernetes.io/pvOrVolumeName\":\"{}\",\
             \"kubernetes.io/readwrite\":\"{access}\",\"kubernetes.io/secret/token\":\"c2VjcmV0\",\
             \"kubernetes.io/serviceAccount.name\":\"default\",\"volumeID\":\"{}\"}}",
            self.fs_type, self.pv, self.id
        );
        call(["mount", text(&self.pod(uid)), &options])
    }

    pub fn unpublish(&self, uid: &str) -> Call {
        call(["unmount", text(&self.pod(uid))])
    }

    /// All that kubelet calls for one pod, in order. The directories that kubelet creates are there.
    pub fn life(&self) -> [Call; 8] {
        make_folder(&self.global());
        make_folder(&self.pod(POD));
        [
            self.attach(),
            self.is_attached(),
            self.wait(""),
            self.stage(),
            self.publish(POD),
            self.unpublish(POD),
            self.unstage(),
            self.detach(),
        ]
    }

    pub fn unstage(&self) -> Call {
        call(["unmountdevice", text(&self.global())])
    }

    pub fn detach(&self) -> Call {
        self.detach_from(&self.node.name)
    }

    pub fn detach_from(&self, node: &str) -> Call {
        call(["detach", &self.pv, node])
    }

    /// At the pod's folder, as kubelet does for a pod that runs.
    pub fn expand(&self, bytes: u64) -> Call {
        let (folder, bytes) = (self.pod(POD), bytes.to_string());
        call(["expandfs", &self.options(), text(&self.link()), text(&folder), &bytes, "1"])
    }

    /// Attached and staged.
    #[track_caller]
    pub fn bring(&self) {
        self.node.must(self.attach());
        self.node.must(self.wait(""));
        make_folder(&self.global());
        self.node.must(self.stage());
    }

    /// Attached, staged, and in the pod's folder.
    #[track_caller]
    pub fn bring_to_pod(&self) -> PathBuf {
        self.bring_to(POD)
    }

    /// The same in the folder of this pod.
    #[track_caller]
    pub fn bring_to(&self, uid: &str) -> PathBuf {
        self.bring();
        make_folder(&self.pod(uid));
        self.node.must(self.publish(uid));
        self.pod(uid)
    }

    /// Everything back, folders included, as kubelet removes them.
    #[track_caller]
    pub fn take_away(&self) {
        if self.pod(POD).exists() {
            self.node.must(self.unpublish(POD));
            fs::remove_dir(self.pod(POD)).expect("kubelet's rmdir of the pod's folder");
        }
        self.node.must(self.unstage());
        fs::remove_dir(self.global()).expect("kubelet's rmdir of the global folder");
        self.node.must(self.detach());
    }

    /// Its pod ends, and kubelet takes everything back.
    #[track_caller]
    pub fn take_away_with(&self, pod: &Pod, container: Container) {
        container.die();
        self.node.must(self.unpublish(pod.uid()));
        self.take_away();
    }

    /// Taken away, and nothing is left of the node's only volume.
    #[track_caller]
    pub fn ends(&self) {
        self.take_away();
        checks::nothing_is_left(&self.node, &[self]);
    }

    /// The same with its pod.
    #[track_caller]
    pub fn ends_with(&self, pod: &Pod, container: Container) {
        self.take_away_with(pod, container);
        checks::nothing_is_left(&self.node, &[self]);
    }

    /// The volume's file system, unmounted and detached, has no flaw.
    #[track_caller]
    pub fn must_be_sound(&self) {
        checks::fsck(&self.image());
    }

    /// The same for a disk that was pulled: its journal is replayed first.
    #[track_caller]
    pub fn must_be_sound_after_a_replay(&self) {
        self.bring();
        self.take_away();
        self.must_be_sound();
    }
}
