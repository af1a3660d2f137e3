//! SECURITY.md: each of its promises names the tests that try it, and they are there.

use crate::source::{has_test, tests_of};
use regex_lite::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The modules whose every test tries a promise.
const ATTACKS: [(&str, &str); 3] =
    [("cloud", "hostile"), ("cloud", "canaries"), ("root", "attacks")];

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md")).unwrap()
}

/// The rows of the promises: what is promised, and what tries it.
fn promises(page: &str) -> Vec<(&str, &str)> {
    let (_, below) = page.split_once("\n## What is promised").expect("the promises");
    let below = below.split("\n## ").next().unwrap_or_default();
    let rows = below.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.filter_map(|row| row.rsplit_once(" | "));
    cells.filter(|(promise, _)| !promise.starts_with("---") && *promise != "promise").collect()
}

/// What a cell names: `ring module::test`.
fn named(cell: &str) -> Vec<String> {
    let name = Regex::new(r"`([a-z]+ [a-z_:]+::[a-z0-9_]+)`").unwrap();
    name.captures_iter(cell).map(|found| found[1].to_owned()).collect()
}

#[test]
fn each_promise_names_a_test_that_is_there() {
    let page = page();
    let promises = promises(&page);
    assert!(promises.len() > 30, "{promises:?}");
    for (promise, cell) in promises {
        let tests = named(cell);
        assert_eq!(
            tests.len(),
            cell.matches('`').count() / 2,
            "a name that cannot be read: {cell}"
        );
        assert!(!tests.is_empty(), "no test: {promise}");
        for test in tests {
            assert!(has_test(&test), "{promise}: there is no {test}");
        }
    }
}

#[test]
fn each_attack_that_is_tried_stands_at_its_promise() {
    let page = page();
    let told: BTreeSet<_> = promises(&page).iter().flat_map(|(_, cell)| named(cell)).collect();
    for (ring, module) in ATTACKS {
        let tests = tests_of(ring, module);
        assert!(!tests.is_empty(), "{ring} {module}");
        for test in tests {
            let name = format!("{ring} {module}::{test}");
            assert!(told.contains(&name), "at no promise of SECURITY.md: {name}");
        }
    }
}
