//! The binary without libraries, in a root that holds next to nothing: a controller-manager's
//! container. It finds the cloud by its name and trusts the authority that is named.

use crate::names::{NameServer, in_a_network_of_its_own};
use crate::scene::{PV, access};
use crate::server::{Server, Tls, World};
use crate::support::{Answer, copy_program, options, skip};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const HOST: &str = "keystone.test";

fn binary() -> Option<PathBuf> {
    std::env::var_os("INCLOUD_DISK_STATIC").map(PathBuf::from)
}

/// Whether there is a static binary, and the right to use another root.
fn can_run(test: &str) -> bool {
    let reason = if !nix::unistd::geteuid().is_root() {
        "needs root"
    } else if binary().is_none() {
        "needs the static binary: INCLOUD_DISK_STATIC names none"
    } else {
        return true;
    };
    skip(test, reason);
    false
}

/// An empty root with the binary and its configuration beside it, and a cloud.
struct EmptyRoot {
    cloud: Server,
    volume: String,
    root: TempDir,
}

impl EmptyRoot {
    fn new() -> Self {
        let world = World::demo().server("node-b").volume("data", 1);
        let cloud = Server::start_with(world, Tls::for_host(HOST));
        let volume = cloud.world().volume_id("data");
        let root = TempDir::with_prefix("incloud-disk-").unwrap();
        let empty = Self { cloud, volume, root };
        empty.write("etc/ca.pem", empty.cloud.ca_pem());
        empty.write("etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
        empty.write("plugin/.config.toml", "");
        empty.configure("openstack.ca_file = \"/etc/ca.pem\"\n");
        copy_program(binary().unwrap(), empty.root.path().join("plugin/disk"));
        empty
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn configure(&self, more: &str) {
        let text = access(&self.cloud) + "node.name = \"master\"\ndeadline.attach = 5\n" + more;
        self.write("plugin/.config.toml", &text);
    }

    #[allow(unsafe_code)]
    fn call(&self, arguments: &[&str]) -> Value {
        use std::os::unix::process::CommandExt;
        let root = self.root.path().to_path_buf();
        let mut command = Command::new("/plugin/disk");
        command.args(arguments).env_clear().stdin(Stdio::null());
        // SAFETY: between fork and exec only chroot(2) and chdir(2) are made.
        unsafe {
            command.pre_exec(move || {
                nix::unistd::chroot(&root)?;
                nix::unistd::chdir("/")?;
                Ok(())
            });
        }
        Answer::of(command).json
    }

    fn options(&self) -> String {
        options(&self.volume, PV, "")
    }

    #[track_caller]
    fn attach_fails(&self) -> String {
        let answer = self.call(&["attach", &self.options(), "node-b"]);
        assert_eq!(answer["status"], "Failure", "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn attaches_and_detaches(&self) {
        let json = self.options();
        let attached = self.call(&["attach", &json, "node-b"]);
        assert_eq!(attached["status"], "Success", "{attached}");
        assert_eq!(self.call(&["isattached", &json, "node-b"])["attached"], true);
        let detached = self.call(&["detach", PV, "node-b"]);
        assert_eq!(detached["status"], "Success", "{detached}");
        assert_eq!(self.call(&["isattached", &json, "node-b"])["attached"], false);
    }
}

#[test]
fn it_finds_the_cloud_by_a_name_in_the_file_of_hosts() {
    let test = "it_finds_the_cloud_by_a_name_in_the_file_of_hosts";
    if !can_run(test) {
        return;
    }
    let empty = EmptyRoot::new();
    assert!(empty.cloud.auth_url().starts_with("https://keystone.test:"));
    empty.write("etc/hosts", "127.0.0.1\tlocalhost\n127.0.0.1 cloud.test keystone.test\n");
    empty.attaches_and_detaches();
}

#[test]
fn it_finds_the_cloud_by_a_name_that_only_a_name_server_knows() {
    let test = "it_finds_the_cloud_by_a_name_that_only_a_name_server_knows";
    if !can_run(test) {
        return;
    }
    in_a_network_of_its_own(test, || {
        let names = NameServer::of(HOST);
        let empty = EmptyRoot::new();
        empty.write("etc/hosts", "127.0.0.1 localhost\n");
        empty.attaches_and_detaches();
        assert!(names.was_asked());
    });
}

#[test]
fn without_any_authority_it_says_which_key_is_missing() {
    if !can_run("without_any_authority_it_says_which_key_is_missing") {
        return;
    }
    let empty = EmptyRoot::new();
    empty.write("etc/hosts", "127.0.0.1 keystone.test\n");
    empty.configure("");
    let message = empty.attach_fails();
    assert!(message.contains("certificates") && message.contains("openstack.ca_file"), "{message}");
    empty.configure("openstack.insecure = true\n");
    empty.attaches_and_detaches();
}
