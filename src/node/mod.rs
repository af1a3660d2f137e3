//! The machine as an installation sees it: its kubelet, its units, its folders. And the installation
//! itself: how a driver comes to its place, is verified there, and goes.
//!
//! Killed at any step, the next word goes on from there.

pub mod brought;
pub mod configuring;
pub mod console;
pub mod durable;
pub mod ending;
pub mod install;
pub mod kept_drivers;
pub mod kubelet;
pub mod maker;
pub mod options;
pub mod pages;
pub mod plugin_folder;
pub mod predecessor;
pub mod process;
pub mod readiness;
pub mod record;
pub mod site;
pub mod switch;
pub mod system;
pub mod trial;
pub mod trigger;
pub mod uninstall;
pub mod users;
pub mod verify;
pub mod work;

use incloud_disk_failpoints as failpoints;
use incloud_disk_host as host;
use incloud_disk_model as model;
use incloud_disk_ports as ports;
