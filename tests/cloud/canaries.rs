//! Secrets that are marked go through every call and verb; then all that is left behind is searched for them.

use crate::scene::{PV, Scene};
use crate::server::{Cut, Fault};
use crate::support::{options, output_of, spawn};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PASSWORD: &str = "c4nary+Pass/word=of&me";
const IN_ADDRESS: &str = "c4naryInTheAddress";
const OF_PROXY: &str = "c4naryOfTheProxy";
const IN_KEY: &str = "c4naryOfThePrivateKey";
const OF_CREDENTIAL: &str = "c4nary-of_the-credential-0123456789";

/// How a secret may be written; of base 64 also what is the same wherever the secret stands in the text.
fn forms(secret: &str) -> Vec<String> {
    let percent: String = secret
        .bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect();
    let inner = |before: usize| {
        let whole = BASE64_STANDARD.encode([&vec![b'x'; before], secret.as_bytes()].concat());
        let bits = 8 * (before + secret.len());
        whole[(8 * before).div_ceil(6)..bits / 6].to_owned()
    };
    vec![
        secret.to_owned(),
        percent.to_lowercase(),
        percent,
        inner(0),
        inner(1),
        inner(2),
        secret[..12].to_owned(),
    ]
}

/// Where a secret is found in a text, and in which form.
fn found_in(place: &str, text: &[u8], secrets: &[String]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let all = secrets.iter().flat_map(|secret| forms(secret));
    all.filter(|form| text.contains(form.as_str()))
        .map(|form| format!("{form} in {place}"))
        .collect()
}

/// The same in every file below a folder, and in their names; not in the two places where secrets live.
fn found_below(folder: &Path, config: &Path, secrets: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        all.extend(found_in("a name", path.to_string_lossy().as_bytes(), secrets));
        if path.is_dir() && !path.is_symlink() {
            if !path.ends_with("run/tokens") {
                all.extend(found_below(&path, config, secrets));
            }
        } else if path != config && path.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            all.extend(found_in(&path.display().to_string(), &bytes, secrets));
        }
    }
    all
}

/// Arguments and variables of a process and of all that it began.
fn found_in_processes(pid: u32, secrets: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for file in ["cmdline", "environ"] {
        let place = format!("/proc/{pid}/{file}");
        all.extend(found_in(&place, &fs::read(&place).unwrap_or_default(), secrets));
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            all.extend(found_in_processes(child, secrets));
        }
    }
    all
}

fn token_of(scene: &Scene) -> Option<String> {
    let tokens = fs::read_dir(scene.node.own().join("run/tokens")).ok()?.flatten();
    let kept = tokens.filter_map(|file| fs::read_to_string(file.path()).ok());
    let mut kept = kept.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    kept.find_map(|kept| Some(kept["token"].as_str()?.to_owned()))
}

fn edit(scene: &Scene, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(scene.node.config_path()).unwrap();
    fs::write(scene.node.config_path(), change(text)).unwrap();
}

/// A cloud and a node whose secrets are marked; the log has all that it can have.
fn marked() -> Scene {
    let mut world = crate::server::World::demo();
    world.identity.users.iter_mut().for_each(|user| PASSWORD.clone_into(&mut user.password));
    let scene = Scene::of(world);
    let metrics = scene.node.own().join("metrics.prom");
    let soon = ["attach", "detach", "isattached", "waitforattach", "mountdevice", "mount"];
    let soon = soon.map(|call| format!("deadline.{call} = 1\n")).concat();
    let page = metrics.display();
    scene.configure(&format!("log.level = \"trace\"\nmetrics.textfile = \"{page}\"\n{soon}"));
    edit(&scene, |text| {
        let text = text.replace("demopass", PASSWORD);
        text.replace("auth_url = \"http://", &format!("auth_url = \"http://me:{IN_ADDRESS}@"))
    });
    scene
}

/// Every call of kubelet and every verb of a person, right or wrong.
fn calls(scene: &Scene) -> Vec<Vec<String>> {
    let (volume, options) = (scene.volume.clone(), options(&scene.volume, PV, ""));
    let global = scene.node.global(PV).display().to_string();
    let pod = scene.node.pod("7a5c1e0b-3d52-4f0e-9a35-6f1d0c8b2e44", PV).display().to_string();
    let all: [&[&str]; 22] = [
        &["init"],
        &["getvolumename", &options],
        &["attach", &options, "node-b"],
        &["isattached", &options, "node-b"],
        &["waitforattach", "", &options],
        &["mountdevice", &global, "/dev/vdz", &options],
        &["mount", &pod, &options],
        &["expandfs", &options, "/dev/vdz", &pod, "2147483648", "1"],
        &["unmount", &pod],
        &["unmountdevice", &global],
        &["detach", PV, "node-b"],
        &["status"],
        &["status", "--json"],
        &["explain", &volume],
        &["history", &volume],
        &["holders", &volume],
        &["doctor"],
        &["heal", &volume],
        &["release", &volume, "--dry-run"],
        &["detach", "--force", &volume, "--dry-run"],
        &["report", "--out", "-"],
        &["report", "--text", "--out", "-"],
    ];
    all.iter().map(|words| words.iter().map(|&word| word.to_owned()).collect()).collect()
}

fn said(command: &mut Command) -> Vec<u8> {
    let output = output_of(command);
    [output.stdout, output.stderr].concat()
}

fn known(scene: &Scene) -> Vec<String> {
    let fixed = [PASSWORD, IN_ADDRESS, OF_PROXY, IN_KEY, OF_CREDENTIAL].map(str::to_owned);
    fixed.into_iter().chain(token_of(scene)).collect()
}

/// Runs all of them, and searches what they said and what they left.
#[track_caller]
fn stay_secret(scene: &Scene, seam: &str) {
    let calls = calls(scene);
    let mut secrets = known(scene);
    for call in &calls {
        let mut command = scene.node.command(call);
        if !seam.is_empty() {
            command.env("INCLOUD_DISK_SEAM", seam);
        }
        let text = said(&mut command);
        secrets.extend(token_of(scene));
        secrets.sort();
        secrets.dedup();
        let place = format!("{call:?}: {}", String::from_utf8_lossy(&text));
        assert_eq!(found_in(&place, &text, &secrets), [""; 0]);
    }
    assert_eq!(found_below(&scene.node.own(), scene.node.config_path(), &secrets), [""; 0]);
}

/// Each in a thread of its own: most of it waits for a deadline.
fn at_once<T: Send>(all: impl IntoIterator<Item = T>, play: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for one in all {
            scope.spawn(|| play(one));
        }
    });
}

#[test]
fn the_searcher_finds_each_form_of_a_secret() {
    let scene = marked();
    scene.node.must(scene.is_attached("node-b"));
    let secrets = known(&scene);
    assert_eq!(secrets.len(), 6, "with the token");
    let clean = || found_below(&scene.node.own(), scene.node.config_path(), &secrets);
    assert_eq!(clean(), [""; 0]);
    for secret in &secrets {
        for form in forms(secret) {
            let leak = scene.node.own().join("state/leak");
            fs::create_dir_all(leak.parent().unwrap()).unwrap();
            fs::write(&leak, format!("before {form} behind")).unwrap();
            assert!(!clean().is_empty(), "{form} is not found");
            fs::remove_file(leak).unwrap();
        }
        for before in ["", "u", "u:"] {
            let whole = BASE64_STANDARD.encode(format!("{before}{secret} behind"));
            assert!(!found_in("x", whole.as_bytes(), &secrets).is_empty(), "{before}{secret}");
        }
    }
}

#[test]
fn a_cloud_that_answers_is_told_no_secret_of() {
    stay_secret(&marked(), "");
}

#[test]
fn a_cloud_that_quotes_them_is_told_no_secret_of() {
    let scene = marked();
    scene.node.must(scene.is_attached("node-b"));
    // A secret that this configuration does not have cannot be known again.
    let token = token_of(&scene).expect("a token");
    let said: Vec<_> = [PASSWORD, IN_ADDRESS, &token].into_iter().flat_map(forms).collect();
    // The last is a part of one, which only a text that was cut has.
    let said: Vec<_> = said.chunks(7).flat_map(|all| &all[..4]).cloned().collect();
    let body =
        json!({"error": {"code": 403, "message": format!("not with {}", said.join(" and "))}});
    for path in ["/volumes/**", "/servers/**", "/attachments/**"] {
        scene.cloud.fault(Fault::on("*", path).always().reply(403, body.clone()));
    }
    stay_secret(&scene, "");
}

#[test]
fn a_cloud_that_fails_or_cuts_off_is_told_no_secret_of() {
    at_once([Some(Cut::Before), Some(Cut::Middle), None], |cut| {
        let scene = marked();
        if let Some(cut) = cut {
            scene.node.must(scene.is_attached("node-b"));
            scene.cloud.fault(Fault::on("*", "/**").service("volume").always().cut(cut));
        } else {
            scene.cloud.fault(Fault::on("POST", "/auth/tokens").always().proxy(502));
        }
        stay_secret(&scene, "");
    });
}

#[test]
fn a_panic_and_a_kill_leave_no_secret() {
    needs!(seams);
    at_once(["begin=panic", "attach.requested=panic", "attach.requested=kill"], |seam| {
        stay_secret(&marked(), seam);
    });
}

#[test]
fn a_silent_cloud_sees_no_secret_in_arguments_or_variables() {
    let scene = marked();
    scene.node.must(scene.is_attached("node-b"));
    scene.configure("deadline.attach = 30");
    edit(&scene, |text| text.replace("demopass", PASSWORD));
    scene.cloud.fault(Fault::on("*", "/**").service("volume").always().hold(Cut::Before));
    let (mut child, output) = spawn(scene.node.command(scene.attach("node-b")));
    let is_held = scene.cloud.wait_held(1, Duration::from_secs(20));
    let found = found_in_processes(child.id(), &known(&scene));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(output);
    assert!(is_held);
    assert_eq!(found, [""; 0]);
    assert_eq!(found_below(&scene.node.own(), scene.node.config_path(), &known(&scene)), [""; 0]);
}

/// Each is wrong, and none of it is told.
#[test]
fn a_proxy_a_key_and_a_credential_that_do_not_work_are_told_without_their_secrets() {
    let change = |what: &str, scene: &Scene, text: String| {
        let key = scene.node.base().join("own.key");
        fs::write(&key, format!("-----BEGIN PRIVATE KEY-----\n{IN_KEY}\n")).unwrap();
        match what {
            "proxy" => format!("openstack.proxy = \"http://us:{OF_PROXY}@127.0.0.1:1\"\n{text}"),
            "no proxy" => format!("openstack.proxy = \"us:{OF_PROXY}@127.0.0.1:1\"\n{text}"),
            "bad proxy" => format!("openstack.proxy = \"http://us:{OF_PROXY}@[::\"\n{text}"),
            "key" => format!("openstack.cert_file = {key:?}\nopenstack.key_file = {key:?}\n{text}"),
            _ => format!(
                "openstack.application_credential_id = \"x\"\n\
                 openstack.application_credential_secret = \"{OF_CREDENTIAL}\"\n{}",
                text.replace("openstack.password", "# openstack.password")
            ),
        }
    };
    at_once(["proxy", "no proxy", "bad proxy", "key", "credential"], |what| {
        let scene = marked();
        edit(&scene, |text| change(what, &scene, text));
        let said = json!({"error": {"code": 401, "message": format!("{OF_CREDENTIAL} is wrong")}});
        scene.cloud.fault(Fault::on("POST", "/auth/tokens").always().reply(401, said));
        stay_secret(&scene, "");
    });
}
