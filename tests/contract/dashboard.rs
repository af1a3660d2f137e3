//! The dashboard for Grafana: it asks for what the driver measures, and each of its queries answers what it
//! must in a recorded night. What Grafana itself draws is not checked here.

use crate::manifests::asks_for_what_is_measured;
use crate::support::promtool;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const TRIALS: &str = "tests/contract/dashboard_trials.yaml";

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn panels() -> Vec<Value> {
    let text = fs::read_to_string(path_of("examples/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

fn queries() -> Vec<String> {
    let targets =
        panels().into_iter().flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_query_asks_for_what_is_measured_on_the_chosen_nodes() {
    let all = queries();
    assert!(all.len() > 15, "{all:?}");
    for query in all {
        asks_for_what_is_measured(&query);
        assert!(query.contains("instance=~\"$node\""), "{query}");
    }
}

/// Each panel says what it shows and what to do, and none lies on another.
#[test]
fn each_panel_has_its_place_and_its_words() {
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels() {
        let title = panel["title"].as_str().unwrap();
        assert!(panel["description"].as_str().unwrap().len() > 20, "{title}");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{title} lies on another panel");
            }
        }
    }
}

#[test]
fn each_query_is_tried_on_a_bad_night() {
    let trials = fs::read_to_string(path_of(TRIALS)).unwrap();
    for query in queries() {
        let tried = query.replace("$node", ".*").replace("$__rate_interval", "5m");
        // More than once: before that night's trouble and in it.
        let times = trials.matches(&format!("- expr: '{tried}'\n")).count();
        assert!(times > 1, "{query}: {times}");
    }
}

#[test]
fn prometheus_answers_as_that_night_was() {
    let path = path_of(TRIALS);
    let words = [OsStr::new("test"), OsStr::new("rules"), path.as_os_str()];
    let said = promtool("prometheus_answers_as_that_night_was", &words, None);
    if let Some((is_content, said)) = said {
        assert!(is_content, "{said}");
    }
}
