//! The binary without libraries, in a root that holds nothing else: a controller-manager's
//! container.

use crate::support::{Answer, Node, copy_program, options, skip};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty root with the binary, its configuration beside it, and the cloud's folder.
struct EmptyRoot {
    root: PathBuf,
}

impl EmptyRoot {
    fn of(node: &Node, binary: &Path) -> Self {
        let root = node.base().join("root");
        let plugin = root.join("plugin");
        fs::create_dir_all(&plugin).unwrap();
        fs::create_dir(root.join("cloud")).unwrap();
        copy_program(binary, plugin.join("disk"));
        let config = "cloud.kind = \"local\"\nlocal.dir = \"/cloud\"\nnode.name = \"master\"\n";
        fs::write(plugin.join(".config.toml"), config).unwrap();
        let cloud = node.base().join("cloud");
        let bind = nix::mount::MsFlags::MS_BIND;
        nix::mount::mount(Some(&cloud), &root.join("cloud"), None::<&str>, bind, None::<&str>)
            .unwrap();
        Self { root }
    }

    #[allow(unsafe_code)]
    fn call(&self, arguments: &[&str]) -> Value {
        use std::os::unix::process::CommandExt;
        let root = self.root.clone();
        let mut command = Command::new("/plugin/disk");
        command.args(arguments).env_clear().stdin(std::process::Stdio::null());
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
}

#[test]
fn it_works_in_an_empty_root() {
    let name = "it_works_in_an_empty_root";
    needs!(mounts);
    let Some(binary) = std::env::var_os("INCLOUD_DISK_STATIC") else {
        skip(name, "needs the static binary: INCLOUD_DISK_STATIC names none");
        return;
    };
    let node = Node::new();
    node.create("v1", "64M");
    let empty = EmptyRoot::of(&node, Path::new(&binary));
    let json = options("v1", "pv-1", "ext4");
    assert_eq!(empty.call(&["init"])["capabilities"]["attach"], true);

    let attached = empty.call(&["attach", &json, "worker-1"]);
    assert_eq!(attached["status"], "Success", "{attached}");
    assert_eq!(attached["device"], "/cloud/by-id/virtio-v1");
    assert_eq!(empty.call(&["isattached", &json, "worker-1"])["attached"], true);
    assert_eq!(empty.call(&["isattached", &json, "worker-2"])["attached"], false);
    assert_eq!(empty.call(&["detach", "pv-1", "worker-1"])["status"], "Success");
    assert_eq!(empty.call(&["isattached", &json, "worker-1"])["attached"], false);

    // Of this machine nothing can be seen or made: no guess, a reason.
    for call in [&["attach", &json, "master"][..], &["waitforattach", "", &json]] {
        let here = empty.call(call);
        assert_eq!(here["status"], "Failure", "{call:?}: {here}");
        let message = here["message"].as_str().unwrap();
        assert!(message.contains("/sys/block"), "{here}");
        assert!(message.contains("beside their kernel"), "{here}");
    }
    assert_eq!(empty.call(&["isattached", &json, "master"])["attached"], false);
}
