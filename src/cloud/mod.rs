//! Clouds: `OpenStack`, a local one on loop devices, and one that stands in where none is configured.

pub mod local;
pub mod openstack;
pub mod unconfigured;

use incloud_disk_failpoints as failpoints;
use incloud_disk_host as host;
use incloud_disk_model as model;
use incloud_disk_ports as ports;
