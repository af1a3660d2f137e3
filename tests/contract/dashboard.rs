//! The dashboard for Grafana asks for what the driver measures.

use crate::manifests::asks_for_what_is_measured;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
