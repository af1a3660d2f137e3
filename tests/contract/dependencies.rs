//! What is built into the driver is what `deny.toml` allows: licences, sources, crates. For machines
//! without `cargo deny`, which also knows the weaknesses that were told of.

use crate::support::skip;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rules() -> toml::Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

/// Texts of a list, or those that the entries of a list of tables have under `name`.
fn texts(rules: &toml::Table, section: &str, key: &str) -> Vec<String> {
    let all = rules[section][key].as_array().unwrap().iter();
    let text =
        |one: &toml::Value| one.as_str().or_else(|| one.get("name")?.as_str()).map(str::to_owned);
    all.map(|one| text(one).unwrap()).collect()
}

/// Every package that is built for Linux, as cargo itself tells; nothing where it cannot: another user
/// may have built, whose packages this one has not.
fn packages() -> Option<Vec<Value>> {
    let mut cargo = Command::new(env!("CARGO"));
    let words = ["metadata", "--format-version=1", "--locked", "--offline"];
    cargo.args(words).arg("--filter-platform=x86_64-unknown-linux-gnu").current_dir(root());
    let told = cargo.output().ok().filter(|told| told.status.success())?;
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    Some(told["packages"].as_array().unwrap().clone())
}

/// Whether a choice of licences has one that is allowed: AND binds more than OR, brackets more.
fn allows(allowed: &[String], licence: &str) -> bool {
    let licence = licence.trim();
    if let Some(parts) = split(licence, " OR ") {
        return parts.iter().any(|part| allows(allowed, part));
    }
    if let Some(parts) = split(licence, " AND ") {
        return parts.iter().all(|part| allows(allowed, part));
    }
    match licence.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => allows(allowed, inner),
        None => allowed.iter().any(|one| one == licence),
    }
}

/// The parts between this word outside of brackets; nothing if it does not stand there.
fn split(text: &str, word: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let (mut depth, mut rest) = (0, text);
    while let Some(letter) = rest.chars().next() {
        if depth == 0 && rest.starts_with(word) {
            parts.push(String::new());
            rest = &rest[word.len()..];
            continue;
        }
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        parts.last_mut().unwrap().push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    (parts.len() > 1).then_some(parts)
}

fn is_ours(name: &str) -> bool {
    name == "incloud-disk" || name.starts_with("incloud-disk-")
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let allowed = ["MIT".to_owned(), "ISC".to_owned()];
    for (licence, is_allowed) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("GPL-3.0 OR MIT AND Zlib", false),
        ("MIT AND (ISC OR Zlib)", true),
        ("(MIT AND Zlib) OR (Zlib AND ISC)", false),
    ] {
        assert_eq!(allows(&allowed, licence), is_allowed, "{licence}");
    }
}

#[test]
fn every_licence_is_allowed() {
    let allowed = texts(&rules(), "licenses", "allow");
    let Some(packages) = packages() else {
        return skip("every_licence_is_allowed", "needs cargo and the packages of the build");
    };
    assert!(packages.len() > 100, "only {} packages", packages.len());
    for package in packages.iter().filter(|package| !is_ours(package["name"].as_str().unwrap())) {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_default().replace('/', " OR ");
        assert!(allows(&allowed, &licence), "{name}: {licence}");
    }
}

/// A git repository, or a second registry, would be one more that is trusted.
#[test]
fn every_package_is_of_one_registry_and_none_is_banned() {
    let banned = texts(&rules(), "bans", "deny");
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    assert!(packages.len() > 100, "only {} packages", packages.len());
    let mut sources = BTreeSet::new();
    for package in packages.iter().map(|package| package.as_table().unwrap()) {
        let name = package["name"].as_str().unwrap();
        assert!(!banned.iter().any(|one| one == name), "{name} is banned");
        if !is_ours(name) {
            sources.insert(package["source"].as_str().expect(name));
        }
    }
    assert!(sources.iter().all(|source| source.starts_with("registry+")), "{sources:?}");
    assert_eq!(sources.len(), 1, "{sources:?}");
}

/// The six crates on which the driver is to be built: none may be dropped on the way.
#[test]
fn the_chosen_crates_are_dependencies_and_are_used() {
    const CHOSEN: [&str; 6] = ["serde_json", "clap", "nix", "udev", "reqwest", "tracing-appender"];
    let of = |path: &Path| fs::read_to_string(path).unwrap();
    let manifests = std::iter::once(root().join("Cargo.toml")).chain(
        fs::read_dir(root().join("src"))
            .unwrap()
            .flatten()
            .map(|one| one.path().join("Cargo.toml")),
    );
    let mut declared = BTreeSet::new();
    for manifest in manifests.filter(|path| path.is_file()) {
        let manifest: toml::Table = of(&manifest).parse().unwrap();
        declared.extend(manifest["dependencies"].as_table().unwrap().keys().cloned());
    }
    let sources = crate::source::without_tests(&crate::source::folder());
    let lines = || sources.iter().flat_map(|(_, text)| text.lines());
    for name in CHOSEN {
        assert!(declared.contains(name), "{name} is no dependency of a crate of the driver");
        // A path that begins so: `super::udev::` is a module of ours.
        let path = format!("{}::", name.replace('-', "_"));
        let begins =
            |before: &str| !before.ends_with(|c: char| c == ':' || c == '_' || c.is_alphanumeric());
        let uses = |line: &str| line.split_once(&path).is_some_and(|(before, _)| begins(before));
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        assert!(lines().filter(is_code).any(uses), "{name} is not used by the driver");
    }
}
