//! A server of the cloud with its kubelet: the volume's calls with kubelet's arguments, and folders
//! and disks of its own.

use crate::plug::Plug;
use crate::scene::PV;
use crate::server::Server;
use crate::support::server_disks::Shown;
use crate::support::{Answer, Node, options_with};
use nix::sys::statvfs::statvfs;
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that the volume can be at.
#[derive(Debug)]
pub struct Machine {
    pub node: Node,
    pub shown: Shown,
    /// The cloud's id of the server.
    pub server: String,
    volume: String,
    fs_type: &'static str,
    /// Whether its calls are those of a volume that servers share for reading.
    pub shares: Cell<bool>,
}

impl Machine {
    /// The node's server in the cloud.
    pub fn of(
        node: Node,
        cloud: &Server,
        plug: &Plug,
        volume: &str,
        fs_type: &'static str,
    ) -> Self {
        // What does not come at once does not come.
        crate::scene::configure(&node, cloud, "deadline.waitforattach = 30");
        let server = cloud.world().server_id(&node.name);
        let shown = plug.shown_to(&server);
        Self { node, shown, server, volume: volume.to_owned(), fs_type, shares: Cell::new(false) }
    }

    pub fn global(&self) -> PathBuf {
        self.node.global(PV)
    }

    pub fn pod(&self, uid: &str) -> PathBuf {
        self.node.pod(uid, PV)
    }

    /// The kernel's name of the volume's disk, such as `loop3`.
    #[track_caller]
    pub fn letter(&self) -> String {
        self.shown.name_of(&self.volume).expect("the disk is here")
    }

    fn link(&self) -> String {
        text(&self.shown.link(&self.volume))
    }

    fn options(&self) -> String {
        if !self.shares.get() {
            return options_with(&self.volume, PV, self.fs_type, "rw");
        }
        let reading = options_with(&self.volume, PV, self.fs_type, "ro");
        reading.replace('}', ",\"share\":\"read-only\"}")
    }

    /// The driver with this server's disks.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.node.command(words);
        command.env("INCLOUD_DISK_SYSFS", &self.shown.sysfs);
        command.env("INCLOUD_DISK_BY_ID", &self.shown.by_id);
        command
    }

    fn call(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.command(arguments))
    }

    /// What a verb that looks says, whatever its exit status.
    #[track_caller]
    pub fn look(&self, words: &[&str]) -> String {
        let output = crate::support::output_of(&mut self.command(words));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a person's verb says, and whether it did what it was told.
    pub fn verb(&self, words: &[&str]) -> (bool, String) {
        let output = crate::support::output_of(&mut self.command(words));
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    /// A call that kubelet may always repeat; so it is made twice.
    #[track_caller]
    fn twice(&self, arguments: &[&str]) -> Value {
        let both = [(); 2].map(|()| self.call(arguments).json);
        assert_eq!(both[0]["status"], "Success", "{}", both[0]);
        assert_eq!(both[0], both[1], "the second answer to {arguments:?}");
        both[0].clone()
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str]) -> String {
        let answer = self.call(arguments);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        answer.json["message"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub fn attach(&self) {
        let reply = self.twice(&["attach", &self.options(), &self.node.name]);
        assert_eq!(reply["device"], self.link());
    }

    /// By another name of the node.
    #[track_caller]
    pub fn attach_as(&self, name: &str) {
        self.twice(&["attach", &self.options(), name]);
    }

    /// By another name of the node.
    #[track_caller]
    pub fn detach_as_fails(&self, name: &str) -> String {
        self.fails(&["detach", PV, name])
    }

    /// As a caller that knows no name of the volume.
    #[track_caller]
    pub fn attach_without_a_name(&self) {
        let name = format!(",\"kubernetes.io/pvOrVolumeName\":\"{PV}\"");
        let options = self.options();
        assert!(options.contains(&name), "{options}");
        self.twice(&["attach", &options.replace(&name, ""), &self.node.name]);
    }

    /// From another node's server, as a controller calls it.
    #[track_caller]
    pub fn detach_from(&self, node: &Node) {
        self.twice(&["detach", PV, &node.name]);
    }

    #[track_caller]
    pub fn attach_fails(&self) -> String {
        self.fails(&["attach", &self.options(), &self.node.name])
    }

    #[track_caller]
    pub fn is_attached(&self, node: &Node) -> bool {
        let reply = self.twice(&["isattached", &self.options(), &node.name]);
        reply["attached"].as_bool().unwrap()
    }

    /// With whatever kubelet remembers.
    #[track_caller]
    pub fn wait(&self, hint: &str) {
        let reply = self.twice(&["waitforattach", hint, &self.options()]);
        assert_eq!(reply["device"], self.link(), "its link leads to the proven disk");
    }

    #[track_caller]
    pub fn wait_fails(&self) -> String {
        self.fails(&["waitforattach", "", &self.options()])
    }

    #[track_caller]
    pub fn stage(&self) {
        make_folder(&self.global());
        self.twice(&["mountdevice", &text(&self.global()), &self.link(), &self.options()]);
    }

    /// The volume comes to this machine, and its disk is seen.
    #[track_caller]
    pub fn bring_disk(&self) {
        self.attach();
        self.wait("");
    }

    /// The same, and it is mounted at its stage folder.
    #[track_caller]
    pub fn mount_volume(&self) {
        self.bring_disk();
        self.stage();
    }

    /// The call is held at one of its steps while something happens; how it ends.
    #[track_caller]
    pub fn stage_held_at(&self, step: &str, meanwhile: impl FnOnce()) -> Answer {
        make_folder(&self.global());
        let arguments = ["mountdevice", &text(&self.global()), &self.link(), &self.options()];
        let (mut command, held) = (self.command(&arguments), self.node.base().join("held"));
        command.env("INCLOUD_DISK_SEAM", format!("{step}=hold:{}", held.display()));
        let (child, output) = crate::support::spawn(command);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !held.exists() {
            assert!(std::time::Instant::now() < end, "it does not come to {step}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        meanwhile();
        std::fs::remove_file(held).unwrap();
        Answer::finish(child, output)
    }

    /// The call is killed at one of its steps.
    #[track_caller]
    pub fn stage_killed_at(&self, step: &str) {
        make_folder(&self.global());
        let arguments = ["mountdevice", &text(&self.global()), &self.link(), &self.options()];
        let output = self.killed_at(step, &arguments);
        assert!(output.status.signal().is_some(), "not killed at {step}: {output:?}");
    }

    /// The same of a heal, whose worker it is that ends there.
    #[track_caller]
    pub fn heal_killed_at(&self, step: &str) {
        let output = self.killed_at(step, &["heal"]);
        assert!(!output.status.success(), "not killed at {step}: {output:?}");
    }

    fn killed_at(&self, step: &str, arguments: &[&str]) -> std::process::Output {
        let mut command = self.command(arguments);
        command.env("INCLOUD_DISK_SEAM", format!("{step}=kill"));
        crate::support::output_of(&mut command)
    }

    #[track_caller]
    pub fn stage_fails(&self) -> String {
        make_folder(&self.global());
        self.fails(&["mountdevice", &text(&self.global()), &self.link(), &self.options()])
    }

    #[track_caller]
    pub fn publish(&self, uid: &str) {
        make_folder(&self.pod(uid));
        self.twice(&["mount", &text(&self.pod(uid)), &self.options()]);
    }

    #[track_caller]
    pub fn unpublish(&self, uid: &str) {
        self.twice(&["unmount", &text(&self.pod(uid))]);
        fs::remove_dir(self.pod(uid)).expect("kubelet's rmdir of the pod's folder");
    }

    #[track_caller]
    pub fn unpublish_fails(&self, uid: &str) -> String {
        self.fails(&["unmount", &text(&self.pod(uid))])
    }

    #[track_caller]
    pub fn unstage(&self) {
        self.twice(&["unmountdevice", &text(&self.global())]);
        fs::remove_dir(self.global()).expect("kubelet's rmdir of the global folder");
    }

    #[track_caller]
    pub fn unstage_fails(&self) -> String {
        self.fails(&["unmountdevice", &text(&self.global())])
    }

    #[track_caller]
    pub fn detach(&self) {
        self.twice(&["detach", PV, &self.node.name]);
    }

    #[track_caller]
    pub fn detach_fails(&self) -> String {
        self.fails(&["detach", PV, &self.node.name])
    }

    #[track_caller]
    pub fn expand(&self, uid: &str, bytes: u64) {
        self.twice(&self.expansion(uid, bytes).each_ref().map(String::as_str));
    }

    #[track_caller]
    pub fn expand_fails(&self, uid: &str, bytes: u64) -> String {
        self.fails(&self.expansion(uid, bytes).each_ref().map(String::as_str))
    }

    /// At the pod's folder, as kubelet does for a pod that runs.
    fn expansion(&self, uid: &str, bytes: u64) -> [String; 6] {
        let (folder, new) = (text(&self.pod(uid)), bytes.to_string());
        ["expandfs".to_owned(), self.options(), self.link(), folder, new, "1".to_owned()]
    }
}

/// The size of the file system that is mounted at a folder.
pub fn size_at(folder: &Path) -> u64 {
    let found = statvfs(folder).unwrap();
    found.blocks() * found.fragment_size()
}

/// kubelet's `os.MkdirAll` with mode 0750.
fn make_folder(path: &Path) {
    fs::DirBuilder::new().recursive(true).mode(0o750).create(path).expect("kubelet's folder");
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}
