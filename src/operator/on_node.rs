//! The verbs that look, called in a container: they see the machine as kubelet's calls see it, in the
//! namespaces where its kubelet lives, and with the configuration of the driver there.

use crate::cli::views::{Looking, StatusArguments};
use crate::cli::{self, Verb, Wanted};
use crate::failpoints;
use crate::host::entry::{self, HeldProcess};
use crate::host::{files, machine};
use crate::model::error::{Error, Kind, Result};
use crate::node::kubelet::{Kubelet, is_still, working_below};
use crate::node::system::System;
use crate::wiring::{BESIDE, ETC, VARIABLE};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Them, as they are typed.
const WORDS: [&str; 6] = ["status", "explain", "history", "holders", "doctor", "report"];

/// Whether these words begin with one of them.
pub(super) fn looks(words: &[String]) -> bool {
    words.first().is_some_and(|word| WORDS.contains(&word.as_str()))
}

fn read(words: &[String]) -> Wanted {
    cli::read(words.iter().map(Into::into).collect(), || true)
}

/// Enters the machine below that root, and begins again there with these words. What is misspelt is said
/// before.
pub(super) fn run(root: &Path, words: &[String]) -> Result<u8> {
    let wanted = read(words);
    if let Wanted::Text { text, is_error } = wanted {
        let text = text.as_bytes();
        let _ = if is_error {
            std::io::stderr().write_all(text)
        } else {
            std::io::stdout().write_all(text)
        };
        return Ok(if is_error { 2 } else { 0 });
    }
    let environment = enter(root)?;
    // It comes back only with an error.
    Err(entry::begin_again(words, environment))
}

/// Whether they are those of a monitor.
pub(super) fn is_check(words: &[String]) -> bool {
    matches!(
        looks(words).then(|| read(words)),
        Some(Wanted::Verb(Verb::Look(Looking::Status(StatusArguments { check: true, .. }))))
    )
}

/// Enters the machine; answers the environment in which its verbs run.
fn enter(root: &Path) -> Result<Vec<(OsString, OsString)>> {
    let (Some(process), plugin_dir) = machine_of(root)? else {
        return Ok(std::env::vars_os().collect());
    };
    let mut environment = environment_of(&process);
    entry::enter(&process)?;
    // Which file counts is seen from there.
    let beside = plugin_dir.map(|folder| folder.join("incloud~disk").join(BESIDE));
    let is_named = environment.iter().any(|(name, _)| name == VARIABLE);
    if let Some(file) = beside
        && !is_named
        && !Path::new(ETC).exists()
        && file.exists()
    {
        environment.push((VARIABLE.into(), file.into()));
    }
    Ok(environment)
}

/// What its calls have: a proxy, a configuration. An image's own would lead elsewhere; the terminal alone is
/// the caller's.
fn environment_of(process: &HeldProcess) -> Vec<(OsString, OsString)> {
    const OF_THE_TERMINAL: [&str; 3] = ["TERM", "COLUMNS", "NO_COLOR"];
    let is_terminals = |name: &OsString| OF_THE_TERMINAL.iter().any(|word| name == word);
    let machines = machine::variables_of(&process.folder())
        .into_iter()
        .filter(|(name, _)| !is_terminals(name));
    machines.chain(std::env::vars_os().filter(|(name, _)| is_terminals(name))).collect()
}

/// The process that lives where a machine is seen as it is, if that is not here, and where its kubelet looks for
/// drivers. It is the kubelet of the machine whose root is here; where none runs, the machine's first process.
fn machine_of(root: &Path) -> Result<(Option<HeldProcess>, Option<PathBuf>)> {
    let system = System::default();
    let all = system.kubelets();
    match working_below(&all, Path::new("/proc"), root).as_slice() {
        [one] => Ok((Some(held(one)?), Some(one.plugin_dir.clone()))),
        [] if is_first_process_below(root) => Ok((Some(HeldProcess::of(1)?), None)),
        [] if root == Path::new("/") => Ok((None, None)),
        [] => Err(not_seen(root, &all)),
        several => {
            let several: Vec<_> = several.iter().map(ToString::to_string).collect();
            let cause =
                format!("several kubelets work below {}: {}", root.display(), several.join("; "));
            Err(Error::new(Kind::Config, cause)
                .hint("call the driver of one of them, in its plugin folder: disk status"))
        }
    }
}

/// What was seen by its number was perhaps of a process that ended meanwhile.
fn held(kubelet: &Kubelet) -> Result<HeldProcess> {
    failpoints::step("hold-kubelet");
    if let Ok(process) = HeldProcess::of(kubelet.pid)
        && is_still(kubelet, Path::new("/proc"), &process.folder())
    {
        return Ok(process);
    }
    let cause = format!("kubelet, process {}, ended while it was looked for", kubelet.pid);
    Err(Error::new(Kind::Busy, cause).hint("look again"))
}

fn is_first_process_below(root: &Path) -> bool {
    let first = files::place(Path::new("/proc/1/root"));
    first.is_ok_and(|first| files::place(root).is_ok_and(|root| root == first))
}

fn not_seen(root: &Path, all: &[Kubelet]) -> Error {
    let others = match all {
        [] => "no kubelet is seen from here".to_owned(),
        [one] => format!("the only kubelet that is seen is another machine's ({one})"),
        many => format!("the {} kubelets that are seen are other machines'", many.len()),
    };
    let cause = format!("{others}, and process 1 has another root than {}", root.display());
    Error::new(Kind::Config, cause)
        .hint("in a pod this needs hostPID: true, securityContext.privileged, and the machine's / mounted at /host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_a_verb_that_looks() {
        for word in WORDS {
            let words: Vec<String> = match word {
                "explain" | "holders" => vec![word.into(), "shop/web-0".into()],
                _ => vec![word.into()],
            };
            assert!(looks(&words) && matches!(read(&words), Wanted::Verb(Verb::Look(_))), "{word}");
        }
        for word in ["install", "verify", "heal", "detach", "local", ""] {
            assert!(!looks(&[word.into()]), "{word}");
        }
    }

    #[test]
    fn what_is_misspelt_is_said_before_the_machine_is_entered() {
        let Wanted::Text { text, is_error: true } = read(&["status".into(), "--jsno".into()])
        else {
            panic!("it is no flag")
        };
        assert!(text.contains("exists: '--json'"), "{text}");
    }
}
