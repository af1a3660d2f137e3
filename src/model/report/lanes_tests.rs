//! Lanes of stories that are usual, and of some that are not.

use super::*;

const BEGIN: Millis = 1_000_000;
const END: Millis = 2_000_000;

fn one(second: u64, sign: Sign, shift: Shift, disk: &str, pod: &str) -> Happening {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Happening {
        at: BEGIN + second * 1000,
        until: None,
        count: 1,
        sign,
        shift,
        disk: some(disk),
        pod: some(pod),
        what: "call".to_owned(),
        text: format!("{sign:?} at {second}"),
    }
}

fn bars(all: &[TimeLane], kind: &LaneKind) -> Vec<(String, i64, i64, BarEnd)> {
    let lane = all.iter().find(|lane| lane.kind == *kind);
    let second = |at: Millis| (at.cast_signed() - BEGIN.cast_signed()) / 1000;
    let bar = |bar: &LaneBar| {
        let before = if bar.is_from_before { "<" } else { "" };
        (format!("{before}{}", bar.label), second(bar.from), second(bar.until), bar.end)
    };
    lane.map(|lane| lane.bars.iter().map(bar).collect()).unwrap_or_default()
}

fn pod(name: &str) -> LaneKind {
    LaneKind::Pod(name.to_owned())
}

fn present(disk: &str, pods: &[&str]) -> Present {
    let pods = pods.iter().map(|pod| vec![(*pod).to_owned(), format!("uid-of-{pod}")]).collect();
    Present { disk: PresentDisk::Here(disk.to_owned()), pods }
}

/// The disk is pulled, comes back under another letter, and the mounts are healed.
#[test]
fn a_disk_that_went_and_came_back_has_two_bars_and_a_gap() {
    let story = vec![
        one(0, Sign::Done, Shift::Arrives, "vdc", ""),
        one(10, Sign::Done, Shift::PodGets, "vdc", "shop/a"),
        one(100, Sign::Refused, Shift::None, "vdc", "shop/a"),
        one(200, Sign::Kernel, Shift::Ends, "vdc", ""),
        one(201, Sign::Kernel, Shift::Ends, "vdc", ""),
        one(210, Sign::Failed, Shift::None, "vdc", ""),
        one(300, Sign::Done, Shift::Arrives, "vdd", ""),
        one(310, Sign::Healed, Shift::Arrives, "vdd", ""),
    ];
    let all = lanes(story, (BEGIN, END), Some(&present("vdd", &["shop/a"])));
    let kinds: Vec<_> = all.iter().map(|lane| lane.kind.label()).collect();
    assert_eq!(kinds, ["calls", "refusals", "disk", "heals", "shop/a", "kernel"]);
    assert_eq!(
        bars(&all, &LaneKind::Disk),
        [
            ("vdc".to_owned(), 0, 200, BarEnd::Seen),
            (GONE.to_owned(), 200, 300, BarEnd::Seen),
            ("vdd".to_owned(), 300, 1000, BarEnd::Now),
        ]
    );
    assert_eq!(bars(&all, &pod("shop/a")), [("shop/a".to_owned(), 10, 1000, BarEnd::Now)]);
    assert_eq!(all[0].marks.len(), 4);
}

#[test]
fn what_was_so_before_begins_before() {
    let story = vec![
        one(50, Sign::Refused, Shift::None, "vdc", ""),
        one(60, Sign::Done, Shift::PodLoses, "vdc", "a"),
        one(90, Sign::Done, Shift::Leaves, "", ""),
    ];
    let all = lanes(story, (BEGIN, END), None);
    assert_eq!(bars(&all, &LaneKind::Disk), [("<vdc".to_owned(), 0, 90, BarEnd::Seen)]);
    assert_eq!(bars(&all, &pod("a")), [("<a".to_owned(), 0, 60, BarEnd::Seen)]);
    let mut early = one(0, Sign::Done, Shift::Arrives, "vdc", "");
    early.at = 5;
    let mut gets = one(0, Sign::Done, Shift::PodGets, "vdc", "a");
    gets.at = 6;
    let all = lanes(vec![early, gets], (BEGIN, END), Some(&present("vdc", &["a"])));
    assert_eq!(bars(&all, &LaneKind::Disk), [("<vdc".to_owned(), 0, 1000, BarEnd::Now)]);
    assert_eq!(bars(&all, &pod("a")), [("<a".to_owned(), 0, 1000, BarEnd::Now)]);
    assert!(all.iter().all(|lane| lane.marks.is_empty()), "what was before has no mark: {all:?}");
}

#[test]
fn what_is_seen_now_counts_without_a_log() {
    let all = lanes(Vec::new(), (BEGIN, END), Some(&present("vdc", &["a"])));
    assert_eq!(bars(&all, &LaneKind::Disk), [("<vdc".to_owned(), 0, 1000, BarEnd::Now)]);
    assert_eq!(bars(&all, &pod("a")), [("<a".to_owned(), 0, 1000, BarEnd::Now)]);
    assert_eq!(lanes(Vec::new(), (BEGIN, END), None), []);
    let gone = Present { disk: PresentDisk::Gone, pods: Vec::new() };
    let story = vec![one(10, Sign::Done, Shift::Arrives, "vdc", "")];
    let all = lanes(story, (BEGIN, END), Some(&gone));
    assert_eq!(
        bars(&all, &LaneKind::Disk),
        [("vdc".to_owned(), 10, 10, BarEnd::Unknown), (GONE.to_owned(), 10, 1000, BarEnd::Now)]
    );
}

/// kubelet was let go of, or unmounted and a container kept its copy.
#[test]
fn a_pod_that_has_it_has_it_whatever_was_unmounted() {
    let story = vec![
        one(10, Sign::Done, Shift::PodGets, "", "uid-of-a"),
        one(20, Sign::Done, Shift::PodLoses, "", "uid-of-a"),
    ];
    let all = lanes(story, (BEGIN, END), Some(&present("vdc", &["a"])));
    assert_eq!(
        bars(&all, &pod("uid-of-a")),
        [("uid-of-a".to_owned(), 10, 20, BarEnd::Seen), ("a".to_owned(), 20, 1000, BarEnd::Now)]
    );
}

#[test]
fn the_kernels_word_of_another_disk_ends_nothing() {
    let story = vec![
        one(0, Sign::Done, Shift::Arrives, "vdc", ""),
        one(10, Sign::Kernel, Shift::Ends, "vdz", ""),
        one(20, Sign::Kernel, Shift::None, "vdq", ""),
    ];
    let all = lanes(story, (BEGIN, END), Some(&present("vdc", &[])));
    assert_eq!(bars(&all, &LaneKind::Disk), [("vdc".to_owned(), 0, 1000, BarEnd::Now)]);
}

#[test]
fn kubelets_words_have_a_lane_and_say_nothing_of_the_disk() {
    let story = vec![
        one(0, Sign::Done, Shift::Arrives, "vdc", ""),
        one(500, Sign::Kubelet, Shift::None, "", ""),
    ];
    let all = lanes(story, (BEGIN, END), None);
    assert_eq!(
        all.iter().map(|lane| lane.kind.label()).collect::<Vec<_>>(),
        ["calls", "disk", "kubelet"]
    );
    assert_eq!(bars(&all, &LaneKind::Disk), [("vdc".to_owned(), 0, 0, BarEnd::Unknown)]);
}

proptest::proptest! {
    /// Whatever the clock does, and in whatever order: no bar is backward, none is out of sight, and no
    /// happening in sight is without its mark.
    #[test]
    fn every_story_has_lanes(
        parts in proptest::collection::vec((0u64..3000, 0usize..11, 0usize..7, 0usize..3, 0usize..3), 0..60),
        here in 0usize..4,
    ) {
        use Shift::{AllPodsLose, Arrives, Ends, Leaves, PodGets, PodLoses};
        let signs = [
            Sign::Done, Sign::Note, Sign::Open, Sign::Failed, Sign::NoLongerRefused, Sign::Refused,
            Sign::Healed, Sign::NotHealed, Sign::KernelNote, Sign::Kernel, Sign::Kubelet,
        ];
        let shifts = [Shift::None, Arrives, Ends, Leaves, PodGets, PodLoses, AllPodsLose];
        let disks = ["", "vdc", "vdd"];
        let story: Vec<_> = parts.iter().map(|&(at, sign, shift, disk, pod)| {
            let mut one = one(0, signs[sign], shifts[shift], disks[disk], ["", "a", "b"][pod]);
            one.at = BEGIN / 2 + at * 1000;
            // A clock that went back between the first time and the last.
            one.until = (at % 3 == 0).then_some(one.at.saturating_sub(at * 7));
            one
        }).collect();
        let in_sight = story.iter().filter(|one| one.until.unwrap_or(one.at).max(one.at) >= BEGIN).count();
        let now = present(disks[here.min(2)], &["a"]);
        let all = lanes(story, (BEGIN, END), Some(&now).filter(|_| here < 3));
        let marks: usize = all.iter().map(|lane| lane.marks.len()).sum();
        proptest::prop_assert_eq!(marks, in_sight);
        for bar in all.iter().flat_map(|lane| &lane.bars) {
            proptest::prop_assert!(BEGIN <= bar.from && bar.from <= bar.until, "{:?}", bar);
            proptest::prop_assert!(!bar.told().is_empty());
        }
    }
}
