//! Kubelets that a node's driver sees: processes in a `/proc` of its own, with flags, a configuration, and an age.

use super::Node;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Who attaches, and what says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attaches {
    /// kubelet, by its flag.
    KubeletByFlag,
    /// kubelet, by its configuration file.
    KubeletByFile,
    /// The controller-manager, by the default.
    ControllerByDefault,
    /// The controller-manager, by the configuration file.
    ControllerByFile,
    /// The configuration file cannot be read.
    Unreadable,
}

/// Long enough for everything that waits for a kubelet to settle.
pub const OLD: Duration = Duration::from_secs(3600);

impl Node {
    /// Where this node's processes are seen, once a kubelet was.
    pub fn proc(&self) -> PathBuf {
        self.own().join("proc")
    }

    /// A kubelet with this node's root directory runs for an hour.
    pub fn has_kubelet(&self, attaches: Attaches) {
        self.has_kubelet_at(9, &self.kubelet_root(), attaches, OLD);
    }

    /// The same of any process, root directory and age.
    pub fn has_kubelet_at(
        &self,
        pid: u32,
        root: &std::path::Path,
        attaches: Attaches,
        age: Duration,
    ) {
        let process = self.proc().join(pid.to_string());
        let etc = process.join("root/etc");
        fs::create_dir_all(&etc).expect("a process");
        let mut words = vec!["kubelet".to_owned(), format!("--root-dir={}", root.display())];
        let text = match attaches {
            Attaches::KubeletByFile => "enableControllerAttachDetach: false\n",
            Attaches::ControllerByFile => "enableControllerAttachDetach: true\n",
            Attaches::Unreadable => "enableControllerAttachDetach: [\n",
            Attaches::KubeletByFlag | Attaches::ControllerByDefault => "failSwapOn: false\n",
        };
        fs::write(etc.join("kubelet.yaml"), text).expect("its configuration");
        words.push("--config=/etc/kubelet.yaml".to_owned());
        if attaches == Attaches::KubeletByFlag {
            words.push("--enable-controller-attach-detach=false".to_owned());
        }
        fs::write(process.join("cmdline"), words.join("\0") + "\0").expect("its words");
        let status = "Uid:\t0\t0\t0\t0\nNSpid:\t9\nCapEff:\t000001ffffffffff\n";
        fs::write(process.join("status"), status).expect("its status");
        let uptime = incloud_disk::ports::clock::since_boot();
        let began = uptime.saturating_sub(age).as_millis() / 10;
        let stat = format!("{pid} (kubelet) S{} {began} 0", " 0".repeat(18));
        fs::write(process.join("stat"), stat).expect("its age");
    }

    /// The kubelet of [`Self::has_kubelet`] has these words on its command line too.
    pub fn kubelet_is_told(&self, words: &[&str]) {
        let path = self.proc().join("9/cmdline");
        let told = fs::read_to_string(&path).expect("its words");
        fs::write(path, told + &words.join("\0") + "\0").expect("its words");
    }

    /// kubelet ends.
    pub fn has_no_kubelet(&self) {
        let _ = fs::remove_dir_all(self.proc());
        fs::create_dir_all(self.proc()).expect("an empty /proc");
    }
}

/// No call came for a volume for so many seconds since it was unmounted: what its record says of that is set back.
pub fn is_silent_for(node: &Node, id: &str, seconds: u64) {
    let path = node.own().join("run/boot").join(format!("{id}.json"));
    let text = fs::read_to_string(&path).expect("a record");
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("a whole record");
    let then = record["unstaged_at"]["seconds"].as_u64().expect("it was unmounted by a call");
    record["unstaged_at"]["seconds"] = then.saturating_sub(seconds).into();
    fs::write(path, record.to_string()).expect("the record");
}
