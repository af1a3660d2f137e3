//! The hook: a program or a function at every attach and detach.

use super::cloud::Cloud;
use crate::runner::Test;
use crate::server::hook::Action;
use crate::server::{Hook, World};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(super) const TESTS: &[Test] = &[
    ("hooks::a_program_is_called", a_program_is_called),
    ("hooks::a_failure_undoes_the_attach", a_failure_undoes_the_attach),
    ("hooks::a_failure_rolls_the_detach_back", a_failure_rolls_the_detach_back),
    ("hooks::a_function_is_called", a_function_is_called),
    ("hooks::a_missing_program_is_a_failure", a_missing_program_is_a_failure),
];

/// A program that writes down how it was called, and fails for a word.
fn program(folder: &Path, failing: &str) -> Hook {
    let path = folder.join("hook");
    let log = folder.join("log");
    let text = format!(
        "#!/bin/sh\necho \"$* $DEVICE $SIZE\" >>{}\n[ \"$1\" != \"{failing}\" ]\n",
        log.display()
    );
    fs::write(&path, text).expect("the program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    Hook::Program(path)
}

fn a_program_is_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let cloud = Cloud::of(World::demo().hook(program(folder.path(), "nothing")));
    assert_eq!(cloud.attach(&cloud.a).status, 200);
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.status(), "in-use");
    assert_eq!(cloud.detach(&cloud.a).status, 202);
    assert!(cloud.server.wait_idle());
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("available", false));
    let (volume, server) = (&cloud.data, &cloud.a);
    let lines = ["attach", "detach"].map(|word| format!("{word} {volume} {server} /dev/sdb 1\n"));
    assert_eq!(fs::read_to_string(folder.path().join("log")).expect("the log"), lines.concat());
}

fn a_failure_undoes_the_attach() {
    let folder = tempfile::tempdir().expect("a folder");
    let cloud = Cloud::of(World::demo().hook(program(folder.path(), "attach")));
    assert_eq!(cloud.attach(&cloud.a).status, 200);
    assert!(cloud.server.wait_idle());
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("available", false));
}

fn a_failure_rolls_the_detach_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let cloud = Cloud::of(World::demo().hook(program(folder.path(), "detach")));
    cloud.server.world().attached("data", "a");
    assert_eq!(cloud.detach(&cloud.a).status, 202);
    assert!(cloud.server.wait_idle());
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("in-use", true));
}

fn a_function_is_called() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&calls);
    let hook = Hook::function(move |call| {
        noting.lock().expect("whole").push((call.action, call.size));
        Ok(())
    });
    let cloud = Cloud::of(World::demo().hook(hook));
    cloud.attach(&cloud.a);
    assert!(cloud.server.wait_idle());
    let action = format!("{}/action", cloud.volume_path(&cloud.data));
    let version = [("OpenStack-API-Version", "volume 3.42")];
    cloud.ask("POST", &action, &version, &json!({"os-extend": {"new_size": 3}}));
    assert!(cloud.server.wait_until(std::time::Duration::from_secs(5), |world| {
        world.storage.volumes.iter().all(|volume| volume.status == "in-use" && volume.size == 3)
    }));
    assert_eq!(*calls.lock().expect("whole"), [(Action::Attach, 1), (Action::Extend, 3)]);
}

fn a_missing_program_is_a_failure() {
    let cloud = Cloud::of(World::demo().hook(Hook::Program("/no/such/program".into())));
    cloud.attach(&cloud.a);
    assert!(cloud.server.wait_idle());
    assert_eq!(cloud.status(), "available");
}
