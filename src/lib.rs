//! `disk`: one executable that gives Kubernetes' `FlexVolume` interface cloud block disks.
//!
//! # Floors, top to bottom
//!
//! | floor | rooms | may import |
//! | --- | --- | --- |
//! | roof | `main`, [`app`], [`wiring`], [`cli`], [`log`], [`channel`], [`watchdog`] | everything below |
//! | faces | [`flexvolume`] (kubelet's words), [`operator`] (people's words; it is wired like the roof, so it may import [`app`], [`wiring`], [`cli`] and [`log`]) | driver and below |
//! | decisions | [`driver`] | ports and model |
//! | ports and adapters | [`cloud`], [`host`] | model, each other's port |
//! | facts | [`model`] | nothing of ours |
//!
//! [`failpoints`] is no floor: it marks steps for tests, and everybody may name it. It names the model
//! alone.
//!
//! # One call
//!
//! `argv` becomes a [`flexvolume::call::Call`], the call becomes one method of
//! [`driver::Driver`], the driver asks a [`cloud::Cloud`] and the [`host`], and the result becomes
//! one [`flexvolume::reply::Reply`]. Data never turns back: adapters do not call the driver, the
//! driver does not print, the model does nothing.

pub mod app;
pub mod channel;
pub mod cli;
pub mod cloud;
pub mod driver;
pub mod failpoints;
pub mod flexvolume;
pub mod host;
pub mod log;
pub mod model;
pub mod operator;
pub mod watchdog;
pub mod wiring;
