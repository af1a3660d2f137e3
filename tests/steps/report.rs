//! What was played, and how it ended: a table, and the file by which a long run goes on.

use super::Trial;
use super::play::{End, Play};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Report {
    done: Option<PathBuf>,
    ended: BTreeMap<String, End>,
    pub failures: Vec<String>,
}

impl Report {
    /// With what the file says of these trials.
    pub fn of(trials: &[Trial], done: Option<&Path>) -> Self {
        let names: BTreeSet<&str> = trials.iter().map(|trial| trial.name.as_str()).collect();
        let text = done.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let ended = text.lines().filter_map(|line| {
            let (end, name) = line.split_once('\t')?;
            Some((names.get(name)?.to_string(), End::named(end)?))
        });
        Self { done: done.map(Path::to_owned), ended: ended.collect(), failures: Vec::new() }
    }

    pub fn is_done(&self, name: &str) -> bool {
        self.ended.contains_key(name)
    }

    pub fn ended(&mut self, trial: &Trial, end: End) {
        self.ended.insert(trial.name.clone(), end);
        if let Some(path) = &self.done {
            let file = fs::OpenOptions::new().create(true).append(true).open(path);
            let line = format!("{}\t{trial}\n", end.name());
            let noted = file.and_then(|mut file| file.write_all(line.as_bytes()));
            noted.expect("the list of what is done");
        }
    }

    pub fn failed(&mut self, line: String) {
        println!("FAILED {line}");
        self.failures.push(line);
    }

    pub fn text(&self, plays: &[Play], trials: &[Trial]) -> String {
        let mut text = String::from(
            "| play | points | points and kinds | played | success | failure | killed | missed |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for (nth, play) in plays.iter().enumerate() {
            let of_play = |trial: &&Trial| trial.play == nth;
            let all: Vec<_> = trials.iter().filter(of_play).collect();
            if all.is_empty() {
                continue;
            }
            let points: BTreeSet<_> = all.iter().map(|trial| &trial.point).collect();
            let _ = write!(text, "| {} | {} | {}", play.name, points.len(), all.len());
            let _ = writeln!(text, "{}", self.ends(all.iter().copied()));
        }
        let points: BTreeSet<_> = trials.iter().map(|trial| (trial.play, &trial.point)).collect();
        let _ = write!(text, "| all | {} | {}", points.len(), trials.len());
        let _ = writeln!(text, "{}", self.ends(trials.iter()));
        text += "\n| what happens | points | played | success | failure | killed | missed |\n\
                 | --- | --- | --- | --- | --- | --- | --- |\n";
        let kinds: BTreeSet<String> = trials.iter().map(|trial| trial.kind.to_string()).collect();
        for kind in kinds {
            let all: Vec<_> =
                trials.iter().filter(|trial| trial.kind.to_string() == kind).collect();
            let _ = writeln!(text, "| {kind} | {}{}", all.len(), self.ends(all.iter().copied()));
        }
        text += "\n| what follows | played | success | failure | killed | missed |\n\
                 | --- | --- | --- | --- | --- | --- |\n";
        let follow_ups: BTreeSet<&str> = trials.iter().map(|trial| trial.follow_up).collect();
        for follow_up in follow_ups {
            let all = trials.iter().filter(|trial| trial.follow_up == follow_up);
            let _ = writeln!(text, "| {follow_up}{}", self.ends(all));
        }
        let _ = writeln!(
            text,
            "\n{}/{} done, {} failed",
            self.ended.len(),
            trials.len(),
            self.failures.len()
        );
        text
    }

    /// The last columns of a line.
    fn ends<'a>(&self, trials: impl Iterator<Item = &'a Trial>) -> String {
        let ends: Vec<End> =
            trials.filter_map(|trial| self.ended.get(&trial.name).copied()).collect();
        let counts = End::ALL.map(|end| ends.iter().filter(|one| **one == end).count());
        let [success, failure, killed, missed] = counts;
        format!(" | {} | {success} | {failure} | {killed} | {missed} |", ends.len())
    }
}
