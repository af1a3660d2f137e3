//! A volume goes to a server, and leaves it.

pub mod attach;
#[cfg(test)]
mod cloud_table;
mod cloud_wait;
pub mod detach;
pub(crate) mod open_requests;
pub mod take_down;
pub(crate) mod takeover;
pub mod wait;
