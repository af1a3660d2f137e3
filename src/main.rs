//! `disk`: the executable. It speaks; everything else is in the library.

use incloud_disk::app;
use incloud_disk::channel::Channel;
use incloud_disk::cli::{self, Wanted};
use incloud_disk::operator::{self, Stage};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect();
    match cli::read(arguments, std::io::stdout().is_terminal()) {
        Wanted::Call { word, arguments } => {
            let channel = Arc::new(Channel::claim());
            let answer = app::answer(&word, &arguments, &channel);
            let is_sent = channel.send(&answer.reply.line());
            if let Some(report) = answer.report {
                report.write();
            }
            answered(is_sent)
        }
        Wanted::Nothing => answered(Channel::claim().send(&app::answer_to_nothing().line())),
        Wanted::Text { text, is_error: false } => say(&text),
        Wanted::Text { text, is_error: true } => complain(&text, 2),
        Wanted::Verb(verb) => {
            let is_terminal = std::io::stdout().is_terminal();
            let mut stage = Stage { out: &mut std::io::stdout(), is_terminal, has_failed: false };
            match operator::run(verb, &mut stage) {
                Ok(_) if stage.has_failed => ExitCode::FAILURE,
                Ok(status) => ExitCode::from(status),
                Err(error) => complain(&format!("disk: {error}\n"), 1),
            }
        }
    }
}

/// A reply that got out is a success for the caller, whatever it says: kubelet logs all arguments
/// of a driver that exits with anything else, and they may hold secrets.
fn answered(sent: bool) -> ExitCode {
    if sent { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(text: &str) -> ExitCode {
    answered(std::io::stdout().write_all(text.as_bytes()).is_ok())
}

fn complain(text: &str, status: u8) -> ExitCode {
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(status)
}
