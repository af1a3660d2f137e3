//! Completions and manual pages, from the same definition as the command line itself.

use super::Line;
use super::arguments::Shell;
use crate::model::error::{Error, Result};
use clap::{Command, CommandFactory};
use std::fs;
use std::path::Path;

/// The completions of a shell.
pub fn completions(shell: Shell) -> String {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Line::command(), "disk", &mut text);
    with_names(shell, String::from_utf8_lossy(&text).into_owned())
}

/// The same with the names of the machine's volumes and pods, which `disk names` tells.
fn with_names(shell: clap_complete::Shell, text: String) -> String {
    match shell {
        clap_complete::Shell::Bash => text + BASH_NAMES,
        clap_complete::Shell::Fish => text + FISH_NAMES,
        _ => {
            let is_volume = |line: &str| {
                line.starts_with("':volume -- ")
                    || line.starts_with("'::volume -- ")
                    || line.contains("'()--pod=[")
                    || line.contains("'--pod=[")
            };
            let line = |line: &str| {
                if is_volume(line) {
                    line.replace(":_default'", ":_disk_names'")
                } else {
                    line.to_owned()
                }
            };
            let lines: Vec<_> = text.lines().map(line).collect();
            let (first, rest) = lines.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
            format!("{first}\n{ZSH_NAMES}{}\n", rest.join("\n"))
        }
    }
}

const BASH_NAMES: &str = "
_disk_with_names() {
    _disk \"$@\"
    local word=\"${COMP_WORDS[COMP_CWORD]}\"
    case \"${COMP_WORDS[1]}\" in
    explain | history | holders | report | heal | release | format | detach)
        [[ $word == -* ]] || COMPREPLY+=($(compgen -W \"$(disk names 2>/dev/null)\" -- \"$word\"))
        ;;
    esac
}
complete -F _disk_with_names -o bashdefault -o default disk
";

const ZSH_NAMES: &str = "
_disk_names() {
    local -a names
    names=(${(f)\"$(disk names 2>/dev/null)\"})
    compadd -a names
}
";

const FISH_NAMES: &str = "
complete -c disk -n '__fish_seen_subcommand_from explain history holders report heal release format detach' \
    -f -a '(disk names 2>/dev/null)'
";

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
    let man =
        clap_mangen::Man::new(command.clone()).title(title).section("8").manual("incloud-disk");
    let mut render = || {
        man.render_title(&mut text)?;
        man.render_name_section(&mut text)?;
        man.render_synopsis_section(&mut text)?;
        man.render_description_section(&mut text)?;
        if command.get_arguments().any(|one| !one.is_hide_set()) {
            man.render_options_section(&mut text)?;
        }
        if command.has_subcommands() {
            man.render_subcommands_section(&mut text)?;
        }
        Ok(())
    };
    render().map_err(|error| Error::io("write the manual page", &error))?;
    let page = String::from_utf8_lossy(&text).into_owned();
    let more = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let version = command.get_version().map(|version| format!(".SH VERSION\n{version}\n"));
    Ok(page + &as_written(&more) + &version.unwrap_or_default())
}

/// Tables and examples, each line as it stands: the formatter would fill them to paragraphs.
fn as_written(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let line = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        let guard = if line.starts_with('.') { "\\&" } else { "" };
        format!("{guard}{line}\n")
    };
    let lines: String = text.lines().map(line).collect();
    format!(".SH EXTRA\n.nf\n{lines}.fi\n")
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
                let line =
                    line.split(' ').take_while(|word| !["|", "||", ">", "&&"].contains(word));
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
    fn a_table_of_a_page_stays_one() {
        let whole = definition();
        let status = whole.get_subcommands().find(|verb| verb.get_name() == "status").unwrap();
        let page = page(status).unwrap();
        let (_, table) = page.split_once(".nf\n").unwrap();
        let (table, _) = table.split_once(".fi\n").unwrap();
        assert!(
            table.contains("\n  ok           as it should be\n  let\\-go       kubelet"),
            "{page}"
        );
        assert_eq!(as_written(".x 'a' \\n"), ".SH EXTRA\n.nf\n\\&.x \\(aqa\\(aq \\en\n.fi\n");
    }

    #[test]
    fn each_shell_asks_for_the_names_of_this_machine() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completions(shell);
            assert!(text.contains("disk names 2>/dev/null"), "{text}");
        }
        let zsh = completions(Shell::Zsh);
        let explain = zsh.lines().find(|line| line.starts_with("':volume -- ")).unwrap();
        assert!(explain.contains(":_disk_names'"), "{explain}");
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
