//! The page of stories that are usual, and of names that are not.

use super::super::document::Section;
use super::*;
use crate::model::report::health::Verdict;
use crate::model::report::lanes::{Happening, Present, PresentDisk, Shift, lanes};
use crate::model::text::visible;
use std::collections::BTreeSet;

const MADE: u64 = 1_795_233_600_000;

/// A report of fixed facts, which a browser has drawn: `tests/browser/sample.html`.
pub(in crate::operator::report) fn sample() -> Document {
    let happenings = |names: &[&str]| {
        let one = |second: u64, sign, shift, disk: &str, pod: &str, text: &str| Happening {
            at: MADE - 900_000 + second * 1000,
            until: None,
            count: 1,
            sign,
            shift,
            disk: Some(disk.to_owned()).filter(|disk| !disk.is_empty()),
            pod: Some(pod.to_owned()).filter(|pod| !pod.is_empty()),
            what: "mountdevice".to_owned(),
            text: text.to_owned(),
        };
        let pod = names[0];
        let mut all = vec![
            one(0, Sign::Done, Shift::Arrives, "vdc", "", "attached"),
            one(1, Sign::Done, Shift::Arrives, "vdc", "", "mounted vdc"),
            one(2, Sign::Done, Shift::PodGets, "vdc", pod, "mounted for the pod"),
            one(300, Sign::Done, Shift::None, "vdc", pod, "let go of the folder"),
            one(
                760,
                Sign::Kernel,
                Shift::Ends,
                "vdc",
                "",
                "EXT4-fs (vdc): shut down requested (2)",
            ),
            one(761, Sign::Kernel, Shift::None, "vdc", "", "I/O error, dev vdc, sector 8"),
            one(770, Sign::Failed, Shift::None, "vdc", "", "FAILED, missing: no disk shows it"),
            one(772, Sign::Failed, Shift::None, "vdc", "", "FAILED, missing: no disk shows it"),
            one(820, Sign::Done, Shift::Arrives, "vdd", "", "attached"),
            one(
                821,
                Sign::Healed,
                Shift::Arrives,
                "vdd",
                "",
                "3 mounts in 2 namespaces put onto vdd",
            ),
            one(
                824,
                Sign::NoLongerRefused,
                Shift::None,
                "",
                "",
                "unmountdevice is no longer refused",
            ),
            one(840, Sign::Open, Shift::None, "vdd", "", "its end is not in the log"),
            one(850, Sign::Note, Shift::None, "vdd", "", "asked what would be done"),
        ];
        let mut refused =
            one(310, Sign::Refused, Shift::None, "vdc", pod, "REFUSED (12 times): it is used");
        (refused.count, refused.until) = (12, Some(refused.at + 400_000));
        all.push(refused);
        all
    };
    let panel = |title: &str, health, pods: &[&str]| {
        let names = pods.iter().map(|pod| vec![(*pod).to_owned()]).collect();
        let present = Present { disk: PresentDisk::Here("vdd".to_owned()), pods: names };
        let span = (MADE - 86_400_000, MADE);
        let lanes = lanes(happenings(pods), span, Some(&present));
        Panel { title: title.to_owned(), health: Some(health), span, lanes }
    };
    let verdict = Verdict {
        health: Health::Stale,
        consequence: Some(
            "Reads and writes fail: its mounts stand on a disk that is gone".to_owned(),
        ),
        because: "2 mounts stand on 253:32".to_owned(),
        next: Some("put its mounts onto the disk that came back".to_owned()),
        command: Some("sudo disk heal 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5".into()),
        notes: Vec::new(),
    };
    let titles = [
        "pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44, 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5",
        "pvc-78dece18-205d-4acf-b432-2ba27f817dfb, 8b0cc218-640f-44f3-8288-d7b57835a084",
    ];
    Document {
        node: "node-a".to_owned(),
        head: vec![("node", "node-a".to_owned()), ("times", "all are UTC".to_owned())],
        volumes: 2,
        verdicts: vec![VolumeVerdict {
            title: titles[0].to_owned(),
            pods: vec!["shop/prometheus-0".to_owned()],
            verdict,
        }],
        findings: (0, 1),
        panels: vec![
            panel(titles[0], Health::Stale, &["shop/prometheus-0"]),
            panel(titles[1], Health::Ok, &["shop/web-0", "shop/web-1-with-a-rather-long-name"]),
        ],
        sections: vec![
            Section::new("doctor", "disk doctor", "ok       kernel         6.1\n".to_owned()),
            Section::new(
                "history",
                "disk history",
                "03:50:23.500  attach  38 ms  attached\n".to_owned(),
            ),
        ],
        ..Document::default()
    }
}

/// The tags of a page in their order; an error where one is not closed, or an attribute is not ours.
fn tags(page: &str) -> Vec<String> {
    const EMPTY: [&str; 4] = ["!DOCTYPE", "meta", "path", "rect"];
    let (head, body) = page.split_once("<style>").unwrap();
    let (_, body) = body.split_once("</style>").unwrap();
    let page = format!("{head}{body}");
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let mut rest = page.as_str();
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').unwrap();
        rest = after;
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap().to_owned();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else {
            for attribute in tag.split('"').step_by(2).filter_map(|a| a.split_whitespace().last()) {
                assert!(!attribute.starts_with("on") && attribute != "style=", "{tag}");
            }
            if !tag.ends_with('/') && !EMPTY[..2].contains(&name.as_str()) {
                open.push(name.clone());
            }
            all.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    all
}

/// What stands between the tags.
fn words(page: &str) -> String {
    let (_, body) = page.split_once("</style>").unwrap();
    let parts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text: String = parts.collect();
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    signs.iter().fold(text, |text, (from, to)| text.replace(from, to))
}

#[test]
fn the_page_needs_nothing_and_runs_nothing() {
    let page = page(&sample());
    let names: BTreeSet<_> = tags(&page).into_iter().collect();
    let active = [
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "form",
        "input",
        "foreignObject",
        "use",
        "image",
        "base",
        "animate",
        "set",
    ];
    assert!(active.iter().all(|name| !names.contains(*name)), "{names:?}");
    for reference in page.match_indices("href=\"").chain(page.match_indices("url(")) {
        let target = &page[reference.0 + reference.1.len()..];
        assert!(target.starts_with('#'), "{}", &target[..40]);
    }
    for word in ["src=", "http:", "https:", "@import", "javascript:", "data:", "//"] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'; style-src 'sha256-"), "{page}");
    // As `openssl dgst -sha256 -binary | base64` says of "".
    assert_eq!(
        BASE64_STANDARD.encode(digest(&SHA256, b"")),
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    );
}

const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='x",
    "&lt;&amp;",
    "a\u{202e}b\u{2066}\u{0}\u{1b}[2J\n<b>",
    "</pre></title></style><script>",
    "]]>--><!--",
];

#[test]
fn what_others_name_is_a_text_everywhere() {
    let long = "x".repeat(10_000);
    for name in HOSTILE.into_iter().chain([long.as_str()]) {
        let name = visible(name).into_owned();
        let mut document = sample();
        document.node.clone_from(&name);
        document.head.push(("node", name.clone()));
        document.about = Some(name.clone());
        for panel in &mut document.panels {
            panel.title.clone_from(&name);
            for lane in &mut panel.lanes {
                if matches!(lane.kind, LaneKind::Pod(_)) {
                    lane.kind = LaneKind::Pod(name.clone());
                }
                lane.marks.iter_mut().for_each(|mark| mark.text.clone_from(&name));
                lane.marks.iter_mut().for_each(|mark| mark.what.clone_from(&name));
                lane.bars.iter_mut().for_each(|bar| bar.label.clone_from(&name));
            }
        }
        for volume in &mut document.verdicts {
            volume.title.clone_from(&name);
            volume.pods = vec![name.clone()];
            volume.verdict.next = Some(name.clone());
            volume.verdict.command = Some(name.as_str().into());
            volume.verdict.consequence = Some(name.clone());
        }
        document.sections.push(Section::new("x", name.clone(), name.clone()));
        let page = page(&document);
        let usual: BTreeSet<_> = tags(&self::page(&sample())).into_iter().collect();
        let found: BTreeSet<_> = tags(&page).into_iter().collect();
        assert!(found.is_subset(&usual), "{name}: {found:?}");
        assert!(words(&page).contains(&name), "{name}");
        assert!(page.len() < 2_000_000, "{}", page.len());
    }
}

/// Without eyes, without a browser: each row of the tables has its words in the text.
#[test]
fn the_table_has_all_that_is_drawn() {
    let document = sample();
    for panel in &document.panels {
        let marks: usize = panel.lanes.iter().map(|lane| lane.marks.len() + lane.bars.len()).sum();
        assert_eq!(rows(panel).len(), marks);
        assert!(rows(panel).is_sorted_by_key(|(at, _, _)| *at));
    }
    let page = page(&document);
    assert_eq!(page.matches("<title id=").count(), 4, "a title for each picture");
    assert_eq!(page.matches("<desc id=").count(), 4);
    let ids: Vec<_> =
        page.split(" id=\"").skip(1).map(|at| at.split('"').next().unwrap()).collect();
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    for target in page.split("href=\"#").skip(1).map(|at| at.split('"').next().unwrap()) {
        assert!(ids.contains(&target), "{target}");
    }
}

/// The page of the sample, as it is drawn and looked at: `SAMPLE=write` writes it anew.
#[test]
fn the_page_is_the_one_that_was_looked_at() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/sample.html");
    let page = page(&sample());
    if std::env::var_os("SAMPLE").is_some_and(|word| word == "write") {
        std::fs::write(&path, &page).unwrap();
    }
    let looked_at = std::fs::read_to_string(&path).unwrap();
    assert!(
        looked_at == page,
        "look at it, and write it anew: SAMPLE=write, then tests/run report"
    );
}

/// The colours of the style by their names, for light and for dark.
fn colours() -> [std::collections::BTreeMap<&'static str, [f64; 3]>; 2] {
    let mut both = STYLE.split(":root{").skip(1);
    [(); 2].map(|()| {
        let block = both.next().unwrap().split('}').next().unwrap();
        let each = block.split(';').filter_map(|one| one.strip_prefix("--")?.split_once(":#"));
        let colour = |digits: &str| {
            let digits = if digits.len() == 3 {
                digits.chars().flat_map(|digit| [digit, digit]).collect()
            } else {
                digits.to_owned()
            };
            [0, 2, 4].map(|at| {
                let part = f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap()) / 255.0;
                if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
            })
        };
        each.map(|(name, digits)| (name, colour(digits))).collect()
    })
}

#[test]
fn what_is_written_can_be_read_on_what_it_stands_on() {
    for colours in colours() {
        let light = |name: &str| {
            let [red, green, blue] = colours[name];
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        for (text, below) in [
            ("fg", "bg"),
            ("fg", "panel"),
            ("fg", "bar"),
            ("dim", "bg"),
            ("dim", "panel"),
            ("link", "bg"),
            ("good", "goodbg"),
            ("doubt", "doubtbg"),
            ("bad", "badbg"),
            ("heal", "healbg"),
            ("bad", "bg"),
            ("doubt", "bg"),
            ("good", "bg"),
            ("heal", "bg"),
        ] {
            let (one, other) = (light(text), light(below));
            let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
            assert!(contrast >= 4.5, "{text} on {below}: {contrast:.2}");
        }
    }
}
