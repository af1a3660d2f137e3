//! The outside of the virtual machine: its parts, its image, QEMU, and what plugs its disks.

pub(crate) mod channel;
pub(crate) mod cpio;
pub(crate) mod forward;
pub(crate) mod image;
pub(crate) mod machine;
pub(crate) mod parts;
pub(crate) mod plug;
pub(crate) mod qemu;
pub(crate) mod qmp;
