//! The recovery of a fleet after an outage of its cloud, on a virtual clock: the driver's own rules of asking
//! (`model/cloud/asking`), and beside them its rules before and the back-off of others.
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

#[path = "../support/plot.rs"]
mod plot;
mod simulation;

use plot::{Axis, Plot, Scale, Series, svg};
use simulation::fleet::{self, Caller, Outcome, Rules};
use simulation::scene::scene;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What is compared, each under the name that the table has.
const ROWS: [(&str, Rules, Caller); 7] = [
    ("driver", Rules::Driver, Caller::Kubelets),
    ("before", Rules::Before, Caller::Kubelets),
    ("kubernetes", Rules::Kubernetes, Caller::Kubelets),
    ("fixed", Rules::FixedSleeps, Caller::Kubelets),
    ("adaptive", Rules::Adaptive, Caller::Kubelets),
    ("controller", Rules::Driver, Caller::ControllerManager),
    ("controller-before", Rules::Before, Caller::ControllerManager),
];

fn title(word: &str) -> &'static str {
    match word {
        "driver" => "the driver",
        "before" => "the driver before",
        "kubernetes" => "Kubernetes' back-off alone",
        "fixed" => "fixed sleeps",
        "adaptive" => "adaptive, as AWS' clients",
        "controller" => "the driver, called by the controller-manager",
        _ => "before, called by the controller-manager",
    }
}

#[derive(Debug)]
struct Wish {
    nodes: usize,
    volumes: usize,
    seed: u64,
    most: Duration,
    plots: bool,
    rows: Vec<String>,
}

impl Wish {
    fn of(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let most = Duration::from_secs(7200);
        let mut wish =
            Self { nodes: 5000, volumes: 20, seed: 1, most, plots: false, rows: Vec::new() };
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
                "--plots" => wish.plots = true,
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
        // At the default limits one machine needs hours for so many volumes: only where it is named.
        if self.rows.is_empty() {
            !row.starts_with("controller")
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
    let first = scene(wish.seed, nodes, volumes, Rules::Driver, Caller::Kubelets);
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
    let mut played = Vec::new();
    for (word, rules, caller) in ROWS.into_iter().filter(|(word, ..)| wish.wants(word)) {
        let begin = Instant::now();
        let setting =
            fleet::Setting { most: wish.most, ..scene(wish.seed, nodes, volumes, rules, caller) };
        let outcome = fleet::play(setting);
        println!("{}", row(title(word), &outcome, begin.elapsed()));
        played.push((title(word), outcome));
    }
    if wish.plots {
        draw(&played);
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

/// Ten seconds are one point.
const STEP: usize = 10;

/// What is drawn ends here: after it only those go on that will not end.
const DRAWN: usize = 3600;

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn draw(played: &[(&'static str, Outcome)]) {
    let minutes = |second: usize| second as f64 / 60.0;
    let attached = played.iter().map(|(name, outcome)| {
        let share = |second: usize| {
            let count = outcome.attached.partition_point(|at| *at <= second as f64);
            100.0 * count as f64 / outcome.volumes as f64
        };
        let is_over = |at: &usize| *at < STEP || share(at - STEP) < 100.0;
        let shown = (0..=DRAWN).step_by(STEP).take_while(is_over);
        Series::course(*name, shown.map(|at| (minutes(at), share(at))).collect())
    });
    let asked = played.iter().map(|(name, outcome)| {
        let shown = outcome.seconds.chunks(STEP).take(DRAWN / STEP).enumerate();
        let points = shown.map(|(at, part)| {
            let most = part.iter().map(|second| second.asked).max().unwrap_or(0);
            (minutes(at * STEP), f64::from(most.max(1)))
        });
        Series::course(*name, points.collect())
    });
    let x = Axis { name: "minutes since the cloud is back", scale: Scale::Linear };
    write(
        "recovery",
        &Plot {
            title: "5,000 nodes with 20 volumes each: what is attached",
            x,
            y: Axis { name: "attached, % of 100,000 volumes", scale: Scale::Linear },
            series: attached.collect(),
        },
    );
    write(
        "recovery-requests",
        &Plot {
            title: "5,000 nodes: the busiest second of each ten",
            x,
            y: Axis { name: "requests in a second", scale: Scale::Tenfold { least: 10.0 } },
            series: asked.collect(),
        },
    );
}

fn write(name: &str, plot: &Plot<'_>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/figures");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.svg"));
    std::fs::write(&path, svg(plot)).unwrap();
    println!("drawn: {}", path.display());
}
