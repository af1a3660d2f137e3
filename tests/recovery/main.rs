//! The recovery of a fleet after an outage of its cloud, on a virtual clock: the driver's own rules of asking
//! (`model/cloud/asking`).
//!
//! `./install.sh test recovery`, or `cargo test --test recovery -- --nodes 200`; see docs/recovery.md. The
//! short form is held in the ring `contract`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a harness fails by panicking, and says so"
)]

mod simulation;

use simulation::fleet::{self, Caller, Outcome};
use simulation::scene::scene;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Who calls the driver. At the default limits one controller-manager needs hours for so many volumes: only where it is
/// named.
const ROWS: [(&str, Caller); 2] =
    [("kubelets", Caller::Kubelets), ("controller", Caller::ControllerManager)];

#[derive(Debug)]
struct Wish {
    nodes: usize,
    volumes: usize,
    seed: u64,
    most: Duration,
    rows: Vec<String>,
}

impl Wish {
    fn of(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let most = Duration::from_secs(7200);
        let mut wish = Self { nodes: 5000, volumes: 20, seed: 1, most, rows: Vec::new() };
        let mut rest = arguments;
        while let Some(word) = rest.next() {
            let mut number = || {
                let text = rest.next().ok_or(format!("{word} needs a number"))?;
                text.parse::<u64>().map_err(|_| format!("{word} needs a number"))
            };
            let count = |number: u64| usize::try_from(number).map_err(|error| error.to_string());
            match word.as_str() {
                "--nodes" => wish.nodes = count(number()?)?.clamp(1, 100_000),
                "--volumes" => wish.volumes = count(number()?)?.clamp(1, 100),
                "--seed" => wish.seed = number()?,
                "--minutes" => wish.most = Duration::from_secs(60 * number()?),
                row if ROWS.iter().any(|(name, ..)| *name == row) => wish.rows.push(word),
                _ => {
                    let all = ROWS.map(|(name, ..)| name).join(", ");
                    return Err(format!("unknown word: {word}; there are {all}"));
                }
            }
        }
        Ok(wish)
    }

    fn wants(&self, row: &str) -> bool {
        if self.rows.is_empty() {
            row == "kubelets"
        } else {
            self.rows.iter().any(|one| one == row)
        }
    }
}

fn main() -> ExitCode {
    let wish = match Wish::of(std::env::args().skip(1)) {
        Ok(wish) => wish,
        Err(why) => {
            println!("recovery: {why}");
            return ExitCode::from(2);
        }
    };
    let (nodes, volumes) = (wish.nodes, wish.volumes);
    let first = scene(wish.seed, nodes, volumes, Caller::Kubelets);
    println!(
        "{nodes} nodes with {volumes} volumes each; a cloud that takes {} requests a second, after {} minutes \
         without it\n",
        first.cloud.per_second,
        first.cloud.outage.as_secs() / 60
    );
    println!(
        "{:<46} {:>7} {:>7} {:>7} {:>7} {:>8} {:>9} {:>7} {:>9} {:>7} {:>9} {:>7}",
        "minutes until attached",
        "50 %",
        "90 %",
        "99 %",
        "all",
        "peak/s",
        "requests",
        "429",
        "each",
        "logins",
        "failed",
        "took s"
    );
    for (word, caller) in ROWS.into_iter().filter(|(word, ..)| wish.wants(word)) {
        let begin = Instant::now();
        let setting =
            fleet::Setting { most: wish.most, ..scene(wish.seed, nodes, volumes, caller) };
        let outcome = fleet::play(setting);
        println!("{}", row(word, &outcome, begin.elapsed()));
    }
    ExitCode::SUCCESS
}

fn row(title: &str, outcome: &Outcome, took: Duration) -> String {
    let minutes = |part| {
        outcome.time_to(part).map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time / 60.0))
    };
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let each = outcome.asked() as f64 / outcome.attached.len().max(1) as f64;
    format!(
        "{title:<46} {:>7} {:>7} {:>7} {:>7} {:>8} {:>9} {:>5.1} % {:>9.1} {:>7} {:>9} {:>7.1}",
        minutes(0.5),
        minutes(0.9),
        minutes(0.99),
        minutes(1.0),
        outcome.peak(),
        outcome.asked(),
        outcome.refused() * 100.0,
        each,
        outcome.logins,
        outcome.failures,
        took.as_secs_f64(),
    )
}
