//! The embedded cloud, on loop devices of this machine.

use crate::suite::{MIB, Subject};
use crate::support::{Node, private_mounts};
use incloud_disk::cloud::local::LocalCloud;
use incloud_disk::host::devices::SysfsDevices;
use incloud_disk::model::ids::VolumeId;
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::cloud::Cloud;
use std::cell::RefCell;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

struct Local {
    /// Takes the loop devices with it when it goes.
    node: Node,
    devices: SysfsDevices,
    lock: RefCell<Option<File>>,
}

impl Local {
    fn new(test: &str) -> Option<Self> {
        private_mounts(test).then(|| Self {
            node: Node::new(),
            devices: SysfsDevices::default(),
            lock: RefCell::default(),
        })
    }

    fn folder(&self) -> PathBuf {
        self.node.base().join("cloud")
    }

    fn own(&self) -> LocalCloud<'_> {
        LocalCloud::new(&self.folder(), &self.nodes()[0], &self.devices).unwrap()
    }
}

impl Subject for Local {
    fn cloud(&self) -> Box<dyn Cloud + '_> {
        Box::new(self.own())
    }

    fn make(&self) -> VolumeId {
        let id = VolumeId::parse(&crate::server::ids::uuid()).unwrap();
        self.own().create(&id, 1024 * MIB, None, Deadline::after(Duration::from_secs(5))).unwrap();
        id
    }

    fn troubles(&self) -> Vec<&'static str> {
        vec!["torn records", "no folder of volumes"]
    }

    fn begin(&self, trouble: &str) {
        let volumes = self.folder().join("volumes");
        if trouble == "torn records" {
            for entry in fs::read_dir(&volumes).unwrap().flatten() {
                if entry.path().extension().is_some_and(|extension| extension == "json") {
                    fs::write(entry.path(), "{\"format\": 1, \"id").unwrap();
                }
            }
        } else {
            fs::rename(&volumes, self.folder().join("away")).unwrap();
            fs::write(&volumes, "no folder").unwrap();
        }
    }

    fn hang(&self) -> bool {
        let file = File::options().write(true).open(self.folder().join("lock")).unwrap();
        file.lock().unwrap();
        self.lock.replace(Some(file));
        true
    }
}

conforms!(Local::new);
