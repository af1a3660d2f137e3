//! Facts and rules of block devices and what stands on them.

pub mod contents;
pub mod device;
pub mod exclusive_open;
pub mod file_system;
pub mod formatting;
pub mod journal;
pub mod mountable;
pub mod transport;
