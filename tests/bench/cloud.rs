//! What an attach and a detach cost, and what many calls ask of the cloud: against the project's own OpenStack-compatible server, with the times of real services.

use crate::Run;
use crate::figures::Row;
use crate::node::{Driver, words};
use crate::program::Program;
use crate::scene::Scene;
use crate::server::{Delays, Fault, World};
use crate::support::{Answer, options, spawn};
use crate::turns::clocked;
use serde_json::Value;
use std::time::{Duration, Instant};

const GROUP: &str = "cloud";
const ROUNDS: usize = 7;
const NODE: &str = "node-b";
const STORM: usize = 40;
const ASKED: usize = 200;
/// As many does a controller-manager ask for at once.
const AT_ONCE: usize = 20;

/// A request to any of the services, as measured on a small cloud of the Zed release.
const REQUEST: Duration = Duration::from_millis(30);

/// So long does its host take for each step.
fn services() -> World {
    World::demo().delays(Delays {
        reserve: 300,
        reserved: 200,
        attaching: 750,
        detaching: 700,
        row: 30,
        ..Delays::default()
    })
}

fn scene_of(world: World) -> Scene {
    let scene = Scene::of(world);
    scene.cloud.fault(Fault::on("*", "/**").always().delay(REQUEST));
    scene
}

pub fn measure(run: &mut Run) {
    let scene = scene_of(services());
    attach_and_detach(run, &scene);
    counted(run, &scene);
    asked(run);
    if run.is_long {
        storm(run);
    }
}

fn call(driver: &Driver, scene: &Scene, words: &[String]) -> Program {
    Program::new(&driver.file, words)
        .setting("INCLOUD_DISK_CONFIG", scene.node.config_path())
        .answering("Success")
}

fn attach_and_detach(run: &mut Run, scene: &Scene) {
    let mut pairs: Vec<(String, Program, Program)> = Vec::new();
    for driver in &run.drivers {
        let program = |words: [String; 3]| call(driver, scene, &words);
        pairs.push((
            driver.mark.to_owned(),
            program(scene.attach(NODE)),
            program(scene.detach(NODE)),
        ));
    }
    let named = |what: &str, mark: &str| Row::new(GROUP, format!("{what}{mark}"));
    let mut rows: Vec<Row> = pairs
        .iter()
        .flat_map(|(mark, ..)| [named("attach", mark), named("detach", mark)])
        .collect();
    // One round more than is counted: the first call logs in.
    for round in 0..=run.rounds(ROUNDS) {
        for place in 0..pairs.len() {
            let pair = (round + place) % pairs.len();
            for (row, program) in [(2 * pair, &pairs[pair].1), (2 * pair + 1, &pairs[pair].2)] {
                let took = clocked(|| program.run());
                if round > 0 {
                    rows[row].times.push(took.time);
                    rows[row].work.push(took.work);
                }
            }
        }
    }
    for (place, (_, attach, detach)) in pairs.iter().enumerate() {
        for (row, program) in [(2 * place, attach), (2 * place + 1, detach)] {
            scene.cloud.reset_counters();
            program.must();
            let counters = scene.cloud.counters();
            rows[row].requests = Some(counters.total);
            rows[row].logins = Some(counters.logins);
        }
    }
    run.add(rows);
}

/// What does not wobble of the calls to the cloud.
fn counted(run: &mut Run, scene: &Scene) {
    let driver = &run.drivers[0];
    let program = |words: [String; 3]| call(driver, scene, &words);
    let mut rows = Vec::new();
    program(scene.attach(NODE)).must();
    for (name, words) in [
        ("attach, already so", scene.attach(NODE)),
        ("isattached, of the cloud", scene.is_attached(NODE)),
    ] {
        // Not from the answers that calls share for a moment.
        std::thread::sleep(Duration::from_secs(2));
        scene.cloud.reset_counters();
        let took = clocked(|| program(words.clone()).must());
        let counters = scene.cloud.counters();
        rows.push(Row {
            times: vec![took.time],
            work: vec![took.work],
            requests: Some(counters.total),
            logins: Some(counters.logins),
            counts: Some(run.counters.of(&program(words), &|| ())),
            ..Row::new(GROUP, name)
        });
    }
    program(scene.detach(NODE)).must();
    run.add(rows);
}

/// A controller-manager asks for all its volumes, some at once.
fn asked(run: &mut Run) {
    let names: Vec<String> = (0..ASKED).map(|n| format!("data-{n}")).collect();
    let scene = scene_of(names.iter().fold(services(), |world, name| world.volume(name, 1)));
    let ids: Vec<_> = names.iter().map(|name| scene.cloud.world().volume_id(name)).collect();
    for id in &ids {
        scene.cloud.world().attached(id, NODE);
    }
    let driver = run.drivers[0].clone();
    let question = |id: &str, n: usize| {
        let words = words(["isattached", &options(id, &format!("pv-{n}"), ""), NODE]);
        call(&driver, &scene, &words)
    };
    let all: Vec<_> = ids.iter().enumerate().map(|(n, id)| question(id, n)).collect();
    let same: Vec<_> = (0..ASKED).map(|_| question(&ids[0], 0)).collect();
    let mut rows = Vec::new();
    for (name, programs) in
        [("200 isattached at once", all), ("200 isattached of one volume at once", same)]
    {
        scene.cloud.reset_counters();
        let took = clocked(|| at_once(&programs));
        let counters = scene.cloud.counters();
        rows.push(Row {
            times: vec![took.time],
            work: vec![took.work],
            requests: Some(counters.total),
            logins: Some(counters.logins),
            ..Row::new(GROUP, name)
        });
    }
    run.add(rows);
}

/// Some threads that each take the next one.
fn at_once(programs: &[Program]) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(program) =
                    programs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    program.must();
                }
            });
        }
    });
}

/// So many attaches and detaches of one node at the same moment.
fn storm(run: &mut Run) {
    let names: Vec<String> = (0..2 * STORM).map(|n| format!("data-{n}")).collect();
    let scene = scene_of(names.iter().fold(services(), |world, name| world.volume(name, 1)));
    let ids: Vec<_> = names.iter().map(|name| scene.cloud.world().volume_id(name)).collect();
    for (n, id) in ids.iter().enumerate().skip(STORM) {
        let mut world = scene.cloud.world();
        world.attached(id, "node-a");
        let name = Value::from(format!("pv-{n}"));
        world.volume_mut(id).metadata.insert("incloud-disk-name".to_owned(), name);
    }
    scene.cloud.reset_counters();
    let begin = Instant::now();
    let started: Vec<_> = (0..STORM)
        .flat_map(|n| {
            let options = options(&ids[n], &format!("pv-{n}"), "");
            let attach = words(["attach", &options, "node-a"]);
            let detach = words(["detach", &format!("pv-{}", n + STORM), "node-a"]);
            [attach, detach]
        })
        .map(|words| spawn(call(&run.drivers[0], &scene, &words).command()))
        .collect();
    let answers = started.into_iter().map(|(child, output)| Answer::finish(child, output));
    let failed = answers.filter(|answer| answer.json["status"] != "Success").count();
    assert_eq!(failed, 0, "calls of the storm failed");
    let (counters, time) = (scene.cloud.counters(), begin.elapsed());
    run.add([Row {
        times: vec![time.as_secs_f64() * 1e3],
        requests: Some(counters.total),
        logins: Some(counters.logins),
        ..Row::new(GROUP, format!("{STORM} attaches and {STORM} detaches at once"))
    }]);
}
