//! Maps of device mapper that are this driver's own: a volume that is mounted through one waits while its
//! disk is away, where a direct mount fails.
//!
//! A map has one path, the volume's disk. It is known by its UUID alone, which device mapper lets no second
//! map have: its name, its number and its letter say nothing.

pub mod map_uuid;
pub mod own_map;
pub mod table_line;
pub mod write_count;
