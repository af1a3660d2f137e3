//! What people see of a volume of a cloud that is asked over HTTP, whose disk shows twenty
//! characters of its id.

use crate::life::{Life, PODS};
use crate::machine::Machine;
use serde_json::Value;
use std::fs;

#[test]
fn the_clouds_view_is_shown_and_not_needed() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let here = &life.here;
    life.up(here, "ext4");
    let letter = here.letter();
    let life_id = life.volume.clone();
    let seen_by = |here: &Machine| -> Value {
        let found: Value = serde_json::from_str(&here.look(&["status", "--json"])).unwrap();
        let all = found["volumes"].as_array().unwrap();
        // A loop device that shows a serial may be taken for a volume of that name too.
        all.iter().find(|one| one["id"] == life_id.as_str()).expect("its row").clone()
    };
    let is_well = |one: &Value| {
        assert_eq!(
            (&one["id"], &one["verdict"]["health"]),
            (&life.volume.as_str().into(), &"ok".into())
        );
        assert_eq!(one["disk"]["name"], letter.as_str(), "{one:#}");
        assert_eq!(one["mounts"].as_array().unwrap().len(), 3, "{one:#}");
    };
    let seen = seen_by(here);
    is_well(&seen);
    assert_eq!(seen["cloud"]["is_here"], true, "{seen:#}");
    let text = here.look(&["status"]);
    let row = format!("pvc-of-the-test ({})", &life.volume[..8]);
    assert!(text.lines().any(|line| line.starts_with("ok ") && line.contains(&row)), "{text}");
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
    is_well(&seen_by(here));

    let Life { cloud, here, .. } = life;
    drop(cloud);
    // It is here, and what uses it sees no difference.
    let seen = seen_by(&here);
    assert_eq!(
        (&seen["cloud"]["says"], &seen["verdict"]["health"]),
        (&"unknown".into(), &"ok".into())
    );
    let text = here.look(&["status"]);
    assert!(text.contains("did not answer") && !text.contains("detached"), "{text}");
    let doctor: Value = serde_json::from_str(&here.look(&["doctor", "--json"])).unwrap();
    assert_eq!(doctor["worst"], "error");
    assert!(here.pod(PODS[0]).exists());
}
