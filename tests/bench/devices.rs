//! How long it takes to notice a disk, and what it costs to find one: `cargo bench --bench devices`
//! (as root). Figures only; nothing here passes or fails by time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::unchecked_time_subtraction,
    missing_docs,
    reason = "a benchmark prints, and fails by panicking"
)]

use incloud_disk::host::Devices;
use incloud_disk::host::devices::SysfsDevices;
use incloud_disk::model::disk::device::Identity;
use incloud_disk::model::ids::VolumeId;
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn main() {
    if !nix::unistd::geteuid().is_root() {
        println!("needs root for loop devices");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    cost(folder.path());
    println!("\nfrom the kernel's event of a new loop device to the answer, milliseconds");
    println!("{:<34} {:>5} {:>8} {:>8} {:>8}", "", "runs", "median", "95 of 100", "worst");
    let cases: [(&str, usize, Waiter); 4] = [
        ("this driver: events", 200, by_events),
        ("poll every 100 ms", 200, |d, w| by_steps(d, w, &[100])),
        ("back-off 50 ms, doubled to 500", 200, |d, w| by_steps(d, w, &[50, 100, 200, 400, 500])),
        ("back-off 1 s, 1.1-fold", 20, |d, w| by_steps(d, w, &[1000, 1100, 1210, 1331])),
    ];
    for (name, runs, waiter) in cases {
        let mut times: Vec<Duration> =
            (0..runs).map(|run| notice(folder.path(), run, waiter)).collect();
        times.sort();
        let at =
            |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!("{name:<34} {runs:>5} {:>8.2} {:>8.2} {:>8.2}", at(0.5), at(0.95), at(1.0));
    }
}

type Waiter = fn(&SysfsDevices, &Identity);

/// Waits as the driver does: subscribe, look, wait for news, look.
fn by_events(devices: &SysfsDevices, wanted: &Identity) {
    let mut events = devices.watch();
    while devices.search(wanted).unwrap().is_empty() {
        events.wait(Duration::from_secs(1));
    }
}

/// Looks after each step, the last one for ever.
fn by_steps(devices: &SysfsDevices, wanted: &Identity, steps: &[u64]) {
    let mut step = 0;
    while devices.search(wanted).unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(steps[step.min(steps.len() - 1)]));
        step += 1;
    }
}

/// One disk that appears while it is waited for.
fn notice(folder: &Path, run: usize, waiter: Waiter) -> Duration {
    let image = folder.join("noticed.img");
    fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let wanted = Identity::BackingFile(image.clone());
    let devices = SysfsDevices::default();
    let mut witness = devices.watch();
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        sender.send(()).unwrap();
        waiter(&devices, &wanted);
        Instant::now()
    });
    receiver.recv().unwrap();
    // Somewhere between 20 and 320 ms, never in step with a poll.
    std::thread::sleep(Duration::from_millis(20 + (run as u64 * 37) % 300));
    let setup = std::thread::spawn(move || {
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    });
    witness.wait(Duration::from_secs(10));
    let event = Instant::now();
    let noticed = waiting.join().unwrap();
    let device = setup.join().unwrap();
    assert!(Command::new("losetup").args(["-d", &device]).status().unwrap().success());
    noticed.saturating_duration_since(event)
}

const ID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";

/// 512 made-up disks and 64 real loop devices in one tree.
fn cost(folder: &Path) {
    let (sysfs, by_id) = (folder.join("sys"), folder.join("by-id"));
    fs::create_dir_all(sysfs.join("block")).unwrap();
    fs::create_dir_all(sysfs.join("dev/block")).unwrap();
    fs::create_dir_all(&by_id).unwrap();
    for n in 0..512 {
        let disk = sysfs.join(format!("devices/vd{n}"));
        fs::create_dir_all(&disk).unwrap();
        let serial = if n == 400 { ID[..20].to_owned() } else { format!("other-volume-{n}") };
        let number = format!("253:{n}");
        for (file, text) in
            [("serial", serial.as_str()), ("dev", &number), ("size", "2048"), ("ro", "0")]
        {
            fs::write(disk.join(file), text).unwrap();
        }
        std::os::unix::fs::symlink(&disk, sysfs.join(format!("block/vd{n}"))).unwrap();
        std::os::unix::fs::symlink(&disk, sysfs.join("dev/block").join(number)).unwrap();
    }
    let mut loops = Vec::new();
    let mut image = PathBuf::new();
    for n in 0..64 {
        image = folder.join(format!("{n}.img"));
        fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().unwrap();
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let name = Path::new(&device).file_name().unwrap().to_owned();
        let real = Path::new("/sys/block").join(&name);
        std::os::unix::fs::symlink(&real, sysfs.join("block").join(&name)).unwrap();
        loops.push(device);
    }
    let link = by_id.join("virtio-6f1c2d3e-4a5b-4c6d-8");
    std::os::unix::fs::symlink(loops.last().unwrap(), by_id.join("virtio-last")).unwrap();
    std::os::unix::fs::symlink("/nowhere", &link).unwrap();
    let devices = SysfsDevices::at(sysfs, by_id.clone());

    println!(
        "512 disks and 64 loop devices: processor time to find one, milliseconds (median of 200)"
    );
    let serial = Identity::Serial(VolumeId::parse(ID).unwrap());
    let file = Identity::BackingFile(image);
    for (name, wanted, link) in [
        ("by serial", &serial, None),
        ("by serial, links looked at too", &serial, Some(&link)),
        ("by image", &file, None),
        ("by image, its link looked at too", &file, Some(&by_id.join("virtio-last"))),
    ] {
        let mut times: Vec<Duration> = (0..200)
            .map(|_| {
                let begin = processor_time();
                assert_eq!(devices.search(wanted).unwrap().len(), 1, "{name}");
                if let Some(link) = link {
                    let _ = devices.link_faults(wanted, link);
                }
                processor_time() - begin
            })
            .collect();
        times.sort();
        println!("{name:<34} {:>8.2}", times[100].as_secs_f64() * 1e3);
    }
    for device in loops {
        assert!(Command::new("losetup").args(["-d", &device]).status().unwrap().success());
    }
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}
