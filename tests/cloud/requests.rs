//! Attaches that were asked for and whose caller has gone: what they come to is waited for, undone,
//! or known to be over.

use crate::scene::{PV, Scene};
use crate::server::{Cut, Delays, Fault, Server, World};
use crate::support::{Answer, options, spawn};
use serde_json::Value;
use std::time::{Duration, Instant};

const ASKED: &str = "incloud-disk-attach-asked";
const NAME: &str = "incloud-disk-name";

/// A cloud whose hosts take this long before they reserve a device: an attach is not seen before.
fn slow_hosts(queue: Duration) -> World {
    let reserve = u64::try_from(queue.as_millis()).unwrap();
    World::demo().delays(Delays { reserve, ..Delays::default() })
}

fn note(cloud: &Server, volume: &str, key: &str) -> Option<String> {
    let world = cloud.world();
    let found = world.storage.volume(volume).unwrap().metadata.get(key);
    found.and_then(Value::as_str).map(str::to_owned)
}

/// The attach is asked for, and its caller is killed while the cloud has it in a queue.
fn killed_attach(scene: &Scene, node: &str) {
    let (mut child, _output) = spawn(scene.node.command(scene.attach(node)));
    let begin = Instant::now();
    while !scene.cloud.counters().attaches.contains_key(&scene.volume) {
        assert!(begin.elapsed() < Duration::from_secs(30), "the attach is never asked for");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(scene.attached_to().is_empty(), "it came too early for this test");
}

/// The cloud has done all that it was asked for.
#[track_caller]
fn nothing_is_to_come(scene: &Scene) {
    let begin = Instant::now();
    while !scene.cloud.world().hosts.is_idle() {
        assert!(begin.elapsed() < Duration::from_secs(60), "its hosts do not come to an end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_detach_waits_for_an_attach_in_a_queue_and_undoes_it() {
    let scene = Scene::of(slow_hosts(Duration::from_secs(4)));
    killed_attach(&scene, "node-b");
    scene.node.must(scene.detach("node-b"));
    let counters = scene.cloud.counters();
    assert_eq!(counters.detaches.get(&scene.volume), Some(&1), "the attach came, and was undone");
    nothing_is_to_come(&scene);
    assert!(scene.attached_to().is_empty(), "nothing comes after the detach");
    for key in [ASKED, NAME] {
        assert_eq!(note(&scene.cloud, &scene.volume, key), None);
    }
}

/// The same where the detach has less time than the queue, and is called by another machine.
#[test]
fn a_detach_without_the_time_fails_and_keeps_the_name() {
    let scene = Scene::of(slow_hosts(Duration::from_secs(8)));
    killed_attach(&scene, "node-b");
    scene.configure("deadline.detach = 2");
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains("may still come true"), "{message}");
    assert_eq!(note(&scene.cloud, &scene.volume, NAME).as_deref(), Some(PV));
    assert!(note(&scene.cloud, &scene.volume, ASKED).is_some());
    // A "no" would let it be attached elsewhere.
    scene.node.fails(scene.is_attached("node-b"));
    let controller = scene.neighbour("controller");
    controller.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
    assert_eq!(note(&scene.cloud, &scene.volume, NAME), None);
    controller.must(scene.detach("node-b"));
}

/// The deadline of the attach itself passes, or it is asked to stop: the same as killed.
#[test]
fn an_attach_that_ran_out_of_time_is_waited_for_too() {
    for is_stopped in [false, true] {
        let scene = Scene::of(slow_hosts(Duration::from_secs(5)));
        if is_stopped {
            let (child, output) = spawn(scene.node.command(scene.attach("node-b")));
            while !scene.cloud.counters().attaches.contains_key(&scene.volume) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
            let answer = Answer::finish(child, output);
            assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        } else {
            scene.configure("deadline.attach = 2");
            scene.node.fails(scene.attach("node-b"));
            scene.configure("");
        }
        scene.node.must(scene.detach("node-b"));
        nothing_is_to_come(&scene);
        assert!(scene.attached_to().is_empty(), "stopped: {is_stopped}");
    }
}

#[test]
fn another_node_does_not_get_it_before_the_outcome_is_known() {
    let scene = Scene::of(slow_hosts(Duration::from_secs(4)));
    // Such a volume the cloud would give to both.
    scene.cloud.world().volume_mut("data").multiattach = true;
    killed_attach(&scene, "node-b");
    let message = scene.node.fails(scene.attach("node-a"));
    assert!(message.contains("Multi-Attach error"), "{message}");
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    scene.node.must(scene.detach("node-b"));
    scene.node.must(scene.attach("node-a"));
    assert_eq!(scene.attached_to(), [scene.server("node-a")]);
}

/// The request never arrived: twice the compute service's own patience later it is over.
#[test]
fn a_request_that_never_arrived_is_over_by_itself() {
    let scene = Scene::of(World::demo());
    scene.configure("deadline.detach = 2");
    let path = "/servers/*/os-volume_attachments";
    scene.cloud.fault(Fault::on("POST", path).hold(Cut::Before));
    let (mut child, _output) = spawn(scene.node.command(scene.attach("node-b")));
    assert!(scene.cloud.wait_held(1, Duration::from_secs(30)));
    child.kill().unwrap();
    child.wait().unwrap();
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains("may still come true"), "{message}");
    assert_eq!(note(&scene.cloud, &scene.volume, NAME).as_deref(), Some(PV));
    asked_earlier(&scene, 121);
    scene.node.must(scene.detach("node-b"));
    for key in [ASKED, NAME] {
        assert_eq!(note(&scene.cloud, &scene.volume, key), None);
    }
}

/// The server's host is busy with another volume: it may come to this one long after.
#[test]
fn a_request_is_open_while_the_servers_host_is_busy() {
    let world = World::demo().volume("other", 1);
    let scene = Scene::of(world.delays(Delays { attaching: 10_000, ..Delays::default() }));
    scene.configure("deadline.detach = 2\ndeadline.attach = 60");
    let other = scene.cloud.world().volume_id("other");
    let attach = ["attach".to_owned(), options(&other, "pv-other", ""), "node-b".to_owned()];
    let running = spawn(scene.node.command(attach));
    while scene.cloud.world().server_mut("node-b").actions.is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    killed_attach(&scene, "node-b");
    asked_earlier(&scene, 500);
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains("may still come true"), "{message}");
    let answer = Answer::finish(running.0, running.1);
    assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    scene.configure("deadline.detach = 90");
    scene.node.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
}

/// The cloud works on the volume: the attach in the queue may come all the same.
#[test]
fn a_volume_that_is_not_free_hides_no_open_request() {
    let scene = Scene::of(slow_hosts(Duration::from_secs(60)));
    killed_attach(&scene, "node-b");
    scene.cloud.world().volume_mut("data").set_status("backing-up");
    scene.configure("deadline.detach = 2");
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains("may still come true"), "{message}");
    assert_eq!(note(&scene.cloud, &scene.volume, NAME).as_deref(), Some(PV));
}

/// The note says so many seconds more.
fn asked_earlier(scene: &Scene, seconds: u64) {
    let noted = note(&scene.cloud, &scene.volume, ASKED).unwrap();
    let (at, server) = noted.split_once(' ').unwrap();
    let at: u64 = at.parse().unwrap();
    let text = format!("{} {server}", at - seconds);
    let mut world = scene.cloud.world();
    world.volume_mut("data").metadata.insert(ASKED.to_owned(), Value::from(text));
}

/// The answer to the end of the note was lost, and meanwhile another server has the volume too: a
/// detach that saw the attachment ends the note, or others would wait for two minutes for nothing.
#[test]
fn a_note_whose_outcome_a_detach_saw_ends_though_another_server_has_the_volume() {
    let scene = Scene::of_immediate();
    scene.cloud.world().volume_mut("data").multiattach = true;
    scene.cloud.fault(Fault::on("DELETE", "/volumes/*/metadata/*").cut(Cut::Before).times(9));
    scene.node.must(scene.attach("node-a"));
    scene.cloud.world().faults.clear();
    assert!(note(&scene.cloud, &scene.volume, ASKED).is_some(), "the end of the note was lost");
    let other = scene.server("node-b");
    scene.cloud.world().attached("data", &other);
    scene.node.must(scene.detach("node-a"));
    assert_eq!(scene.attached_to(), [other]);
    assert_eq!(note(&scene.cloud, &scene.volume, ASKED), None);
    assert_eq!(note(&scene.cloud, &scene.volume, NAME).as_deref(), Some(PV));
    scene.node.must(scene.detach("node-b"));
    assert_eq!(note(&scene.cloud, &scene.volume, NAME), None);
}

/// A cloud that allows no notes: what a detach finds without them is attached, and nothing else is.
#[test]
fn without_notes_a_volume_is_attached_only_where_its_detach_finds_it() {
    let scene = Scene::of(World::demo().delays(Delays::none()));
    let forbidden = || Fault::on("POST", "/volumes/*/metadata").always().proxy(403);
    scene.cloud.fault(forbidden());
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("403"), "{message}");
    assert!(message.contains("give the PersistentVolume one of these names"), "{message}");
    assert!(scene.attached_to().is_empty(), "{:?}", scene.attached_to());
    // Its name in the cloud is another one: the same.
    "another".clone_into(&mut scene.cloud.world().volume_mut(&scene.volume).name);
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("give the PersistentVolume one of these names"), "{message}");
    PV.clone_into(&mut scene.cloud.world().volume_mut(&scene.volume).name);
    scene.node.must(scene.attach("node-b"));
    scene.node.must(scene.attach("node-b"));
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], true);
    assert_eq!(note(&scene.cloud, &scene.volume, NAME), None);
    scene.neighbour("node-c").must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
}

/// The cloud allowed notes when the volume was attached, and allows none now: its detach ends all the same.
#[test]
fn a_detach_ends_where_the_cloud_allows_notes_no_more() {
    let scene = Scene::of(World::demo().delays(Delays::none()));
    scene.node.must(scene.attach("node-b"));
    assert_eq!(note(&scene.cloud, &scene.volume, NAME).as_deref(), Some(PV));
    scene.cloud.fault(Fault::on("POST", "/volumes/*/metadata").always().proxy(403));
    scene.cloud.fault(Fault::on("DELETE", "/volumes/*/metadata/*").always().proxy(403));
    for _ in 0..2 {
        scene.node.must(scene.detach("node-b"));
        assert!(scene.attached_to().is_empty());
    }
    // Its name is noted still: so another server gets it, and gives it back.
    scene.node.must(scene.attach("node-a"));
    scene.node.must(scene.detach("node-a"));
    assert!(scene.attached_to().is_empty());
}

/// Nova maps the volume, and Cinder lists its attachment so much later.
fn slow_records(time: Duration) -> Scene {
    let record = u64::try_from(time.as_millis()).unwrap();
    Scene::of(World::demo().delays(Delays { record, ..Delays::default() }))
}

/// What looks like a ghost is an attach under way, for as long as its note is open.
#[test]
fn a_slow_record_of_an_attach_is_waited_for_and_not_called_a_ghost() {
    let scene = slow_records(Duration::from_secs(9));
    killed_attach(&scene, "node-b");
    // Half of a call's time is what a ghost is given.
    scene.configure("deadline.detach = 3");
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains("may still come true") && !message.contains("remove"), "{message}");
    let message = scene.node.fails(scene.is_attached("node-b"));
    assert!(message.contains("may still come true") && !message.contains("remove"), "{message}");
    assert!(note(&scene.cloud, &scene.volume, ASKED).is_some());
    scene.configure("deadline.detach = 12");
    scene.node.must(scene.detach("node-b"));
    nothing_is_to_come(&scene);
    assert!(scene.attached_to().is_empty());
}

/// The attach that is called again waits for the first one; where its time is over first the note stays.
#[test]
fn an_attach_called_again_waits_for_the_slow_record() {
    let scene = slow_records(Duration::from_secs(8));
    killed_attach(&scene, "node-b");
    scene.configure("deadline.attach = 3");
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("may still come true"), "{message}");
    assert!(note(&scene.cloud, &scene.volume, ASKED).is_some());
    scene.configure("deadline.attach = 12");
    scene.node.must(scene.attach("node-b"));
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    assert_eq!(note(&scene.cloud, &scene.volume, ASKED), None);
}

const TENURE: &str = "incloud-disk-tenure";

/// The volume stays as it was: a name that nothing goes by would be found by later detaches.
#[test]
fn an_attach_that_was_refused_leaves_no_name_and_no_count() {
    for was_attached_before in [false, true] {
        let scene = Scene::of_immediate();
        if was_attached_before {
            scene.node.must(scene.attach("node-a"));
            scene.node.must(scene.detach("node-a"));
        }
        let before = note(&scene.cloud, &scene.volume, TENURE);
        scene.cloud.world().server_mut("node-b").locked = true;
        scene.node.fails(scene.attach("node-b"));
        for key in [ASKED, NAME] {
            assert_eq!(note(&scene.cloud, &scene.volume, key), None, "{key}");
        }
        assert_eq!(note(&scene.cloud, &scene.volume, TENURE), before);
    }
}

/// The one that loses may write its count over the winner's while the attach is under way.
#[test]
fn the_winner_of_a_race_has_its_own_count() {
    for other in ["1 another", "7 another"] {
        let scene = Scene::of_immediate();
        let server = scene.server("node-a");
        let path = format!("/servers/{server}/os-volume_attachments");
        scene.cloud.fault(Fault::on("POST", &path).delay(Duration::from_secs(1)));
        let winner = spawn(scene.node.command(scene.attach("node-a")));
        while note(&scene.cloud, &scene.volume, ASKED).is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let key = TENURE.to_owned();
        {
            let mut world = scene.cloud.world();
            let volume = world.volume_mut("data");
            volume.metadata.insert(key.clone(), other.into());
            volume.doubled.insert(key);
        }
        let answer = Answer::finish(winner.0, winner.1);
        assert_eq!(answer.json["status"], "Success", "{}", answer.text);
        let count = note(&scene.cloud, &scene.volume, TENURE).unwrap();
        let before: u32 = other.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(count, format!("{} {server}", before + 1));
    }
}

/// Whoever of two asks last, the count that stays is the winner's.
#[test]
fn the_loser_of_a_race_leaves_the_winners_count() {
    for (winner, loser) in [("node-a", "node-b"), ("node-b", "node-a")] {
        let scene = Scene::of_immediate();
        // The loser has seen the volume free, and its request comes after the winner's whole attach.
        let server = scene.server(loser);
        let path = format!("/servers/{server}/os-volume_attachments");
        scene.cloud.fault(Fault::on("POST", &path).delay(Duration::from_secs(3)));
        scene.configure("deadline.attach = 12");
        let late = spawn(scene.node.command(scene.attach(loser)));
        while note(&scene.cloud, &scene.volume, ASKED).is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // As if the winner had noted its own at the same moment.
        {
            let mut world = scene.cloud.world();
            world.attached("data", winner);
            let volume = world.volume_mut("data");
            volume.metadata.remove(ASKED);
            volume.doubled.insert(TENURE.to_owned());
        }
        let answer = Answer::finish(late.0, late.1);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        let count = note(&scene.cloud, &scene.volume, TENURE);
        assert_eq!(count, Some(format!("1 {}", scene.server(winner))));
        assert_eq!(note(&scene.cloud, &scene.volume, NAME).as_deref(), Some(PV));
    }
}
