//! How long it takes to notice a disk, and what it costs to find one among many.

use crate::Run;
use crate::figures::Row;
use crate::support::sysfs::{self as made_up, Bus};
use crate::turns::{Took, Turns};
use incloud_disk::host::devices::SysfsDevices;
use incloud_disk::model::disk::device::Identity;
use incloud_disk::model::ids::VolumeId;
use incloud_disk::ports::host::Devices;
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const GROUP: &str = "devices";
const ROUNDS: usize = 40;
const SEARCHES: usize = 101;

pub fn measure(run: &mut Run) {
    if !run.is_root {
        run.add([Row::missing(GROUP, "this driver: events", "needs root and loop devices")]);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    notices(run, folder.path());
    searches(run, folder.path());
}

fn notices(run: &mut Run, folder: &Path) {
    let mut turns = Turns::new(GROUP);
    let mut nth = 0;
    turns.add("this driver: events", None, move || {
        nth += 1;
        Took { time: notice(folder, nth).as_secs_f64() * 1e3, work: 0.0 }
    });
    run.add(turns.play(run.rounds(ROUNDS)));
}

/// Waits as the driver does: subscribe, look, wait for news, look.
fn by_events(devices: &SysfsDevices, wanted: &Identity) {
    let mut events = devices.watch();
    while devices.search(wanted).unwrap().is_empty() {
        events.wait(Duration::from_secs(1));
    }
}

/// From the kernel's event of a disk that appears while it is waited for to the answer.
fn notice(folder: &Path, nth: u64) -> Duration {
    let image = folder.join("noticed.img");
    fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let wanted = Identity::BackingFile(image.clone());
    let mut witness = SysfsDevices::default().watch();
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        // What it remembers of a moment is a thread's own.
        let devices = SysfsDevices::default();
        sender.send(()).unwrap();
        by_events(&devices, &wanted);
        Instant::now()
    });
    receiver.recv().unwrap();
    // Somewhere between 20 and 320 ms.
    std::thread::sleep(Duration::from_millis(20 + (nth * 37) % 300));
    let setup = std::thread::spawn(move || attach(&image));
    witness.wait(Duration::from_secs(10));
    let event = Instant::now();
    let noticed = waiting.join().unwrap();
    detach(&setup.join().unwrap());
    noticed.saturating_duration_since(event)
}

fn attach(image: &Path) -> String {
    let output = Command::new("losetup").args(["-f", "--show"]).arg(image).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn detach(device: &str) {
    assert!(Command::new("losetup").args(["-d", device]).status().unwrap().success());
}

const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";

/// 512 made-up disks and 64 real loop devices in one tree.
fn searches(run: &mut Run, folder: &Path) {
    let (sysfs, by_id) = (folder.join("sys"), folder.join("by-id"));
    for place in [sysfs.join("block"), sysfs.join("dev/block"), by_id.clone()] {
        fs::create_dir_all(place).unwrap();
    }
    for n in 0..512 {
        let serial = if n == 400 { ID[..20].to_owned() } else { format!("other-volume-{n}") };
        let number = format!("253:{n}");
        let name = format!("vd{n}");
        let files: [(&str, &[u8]); 4] = [
            ("serial", serial.as_bytes()),
            ("dev", number.as_bytes()),
            ("size", b"2048"),
            ("ro", b"0"),
        ];
        made_up::disk(&sysfs, &name, Bus::usual(&name), &files).unwrap();
    }
    let mut loops = Vec::new();
    let mut image = PathBuf::new();
    for n in 0..64 {
        image = folder.join(format!("{n}.img"));
        fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
        let device = attach(&image);
        let name = Path::new(&device).file_name().unwrap().to_owned();
        symlink(Path::new("/sys/block").join(&name), sysfs.join("block").join(&name)).unwrap();
        loops.push(device);
    }
    let link = by_id.join("virtio-6f1c2d3e-4a5b-4c6d-8");
    symlink(loops.last().unwrap(), by_id.join("virtio-last")).unwrap();
    symlink("/nowhere", &link).unwrap();
    let devices = SysfsDevices::at(sysfs, by_id.clone());
    let serial = Identity::Serial(VolumeId::parse(ID).unwrap());
    let file = Identity::BackingFile(image);
    let last = by_id.join("virtio-last");
    let mut turns = Turns::new(GROUP);
    for (name, wanted, link) in [
        ("by serial, among 576", &serial, None),
        ("by serial, links looked at too", &serial, Some(&link)),
        ("by image, among 576", &file, None),
        ("by image, its link looked at too", &file, Some(&last)),
    ] {
        let devices = &devices;
        turns.add(name, None, move || {
            let (worked, begin) = (processor_time(), Instant::now());
            assert_eq!(devices.search(wanted).unwrap().len(), 1, "{name}");
            if let Some(link) = link {
                let _ = devices.links(wanted, link);
            }
            let work = (processor_time() - worked).as_secs_f64() * 1e3;
            Took { time: begin.elapsed().as_secs_f64() * 1e3, work }
        });
    }
    run.add(turns.play(run.rounds(SEARCHES)));
    for device in loops {
        detach(&device);
    }
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}
