//! The driver in a virtual machine with hot-plugged disks: real HTTP to an OpenStack-compatible
//! cloud, whose attach and detach plug and pull disks of a real kernel with real udev, mounts and
//! containers. `./install.sh test vm` runs it; `cargo test` alone does not.
//!
//! This one program is the test on the outside, and inside the guest its first process and agent.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code fails by panicking, and says so"
)]

mod busy;
#[path = "../openstack/client.rs"]
#[allow(dead_code, reason = "the server's own tests use all of it")]
mod client;
mod guest;
mod host;
mod leftovers;
mod orders;
mod plan;
mod play;
mod report;
mod scenarios;
mod scene;
#[path = "../openstack/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["init"] => guest::become_systemd(),
        ["agent"] => guest::serve(),
        ["database", folder, name] => guest::run_database(folder, name, Duration::ZERO),
        // Of many at once each rests, or the machine has no time for anything else.
        ["database", folder, name, "slow"] => {
            guest::run_database(folder, name, Duration::from_secs(1))
        }
        ["cover", volume] => guest::cover_by_a_process(volume),
        ["switch", volume] => guest::switch_by_a_process(volume),
        ["check-database", folder, name] => guest::check_database(folder, name),
        ["nfs", port] => guest::serve_nfs(port),
        ["forward", port] => host::forward::run(port),
        _ => play::run(&arguments),
    }
}
