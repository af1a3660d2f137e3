//! How a disk is connected to this machine, and on which connections the cloud's disks may be.
//!
//! The target of an iSCSI, Fibre Channel or NVMe-oF disk chooses its serial, and a pod may name a target
//! of its own. So a serial counts only on a connection that the hypervisor makes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The connection of a disk, as the kernel's drivers show it: `virtio-blk`, `nvme-pcie`,
/// `scsi-ahci`. Never a string that the disk itself answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Transport(String);

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Transports that are never allowed: someone other than the hypervisor chooses what such a disk
/// shows, or there is no hardware behind it at all.
const NEVER: [&str; 10] = [
    "iscsi",
    "fc",
    "sas",
    "srp",
    "nvme-tcp",
    "nvme-rdma",
    "nvme-fc",
    "nvme-loop",
    "virtual",
    "unknown",
];

/// The buses on which a hypervisor puts virtio devices. A device of vDPA may be a program's.
const VIRTIO_BUSES: [&str; 3] = ["virtio-pci", "virtio-mmio", "virtio_ccw"];

impl Transport {
    /// The transport of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The transport that the names in a disk's path in sysfs tell. They are the kernel's.
    pub fn of_path(path: &[&str]) -> Option<Self> {
        let has = |start: &str| path.iter().any(|part| is_numbered(part, start));
        let found = [
            ("session", "iscsi"),
            ("rport-", "fc"),
            ("vport-", "fc"),
            ("expander-", "sas"),
            ("usb", "usb"),
        ];
        found.into_iter().find(|(start, _)| has(start)).map(|(_, name)| Self::named(name))
    }

    /// That of a SCSI disk by its host's driver. `mptsas` is the one driver of a SAS controller that
    /// hypervisors emulate.
    pub fn of_scsi(path: &[&str], host: &str) -> Self {
        let has_sas_link = path.iter().any(|part| is_numbered(part, "end_device-"));
        match host {
            "" => Self::named("unknown"),
            "ib_srp" => Self::named("srp"),
            host if has_sas_link && host != "mptsas" => Self::named("sas"),
            host => Self::named(format!("scsi-{host}")),
        }
    }

    /// That of an `NVMe` disk, by all controllers that lead to it: the kernel joins those that claim
    /// to be of one subsystem, so one over a network makes the whole disk a network's.
    pub fn of_nvme(controllers: &[String]) -> Self {
        let other = controllers.iter().find(|one| *one != "pcie");
        match other.or(controllers.first()) {
            Some(kind) if !kind.is_empty() => Self::named(format!("nvme-{kind}")),
            _ => Self::named("unknown"),
        }
    }

    /// That of a virtio disk, by the driver of the bus that the device is on.
    pub fn of_virtio(bus: &str) -> Self {
        if VIRTIO_BUSES.contains(&bus) {
            Self::named("virtio-blk")
        } else {
            Self::named(format!("virtio-blk-{bus}"))
        }
    }

    fn is_never_allowed(&self) -> bool {
        NEVER.contains(&self.0.as_str())
    }
}

/// Whether a part of a path is a name of the kernel's with a number behind it: `session3`, `rport-2:0-1`.
fn is_numbered(part: &str, start: &str) -> bool {
    part.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// What a disk of some transport may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// A volume's disk.
    Allowed,
    /// A volume's disk once the configuration allows its transport.
    NotConfigured,
    /// Never a volume's disk.
    Never,
}

/// The transports that are allowed: `disks.transports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Transports(Vec<Transport>);

/// What hypervisors emulate.
const DEFAULT: [&str; 11] = [
    "virtio-blk",
    "nvme-pcie",
    "scsi-virtio_scsi",
    "scsi-ahci",
    "scsi-ata_piix",
    "scsi-sym53c8xx",
    "scsi-mptspi",
    "scsi-mptsas",
    "scsi-megaraid_sas",
    "scsi-vmw_pvscsi",
    "scsi-ibmvscsi",
];

impl Default for Transports {
    fn default() -> Self {
        Self(DEFAULT.map(Transport::named).into())
    }
}

impl Transports {
    /// What a disk of this transport may be.
    pub fn admission(&self, transport: &Transport) -> Admission {
        if transport.is_never_allowed() {
            Admission::Never
        } else if self.0.contains(transport) {
            Admission::Allowed
        } else {
            Admission::NotConfigured
        }
    }

    /// What must not be configured.
    pub fn check(&self) -> Result<(), String> {
        if self.0.is_empty() {
            return Err("disks.transports allows none: then no volume has a disk".to_owned());
        }
        if let Some(one) = self.0.iter().find(|one| one.is_never_allowed()) {
            return Err(format!(
                "disks.transports: {one} is never allowed, because the hypervisor does not choose the serial there"
            ));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.0.iter().any(|one| one.0.is_empty() || !one.0.chars().all(is_name)) {
            return Err("disks.transports: a name has letters, digits, - and _".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_scsi(path: &str, host: &str) -> String {
        let parts: Vec<_> = path.split('/').collect();
        Transport::of_path(&parts).unwrap_or_else(|| Transport::of_scsi(&parts, host)).to_string()
    }

    #[test]
    fn a_scsi_disk_is_told_by_its_path_and_its_hosts_driver() {
        for (path, host, transport) in [
            (
                "pci0000:00/0000:00:05.0/virtio3/host2/target2:0:0/2:0:0:0",
                "virtio_scsi",
                "scsi-virtio_scsi",
            ),
            ("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0", "ahci", "scsi-ahci"),
            ("platform/host4/session2/target4:0:0/4:0:0:0", "iscsi_tcp", "iscsi"),
            // An offload card with its own initiator, named as no other driver is.
            ("pci0000:00/0000:00:07.0/host4/session2/target4:0:0/4:0:0:0", "virtio_scsi", "iscsi"),
            ("pci0000:00/0000:00:06.0/host1/rport-1:0-2/target1:0:0/1:0:0:0", "qla2xxx", "fc"),
            ("pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/host6/target6:0:0/6:0:0:0", "uas", "usb"),
            (
                "pci0000:00/0000:00:10.0/host2/port-2:0/end_device-2:0/target2:0:0/2:0:0:0",
                "mptsas",
                "scsi-mptsas",
            ),
            (
                "pci0000:00/0000:00:10.0/host2/port-2:0/end_device-2:0/target2:0:0/2:0:0:0",
                "mpt3sas",
                "sas",
            ),
            (
                "pci0000:00/0000:00:10.0/host2/port-2:0/expander-2:0/end_device-2:0:1/target2:0:0/2:0:0:0",
                "mptsas",
                "sas",
            ),
            ("pseudo_0/adapter0/host3/target3:0:0/3:0:0:0", "scsi_debug", "scsi-scsi_debug"),
            ("pci0000:00/0000:00:09.0/host3/target3:0:0/3:0:0:0", "ib_srp", "srp"),
            ("pci0000:00/host3/target3:0:0/3:0:0:0", "", "unknown"),
            // Names that only look alike.
            ("pci0000:00/usbish/sessions/host3/target3:0:0/3:0:0:0", "ahci", "scsi-ahci"),
        ] {
            assert_eq!(of_scsi(path, host), transport, "{path}, {host}");
        }
    }

    #[test]
    fn an_nvme_disk_is_a_networks_if_one_of_its_controllers_is() {
        let of = |all: &[&str]| {
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            Transport::of_nvme(&all).to_string()
        };
        assert_eq!(of(&["pcie"]), "nvme-pcie");
        assert_eq!(of(&["pcie", "pcie"]), "nvme-pcie");
        assert_eq!(of(&["pcie", "tcp"]), "nvme-tcp");
        assert_eq!(of(&["rdma"]), "nvme-rdma");
        assert_eq!(of(&[]), "unknown");
    }

    #[test]
    fn a_virtio_disk_of_a_program_is_none_of_the_hypervisors() {
        assert_eq!(Transport::of_virtio("virtio-pci").to_string(), "virtio-blk");
        assert_eq!(Transport::of_virtio("virtio_vdpa").to_string(), "virtio-blk-virtio_vdpa");
    }

    #[test]
    fn what_is_not_listed_is_not_allowed_and_some_can_never_be() {
        let admission = |name: &str| Transports::default().admission(&Transport::named(name));
        for name in DEFAULT {
            assert_eq!(admission(name), Admission::Allowed, "{name}");
        }
        for name in NEVER {
            assert_eq!(admission(name), Admission::Never, "{name}");
            let error = Transports(vec![Transport::named(name)]).check().unwrap_err();
            assert!(error.contains(name) && error.contains("disks.transports"), "{error}");
        }
        for name in ["usb", "loop", "scsi-scsi_debug", "virtio-blk-virtio_vdpa"] {
            assert_eq!(admission(name), Admission::NotConfigured, "{name}");
            let list = Transports(vec![Transport::named(name)]);
            assert_eq!(list.check(), Ok(()));
            assert_eq!(list.admission(&Transport::named(name)), Admission::Allowed);
        }
        assert!(Transports(Vec::new()).check().is_err());
        assert!(Transports(vec![Transport::named("a b")]).check().is_err());
    }
}
