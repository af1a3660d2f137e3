//! Facts and rules of clouds.

pub mod access;
pub mod asking;
pub mod attachment_state;
pub mod gcfg;
pub mod iso9660;
pub mod next_step;
pub mod request;
