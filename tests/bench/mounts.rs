//! What `mountdevice` of a clean disk costs, beside the kernel's own mount(2) and the three programs that it stands for.

use crate::Run;
use crate::figures::Row;
use crate::node::{Machine, Volume};
use crate::program::Program;
use crate::turns::{Took, Turns, clocked};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::Path;

const GROUP: &str = "mounts";
const ROUNDS: usize = 60;

pub fn measure(run: &mut Run) {
    if !run.is_root {
        run.add([Row::missing(GROUP, "ext4: mountdevice", "needs root and loop devices")]);
        return;
    }
    let machine = Machine::new();
    for fs_type in ["ext4", "xfs"] {
        let volume = machine.bring(fs_type, "1G");
        unmount(&machine, &volume);
        one(run, &machine, &volume, fs_type);
        machine.node.must(machine.stage(&volume));
        machine.take(&volume);
    }
}

fn unmount(machine: &Machine, volume: &Volume) {
    umount2(&machine.global(volume), MntFlags::empty()).unwrap();
}

fn one(run: &mut Run, machine: &Machine, volume: &Volume, fs_type: &'static str) {
    let named = |what: &str| format!("{fs_type}: {what}");
    let (device, global) = (machine.device(volume), machine.global(volume));
    let undo = || unmount(machine, volume);
    let base = named("mountdevice");
    let mut programs: Vec<(String, Vec<Program>)> = Vec::new();
    for driver in &run.drivers {
        let call = machine.call(driver, &machine.stage(volume)).answering("Success");
        programs.push((format!("{base}{}", driver.mark), vec![call]));
    }
    let (device_text, global_text) = (device.display(), global.display());
    let typed = format!(
        "blkid {device_text} && fsck -a {device_text} && mount {device_text} {global_text}"
    );
    let shell = Path::new("/bin/sh");
    programs
        .push((named("blkid, fsck -a, mount by hand"), vec![Program::new(shell, ["-c", &typed])]));
    programs.push((named("the same as kubelet calls them"), by_kubelet(&device, &global, fs_type)));

    let mut turns = Turns::new(GROUP);
    turns.add(named("mount(2) alone"), Some(&base), || {
        let took = clocked(|| {
            let none = None::<&str>;
            mount(Some(&device), &global, Some(fs_type), MsFlags::empty(), none).unwrap();
        });
        undo();
        // The kernel's work is this process's own.
        Took { work: took.time, ..took }
    });
    for (name, steps) in &programs {
        turns.add(name, (*name != base).then_some(base.as_str()), || {
            let took = clocked(|| steps.iter().for_each(Program::run));
            undo();
            took
        });
    }
    let mut rows = turns.play(run.rounds(ROUNDS));
    for (row, (_, steps)) in rows.iter_mut().skip(1).zip(&programs) {
        if let [program] = &steps[..] {
            // One that a counter's own program broke has not mounted.
            let undo = || {
                let _ = umount2(&global, MntFlags::empty());
            };
            row.counts = Some(run.counters.of(program, &undo));
        }
    }
    run.add(rows);
}

/// What kubelet's own mounter calls.
fn by_kubelet(device: &Path, global: &Path, fs_type: &str) -> Vec<Program> {
    let (device, global) = (device.to_str().unwrap(), global.to_str().unwrap());
    let looked: &[&str] = &["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device];
    vec![
        Program::new(Path::new("blkid"), looked),
        Program::new(Path::new("fsck"), ["-a", device]),
        Program::new(Path::new("mount"), ["-t", fs_type, "-o", "defaults", device, global]),
    ]
}
