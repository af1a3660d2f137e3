//! Another maker's driver is replaced only by one that is ready on this machine. The machine is a root of its
//! own with the real kernel's files in it, and the local cloud.

use crate::machine::text_of;
use crate::node::Scene;
use crate::support::old_kernel::on_an_old_kernel;
use crate::support::sysfs::{self as made_up, Bus, ISCSI, UNLISTED};
use crate::support::{DISK, copy_program, detach_loops_below, private_mounts, write_program};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "#!/bin/sh\necho '{\"status\":\"Success\"}'\n";
const VOLUME: &str = "8b0cc218-640f-44f3-8288-d7b57835a084";
const PV: &str = "pvc-1";

/// A machine on which another maker's driver is in place.
struct Node {
    scene: Scene,
    places: Vec<PathBuf>,
}

impl Node {
    fn new() -> Self {
        let scene = Scene::new();
        let mut node = Self { scene, places: Vec::new() };
        for folder in ["proc", "sys", "dev"] {
            let place = node.root().join(folder);
            fs::create_dir(&place).unwrap();
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(&Path::new("/").join(folder)), &place, None::<&str>, flags, None::<&str>)
                .unwrap();
            node.places.push(place);
        }
        hide_kubelets(&node.root().join("proc"));
        copy_program(DISK, node.root().join("usr/disk"));
        node.write("usr/libexec/kubernetes/kubelet-plugins/volume/exec/incloud~disk/disk", SCRIPT);
        node
    }

    fn root(&self) -> PathBuf {
        self.scene.root()
    }

    fn config(&self) -> PathBuf {
        self.root().join("etc/incloud-disk/config.toml")
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_program(&path, text);
        path
    }

    /// A configuration of the local cloud, outside of the machine's root as an image has it.
    fn brought(&self, more: &str) -> String {
        let path = self.root().parent().unwrap().join("brought.toml");
        let text = format!("[cloud]\nkind = \"local\"\n[node]\nname = \"n1\"\n{more}");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The driver on the machine, with what the local cloud of it needs.
    #[track_caller]
    fn disk(&self, words: &[&str]) -> String {
        let config = self.write("run/c.toml", "[cloud]\nkind = \"local\"\n[node]\nname = \"n1\"\n");
        let mut command = Command::new("chroot");
        command.arg(self.root()).arg("/usr/disk").args(words);
        let output = command.env("INCLOUD_DISK_CONFIG", "/run/c.toml").output().unwrap();
        fs::remove_file(config).unwrap();
        assert!(output.status.success(), "{words:?}: {}", text_of(&output));
        text_of(&output)
    }

    /// A volume that the predecessor mounted: nothing of it is remembered.
    #[track_caller]
    fn mounted_volume(&mut self) -> PathBuf {
        self.disk(&["local", "create", VOLUME, "--size", "64M"]);
        let options = format!(
            "{{\"kubernetes.io/pvOrVolumeName\":\"{PV}\",\"kubernetes.io/readwrite\":\"rw\",\"volumeID\":\"{VOLUME}\"}}"
        );
        self.disk(&["attach", &options, "n1"]);
        let link =
            self.root().join(format!("var/lib/incloud-disk/local/by-id/virtio-{}", &VOLUME[..20]));
        let device = fs::read_link(link).unwrap();
        for folder in ["volumes", "names"] {
            let _ = fs::remove_dir_all(self.root().join("var/lib/incloud-disk").join(folder));
        }
        let _ = fs::remove_dir_all(self.root().join("run/incloud-disk"));
        let made = Command::new("mkfs.ext4").arg("-q").arg(&device).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let place = self.root().join(format!(
            "var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/{PV}"
        ));
        fs::create_dir_all(&place).unwrap();
        mount(Some(&device), &place, Some("ext4"), MsFlags::empty(), None::<&str>).unwrap();
        self.places.push(place);
        device
    }

    /// `install` with these words; its exit status and what it said.
    fn install(&self, words: &[&str]) -> (i32, String) {
        let output = self.scene.run(&[&["install"], words].concat());
        (output.status.code().unwrap(), text_of(&output))
    }

    /// `install` fails with these words; all that it said.
    #[track_caller]
    fn refuses(&self, words: &[&str], wanted: &str) -> String {
        let (status, said) = self.install(words);
        assert!(status == 1 && said.contains(wanted), "{said}");
        said
    }

    /// `install` succeeds with these words; all that it said.
    #[track_caller]
    fn takes(&self, words: &[&str], wanted: &str) -> String {
        let (status, said) = self.install(words);
        assert!(status == 0 && said.contains(wanted), "{said}");
        said
    }

    /// The predecessor is there, and nothing else.
    #[track_caller]
    fn is_unchanged(&self, said: &str) {
        assert!(said.contains("refused, nothing was changed"), "{said}");
        assert_eq!(fs::read_to_string(self.scene.driver()).unwrap(), SCRIPT);
        assert!(!self.config().exists());
        let folder = self.scene.driver();
        let names = crate::machine::names_in(folder.parent().unwrap());
        assert_eq!(names, ["disk"]);
        let state = self.root().join("var/lib/incloud-disk");
        let left = crate::machine::names_in(&state);
        let left: Vec<_> = left
            .iter()
            .filter(|name| !["local", ".install.lock"].contains(&name.as_str()))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A kubelet of the machine that plays the tests has mounts of which this machine knows nothing. What covers it goes
/// with the folder of processes.
fn hide_kubelets(proc: &Path) {
    for process in fs::read_dir(proc).unwrap().flatten().map(|entry| entry.path()) {
        let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
        let called = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        if name.trim_end() == "kubelet" || called.ends_with(b"/kubelet") || called == b"kubelet" {
            mount(Some("hidden"), &process, Some("tmpfs"), MsFlags::MS_RDONLY, None::<&str>)
                .unwrap();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for place in self.places.iter().rev() {
            let _ = umount2(place, MntFlags::MNT_DETACH);
        }
        detach_loops_below(&self.root());
    }
}

#[test]
fn without_a_configuration_or_credentials_the_predecessor_stays() {
    if !private_mounts("without_a_configuration_or_credentials_the_predecessor_stays") {
        return;
    }
    let node = Node::new();
    for (words, wanted) in [
        (
            &[][..],
            &["there is no /etc/incloud-disk/config.toml yet", "to do: write one, and name it"][..],
        ),
        (&["--cloud", "openstack"], &["there is no /etc/", "to do: write one"]),
    ] {
        let (status, said) = node.install(words);
        assert_eq!(status, 1, "{said}");
        assert!(wanted.iter().all(|one| said.contains(one)), "{said}");
        assert!(said.contains("--although-not-ready"), "{said}");
        node.is_unchanged(&said);
        // The plan says it too.
        let (status, said) = node.install(&[words, &["--dry-run"]].concat());
        assert!(status == 1 && wanted.iter().all(|one| said.contains(one)), "{said}");
    }
    // What is there, and lacks the credentials.
    node.write("etc/incloud-disk/config.toml", "[cloud]\nkind = \"openstack\"\n");
    let said = node.refuses(&[], "to do: write [openstack]");
    fs::remove_file(node.config()).unwrap();
    node.is_unchanged(&said);
    // One that cannot be read, and one that names a cloud that does not answer.
    let brought = node.brought("kynd = 1\n");
    let said = node.refuses(&["--config", &brought], "brought.toml: line 5");
    node.is_unchanged(&said);
    let brought = node.root().parent().unwrap().join("other.toml");
    let text = "[cloud]\nkind = \"openstack\"\n[openstack]\nauth_url = \"http://127.0.0.1:9/v3\"\n\
                user_id = \"u\"\npassword = \"s3cret\"\nproject_id = \"p\"\nmetadata_url = \"none\"\n";
    fs::write(&brought, text).unwrap();
    let (status, said) = node.install(&["--config", brought.to_str().unwrap()]);
    assert!(status == 1 && said.contains("cloud: ") && said.contains("to do: "), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
    node.is_unchanged(&said);
    // In any case: with what it costs said, and the verdict at the end.
    let (status, said) = node.install(&["--cloud", "openstack", "--although-not-ready"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("takes its place all the same"), "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("disk: the driver is in place, and not well")),
        "{said}"
    );
    let output = node.scene.run(&["verify"]);
    let said = text_of(&output);
    assert!(output.status.success() && said.contains("as installed: disk "), "{said}");
    assert!(said.contains("calls that need the cloud fail: no OpenStack credentials"), "{said}");
}

#[test]
fn a_configuration_is_tried_and_installed_for_root_alone() {
    if !private_mounts("a_configuration_is_tried_and_installed_for_root_alone") {
        return;
    }
    let node = Node::new();
    let brought = node.brought("");
    node.takes(&["--config", &brought, "--dry-run"], "it would set: cloud.kind, node.name");
    assert!(!node.config().exists());
    let (status, said) = node.install(&["--config", &brought]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("it is ready"), "{said}");
    // Which other processes are told by their ends: the last line is the doctor's.
    let last = said.lines().last().unwrap();
    assert!(last.contains("the driver is in place"), "{said}");
    let found = fs::metadata(node.config()).unwrap();
    assert_eq!((found.mode() & 0o777, found.uid()), (0o600, 0));
    assert_eq!(fs::read(node.config()).unwrap(), fs::read(&brought).unwrap());
    // The same again is nothing new; another one must be told.
    node.takes(&["--config", &brought], "stays as it is");
    let old = fs::read(&brought).unwrap();
    let brought = node.brought("server_id = \"b\"\n[log]\nlevel = \"debug\"\n");
    let (status, said) = node.install(&["--config", &brought]);
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("log.level: only in the new one") && said.contains("--replace-config"),
        "{said}"
    );
    assert_eq!(fs::read(node.config()).unwrap(), old);
    let (status, said) = node.install(&["--config", &brought, "--replace-config"]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(fs::read(node.config()).unwrap(), fs::read(&brought).unwrap());
    let before = node.config().with_file_name("config.toml.before");
    assert_eq!(fs::read(&before).unwrap(), old);
    // What cannot be read is told at an upgrade, and does not hold it up.
    fs::write(node.config(), "[cloud]\nkind = \"azure\"\n").unwrap();
    let output = node.scene.run(&["upgrade"]);
    let said = text_of(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the configuration is not right") && said.contains("line 2"), "{said}");
}

#[test]
fn each_mounted_volume_must_be_known_here_and_its_own() {
    if !private_mounts("each_mounted_volume_must_be_known_here_and_its_own") {
        return;
    }
    let mut node = Node::new();
    let device = node.mounted_volume();
    let brought = node.brought("");
    node.takes(&["--config", &brought, "--dry-run"], "it is ready");

    // Another node's name: the cloud has the volume elsewhere.
    let other = node.root().parent().unwrap().join("other.toml");
    fs::write(&other, "[cloud]\nkind = \"local\"\n[node]\nname = \"n2\"\n").unwrap();
    let (status, said) = node.install(&["--config", other.to_str().unwrap()]);
    assert!(status == 1 && said.contains("volumes: ") && said.contains(PV), "{said}");
    node.is_unchanged(&said);

    // A cloud that does not know it.
    fs::write(
        &other,
        "[cloud]\nkind = \"local\"\n[local]\ndir = \"/var/other\"\n[node]\nname = \"n1\"\n",
    )
    .unwrap();
    let (status, said) = node.install(&["--config", other.to_str().unwrap()]);
    assert!(status == 1 && said.contains("volumes: ") && said.contains(PV), "{said}");
    node.is_unchanged(&said);

    // Something that is no volume's, in a folder of kubelet's.
    let strange = node.root().join("var/lib/kubelet/pods/0b5c-1/volumes/incloud~disk/pvc-2");
    fs::create_dir_all(&strange).unwrap();
    mount(Some("tmpfs"), &strange, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    node.places.push(strange.clone());
    let said = node.refuses(&["--config", &brought], "pvc-2 cannot be told");
    node.is_unchanged(&said);
    umount2(&strange, MntFlags::MNT_DETACH).unwrap();

    node.takes(&["--config", &brought], "it is ready");
    let kept = node.root().join("var/lib/incloud-disk/predecessor/incloud~disk/disk");
    assert_eq!(fs::read_to_string(kept).unwrap(), SCRIPT);
    // The mount was not touched.
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let wanted = format!("{} ", device.display());
    assert!(table.lines().any(|line| line.contains(PV) && line.contains(&wanted)), "{table}");
}

/// On a kernel as old as those of the clusters where such drivers are.
#[test]
fn it_is_tried_and_replaced_on_an_old_kernel() {
    if !private_mounts("it_is_tried_and_replaced_on_an_old_kernel") {
        return;
    }
    let mut node = Node::new();
    node.mounted_volume();
    let config = node.brought("");
    let run = |words: &[&str]| {
        let output = on_an_old_kernel(node.scene.command(words)).output().unwrap();
        (output.status.code().unwrap(), text_of(&output))
    };
    let (status, said) = run(&["install"]);
    assert_eq!(status, 1, "{said}");
    node.is_unchanged(&said);
    let (status, said) = run(&["install", "--config", &config]);
    assert!(status == 0 && said.contains("it is ready"), "{said}");
    assert_ne!(fs::read(node.scene.driver()).unwrap(), SCRIPT.as_bytes());
    let kept = node.root().join("var/lib/incloud-disk/predecessor/incloud~disk/disk");
    assert_eq!(fs::read_to_string(kept).unwrap(), SCRIPT);
    let run = node.root().join("run");
    assert!(!crate::machine::names_in(&run).iter().any(|name| name.contains("config")), "a secret");
}

/// What kubelet and its controller-manager were told is shown; a person takes it by its name.
#[test]
fn a_cloud_conf_is_found_shown_and_taken_when_it_is_named() {
    if !private_mounts("a_cloud_conf_is_found_shown_and_taken_when_it_is_named") {
        return;
    }
    let node = Node::new();
    let conf = "[Global]\nauth-url = http://127.0.0.1:9/v3\nusername = disk\npassword = s3cret\n\
                tenant-name = shop\ndomain-name = Default\n";
    node.write("etc/kubernetes/cloud.conf", conf);
    let beside = "usr/libexec/kubernetes/kubelet-plugins/volume/exec/incloud~disk/cloud.conf";
    node.write(beside, conf);
    // A process table with a kubelet in it.
    let proc = node.root().join("run/proc");
    fs::create_dir_all(proc.join("7")).unwrap();
    fs::create_dir_all(proc.join("self")).unwrap();
    std::os::unix::fs::symlink("/", proc.join("7/root")).unwrap();
    fs::write(proc.join("7/comm"), "kubelet\n").unwrap();
    fs::write(proc.join("7/cmdline"), "kubelet\0--cloud-config=/etc/kubernetes/cloud.conf\0")
        .unwrap();
    let status = "Uid:\t0\t0\t0\t0\nNSpid:\t7\nCapEff:\t000001ffffffffff\n";
    fs::write(proc.join("7/status"), status).unwrap();
    for process in ["7", "self"] {
        fs::write(proc.join(process).join("mountinfo"), "1 0 8:1 / / rw - ext4 /dev/vda1 rw\n")
            .unwrap();
    }
    let install = |words: &[&str]| {
        let mut command = node.scene.command(&[&["install"], words].concat());
        let output = command.env("INSTALL_PROC", "/run/proc").output().unwrap();
        (output.status.code().unwrap(), text_of(&output))
    };
    let (status, said) = install(&[]);
    assert_eq!(status, 1, "{said}");
    for wanted in [
        "kubelet (process 7) has --cloud-config=/etc/kubernetes/cloud.conf; to take it: --cloud-config /etc/kubernetes/cloud.conf",
        "incloud~disk/cloud.conf; to take it: --cloud-config",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(!node.config().exists());
    let (status, said) = install(&["--cloud-config", "/etc/kubernetes/cloud.conf", "--dry-run"]);
    assert!(
        status == 1 && said.contains("auth-url http://127.0.0.1:9/v3, user disk, project shop"),
        "{said}"
    );
    assert!(said.contains("cloud: ") && !said.contains("s3cret"), "{said}");
    let (status, said) =
        install(&["--cloud-config", &format!("/{beside}"), "--although-not-ready"]);
    assert_eq!(status, 0, "{said}");
    let text = fs::read_to_string(node.config()).unwrap();
    assert!(text.contains("\ncloud_conf = \"/etc/incloud-disk/cloud.conf\"\n"), "{text}");
    // What lies in the plugin folder goes with the driver that it was for.
    let copy = node.config().with_file_name("cloud.conf");
    assert_eq!(fs::read_to_string(&copy).unwrap(), conf);
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o600);
    // The same again is nothing new; another one must be told.
    let beside_now = format!("/{beside}");
    node.write(beside, &conf.replace("s3cret", "0ther"));
    let (status, said) = install(&["--cloud-config", &beside_now]);
    assert!(status == 1 && said.contains("--replace-config") && !said.contains("0ther"), "{said}");
    let (status, said) = install(&["--cloud-config", &beside_now, "--replace-config", "--dry-run"]);
    assert!(status == 0 && said.contains("would be next: copying"), "{said}");
    assert_eq!(fs::read_to_string(&copy).unwrap(), conf);
    let (status, said) = install(&["--cloud-config", "/etc/kubernetes/none"]);
    assert!(status == 1 && said.contains("none"), "{said}");
}

/// As two files bring them in a pod: the one holds what is secret, the other all else.
#[test]
fn credentials_are_tried_and_kept_beside_the_configuration_that_names_them() {
    if !private_mounts("credentials_are_tried_and_kept_beside_the_configuration_that_names_them") {
        return;
    }
    let node = Node::new();
    let folder = node.root().parent().unwrap().to_owned();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let conf = "[Global]\nauth-url = http://127.0.0.1:9/v3\nusername = disk\npassword = s3cret\n\
                tenant-name = shop\ndomain-name = Default\n";
    fs::write(path("secret.conf"), conf).unwrap();
    fs::write(path("no.conf"), "[Storage]\n").unwrap();
    let text = "[cloud]\nkind = \"openstack\"\n[openstack]\nmetadata_url = \"none\"\n";
    fs::write(path("without.toml"), text).unwrap();
    let text = format!("{text}cloud_conf = \"/etc/incloud-disk/cloud.conf\"\n");
    fs::write(path("config.toml"), &text).unwrap();
    let (config, secret) = (path("config.toml"), path("secret.conf"));
    let kept = node.config().with_file_name("cloud.conf");
    // It is tried with these credentials, not with what is at that place by chance.
    let (status, said) = node.install(&["--config", &config, "--credentials", &secret]);
    assert!(status == 1 && said.contains("127.0.0.1:9") && !said.contains("s3cret"), "{said}");
    assert!(!said.contains("/proc/"), "{said}");
    node.is_unchanged(&said);
    for (words, wanted) in [
        (&["--config", &path("without.toml"), "--credentials", &secret][..], "does not name that"),
        (&["--config", &config, "--credentials", &path("no.conf")], "no auth-url"),
        (&["--config", &config, "--credentials", &path("none")], "there is no file"),
    ] {
        let (status, said) = node.install(words);
        assert!(status == 1 && said.contains(wanted), "{said}");
        assert!(!node.config().exists() && !kept.exists(), "{said}");
    }
    let both = ["--config", &config, "--credentials", &secret];
    let (status, said) = node.install(&[&both[..], &["--although-not-ready"]].concat());
    assert!(status == 0 && !said.contains("s3cret"), "{said}");
    assert_eq!(fs::read_to_string(node.config()).unwrap(), text);
    for (file, wanted) in [(&kept, conf), (&node.config(), &*text)] {
        assert_eq!(fs::read_to_string(file).unwrap(), wanted);
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o7777, 0o600);
    }
    // The same once more; then others, which a person must want: the old ones are kept.
    let (status, said) = node.install(&both);
    assert_eq!(status, 0, "{said}");
    let new = conf.replace("s3cret", "0ther");
    fs::write(&secret, &new).unwrap();
    let (status, said) = node.install(&["--credentials", &secret]);
    assert!(status == 1 && said.contains("--replace-config") && !said.contains("0ther"), "{said}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), conf);
    let wanted = ["--credentials", &secret, "--replace-config"];
    node.takes(&[&wanted[..], &["--dry-run"]].concat(), "would be next: keeping the old one");
    assert_eq!(fs::read_to_string(&kept).unwrap(), conf);
    let (status, said) = node.install(&wanted);
    assert_eq!(status, 0, "{said}");
    let before = node.config().with_file_name("cloud.conf.before");
    for (file, wanted) in [(&kept, &*new), (&before, conf)] {
        assert_eq!(fs::read_to_string(file).unwrap(), wanted);
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o7777, 0o600);
    }
    assert_eq!(fs::read_to_string(node.config()).unwrap(), text);
    // A configuration that does not name them makes them a lie, also where it was there before.
    fs::copy(path("without.toml"), node.config()).unwrap();
    node.refuses(&wanted, "/etc/incloud-disk/config.toml does not name");
}

/// Without room for the predecessor there is no way back: then it stays.
#[test]
fn a_full_disk_keeps_the_predecessor_in_its_place() {
    if !private_mounts("a_full_disk_keeps_the_predecessor_in_its_place") {
        return;
    }
    let mut node = Node::new();
    node.write(
        "usr/libexec/kubernetes/kubelet-plugins/volume/exec/incloud~disk/data",
        &"x".repeat(1 << 20),
    );
    let state = node.root().join("var/lib/incloud-disk");
    fs::create_dir_all(&state).unwrap();
    mount(Some("tmpfs"), &state, Some("tmpfs"), MsFlags::empty(), Some("size=512k")).unwrap();
    node.places.push(state.clone());
    let said = node.refuses(&["--config", &node.brought("")], "the old driver cannot be kept");
    fs::remove_file(node.scene.driver().with_file_name("data")).unwrap();
    node.is_unchanged(&said);
    let (status, said) = node.install(&["--config", &node.brought("")]);
    assert_eq!(status, 0, "{said}");
}

/// What a person names may be anything.
#[test]
fn what_is_no_configuration_is_refused() {
    if !private_mounts("what_is_no_configuration_is_refused") {
        return;
    }
    let node = Node::new();
    let folder = node.root().parent().unwrap().to_owned();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
    fs::write(path("bytes"), [0xff, 0xfe]).unwrap();
    for (name, wanted) in [
        ("pipe", "no regular file"),
        ("link", "there is no file"),
        ("none", "there is no file"),
        (".", "is a directory"),
        ("bytes", "no text"),
        ("/dev/zero", "no regular file"),
    ] {
        let (status, said) = node.install(&["--config", &path(name)]);
        assert!(status == 1 && said.to_lowercase().contains(wanted), "{name}: {said}");
    }
    // A link to one, as a Secret is mounted; and one that others may write.
    fs::remove_file(path("link")).unwrap();
    let brought = node.brought("");
    std::os::unix::fs::symlink(&brought, path("link")).unwrap();
    fs::set_permissions(&brought, fs::Permissions::from_mode(0o666)).unwrap();
    node.takes(&["--config", &path("link")], "others may write");
    assert_eq!(fs::metadata(node.config()).unwrap().mode() & 0o777, 0o600);
    assert!(!node.config().is_symlink());
}

/// A volume on such a disk is mounted now, and could not be mounted again: a person learns that before.
#[test]
fn disks_that_the_new_driver_would_not_use_are_named_before_it_is_installed() {
    if !private_mounts("disks_that_the_new_driver_would_not_use_are_named_before_it_is_installed") {
        return;
    }
    let mut node = Node::new();
    let sysfs = node.root().join("made-up");
    let id = b"6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
    for (name, number, bus) in [
        ("sda", &b"8:0"[..], UNLISTED),
        ("sdb", b"8:16", ISCSI),
        ("sdc", b"8:32", Bus::usual("sdc")),
    ] {
        let files: [(&str, &[u8]); 4] =
            [("dev", number), ("size", b"2048"), ("ro", b"0"), ("device/wwid", id)];
        made_up::disk(&sysfs, name, bus, &files).unwrap();
    }
    let place = node.root().join("sys");
    mount(Some(&sysfs), &place, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    node.places.push(place);
    let brought = node.root().parent().unwrap().join("brought.toml");
    let text = "[cloud]\nkind = \"openstack\"\n[openstack]\nauth_url = \"http://127.0.0.1:1/v3\"\n\
                username = \"disk\"\npassword = \"p\"\nuser_domain_name = \"d\"\nproject_id = \"x\"\n";
    fs::write(&brought, text).unwrap();
    fs::set_permissions(&brought, fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["--config", brought.to_str().unwrap(), "--dry-run"];
    let names_them = |said: &str| {
        assert!(said.contains("transports: sda (8:0)"), "{said}");
        assert!(said.contains("\"scsi-scsi_debug\" to disks.transports"), "{said}");
        assert!(said.contains("transports: sdb (8:16)") && said.contains("iscsi"), "{said}");
        assert!(!said.contains("sdc"), "{said}");
    };
    let (status, said) = node.install(&words);
    assert_eq!(status, 1, "the cloud does not answer: {said}");
    names_them(&said);
    // The same where there is no other maker's driver, and no cloud is asked.
    fs::remove_file(node.scene.driver()).unwrap();
    let (status, said) = node.install(&words);
    assert_eq!(status, 0, "{said}");
    names_them(&said);
}
