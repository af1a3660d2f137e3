//! What wakes the driver when a disk comes back: units of systemd, a rule of udev.

use crate::machine::{Machine, fails, must, names_in, text_of};
use crate::support::{is_root_here, skip, write_program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNITS: [&str; 4] = [
    "incloud-disk-heal.service",
    "incloud-disk-heal@.service",
    "incloud-disk-heal.timer",
    "incloud-disk-shutdown.service",
];
const RULES: &str = "etc/udev/rules.d/90-incloud-disk.rules";
const LINK: &str = "etc/systemd/system/timers.target.wants/incloud-disk-heal.timer";
const SHUTDOWN_LINK: &str =
    "etc/systemd/system/multi-user.target.wants/incloud-disk-shutdown.service";

/// A way to change a machine behind the script's back.
type Change = fn(&Machine);

fn unit(machine: &Machine, name: &str) -> PathBuf {
    machine.at("etc/systemd/system").join(name)
}

fn installed() -> Machine {
    let machine = Machine::new();
    machine.installed(&machine.make_driver("a"));
    machine
}

/// Where the tool is not, or cannot do it, the test is skipped.
fn tool(test: &str, command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            skip(test, &format!("needs {}: {error}", command.get_program().display()));
            None
        }
    }
}

#[test]
fn the_units_call_the_driver_where_it_is() {
    let machine = installed();
    for (name, words) in [
        ("incloud-disk-heal.service", "heal"),
        ("incloud-disk-heal@.service", "heal --device /dev/%i"),
    ] {
        let text = fs::read_to_string(unit(&machine, name)).unwrap();
        let wanted = format!("ExecStart=\"{}\" {words}\n", machine.driver().display());
        assert!(text.contains(&wanted), "{wanted}: {text}");
        // A disk that is absent is waited for; what stays on a lost disk is a failure.
        assert!(text.contains("\nSuccessExitStatus=3\n"), "{text}");
    }
    assert!(machine.at(RULES).exists());
    // Enabled: the link leads to the timer.
    assert!(machine.at(LINK).exists());
    must(&mut machine.command(["verify"]));
    // What is there already is not written again.
    let driver = machine.make_driver("a");
    let said = must(&mut machine.put("install", &driver));
    assert!(!said.contains("incloud-disk-heal") && !said.contains(".rules"), "{said}");
}

#[test]
fn a_path_with_signs_that_mean_something_is_written_so_that_it_is_read_back() {
    let machine = Machine::new();
    let folder = machine.base().join("a 100% & c|d");
    let driver = machine.make_driver("a");
    let mut command = machine.command(["install", "--plugin-dir"]);
    must(command.arg(&folder).arg("--binary").arg(&driver));
    let unit = fs::read_to_string(unit(&machine, "incloud-disk-heal.service")).unwrap();
    let written = "/a 100%% & c|d/incloud~disk/disk\" heal";
    assert!(unit.contains(written), "{unit}");
    let test = "a_path_with_signs_that_mean_something_is_written_so_that_it_is_read_back";
    systemd_takes(test, &machine);
}

#[test]
fn a_path_that_systemd_cannot_run_is_told() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    let mut command = machine.command(["install", "--plugin-dir"]);
    let said = must(command.arg(machine.base().join("it's")).arg("--binary").arg(&driver));
    assert!(said.contains("systemd cannot run"), "{said}");
    assert!(!unit(&machine, UNITS[0]).exists());
    must(&mut machine.command(["verify"]));
}

#[test]
fn each_difference_is_named() {
    let changes: [(Change, &str); 6] = [
        (|machine| fs::remove_file(unit(machine, UNITS[0])).unwrap(), "is gone"),
        (|machine| fs::remove_file(machine.at(RULES)).unwrap(), "is gone"),
        (|machine| fs::write(unit(machine, UNITS[2]), "[Timer]\n").unwrap(), "is another one"),
        (|machine| fs::remove_file(machine.at(LINK)).unwrap(), "timer is not enabled"),
        (|machine| fs::remove_file(unit(machine, UNITS[3])).unwrap(), "is gone"),
        (|machine| fs::remove_file(machine.at(SHUTDOWN_LINK)).unwrap(), "service is not enabled"),
    ];
    for (change, wanted) in changes {
        let machine = installed();
        change(&machine);
        let said = fails(&mut machine.command(["verify"]));
        assert!(said.contains(wanted) && said.lines().count() == 2, "{wanted}: {said}");
        // The same again puts it right.
        let driver = machine.make_driver("a");
        machine.installed(&driver);
        must(&mut machine.command(["verify"]));
    }
}

#[test]
fn uninstall_leaves_nothing_of_it() {
    let machine = installed();
    fs::write(unit(&machine, "other.service"), "").unwrap();
    must(&mut machine.command(["uninstall"]));
    let left: Vec<_> = names_in(&machine.at("etc/systemd/system"))
        .into_iter()
        .filter(|name| name.contains("incloud"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    assert!(!machine.at(RULES).exists());
    for link in [LINK, SHUTDOWN_LINK] {
        assert!(fs::symlink_metadata(machine.at(link)).is_err(), "{link}");
    }
    assert!(unit(&machine, "other.service").exists(), "what is not ours stays");
}

#[test]
fn a_predecessor_that_cannot_heal_is_not_asked_to() {
    let machine = Machine::new();
    fs::create_dir(machine.plugins().join("incloud~disk")).unwrap();
    let calls = machine.base().join("calls");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = init ] || {{ echo \"$*\" >>\"{}\"; exit 1; }}\n\
         echo '{{\"status\": \"Success\", \"capabilities\": {{\"attach\": true}}}}'\n",
        calls.display()
    );
    write_program(&machine.driver(), script);
    machine.installed(&machine.make_driver("a"));
    assert!(machine.at(LINK).exists());
    let said = must(&mut machine.command(["rollback"]));
    assert!(said.contains("nothing asks it"), "{said}");
    assert!(!unit(&machine, UNITS[0]).exists() && !machine.at(RULES).exists(), "{said}");
    let calls = fs::read_to_string(calls).unwrap_or_default();
    assert!(!calls.contains("heal"), "it might take that for anything: {calls}");
    must(&mut machine.command(["verify"]));
    must(&mut machine.command(["rollback"]));
    assert!(machine.at(LINK).exists());
    must(&mut machine.command(["verify"]));
}

/// systemctl and udevadm in place of the machine's, which write down what they are told.
fn listening(machine: &Machine) -> (PathBuf, String) {
    let tools = machine.base().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::create_dir(machine.base().join("systemd-runs")).unwrap();
    for name in ["systemctl", "udevadm"] {
        let script = "#!/bin/sh\necho \"${0##*/} $*\" >>\"${0%/*}/told\"\n";
        write_program(&tools.join(name), script);
    }
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    (tools.join("told"), path)
}

#[test]
fn a_running_systemd_is_told() {
    let machine = Machine::new();
    let (told, path) = listening(&machine);
    let driver = machine.make_driver("a");
    let run = |mut command: Command| {
        let systemd = machine.base().join("systemd-runs");
        must(command.env("PATH", &path).env("INSTALL_SYSTEMD", systemd));
        let lines = fs::read_to_string(&told).unwrap_or_default();
        let _ = fs::remove_file(&told);
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = [
        "systemctl daemon-reload",
        "udevadm control --reload",
        "systemctl start incloud-disk-heal.timer",
        "systemctl start incloud-disk-shutdown.service",
    ];
    assert_eq!(run(machine.put("install", &driver)), all);
    assert_eq!(run(machine.put("install", &driver)), all[2..], "nothing else has changed");
    let stop = "systemctl stop incloud-disk-heal.timer";
    let stop_other = "systemctl stop incloud-disk-shutdown.service";
    assert_eq!(run(machine.command(["uninstall"])), [stop, all[0], all[1], stop_other]);
}

/// With another root nothing of this machine is touched.
#[test]
fn an_image_is_installed_without_a_word_to_this_machine() {
    let machine = Machine::new();
    let (told, path) = listening(&machine);
    let driver = machine.make_driver("a");
    must(machine.put("install", &driver).env("PATH", &path));
    must(machine.command(["uninstall"]).env("PATH", &path));
    assert!(!told.exists(), "{}", fs::read_to_string(&told).unwrap_or_default());
}

fn systemd_takes(test: &str, machine: &Machine) {
    let folder = machine.at("etc/systemd/system");
    // An instance, as udev starts it.
    fs::copy(folder.join(UNITS[1]), folder.join("incloud-disk-heal@vdb.service")).unwrap();
    for name in ["incloud-disk-heal@vdb.service", UNITS[0], UNITS[2], UNITS[3]] {
        let mut command = Command::new("systemd-analyze");
        let Some(output) = tool(test, command.args(["verify", "--man=no"]).arg(folder.join(name)))
        else {
            return;
        };
        assert!(output.status.success(), "{name}: {}", text_of(&output));
        assert_eq!(text_of(&output), "", "{name}");
    }
}

/// Directives that give a service a mount namespace of its own: what is healed there is seen by no other process.
const OF_OWN_MOUNTS: [&str; 18] = [
    "PrivateTmp",
    "PrivateDevices",
    "PrivateMounts",
    "PrivateNetwork",
    "PrivateUsers",
    "ProtectSystem",
    "ProtectHome",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectControlGroups",
    "ProtectProc",
    "ProcSubset",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "InaccessiblePaths",
    "RootDirectory",
    "DynamicUser",
];

/// What is 9.6 of 10 without any limit.
const MOST_EXPOSED: f64 = 6.0;

#[test]
fn the_heal_has_little_within_reach_and_the_machines_mounts() {
    let test = "the_heal_has_little_within_reach_and_the_machines_mounts";
    let machine = installed();
    let folder = machine.at("etc/systemd/system");
    fs::copy(folder.join(UNITS[1]), folder.join("incloud-disk-heal@vdb.service")).unwrap();
    for name in [UNITS[0], "incloud-disk-heal@vdb.service"] {
        let unit = fs::read_to_string(folder.join(name)).unwrap();
        let mut directives =
            unit.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key);
        let of_own_mounts = directives.find(|key| OF_OWN_MOUNTS.contains(key));
        assert_eq!(of_own_mounts, None, "{name}");
        for line in ["LimitCORE=0", "RestrictNamespaces=mnt", "SystemCallArchitectures=native"] {
            assert!(unit.lines().any(|one| one == line), "{name}: {line}");
        }
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=yes", "--no-pager"]).arg(folder.join(name));
        let Some(output) = tool(test, &mut command) else { return };
        let said = text_of(&output);
        let verdict = said
            .lines()
            .find_map(|line| line.split_once("exposure level for ")?.1.split_once(": "));
        let Some((_, verdict)) = verdict else {
            skip(test, "needs a systemd-analyze that reads files (systemd 250)");
            return;
        };
        let level: f64 = verdict.split(' ').next().unwrap().parse().unwrap();
        assert!(level <= MOST_EXPOSED, "{name}: {level}: {said}");
    }
}

/// A disk of this machine on a bus that the rules name.
fn a_disk() -> Option<PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let serial = fs::read_to_string(path.join("serial")).unwrap_or_default();
        (name.starts_with("vd") && !serial.trim().is_empty())
            || name.starts_with("sd")
            || name.starts_with("nvme")
    })
}

/// What udev would make of an event, with our rules among its own, in a mount namespace of its own.
fn udev_says(test: &str, rules: &Path, disk: &Path) -> Option<String> {
    if !is_root_here(test) {
        return None;
    }
    let script = "mount --make-rprivate / && mount -t tmpfs none /run && \
                  mkdir -p /run/udev/rules.d && cp \"$1\" /run/udev/rules.d/ && \
                  exec udevadm test --action=\"$3\" \"$2\" 2>&1";
    let mut texts = String::new();
    for action in ["add", "change", "remove"] {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "-"]).arg(rules).arg(disk).arg(action);
        let output = tool(test, &mut command)?;
        let said = text_of(&output);
        if said.contains("udevadm: not found") {
            skip(test, "needs udevadm");
            return None;
        }
        assert!(output.status.success(), "{said}");
        let wants = said.lines().find(|line| line.starts_with("SYSTEMD_WANTS="));
        let runs = said.contains("/bin/systemctl start --no-block incloud-disk-heal.service");
        let runs = if runs { " all are looked at" } else { "" };
        texts += &format!("{action} {}{runs}\n", wants.unwrap_or_default());
        let complaints: Vec<_> = said
            .lines()
            .filter(|line| line.contains("90-incloud-disk.rules") && !line.starts_with("Reading"))
            // What udev would run is told too, and is no complaint (systemd 252).
            .filter(|line| !line.contains(" RUN '"))
            .collect();
        assert_eq!(complaints, Vec::<&str>::new(), "{action}");
    }
    Some(texts)
}

#[test]
fn udev_starts_the_service_for_a_disk_and_for_nothing_else() {
    let test = "udev_starts_the_service_for_a_disk_and_for_nothing_else";
    let machine = installed();
    let rules = machine.at(RULES);
    let Some(disk) = a_disk() else { return skip(test, "no disk with a serial is here") };
    let Some(said) = udev_says(test, &rules, &disk) else { return };
    let name = disk.file_name().unwrap().to_str().unwrap();
    let wants = format!("SYSTEMD_WANTS=incloud-disk-heal@{name}.service");
    assert_eq!(said, format!("add {wants}\nchange {wants}\nremove  all are looked at\n"));
    let other = Path::new("/sys/block/loop0");
    if other.exists() {
        assert_eq!(udev_says(test, &rules, other).unwrap(), "add \nchange \nremove \n");
    }
}
