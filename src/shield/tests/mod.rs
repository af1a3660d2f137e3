//! What the tests of the shield share, and the driver's operations with it.

pub(crate) mod fake_map;
mod with_driver;
