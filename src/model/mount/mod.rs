//! Facts and rules of mounts, and of who has them.

pub mod after_heal;
pub mod attribution;
pub mod disk_users;
pub mod folders_let_go;
pub mod label;
pub mod layout;
pub mod letting_go;
pub mod mount_options;
pub mod mount_place;
pub mod mountinfo;
pub mod orphan;
pub mod ownership;
pub mod propagation;
pub mod replacement;
pub mod staleness;
pub mod unstage;
