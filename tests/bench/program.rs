//! A program with its arguments, which can be run as often as is needed, also below another one that counts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, Clone)]
pub struct Program {
    pub file: PathBuf,
    words: Vec<OsString>,
    settings: Vec<(OsString, OsString)>,
    /// What it prints if all is as it is meant.
    answer: &'static str,
}

impl Program {
    pub fn new<W: AsRef<OsStr>>(file: &Path, words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        Self { file: file.to_owned(), words, settings: Vec::new(), answer: "" }
    }

    #[must_use]
    pub fn setting(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.settings.push((name.into(), value.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn answering(self, answer: &'static str) -> Self {
        Self { answer, ..self }
    }

    /// Runs it; its answer is not read, for that would be our own time.
    pub fn run(&self) {
        let mut command = self.command();
        command.stdout(Stdio::null());
        let status =
            command.status().unwrap_or_else(|error| panic!("{}: {error}", self.file.display()));
        assert!(status.success(), "{command:?}: {status}");
    }

    /// Runs it, and demands that it answers what it should.
    pub fn must(&self) {
        if let Err(answer) = self.tried(&mut self.command()) {
            panic!("{self:?}: {answer}");
        }
    }

    /// The same below a program that counts; the answer of that one otherwise.
    pub fn below(&self, counter: &[OsString]) -> Result<(), String> {
        let mut command = Command::new(&counter[0]);
        command.args(&counter[1..]).arg(&self.file);
        self.prepare(&mut command);
        self.tried(&mut command)
    }

    fn tried(&self, command: &mut Command) -> Result<(), String> {
        let output = command.output().map_err(|error| error.to_string())?;
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_right = output.status.success() && answer.contains(self.answer);
        if is_right {
            return Ok(());
        }
        Err(format!("{}: {answer}{}", output.status, String::from_utf8_lossy(&output.stderr)))
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command.args(&self.words).stdin(Stdio::null());
        // Where cargo makes the loader look.
        command.env_remove("LD_LIBRARY_PATH");
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
    }
}
