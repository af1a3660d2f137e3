//! What is seen and counted, for people.

pub mod call_counts;
pub mod holders;
pub mod survey;
