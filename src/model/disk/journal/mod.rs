//! What a file system wrote last, by its superblock and its journal: on a disk, and in the kernel that has it
//! mounted. A disk that was away is the file system's own only if both are of one moment.
//!
//! Each part is read by itself: bytes in, and the next place to read out.

mod bytes;
pub mod commits;
pub mod log_walk;
pub mod one_moment;
pub mod place;
pub mod sights;
pub mod xfs_log;
pub mod xfs_moment;
pub mod xfs_place;
