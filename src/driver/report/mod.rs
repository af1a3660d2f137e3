//! What is seen and counted, for people.

pub(crate) mod facts;
pub mod holders;
pub mod survey;
