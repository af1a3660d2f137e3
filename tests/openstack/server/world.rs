//! Everything that the server knows: three services with separate views, and their time.

use super::clock::Clock;
use super::compute::Compute;
use super::compute::host::Hosts;
use super::fault::Fault;
use super::hook::Hook;
use super::identity::Identity;
use super::storage::Storage;
use std::collections::BTreeMap;
use std::time::Duration;

/// The whole cloud.
#[derive(Debug)]
pub struct World {
    pub clock: Clock,
    pub settings: Settings,
    pub identity: Identity,
    /// Nova's view.
    pub compute: Compute,
    /// Cinder's view.
    pub storage: Storage,
    /// What the compute hosts are doing: the changes that are still to come.
    pub hosts: Hosts,
    /// What goes wrong on the wire.
    pub faults: Vec<Fault>,
    /// Run when a disk is plugged and unplugged.
    pub hook: Hook,
}

/// How the cloud behaves; all can be changed while the server runs.
#[derive(Debug, Clone)]
pub struct Settings {
    pub delays: Delays,
    /// Regions of the catalog; the first one is that of paths without a region.
    pub regions: Vec<String>,
    /// Regions whose services are at another address.
    pub addresses: BTreeMap<String, String>,
    /// How long a token lives.
    pub token_lifetime: Duration,
    /// Lowest and highest minor of compute 2.x.
    pub compute_versions: (u32, u32),
    /// Lowest and highest minor of volume 3.x.
    pub storage_versions: (u32, u32),
    /// The start of a device's name, as the hypervisor guesses it.
    pub device_prefix: String,
    /// `max_disk_devices_to_attach`, the root disk included; none: no limit (M1).
    pub max_disks: Option<usize>,
    /// Gigabytes that a project may have (G23).
    pub quota: u64,
    /// Entries of one page of a list.
    pub page: usize,
    /// Requests per second above which a proxy answers 429.
    pub limit: Option<Limit>,
    /// The server, by name or id, to which the metadata service says who it is; a real one tells
    /// by the address that asks.
    pub metadata_of: Option<String>,
    /// Answers have a `Date`, by the world's clock; the recorded ones leave it to the web server.
    pub dates: bool,
}

/// A proxy's limit.
#[derive(Debug, Clone)]
pub struct Limit {
    /// Requests in any one second.
    pub per_second: usize,
    /// The value of `Retry-After`; none: no such header.
    pub retry_after: Option<String>,
}

/// How long each step of an attach or detach takes, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// The host reserves a device name; POST waits for it. Two requests race in this gap (C17).
    pub reserve: u64,
    /// Cinder takes so long for the reservation: Nova has its row, and POST waits on.
    pub record: u64,
    /// From `reserved` to `attaching`.
    pub reserved: u64,
    /// From `attaching` to `in-use`.
    pub attaching: u64,
    /// From `detaching` to `available`.
    pub detaching: u64,
    /// Nova's row lives on after Cinder says `available` (C15, C16).
    pub row: u64,
    /// From `extending` to what it was.
    pub extend: u64,
    /// A deleted server's volumes become `available`.
    pub cleanup: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            reserve: 0,
            record: 0,
            reserved: 5,
            attaching: 20,
            detaching: 20,
            row: 5,
            extend: 10,
            cleanup: 20,
        }
    }
}

impl Delays {
    /// All steps at once.
    pub fn none() -> Self {
        Self {
            reserve: 0,
            record: 0,
            reserved: 0,
            attaching: 0,
            detaching: 0,
            row: 0,
            extend: 0,
            cleanup: 0,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delays: Delays::default(),
            regions: vec!["RegionOne".to_owned()],
            addresses: BTreeMap::new(),
            token_lifetime: Duration::from_secs(3600),
            compute_versions: (1, 93),
            storage_versions: (0, 70),
            device_prefix: "/dev/sd".to_owned(),
            max_disks: None,
            quota: 5000,
            page: 1000,
            limit: None,
            metadata_of: None,
            dates: false,
        }
    }
}

impl World {
    /// A cloud without servers and volumes, with the people of [`Identity::demo`].
    pub fn demo() -> Self {
        Self {
            clock: Clock::running(),
            settings: Settings::default(),
            identity: Identity::demo(),
            compute: Compute::default(),
            storage: Storage::default(),
            hosts: Hosts::default(),
            faults: Vec::new(),
            hook: Hook::None,
        }
    }

    /// The region of paths without a region.
    pub fn home_region(&self) -> String {
        self.settings.regions.first().cloned().unwrap_or_default()
    }
}
