//! Find what a call is about: the volume, its disk, the cloud's view of them, and the volume's lock.

pub(crate) mod alias;
pub(crate) mod attachment_view;
pub(crate) mod disk_numbers;
pub(crate) mod disk_owner;
pub mod find_disk;
pub(crate) mod locking;
pub(crate) mod lost_disks;
pub mod memory;
pub(crate) mod mounted_here;
pub(crate) mod other_kubelets;
