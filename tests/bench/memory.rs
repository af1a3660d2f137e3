//! The resident memory of each call, the largest of its processes.

use crate::Run;
use crate::figures::{Counts, Row};
use crate::node::{Machine, words};
use crate::program::Program;
use crate::scene::Scene;
use std::fs;

const GROUP: &str = "memory";
const POD: &str = "7a5c1e0b-3d52-4f0e-9a35-6f1d0c8b2e44";

pub fn measure(run: &mut Run) {
    let driver = run.drivers[0].clone();
    let mut rows = Vec::new();
    let mut note = |name: &str, program: &Program| {
        let Some((memory, faults)) = run.counters.memory(program, &|| ()) else { return };
        let counts = Counts { memory_kib: Some(memory), faults: Some(faults), ..Counts::default() };
        rows.push(Row { counts: Some(counts), ..Row::new(GROUP, name) });
    };
    note("init", &Program::new(&driver.file, ["init"]).answering("Success"));
    if run.is_root {
        let machine = Machine::new();
        let volume = machine.bring("ext4", "64M");
        machine.take(&volume);
        fs::create_dir_all(machine.pod(&volume, POD)).unwrap();
        for (name, call) in [
            ("attach", machine.attach(&volume)),
            ("isattached", machine.is_attached(&volume)),
            ("waitforattach", machine.wait(&volume)),
            ("mountdevice", machine.stage(&volume)),
            ("mount", machine.publish(&volume, POD)),
            ("unmount", machine.unpublish(&volume, POD)),
            ("unmountdevice", machine.unstage(&volume)),
            ("detach", machine.detach(&volume)),
        ] {
            note(name, &machine.call(&driver, &call).answering("Success"));
        }
        for (name, verb) in [("status", "status"), ("doctor", "doctor")] {
            // That the doctor finds something is its exit status.
            let shell = ["-c", "\"$0\" \"$1\"; true", driver.file.to_str().unwrap(), verb];
            let call = Program::new(std::path::Path::new("/bin/sh"), shell);
            note(name, &call.setting("INCLOUD_DISK_CONFIG", machine.node.config_path()));
        }
    }
    let scene = Scene::of_immediate();
    let other = "node-b";
    for (name, call) in [
        ("attach, OpenStack", scene.attach(other)),
        ("isattached, OpenStack", scene.is_attached(other)),
        ("detach, OpenStack", scene.detach(other)),
    ] {
        let program = Program::new(&driver.file, words(call.each_ref().map(String::as_str)));
        let program = program.setting("INCLOUD_DISK_CONFIG", scene.node.config_path());
        note(name, &program.answering("Success"));
    }
    run.add(rows);
}
