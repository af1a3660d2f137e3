//! `disk`: one executable that gives Kubernetes' `FlexVolume` interface cloud block disks.
//!
//! # Floors, top to bottom
//!
//! | floor | rooms | may import |
//! | --- | --- | --- |
//! | roof | `main`, [`app`], [`wiring`], [`configuration`], [`cli`], [`log`], [`channel`], [`watchdog`] | everything below |
//! | faces | [`flexvolume`] (kubelet's words), [`operator`] (people's words; it is wired like the roof, so it may import [`app`], [`wiring`], [`configuration`], [`cli`] and [`log`]) | driver and below |
//! | installation | [`node`]: the machine around the driver, kubelet among it; how a driver is installed | ports and model |
//! | decisions | [`driver`] | ports and model |
//! | ports and adapters | [`cloud`], [`host`] | model, each other's port |
//! | facts | [`model`] | nothing of ours |
//!
//! [`failpoints`] is no floor: it marks steps for tests, and every floor may name it. It names the model
//! alone.
//!
//! No file leads back to itself, neither by what it imports nor by the methods that it calls.
//!
//! # The driver's floors, top to bottom
//!
//! | room | what it decides |
//! | --- | --- |
//! | [`driver::attachment`] | a volume goes to a server, leaves it, shows its disk; what kubelet forgot is taken down |
//! | [`driver::mount`] | stage, publish, unmount, format, expand, release |
//! | [`driver::report`] | what is seen of all volumes |
//! | [`driver::heal`] | mounts of a dead disk are replaced; what a killed heal left is ended |
//! | [`driver::guard`] | what may be torn down: refusals, the disk's freedom, the mark in the cloud |
//! | [`driver::ownership`] | whose a mount is, and what stands at a folder |
//! | [`driver::lookup`] | the volume, its disk, its numbers, what the cloud says of it, its lock |
//!
//! Each file has one small type, which borrows the ports that it needs and the types below it.
//! `driver/assembly.rs` makes them in the one order in which they can call each other.
//!
//! # One call
//!
//! `argv` becomes a [`flexvolume::call::Call`], the call becomes one method of a
//! room of [`driver::Driver`], which asks a [`cloud::Cloud`] and the [`host`], and the result becomes
//! one [`flexvolume::reply::Reply`]. Data never turns back: adapters do not call the driver, the
//! driver does not print, the model does nothing.

pub mod app;
pub mod channel;
pub mod cli;
pub mod cloud;
pub mod configuration;
pub mod driver;
pub mod failpoints;
pub mod flexvolume;
pub mod host;
pub mod log;
pub mod model;
pub mod node;
pub mod operator;
pub mod watchdog;
pub mod wiring;
