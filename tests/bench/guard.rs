//! What it costs to refuse a tear-down: `unmountdevice` of a volume that a pod has, in a crowd.

use crate::Run;
use crate::crowd::Crowd;
use crate::turns::{Turns, clocked};

pub const GROUP: &str = "guard";
const ROUNDS: usize = 15;

pub fn measure(run: &mut Run, crowd: &Crowd, name: &str) {
    let words = crowd.machine.unstage(&crowd.volume);
    let calls: Vec<_> = run
        .drivers
        .iter()
        .map(|driver| (driver.mark, crowd.machine.call(driver, &words).answering("Failure")))
        .collect();
    let mut turns = Turns::new(GROUP);
    for (mark, call) in &calls {
        call.must();
        let beside = (!mark.is_empty()).then_some(name);
        turns.add(format!("{name}{mark}"), beside, || clocked(|| call.run()));
    }
    let mut rows = turns.play(run.rounds(ROUNDS));
    for (row, (_, call)) in rows.iter_mut().zip(&calls) {
        row.counts = Some(run.counters.of(call, &|| ()));
    }
    run.add(rows);
}
