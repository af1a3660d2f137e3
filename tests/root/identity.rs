//! Which disk is it: links that lie, ids that look alike, disks that change under our hands.

use crate::checks::layers_at;
use crate::crash::held_at;
use crate::files;
use crate::support::{Answer, Node, loop_devices_below, options, output_of, skip};
use crate::volume::Volume;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A volume that was formatted, holds a file with its own id, and is attached and unmounted.
fn written(node: &Node, id: &str, fs_type: &str) -> String {
    let json = options(id, id, fs_type);
    node.create(id, "64M");
    node.must(["attach", &json, &node.name]);
    let global = node.global(id);
    node.must(["mountdevice", global.to_str().unwrap(), "", &json]);
    files::write(global.join("id"), id).unwrap();
    node.must(["unmountdevice", global.to_str().unwrap()]);
    json
}

/// The id that the mounted volume holds.
fn id_at(folder: &Path) -> String {
    files::read_to_string(folder.join("id")).unwrap()
}

fn losetup(arguments: &[&str]) -> Result<String, String> {
    let output = output_of(Command::new("losetup").args(arguments));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn relink(link: &Path, target: &Path) {
    let _ = fs::remove_file(link);
    std::os::unix::fs::symlink(target, link).unwrap();
}

#[test]
fn no_form_of_a_lying_link_leads_to_another_disk() {
    needs!(mounts);
    let node = Node::new();
    let json = written(&node, "right", "ext4");
    written(&node, "wrong", "ext4");
    let (link, global) = (node.link("right"), node.global("right"));
    let right = PathBuf::from("/dev").join(node.letter("right").unwrap());
    let wrong = PathBuf::from("/dev").join(node.letter("wrong").unwrap());
    let before = files::read(node.image("wrong")).unwrap();
    let writes = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    writes.add_watch(&wrong, AddWatchFlags::IN_CLOSE_WRITE).unwrap();

    let mut forms: Vec<(&str, PathBuf)> = vec![
        ("another disk", wrong.clone()),
        ("nowhere", PathBuf::from("/dev/no-such-disk")),
        ("itself", link.clone()),
        ("a character device", PathBuf::from("/dev/null")),
        ("a folder", PathBuf::from("/tmp")),
    ];
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let root = table.lines().find(|line| line.split(' ').nth(4) == Some("/"));
    let root = root.and_then(|line| line.split(' ').nth(2));
    let root = root.map(|number| PathBuf::from(format!("/dev/block/{number}")));
    match root.and_then(|path| fs::canonicalize(path).ok()) {
        Some(disk) => forms.push(("the root disk", disk)),
        // Where the root's node cannot be named the form is still played, by a node of its number.
        None => forms.push(("a disk of the machine", root_disk())),
    }
    for (form, target) in &forms {
        relink(&link, target);
        let reply = node.must(["waitforattach", target.to_str().unwrap(), &json]);
        assert_eq!(reply["device"].as_str().unwrap(), right.to_str().unwrap(), "{form}");
        node.must(["mountdevice", global.to_str().unwrap(), target.to_str().unwrap(), &json]);
        assert_eq!(id_at(&global), "right", "{form}");
        node.must(["unmountdevice", global.to_str().unwrap()]);
        assert!(node.log().contains("a link lies"), "{form} is reported");
        assert_eq!(fs::read_link(&link).unwrap(), *target, "{form}: never repaired silently");
    }
    // A partition of the very disk: the right bytes at the wrong place. A disk with partitions is
    // refused whatever the link says, until they are gone.
    if let Some(partition) = Partition::of(&right) {
        relink(&link, &partition.node);
        let message = node.fails(["mountdevice", global.to_str().unwrap(), "", &json]);
        assert!(message.contains("has partitions"), "{message}");
        drop(partition);
        node.must(["mountdevice", global.to_str().unwrap(), "", &json]);
        assert_eq!(id_at(&global), "right");
        node.must(["unmountdevice", global.to_str().unwrap()]);
    } else {
        skip("no_form_of_a_lying_link (a partition)", "addpart cannot make one here");
    }
    assert!(files::read(node.image("wrong")).unwrap() == before, "the other disk was written to");
    let opened = writes.read_events();
    assert_eq!(opened.unwrap_err(), nix::errno::Errno::EAGAIN, "it was opened for writing");
}

/// A partition that exists in the kernel alone; it would outlive the loop device's file.
struct Partition {
    disk: PathBuf,
    node: PathBuf,
}

impl Partition {
    fn of(disk: &Path) -> Option<Self> {
        let added = output_of(Command::new("addpart").arg(disk).args(["1", "2048", "4096"]));
        let node = PathBuf::from(format!("{}p1", disk.display()));
        added.status.success().then(|| Self { disk: disk.to_owned(), node })
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let _ = output_of(Command::new("delpart").arg(&self.disk).arg("1"));
    }
}

fn root_disk() -> PathBuf {
    let names = fs::read_dir("/sys/block").unwrap().flatten().map(|entry| entry.file_name());
    let other =
        names.filter_map(|name| name.into_string().ok()).find(|name| !name.starts_with("loop"));
    Path::new("/dev").join(other.unwrap_or_else(|| "zero".to_owned()))
}

#[test]
fn ids_that_share_twenty_characters_are_not_mixed_up() {
    needs!(mounts);
    let node = Node::new();
    let ids = ["6f1c2d3e-4a5b-4c6d-8e7f-000000000001", "6f1c2d3e-4a5b-4c6d-8e7f-000000000002"];
    let jsons = ids.map(|id| written(&node, id, "ext4"));
    let disks = ids.map(|id| {
        let devices = loop_devices_below(&node.base());
        devices.into_iter().find(|device| {
            let name = device.file_name().unwrap().to_str().unwrap();
            let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap();
            file.contains(id)
        })
    });
    assert_eq!(node.link(ids[0]), node.link(ids[1]), "one link for both");
    for target in disks.iter().flatten() {
        relink(&node.link(ids[0]), target);
        for (id, json) in ids.iter().zip(&jsons) {
            let global = node.global(id);
            node.must(["waitforattach", target.to_str().unwrap(), json]);
            node.must(["mountdevice", global.to_str().unwrap(), "", json]);
            assert_eq!(id_at(&global), *id);
            node.must(["unmountdevice", global.to_str().unwrap()]);
        }
    }
}

/// Starts a mountdevice that stops at a step; swaps; lets it go on; returns its answer.
fn swap_at(node: &Node, step: &str, json: &str, global: &Path, swap: impl FnOnce()) -> Answer {
    let call = ["mountdevice", global.to_str().unwrap(), "", json];
    let (child, output) = held_at(node, call, step, swap);
    Answer::read(child, output)
}

#[test]
fn a_disk_that_takes_the_number_of_ours_is_never_mounted_or_formatted() {
    needs!(mounts, seams);
    let steps = [
        "stage.found",
        "stage.held",
        "stage.format.intent",
        "stage.format.made",
        "stage.format.done",
        "stage.looked",
        "stage.mounted",
    ];
    for step in steps {
        let is_held = step != "stage.found";
        // Another test may be faster to take a number that is not held: then once more.
        let mut tries = 0..if is_held { 1 } else { 20 };
        let was_swapped = tries.any(|_| the_number_changes_hands_at(step));
        assert_eq!(was_swapped, !is_held, "{step}: only before it is held");
    }
}

/// Whether another disk could take the number of ours at this step of a `mountdevice`.
fn the_number_changes_hands_at(step: &str) -> bool {
    let node = Node::new();
    let json = options("ours", "ours", "ext4");
    node.create("ours", "64M");
    node.must(["attach", &json, &node.name]);
    let other = node.base().join("other.img");
    fs::File::create(&other).unwrap().set_len(64 << 20).unwrap();
    let (global, device) = (node.global("ours"), format!("/dev/{}", node.letter("ours").unwrap()));
    let mut was_swapped = false;
    let answer = swap_at(&node, step, &json, &global, || {
        losetup(&["-d", &device]).unwrap();
        was_swapped = losetup(&[&device, other.to_str().unwrap()]).is_ok();
    });
    // Where a third disk took the number, another test's, the refusal is of that one.
    if was_swapped || step != "stage.found" {
        answer.is_told();
    }
    let reply = answer.json;
    if was_swapped {
        assert_eq!(reply["status"], "Failure", "{step}: {reply}");
        let message = reply["message"].as_str().unwrap();
        assert!(message.contains("other.img") && message.contains("ours.img"), "{message}");
    }
    assert!(
        files::read(&other).unwrap() == vec![0; 64 << 20],
        "{step}: the other disk was written to"
    );
    assert_eq!(layers_at(&global) == 1, reply["status"] == "Success", "{step}: {reply}");
    was_swapped
}

#[test]
fn a_disk_that_is_exchanged_under_its_number_is_noticed_at_every_step() {
    needs!(mounts, seams);
    for step in ["stage.found", "stage.held", "stage.looked", "stage.mounted"] {
        let node = Node::new();
        let json = written(&node, "ours", "ext4");
        let global = node.global("ours");
        // Only a read-only loop device can be given another file while it is open; that is the
        // one way here to exchange a disk behind an open descriptor.
        let device = format!("/dev/{}", node.letter("ours").unwrap());
        losetup(&["-d", &device]).unwrap();
        let image = node.image("ours");
        let device = losetup(&["-f", "--show", "-r", image.to_str().unwrap()]).unwrap();
        let other = node.base().join("other.img");
        fs::copy(&image, &other).unwrap();
        let answer = swap_at(&node, step, &json, &global, || change_file(&device, &other));
        answer.is_told();
        let reply = answer.json;
        assert_eq!(reply["status"], "Failure", "{step}: {reply}");
        let message = reply["message"].as_str().unwrap();
        // The cloud is asked after this step. It knows its disks by their files, so it misses ours first.
        if step == "stage.held" {
            assert!(message.contains("does not list volume ours"), "{step}: {message}");
        } else {
            let names_both = message.contains("other.img") && message.contains("ours.img");
            assert!(names_both, "{step}: {message}");
        }
        assert_eq!(layers_at(&global), 0, "{step}: something stayed mounted");
        losetup(&["-d", &device]).unwrap();
    }
}

/// `LOOP_CHANGE_FD` (linux/loop.h): another file of the same size behind the same number.
#[allow(unsafe_code)]
fn change_file(device: &str, file: &Path) {
    use std::os::fd::AsRawFd;
    const LOOP_CHANGE_FD: nix::libc::c_ulong = 0x4c06;
    let [device, file] = [Path::new(device), file].map(|path| fs::File::open(path).unwrap());
    // SAFETY: the argument is a descriptor by value; both are open for the whole call.
    let result =
        unsafe { nix::libc::ioctl(device.as_raw_fd(), LOOP_CHANGE_FD as _, file.as_raw_fd()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Another program's loop device, which is given back.
struct Foreign(String);

impl Foreign {
    /// Its backing file lies deeper than a path can tell: the kernel shows an error for it.
    fn deep(base: &Path) -> Self {
        let go_down = "d=$(printf %0220d 0); for i in $(seq 20); do mkdir $d; cd -P $d; done";
        let make = "truncate -s 1M image; losetup --find --show image";
        let script = format!("cd {} && {go_down}; {make}", base.display());
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = losetup(&["--detach", &self.0]);
    }
}

#[test]
fn a_foreign_disk_that_cannot_be_told_stands_in_no_volumes_way() {
    needs!(mounts);
    let node = Node::new();
    let foreign = Foreign::deep(&node.base());
    let name = foreign.0.rsplit('/').next().unwrap();
    let shown = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    assert!(shown.is_err(), "the kernel shows {shown:?}");
    let volume = Volume::create(&node, "ext4", "16M");
    volume.bring();
    volume.take_away();
}
