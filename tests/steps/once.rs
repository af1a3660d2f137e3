//! What shows without any trouble at a system call, in the time that a call takes: a disk or a host
//! that does not answer, a slow cloud, a region that is gone, a login that fails once.
//!
//! Each is played once, and only if `--only` names it: it lasts longer than a trial. What is slow
//! here is slow for a minute, and a call has a third of that, so that a busy machine does not matter.

use super::play::words_of;
use super::server::{Cut, Failure, Fault, Server, World};
use super::support::{Answer, FailingDisk, options, private_mounts_and_fuse, spawn, with_files};
use super::volume::{Kind, State, Templates, Volume, eventually, uuid};
use std::io::PipeReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Child;
use std::time::{Duration, Instant};

/// What became of a scene that shows no fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    AsItMustBe,
    /// This machine cannot play it.
    NotPlayed(&'static str),
}

/// How many scenes were played, and how many this machine cannot play.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub played: usize,
    pub not_played: usize,
}

/// A scene of which the calls themselves show the fault.
struct Once {
    name: &'static str,
    play: fn(&Templates) -> Outcome,
}

const ALL: &[Once] = &[
    Once { name: "hangs/mountdevice/ext4/local", play: a_read_hangs },
    Once { name: "hangs/unmountdevice/ext4/local", play: a_flush_hangs },
    Once { name: "slowhost/attach/ext4/openstack", play: one_host_is_slow },
    Once { name: "otherregion/detach/ext4/openstack", play: another_region_is_gone },
    Once { name: "slowcloud/isattached/ext4/openstack", play: the_cloud_is_slow },
    Once { name: "login/isattached/ext4/openstack", play: a_login_fails_once },
    Once { name: "token/isattached/ext4/openstack", play: a_token_lives_shortly },
    Once { name: "extension/expandfs/xfs/openstack", play: an_extension_breaks_off },
];

/// Plays those that are meant, and tells what failed.
pub fn play_all(
    templates: &Templates,
    is_meant: impl Fn(&str) -> bool,
    mut failed: impl FnMut(String),
) -> Count {
    let mut count = Count::default();
    for once in ALL.iter().filter(|once| is_meant(once.name)) {
        let begin = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| (once.play)(templates))) {
            Ok(Outcome::AsItMustBe) => {
                println!("{}: as it must be, in {:.1?}", once.name, begin.elapsed());
            }
            Ok(Outcome::NotPlayed(why)) => {
                println!("{}: NOT PLAYED: {why}", once.name);
                count.not_played += 1;
                continue;
            }
            Err(why) => failed(format!("{}: {}", once.name, words_of(why.as_ref()))),
        }
        count.played += 1;
    }
    count
}

/// The deadline of a call where something hangs, in seconds.
const SHORT: u64 = 5;

/// A call that has not ended by then waits for what hangs, which does so for a minute.
const ANSWERED: Duration = Duration::from_secs(SHORT + 20);

/// Calls that wait for what does not answer; at the end they are killed.
struct Waiting(Vec<(Child, PipeReader)>);

impl Waiting {
    fn count(&mut self) -> usize {
        self.0
            .iter_mut()
            .filter_map(|(child, _)| child.try_wait().ok())
            .filter(Option::is_none)
            .count()
    }

    /// Whether none is left after so long.
    fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.count() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.count() == 0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
fn must(volume: &Volume, call: &str) {
    let answer = volume.ask(call);
    assert_eq!(answer.json["status"], "Success", "{call}: {}", answer.text);
}

/// Where no disk can be made that hangs.
const CANNOT_HANG: Outcome = Outcome::NotPlayed("it needs mounts of its own and FUSE");

/// A volume on a disk that can hang, attached.
fn on_a_disk_that_can_hang(templates: &Templates) -> Option<(Volume, FailingDisk)> {
    if !private_mounts_and_fuse("steps: hangs") {
        return None;
    }
    let volume = templates.volume(Kind::Local, "ext4", true);
    let disk = FailingDisk::over(&volume.image());
    volume.bring_to(State::Attached);
    Some((volume, disk))
}

/// The disk hangs. The call is answered in time, and so is the next one, which does not hang beside
/// it; no lock is left. Then the disk answers again, and nothing is lost.
#[track_caller]
fn hangs_in(volume: &Volume, disk: &FailingDisk, call: &str) {
    volume.configure(&[format!("deadline.{call} = {SHORT}")]);
    disk.hang();
    let lock = volume.node.own().join("run/locks").join(format!("{}.lock", volume.id));
    let mut is_left = false;
    for _ in 0..2 {
        let mut call = Waiting(vec![spawn(volume.command(&volume.call(call)))]);
        assert!(call.ends_within(ANSWERED), "no answer {ANSWERED:?} after a disk hangs");
        let (child, output) = call.0.remove(0);
        let answer = Answer::finish(child, output);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        assert!(!lock.exists(), "the lock is left");
        let is_known = answer.text.contains("an earlier call's process");
        assert!(is_known || !is_left, "what hangs is begun again: {}", answer.text);
        // On a slow machine it may be where the kernel lets a killed process end.
        is_left = answer.text.contains(" hangs ");
        let is_told = is_left || answer.text.contains("not done within");
        assert!(is_told, "what hangs is not told: {}", answer.text);
    }
    disk.release();
    volume.configure(&[]);
    eventually(|| volume.repeat(call).is_ok(), || format!("{call} does not come through"));
}

fn a_read_hangs(templates: &Templates) -> Outcome {
    let Some((volume, disk)) = on_a_disk_that_can_hang(templates) else { return CANNOT_HANG };
    hangs_in(&volume, &disk, "mountdevice");
    volume.take_away();
    drop(disk);
    volume.lives_on(true);
    Outcome::AsItMustBe
}

/// What an application wrote is not on the disk yet.
fn a_flush_hangs(templates: &Templates) -> Outcome {
    let Some((volume, disk)) = on_a_disk_that_can_hang(templates) else { return CANNOT_HANG };
    volume.bring_to(State::Staged);
    let (file, late) = (volume.global().join("late"), vec![7; 1 << 20]);
    with_files(|| std::fs::write(&file, &late)).expect("written");
    hangs_in(&volume, &disk, "unmountdevice");
    volume.bring_to(State::Published);
    let found = with_files(|| std::fs::read(&file));
    assert!(found.is_ok_and(|found| found == late), "what was written late is lost");
    volume.take_away();
    drop(disk);
    volume.lives_on(true);
    Outcome::AsItMustBe
}

/// Ten attaches wait for a host that says nothing: calls about another server are answered meanwhile.
fn one_host_is_slow(templates: &Templates) -> Outcome {
    const COUNT: usize = 10;
    let volume = templates.volume(Kind::Openstack, "ext4", true);
    let cloud = volume.cloud().expect("a cloud");
    let ids: Vec<String> = (0..COUNT).map(|_| uuid()).collect();
    let slow = {
        let mut world = cloud.world();
        for id in &ids {
            world.add_volume(id, id, 1, "demo");
        }
        world.server_id("node-b")
    };
    let path = format!("/servers/{slow}/os-volume_attachments");
    cloud.fault(Fault::on("POST", &path).always().hold(Cut::Before));
    volume.configure(&["deadline.attach = 90".to_owned()]);
    let attach = |id: &String| {
        let words = ["attach", &options(id, &format!("pv-{id}"), "ext4"), "node-b"];
        spawn(volume.command(&words.map(str::to_owned)))
    };
    let mut waiting = Waiting(ids.iter().map(attach).collect());
    // All that come that far hang there.
    let (mut held, mut since) = (0, Instant::now());
    while held == 0 || since.elapsed() < Duration::from_secs(3) {
        assert!(since.elapsed() < Duration::from_secs(30), "no attach comes to its host");
        std::thread::sleep(Duration::from_millis(20));
        if cloud.held() != held {
            (held, since) = (cloud.held(), Instant::now());
        }
    }
    let short = ["attach", "detach", "isattached"].map(|call| format!("deadline.{call} = 20"));
    volume.configure(&short);
    for call in ["isattached", "attach", "isattached", "detach"] {
        must(&volume, call);
    }
    let answer = volume.ask_of("isattached", "node-b");
    assert_eq!(answer.json["attached"], false, "{}", answer.text);
    assert_eq!(waiting.count(), COUNT, "it was answered when the others had been");
    drop(waiting);
    cloud.world().faults.clear();
    volume.configure(&[]);
    volume.lives_on(true);
    Outcome::AsItMustBe
}

/// The services of a second region show a certificate that has no trust here. Where the first one is
/// configured the second one is not asked, also for a server that does not exist.
fn another_region_is_gone(templates: &Templates) -> Outcome {
    let volume = templates.volume(Kind::Openstack, "ext4", true);
    let untrusted = Server::start_tls(World::demo());
    let cloud = volume.cloud().expect("a cloud");
    let own = {
        let mut world = cloud.world();
        world.settings.regions.push("South".to_owned());
        world.settings.addresses.insert("South".to_owned(), untrusted.url());
        world.home_region()
    };
    volume.configure(&[format!("openstack.region = {own:?}")]);
    must(&volume, "attach");
    let answer = volume.ask_of("detach", "node-gone");
    let is_told = answer.text.contains("node.servers") && !answer.text.contains("South");
    assert!(is_told, "it may be this server's node: {}", answer.text);
    let answer = volume.ask_of("attach", "node-gone");
    let is_told = answer.text.contains("no server for node node-gone");
    assert!(is_told && !answer.text.contains("South"), "{}", answer.text);
    must(&volume, "detach");
    volume.must_be_detached();
    volume.lives_on(true);
    Outcome::AsItMustBe
}

/// Each answer takes its time, and forty calls ask the same: one answer serves those that wait for it.
fn the_cloud_is_slow(templates: &Templates) -> Outcome {
    const COUNT: usize = 40;
    const EACH: Duration = Duration::from_secs(3);
    let volume = templates.volume(Kind::Openstack, "ext4", true);
    let cloud = volume.cloud().expect("a cloud");
    volume.bring_to(State::Attached);
    let limits = "openstack.limits = { per_second = 20, burst = 40, at_once = 2 }";
    volume.configure(&[limits.to_owned(), "deadline.isattached = 40".to_owned()]);
    must(&volume, "isattached");
    // Until that answer is too old for those who ask now.
    std::thread::sleep(Duration::from_secs(2));
    cloud.fault(Fault::on("GET", "/**").always().delay(EACH));
    cloud.reset_counters();
    let ask = |_| spawn(volume.command(&volume.call("isattached")));
    let mut asking = Waiting((0..COUNT).map(ask).collect());
    for (child, output) in asking.0.drain(..) {
        let answer = Answer::finish(child, output);
        assert_eq!(answer.json["attached"], true, "{}", answer.text);
    }
    let asked = cloud.counters().total;
    assert!(asked < COUNT as u64 / 2, "{asked} requests for the same answer");
    cloud.world().faults.clear();
    volume.configure(&[]);
    volume.lives_on(true);
    Outcome::AsItMustBe
}

/// The first call of a machine meets a Keystone that fails, and is well again a moment later.
fn a_login_fails_once(templates: &Templates) -> Outcome {
    let volume = templates.volume(Kind::Openstack, "ext4", true);
    let cloud = volume.cloud().expect("a cloud");
    cloud.fault(Fault::on("POST", "/auth/tokens").proxy(500).times(2));
    must(&volume, "isattached");
    assert_eq!(cloud.counters().logins, 3, "it had a token before");
    volume.lives_on(true);
    Outcome::AsItMustBe
}

/// A token that lives for a minute serves all calls of it.
fn a_token_lives_shortly(templates: &Templates) -> Outcome {
    let volume = templates.volume(Kind::Openstack, "ext4", true);
    let cloud = volume.cloud().expect("a cloud");
    cloud.world().settings.token_lifetime = Duration::from_secs(60);
    for call in ["isattached", "attach", "detach"] {
        must(&volume, call);
    }
    assert_eq!(cloud.counters().logins, 1, "a login for each call");
    volume.lives_on(true);
    Outcome::AsItMustBe
}

/// The cloud breaks an extension off. The repeated call says so too, in words that name what ends it, and
/// does not ask again for what is refused.
fn an_extension_breaks_off(templates: &Templates) -> Outcome {
    let volume = templates.volume(Kind::Openstack, "xfs", true);
    let cloud = volume.cloud().expect("a cloud");
    volume.bring_to(State::Published);
    cloud.plan(Failure::Extend, &volume.id);
    volume.configure(&["deadline.expandfs = 20".to_owned()]);
    for _ in 0..2 {
        let answer = volume.ask("expandfs");
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        let words = ["could not extend", "error_extending", "must mend it"];
        assert!(words.iter().all(|one| answer.text.contains(one)), "{}", answer.text);
    }
    cloud.world().volume_mut(&volume.id).set_status("in-use");
    must(&volume, "expandfs");
    volume.configure(&[]);
    volume.lives_on(true);
    Outcome::AsItMustBe
}
