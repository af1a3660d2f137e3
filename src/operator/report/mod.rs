//! `disk report`: all that the looking verbs say, in one file that can be sent on.

mod axis;
mod document;
mod gathering;
mod happenings;
mod output;
mod page;
mod picture;
mod secrets;
mod sight;
mod told;

use super::configured::Configured;
use super::kubelet_story;
use super::terminal::{Stage, on_paper};
use crate::cli::views::ReportArguments;
use crate::model::error::Result;
use crate::model::timestamp::Millis;
use crate::ports::clock;

/// So far back the history is told if nothing else is asked for.
const A_DAY: Millis = 86_400_000;

pub(super) fn run(
    arguments: &ReportArguments,
    configured: Configured,
    stage: &mut Stage<'_>,
) -> Result<u8> {
    let redaction = secrets::known(&configured);
    let trouble = configured.trouble.as_ref().map(secrets::without_values);
    let configured = Configured { trouble, ..configured };
    let now = clock::now();
    let since = arguments.since.unwrap_or(now.saturating_sub(A_DAY));
    let place = output::place(arguments, &configured, now)?;
    let logs = kubelet_story::logs(&arguments.kubelet_log)?;
    let text = on_paper(redaction, || {
        let volume = arguments.volume.as_ref();
        let document = gathering::gather(&configured, volume, &logs, (since, now))?;
        Ok(if arguments.text { document.text() } else { page::page(&document) })
    })?;
    output::write(place.as_deref(), &text, stage)
}
