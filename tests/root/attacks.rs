//! Attacks, each with who makes it and what it is to bring: by a user of the node without root, by the owner of
//! the metrics' folder, by a tenant with a disk of his making. Those of mounts and names are in `tenants`,
//! `forgery` and `misleading_names`.

use crate::checks::{digest, eventually, layers_at, only_mount_at};
use crate::files;
use crate::heal::{goes_on, pull, still_fails};
use crate::holders::run;
use crate::scene::{Scene, scene};
use crate::support::{Answer, DISK, Node, output_of, spawn, start};
use crate::tend::bring_back;
use crate::volume::{Volume, make_folder};
use nix::libc::{self, RLIM_INFINITY, RLIMIT_CORE, rlimit, setrlimit};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A user of the node who has no right at all.
const USER: u32 = 40_771;

/// A shell of that user's.
fn users_shell(script: &str, words: &[&Path]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "-"]).args(words).current_dir("/").uid(USER).gid(USER);
    command
}

/// The user does this, and it must be possible.
#[track_caller]
fn user_does(script: &str, words: &[&Path]) {
    let output = output_of(&mut users_shell(script, words));
    assert!(output.status.success(), "{script}: {output:?}");
}

/// What a file is: its bytes, its owner, its mode.
fn facts(path: &Path) -> (Vec<u8>, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (files::read(path).unwrap(), found.uid(), found.mode())
}

/// A node whose folders every user may walk into, as those of a machine.
fn open_node() -> Node {
    let node = Node::new();
    fs::set_permissions(node.base(), Permissions::from_mode(0o755)).unwrap();
    node
}

fn measured(node: &Node) -> PathBuf {
    let folder = node.base().join("textfile");
    fs::create_dir(&folder).unwrap();
    node.configure(&format!("[metrics]\ntextfile = '{}/incloud_disk.prom'", folder.display()));
    folder
}

/// WHO: the user of `node_exporter`, whom the metrics' folder belongs to. WHAT: root is to write to a file of
/// its own, through a link or a name that he put there.
#[test]
fn the_owner_of_the_metrics_folder_steers_no_write_of_roots() {
    needs!(mounts);
    let node = open_node();
    let folder = measured(&node);
    chown(&folder, Some(USER), Some(USER)).unwrap();
    let victim = node.base().join("victim");
    files::write(&victim, "root's own").unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o644)).unwrap();
    let before = facts(&victim);
    let page = folder.join("incloud_disk.prom");
    let volume = Volume::create(&node, "ext4", "16M");
    for name in [".incloud_disk.prom.new", "incloud_disk.prom"] {
        let place = folder.join(name);
        let user_puts = |script: &str| {
            let _ = fs::remove_file(&place);
            user_does(script, &[&place, &victim]);
        };
        let puts: [&dyn Fn(); 4] = [
            &|| user_puts("ln -s \"$2\" \"$1\""),
            &|| user_puts("ln -s \"$2.is-to-be-made\" \"$1\""),
            &|| user_puts("mkfifo \"$1\""),
            // As a machine without fs.protected_hardlinks lets him.
            &|| {
                let _ = fs::remove_file(&place);
                fs::hard_link(&victim, &place).unwrap();
            },
        ];
        for (nth, put) in puts.iter().enumerate() {
            put();
            node.must(volume.is_attached());
            assert_eq!(facts(&victim), before, "{name}, {nth}");
            assert!(!node.base().join("victim.is-to-be-made").exists(), "{name}, {nth}");
            let found = fs::symlink_metadata(&page).unwrap();
            assert!(found.is_file() && found.nlink() == 1, "{name}, {nth}: {found:?}");
            assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o644), "{name}, {nth}");
            assert!(files::read_to_string(&page).unwrap().contains("incloud_disk_calls_total"));
            assert!(!folder.join(".incloud_disk.prom.new").exists(), "{name}, {nth}");
        }
    }
}

fn writable_by_others(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let facts = entry.path().symlink_metadata().unwrap();
        if !facts.is_symlink() && facts.mode() & 0o022 != 0 {
            found.push(entry.path());
        }
        if facts.is_dir() {
            writable_by_others(&entry.path(), found);
        }
    }
}

/// WHO: a caller that runs with the mask 000, and a user who finds what it left. WHAT: he is to write into the
/// log, a record or the metrics.
#[test]
#[allow(unsafe_code)]
fn no_file_of_the_drivers_is_writable_by_others_whatever_the_callers_mask() {
    needs!(mounts);
    for mask in [0, 0o077] {
        let node = open_node();
        let folder = measured(&node);
        let volume = Volume::create(&node, "ext4", "16M");
        make_folder(&volume.global());
        for call in
            [volume.attach(), volume.wait(""), volume.stage(), volume.unstage(), volume.detach()]
        {
            let mut command = node.command(call);
            // SAFETY: one system call between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    libc::umask(mask);
                    Ok(())
                });
            }
            assert_eq!(Answer::of(command).json["status"], "Success");
        }
        let mut found = Vec::new();
        writable_by_others(&node.own(), &mut found);
        writable_by_others(&folder, &mut found);
        assert_eq!(found, Vec::<PathBuf>::new(), "mask {mask:o}");
        // The collector is another user, and reads it all the same.
        let page = fs::metadata(folder.join("incloud_disk.prom")).unwrap();
        assert_eq!(page.mode() & 0o777, 0o644, "mask {mask:o}");
    }
}

/// A call that stands still at its beginning.
#[allow(unsafe_code)]
fn held(node: &Node, words: &[String]) -> (std::process::Child, std::io::PipeReader, PathBuf) {
    let place = node.base().join("held");
    let mut command = node.command(words);
    command.env("INCLOUD_DISK_SEAM", format!("begin=hold:{}", place.display()));
    command.current_dir(node.base());
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let all = rlimit { rlim_cur: RLIM_INFINITY, rlim_max: RLIM_INFINITY };
            setrlimit(RLIMIT_CORE, &raw const all);
            Ok(())
        });
    }
    let (call, output) = spawn(command);
    eventually("the call stands still", || place.exists());
    (call, output, place)
}

fn workers_of(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// WHO: a user who reads the cores of a machine. WHAT: the token of the cloud, in the core of a call that crashed.
#[test]
fn a_crash_leaves_no_core() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let (mut call, output, place) = held(&node, &volume.is_attached());
    let workers = workers_of(call.id());
    assert_eq!(workers.len(), 1, "{workers:?}");
    for pid in workers.iter().copied().chain([call.id()]) {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[4..6], ["0", "0"], "{line}");
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(call.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGABRT).unwrap();
    let status = call.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    assert!(!status.core_dumped(), "{status:?}");
    fs::remove_file(place).unwrap();
    drop(output);
}

/// WHO: a user of the node without root. WHAT: he calls the driver himself, to mount, unmount or detach; reads
/// what it keeps; ends it while it works.
#[test]
fn a_user_who_calls_reads_or_signals_the_driver_gets_nothing() {
    needs!(mounts, seams);
    let node = open_node();
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring();
    let was = only_mount_at(&volume.global());
    fs::set_permissions(node.config_path(), Permissions::from_mode(0o600)).unwrap();
    let found = fs::metadata(DISK).unwrap();
    assert_eq!(found.mode() & 0o6000, 0, "the program gives no right to its caller");

    // A copy, for the build's folder may be closed to him.
    let copy = node.base().join("disk");
    run("cp", &[DISK, copy.to_str().unwrap()]);
    let as_user = |words: &[String], config: &Path| {
        let mut command = Command::new(&copy);
        command.args(words).env("INCLOUD_DISK_CONFIG", config).stdin(Stdio::null());
        command.current_dir("/").uid(USER).gid(USER);
        command
    };
    // With the machine's configuration, and with one of his own that names the machine's folders.
    let own = node.base().join("own.toml");
    fs::copy(node.config_path(), &own).unwrap();
    chown(&own, Some(USER), Some(USER)).unwrap();
    for config in [node.config_path(), &own] {
        for call in [volume.attach(), volume.stage(), volume.unstage(), volume.detach()] {
            let answer = Answer::of(as_user(&call, config));
            assert_eq!(answer.json["status"], "Failure", "{call:?}: {}", answer.text);
        }
        for verb in [&["release"][..], &["detach", "--force"], &["heal"], &["format", "--yes"]] {
            let words = verb.iter().map(|word| (*word).to_owned()).chain([volume.id.clone()]);
            let output = output_of(&mut as_user(&words.collect::<Vec<_>>(), config));
            assert!(!output.status.success(), "{verb:?}: {output:?}");
        }
        assert_eq!(only_mount_at(&volume.global()), was);
        assert_eq!(node.must(volume.is_attached())["attached"], true);
    }

    // What it keeps is for root.
    for path in
        [node.config_path(), &volume.record_path(), &volume.boot_record_path(), &volume.image()]
    {
        let output = output_of(&mut users_shell("cat -- \"$1\" >/dev/null", &[path]));
        assert!(!output.status.success(), "{}", path.display());
    }
    // What stands in its folders he can neither replace nor add to.
    for folder in ["state", "run", "log"].map(|name| node.own().join(name)) {
        let output = output_of(&mut users_shell("ln -s /etc/passwd \"$1/x\"", &[&folder]));
        assert!(!output.status.success(), "{}", folder.display());
    }

    let (mut call, output, place) = held(&node, &volume.is_attached());
    let pid = call.id().to_string();
    for signal in ["KILL", "TERM", "STOP"] {
        let script = format!("kill -{signal} \"$1\"");
        let output = output_of(&mut users_shell(&script, &[Path::new(&pid)]));
        assert!(!output.status.success(), "{signal}: {output:?}");
    }
    let script = "cat \"/proc/$1/environ\" || ls \"/proc/$1/fd\" || cat \"/proc/$1/maps\"";
    let read = output_of(&mut users_shell(script, &[Path::new(&pid)]));
    assert!(!read.status.success(), "{read:?}");
    fs::remove_file(place).unwrap();
    assert!(call.wait().unwrap().success());
    drop(output);
    volume.ends();
}

/// WHO: a user whose processes have the names of kubelet, of a runtime and of mkfs. WHAT: they are to count as
/// these: to keep a volume from being taken away, or to be believed.
#[test]
fn a_process_of_a_users_that_is_named_as_the_machines_decides_nothing() {
    needs!(mounts);
    let node = open_node();
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring();
    let mut named = Vec::new();
    for name in ["kubelet", "containerd-shim", "runc", "conmon", "mkfs.ext4", "disk", "pause"] {
        let program = node.base().join(name);
        run("cp", &["/bin/sleep", program.to_str().unwrap()]);
        let mut command = Command::new(&program);
        command.arg("300").uid(USER).gid(USER).current_dir("/");
        named.push(start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())));
    }
    node.must(volume.unstage());
    assert_eq!(layers_at(&volume.global()), 0);
    node.must(volume.detach());
    for mut child in named {
        // None was taken for a process of the driver's and ended.
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// What stands at the beginning of a disk, by what it is called.
type Hostile = (&'static str, fn(&mut [u8]));

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

/// Marks with numbers that no maker writes: sizes, counts and places at the end of what a number can be.
const HOSTILE: [Hostile; 9] = [
    ("ext4, blocks of 2^4294967305 bytes", |disk| {
        disk[1024..2048].fill(0xff);
        put(disk, 1024 + 0x38, &[0x53, 0xef]);
        put(disk, 1024 + 0x60, &[0xc0, 0, 0, 0]);
        put(disk, 1024 + 0xe4, &[0; 4]);
    }),
    ("xfs, all bits", |disk| {
        disk[..512].fill(0xff);
        put(disk, 0, b"XFSB");
    }),
    ("xfs, all zero", |disk| put(disk, 0, b"XFSB")),
    ("btrfs, all bits", |disk| {
        disk[0x1_0000..0x1_1000].fill(0xff);
        put(disk, 0x1_0040, b"_BHRfS_M");
        put(disk, 0x1_0088, &1u64.to_le_bytes());
    }),
    ("a RAID with 2^32 members over an ext4", |disk| {
        put(disk, 1024 + 0x38, &[0x53, 0xef]);
        put(disk, 1024 + 0x60, &[0xc0, 0, 0, 0]);
        disk[4096..4096 + 256].fill(0xff);
        put(disk, 4096, &[0xfc, 0x4e, 0x2b, 0xa9]);
    }),
    ("a GPT whose header is 2^32 bytes long", |disk| {
        disk[512..1024].fill(0xff);
        put(disk, 512, b"EFI PART");
    }),
    ("a bcache with 65535 keys", |disk| {
        disk[4096..8192].fill(0xff);
        put(disk, 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81");
    }),
    ("a LUKS header at the end of what a number can be", |disk| {
        disk[0x4000..0x4200].fill(0xff);
        put(disk, 0x4000, b"SKUL\xba\xbe");
    }),
    ("all bits", |disk| disk.fill(0xff)),
];

/// WHO: a tenant who writes the beginning of his disk himself. WHAT: the driver is to crash, to take the disk for
/// blank, or to format it.
#[test]
fn a_hostile_superblock_is_answered_and_never_formatted() {
    needs!(mounts);
    let node = Node::new();
    for (name, write) in HOSTILE {
        let volume = Volume::create(&node, "ext4", "64M");
        let mut bytes = vec![0; 1 << 20];
        write(&mut bytes);
        let image = fs::OpenOptions::new().write(true).open(volume.image()).unwrap();
        image.write_all_at(&bytes, 0).unwrap();
        image.sync_all().unwrap();
        drop(image);
        let before = digest(&volume.image());
        node.must(volume.attach());
        make_folder(&volume.global());
        let message = node.fails(volume.stage());
        assert!(!message.contains("broke off") && !message.contains("panic"), "{name}: {message}");
        assert_eq!(layers_at(&volume.global()), 0, "{name}");
        node.must(volume.detach());
        assert_eq!(digest(&volume.image()), before, "{name}: it was written to");
    }
}

/// WHO: a tenant who knows a fault of what reads superblocks. WHAT: a disk with data is to pass for blank.
#[test]
fn a_judge_that_breaks_off_calls_no_disk_blank() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    let before = digest(&volume.image());
    let mut command = node.command(volume.stage());
    command.env("INCLOUD_DISK_SEAM", "filesystems.judge=panic");
    let answer = Answer::of(command);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(answer.text.contains("what judges its bytes broke off"), "{}", answer.text);
    assert_eq!(digest(&volume.image()), before, "nothing was made");
    node.must(volume.stage());
    volume.ends();
}

/// WHO: whoever finds an input that a parser follows without an end. WHAT: kubelet is to get no answer. There is no
/// stack left for one, and no other process that would give it.
#[test]
fn a_call_that_uses_up_its_stack_is_one_failure() {
    needs!(mounts, seams);
    let node = crate::budgets::node();
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring_to_pod();
    for call in [volume.is_attached(), volume.wait(""), volume.stage()] {
        let mut command = node.command(call);
        command.env("INCLOUD_DISK_SEAM", "begin=overflow");
        let answer = Answer::of(command);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        assert!(answer.text.contains("was ended by SIGABRT"), "{}", answer.text);
    }
    volume.take_away();
}

/// WHO: a tenant whose disk takes over a program that reads it (blkid, mkfs). WHAT: the network, the machine's
/// mounts. What such a program may ask of the kernel is tried in `host::confinement`.
#[test]
fn what_works_on_a_disk_is_confined() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let mut told = Vec::new();
    for name in ["blkid", "mkfs.ext4"] {
        let folders =
            ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|one| Path::new(one).join(name));
        let program = folders.iter().find(|path| path.exists()).unwrap();
        // mke2fs looks at its own name.
        let folder = node.base().join(format!("real-{name}"));
        fs::create_dir(&folder).unwrap();
        let (real, status) = (folder.join(name), node.base().join(format!("{name}.status")));
        run("cp", &["--dereference", program.to_str().unwrap(), real.to_str().unwrap()]);
        let script = node.base().join(format!("{name}.sh"));
        let text = format!(
            "#!/bin/sh\ncat /proc/self/status >'{}'\nexec '{}' \"$@\"\n",
            status.display(),
            real.display()
        );
        files::write(&script, text).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let (script, program) = (script.to_str().unwrap(), fs::canonicalize(program).unwrap());
        run("mount", &["--bind", script, program.to_str().unwrap()]);
        told.push((name, status));
    }
    volume.bring();
    for (name, status) in told {
        let status = fs::read_to_string(status).unwrap_or_else(|_| panic!("{name} was not called"));
        assert!(status.contains("Seccomp:\t2"), "{name}: {status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{name}: {status}");
    }
    volume.ends();
}

/// The capabilities that a unit of systemd gives, for setpriv(1).
fn capabilities_of(unit: &str) -> String {
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let names = line.split_whitespace().map(|name| name.strip_prefix("CAP_").unwrap());
    names.flat_map(|name| [",+".to_owned(), name.to_lowercase()]).collect()
}

/// WHO: no adversary: the heal that the machine's timer starts. WHAT: it must do its work with the capabilities
/// that its unit leaves it.
#[test]
fn the_heal_needs_no_more_than_its_unit_gives() {
    needs!(pods);
    let units = [
        include_str!("../../examples/systemd/incloud-disk-heal.service"),
        include_str!("../../examples/systemd/incloud-disk-heal@.service"),
    ];
    for (unit, by_device) in units.into_iter().zip([false, true]) {
        for fs_type in ["ext4", "xfs"] {
            let Scene { node, volume, pod, mut container } = scene().of(fs_type).start();
            pull(&volume, &mut container);
            let device = bring_back(&volume);
            let heal_with = |capabilities: &str| {
                let mut command = Command::new("setpriv");
                let set = format!("--bounding-set=-all{capabilities}");
                command.args([&set, "--inh-caps=-all", DISK, "heal"]);
                if by_device {
                    command.arg("--device").arg(&device);
                }
                output_of(command.env("INCLOUD_DISK_CONFIG", node.config_path()))
            };
            let given = capabilities_of(unit);
            let less = heal_with(&given.replace(",+sys_admin", ""));
            let said = String::from_utf8_lossy(&less.stdout);
            assert!(!said.contains("switched /data of "), "setpriv takes nothing away: {said}");
            still_fails(&mut container);
            let begun = node.log().len();
            let output = heal_with(&given);
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
            assert!(said.contains("switched /data of "), "{said}");
            goes_on(&mut container, 5);
            let log = node.log().split_off(begun);
            for trouble in ["permission denied", "not permitted"] {
                assert!(!log.contains(trouble), "{trouble}: {log}");
            }
            Scene { node, volume, pod, container }.ends();
        }
    }
}
