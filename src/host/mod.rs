//! This machine: adapters of the ports to the kernel.
//!
//! | port | adapter |
//! | --- | --- |
//! | [`ports::host::Devices`] | [`devices::SysfsDevices`] |
//! | [`ports::host::FileSystems`] | [`filesystems::KernelFileSystems`] |
//! | [`ports::host::Mounts`] | [`mounts::KernelMounts`] |
//! | [`ports::host::Census`] | [`census::KernelCensus`] |
//! | [`ports::host::Remounts`] | [`remount::KernelRemounts`] |
//! | [`ports::host::Maps`] | [`device_mapper::KernelMaps`] |

mod aligned_memory;
pub mod aside;
pub mod census;
pub mod child;
mod confinement;
mod descriptors;
pub mod device_mapper;
pub mod device_nodes;
pub mod devices;
pub mod entry;
pub mod files;
pub mod filesystems;
pub mod kernel;
pub mod kernel_log;
pub mod kubelet_log;
pub mod left_behind;
pub mod locks;
pub mod machine;
pub mod metrics;
pub mod mount_tables;
pub mod mounts;
pub mod own_process;
pub mod pace;
pub mod pod_directories;
pub mod processes;
pub mod records;
pub mod remount;
pub mod safe_path;
pub mod shared_answers;
pub mod sweeps;
mod time_limit;
pub mod tool;
pub mod worker;
pub mod zone;

use incloud_disk_failpoints as failpoints;
use incloud_disk_model as model;
use incloud_disk_ports as ports;
