//! `disk`: one executable that gives Kubernetes' `FlexVolume` interface cloud block disks.
//!
//! # Crates, top to bottom
//!
//! | crate | contents | depends on |
//! | --- | --- | --- |
//! | this one | the front ends: [`flexvolume`] (kubelet's words), [`operator`] and [`cli`] (people's words), [`advice`] (the words for what a person can do), and what starts them: `main`, [`app`], [`wiring`], [`configuration`], [`log`], [`channel`], [`supervisor`] | all below |
//! | [`node`] | the machine around the driver, kubelet among it; how a driver is installed | host, ports, model |
//! | [`cloud`] | clouds: `OpenStack`, and a local one | host, ports, model |
//! | [`shield`] | the hooks by which I/O waits while a disk is away | driver, ports, model |
//! | [`host`] | this machine: adapters to the kernel, and files | ports, model |
//! | `udev` | what libudev tells of disks; a static driver is built without it | ports, model |
//! | [`driver`] | every other decision about a volume; it reaches clouds and machines by the ports alone | ports, model |
//! | [`ports`] | what the driver needs of a cloud and of a machine | model |
//! | [`failpoints`] | steps at which a test build can be made to fail; every crate but the model marks its own | model |
//! | [`model`] | facts and rules, without input or output | none of ours |
//!
//! # The driver's modules, top to bottom
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`driver::names`] | which volume a name means, an orchestrator's or a person's; then its operation is called by the id. `heal` and `report` ask it about the names of folders |
//! | [`driver::attachment`] | a volume goes to a server, leaves it, shows its disk; what kubelet forgot is taken down |
//! | [`driver::mount`] | stage, publish, unmount, format, expand, release |
//! | [`driver::report`] | what is seen of all volumes |
//! | [`driver::heal`] | mounts of a dead disk are replaced; what a killed heal left is ended |
//! | [`driver::guard`] | what may be torn down: refusals, the disk's freedom, the mark in the cloud |
//! | [`driver::ownership`] | whose a mount is, and what stands at a folder |
//! | [`driver::lookup`] | the volume, its disk, its numbers, what the cloud says of it, its lock |
//!
//! Each module is a set of functions over one [`driver::Context`]: the ports, the policy and the limits of the call.
//!
//! # One call
//!
//! `argv` becomes a [`flexvolume::call::Call`], the call becomes one function of
//! [`driver`], which asks a [`cloud::Cloud`] and the [`host`] through its context, and the result becomes
//! one [`flexvolume::reply::Reply`]. Data never turns back: adapters do not call the driver, the
//! driver does not print, the model does nothing.

pub mod advice;
pub mod app;
pub mod channel;
pub mod cli;
pub mod configuration;
pub mod flexvolume;
pub mod log;
pub mod operator;
pub mod supervisor;
pub mod wiring;

pub use incloud_disk_cloud as cloud;
pub use incloud_disk_driver as driver;
pub use incloud_disk_failpoints as failpoints;
pub use incloud_disk_host as host;
pub use incloud_disk_model as model;
pub use incloud_disk_node as node;
pub use incloud_disk_ports as ports;
pub use incloud_disk_shield as shield;

/// The version and the commit.
pub(crate) const VERSION: &str = env!("INCLOUD_DISK_VERSION");
