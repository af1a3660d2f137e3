//! What people are told.

pub mod facts;
pub mod finding;
pub mod health;
pub mod kernel_line;
pub mod kubelet_line;
pub mod lanes;
pub mod log_event;
pub mod log_line;
pub mod metrics;
pub mod redaction;
pub mod refusal;
pub mod tear_down;
