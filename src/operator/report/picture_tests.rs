//! Pictures of stories that are usual, and of some that are not.

use super::*;
use crate::model::report::lanes::{Happening, Present, PresentDisk, Shift, lanes};

const BEGIN: u64 = 1_795_233_000_000;

fn one(at: u64, sign: Sign, shift: Shift) -> Happening {
    Happening {
        at,
        until: None,
        count: 1,
        sign,
        shift,
        disk: Some("vdc".to_owned()),
        pod: Some("shop/a".to_owned()),
        what: "mount".to_owned(),
        text: "mounted".to_owned(),
    }
}

fn panel(story: Vec<Happening>) -> Panel {
    let span = (BEGIN, BEGIN + 86_400_000);
    let pods = vec![vec!["shop/a".to_owned()]];
    let present = Present { disk: PresentDisk::Here("vdc".to_owned()), pods };
    let lanes = lanes(story, span, Some(&present));
    Panel { title: "pv".to_owned(), health: None, span, lanes }
}

/// The numbers of an attribute, such as `x`.
fn numbers(svg: &str, tag: &str, name: &str) -> Vec<f64> {
    let (tag, name) = (format!("<{tag} "), format!(" {name}=\""));
    let of_tag = svg.split(&tag).skip(1).map(|rest| rest.split('>').next().unwrap());
    let tags: Vec<_> = of_tag.map(|tag| format!(" {tag}")).collect();
    let found = tags.iter().filter_map(|tag| tag.split(&name).nth(1));
    found.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

fn check(svg: &str, screen: &Screen) {
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let right = screen.width as f64 / 10.0;
    for (tag, name) in [("text", "x"), ("rect", "x")] {
        for x in numbers(svg, tag, name) {
            assert!((0.0..=right).contains(&x), "{tag} at {x}: {svg}");
        }
    }
    assert!(svg.contains("<title id=") && svg.contains("<desc id="), "{svg}");
    assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
}

#[test]
fn every_number_of_entries_has_a_picture() {
    for count in [0, 1, 2, 100, 10_000] {
        for apart in [0, 1, 8000, 3_600_000] {
            let story = (0..count).map(|nth| one(BEGIN + nth * apart, Sign::Done, Shift::PodGets));
            let panel = panel(story.collect());
            for screen in [&WIDE, &NARROW] {
                let svg = picture(&panel, 1, screen);
                check(&svg, screen);
                assert!(svg.len() < 60_000, "{count} apart {apart}: {}", svg.len());
            }
        }
    }
}

#[test]
fn marks_at_one_moment_are_one_with_their_count() {
    let same = vec![one(BEGIN + 5000, Sign::Done, Shift::None); 12];
    let svg = picture(&panel(same.clone()), 1, &WIDE);
    assert!(svg.contains(">12</text>") && svg.contains("many done"), "{svg}");
    let with_failure = [same, vec![one(BEGIN + 5000, Sign::Failed, Shift::None)]].concat();
    let svg = picture(&panel(with_failure), 1, &WIDE);
    assert!(svg.contains(">13</text>") && svg.contains("many failed"), "the worst is shown: {svg}");
    assert!(svg.contains("rx=\"0\""), "and not by its colour alone");
}

/// Marks of one lane never touch each other, however they are spread.
#[test]
fn marks_do_not_overlap() {
    for apart in [1, 700, 9000, 61_000, 400_000, 1_234_567] {
        let story = (0..200).map(|nth| one(BEGIN + nth * nth * apart / 9, Sign::Done, Shift::None));
        let panel = panel(story.collect());
        for screen in [&WIDE, &NARROW] {
            let axis = Axis::new(
                &times(&shown(&panel.lanes).0),
                panel.span,
                (screen.left, screen.right()),
                5,
            );
            let drawing = Drawing { svg: String::new(), screen, axis };
            let places: Vec<_> =
                drawing.columns(&panel.lanes[0].marks).into_iter().map(|(x, _)| x).collect();
            assert!(places.windows(2).all(|two| two[0] + 240 <= two[1]), "{places:?}");
        }
    }
}

#[test]
fn a_clock_that_went_back_and_an_open_call_are_drawn() {
    let mut back = one(BEGIN + 50_000, Sign::Refused, Shift::None);
    (back.until, back.count) = (Some(BEGIN - 9_000_000), 4);
    let story = vec![
        back,
        one(BEGIN + 10_000, Sign::Open, Shift::None),
        one(BEGIN + 90_000_000, Sign::Done, Shift::Leaves),
    ];
    for screen in [&WIDE, &NARROW] {
        let svg = picture(&panel(story.clone()), 1, screen);
        check(&svg, screen);
        assert!(svg.contains("one open"), "{svg}");
    }
}

#[test]
fn many_pods_do_not_make_an_endless_picture() {
    let story = (0..300).map(|nth| Happening {
        pod: Some(format!(
            "shop/{nth}-with-a-name-that-is-far-too-long-for-the-room-beside-a-lane"
        )),
        ..one(BEGIN + nth * 1000, Sign::Done, Shift::PodGets)
    });
    let svg = picture(&panel(story.collect()), 1, &WIDE);
    assert!(svg.contains("and 289 more pods: see the table"), "{svg}");
    check(&svg, &WIDE);
}

#[test]
fn a_label_has_its_room_or_is_cut() {
    assert_eq!(fitted("shop/a", 1000).as_deref(), Some("shop/a"));
    assert_eq!(fitted("shop/prometheus", 560).as_deref(), Some("shop/pr…"));
    assert_eq!(fitted("磁盘磁盘磁盘", 700).as_deref(), Some("磁盘磁盘…"));
    assert_eq!(fitted("shop", 100), None);
}
