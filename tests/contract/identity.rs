//! Finding a disk by its serial, in made-up trees of sysfs: neither root nor udev nor `/dev/disk`.

use crate::support::sysfs::{self, Bus, ISCSI, UNLISTED, USB};
use crate::support::{Node, options};
use std::fs;
use std::path::{Path, PathBuf};

const ONE: &str = "6f1c2d3e-4a5b-4c6d-8e7f-000000000001";
const TWO: &str = "6f1c2d3e-4a5b-4c6d-8e7f-000000000002";

struct Machine {
    node: Node,
    sysfs: PathBuf,
    by_id: PathBuf,
}

impl Machine {
    /// A machine without a cloud: its disks are told by their serials.
    fn new() -> Self {
        let node = Node::new();
        let text = fs::read_to_string(node.config_path()).unwrap();
        let text = text.replace("cloud.kind = \"local\"\n", "");
        fs::write(node.config_path(), text + "[deadline]\nwaitforattach = 1\n").unwrap();
        let (sysfs, by_id) = (node.base().join("sys"), node.base().join("by-id"));
        fs::create_dir_all(sysfs.join("block")).unwrap();
        fs::create_dir_all(sysfs.join("dev/block")).unwrap();
        Self { node, sysfs, by_id }
    }

    fn disk(&self, name: &str, number: &str, files: &[(&str, &[u8])]) {
        self.disk_on(Bus::usual(name), name, number, files);
    }

    fn disk_on(&self, bus: Bus, name: &str, number: &str, files: &[(&str, &[u8])]) {
        let facts: [(&str, &[u8]); 3] =
            [("dev", number.as_bytes()), ("size", b"2048"), ("ro", b"0")];
        sysfs::disk(&self.sysfs, name, bus, &[&facts, files].concat()).unwrap();
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        fs::create_dir_all(&self.by_id).unwrap();
        std::os::unix::fs::symlink(target, self.by_id.join(name)).unwrap();
    }

    /// The status, and the device or message, of a waitforattach for a volume.
    fn wait(&self, id: &str, hint: &str) -> (bool, String) {
        let mut command = self.node.command(["waitforattach", hint, &options(id, "pv-1", "")]);
        command.env("INCLOUD_DISK_SYSFS", &self.sysfs).env("INCLOUD_DISK_BY_ID", &self.by_id);
        let json = crate::support::Answer::of(command).json;
        let text = json["device"].as_str().or(json["message"].as_str()).unwrap();
        (json["status"] == "Success", text.to_owned())
    }
}

#[test]
fn every_bus_is_found_by_sysfs_alone() {
    let machine = Machine::new();
    let page_80 = [&b"\0\x80\0\x24"[..], b"00000000-0000-4000-8000-0000000000a1"].concat();
    let page_83 =
        [&b"\0\x83\0\x28\x02\x00\0\x24"[..], b"00000000-0000-4000-8000-0000000000a2"].concat();
    machine.disk("vda", "253:0", &[("serial", b"the-root-disk")]);
    machine.disk("vdb", "253:16", &[("serial", b"6f1c2d3e-4a5b-4c6d-8")]);
    machine.disk("sda", "8:0", &[("device/vpd_pg80", &page_80)]);
    machine.disk("sdb", "8:16", &[("device/vpd_pg83", &page_83)]);
    machine.disk("nvme0n1", "259:0", &[("device/serial", b"00000000-0000-4000-8")]);
    machine.disk("nvme1n1", "259:1", &[("wwid", b"uuid.00000000-0000-4000-8000-0000000000a4\n")]);
    let cut = "00000000-0000-4000-8000-0000000000a3";
    for (id, device) in [
        (ONE, "/dev/vdb"),
        (cut, "/dev/nvme0n1"),
        ("00000000-0000-4000-8000-0000000000a1", "/dev/sda"),
        ("00000000-0000-4000-8000-0000000000a2", "/dev/sdb"),
        ("00000000-0000-4000-8000-0000000000a4", "/dev/nvme1n1"),
    ] {
        assert_eq!(machine.wait(id, ""), (true, device.to_owned()), "{id}");
    }
    // By now the machine knows volumes that a cut serial could mean as well.
    let (found, message) = machine.wait(cut, "");
    assert!(!found && message.contains("nvme0n1") && message.contains("00a4"), "{message}");
}

#[test]
fn the_remembered_device_is_no_more_than_a_hint() {
    let machine = Machine::new();
    machine.disk("vdb", "253:16", &[("serial", b"other")]);
    machine.disk("vdc", "253:32", &[("serial", b"6f1c2d3e-4a5b-4c6d-8")]);
    for hint in ["", "/dev/vdb", "/dev/vdz", "nonsense", "/etc/passwd"] {
        assert_eq!(machine.wait(ONE, hint), (true, "/dev/vdc".to_owned()), "{hint}");
    }
    let log = machine.node.log();
    assert_eq!(log.matches("the remembered device is another one").count(), 4, "{log}");
}

#[test]
fn a_lying_link_is_reported_with_both_serials() {
    let machine = Machine::new();
    machine.disk("vdc", "253:32", &[("serial", b"6f1c2d3e-4a5b-4c6d-8")]);
    machine.link("virtio-6f1c2d3e-4a5b-4c6d-8", "/dev/null");
    machine.link(&format!("virtio-{ONE}"), "/nowhere");
    assert_eq!(machine.wait(ONE, ""), (true, "/dev/vdc".to_owned()));
    let log = machine.node.log();
    assert!(log.contains("no block device") && log.contains("leads nowhere"), "{log}");
}

#[test]
fn disks_that_look_alike_are_refused_by_name() {
    let machine = Machine::new();
    machine.disk("vdb", "253:16", &[("serial", b"6f1c2d3e-4a5b-4c6d-8")]);
    machine.disk("vdc", "253:32", &[("serial", b"6f1c2d3e-4a5b-4c6d-8")]);
    let (found, message) = machine.wait(ONE, "/dev/vdb");
    assert!(!found && message.contains("vdb") && message.contains("vdc"), "{message}");
}

#[test]
fn a_disk_that_never_comes_is_named_by_its_serial() {
    let machine = Machine::new();
    machine.disk("vdb", "253:16", &[("serial", b"6f1c2d3e-4a5b-4c6d-")]);
    let (found, message) = machine.wait(ONE, "/dev/vdb");
    assert!(!found && message.contains("serial 6f1c2d3e-4a5b-4c6d-8"), "{message}");
}

#[test]
fn a_disk_that_comes_late_is_noticed() {
    let machine = Machine::new();
    let text = fs::read_to_string(machine.node.config_path()).unwrap();
    fs::write(machine.node.config_path(), text.replace("waitforattach = 1", "waitforattach = 60"))
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            machine.disk("vdb", "253:16", &[("serial", b"6f1c2d3e-4a5b-4c6d-8")]);
        });
        assert_eq!(machine.wait(ONE, ""), (true, "/dev/vdb".to_owned()));
    });
}

#[test]
fn a_map_or_a_raid_that_shows_a_serial_is_no_volume() {
    let machine = Machine::new();
    for (name, number) in [("dm-0", "253:0"), ("md0", "9:0")] {
        let files: [(&str, &[u8]); 2] = [("serial", ONE.as_bytes()), ("wwid", ONE.as_bytes())];
        machine.disk_on(Bus::Virtual, name, number, &files);
    }
    let (found, message) = machine.wait(ONE, "");
    assert!(!found && message.contains("appeared within"), "{message}");
}

#[test]
fn a_disk_of_another_transport_alone_is_refused_with_the_key_or_named() {
    for (bus, transport) in [(USB, "usb"), (UNLISTED, "scsi-scsi_debug")] {
        let machine = Machine::new();
        machine.disk_on(bus, "sda", "8:0", &[("device/wwid", ONE.as_bytes())]);
        let (found, message) = machine.wait(ONE, "");
        let words = ["sda", "disks.transports", &format!("{transport:?}")];
        assert!(!found && words.iter().all(|word| message.contains(word)), "{message}");
        // What the message names ends it.
        let text = fs::read_to_string(machine.node.config_path()).unwrap();
        let key = format!("disks.transports = [\"virtio-blk\", {transport:?}]\n");
        fs::write(machine.node.config_path(), key + &text).unwrap();
        assert_eq!(machine.wait(ONE, ""), (true, "/dev/sda".to_owned()), "{transport}");
    }
    let machine = Machine::new();
    machine.disk_on(ISCSI, "sda", "8:0", &[("device/wwid", ONE.as_bytes())]);
    let (found, message) = machine.wait(ONE, "");
    assert!(!found && message.contains("sda (8:0, iscsi)"), "{message}");
}

#[test]
fn the_doctor_names_disks_that_look_like_volumes_on_other_transports() {
    let machine = Machine::new();
    machine.disk("vdb", "253:16", &[("serial", b"6f1c2d3e-4a5b-4c6d-8")]);
    machine.disk_on(UNLISTED, "sda", "8:0", &[("device/wwid", ONE.as_bytes())]);
    machine.disk_on(ISCSI, "sdb", "8:16", &[("device/wwid", TWO.as_bytes())]);
    machine.disk_on(USB, "sdc", "8:32", &[("device/wwid", b"a-stick-of-somebody")]);
    let mut command = machine.node.command(["doctor", "--only", "configuration"]);
    command.env("INCLOUD_DISK_SYSFS", &machine.sysfs);
    let told = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(told.contains("sda (8:0)") && told.contains("\"scsi-scsi_debug\""), "{told}");
    assert!(told.contains("sdb (8:16)") && told.contains("configuration allows iscsi"), "{told}");
    assert!(!told.contains("vdb") && !told.contains("sdc"), "{told}");
}
