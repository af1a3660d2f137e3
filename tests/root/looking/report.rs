//! The report of a node with one volume of each health, in a real browser. What it showed
//! is kept in `target/tmp/report`.

use super::healths::Healths;
use crate::support::Node;
use crate::support::browser::{Browser, Screen, from_base64};
use serde_json::json;
use std::fs;
use std::path::Path;

/// Shows the page on each screen, and looks at it as far as a program can.
fn look_at(node: &Node, browser: &mut Browser, name: &str) -> (String, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&folder).unwrap();
    let page = folder.join(format!("{name}.html"));
    let _ = fs::remove_file(&page);
    let before = node.log();
    node.verb(&["report", "--out", page.to_str().unwrap()]).unwrap();
    let text = node.verb(&["report", "--text", "--out", "-"]).unwrap();
    assert_eq!(node.log(), before, "looking leaves no trace");
    for (width, is_dark, has_scripts) in
        [(1280, false, true), (1280, true, true), (400, false, true), (400, true, false)]
    {
        browser.show(&page, Screen { width, is_dark, has_scripts });
        assert_eq!(browser.faults(), json!([]), "{name} {width}");
        let colour = browser.value("getComputedStyle(document.body).backgroundColor");
        assert_eq!(colour == "rgb(13, 17, 23)", is_dark, "{name} {width}: {colour}");
        let scheme = if is_dark { "dark" } else { "light" };
        let picture = folder.join(format!("{name}-{width}-{scheme}.png"));
        fs::write(picture, from_base64(&browser.picture())).unwrap();
    }
    (fs::read_to_string(&page).unwrap(), text)
}

#[test]
fn the_report_of_each_health_says_what_to_do_first() {
    needs!(pods);
    let Some(mut browser) = Browser::start("the_report_of_each_health_says_what_to_do_first")
    else {
        return;
    };
    let node = Node::new();
    let scene = Healths::set(&node);
    let (page, text) = look_at(&node, &mut browser, "healths");
    let (first, _) = page.split_once("<nav ").unwrap();
    assert!(first.contains("5 of 6 volumes are not well."), "{first}");
    let heal = format!("disk heal {}", scene.stale.id);
    for words in ["Reads and writes fail", "To do: ", heal.as_str(), "used by shop/mail-0"] {
        assert!(first.contains(words), "{words}: {first}");
    }
    let places: Vec<_> = ["ambiguous", "dead", "stale", "leaked", "guarded"]
        .map(|health| first.find(&format!(">{health}</span>")).expect(health))
        .to_vec();
    assert!(places.is_sorted(), "the worst first: {places:?}");
    for (health, volume) in scene.each() {
        assert!(text.contains(&volume.id), "{health}");
        let explained = text.contains(&format!("disk explain {}", volume.id));
        assert!(explained || health == "ok", "{health}");
    }
}
