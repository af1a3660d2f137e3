//! Completions and manual pages, from the same definition as the command line itself.

use super::Line;
use crate::model::error::{Error, Result};
use clap::{Command, CommandFactory, ValueEnum};
use std::fs;
use std::path::Path;

/// Shells that can complete what is typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[allow(missing_docs, reason = "each is its own description")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The completions of a shell.
#[must_use]
pub fn completions(shell: Shell) -> String {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Line::command(), "disk", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The manual page of the whole program.
pub fn manual() -> Result<String> {
    page(&definition())
}

/// Writes the pages of the program and of each verb into a folder; answers their names.
pub fn manuals(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let whole = definition();
    let mut pages = vec![whole.clone()];
    // After `build` each has the name that it is typed by: `disk-status`.
    pages.extend(whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned());
    for command in pages {
        let name = format!("{}.8", command.get_display_name().unwrap_or(command.get_name()));
        let path = folder.join(&name);
        fs::write(&path, page(&command)?)
            .map_err(|error| Error::io(format!("write {}", path.display()), &error))?;
        names.push(name);
    }
    Ok(names)
}

fn definition() -> Command {
    let mut command = Line::command();
    command.build();
    command
}

fn page(command: &Command) -> Result<String> {
    let mut text = Vec::new();
    let title = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    clap_mangen::Man::new(command.clone())
        .title(title)
        .section("8")
        .manual("incloud-disk")
        .render(&mut text)
        .map_err(|error| Error::io("write the manual page", &error))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
