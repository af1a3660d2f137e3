//! Disks and file systems that someone else put in the place of a volume's: a second disk that claims the
//! volume's serial, and another file system on the disk.

use crate::files;
use crate::life::{Life, PODS};
use crate::support::output_of;
use crate::support::server_disks::{device, losetup, serial};
use crate::support::sysfs::{Bus, ISCSI, UNLISTED, USB};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const VICTIMS: &[u8] = b"the victim's data";
const TENANTS: &[u8] = b"the tenant's data";

/// A tenant's disk with a file system and a file, on this machine.
struct Impostor {
    image: PathBuf,
    name: String,
    before: Vec<u8>,
}

impl Impostor {
    fn new(life: &Life) -> Self {
        let image = life.here.node.base().join("tenants.img");
        let content = life.here.node.base().join("content");
        fs::create_dir(&content).unwrap();
        fs::write(content.join("data"), TENANTS).unwrap();
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        mkfs(&image, &["-d", content.to_str().unwrap()]);
        let name = losetup(&[Path::new("--find"), Path::new("--show"), &image]).unwrap();
        let before = fs::read(&image).unwrap();
        Self { image, name, before }
    }

    /// Connects it to the machine.
    fn plug_in(&self, life: &Life, bus: Bus, claims: &[(&str, &str)]) {
        life.here.shown.show_as(&self.name, &self.name, bus, claims).unwrap();
    }

    fn pull_out(&self, life: &Life) {
        life.here.shown.hide(&self.name).unwrap();
    }

    #[track_caller]
    fn was_left_alone(&self) {
        assert!(fs::read(&self.image).unwrap() == self.before, "the tenant's disk was written to");
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        let _ = losetup(&[Path::new("--detach"), &device(&self.name)]);
    }
}

fn mkfs(device: &Path, options: &[&str]) {
    let output = output_of(Command::new("mkfs.ext4").args(["-q", "-F"]).args(options).arg(device));
    assert!(output.status.success(), "{output:?}");
}

/// A volume with a file, attached and not mounted.
fn written(life: &Life) {
    life.here.mount_volume();
    files::write_synced(&life.here.global().join("data"), VICTIMS);
    life.here.unstage();
}

fn record_file(life: &Life) -> PathBuf {
    life.here.node.own().join(format!("run/boot/{}.json", life.volume))
}

/// What an earlier version wrote down of the mount.
fn forget_transport(life: &Life) {
    let file = record_file(life);
    let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(record["staged"].as_object_mut().unwrap().remove("transport").is_some());
    fs::write(&file, record.to_string()).unwrap();
}

#[test]
fn a_disk_on_another_transport_takes_no_volumes_place() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    written(&life);
    let impostor = Impostor::new(&life);
    let (whole, cut) = (life.volume.clone(), serial(&life.volume).to_owned());
    for (bus, claim) in [
        (ISCSI, &whole),
        (ISCSI, &cut),
        (USB, &whole),
        (UNLISTED, &whole),
        (Bus::Virtio("virtio_vdpa"), &whole),
    ] {
        impostor.plug_in(&life, bus, &[("serial", claim)]);
        here.wait(device(&impostor.name).to_str().unwrap());
        here.stage();
        here.publish(PODS[0]);
        let found = files::read(here.pod(PODS[0]).join("data")).unwrap();
        assert!(found == VICTIMS, "{bus:?} {claim}: {}", String::from_utf8_lossy(&found));
        here.unpublish(PODS[0]);
        here.unstage();
        impostor.pull_out(&life);
    }
    // Nor does it keep the volume here, or stand in for it when it has left.
    impostor.plug_in(&life, ISCSI, &[("serial", &whole)]);
    here.detach();
    assert!(life.attached_to().is_empty());
    let message = here.stage_fails();
    assert!(message.contains("is not attached to"), "{message}");
    here.bring_disk();
    here.stage();
    assert_eq!(files::read(here.global().join("data")).unwrap(), VICTIMS);
    here.unstage();
    here.detach();
    impostor.was_left_alone();
}

/// An upgrade, or another configuration, must not strand what is mounted: it is guarded, healed and
/// unmounted, and only a new mount is refused.
#[test]
fn what_is_mounted_from_a_disk_of_another_transport_comes_to_its_end() {
    needs!(mounts, seams);
    // At the same time, each with mounts of its own: they wait for a disk of a transport that is allowed.
    std::thread::scope(|scope| {
        for bus in [UNLISTED, USB, ISCSI] {
            scope.spawn(move || comes_to_its_end(bus));
        }
    });
}

fn comes_to_its_end(bus: Bus) {
    needs!(mounts);
    let life = Life::new("ext4");
    let here = &life.here;
    let letter = life.up(here, "ext4");
    files::write_synced(&here.pod(PODS[0]).join("data"), VICTIMS);
    // From here on it is as if an earlier version had mounted it.
    *life.plug.bus.lock().unwrap() = Some(bus);
    here.shown.hide(&letter).unwrap();
    let claims = [("serial", serial(&life.volume))];
    here.shown.show_as(&letter, &letter, bus, &claims).unwrap();
    forget_transport(&life);
    let (is_well, told) = here.verb(&["heal"]);
    assert!(is_well, "{told}");
    // kubelet repeats its calls when it was restarted.
    here.wait("");
    here.stage();
    let message = here.detach_fails();
    assert!(message.contains("is mounted at"), "{message}");
    // The disk goes, and comes back under another name.
    life.there.node.verb(&["detach", "--force", crate::scene::PV, "node-a"]).unwrap();
    let before = here.shown.name_of(&life.volume);
    let options = crate::support::options_with(&life.volume, crate::scene::PV, "ext4", "rw");
    life.there.node.must(["attach", &options, "node-a"]);
    assert_ne!(here.shown.name_of(&life.volume), before);
    let (is_healed, told) = here.verb(&["heal"]);
    assert!(is_healed && told.contains("switched"), "{told}");
    assert_eq!(files::read(here.pod(PODS[0]).join("data")).unwrap(), VICTIMS);
    files::write_synced(&here.pod(PODS[1]).join("more"), b"written after the heal");
    let (is_done, told) = here.verb(&["format", &life.volume, "--yes"]);
    let words = match bus {
        ISCSI => "where the hypervisor does not choose the serial",
        _ => "disks.transports",
    };
    assert!(!is_done && told.contains(words), "{told}");
    for uid in PODS {
        here.unpublish(uid);
    }
    here.unstage();
    // Nothing new is begun on it.
    let name = here.letter();
    let message = here.stage_fails();
    assert!(message.contains(&name), "{message}");
    let (is_done, told) = here.verb(&["format", &life.volume, "--yes"]);
    assert!(!is_done && told.contains(&name), "{told}");
    here.detach();
    assert!(life.attached_to().is_empty());
}

/// The file system changes while the volume stays attached: nobody but this driver makes one then.
#[test]
fn another_file_system_in_the_same_attachment_is_refused_until_a_person_accepts_it() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    written(&life);
    let uuid = "0b5c3f0e-9a7d-4f5e-8d4b-1f2a3b4c5d6e";
    mkfs(&device(&here.letter()), &["-U", uuid]);
    let message = here.stage_fails();
    let command = format!("disk format {} --keep {uuid}", life.volume);
    assert!(message.contains("has not been detached since"), "{message}");
    assert!(message.contains(&command), "{message}");
    let keep = |uuid: &str| here.verb(&["format", &life.volume, "--keep", uuid]);
    let (is_done, told) = keep("0b5c3f0e-9a7d-4f5e-8d4b-000000000000");
    assert!(!is_done && told.contains(uuid), "{told}");
    here.stage_fails();
    let (is_done, told) = keep(uuid);
    assert!(is_done, "{told}");
    here.stage();
    here.unstage();
    // That word was for this file system alone.
    mkfs(&device(&here.letter()), &[]);
    let message = here.stage_fails();
    assert!(message.contains(uuid) && message.contains("--keep"), "{message}");
    // Attached anew, it may have got any file system meanwhile.
    here.detach();
    here.bring_disk();
    here.stage();
    here.unstage();
    here.detach();
}

/// A disk of an allowed transport that takes the place of the volume's without the cloud's doing.
#[test]
fn another_disk_in_the_same_attachment_is_refused_by_its_file_system() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    written(&life);
    let own = here.letter();
    let impostor = Impostor::new(&life);
    here.shown.hide(&own).unwrap();
    let link = here.shown.link(&life.volume);
    fs::remove_file(&link).unwrap();
    impostor.plug_in(&life, Bus::usual("vdx"), &[("serial", serial(&life.volume))]);
    std::os::unix::fs::symlink(device(&impostor.name), &link).unwrap();
    let message = here.stage_fails();
    assert!(message.contains("has not been detached since"), "{message}");
    impostor.was_left_alone();
    // The volume's own disk is back.
    impostor.pull_out(&life);
    here.shown.show(&own, &life.volume).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(device(&own), &link).unwrap();
    here.stage();
    assert_eq!(files::read(here.global().join("data")).unwrap(), VICTIMS);
    here.unstage();
    here.detach();
}
