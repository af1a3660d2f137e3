//! Finds what a call is about: the volume, its disk, what the cloud says of them; and holds the volume.

pub(in crate::driver) mod attachment_view;
pub(in crate::driver) mod disk_numbers;
pub(in crate::driver) mod find_disk;
pub mod find_volume;
pub mod known_volumes;
pub(in crate::driver) mod locking;
pub(in crate::driver) mod lost_disks;
pub(in crate::driver) mod memory;
pub(in crate::driver) mod mounted_here;
pub(in crate::driver) mod other_kubelets;
pub(in crate::driver) mod own_maps;
