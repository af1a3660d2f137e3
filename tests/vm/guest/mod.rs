//! This program inside the virtual machine: the first process, and later the agent that does there
//! what the test on the outside wants done.

mod agent;
mod first;
mod home;

pub(crate) use agent::serve;
pub(crate) use first::become_systemd;
