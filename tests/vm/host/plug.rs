//! The hypervisor's part of the cloud: what its attach and detach plug into the guest and pull out,
//! and the images on the outside.

use super::qmp::Qmp;
use crate::server::hook::{Action, Hook};
use serde_json::json;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const GIB: u64 = 1 << 30;

/// How long a guest is asked to let a disk go, and how often.
const ASKS: u32 = 6;
const PATIENCE: Duration = Duration::from_secs(5);

/// The kind of disk that a volume is in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bus {
    VirtioBlk,
    VirtioScsi,
    Nvme,
    /// Each of them in turn: of three new volumes one is on each.
    InTurn,
}

/// The order of [`Bus::InTurn`].
const TURNS: [Bus; 3] = [Bus::VirtioBlk, Bus::VirtioScsi, Bus::Nvme];

impl Bus {
    pub(crate) const ALL: [Self; 4] = [Self::VirtioBlk, Self::VirtioScsi, Self::Nvme, Self::InTurn];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::VirtioBlk => "virtio-blk",
            Self::VirtioScsi => "virtio-scsi",
            Self::Nvme => "nvme",
            Self::InTurn => "each-bus",
        }
    }

    /// QEMU's device for a disk.
    fn device(self) -> &'static str {
        match self {
            Self::VirtioBlk | Self::InTurn => "virtio-blk-pci",
            Self::VirtioScsi => "scsi-hd",
            Self::Nvme => "nvme",
        }
    }
}

/// A disk that is in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plugged {
    pub(crate) volume: String,
    /// QEMU's name of the device; its block node has a name made of it.
    device: String,
}

/// What plugs and pulls.
#[derive(Debug)]
pub(crate) struct Plug {
    folder: PathBuf,
    bus: Bus,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    qmp: Option<Arc<Qmp>>,
    count: u32,
    delay: Duration,
    plugged: Vec<Plugged>,
    lent: Option<Plugged>,
    hanging: Vec<Plugged>,
    /// The volumes that had a turn, in the order in which they came.
    turns: Vec<String>,
}

/// What the disk that is no volume shows as its serial.
pub(crate) const LENT: &str = "lent";

impl Plug {
    /// Images are in this folder.
    pub(crate) fn new(folder: &Path, bus: Bus) -> Arc<Self> {
        Arc::new(Self { folder: folder.to_owned(), bus, state: Mutex::default() })
    }

    /// For the cloud.
    pub(crate) fn hook(self: &Arc<Self>) -> Hook {
        let plug = Arc::clone(self);
        Hook::function(move |call| match call.action {
            Action::Attach => plug.attach(&call.volume, call.size),
            Action::Detach => plug.pull_out(&call.volume),
            Action::Extend => plug.extend(&call.volume, call.size),
        })
    }

    /// The machine that runs from now on.
    pub(crate) fn connect(&self, qmp: Arc<Qmp>) {
        self.state().qmp = Some(qmp);
    }

    /// The disks that the guest has, in the order in which they came.
    pub(crate) fn plugged(&self) -> Vec<Plugged> {
        self.state().plugged.clone()
    }

    /// The order in which a machine that boots finds them.
    pub(crate) fn reorder(&self, volumes: &[&str]) {
        let place = |plugged: &Plugged| volumes.iter().position(|one| *one == plugged.volume);
        self.state().plugged.sort_by_key(place);
    }

    /// What QEMU is told of a disk that is there from the start.
    pub(crate) fn arguments(&self, disk: &Plugged) -> [String; 4] {
        let image = self.image(&disk.volume);
        [
            "-blockdev".to_owned(),
            node(disk, &image).to_string(),
            "-device".to_owned(),
            self.device(disk).to_string(),
        ]
    }

    pub(crate) fn image(&self, volume: &str) -> PathBuf {
        self.folder.join(format!("volume-{volume}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn qmp(&self) -> Result<Arc<Qmp>, String> {
        self.state().qmp.clone().ok_or_else(|| "no machine runs".to_owned())
    }

    fn attach(self: &Arc<Self>, volume: &str, size: u64) -> Result<(), String> {
        let delay = self.state().delay;
        if delay.is_zero() {
            return self.plug_in(volume, size);
        }
        let (plug, volume) = (Arc::clone(self), volume.to_owned());
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            if let Err(why) = plug.plug_in(&volume, size) {
                eprintln!("plugged in late: {why}");
            }
        });
        Ok(())
    }

    /// How long the guest waits from now on for a disk that the cloud calls attached.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// The guest is told of its disk's new size.
    fn extend(&self, volume: &str, size: u64) -> Result<(), String> {
        let disk = self.find(volume)?;
        let node = format!("node-{}", disk.device);
        let arguments = json!({"node-name": node, "size": size * GIB});
        self.qmp()?.run("block_resize", &arguments).map(drop)
    }

    fn find(&self, volume: &str) -> Result<Plugged, String> {
        let state = self.state();
        let found = state.plugged.iter().find(|disk| disk.volume == volume);
        Ok(found.ok_or("the guest does not have it")?.clone())
    }

    /// The image of a volume, blank where nothing wrote to it.
    pub(crate) fn make_image(&self, volume: &str, size: u64) -> Result<PathBuf, String> {
        let image = self.image(volume);
        let mut open = OpenOptions::new();
        let file = open.create(true).truncate(false).write(true).open(&image);
        file.and_then(|file| file.set_len(size * GIB)).map_err(|error| error.to_string())?;
        Ok(image)
    }

    fn plug_in(&self, volume: &str, size: u64) -> Result<(), String> {
        let image = self.make_image(volume, size)?;
        let disk = {
            let mut state = self.state();
            state.count += 1;
            Plugged { volume: volume.to_owned(), device: format!("disk-{}", state.count) }
        };
        let qmp = self.qmp()?;
        qmp.run("blockdev-add", &node(&disk, &image))?;
        qmp.run("device_add", &self.device(&disk))?;
        self.state().plugged.push(disk);
        Ok(())
    }

    /// Plugs in a disk that is no volume of the cloud's, and can only be read. It is of one kind on every machine.
    pub(crate) fn lend(&self, image: &Path) -> Result<(), String> {
        let disk = Plugged { volume: LENT.to_owned(), device: LENT.to_owned() };
        let mut node = node(&disk, image);
        node["read-only"] = json!(true);
        let qmp = self.qmp()?;
        qmp.run("blockdev-add", &node)?;
        let mut device = self.device(&disk);
        device["driver"] = json!(Bus::VirtioBlk.device());
        if let Some(fields) = device.as_object_mut() {
            fields.remove("bus");
        }
        qmp.run("device_add", &device)?;
        self.state().lent = Some(disk);
        Ok(())
    }

    pub(crate) fn has_lent(&self) -> bool {
        self.state().lent.is_some()
    }

    /// It must be mounted no more.
    pub(crate) fn take_back(&self) -> Result<(), String> {
        let lent = self.state().lent.take();
        lent.map_or(Ok(()), |disk| self.pull(&disk))
    }

    pub(crate) fn pull_out(&self, volume: &str) -> Result<(), String> {
        let disk = self.find(volume)?;
        self.pull(&disk)?;
        self.state().plugged.retain(|one| *one != disk);
        Ok(())
    }

    /// From now on a volume's disk answers no request: each byte may take a second. Until it is pulled out.
    pub(crate) fn hang(&self, volume: &str) -> Result<(), String> {
        let disk = self.find(volume)?;
        self.allow(&disk, 1)?;
        self.state().hanging.push(disk);
        Ok(())
    }

    /// It answers again.
    pub(crate) fn answer(&self, volume: &str) -> Result<(), String> {
        self.ends_hanging(&self.find(volume)?)
    }

    fn ends_hanging(&self, disk: &Plugged) -> Result<(), String> {
        let hung = self.state().hanging.iter().position(|one| one == disk);
        let Some(at) = hung else { return Ok(()) };
        self.allow(disk, 0)?;
        self.state().hanging.remove(at);
        Ok(())
    }

    /// So many bytes a second; 0 for as many as can be.
    fn allow(&self, disk: &Plugged, bytes: u64) -> Result<(), String> {
        // A virtio disk is a part of its PCI device.
        let id = match self.bus_of(&disk.volume) {
            Bus::VirtioBlk => format!("/machine/peripheral/{}/virtio-backend", disk.device),
            _ => disk.device.clone(),
        };
        let limits = json!({
            "id": id, "bps": bytes, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0,
        });
        self.qmp()?.run("block_set_io_throttle", &limits).map(drop)
    }

    /// As a hypervisor does: the guest is asked, and asked again if it does not let go. What its disk held is answered
    /// first, for a guest's kernel lets none go that has a request.
    fn pull(&self, disk: &Plugged) -> Result<(), String> {
        self.ends_hanging(disk)?;
        let qmp = self.qmp()?;
        for _ in 0..ASKS {
            // Refused while an earlier one is under way.
            let asked = qmp.run("device_del", &json!({"id": disk.device}));
            if qmp.wait_deleted(&disk.device, PATIENCE) {
                qmp.run("blockdev-del", &json!({"node-name": format!("node-{}", disk.device)}))?;
                return Ok(());
            }
            if let Err(why) = asked
                && !why.contains("already in the process")
            {
                return Err(why);
            }
        }
        Err("the guest keeps the disk".to_owned())
    }

    fn device(&self, disk: &Plugged) -> serde_json::Value {
        let bus = self.bus_of(&disk.volume);
        let mut device = json!({
            "driver": bus.device(),
            "id": disk.device,
            "drive": format!("node-{}", disk.device),
            "serial": serial(&disk.volume),
        });
        if bus == Bus::VirtioScsi {
            device["bus"] = json!("scsi.0");
        }
        device
    }

    /// A volume stays on the bus of its first time.
    fn bus_of(&self, volume: &str) -> Bus {
        if self.bus != Bus::InTurn {
            return self.bus;
        }
        let turns = &mut self.state().turns;
        let turn = turns.iter().position(|one| one == volume).unwrap_or_else(|| {
            turns.push(volume.to_owned());
            turns.len() - 1
        });
        TURNS[turn % TURNS.len()]
    }
}

fn node(disk: &Plugged, image: &Path) -> serde_json::Value {
    json!({
        "driver": "raw",
        "node-name": format!("node-{}", disk.device),
        "file": {"driver": "file", "filename": image},
    })
}

/// What a disk shows of its volume's id.
pub(crate) fn serial(volume: &str) -> &str {
    &volume[..volume.len().min(20)]
}
