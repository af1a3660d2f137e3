//! What an ext4 wrote last, by its superblock and its journal: on a disk, and in the memory of the kernel that
//! has it mounted. A disk that was away is the file system's own only if both are of one moment.
//!
//! Each part is read by itself: bytes in, and the next place to read out.

mod bytes;
pub mod log_walk;
pub mod one_moment;
pub mod place;
