//! Measuring in turn: all that is compared is done once in each round, so that what disturbs the machine for a
//! while disturbs all of it.

use crate::figures::Row;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::time::Instant;

/// What one doing took, in milliseconds: on the clock, and of all processors for the programs that were started.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    pub time: f64,
    pub work: f64,
}

/// Takes the time of this alone.
pub fn clocked(work: impl FnOnce()) -> Took {
    let before = work_of_children();
    let begin = Instant::now();
    work();
    let time = begin.elapsed().as_secs_f64() * 1e3;
    Took { time, work: work_of_children() - before }
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of a run")]
fn work_of_children() -> f64 {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    (used.user_time().num_microseconds() + used.system_time().num_microseconds()) as f64 / 1e3
}

/// What is done in turn.
pub struct Turns<'a> {
    group: &'static str,
    all: Vec<Turn<'a>>,
}

struct Turn<'a> {
    row: Row,
    once: Box<dyn FnMut() -> Took + 'a>,
}

impl<'a> Turns<'a> {
    pub fn new(group: &'static str) -> Self {
        Self { group, all: Vec::new() }
    }

    /// One more; `once` does it and says what it took. What it must prepare or undo it does not count.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        beside: Option<&str>,
        once: impl FnMut() -> Took + 'a,
    ) -> &mut Self {
        let row = Row { beside: beside.map(str::to_owned), ..Row::new(self.group, name) };
        self.all.push(Turn { row, once: Box::new(once) });
        self
    }

    /// Does all of it, first once without taking times, and each round beginning with another one.
    pub fn play(mut self, rounds: usize) -> Vec<Row> {
        for turn in &mut self.all {
            (turn.once)();
        }
        let count = self.all.len();
        for round in 0..rounds {
            for place in 0..count {
                let turn = &mut self.all[(round + place) % count];
                let took = (turn.once)();
                turn.row.times.push(took.time);
                turn.row.work.push(took.work);
            }
        }
        self.all.into_iter().map(|turn| turn.row).collect()
    }
}
