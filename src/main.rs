//! `disk`: the executable. It speaks; everything else is in the library.

use incloud_disk::advice;
use incloud_disk::app;
use incloud_disk::channel::Channel;
use incloud_disk::cli::{self, Verb, Wanted};
use incloud_disk::flexvolume::answer;
use incloud_disk::host::census::reader;
use incloud_disk::host::worker::parent;
use incloud_disk::host::{own_process, worker};
use incloud_disk::model::advice::REMEDY_WORDS;
use incloud_disk::operator::{self, RunsIn, Stage};
use incloud_disk::supervisor::{self, Failing};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(run())
}

/// Does what is wanted; returns the exit status.
fn run() -> u8 {
    let _ = REMEDY_WORDS.set(advice::command);
    let held = parent::hold_signals();
    own_process::keep_to_itself();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|word| word == reader::WORD) {
        held.release();
        return reader::serve(&arguments[1..]);
    }
    let wanted = cli::read(arguments, || std::io::stdout().is_terminal());
    if !matches!(&wanted, Wanted::Call { word, .. } if app::is_constant(word)) {
        own_process::keep_from_others();
    }
    if !matches!(wanted, Wanted::Call { .. } | Wanted::Nothing) {
        held.release();
    }
    match wanted {
        Wanted::Call { word, arguments, wants_json } => {
            answered(app::answer(&word, &arguments, &Channel::claim(wants_json)))
        }
        Wanted::Nothing => answered(answer::send(&Channel::claim(true), &app::answer_to_nothing())),
        Wanted::Text { text, is_error: false } => say(&text),
        Wanted::Text { text, is_error: true } => complain(&text, 2),
        Wanted::Verb(verb) => {
            let failing = operator::failing(&verb);
            match operator::runs_in(&verb) {
                RunsIn::Worker(with_hanging) => {
                    supervisor::verb(with_hanging, failing, || perform(verb, failing))
                }
                RunsIn::ThisProcess => perform(verb, failing),
            }
        }
    }
}

/// Does what a person asks for; answers the exit status.
fn perform(verb: Verb, failing: Failing) -> u8 {
    let (mut out, is_terminal) = (worker::out(), worker::is_seen());
    let mut stage = Stage { out: &mut out, is_terminal, has_failed: false };
    match operator::run(verb, &mut stage) {
        Ok(_) if stage.has_failed => failing.status,
        Ok(status) => status,
        Err(error) => failing.say(&error, &mut out, &mut worker::complaints()),
    }
}

/// Without a terminal a reply that got out is a success, whatever it says: kubelet logs all arguments
/// of a driver that exits with anything else, and they may hold secrets.
fn answered(is_well: bool) -> u8 {
    u8::from(!is_well)
}

fn say(text: &str) -> u8 {
    answered(std::io::stdout().write_all(text.as_bytes()).is_ok())
}

fn complain(text: &str, status: u8) -> u8 {
    let _ = std::io::stderr().write_all(text.as_bytes());
    status
}
