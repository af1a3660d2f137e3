//! What people call a volume at night: by its pod, its device, or how its name begins.

use super::healths::Healths;
use super::said;
use crate::checks::number_of;
use crate::support::{Node, has, output_of};

pub fn looks(node: &Node, scene: &Healths) {
    let well = &scene.ok;
    let (letter, link) = (well.letter(), format!("/dev/incloud-disk/{}", well.id));
    let number = number_of(&letter).to_string();
    let (id, pv) = (&well.id[..10], &well.pv[..12]);
    for name in [id, pv, "shop/web-0", "web-0", &letter, &format!("/dev/{letter}"), &number, &link]
    {
        let (text, status) = said(node, &["explain", name]);
        assert_eq!(status, 0, "{name}: {text}");
        assert!(text.starts_with(&format!("{}  {}", well.id, well.pv)), "{name}: {text}");
    }
    // The disk that died under its mounts, which nothing else has by now.
    let (text, _) = said(node, &["explain", &scene.dead_number]);
    has(&text, &[&scene.dead.id, "verdict dead"]);
    let (text, _) = said(node, &["history", "web-0"]);
    has(&text, &["mounted for shop/web-0"]);
    let refused = node.verb(&["explain", "pvc-"]).unwrap_err();
    has(&refused, &["6 volumes go by pvc-", &well.id, &scene.stale.pv, "pods shop/web-0"]);
    has(&node.verb(&["explain", "shop/wbe-0"]).unwrap_err(), &["did you mean shop/web-0?"]);
    has(&node.verb(&["explain", "/dev/null"]).unwrap_err(), &["no volume goes by the name"]);
}

pub fn acts(node: &Node, scene: &Healths) {
    let taken = format!("volume {} ({}", scene.ok.id, scene.ok.pv);
    for words in [
        &["release", "web-0", "--dry-run"][..],
        &["heal", &scene.ok.id[..10], "--dry-run"],
        &["detach", "--force", &scene.ok.letter(), "--dry-run"],
        &["format", "shop/web-0"],
    ] {
        let output = output_of(&mut node.command(words));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.starts_with(&taken), "{words:?}: {text}");
    }
    let before = node.log().len();
    let refused = node.verb(&["release", "pvc-"]).unwrap_err();
    has(&refused, &["6 volumes go by pvc-", "nothing was done"]);
    // What was asked for stands in the log as what it means.
    node.verb(&["release", "shop/web-0", "--dry-run"]).unwrap();
    has(&node.log()[before..], &[&format!("volume {}", scene.ok.id)]);
}
