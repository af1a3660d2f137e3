//! The face that people see: verbs that answer text.

pub mod local;

use crate::app;
use crate::cli::Verb;
use crate::model::error::Result;

/// Does what the verb says; answers the text to print.
pub fn run(verb: Verb) -> Result<String> {
    let (config, _) = app::load_config()?;
    match verb {
        Verb::Local(verb) => local::run(verb, &config),
    }
}
