//! Disks as other tools leave them: whole, damaged, cut and unreadable. None is ever formatted.
//!
//! Each image is a test of its own, so that one whose maker is not on this machine is skipped and
//! counted alone. A row of the tables in this folder is
//!
//! ```text
//! name: made(size in MiB, what blkid calls it, the shell line of its maker)
//! ```
//!
//! and `image.rs` says what such a line finds. The marks of what no tool makes without the kernel's help are in the
//! unit tests of `model::disk::contents`.

mod image;
pub mod trial;
mod variant;

/// One test for each row.
macro_rules! images {
    ($($(#[$about:meta])* $name:ident: $image:expr;)*) => {
        $(
            $(#[$about])*
            #[test]
            fn $name() {
                $crate::corpus::trial::survives(
                    concat!(module_path!(), "::", stringify!($name)),
                    &$image,
                );
            }
        )*
    };
}

mod bad_sectors;
mod btrfs;
mod encrypted;
mod ext;
mod foreign;
mod linux;
mod loose;
mod packed;
mod partitions;
mod volumes;
mod xfs;

use crate::volume::Volume;

/// What all the others are compared with: the same calls do format a blank disk.
#[test]
fn a_blank_disk_is_formatted() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    assert!(trial::says_that_it_formatted(&node));
    volume.ends();
    volume.must_be_sound();
}
