//! A check that takes longer than a call: it comes to its end, and its disk is left alone until then.

use crate::checks::{layers_at, nothing_is_left};
use crate::files;
use crate::holders::run;
use crate::support::{Node, copy_program, write_program};
use crate::volume::{Volume, make_folder};
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::PathBuf;

/// The machine's own e2fsck behind a gate, in this mount namespace.
struct Gate {
    /// One line for each time that it was started.
    starts: PathBuf,
    /// As long as this is there, it waits.
    closed: PathBuf,
}

impl Gate {
    fn put(node: &Node) -> Self {
        let base = node.base();
        let (real, script) = (base.join("e2fsck.real"), base.join("e2fsck.gate"));
        let (starts, closed) = (base.join("starts"), base.join("closed"));
        copy_program("/usr/sbin/e2fsck", &real);
        let text = format!(
            "#!/bin/sh\necho $$ >>{}\nwhile [ -e {} ]; do sleep 0.01; done\nexec {} \"$@\"\n",
            starts.display(),
            closed.display(),
            real.display()
        );
        write_program(&script, text);
        fs::write(&closed, "").unwrap();
        mount(Some(&script), "/usr/sbin/e2fsck", None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .unwrap();
        Self { starts, closed }
    }

    fn open(&self) {
        let _ = fs::remove_file(&self.closed);
    }

    fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(&self.starts).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// A volume with a file in it, whose file system asks for a check.
fn in_need_of_a_check(node: &Node) -> Volume {
    let volume = Volume::create(node, "ext4", "64M");
    volume.bring();
    files::write_synced(&volume.global().join("f"), b"kept");
    volume.take_away();
    let image = volume.image();
    run("debugfs", &["-w", "-R", "set_super_value state 2", image.to_str().unwrap()]);
    node.must(volume.attach());
    make_folder(&volume.global());
    volume
}

#[test]
fn a_check_longer_than_its_call_comes_to_its_end() {
    needs!(mounts);
    let node = Node::new();
    let volume = in_need_of_a_check(&node);
    let gate = Gate::put(&node);
    node.configure("[deadline]\nmountdevice = 2\ndetach = 20");
    for _ in 0..3 {
        let message = node.fails(volume.stage());
        assert!(message.contains("e2fsck has checked") && message.contains("goes on"), "{message}");
        assert!(message.contains(&format!("(process {})", gate.processes()[0])), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
    }
    assert_eq!(gate.processes().len(), 1, "the check was begun anew");
    // Nothing else touches the disk meanwhile.
    let message = node.fails(volume.detach());
    assert!(message.contains("goes on"), "{message}");
    let message = node.verb(&["format", &volume.id, "--yes"]).unwrap_err();
    assert!(message.contains("goes on"), "{message}");

    gate.open();
    node.configure("");
    node.must(volume.stage());
    assert_eq!(gate.processes().len(), 1, "its result was not taken");
    assert_eq!(files::read(volume.global().join("f")).unwrap(), b"kept");
    assert!(node.log().contains("begun by an earlier call, has ended"), "{}", node.log());
    volume.ends();
    volume.must_be_sound();
}

#[test]
fn a_check_goes_on_when_its_call_is_ended_by_a_signal() {
    needs!(mounts);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let node = Node::new();
        let volume = in_need_of_a_check(&node);
        let gate = Gate::put(&node);
        let (mut call, _output) = crate::support::spawn(node.command(volume.stage()));
        let begun = node.own().join("run/checks").join(format!("{}.json", volume.id));
        crate::checks::eventually("the check began", || {
            begun.exists() && !gate.processes().is_empty()
        });
        kill(Pid::from_raw(i32::try_from(call.id()).unwrap()), signal).unwrap();
        call.wait().unwrap();
        node.configure("[deadline]\nmountdevice = 2");
        let message = node.fails(volume.stage());
        assert!(message.contains("goes on"), "{signal}: {message}");
        gate.open();
        node.configure("");
        node.must(volume.stage());
        assert_eq!(gate.processes().len(), 1, "{signal}: the check was begun anew");
        volume.ends();
        volume.must_be_sound();
        nix::mount::umount2("/usr/sbin/e2fsck", nix::mount::MntFlags::MNT_DETACH).unwrap();
    }
}

/// One that was killed has no result: it is begun anew. One that gave up is told.
#[test]
fn a_check_that_was_killed_is_begun_anew_and_one_that_gave_up_is_told() {
    needs!(mounts);
    let node = Node::new();
    let volume = in_need_of_a_check(&node);
    let gate = Gate::put(&node);
    node.configure("[deadline]\nmountdevice = 2");
    assert!(node.fails(volume.stage()).contains("goes on"));
    kill(Pid::from_raw(gate.processes()[0]), Signal::SIGKILL).unwrap();
    assert!(node.fails(volume.stage()).contains("goes on"));
    assert_eq!(gate.processes().len(), 2, "it was not begun anew");

    // What e2fsck does not mend by itself: the root folder is gone.
    let device = format!("/dev/{}", volume.letter());
    run("debugfs", &["-w", "-R", "clri <2>", &device]);
    gate.open();
    node.configure("");
    let message = node.fails(volume.stage());
    assert!(message.contains("does not mend by itself"), "{message}");
    assert!(message.contains("run e2fsck by hand"), "{message}");
    assert_eq!(layers_at(&volume.global()), 0);
    assert_eq!(gate.processes().len(), 2);
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}
