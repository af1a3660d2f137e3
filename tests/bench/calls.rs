//! What a call costs that only answers, or finds everything right, beside an empty program.

use crate::Run;
use crate::figures::Row;
use crate::node::Machine;
use crate::program::Program;
use crate::turns::{Turns, clocked};

const GROUP: &str = "calls";
pub const FLOOR: &str = "an empty static C program";
const ROUNDS: usize = 101;

pub fn measure(run: &mut Run) {
    let mut programs: Vec<(String, Program)> = Vec::new();
    let mut missing = Vec::new();
    match &run.beside.floor {
        Ok(file) => programs.push((FLOOR.to_owned(), Program::new(file, [""; 0]))),
        Err(why) => missing.push(Row::missing(GROUP, FLOOR, why)),
    }
    for driver in &run.drivers {
        let init = Program::new(&driver.file, ["init"]).answering("Success");
        programs.push((format!("init{}", driver.mark), init));
    }
    let machine = run.is_root.then(Machine::new);
    let volume = machine.as_ref().map(|machine| machine.bring("ext4", "64M"));
    if let (Some(machine), Some(volume)) = (&machine, &volume) {
        let right = [
            ("isattached", machine.is_attached(volume)),
            ("waitforattach", machine.wait(volume)),
            ("mountdevice, already so", machine.stage(volume)),
        ];
        for (name, words) in right {
            for driver in &run.drivers {
                let call = machine.call(driver, &words).answering("Success");
                programs.push((format!("{name}{}", driver.mark), call));
            }
        }
    } else {
        for name in ["isattached", "waitforattach", "mountdevice, already so"] {
            missing.push(Row::missing(GROUP, name, "needs root and loop devices"));
        }
    }

    let mut turns = Turns::new(GROUP);
    for (name, program) in &programs {
        program.must();
        let beside = (name != FLOOR).then_some(FLOOR);
        turns.add(name, beside, || clocked(|| program.run()));
    }
    let mut rows = turns.play(run.rounds(ROUNDS));
    for (row, (_, program)) in rows.iter_mut().zip(&programs) {
        row.counts = Some(run.counters.of(program, &|| ()));
    }
    rows.extend(missing);
    run.add(rows);
    if let (Some(machine), Some(volume)) = (machine, volume) {
        machine.take(&volume);
    }
}
