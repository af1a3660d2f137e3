//! How a call is answered: one line of JSON for a program, a sentence for a person.

use super::reply::{self, Reply};
use crate::channel::{AnswerReader, Channel};
use crate::host::worker::parent::Worker;
use crate::model::error::Error;
use std::borrow::Cow;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long an answer that was begun may take to be read once a signal came.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a failure of the call names.
#[derive(Debug, Clone)]
pub struct Subject {
    pub action: String,
    pub object: String,
    /// The call's id.
    pub call_id: String,
}

impl Subject {
    /// The answer that the call failed.
    pub fn failure(&self, error: &Error) -> Reply {
        Reply::failure(&self.action, &self.object, error, &self.call_id)
    }
}

pub fn line_for(reader: AnswerReader, reply: &Reply) -> String {
    match reader {
        AnswerReader::Person => reply.line_for_person(),
        AnswerReader::Program | AnswerReader::PersonWithJson => reply.line(),
    }
}

/// Sends a reply; returns whether the exit status is 0.
pub fn send(channel: &Channel, reply: &Reply) -> bool {
    let line = line_for(channel.reader(), reply);
    let sent = channel.send(&shown(channel, &line));
    tell(channel, &line);
    sent && is_well(channel, &line)
}

/// Passes a worker's line on to a reader who may be slow; returns whether the exit status is 0.
pub fn deliver(channel: &Channel, worker: &mut Worker, line: &str) -> bool {
    let Some(stdout) = channel.begin() else { return false };
    let sent = worker.write(stdout.as_fd(), shown(channel, line).as_bytes(), LAST_WORDS).is_ok();
    tell(channel, line);
    sent && is_well(channel, line)
}

/// What the reader of the channel is shown of the line.
fn shown<'a>(channel: &Channel, line: &'a str) -> Cow<'a, str> {
    match channel.reader() {
        AnswerReader::Person => sentence(line).map_or(Cow::Borrowed(line), Cow::Owned),
        AnswerReader::Program | AnswerReader::PersonWithJson => Cow::Borrowed(line),
    }
}

/// Whether the exit status is 0: a program reads the status of the call in the line.
fn is_well(channel: &Channel, line: &str) -> bool {
    channel.reader() == AnswerReader::Program || reply::is_success(line)
}

fn tell(channel: &Channel, line: &str) {
    if let Some(sentence) = sentence(line) {
        channel.tell(&sentence);
    }
}

fn sentence(line: &str) -> Option<String> {
    Some(format!("disk: {}\n", reply::sentence(line)?))
}
