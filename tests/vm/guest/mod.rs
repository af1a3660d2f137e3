//! This program inside the virtual machine: the first process, and later the agent that does there
//! what the test on the outside wants done.

mod agent;
mod database;
mod first;
mod home;
mod maps;
mod nfs;

pub(crate) use agent::serve;
pub(crate) use database::{check as check_database, run as run_database};
pub(crate) use first::become_systemd;
pub(crate) use maps::{cover_by_a_process, switch_by_a_process};
pub(crate) use nfs::serve as serve_nfs;
