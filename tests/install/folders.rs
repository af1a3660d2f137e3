//! Where things go: kubelet's plugin folder, and all else below `DESTDIR`.

use crate::machine::{Machine, fails, must};
use crate::support::DISK;
use incloud_disk::configuration::Config;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const USUAL: &str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";

/// Where `install` would put a driver on this machine, as seen in it.
#[track_caller]
fn folder_on(machine: &Machine) -> String {
    let said = must(&mut machine.command(["install", "--dry-run", "--binary", DISK]));
    let line = said.lines().find(|line| line.contains("under a hidden name into ")).unwrap();
    let path = line.split(" into ").nth(1).unwrap().split(", and").next().unwrap();
    let root = machine.base().join("root");
    format!("/{}", Path::new(path).strip_prefix(root).unwrap().display())
}

#[test]
fn a_running_kubelet_says_where() {
    for (arguments, file, wanted) in [
        (&["/usr/bin/kubelet", "--v=2"][..], "", USUAL),
        (&["kubelet", "--volume-plugin-dir", "/opt/b c", "--v=2"], "", "/opt/b c"),
        (&["kubelet", "--config=/etc/k"], "volumePluginDir: /opt/d  # why\nb: 2\n", "/opt/d"),
    ] {
        let machine = Machine::new();
        fs::create_dir_all(machine.at("etc")).unwrap();
        fs::write(machine.at("etc/k"), file).unwrap();
        machine.runs(7, "systemd", &["systemd", "--volume-plugin-dir=/opt/none"]);
        machine.runs(70, "kubelet", arguments);
        assert_eq!(folder_on(&machine), wanted, "{arguments:?} {file:?}");
    }
}

#[test]
fn where_kubelet_is_in_doubt_a_person_decides() {
    let machine = Machine::new();
    machine.runs(8, "kubelet", &["kubelet", "--config=/etc/none"]);
    let words = ["install", "--dry-run", "--binary", DISK];
    assert!(fails(&mut machine.command(words)).contains("cannot be read"));
    machine.runs(8, "kubelet", &["kubelet", "--volume-plugin-dir=/opt/a"]);
    // Of several each is named, by what tells it from the others.
    machine.runs(
        9,
        "hyperkube",
        &["hyperkube", "kubelet", "--volume-plugin-dir=/opt/b", "--root-dir=/k"],
    );
    let said = fails(&mut machine.command(words));
    assert!(said.contains("several kubelets") && said.contains("--plugin-dir DIR"), "{said}");
    for kubelet in [
        "process 8: plugin folder /opt/a (its flag --volume-plugin-dir), root /var/lib/kubelet",
        "process 9: plugin folder /opt/b (its flag --volume-plugin-dir), root /k",
    ] {
        assert!(said.contains(kubelet), "{kubelet}: {said}");
    }
}

#[test]
fn a_read_only_system_gets_the_other_folder() {
    let machine = Machine::new();
    let usr = machine.at("usr");
    let usr = usr.to_str().unwrap();
    for (mounts, wanted) in [
        (&[("/", "rw"), (usr, "ro")][..], "/var/lib/kubelet/volume-plugins"),
        (&[("/", "ro"), (usr, "rw")], USUAL),
        (&[("/", "rw"), (usr, "ro"), (usr, "rw")], USUAL),
        (&[("/", "ro")], "/var/lib/kubelet/volume-plugins"),
        (&[("/", "rw"), (&usr[..usr.len() - 1], "ro")], USUAL),
    ] {
        machine.mounted(mounts);
        assert_eq!(folder_on(&machine), wanted, "{mounts:?}");
    }
}

#[test]
fn all_but_the_plugin_folder_is_below_destdir() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    must(machine.put("install", &driver).args([
        "--cloud",
        "openstack",
        "--kubelet-root",
        "/k/a&b",
    ]));
    let text = fs::read_to_string(machine.config()).unwrap();
    let config = Config::parse(&text, "x").unwrap();
    assert!(text.contains("\nkind = \"openstack\"\n"), "{text}");
    assert_eq!(config.paths.kubelet_root.as_deref(), Some(Path::new("/k/a&b")));
    let mode = fs::metadata(machine.config()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(machine.at("var/log/incloud-volume").is_dir());
    assert!(machine.at("var/lib/incloud-disk/installed").is_file());
    let mut names = crate::machine::names_in(machine.base());
    names.sort();
    assert_eq!(names, ["driver-a", "plugins", "proc", "release", "root"]);
    // A person's configuration is never written again.
    fs::write(machine.config(), "# mine\n").unwrap();
    must(machine.put("upgrade", &machine.make_driver("b")).args(["--cloud", "local"]));
    assert_eq!(fs::read_to_string(machine.config()).unwrap(), "# mine\n");
}

#[test]
fn without_a_choice_no_cloud_is_chosen() {
    let machine = Machine::new();
    let said = must(&mut machine.put("install", &machine.make_driver("a")));
    assert!(said.contains("no cloud is chosen"), "{said}");
    let text = fs::read_to_string(machine.config()).unwrap();
    assert!(Config::parse(&text, "x").is_ok() && !text.contains("\nkind = "), "{text}");
}

#[test]
fn an_image_made_with_destdir_knows_its_own_folders() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    let words = ["install", "--binary", driver.to_str().unwrap()];
    must(&mut machine.command(words));
    assert!(machine.at(&USUAL[1..]).join("incloud~disk/disk").is_file());
    let noted = fs::read_to_string(machine.at("var/lib/incloud-disk/installed")).unwrap();
    assert!(noted.contains(&format!("\nplugin_dir={USUAL}\n")), "{noted}");
    must(&mut machine.command(["verify"]));
    let pages = fs::read_to_string(machine.at("var/lib/incloud-disk/pages")).unwrap();
    assert!(pages.contains("\n/usr/local/share/man/man8/disk.8\n"), "{pages}");
    assert!(!pages.contains(machine.base().to_str().unwrap()), "{pages}");
    must(&mut machine.command(["uninstall"]));
    assert!(!machine.at("usr/local/share/man/man8/disk.8").exists());
}

#[test]
fn a_dry_run_changes_nothing() {
    let machine = Machine::new();
    let (old, new) = (machine.make_driver("a"), machine.make_driver("b"));
    must(machine.put("install", &old).arg("--dry-run"));
    assert!(!machine.base().join("root").exists() && !machine.driver().exists());
    machine.installed(&old);
    for mut command in [
        machine.put("upgrade", &new),
        machine.command(["uninstall", "--purge"]),
        machine.command(["uninstall"]),
    ] {
        let said = must(command.arg("--dry-run"));
        assert!(said.contains("would be next"), "{said}");
        assert!(crate::machine::is_same(&machine.driver(), &old));
    }
    assert!(
        fails(machine.put("upgrade", Path::new("/bin/false")).arg("--dry-run")).contains("refused")
    );
    must(&mut machine.command(["verify"]));
}
