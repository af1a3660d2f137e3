//! A volume goes to a server, and leaves it.

pub mod attach;
#[cfg(test)]
mod cloud_table;
pub mod detach;
pub(in crate::driver) mod open_requests;
pub mod take_down;
pub(in crate::driver) mod takeover;
pub mod wait;
