//! Worlds as JSON, the server as a program, and its control door.

use super::cloud::Cloud;
use crate::client::ask;
use crate::runner::Test;
use crate::server::World;
use crate::server::script::Script;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

pub(super) const TESTS: &[Test] = &[
    ("scripts::a_script_makes_a_world", a_script_makes_a_world),
    ("scripts::mistakes_are_refused", mistakes_are_refused),
    ("scripts::the_control_door", the_control_door),
    ("scripts::the_server_as_a_program", the_server_as_a_program),
    ("scripts::the_tests_as_cargo_calls_them", the_tests_as_cargo_calls_them),
];

const SCRIPT: &str = r#"{
    "regions": ["North", "South"],
    "projects": ["team"],
    "users": [{"name": "robot", "password": "secret", "roles": {"team": ["member"]}}],
    "application_credentials": [
        {"name": "key", "id": "abc", "secret": "s", "user": "robot", "project": "team"}
    ],
    "servers": [
        {"name": "n1", "project": "team"},
        {"name": "n2", "project": "team", "region": "South", "vm_state": "stopped"},
        {"name": "n3", "project": "team", "lists": ["ghost"]}
    ],
    "volumes": [
        {"name": "v1", "project": "team", "size": 3, "attached_to": ["n1"]},
        {"name": "ghost", "project": "team"},
        {"name": "orphan", "project": "team", "status": "reserved",
         "attachments": [{"server": "n2", "status": "reserved"}]}
    ],
    "delays": {"attaching": 7},
    "failures": [{"volume": "v1", "how": "detach_stuck"}],
    "faults": [{"method": "GET", "path": "/servers", "times": 1, "reply": {"status": 503}}],
    "max_disks": 4
}"#;

fn a_script_makes_a_world() {
    let mut world = World::demo();
    Script::parse(SCRIPT.as_bytes()).and_then(|script| script.apply(&mut world)).expect("applied");
    assert_eq!(world.home_region(), "North");
    assert_eq!(world.settings.delays.attaching, 7);
    assert_eq!(world.settings.delays.row, 5, "what is not said stays");
    assert_eq!(
        (world.volume_mut("v1").size, world.volume_mut("v1").status.as_str()),
        (3, "in-use")
    );
    assert_eq!(world.server_mut("n1").rows.len(), 1);
    assert_eq!(world.server_mut("n2").status(), "SHUTOFF");
    assert_eq!(world.server_mut("n3").rows[0].attachment, None);
    assert_eq!(world.volume_mut("ghost").status, "available");
    assert_eq!(world.volume_mut("orphan").servers(), Vec::<&str>::new());
    assert_eq!(world.identity.credentials[0].id, "abc");
    assert_eq!(world.hosts.plans[0].volume, Some(world.volume_id("v1")));
    // The same names again change what is there.
    let more = br#"{"servers": [{"name": "n1", "locked": true}], "remove": ["n2", "orphan"]}"#;
    Script::parse(more).and_then(|script| script.apply(&mut world)).expect("applied");
    assert_eq!((world.compute.servers.len(), world.storage.volumes.len()), (2, 2));
    assert!(world.server_mut("n1").locked);
    for (servers, status) in [(r#"["n3"]"#, "in-use"), ("[]", "available")] {
        let moved = format!(r#"{{"volumes": [{{"name": "v1", "attached_to": {servers}}}]}}"#);
        let script = Script::parse(moved.as_bytes());
        script.and_then(|script| script.apply(&mut world)).expect("applied");
        assert_eq!(world.volume_mut("v1").status, status);
    }
    let v1 = world.volume_id("v1");
    assert!(world.compute.servers_with(&v1).is_empty());
    world.attached("v1", "n1");
    assert_eq!(world.server_mut("n1").rows.len(), 1);
}

fn mistakes_are_refused() {
    let bad = [
        "",
        "3",
        r#"{"sever": []}"#,
        r#"{"volumes": [{"name": "v", "project": "of no one"}]}"#,
        r#"{"volumes": [{"name": "v", "attached_to": ["nowhere"]}]}"#,
        r#"{"servers": [{"name": "n", "lists": ["nothing"]}]}"#,
        r#"{"failures": [{"volume": "v", "how": "detach_stuck"}]}"#,
    ];
    for text in bad {
        let script = Script::parse(text.as_bytes());
        let result = script.and_then(|script| script.apply(&mut World::demo()));
        assert!(result.is_err(), "{text}");
    }
}

fn the_control_door() {
    let cloud = Cloud::new();
    let url = cloud.server.url();
    let door = |method: &str, path: &str, body: &Value| {
        let answer = ask(&url, method, &format!("/control/{path}"), &[], &body.to_string());
        let answer = answer.expect("an answer");
        (answer.status, answer.json())
    };
    cloud.attach(&cloud.a);
    assert!(cloud.server.wait_idle());
    let (status, state) = door("GET", "state", &Value::Null);
    assert_eq!((status, &state["volumes"][0]["status"]), (200, &json!("in-use")));
    assert_eq!(state["servers"][0]["volumes"][0]["volume"], cloud.data);
    let (_, counters) = door("GET", "counters", &Value::Null);
    assert_eq!((&counters["total"], &counters["attaches"][&cloud.data]), (&json!(1), &json!(1)));
    let (_, log) = door("GET", "log", &Value::Null);
    assert_eq!(log[0]["route"], "POST compute/servers/{server}/os-volume_attachments");
    let change = json!({"volumes": [{"name": "data", "status": "error"}]});
    let (status, state) = door("POST", "change", &change);
    assert_eq!((status, &state["volumes"][0]["status"]), (200, &json!("error")));
    assert_eq!(door("POST", "change", &json!({"nonsense": 1})).0, 400);
    assert_eq!(door("POST", "reset", &Value::Null).0, 200);
    assert_eq!(door("GET", "counters", &Value::Null).1["total"], 0);
    assert_eq!(door("POST", "advance", &json!({"ms": 3_600_000})).0, 200);
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 401, "the token is too old now");
    assert_eq!(door("GET", "nothing", &Value::Null).0, 404);
}

fn the_server_as_a_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (script, ready) = (folder.path().join("script.json"), folder.path().join("ready"));
    fs::write(&script, SCRIPT).expect("the script");
    let mut program = Command::new(std::env::current_exe().expect("this program"))
        .args(["serve", "--listen", "127.0.0.1:0", "--script"])
        .arg(&script)
        .arg("--ready-file")
        .arg(&ready)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server");
    let mut url = String::new();
    let mut output = BufReader::new(program.stdout.take().expect("its output"));
    output.read_line(&mut url).expect("its address");
    let answer = ask(url.trim(), "GET", "/control/state", &[], "").expect("an answer");
    assert_eq!(answer.json()["servers"].as_array().map(Vec::len), Some(3));
    assert_eq!(fs::read_to_string(&ready).expect("the ready file"), url);
    drop(program.stdin.take());
    assert!(program.wait().expect("its end").success(), "it ends with its input");

    let refused = Command::new(std::env::current_exe().expect("this program"))
        .args(["serve", "--script", "/no/such/file"])
        .output()
        .expect("the server");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/no/such/file"));
}

fn the_tests_as_cargo_calls_them() {
    let run = |arguments: &[&str]| {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let output = output.expect("the tests");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (well, text) = run(&["--exact", "replay::the_comparison_bites", "--nocapture"]);
    assert!(well && text.contains("test result: ok. 1 passed; 0 failed"), "{text}");
    let (well, text) = run(&["--list", "replay::", "--skip", "bites"]);
    assert!(well && text.contains("replay::keystone: test") && !text.contains("bites"), "{text}");
    let (well, text) = run(&["serve", "--listen", "nowhere"]);
    assert!(!well && text.is_empty(), "{text}");
    let (well, text) = run(&["no test is called so"]);
    assert!(well && text.contains("test result: ok. 0 passed"), "{text}");
}
