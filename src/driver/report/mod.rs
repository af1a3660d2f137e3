//! What is seen and counted, for people.

pub(in crate::driver) mod facts;
pub mod holders;
pub mod survey;
