//! The project's own OpenStack-compatible server, as a program and as a test of itself.
//!
//! `serve` starts it for scenarios in other processes; without it, as cargo calls it, the server is
//! held against the transcripts of real services, and its own machinery is tested.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code fails by panicking, and says so"
)]

mod checks;
mod client;
mod replay;
mod runner;
mod serve;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        // Alone it is a name: `cargo test serve`.
        Some((first, rest)) if first == "serve" && !rest.is_empty() => serve::run(rest),
        _ => {
            let tests = [checks::all(), replay::all()].concat();
            runner::run(&arguments, tests)
        }
    }
}
