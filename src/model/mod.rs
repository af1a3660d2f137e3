//! Facts and rules without input or output: everything here can be tested with values alone.

pub mod access;
pub mod aftercare;
pub mod cgroup;
pub mod config;
pub mod contents;
pub mod device;
pub mod error;
pub mod gcfg;
pub mod ids;
pub mod iso9660;
pub mod mount_options;
pub mod mountinfo;
pub mod record;
pub mod refusal;
pub mod secret;
pub mod situation;
pub mod staleness;
pub mod switch;
pub mod target;
pub mod text;
pub mod time;
pub mod users;
