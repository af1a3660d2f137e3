//! The crates on which the driver is to be built.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The six crates on which the driver is to be built: none may be dropped on the way.
#[test]
fn the_chosen_crates_are_dependencies_and_are_used() {
    const CHOSEN: [&str; 6] = ["serde_json", "clap", "nix", "udev", "reqwest", "tracing-appender"];
    let of = |path: &Path| fs::read_to_string(path).unwrap();
    let manifests = std::iter::once(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .chain(
            fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
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
