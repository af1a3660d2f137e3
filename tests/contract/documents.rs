//! The documents: each link leads to a file and a heading that are there.

use incloud_disk::model::report::log_event::LogEvent;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages: those at the root, of the examples, and below `docs`.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, is_deep: bool, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && is_deep {
                below(&path, true, found);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    below(root(), false, &mut found);
    below(&root().join("examples"), true, &mut found);
    below(&root().join("docs"), true, &mut found);
    found.sort();
    found
}

/// The lines outside of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The names by which the headings of a page are linked to, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(page).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|one| !found.contains(one));
        found.extend(free);
    }
    found
}

/// Where the links of a page lead, without those that leave the project.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap();
            if !target.contains("://") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// The links of a page that lead nowhere.
fn broken(path: &Path, page: &str) -> Vec<String> {
    let leads_nowhere = |target: &String| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file =
            if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        if file != path && !file.exists() {
            return true;
        }
        if anchor.is_empty() {
            return false;
        }
        let text = if file == path { page.to_owned() } else { fs::read_to_string(&file).unwrap() };
        !anchors(&text).contains(anchor)
    };
    links(page).into_iter().filter(leads_nowhere).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let page = "# A b\n## A: `b`?\n[x](#a-b) [x](#a-b-1) [x](#a) [x](src/none.rs)\n```\n[x](y)\n```\n\
                [x](README.md) [x](README.md#none) [x](docs) [x](https://example.org/none)";
    assert_eq!(broken(&root().join("x.md"), page), ["#a", "src/none.rs", "README.md#none"]);
    let (mut count, mut wrong) = (0, Vec::new());
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        count += links(&page).len();
        let name = path.strip_prefix(root()).unwrap().display();
        wrong.extend(broken(&path, &page).into_iter().map(|target| format!("{name}: {target}")));
    }
    assert_eq!(wrong, [""; 0]);
    assert!(count > 200, "only {count} links were read");
}

#[test]
fn every_page_is_in_a_list_of_pages() {
    let linked = |list: &str| {
        let path = root().join(list);
        let page = fs::read_to_string(&path).unwrap();
        let folder = path.parent().unwrap().to_owned();
        let files = links(&page).into_iter().map(move |target| {
            let file = target.split('#').next().unwrap().to_owned();
            folder.join(file).canonicalize().unwrap_or_default()
        });
        files.collect::<Vec<_>>()
    };
    let lists = ["docs/README.md", "docs/rules/README.md", "docs/design/decisions/README.md"];
    let all: BTreeSet<_> = lists.into_iter().flat_map(linked).collect();
    let pages = pages().into_iter().map(|page| page.canonicalize().unwrap());
    let docs = root().join("docs").canonicalize().unwrap();
    let lost: Vec<_> =
        pages.filter(|page| page.starts_with(&docs) && !all.contains(page)).collect();
    assert_eq!(lost, [docs.join("README.md")], "docs/README.md has no line for these");
}

#[test]
fn every_option_of_a_volume_is_on_its_page() {
    let source = fs::read_to_string(root().join("src/flexvolume/options.rs")).unwrap();
    let values = source.lines().filter_map(|line| line.strip_prefix("const ")?.split('"').nth(1));
    let own: Vec<_> = values.filter(|value| !value.starts_with("kubernetes.io/")).collect();
    assert!(own.contains(&"volumeID") && own.len() > 4, "{own:?}");
    let page = fs::read_to_string(root().join("docs/calls-and-options.md")).unwrap();
    let is_told = |name: &&str| {
        let mut rows = page.lines().filter(|line| line.starts_with("| `"));
        rows.any(|row| {
            row[3..].strip_prefix(*name).is_some_and(|rest| rest.starts_with(['`', ':']))
        })
    };
    let untold: Vec<_> = own.into_iter().filter(|name| !is_told(name)).collect();
    assert_eq!(untold, [""; 0], "docs/calls-and-options.md has no row for these");
}

/// The name of an event is a text where it is written: a wrong one would not be read.
#[test]
fn every_event_is_written_and_on_its_page() {
    let name = |event| serde_json::to_string(&event).unwrap().trim_matches('"').to_owned();
    let all = BTreeSet::from(LogEvent::ALL.map(name));
    let between = |text: &str, begin: &str, end: char| -> BTreeSet<String> {
        let found = text.split(begin).skip(1).filter_map(|rest| rest.split_once(end));
        found.map(|(name, _)| name.to_owned()).collect()
    };
    let sources = crate::source::without_tests(&crate::source::folder());
    let sources: String = sources.into_iter().map(|(_, text)| text).collect();
    assert_eq!(between(&sources, "event = \"", '"'), all);
    let page = fs::read_to_string(root().join("docs/operating.md")).unwrap();
    let rows = page.split_once("| `event` |").unwrap().1.split_once("\n\n").unwrap().0;
    assert_eq!(between(rows, "\n| `", '`'), all);
}

/// Words that leave open who does it. `nobody` is also a user of the machine, in tests.
const RIDDLES: [&str; 5] = ["nobody", "somebody", "whoever", "no one's", "the last word"];

#[test]
fn pages_and_sources_name_who_does_it() {
    let mut files = crate::source::files(&crate::source::folder());
    files.extend(pages().into_iter().filter(|page| !page.ends_with("refusals.md")));
    files.extend(["install.sh", "build.rs", "Cargo.toml"].map(|name| root().join(name)));
    let mut wrong = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        // Lines are joined, for a sentence goes on in the next one.
        let lines = text.lines().map(|line| line.trim_start_matches(['/', '!', '#', ' ']));
        let text = lines.collect::<Vec<_>>().join(" ").to_lowercase();
        let words = RIDDLES.into_iter().filter(|word| text.contains(word));
        let name = path.strip_prefix(root()).unwrap().display();
        wrong.extend(words.map(|word| format!("{name}: {word}")));
    }
    assert_eq!(wrong, [""; 0]);
    assert!(files.len() > 300, "only {} files were read", files.len());
}

/// The headings of a changelog that are no `Unreleased`: version and day.
fn versions(changelog: &str) -> Vec<(&str, &str)> {
    let headings = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    let dated = headings.filter(|heading| *heading != "Unreleased").map(|heading| {
        let (version, day) = heading.split_once(" (").unwrap_or((heading, ""));
        (version, day.strip_suffix(')').unwrap_or_default())
    });
    dated.collect()
}

/// What keeps a list of versions, newest first, from being one.
fn wrong_versions(versions: &[(&str, &str)]) -> Vec<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_day = |day: &str| {
        let parts: Vec<_> = day.split('-').collect();
        day.len() == 10 && parts.len() == 3 && parts.into_iter().all(is_number)
    };
    let is_version = |text: &str| text.split('.').count() == 3 && text.split('.').all(is_number);
    let numbers = |text: &str| text.split('.').flat_map(str::parse::<u32>).collect::<Vec<_>>();
    let undated = versions.iter().filter(|(version, day)| !is_version(version) || !is_day(day));
    let mut wrong: Vec<_> = undated.map(|(version, _)| format!("{version} has no day")).collect();
    wrong.extend(versions.windows(2).filter_map(|pair| {
        let ((newer, day), (older, before)) = (pair[0], pair[1]);
        let is_in_order = numbers(newer) > numbers(older) && day >= before;
        (!is_in_order).then(|| format!("{newer} stands before {older}"))
    }));
    wrong
}

#[test]
fn each_version_has_its_day_and_the_newest_is_this_one() {
    let none = [""; 0];
    assert_eq!(wrong_versions(&[("0.10.0", "2026-12-01"), ("0.9.1", "2026-12-01")]), none);
    assert_eq!(wrong_versions(&[("0.2.0", "soon")]), ["0.2.0 has no day"]);
    let turned = [("0.1.0", "2026-12-02"), ("0.2.0", "2026-12-01")];
    assert_eq!(wrong_versions(&turned), ["0.1.0 stands before 0.2.0"]);

    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let versions = versions(&changelog);
    assert_eq!(wrong_versions(&versions), none);
    assert_eq!(versions.first().map(|(version, _)| *version), Some(env!("CARGO_PKG_VERSION")));
    let first = changelog.lines().find(|line| line.starts_with("## "));
    assert_eq!(first, Some("## Unreleased"), "what comes next has no place");
}
