//! The machine as an installation sees it: its kubelet, its units, its folders. And the installation
//! itself: how a driver comes to its place, is verified there, and goes.
//!
//! Killed at any step, the next word goes on from there.

mod brought;
mod configuring;
pub mod console;
mod durable;
mod ending;
mod install;
mod kept_drivers;
pub mod kubelet;
mod maker;
pub mod options;
mod pages;
mod plugin_folder;
mod predecessor;
mod process;
mod readiness;
mod record;
mod site;
mod switch;
pub mod system;
mod trial;
mod trigger;
mod uninstall;
mod users;
mod verify;
pub mod work;

use incloud_disk_failpoints as failpoints;
use incloud_disk_host as host;
use incloud_disk_model as model;
use incloud_disk_ports as ports;
