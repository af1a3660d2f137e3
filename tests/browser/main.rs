//! The report's page in a real browser: light and dark, wide and narrow, with scripts and without.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

#[path = "../support/mod.rs"]
mod support;

use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use support::Node;
use support::browser::{Browser, Screen, from_base64, to_base64};

fn of_tests(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(name)
}

const SCREENS: [(&str, Screen); 4] = [
    ("wide-light", Screen { width: 1280, is_dark: false, has_scripts: true }),
    ("wide-dark", Screen { width: 1280, is_dark: true, has_scripts: true }),
    ("narrow-light", Screen { width: 400, is_dark: false, has_scripts: true }),
    ("narrow-dark", Screen { width: 400, is_dark: true, has_scripts: true }),
];

/// Of a thousand cells so many may look otherwise: fonts are not the same everywhere.
const TOLERANCE: u64 = 60;

/// The pictures beside this file are those that a person has looked at; `PICTURES=write` writes them anew.
#[test]
fn the_sample_looks_as_it_did() {
    let Some(mut browser) = Browser::start("the_sample_looks_as_it_did") else { return };
    for (name, screen) in SCREENS {
        browser.show(&of_tests("sample.html"), screen);
        assert_eq!(browser.faults(), json!([]), "{name}");
        let colour = browser.value("getComputedStyle(document.body).backgroundColor");
        let expected = if screen.is_dark { "rgb(13, 17, 23)" } else { "rgb(255, 255, 255)" };
        assert_eq!(colour, expected, "{name}");
        let picture = browser.picture();
        browser.show(&of_tests("sample.html"), Screen { has_scripts: false, ..screen });
        assert!(browser.picture() == picture, "{name}: it is another page without scripts");
        // Both widths, and both colours.
        if !["wide-light", "narrow-dark"].contains(&name) {
            continue;
        }
        let path = of_tests(&format!("sample-{name}.png"));
        if std::env::var_os("PICTURES").is_some_and(|word| word == "write") {
            fs::write(&path, from_base64(&picture)).unwrap();
        }
        let looked_at = to_base64(&fs::read(&path).unwrap());
        let found = browser.difference(&looked_at, &picture);
        assert_eq!(found["width"][0], found["width"][1], "{name}: {found}");
        let heights = [0, 1].map(|at| found["height"][at].as_f64().unwrap());
        let is_near = (heights[0] - heights[1]).abs() < heights[0] / 20.0;
        let differs = found["differs"].as_u64().unwrap();
        if !is_near || differs > TOLERANCE {
            let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sample-{name}.png"));
            fs::write(&now, from_base64(&picture)).unwrap();
            panic!(
                "{name} looks otherwise ({found}): compare {} with {}",
                now.display(),
                path.display()
            );
        }
    }
}

#[test]
fn two_pictures_that_differ_are_told_apart() {
    let Some(mut browser) = Browser::start("two_pictures_that_differ_are_told_apart") else {
        return;
    };
    let [light, dark] = [0, 1].map(|place| {
        browser.show(&of_tests("sample.html"), SCREENS[place].1);
        browser.picture()
    });
    let found = browser.difference(&light, &dark);
    assert!(found["differs"].as_u64().unwrap() > 900, "{found}");
    assert_eq!(browser.difference(&light, &light)["differs"], 0);
    let wrong = "<svg width='90' height='20'><text y='9'>one text</text><text x='9' y='9'>another</text></svg>";
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("wrong.html");
    fs::write(&page, format!("<figure>{wrong}</figure><p style='width:9999px'>wide</p>")).unwrap();
    browser.show(&page, SCREENS[0].1);
    let faults = browser.faults().to_string();
    assert!(faults.contains("over each other") && faults.contains("the page is 100"), "{faults}");
}

/// A log whose names are those of a tenant who wants to harm, with every kind of entry.
fn hostile(node: &Node) {
    let names = [
        "<script>window.harmed = 1</script>",
        "\"><svg onload=window.harmed=1>",
        "' onmouseover='window.harmed=1",
        "</pre></title></style><script>window.harmed = 1</script>",
        "\u{202e}drawkcab\u{2066} &lt;b&gt; \u{1b}[2J\n磁盘磁盘磁盘磁盘磁盘磁盘磁盘磁盘磁盘",
        &"long".repeat(2500),
    ];
    let folder = node.own().join("log");
    fs::create_dir_all(&folder).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    let mut lines = String::new();
    let mut call = 0;
    for (place, name) in names.iter().enumerate() {
        let mut add = |before: u64, op: &str, level: &str, end: &str, more: serde_json::Value| {
            call += 1;
            let moment = incloud_disk::model::timestamp::text(now - before);
            for (level, message) in [("INFO", "begin"), (level, end)] {
                let mut fields = json!({"message": message, "volume": format!("volume-{place}"), "name": name, "pod": name, "pod_name": name, "disk": format!("vd{place}"), "duration_ms": 3});
                fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                let line = json!({"timestamp": moment, "level": level, "fields": fields, "span": {"id": format!("c{call}"), "op": op, "name": "call"}});
                lines.push_str(&format!(
                    "{{\"timestamp\":{},\"level\":{},\"fields\":{},\"span\":{}}}\n",
                    line["timestamp"], line["level"], line["fields"], line["span"]
                ));
            }
        };
        add(80_000_000, "attach", "INFO", "end: Success", json!({"outcome": "Done"}));
        for nth in 0..60 {
            let refused = json!({"kind": "guarded", "reason": format!("{nth} {name}")});
            add(7_000_000 - nth * nth * 900, "unmountdevice", "ERROR", "end: Failure", refused);
            let failed = json!({"kind": "host", "reason": format!("{nth} {name} failed")});
            add(6_000_000 - nth * 77_777, "mount", "ERROR", "end: Failure", failed);
            add(
                60_000 - nth * 900,
                "mount",
                "INFO",
                "end: Success",
                json!({"outcome": "Done", "pod": format!("{nth}"), "pod_name": format!("{nth} {name}")}),
            );
        }
    }
    let day = incloud_disk::model::timestamp::day(now);
    fs::write(folder.join(format!("incloud-disk.{day}.jsonl")), lines).unwrap();
}

#[test]
fn names_that_mean_harm_do_none_and_nothing_is_cut_off() {
    let test = "names_that_mean_harm_do_none_and_nothing_is_cut_off";
    let Some(mut browser) = Browser::start(test) else { return };
    let node = Node::new();
    hostile(&node);
    let page = node.base().join("page.html");
    node.verb(&["report", "--since", "2d", "--out", page.to_str().unwrap()]).unwrap();
    for (name, screen) in SCREENS {
        browser.show(&page, screen);
        assert!(browser.value("document.querySelectorAll('figure').length").as_u64() >= Some(6));
        assert_eq!(browser.faults(), json!([]), "{name}");
        assert_eq!(browser.value("typeof window.harmed"), "undefined", "{name}");
        assert_eq!(browser.value("document.querySelectorAll('script, [onload]').length"), 0);
        let picture = browser.picture();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("hostile-{name}.png")), from_base64(&picture)).unwrap();
    }
}
