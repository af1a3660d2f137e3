//! Facts and rules without input or output: everything here can be tested with values alone.

pub mod advice;
pub mod cgroup;
pub mod cloud;
pub mod disk;
pub mod error;
pub mod face;
pub mod hexadecimal;
pub mod ids;
pub mod known_volume;
pub mod kubelet;
pub mod mount;
pub mod path_text;
pub mod pauses;
pub mod policy;
pub mod record;
pub mod report;
pub mod secret;
pub mod shield;
pub mod sorting;
pub mod text;
pub mod timestamp;
pub mod yaml;
pub mod zone;
