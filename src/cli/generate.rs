//! Completions and manual pages, from the same definition as the command line itself.

use super::Line;
use super::arguments::Shell;
use crate::model::error::{Error, Result};
use clap::{Command, CommandFactory};
use std::fs;
use std::path::Path;

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
    for command in with_verbs(&whole) {
        let name = format!("{}.8", command.get_display_name().unwrap_or(command.get_name()));
        let path = folder.join(&name);
        fs::write(&path, page(command)?)
            .map_err(|error| Error::io(format!("write {}", path.display()), &error))?;
        names.push(name);
    }
    Ok(names)
}

/// A command and all verbs below it. After `build` each has the name that it is typed by:
/// `disk-local-create`.
fn with_verbs(command: &Command) -> Vec<&Command> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    std::iter::once(command).chain(shown.flat_map(with_verbs)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(command: &Command) -> Vec<&Command> {
        let mut all: Vec<_> = command.get_subcommands().flat_map(leaves).collect();
        if all.is_empty() {
            all.push(command);
        }
        all
    }

    #[test]
    fn the_help_of_each_verb_has_an_example_that_is_one() {
        let whole = definition();
        let verbs = leaves(&whole);
        assert!(verbs.len() >= 16, "{}", verbs.len());
        for verb in verbs {
            let name = verb.get_display_name().unwrap().replace('-', " ");
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name}"));
            for line in examples.lines() {
                let line = line.trim_start().trim_start_matches("sudo ");
                assert!(line.starts_with(&name), "{name}: {line}");
                // Up to where the shell takes over.
                let line = line.split(' ').take_while(|word| !["|", ">", "&&"].contains(word));
                let quoted = line.collect::<Vec<_>>().join(" ");
                let mut words = quoted.split('\'');
                let mut all = vec![];
                while let Some(plain) = words.next() {
                    all.extend(plain.split_whitespace().map(str::to_owned));
                    all.extend(words.next().map(str::to_owned));
                }
                Line::command()
                    .try_get_matches_from(&all)
                    .unwrap_or_else(|e| panic!("{all:?}: {e}"));
            }
        }
    }

    #[test]
    fn each_verb_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let names = manuals(folder.path()).unwrap();
        for name in ["disk.8", "disk-status.8", "disk-heal.8", "disk-local-create.8"] {
            assert!(names.iter().any(|one| one == name), "{name}: {names:?}");
            assert!(folder.path().join(name).exists(), "{name}");
        }
        let shown: usize = with_verbs(&definition()).len();
        assert_eq!(names.len(), shown);
    }
}
