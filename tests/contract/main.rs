//! The contract with kubelet: the real binary, called as kubelet calls it. No root, no devices.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

#[path = "../support/mod.rs"]
mod support;

mod broken_builds;
mod calls;
mod kubernetes;
mod scene;
mod source;

mod at_night;
mod attach;
mod chosen_crates;
mod config_drive;
mod configuration;
mod covered;
mod dashboard;
mod documents;
mod early_signals;
mod ending;
mod examples;
mod fleet;
mod floors;
mod folders;
mod garbage;
mod identity;
mod init;
mod journal;
mod journal_trouble;
mod kubectl;
mod kubelet_log;
mod last_word;
mod locks;
mod looking;
mod manifests;
mod misleading_names;
mod monitor;
mod names;
mod old_logs;
mod panics;
mod places;
mod promises;
mod purity;
mod recovery;
mod refusals_page;
mod refusals_told;
mod replies;
mod report;
mod roll_out;
mod secrets;
mod streams;
mod terminals;
mod values_told;
mod verbs;
mod walks;
mod who_triggered;
