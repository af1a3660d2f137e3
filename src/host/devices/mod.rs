//! Find a volume's block device in sysfs, on every call.
//!
//! No link and no name is trusted. A disk is the volume's if sysfs shows the volume's serial (for the local cloud, its
//! image) at that device number. Every disk is examined each time, since a second disk may have the same serial.

mod events;
#[cfg(fuzzing)]
pub mod garbage;
mod links;
mod sysfs;
mod transport;
mod udevd;

use self::events::DiskEvents;
use self::sysfs::{DiskFolder, Sysfs};
use super::{device_mapper, device_nodes, kernel, mount_tables};
use crate::failpoints;
use crate::model::disk::device::{
    Connection, Device, DeviceNumber, Identity, Link, Proof, Shown, UdevEntry,
};
use crate::model::disk::exclusive_open::ExclusiveOpen;
use crate::model::disk::transport::{Admission, Transports};
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::mountinfo::MountTable;
use crate::model::mount::staleness::{Doubt, Presence};
use crate::ports::host::{Devices, Events, Held, Udev, UdevDisk};
use std::any::Any;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The disks in sysfs.
#[derive(Debug, Clone)]
pub struct SysfsDevices {
    sysfs: Sysfs,
    by_id: PathBuf,
    transports: Transports,
    udev: Option<&'static dyn Udev>,
}

impl Default for SysfsDevices {
    fn default() -> Self {
        let sysfs = failpoints::folder("INCLOUD_DISK_SYSFS", "/sys");
        Self::at(sysfs, failpoints::folder("INCLOUD_DISK_BY_ID", "/dev/disk/by-id"))
    }
}

/// Why an open disk may be a volume of the cloud, or be backed by one; `None` if it certainly is not.
pub fn may_be_a_volume(disk: &fs::File) -> Option<String> {
    let number = match disk.metadata() {
        Ok(metadata) if metadata.file_type().is_block_device() => {
            device_nodes::split(metadata.rdev())
        }
        Ok(_) => return Some("it is no disk".to_owned()),
        Err(error) => return Some(error.to_string()),
    };
    match SysfsDevices::default().sysfs.numbered(number) {
        Ok(Some(folder)) => folder.sign_of_a_volume(),
        Ok(None) => Some(format!("sysfs has no disk {number}")),
        Err(error) => Some(error.cause),
    }
}

impl SysfsDevices {
    /// Disks below other roots than `/sys` and `/dev/disk/by-id`, for tests.
    pub fn at(sysfs: PathBuf, by_id: PathBuf) -> Self {
        Self { sysfs: Sysfs::at(sysfs), by_id, transports: Transports::default(), udev: None }
    }

    /// Sets the transports that the configuration allows.
    #[must_use]
    pub fn allowing(self, transports: &Transports) -> Self {
        Self { transports: transports.clone(), ..self }
    }

    /// Adds udev's monitor and database.
    #[must_use]
    pub fn asking(self, udev: Option<&'static dyn Udev>) -> Self {
        Self { udev, ..self }
    }

    /// The disk's transport, and whether the configuration allows it.
    fn connection(&self, folder: &DiskFolder) -> Result<Connection> {
        let transport = folder.transport()?;
        let admission = self.transports.admission(&transport);
        Ok(Connection { transport, admission })
    }

    /// The links that may exist for a volume.
    fn possible_links(&self, wanted: &Identity, own_link: &Path) -> Vec<PathBuf> {
        let mut all = vec![own_link.to_path_buf()];
        if let Identity::Serial(id) = wanted {
            let names = crate::model::disk::device::link_names(id);
            all.extend(names.iter().map(|name| self.by_id.join(name)));
        }
        all.sort();
        all.dedup();
        all
    }

    /// Lets udevd finish with a new disk first, so that the two do not open it at the same time. Without libudev there
    /// is no way to ask.
    fn wait_for_udevd(&self, device: &Device) {
        if let Some(udev) = self.udev {
            udevd::wait_until_processed(udev, device, || self.watch());
        }
    }

    /// Refuses if the disk of that number is not the proven one any more.
    fn still(&self, wanted: &Identity, device: &Device) -> Result<()> {
        let changed = |how: String| {
            Error::refused(format!(
                "{} ({}) was proven to be the volume's disk, but {how}",
                device.kernel_name, device.number
            ))
            .hint("nothing was done to another disk; the next try looks anew")
        };
        let folder =
            self.sysfs.numbered(device.number)?.ok_or_else(|| changed("it is gone".to_owned()))?;
        let shown = folder.shown()?;
        if wanted.proven_by(&shown).is_none() {
            let now = shown.first().map_or_else(|| "nothing".to_owned(), Shown::to_string);
            return Err(changed(format!("it shows {now} now, not {wanted}")));
        }
        if folder.sequence()? != device.sequence {
            return Err(changed("it was exchanged: the kernel counts it as a new disk".to_owned()));
        }
        if let Some(then) = device.transport() {
            let now = folder.transport()?;
            if now != *then {
                return Err(changed(format!("it was connected by {then}, and is by {now} now")));
            }
        }
        Ok(())
    }
}

impl SysfsDevices {
    /// The sysfs directory of the disk of this number, if it exists.
    fn living(&self, number: DeviceNumber) -> Result<Option<DiskFolder>> {
        self.sysfs.must_be_there()?;
        let Some(folder) = self.sysfs.numbered(number)? else { return Ok(None) };
        // A loop device outlives its image; while it is mounted it gets no other.
        let is_pulled = folder.kernel_name().starts_with("loop") && folder.shown()?.is_empty();
        let is_gone = is_pulled || self.sysfs.is_dead_map(&folder)?;
        Ok((!is_gone).then_some(folder))
    }
}

impl Devices for SysfsDevices {
    fn are_out_of_sight(&self) -> bool {
        self.sysfs.has_no_disks()
    }

    fn claimants(&self, wanted: &Identity) -> Result<Vec<Device>> {
        failpoints::effect("devices.search")?;
        let mut found = Vec::new();
        for (folder, proof) in self.sysfs.search(wanted)? {
            let Some(mut disk) = folder.facts(&folder.kernel_name(), proof)? else { continue };
            if matches!(wanted, Identity::Serial(_)) {
                disk.connection = Some(self.connection(&folder)?);
            }
            found.push(disk);
        }
        Ok(found)
    }

    fn strangers(&self) -> Result<Vec<(Device, Vec<Shown>)>> {
        let mut found = Vec::new();
        for (folder, shown) in self.sysfs.disks_with_serials()? {
            let connection = self.connection(&folder)?;
            if connection.admission == Admission::Allowed {
                continue;
            }
            if let Some(disk) = folder.facts(&folder.kernel_name(), Proof::Cut)? {
                found.push((Device { connection: Some(connection), ..disk }, shown));
            }
        }
        Ok(found)
    }

    fn one_moment(&self) -> Box<dyn Any> {
        self.sysfs.one_moment()
    }

    fn check(&self, wanted: &Identity, device: &Device) -> Result<()> {
        failpoints::effect("devices.check")?;
        self.still(wanted, device)
    }

    fn hold(&self, wanted: &Identity, device: &Device) -> Result<Held> {
        failpoints::effect("devices.hold")?;
        self.wait_for_udevd(device);
        // While the node is open, the kernel reuses neither the number nor the name.
        let node = device_nodes::open_to_read(device)?;
        device_nodes::read_ahead(&node, device.size);
        self.still(wanted, device)?;
        Ok(Held::new(node))
    }

    fn shown_by(&self, number: DeviceNumber) -> Result<Option<Vec<Shown>>> {
        self.sysfs.numbered(number)?.map(|folder| folder.shown()).transpose()
    }

    fn presence(&self, number: DeviceNumber, wanted: &Identity) -> Result<Presence> {
        let Some(folder) = self.living(number)? else { return Ok(Presence::Absent) };
        if let (Some(map), Identity::Serial(volume)) = (folder.own_map()?, wanted)
            && map.uuid.volume() != volume
        {
            return Ok(Presence::Other(format!("the map of volume {}", map.uuid.volume())));
        }
        let shown = folder.shown()?;
        if wanted.proven_by(&shown).is_none() && !shown.is_empty() {
            let words: Vec<_> = shown.iter().map(ToString::to_string).collect();
            return Ok(Presence::Other(words.join(", ")));
        }
        Ok(match folder.halted()? {
            Some(doubt) => Presence::Halted(doubt),
            None if shown.is_empty() => Presence::Other("it shows no serial".to_owned()),
            None => Presence::Own,
        })
    }

    fn is_gone(&self, number: DeviceNumber) -> Result<bool> {
        // Major number 0 belongs to file systems with an anonymous device.
        Ok(number.major != 0 && self.living(number)?.is_none())
    }

    fn objection(&self, device: &Device) -> Result<Option<String>> {
        let name = &device.kernel_name;
        if device.size == 0 {
            return Ok(Some(format!("{name} has size 0")));
        }
        let Some(folder) = self.sysfs.disk(name)? else {
            return Ok(Some(format!("{name} is gone")));
        };
        if let Some(map) = self.sysfs.map_that_waits_for(&folder)? {
            let Doubt { state, way, .. } = sysfs::waits(&map, "waits for its disk");
            let way = way.map(|way| format!(" ({way})")).unwrap_or_default();
            return Ok(Some(format!("{state}, and {name} may be that{way}")));
        }
        if let Some(Doubt { state, way, .. }) = folder.halted()? {
            let way = way.map(|way| format!(" ({way})")).unwrap_or_default();
            return Ok(Some(format!("{state}: the kernel gives it no work{way}")));
        }
        if let Some(holder) = folder.entries("holders")?.first() {
            let path = folder.path().join("holders").join(holder);
            let label = fs::read_to_string(path.join("dm/name")).unwrap_or_default();
            let label = label.trim();
            let label = if label.is_empty() { String::new() } else { format!(" ({label})") };
            return Ok(Some(format!("{name} is part of {holder}{label}")));
        }
        // A partition's directory is named after its disk: vdb1, nvme0n1p1.
        let is_part = |entry: &String| {
            entry.starts_with(name.as_str()) && folder.has(&format!("{entry}/partition"))
        };
        if let Some(part) = folder.entries("")?.into_iter().find(is_part) {
            return Ok(Some(format!("{name} has partitions ({part})")));
        }
        in_use_by_the_system(device)
    }

    fn exclusive_open(&self, device: &Device) -> Result<ExclusiveOpen> {
        failpoints::effect("devices.exclusive_open")?;
        self.wait_for_udevd(device);
        device_nodes::exclusive_open(device)
    }

    fn disk_at(&self, number: DeviceNumber) -> Result<Option<Device>> {
        // Major number 0 belongs to file systems with an anonymous device.
        if number.major == 0 {
            return Ok(None);
        }
        let Some(folder) = self.living(number)? else { return Ok(None) };
        folder.facts(&folder.kernel_name(), Proof::Cut)
    }

    fn rescan(&self, device: &Device) -> Result<()> {
        if device.kernel_name.starts_with("loop") {
            let node = device_nodes::open_to_write(device)?;
            return kernel::loop_resize(&node).map_err(|errno| {
                Error::io(format!("resize {}", device.kernel_name), &errno.into())
            });
        }
        let folder = self.sysfs.disk(&device.kernel_name)?;
        if let Some(map) = folder.as_ref().map(DiskFolder::own_map).transpose()?.flatten() {
            let Some(name) = &map.disk else { return Ok(()) };
            let Some(folder) = self.sysfs.disk(name)? else { return Ok(()) };
            look_again(Some(&folder))?;
            let Some(disk) = folder.facts(name, device.proof)? else { return Ok(()) };
            return device_mapper::grow(&map.uuid, &disk);
        }
        look_again(folder.as_ref())
    }

    fn tidy(&self, id: &VolumeId) {
        device_nodes::tidy(id);
    }

    fn has_link(&self, id: &VolumeId) -> bool {
        device_nodes::has_link(id)
    }

    fn remove_link(&self, id: &VolumeId) {
        device_nodes::remove_if_free(id);
    }

    fn watch(&self) -> Box<dyn Events> {
        Box::new(DiskEvents::subscribe(&self.by_id, self.udev))
    }

    fn leads_to(&self, link: &Path, node: &Path) -> bool {
        device_nodes::leads_to(link, node)
    }

    fn links(&self, wanted: &Identity, own_link: &Path) -> Vec<Link> {
        links::all(&self.sysfs, wanted, &self.possible_links(wanted, own_link))
    }

    fn udev_says(&self, wanted: &Identity) -> Vec<String> {
        self.known_to_udev(wanted, |_, _| true)
    }

    fn udev_entry(&self, wanted: &Identity, number: DeviceNumber) -> Option<UdevEntry> {
        let is_here = |disk: &UdevDisk| udevd::runs() && disk.sysfs.starts_with(self.sysfs.root());
        let disk = self.udev?.disk(number).filter(is_here)?;
        let others = self.known_to_udev(wanted, |other, shown| {
            other != number && wanted.proven_by(shown).is_none()
        });
        Some(UdevEntry::new(wanted, disk.is_initialized, &disk.shown, disk.links, &others))
    }
}

impl SysfsDevices {
    /// The disks with the volume's serial in udev's database that pass, each with its identity in sysfs.
    fn known_to_udev(
        &self,
        wanted: &Identity,
        passes: impl Fn(DeviceNumber, &[Shown]) -> bool,
    ) -> Vec<String> {
        let (Identity::Serial(id), Some(udev)) = (wanted, self.udev) else { return Vec::new() };
        let described = |number| {
            let told = match self.sysfs.numbered(number) {
                Ok(Some(folder)) => {
                    let (name, shown) = (folder.kernel_name(), folder.shown().unwrap_or_default());
                    if !passes(number, &shown) {
                        return None;
                    }
                    match shown.first() {
                        Some(shown) => format!("{name} ({number}), which shows {shown}"),
                        None => format!("{name} ({number}), which shows nothing"),
                    }
                }
                Ok(None) => format!("{number}, which the kernel does not have"),
                Err(error) => format!("{number}, which cannot be looked at: {}", error.cause),
            };
            Some(told)
        };
        let known = udev.disks_with_serial(&[id.virtio_serial(), id.as_str()]).unwrap_or_default();
        known.into_iter().filter_map(described).collect()
    }
}

/// SCSI disks need a rescan to notice a new size; virtio and `NVMe` disks notice it themselves.
fn look_again(folder: Option<&DiskFolder>) -> Result<()> {
    match folder {
        Some(folder) if folder.has("device/rescan") => {
            let path = folder.path().join("device/rescan");
            fs::write(&path, "1")
                .map_err(|error| Error::io(format!("write {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

/// Whether the system has its root or swap on the disk, even one without partitions.
fn in_use_by_the_system(device: &Device) -> Result<Option<String>> {
    let name = &device.kernel_name;
    // This process's root, and the node's if this is a container.
    for (root, mounts) in [("/", ""), ("/proc/1/root/", "/proc/1/mountinfo")] {
        let number = match fs::metadata(root) {
            Ok(found) => Some(device_nodes::number_below(&found)),
            // Looking there needs the right to trace, which not every root has.
            Err(_) => match fs::File::open(mounts).and_then(mount_tables::read) {
                Ok(text) => {
                    MountTable::parse(&text)?.top_at(Path::new("/")).map(|root| root.number)
                }
                Err(_) => None,
            },
        };
        if number == Some(device.number) {
            return Ok(Some(format!("{name} is this machine's root disk")));
        }
    }
    // A kernel without swap support has no such file.
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for area in swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()) {
        let found = fs::metadata(area).ok().and_then(|found| device_nodes::number_of(&found));
        if found == Some(device.number) {
            return Ok(Some(format!("{name} is swapped to ({area})")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(root: &Path, name: &str, number: &str, files: &[(&str, &str)]) {
        let folder = connected(root, name);
        let facts = [("dev", number), ("size", "2048\n"), ("ro", "0\n"), ("diskseq", "7\n")];
        for (file, contents) in facts.iter().chain(files) {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        fs::create_dir_all(root.join("dev/block")).unwrap();
        let link = root.join("dev/block").join(number);
        let _ = std::os::unix::fs::symlink(&folder, link);
    }

    /// The folder of a disk that is connected as a hypervisor's disk of that name is.
    fn connected(root: &Path, name: &str) -> PathBuf {
        let link = |target: &str, link: PathBuf| {
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            let _ = std::os::unix::fs::symlink(target, link);
        };
        let device = root.join("devices/pci0000:00/0000:00:05.0");
        let folder = match name.get(..2) {
            Some("sd") => {
                let host = device.join("virtio1/host0");
                fs::create_dir_all(host.join("scsi_host/host0")).unwrap();
                fs::write(host.join("scsi_host/host0/proc_name"), "virtio_scsi\n").unwrap();
                host.join("target0:0:0/0:0:0:0/block").join(name)
            }
            Some("nv") => {
                let folder = device.join("nvme/nvme0").join(name);
                fs::create_dir_all(folder.join("device")).unwrap();
                fs::write(folder.join("device/transport"), "pcie\n").unwrap();
                folder
            }
            Some("vd") => {
                let folder = device.join("virtio1/block").join(name);
                link("/drivers/virtio-pci", device.join("driver"));
                link("/drivers/virtio_blk", folder.join("device/driver"));
                folder
            }
            _ => root.join("devices/virtual/block").join(name),
        };
        fs::create_dir_all(&folder).unwrap();
        let known = root.join("block").join(name);
        link(folder.to_str().unwrap(), known.clone());
        fs::canonicalize(known).unwrap()
    }

    fn devices(root: &Path) -> SysfsDevices {
        SysfsDevices::at(root.to_path_buf(), root.join("by-id"))
    }

    fn serial(text: &str) -> Identity {
        Identity::Serial(VolumeId::parse(text).unwrap())
    }

    fn only(devices: &SysfsDevices, wanted: &Identity) -> Device {
        let found = devices.search(wanted).unwrap();
        assert_eq!(found.len(), 1, "{wanted}: {found:?}");
        found.into_iter().next().unwrap()
    }

    const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";

    #[test]
    fn a_disk_is_found_by_what_it_shows() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vda", "253:0", &[("serial", "root\n")]);
        disk(root.path(), "vdb", "253:16", &[("serial", "6f1c2d3e-4a5b-4c6d-8")]);
        disk(root.path(), "sda", "8:0", &[("device/vpd_pg80", "\0\u{1}\0\u{6}whole1 ")]);
        disk(
            root.path(),
            "nvme0n1",
            "259:0",
            &[("wwid", "uuid.00000000-0000-4000-8000-000000000001")],
        );
        disk(root.path(), "loop3", "7:3", &[("loop/backing_file", "/i/v1.img\n")]);
        disk(root.path(), "loop4", "7:4", &[("loop/backing_file", "/i/v2.img (deleted)\n")]);
        let devices = devices(root.path());
        let found = only(&devices, &serial(ID));
        assert_eq!((found.kernel_name.as_str(), found.size), ("vdb", 1 << 20));
        assert_eq!((found.sequence, found.proof), (Some(7), Proof::Cut));
        assert_eq!(only(&devices, &serial("whole1")).kernel_name, "sda");
        let nvme = only(&devices, &serial("00000000-0000-4000-8000-000000000001"));
        assert_eq!((nvme.kernel_name.as_str(), nvme.proof), ("nvme0n1", Proof::Whole));
        assert_eq!(devices.search(&serial("whole")).unwrap(), []);
        let image = |name: &str| Identity::BackingFile(PathBuf::from(name));
        assert_eq!(only(&devices, &image("/i/v1.img")).kernel_name, "loop3");
        assert_eq!(devices.search(&image("/i/v2.img")).unwrap(), [], "pulled disks are absent");
        assert_eq!(devices.shown_by("9:9".parse().unwrap()).unwrap(), None);
        assert_eq!(devices.shown_by("7:4".parse().unwrap()).unwrap(), Some(vec![]));
    }

    /// What a disk shows is believed on some transports alone; on which it is, the kernel's names tell.
    #[test]
    fn a_serial_on_another_transport_is_a_claim_and_no_more() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", &ID[..20])]);
        for (number, (name, path, file, transport)) in [
            ("sda", "platform/host4/session2/target4:0:0/4:0:0:0/block", "device/wwid", "iscsi"),
            ("sdb", "pci0000:00/usb1/1-2/host6/target6:0:0/6:0:0:0/block", "device/wwid", "usb"),
            ("vdc", "virtual/vduse/x/virtio7/block", "serial", "virtual"),
            ("nvme1n1", "virtual/nvme-fabrics/ctl/nvme1", "wwid", "unknown"),
        ]
        .into_iter()
        .enumerate()
        {
            let folder = root.path().join("devices").join(path).join(name);
            fs::create_dir_all(&folder).unwrap();
            std::os::unix::fs::symlink(&folder, root.path().join("block").join(name)).unwrap();
            let text = format!("uuid.{ID}\n");
            disk(root.path(), name, &format!("99:{number}"), &[(file, text.as_str())]);
            let devices = devices(root.path());
            assert_eq!(only(&devices, &serial(ID)).kernel_name, "vdb", "{name}");
            let all = devices.claimants(&serial(ID)).unwrap();
            let one = all.iter().find(|disk| disk.kernel_name == name).unwrap();
            assert_eq!(one.transport().unwrap().to_string(), transport, "{name}");
            assert_eq!(one.proof, Proof::Whole);
            let strangers = devices.strangers().unwrap();
            assert!(
                strangers.iter().any(|(disk, _)| disk.number == one.number),
                "{name}: {strangers:?}"
            );
            assert!(strangers.iter().all(|(disk, _)| disk.kernel_name != "vdb"));
        }
    }

    #[test]
    fn a_disk_that_is_connected_otherwise_by_now_is_another_disk() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", "v1")]);
        let (devices, wanted) = (devices(root.path()), serial("v1"));
        let found = only(&devices, &wanted);
        fs::remove_file(root.path().join("devices/pci0000:00/0000:00:05.0/driver")).unwrap();
        let error = devices.check(&wanted, &found).unwrap_err();
        assert!(error.cause.contains("was connected by virtio-blk"), "{error}");
    }

    #[test]
    fn an_nvme_disk_of_several_controllers_is_told_by_all_of_them() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(root.path().join("block")).unwrap();
        std::os::unix::fs::symlink(&folder, root.path().join("block/nvme0n1")).unwrap();
        let pcie = [("wwid", ID), ("device/nvme0/transport", "pcie\n")];
        disk(root.path(), "nvme0n1", "259:0", &pcie);
        let devices = devices(root.path());
        assert_eq!(only(&devices, &serial(ID)).transport().unwrap().to_string(), "nvme-pcie");
        fs::create_dir(folder.join("device/nvme3")).unwrap();
        fs::write(folder.join("device/nvme3/transport"), "tcp\n").unwrap();
        assert_eq!(devices.search(&serial(ID)).unwrap(), []);
    }

    #[test]
    fn a_loop_device_shows_its_file_and_its_serial_if_it_has_one() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "loop3", "7:3", &[("loop/backing_file", "/i/a\n"), ("serial", "v1")]);
        disk(root.path(), "loop4", "7:4", &[("loop/backing_file", "/i/v1\n")]);
        let devices = devices(root.path());
        assert_eq!(devices.search(&serial("v1")).unwrap(), [], "only where it is configured");
        let devices = devices.allowing(&serde_json::from_str("[\"loop\"]").unwrap());
        let found = only(&devices, &serial("v1"));
        assert_eq!(found.kernel_name, "loop3");
        devices.check(&serial("v1"), &found).unwrap();
        assert_eq!(only(&devices, &Identity::BackingFile("/i/v1".into())).kernel_name, "loop4");
        assert_eq!(devices.shown_by(found.number).unwrap().map(|all| all.len()), Some(2));
    }

    #[test]
    fn all_disks_of_one_serial_are_found() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", "v1")]);
        disk(root.path(), "vdc", "253:32", &[("serial", "v1")]);
        let (devices, wanted) = (devices(root.path()), serial("v1"));
        let error = wanted.shown_by_several(&devices.search(&wanted).unwrap());
        assert!(error.cause.contains("vdb") && error.cause.contains("vdc"), "{error}");
    }

    #[test]
    fn a_disk_that_changed_is_another_disk() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", "v1")]);
        let (devices, wanted) = (devices(root.path()), serial("v1"));
        let found = only(&devices, &wanted);
        devices.check(&wanted, &found).unwrap();
        let file = |name: &str| root.path().join("block/vdb").join(name);
        fs::write(file("diskseq"), "8").unwrap();
        assert!(devices.check(&wanted, &found).unwrap_err().cause.contains("exchanged"));
        fs::write(file("serial"), "v2").unwrap();
        let error = devices.check(&wanted, &found).unwrap_err();
        assert!(error.cause.contains("\"v2\"") && error.cause.contains("serial v1"), "{error}");
        fs::remove_file(root.path().join("dev/block/253:16")).unwrap();
        assert!(devices.check(&wanted, &found).unwrap_err().cause.contains("gone"));
    }

    /// At 94ff2ff what could not be read was not there: a detach went through under a mount.
    #[test]
    fn a_disk_that_cannot_be_asked_is_not_gone() {
        let root = tempfile::tempdir().unwrap();
        let facts = ["loop/backing_file", "dev", "size", "ro", "diskseq"];
        for (nth, fact) in facts.iter().enumerate() {
            let (name, number) = (format!("loop{nth}"), format!("7:{nth}"));
            disk(root.path(), &name, &number, &[("loop/backing_file", "/i/v1\n")]);
            let devices = devices(root.path());
            let wanted = Identity::BackingFile("/i/v1".into());
            let found = only(&devices, &wanted);
            // A folder is opened, and cannot be read.
            let file = root.path().join("block").join(&name).join(fact);
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            let error = devices.search(&wanted).unwrap_err();
            assert!(error.cause.contains("read") && error.hint.is_some(), "{fact}: {error}");
            if *fact == "loop/backing_file" {
                assert!(devices.is_gone(found.number).is_err(), "{fact}");
                assert!(devices.presence(found.number, &wanted).is_err(), "{fact}");
                assert!(devices.check(&wanted, &found).is_err(), "{fact}");
            }
            fs::remove_dir_all(root.path().join("block").join(&name)).unwrap();
            assert_eq!(devices.search(&wanted).unwrap(), [], "{fact}: what is not there is gone");
        }
    }

    /// A disk that does not tell its serial stands in no other's way.
    #[test]
    fn a_disk_that_tells_no_serial_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial/no", "file")]);
        disk(root.path(), "vdc", "253:32", &[("serial", "v1")]);
        let devices = devices(root.path());
        assert_eq!(only(&devices, &serial("v1")).kernel_name, "vdc");
        assert!(!devices.is_gone("253:16".parse().unwrap()).unwrap());
    }

    #[test]
    fn disks_in_other_use_are_objected_to() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", "a"), ("vdb1/partition", "1\n")]);
        disk(
            root.path(),
            "vdc",
            "253:32",
            &[("serial", "b"), ("holders/dm-0/dm/name", "mpatha\n")],
        );
        disk(root.path(), "vdd", "253:48", &[("serial", "c")]);
        disk(root.path(), "vde", "253:64", &[("serial", "d"), ("size", "0\n")]);
        let devices = devices(root.path());
        let objection = |id: &str| devices.objection(&only(&devices, &serial(id))).unwrap();
        assert!(objection("a").unwrap().contains("vdb1"));
        assert!(objection("b").unwrap().contains("dm-0 (mpatha)"));
        assert_eq!(objection("c"), None);
        assert!(objection("d").unwrap().contains("size 0"));
    }

    /// A map with this UUID over a disk that is there, or was.
    fn map(root: &Path, name: &str, number: &str, uuid: &str, over: &str) {
        disk(root, name, number, &[("dm/uuid", &format!("{uuid}\n")), ("dm/suspended", "0\n")]);
        let slaves = root.join("block").join(name).join("slaves");
        fs::create_dir_all(&slaves).unwrap();
        let disk = root.join("block").join(over);
        std::os::unix::fs::symlink(&disk, slaves.join(over)).unwrap();
        if disk.exists() {
            fs::create_dir_all(disk.join("holders").join(name)).unwrap();
        }
    }

    #[test]
    fn a_disk_under_its_volumes_own_map_is_used_through_that() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "254:16", &[("serial", "v1")]);
        map(root.path(), "dm-0", "253:0", "incloud_disk-v1", "vdb");
        disk(root.path(), "vdc", "254:32", &[("serial", "v2")]);
        map(root.path(), "dm-1", "253:1", "incloud_disk-v1", "vdc");
        disk(root.path(), "vdd", "254:48", &[("serial", "v3")]);
        map(root.path(), "dm-2", "253:2", "LVM-v3", "vdd");
        let devices = devices(root.path());
        let found = only(&devices, &serial("v1"));
        assert_eq!((found.kernel_name.as_str(), found.number.minor), ("dm-0", 0));
        devices.check(&serial("v1"), &found).unwrap();
        assert_eq!(devices.presence(found.number, &serial("v1")).unwrap(), Presence::Own);
        assert_eq!(devices.objection(&found).unwrap(), None);
        let shown = devices.shown_by(found.number).unwrap().unwrap();
        assert_eq!(
            serial("v1").proven_by(&shown),
            Some(Proof::Whole),
            "it shows what its disk does"
        );
        // Another volume's map, and what is no map of ours, are in the way.
        for (id, holder) in [("v2", "dm-1"), ("v3", "dm-2")] {
            let found = only(&devices, &serial(id));
            assert!(found.kernel_name.starts_with("vd"), "{found:?}");
            assert!(devices.objection(&found).unwrap().unwrap().contains(holder));
        }
        // A map is held by its UUID, and proven by its disk alone.
        fs::write(root.path().join("block/vdb/serial"), "other").unwrap();
        assert_eq!(devices.search(&serial("v1")).unwrap(), []);
        assert!(devices.check(&serial("v1"), &found).unwrap_err().cause.contains("other"));
    }

    #[test]
    fn a_map_without_its_disk_waits_and_is_not_gone() {
        let root = tempfile::tempdir().unwrap();
        map(root.path(), "dm-0", "253:0", "incloud_disk-v1", "vdb");
        let devices = devices(root.path());
        let number: DeviceNumber = "253:0".parse().unwrap();
        assert_eq!(devices.search(&serial("v1")).unwrap(), []);
        assert!(!devices.is_gone(number).unwrap());
        let Presence::Halted(doubt) = devices.presence(number, &serial("v1")).unwrap() else {
            panic!("it waits");
        };
        assert!(doubt.is_pause && doubt.state.contains("dm-0, the map of volume v1, waits"));
        assert!(doubt.way.unwrap().to_string().contains("Release v1"));
        let other = devices.presence(number, &serial("v2")).unwrap();
        assert_eq!(other, Presence::Other("the map of volume v1".to_owned()));
        // The disk is back, and nothing is mounted from it beside what waits.
        disk(root.path(), "vdc", "254:32", &[("serial", "v1")]);
        disk(root.path(), "vdd", "254:48", &[("serial", "v2")]);
        let back = only(&devices, &serial("v1"));
        assert_eq!(back.kernel_name, "vdc");
        let objection = devices.objection(&back).unwrap().unwrap();
        assert!(objection.contains("dm-0") && objection.contains("vdc may be that"), "{objection}");
        assert_eq!(devices.objection(&only(&devices, &serial("v2"))).unwrap(), None);
    }

    #[test]
    fn a_suspended_map_is_given_no_work() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "254:16", &[("serial", "v1")]);
        map(root.path(), "dm-0", "253:0", "incloud_disk-v1", "vdb");
        fs::write(root.path().join("block/dm-0/dm/suspended"), "1\n").unwrap();
        let devices = devices(root.path());
        let found = only(&devices, &serial("v1"));
        assert!(devices.objection(&found).unwrap().unwrap().contains("is suspended, for a change"));
        let presence = devices.presence(found.number, &serial("v1")).unwrap();
        assert!(matches!(presence, Presence::Halted(doubt) if doubt.is_pause));
    }

    #[test]
    fn the_root_disk_is_objected_to() {
        // In a plain chroot only the machine's own table has a row for "/".
        let number = ["/proc/thread-self/mountinfo", "/proc/1/mountinfo"].iter().find_map(|path| {
            let table = MountTable::parse(&fs::read(path).ok()?).ok()?;
            table.top_at(Path::new("/")).map(|root| root.number)
        });
        let number = number.unwrap();
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdz", &number.to_string(), &[("serial", "a")]);
        let devices = devices(root.path());
        let objection = devices.objection(&only(&devices, &serial("a"))).unwrap();
        assert!(objection.unwrap().contains("root disk"));
    }

    #[test]
    fn links_that_lie_are_reported_with_what_they_lead_to() {
        let root = tempfile::tempdir().unwrap();
        let by_id = root.path().join("by-id");
        fs::create_dir(&by_id).unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", ID)]);
        let devices = devices(root.path());
        let link = |name: &str, to: &str| {
            std::os::unix::fs::symlink(to, by_id.join(name)).unwrap();
        };
        link("virtio-6f1c2d3e-4a5b-4c6d-8", "/nowhere/at/all");
        link("scsi-0QEMU_QEMU_HARDDISK_6f1c2d3e-4a5b-4c6d-8", "/dev/null");
        link(&format!("virtio-{ID}"), &format!("virtio-{ID}"));
        link("unrelated", "/nowhere");
        let links = devices.links(&serial(ID), &by_id.join("virtio-6f1c2d3e-4a5b-4c6d-8"));
        let text: Vec<_> = links.iter().filter_map(|link| link.fault.as_deref()).collect();
        assert_eq!((links.len(), text.len()), (3, 3), "{links:?}");
        assert!(text.iter().any(|what| what.contains("no block device")), "{text:?}");
        assert_eq!(text.iter().filter(|what| what.contains("leads nowhere")).count(), 2);
    }
}
