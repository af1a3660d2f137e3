//! The floors of `src/lib.rs`, kept: imports point down.

use crate::source::{
    code, files, folder, for_tests, line_of, module_of, paths_after, tests_at, without_tests,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Every room, and the rooms that it may name. What is not listed may not be named, and a room
/// that is not listed may not be there.
pub const MAY_NAME: [(&str, &[&str]); 17] = [
    // Facts.
    ("model", &[]),
    // A mark in other rooms' code.
    ("failpoints", &["model"]),
    // Ports and adapters.
    ("host", &["model", "failpoints"]),
    ("cloud", &["host", "model", "failpoints"]),
    // What is around the driver.
    ("node", &["host", "model", "failpoints"]),
    // Decisions.
    ("driver", &["cloud", "host", "model", "failpoints"]),
    // Faces. kubelet's only reads and writes; people's also does what their cloud's console would.
    ("flexvolume", &["model"]),
    (
        "operator",
        &[
            "app",
            "cli",
            "cloud",
            "configuration",
            "driver",
            "host",
            "log",
            "model",
            "node",
            "failpoints",
            "watchdog",
            "wiring",
        ],
    ),
    // Roof.
    ("channel", &[]),
    ("configuration", &["model"]),
    ("log", &["configuration", "host", "model"]),
    ("cli", &["flexvolume", "host", "model"]),
    ("watchdog", &["channel", "flexvolume", "host", "model"]),
    (
        "app",
        &[
            "channel",
            "configuration",
            "driver",
            "flexvolume",
            "host",
            "log",
            "model",
            "failpoints",
            "watchdog",
            "wiring",
        ],
    ),
    ("wiring", &["cloud", "configuration", "driver", "failpoints", "host", "model", "node"]),
    ("main", &["app", "channel", "cli", "host", "operator", "watchdog"]),
    ("lib", &[]),
];

/// Adapters that the driver must not know: it works through the ports. Its tests may, for they
/// wire it themselves.
const NOT_FOR_THE_DRIVER: [&str; 11] = [
    "cloud::local",
    "cloud::openstack",
    "cloud::unconfigured",
    "host::census",
    "host::device_mapper",
    "host::devices",
    "host::filesystems",
    "host::remount",
    "host::kernel",
    "host::mounts",
    "host::tool",
];

/// Every path from the crate's root that the code names, with its line.
fn named(module: &[String], text: &str) -> Vec<(usize, String)> {
    let code = code(text);
    let mut found = Vec::new();
    for prefix in ["crate::", "incloud_disk::"] {
        for (at, _) in code.match_indices(prefix) {
            let paths = paths_after(&code[at + prefix.len()..]);
            found.extend(paths.into_iter().map(|path| (line_of(&code, at), path)));
        }
    }
    // `super::` once for each module is the crate's root too; an inner module, such as the tests,
    // is one more step away.
    let inner = tests_at(&code);
    for (at, _) in code.match_indices("super::") {
        let chain = &code[at..];
        let steps = chain.split("super::").take_while(|between| between.is_empty()).count();
        let depth = module.len() + usize::from(at > inner);
        let is_start = !code[..at].ends_with("super::");
        if is_start && steps >= depth {
            let paths = paths_after(&chain["super::".len() * steps..]);
            found.extend(paths.into_iter().map(|path| (line_of(&code, at), path)));
        }
    }
    found
}

/// What is wrong with a file: one sentence for each line that names what it must not.
fn offences(module: &[String], text: &str, is_for_tests: bool) -> Vec<(usize, String)> {
    let room = module[0].as_str();
    let Some((_, allowed)) = MAY_NAME.iter().find(|(name, _)| *name == room) else {
        return vec![(1, format!("`{room}` is on no floor: enter it in this test and src/lib.rs"))];
    };
    let code = code(text);
    let first_test = line_of(&code, tests_at(&code));
    let mut found = Vec::new();
    for (line, path) in named(module, text) {
        let other = path.split("::").next().unwrap_or_default();
        let is_adapter =
            |adapter: &&&str| path == **adapter || path.starts_with(&format!("{adapter}::"));
        if other != room && !allowed.contains(&other) {
            found.push((line, format!("`{room}` must not name `{path}`")));
        } else if room == "driver"
            && !is_for_tests
            && line <= first_test
            && NOT_FOR_THE_DRIVER.iter().any(|adapter| is_adapter(&adapter))
        {
            found.push((line, format!("`driver` must not know the adapter `{path}`")));
        }
    }
    found
}

#[test]
fn imports_point_down() {
    let mut wrong = Vec::new();
    let mut rooms = BTreeSet::new();
    let tests = for_tests();
    for file in files(&folder()) {
        let text = fs::read_to_string(&file).unwrap();
        let module = module_of(&file);
        for (number, offence) in offences(&module, &text, tests.contains(&file)) {
            let line = text.lines().nth(number - 1).unwrap_or_default();
            wrong.push(format!("{}:{number}: {offence}: {}", file.display(), line.trim()));
        }
        rooms.insert(module[0].clone());
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let listed: BTreeSet<_> = MAY_NAME.iter().map(|(room, _)| (*room).to_owned()).collect();
    assert_eq!(rooms, listed, "the table lists what is there, and nothing else");
}

/// The faces do not know each other, and no floor below the roof knows the roof or the faces: said
/// once more of the table itself, for it could be edited in haste.
#[test]
fn the_table_has_floors() {
    let below = |room: &str| MAY_NAME.iter().find(|(name, _)| *name == room).unwrap().1;
    let faces = ["flexvolume", "operator"];
    for (one, other) in [(0, 1), (1, 0)] {
        assert!(!below(faces[one]).contains(&faces[other]));
    }
    for room in ["model", "failpoints", "host", "cloud", "driver"] {
        for above in ["flexvolume", "operator", "app", "cli", "log", "channel", "watchdog"] {
            assert!(!below(room).contains(&above), "{room} names {above}");
        }
    }
    assert!(below("model").is_empty());
}

/// A file ends where its concept ends, however long that is: so its first line must say it.
#[test]
fn every_file_says_what_it_holds() {
    for file in files(&folder()) {
        let text = fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or_default();
        if first == "use super::*;" {
            // The tests of the file beside it.
            continue;
        }
        assert!(first.starts_with("//! ") && first.len() > 15, "{}: {first}", file.display());
    }
}

/// The reader of sources sees every way to name a module.
#[test]
fn every_way_to_climb_is_seen() {
    let module = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
    for (of, text) in [
        ("driver/attach", "use crate::flexvolume::call::Call;"),
        ("driver/attach", "use crate::{\n    model::ids,\n    app,\n};"),
        ("driver/attach", "fn f() { crate::operator::run() }"),
        ("driver/attach", "use super::super::app;"),
        ("driver", "use super::cli;"),
        ("driver/attach", "use crate::cloud::local::LocalCloud;"),
        ("driver", "use crate::cloud::{Cloud, local::LocalCloud};"),
        ("driver", "use crate::{cloud::{local, Cloud}};"),
        ("driver", "#[cfg(test)]\nmod tests {\n    use super::super::cli;\n}"),
        ("model/ids", "use crate::host;"),
        ("flexvolume/call", "pub(in crate::operator) fn f() {}"),
        ("cloud/local", "use super::super::driver::Driver;"),
        ("newcomer", ""),
    ] {
        assert_eq!(offences(&module(of), text, false).len(), 1, "{of}: {text}");
    }
    for (of, text) in [
        (
            "driver",
            "// use crate::app;\n/// [`crate::app`]\nuse crate::cloud::{Cloud, Attachment};",
        ),
        ("driver/attach", "use super::{Driver, Outcome};\nuse crate::driver::lookup;"),
        ("cloud/local", "use super::Cloud;\npub(crate) fn f() {}"),
        (
            "model/ids",
            "#[cfg(test)]\nmod tests {\n    use super::*;\n    use super::super::error;\n}",
        ),
        ("app", "use crate::{host, log, failpoints};"),
        (
            "driver/attachment/wait",
            "#[cfg(test)]\nmod tests {\n    use crate::host::mounts::KernelMounts;\n}",
        ),
    ] {
        assert_eq!(offences(&module(of), text, false), [], "{of}: {text}");
    }
}

/// Rooms that serve each face: what one orchestrator calls things is not theirs to know.
const BELOW_THE_FACES: [&str; 4] = ["driver", "cloud", "host", "model"];

/// `FlexVolume`, kubelet's call words that are no ordinary words, and its folders.
const OF_ONE_FACE: [&str; 11] = [
    "flexvolume",
    "getvolumename",
    "waitforattach",
    "isattached",
    "unmountdevice",
    "mountdevice",
    "expandfs",
    "incloud~disk",
    "kubernetes.io",
    "/var/lib/kubelet",
    "kubelet-plugins",
];

/// Records of before have a word of kubelet's in them, which is read, and tested.
const READS_OLD_RECORDS: [&str; 2] =
    [r#"matches!(name, "unstage" | "unmountdevice")"#, r#""unmountdevice":2,"detach":3}"#];

fn words_of_a_face(text: &str) -> Vec<(usize, &'static str)> {
    let is_excused = |line: &str| READS_OLD_RECORDS.iter().any(|one| line.contains(one));
    let lines = text.lines().enumerate().filter(|(_, line)| !is_excused(line));
    let words = |line: &str| {
        let line = line.to_lowercase();
        OF_ONE_FACE.into_iter().filter(move |word| line.contains(word))
    };
    lines.flat_map(|(at, line)| words(line).map(move |word| (at + 1, word))).collect()
}

#[test]
fn nothing_below_the_faces_names_kubelets_interface() {
    assert_eq!(words_of_a_face("x\n/// In `FlexVolume`\n"), [(2, "flexvolume")]);
    let mut wrong = Vec::new();
    for room in BELOW_THE_FACES {
        for file in files(&folder().join(room)) {
            let text = fs::read_to_string(&file).unwrap();
            for (line, word) in words_of_a_face(&text) {
                wrong.push(format!("{}:{line}: {word}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The names of the types that a text defines.
fn types_in(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in code.lines() {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix("pub") else { continue };
        let rest = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split_whitespace();
        if matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
            let name = words.next().unwrap_or_default();
            found.push(name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
        }
    }
    found
}

#[test]
fn each_name_of_a_type_has_one_meaning() {
    assert_eq!(
        types_in("pub struct A<'a> {\n  pub(in crate::x) enum B {\nstruct C;\npub fn d()\n"),
        ["A", "B"]
    );
    let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut twice = Vec::new();
    for (file, text) in without_tests(&folder()) {
        for name in types_in(&text) {
            if let Some(other) = seen.insert(name.to_owned(), file.clone()) {
                twice.push(format!("{name}: {} and {}", other.display(), file.display()));
            }
        }
    }
    assert!(twice.is_empty(), "\n{}", twice.join("\n"));
}
