//! The remote guard: what is mounted carries the mark of its server, and a detach that is called
//! elsewhere finds it.

use crate::life::{Life, PODS};
use crate::scene::{PV, Scene};
use crate::server::Fault;
use crate::support::{Answer, spawn};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const KEY: &str = "incloud-disk-mounted-on";

fn mark(life: &Life) -> Option<String> {
    let world = life.cloud.world();
    let volume = world.storage.volume(&life.volume).unwrap();
    volume.metadata.get(KEY).and_then(Value::as_str).map(str::to_owned)
}

#[test]
fn a_mounted_volume_is_not_detached_by_another_machine() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    life.up(here, "ext4");
    assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
    // The controller's forced detach, six minutes later, from wherever it runs.
    let forced = || ["detach".to_owned(), PV.to_owned(), "node-a".to_owned()];
    let message = there.node.fails(forced());
    assert!(message.contains(&here.server) && message.contains("mounted"), "{message}");
    assert!(message.contains("disk detach --force"), "{message}");
    assert_eq!(life.attached_to(), [here.server.as_str()]);

    here.unpublish(PODS[0]);
    here.unpublish(PODS[1]);
    here.unstage();
    assert_eq!(mark(&life), None);
    there.node.must(forced());
    assert!(life.attached_to().is_empty());
}

/// A controller's detach that comes between the mount and its mark finds no mark, and takes the disk.
#[test]
fn what_was_detached_before_the_mark_is_no_mount() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.bring_disk();
    let answer = here.stage_held_at("stage.remembered", || {
        there.node.must(["detach", PV, "node-a"]);
    });
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(answer.text.contains("it is gone"), "{}", answer.text);
    let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    assert!(!table.contains(here.global().to_str().unwrap()), "{table}");
    assert_eq!(mark(&life), None);
    // After the mark it is refused.
    life.up(here, "ext4");
    assert!(there.node.fails(["detach", PV, "node-a"]).contains("mounted"));
    life.down(here);
}

/// A guest that lets go slowly: the disk is here while the cloud takes the volume away, and a detach that
/// was asked for before the mountdevice, or before its mark, takes it from under the mount.
#[test]
fn what_the_cloud_is_taking_away_is_not_mounted() {
    needs!(mounts, seams);
    for step in [None, Some("stage.remembered")] {
        let life = Life::new("ext4");
        let (here, there) = (&life.here, &life.there);
        here.bring_disk();
        life.cloud.world().settings.delays.detaching = 4_000;
        let detach = || {
            let (child, output) = spawn(there.node.command(["detach", PV, "node-a"]));
            let is_leaving = || {
                let world = life.cloud.world();
                world.storage.volume(&life.volume).unwrap().status == "detaching"
            };
            let end = Instant::now() + Duration::from_secs(20);
            while !is_leaving() {
                assert!(Instant::now() < end, "the detach is not asked for");
                std::thread::sleep(Duration::from_millis(2));
            }
            (child, output)
        };
        let (message, detaching) = if let Some(step) = step {
            let mut detaching = None;
            let answer = here.stage_held_at(step, || detaching = Some(detach()));
            assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
            (answer.text, detaching.unwrap())
        } else {
            let detaching = detach();
            (here.stage_fails(), detaching)
        };
        let (child, output) = detaching;
        assert!(message.contains("takes volume") && message.contains("detaching"), "{message}");
        let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        assert!(!table.contains(here.global().to_str().unwrap()), "{table}");
        assert_eq!(mark(&life), None);
        assert_eq!(Answer::finish(child, output).json["status"], "Success");
        life.cloud.world().settings.delays.detaching = 0;
        life.up(here, "ext4");
        life.down(here);
    }
}

/// The question is not answered by the failure before it: a mount that a killed call left is a Failure for as
/// long as the cloud takes its volume away.
#[test]
fn a_mount_whose_volume_is_taken_away_fails_until_it_stays() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    here.bring_disk();
    here.stage_killed_at("stage.remembered");
    let set = |status: &str| status.clone_into(&mut life.cloud.world().volume_mut("data").status);
    set("detaching");
    for _ in 0..2 {
        let message = here.stage_fails();
        assert!(message.contains("takes volume") && message.contains("detaching"), "{message}");
        let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        assert!(table.contains(here.global().to_str().unwrap()), "containers may have it");
        assert!(!message.contains("is not mounted"), "{message}");
    }
    set("in-use");
    here.stage();
    assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
    here.unstage();
    assert_eq!(mark(&life), None);
    here.detach();
}

/// While one reader's server is detached Cinder calls the volume `detaching`, even if other servers have it.
#[test]
fn a_reader_is_not_kept_from_its_volume_by_anothers_detach() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    life.cloud.world().volume_mut("data").multiattach = true;
    for machine in [here, there] {
        machine.shares.set(true);
        machine.attach();
    }
    // Readers make no file system.
    let image = life.plug.image(&life.volume);
    assert!(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image).status().unwrap().success());
    there.wait("");
    let set = |status: &str| status.clone_into(&mut life.cloud.world().volume_mut("data").status);
    set("detaching");
    there.stage();
    set("in-use");
    assert_eq!(mark(&life).as_deref(), Some(there.server.as_str()));
    there.unstage();
    there.detach();
}

/// Cinder lists the volume nowhere, and may give it to another server at once: the disk alone is no leave
/// to write.
#[test]
fn a_disk_that_the_cloud_does_not_list_here_is_not_mounted() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    here.bring_disk();
    // A blank disk asks for the cloud's consent anyway.
    here.stage();
    here.unstage();
    let listed = {
        let mut world = life.cloud.world();
        let volume = world.volume_mut("data");
        "available".clone_into(&mut volume.status);
        std::mem::take(&mut volume.attachments)
    };
    let message = here.stage_fails();
    assert!(
        message.contains("does not list volume") && message.contains("disk detach id:"),
        "{message}"
    );
    assert_eq!(mark(&life), None);
    {
        let mut world = life.cloud.world();
        let volume = world.volume_mut("data");
        "in-use".clone_into(&mut volume.status);
        volume.attachments = listed;
    }
    here.stage();
    assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
    here.unstage();
    here.detach();
}

/// The mark of a server that is not running protects nothing.
#[test]
fn a_mark_counts_while_its_server_runs() {
    if !crate::support::is_root_here("a_mark_counts_while_its_server_runs") {
        return;
    }
    let scene = Scene::of_immediate();
    let server = scene.server("node-b");
    let set_mark = || {
        let mut world = scene.cloud.world();
        world.volume_mut("data").metadata.insert(KEY.to_owned(), Value::from(server.clone()));
    };
    scene.node.must(scene.attach("node-b"));
    set_mark();
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains(&server), "{message}");
    assert_eq!(scene.attached_to(), [server.as_str()]);
    "stopped".clone_into(&mut scene.cloud.world().server_mut("node-b").vm_state);
    scene.node.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
    "active".clone_into(&mut scene.cloud.world().server_mut("node-b").vm_state);

    // A person's word passes too, and the mark goes with the attachment.
    scene.node.must(scene.attach("node-b"));
    set_mark();
    scene.node.fails(scene.detach("node-b"));
    scene.node.verb(&["detach", "--force", PV, "node-b"]).unwrap();
    assert!(scene.attached_to().is_empty());
    assert!(!scene.cloud.world().volume_mut("data").metadata.contains_key(KEY));
}

/// The mark never fails a mount, and what was not taken back is taken back by a later call.
#[test]
fn a_mark_that_cannot_be_left_or_removed_fails_nothing() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    here.bring_disk();
    let marking = Fault::on("POST", "/volumes/*/metadata").containing("mounted-on");
    life.cloud.fault(marking.proxy(400));
    here.stage();
    assert!(here.node.log().contains("was not told that the volume is mounted"));
    // `stage` calls twice: the second one has left it.
    assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
    life.cloud.fault(Fault::on("DELETE", "/volumes/*/metadata/*").proxy(400));
    here.unstage();
    assert!(here.node.log().contains("still thinks that the volume is mounted here"));
    here.detach();
    assert_eq!(mark(&life), None);
}

/// The cloud has the mark, and this machine was not told so: the answer was lost, or the call was killed
/// before it wrote that down. The mark is taken back all the same, or a controller could detach never.
#[test]
fn a_mark_that_was_not_answered_goes_with_the_unmount() {
    needs!(mounts, seams);
    for is_killed in [false, true] {
        let life = Life::new("ext4");
        let (here, there) = (&life.here, &life.there);
        here.bring_disk();
        if is_killed {
            here.stage_killed_at("mark.left");
            here.unstage();
        } else {
            let marking = Fault::on("POST", "/volumes/*/metadata").containing("mounted-on");
            life.cloud.fault(marking.proxy(502).after_effect().times(99));
            here.stage();
            life.cloud.world().faults.clear();
            // Its removal fails too, and no call comes any more: the timer takes it back.
            life.cloud.fault(Fault::on("DELETE", "/volumes/*/metadata/*").proxy(400).times(9));
            here.unstage();
            assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
            life.cloud.world().faults.clear();
            here.verb(&["heal"]);
        }
        assert_eq!(mark(&life), None, "killed {is_killed}");
        there.node.must(["detach".to_owned(), PV.to_owned(), "node-a".to_owned()]);
        assert!(life.attached_to().is_empty());
    }
}

/// The disk was taken from this machine by force, and another server has mounted the volume since: its
/// mark stays when this machine unmounts what is dead.
#[test]
fn the_mark_of_the_next_server_is_not_taken_back() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.mount_volume();
    let (is_done, said) = there.verb(&["detach", "--force", &life.volume, "node-a"]);
    assert!(is_done, "{said}");
    there.mount_volume();
    assert_eq!(mark(&life).as_deref(), Some(there.server.as_str()));
    here.unstage();
    here.verb(&["heal"]);
    assert_eq!(mark(&life).as_deref(), Some(there.server.as_str()));
    there.unstage();
    assert_eq!(mark(&life), None);
}

/// A process with the folder at a place of its own, as a container has it.
fn container(folder: &Path, place: &Path) -> Child {
    std::fs::create_dir(place).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg("mount --bind \"$1\" \"$2\" && touch \"$2.up\" && exec sleep 300").arg("sh");
    let child = command.arg(folder).arg(place).spawn().unwrap();
    while !place.with_extension("up").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Until kubelet mounts the folder again the mark alone may stand between a controller and the pod:
/// kubelet is let go of it when the mark is there, and not before.
#[test]
fn a_pod_is_let_go_of_with_its_mark_and_not_without() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.bring_disk();
    // Two calls of each that leave none, and the first that would let go.
    let marking = Fault::on("POST", "/volumes/*/metadata").containing("mounted-on");
    life.cloud.fault(marking.times(5).proxy(400));
    here.stage();
    here.publish(PODS[0]);
    assert_eq!(mark(&life), None);
    let folder = here.pod(PODS[0]);
    let mut container = container(&folder, &here.node.base().join("place"));
    std::fs::write(folder.join("up"), "").unwrap();
    let message = here.unpublish_fails(PODS[0]);
    let is_mounted = folder.join("up").exists();
    here.unpublish(PODS[0]);
    let has_mark = || mark(&life).as_deref() == Some(here.server.as_str());
    let was_left = has_mark();
    let refused = there.node.call(["detach", PV, "node-a"]).text;
    let guarded = here.unstage_fails();
    let stays = has_mark();
    container.kill().unwrap();
    container.wait().unwrap();
    assert!(message.contains("the cloud could not be told") && is_mounted, "{message}");
    assert!(was_left && stays && refused.contains("has the volume mounted"), "{refused}");
    assert!(guarded.contains(&format!("{} (sleep)", container.id())), "{guarded}");
    here.unstage();
    assert_eq!(mark(&life), None);
    here.detach();
    assert!(life.attached_to().is_empty());
}

/// Whose disk was taken by force has no mark any more, and the other reader keeps its own.
#[test]
fn a_mark_beside_anothers_goes_with_its_attachment() {
    if !crate::support::is_root_here("a_mark_beside_anothers_goes_with_its_attachment") {
        return;
    }
    let scene = Scene::of_immediate();
    scene.cloud.world().volume_mut("data").multiattach = true;
    let keys = || -> Vec<String> {
        let metadata = scene.cloud.world().volume_mut("data").metadata.clone();
        metadata.keys().filter(|key| key.starts_with(KEY)).cloned().collect()
    };
    let shared =
        crate::support::options(&scene.volume, PV, "").replace('}', ",\"share\":\"read-only\"}");
    for node in ["node-a", "node-b"] {
        scene.node.must(["attach", &shared, node]);
    }
    let (first, second) = (scene.server("node-a"), scene.server("node-b"));
    {
        let mut world = scene.cloud.world();
        let metadata = &mut world.volume_mut("data").metadata;
        metadata.insert(KEY.to_owned(), Value::from(first));
        metadata.insert(format!("{KEY}.{second}"), Value::from(second.clone()));
    }
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains(&second) && message.contains("mounted"), "{message}");
    scene.node.verb(&["detach", "--force", PV, "node-b"]).unwrap();
    assert_eq!(keys(), [KEY]);
    scene.node.fails(scene.detach("node-a"));
    scene.node.verb(&["detach", "--force", PV, "node-a"]).unwrap();
    assert!(keys().is_empty());
}

/// An xfs does not count its mounts. So a heal asks who had the volume since.
#[test]
fn what_another_server_had_meanwhile_is_not_put_under_running_programs() {
    needs!(mounts, seams);
    let life = Life::new("xfs");
    let (here, there) = (&life.here, &life.there);
    let letter = life.up(here, "xfs");
    there.node.verb(&["detach", "--force", PV, "node-a"]).unwrap();
    // The two machines of the test share one mount table: what is mounted here is not to be healed there.
    crate::scene::configure(&there.node, &life.cloud, "heal.mode = \"off\"");
    there.attach();
    there.detach();
    here.attach();
    assert_ne!(here.letter(), letter, "the disk is back under another name");
    let log = here.node.log();
    assert!(log.contains("was attached to another server since it was mounted here"), "{log}");
    assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()), "the lost mark is left anew");
    for uid in PODS {
        here.unpublish(uid);
    }
    here.unstage();
    here.detach();
    assert!(life.attached_to().is_empty());
}

/// The disk was taken from under running pods, by force or by other means, and a controller attaches the
/// volume again: the mark went with the detach, or with the attach, and this machine was not told.
#[test]
fn a_heal_leaves_the_mark_that_went_with_its_disk() {
    needs!(mounts, seams);
    for by_other_means in [false, true] {
        let life = Life::new("ext4");
        let (here, there) = (&life.here, &life.there);
        life.up(here, "ext4");
        there.node.verb(&["detach", "--force", PV, "node-a"]).unwrap();
        assert_eq!(mark(&life), None);
        if by_other_means {
            let left = Value::from(here.server.clone());
            life.cloud.world().volume_mut("data").metadata.insert(KEY.to_owned(), left);
        }
        let options = crate::support::options_with(&life.volume, PV, "ext4", "rw");
        there.node.must(["attach", &options, "node-a"]);
        assert_eq!(mark(&life), None, "of an earlier life");
        let (is_done, said) = here.verb(&["heal"]);
        assert!(is_done && said.contains("switched"), "{said}");
        assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
        let message = there.node.fails(["detach", PV, "node-a"]);
        assert!(message.contains("has the volume mounted"), "{message}");
        life.down(here);
        assert_eq!(mark(&life), None);
    }
}

/// Taken by force, and attached again, both elsewhere: its disk is back under another letter, without a mark.
fn goes_and_comes(life: &Life) {
    let there = &life.there;
    there.node.verb(&["detach", "--force", PV, "node-a"]).unwrap();
    let options = crate::support::options_with(&life.volume, PV, "ext4", "rw");
    there.node.must(["attach", &options, "node-a"]);
    assert_eq!(mark(life), None);
}

/// A heal is killed when it has moved all mounts: the next one has nothing to heal, and the mark comes all the same.
#[test]
fn a_killed_heal_leaves_no_mount_without_its_mark() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    life.up(here, "ext4");
    goes_and_comes(&life);
    here.heal_killed_at("heal.own");
    assert_eq!(mark(&life), None);
    let (_, said) = here.verb(&["heal"]);
    assert!(!said.contains("switched"), "the one that was killed had moved all: {said}");
    assert_eq!(mark(&life).as_deref(), Some(here.server.as_str()));
    life.down(here);
    assert_eq!(mark(&life), None);
}

/// A person has released it, and a program keeps its file: no call comes again when that ends.
#[test]
fn a_mark_stays_as_long_as_an_open_file_and_goes_by_the_timer() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.mount_volume();
    let file = here.global().join("f");
    std::fs::write(&file, "x").unwrap();
    // The file is the child's alone: the command with its copy ends in this line.
    let sleeping = |file| std::process::Command::new("sleep").arg("300").stdin(file).spawn();
    let mut holder = sleeping(std::fs::File::open(&file).unwrap()).unwrap();
    let (is_done, said) = here.verb(&["release", &life.volume]);
    let has_mark = || mark(&life).as_deref() == Some(here.server.as_str());
    let timer = || assert!(here.verb(&["heal"]).0);
    timer();
    let stays = has_mark();
    let refused = there.node.call(["detach", PV, "node-a"]).text;
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(is_done && said.contains("a detach is refused until it is free"), "{said}");
    assert!(said.contains(&format!("(kill {})", holder.id())), "{said}");
    assert!(stays && refused.contains("has the volume mounted"), "{refused}");
    timer();
    assert_eq!(mark(&life), None);
    there.node.must(["detach", PV, "node-a"]);
    assert!(life.attached_to().is_empty());
}

/// The disk's node cannot be opened, as in a container without a right to devices: then what this
/// machine sees is not all there is, and the mark is asked.
#[test]
fn a_disk_that_cannot_be_opened_lets_the_mark_decide() {
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    life.up(here, "ext4");
    for uid in PODS {
        here.unpublish(uid);
    }
    here.unstage();
    let server = Value::from(here.server.clone());
    life.cloud.world().volume_mut("data").metadata.insert(KEY.to_owned(), server);
    let (none, disk) = (None::<&str>, format!("/dev/{}", here.letter()));
    mount(Some(disk.as_str()), disk.as_str(), none, MsFlags::MS_BIND, none).unwrap();
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_NODEV;
    mount(none, disk.as_str(), none, flags, none).unwrap();
    let message = here.detach_fails();
    assert!(message.contains("has the volume mounted"), "{message}");
    assert_eq!(life.attached_to(), [here.server.as_str()]);
    umount2(disk.as_str(), MntFlags::MNT_DETACH).unwrap();
    // Seen, and free: the mark was an earlier life's.
    here.detach();
    assert_eq!((mark(&life), life.attached_to().len()), (None, 0));
}

/// This machine's disk is taken before its mark, and another server mounts the volume: that one's mark stays.
#[test]
fn a_mount_that_lost_its_disk_leaves_no_mark_in_the_place_of_anothers() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.bring_disk();
    let answer = here.stage_held_at("stage.remembered", || {
        there.node.must(["detach", PV, "node-a"]);
        there.mount_volume();
    });
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert_eq!(mark(&life).as_deref(), Some(there.server.as_str()));
}

/// The machine's disk takes no writes: the mark is left all the same, and taken back by what the boot knows.
#[test]
fn a_full_disk_keeps_no_mount_without_its_mark() {
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    here.mount_volume();
    here.unstage();
    let (none, records) = (None::<&str>, here.node.own().join("state/volumes"));
    mount(Some(&records), &records, none, MsFlags::MS_BIND, none).unwrap();
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, &records, none, flags, none).unwrap();
    here.stage();
    let was_left = mark(&life);
    let refused = there.node.call(["detach", PV, "node-a"]).text;
    here.unstage();
    umount2(&records, MntFlags::MNT_DETACH).unwrap();
    assert_eq!(was_left.as_deref(), Some(here.server.as_str()));
    assert!(refused.contains("has the volume mounted"), "{refused}");
    assert_eq!(mark(&life), None);
}
