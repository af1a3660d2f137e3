//! What people see of a volume of a cloud that is asked over HTTP, whose disk shows twenty
//! characters of its id.

use crate::life::{Life, PODS};
use serde_json::Value;
use std::fs;

#[test]
fn the_clouds_view_is_shown_and_not_needed() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    life.up(here, "ext4");
    let letter = here.letter();
    let row_of = |text: &str| {
        let row = text.lines().find(|line| line.starts_with(&life.volume));
        let row = row.unwrap_or_else(|| panic!("{text}"));
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let well = ["attached", "yes", "2", "0", "ok"];
    let text = here.look(&["status"]);
    assert_eq!(row_of(&text)[1..3], [letter.clone(), "cut".to_owned()], "{text}");
    assert_eq!(row_of(&text)[3..], well, "{text}");
    let found: Value =
        serde_json::from_str(&here.look(&["explain", crate::scene::PV, "--json"])).unwrap();
    let volume = &found["volume"];
    assert_eq!(volume["cloud"]["servers"][0][0], here.server.as_str());
    assert_eq!(volume["cloud"]["mounted_on"], here.server.as_str());
    assert_eq!(volume["links"][0]["fault"], Value::Null, "{volume:#}");
    assert_eq!(volume["disk"]["shows_whole_id"], false);
    let doctor: Value = serde_json::from_str(&here.look(&["doctor", "--json"])).unwrap();
    for check in ["cloud", "clock"] {
        let all = doctor["findings"].as_array().unwrap();
        assert!(all.iter().any(|one| one["check"] == check && one["level"] == "ok"), "{doctor:#}");
    }
    // The other server sees whose it is.
    let text = life.there.look(&["explain", &life.volume]);
    assert!(text.contains(&format!("attached to  {}", here.server)), "{text}");

    // What this machine remembers is a cache.
    fs::remove_dir_all(here.node.own().join("state")).unwrap();
    let text = here.look(&["status"]);
    assert_eq!(row_of(&text)[3..], well, "{text}");

    let Life { cloud, here, volume, .. } = life;
    drop(cloud);
    let text = here.look(&["status"]);
    let row = text.lines().find(|line| line.starts_with(&volume)).unwrap();
    assert!(row.contains(" unknown ") && !text.contains("detached"), "{text}");
    assert!(row.contains(&format!(" {letter} cut ")), "{text}");
    assert!(text.contains("did not answer"), "{text}");
    let doctor: Value = serde_json::from_str(&here.look(&["doctor", "--json"])).unwrap();
    assert_eq!(doctor["worst"], "error");
    assert!(here.pod(PODS[0]).exists());
}
