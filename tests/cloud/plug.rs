//! A hypervisor whose disks are loop devices: what the cloud's hook plugs in and pulls out.

use crate::server::hook::{Action, Call, Hook};
use crate::support::server_disks::{Shown, bind, device, losetup, serial};
use crate::support::sysfs::Bus;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const GIB: u64 = 1 << 30;

/// The hypervisor of a scene.
#[derive(Debug)]
pub struct Plug {
    base: PathBuf,
    /// The kernel's name that each volume's disk had last.
    last: Mutex<BTreeMap<String, String>>,
    /// By how many bytes disks are larger than their volumes; below zero what an encryption takes.
    pub larger_by: AtomicI64,
    /// How its disks are connected, if not by virtio.
    pub bus: Mutex<Option<Bus>>,
}

impl Plug {
    /// Images and servers are in this folder.
    pub fn below(base: &Path) -> Arc<Self> {
        fs::create_dir(base.join("images")).unwrap();
        Arc::new(Self {
            base: base.to_path_buf(),
            last: Mutex::default(),
            larger_by: AtomicI64::new(0),
            bus: Mutex::default(),
        })
    }

    /// For the cloud.
    pub fn hook(self: &Arc<Self>) -> Hook {
        let plug = Arc::clone(self);
        Hook::function(move |call| plug.act(call).map_err(|error| error.to_string()))
    }

    pub fn image(&self, volume: &str) -> PathBuf {
        self.base.join("images").join(volume)
    }

    /// The view of a server; made when it is asked for first.
    pub fn shown_to(&self, server: &str) -> Shown {
        Shown::below(&self.base.join("servers").join(server))
    }

    fn act(&self, call: &Call) -> io::Result<()> {
        let shown = self.shown_to(&call.server);
        match call.action {
            Action::Attach => self.plug_in(call, &shown),
            Action::Detach => self.pull_out(call, &shown),
            Action::Extend => self.extend(call, &shown),
        }
    }

    fn plug_in(&self, call: &Call, shown: &Shown) -> io::Result<()> {
        self.enlarge(call)?;
        let mut last = self.last.lock().unwrap();
        let before = last.get(&call.volume).map(String::as_str);
        let name = bind(&self.image(&call.volume), before)?;
        last.insert(call.volume.clone(), name.clone());
        let bus = self.bus.lock().unwrap().unwrap_or(Bus::usual(&name));
        shown.show_as(&name, &name, bus, &[("serial", serial(&call.volume))])?;
        symlink(device(&name), shown.link(&call.volume))
    }

    fn pull_out(&self, call: &Call, shown: &Shown) -> io::Result<()> {
        let name = shown.name_of(&call.volume).ok_or(io::ErrorKind::NotFound)?;
        fs::remove_file(shown.link(&call.volume))?;
        shown.hide(&name)?;
        losetup(&[Path::new("--detach"), &device(&name)]).map(drop)
    }

    fn extend(&self, call: &Call, shown: &Shown) -> io::Result<()> {
        self.enlarge(call)?;
        let name = shown.name_of(&call.volume).ok_or(io::ErrorKind::NotFound)?;
        shown.grow(&name)
    }

    /// Makes the image as large as the cloud says; what is in it stays.
    fn enlarge(&self, call: &Call) -> io::Result<()> {
        let image = self.image(&call.volume);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(image)?;
        let size = call.size * GIB;
        file.set_len(size.saturating_add_signed(self.larger_by.load(Ordering::Relaxed)))
    }
}
