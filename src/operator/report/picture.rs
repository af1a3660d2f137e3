//! What happened to one volume, drawn: one lane below the other, in SVG. It is drawn twice, for a wide screen
//! and for a narrow one, where signs would be too small to read; the page shows the one that fits.

use super::axis::{Axis, Tenths};
use super::document::Panel;
use crate::host::zone::LOCAL;
use crate::model::report::lanes::{BarEnd, LaneBar, LaneKind, LaneMark, Sign, TimeLane};
use crate::model::sorting::sort_by_key;
use crate::model::text::{html_escaped, several, shortened};
use crate::model::timestamp;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthChar;

/// A screen that it is drawn for.
#[derive(Debug)]
pub(super) struct Screen {
    word: &'static str,
    width: Tenths,
    /// Where the time begins: beside the names of the lanes, or below them.
    left: Tenths,
    columns: Tenths,
    lane_height: Tenths,
    /// Where in a lane its name and its line stand, and how long the name may be.
    name: Tenths,
    name_room: Tenths,
    line: Tenths,
    breaks: usize,
}

pub(super) const WIDE: Screen = Screen {
    word: "wide",
    width: 10_800,
    left: 1580,
    columns: 35,
    lane_height: 280,
    name: 185,
    name_room: 1480,
    line: 140,
    breaks: 5,
};

pub(super) const NARROW: Screen = Screen {
    word: "narrow",
    width: 3600,
    left: 40,
    columns: 13,
    lane_height: 420,
    name: 130,
    name_room: 3420,
    line: 285,
    breaks: 2,
};

/// Marks that stand in one such column are one.
const COLUMN: Tenths = 260;

/// Half of a single mark.
const HALF: Tenths = 60;

/// So many pods have lanes of their own.
const PODS: usize = 12;

/// A longer text is cut where a mouse rests; the table has all of it.
const LONGEST_TITLE: usize = 300;

impl Screen {
    /// Where the time ends: whole columns behind its beginning.
    fn right(&self) -> Tenths {
        self.left + self.columns * COLUMN
    }
}

/// A drawing in the making.
struct Drawing<'a> {
    svg: String,
    screen: &'a Screen,
    axis: Axis,
}

/// Draws the lanes of a panel; `number` makes its names unlike those of others.
pub(super) fn picture(panel: &Panel, number: usize, screen: &Screen) -> String {
    let (shown, left_out) = shown(&panel.lanes);
    let edges = (screen.left, screen.right());
    let axis = Axis::new(&times(&shown), panel.span, edges, screen.breaks);
    let rows = shown.len() as u64 + u64::from(left_out > 0);
    let (top, lane_height) = (180, screen.lane_height);
    let bottom = top + rows * lane_height;
    let (width, height) = (screen.width, bottom + 370);
    let id = format!("{}{number}", screen.word);
    let mut drawing = Drawing { svg: String::new(), screen, axis };
    drawing.svg += &format!(
        "<svg class=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}t {id}d\">\n\
         <title id=\"{id}t\">What happened to {}</title>\n<desc id=\"{id}d\">{}</desc>\n\
         <defs><pattern id=\"{id}p\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><path class=\"hatch\" d=\"M0 0V6\"/></pattern></defs>\n",
        screen.word,
        tenths(width),
        tenths(height),
        html_escaped(&shortened(&panel.title, LONGEST_TITLE)),
        html_escaped(&description(panel)),
    );
    drawing.time(top, bottom);
    for (place, lane) in shown.iter().enumerate() {
        drawing.lane(lane, top + place as u64 * lane_height, &id);
    }
    if left_out > 0 {
        let text = format!("and {}: see the table", several(left_out, "more pod", "more pods"));
        drawing.text("lane", 0, bottom - lane_height + 180, &text);
    }
    drawing.svg += "</svg>\n";
    drawing.svg
}

/// The lanes that are drawn, and how many are not.
fn shown(lanes: &[TimeLane]) -> (Vec<&TimeLane>, usize) {
    let is_pod = |lane: &&TimeLane| matches!(lane.kind, LaneKind::Pod(_));
    let mut pods: Vec<&TimeLane> = lanes.iter().filter(is_pod).collect();
    // Those that had it last.
    let last = |lane: &&TimeLane| lane.bars.iter().map(|bar| bar.until).max();
    sort_by_key(&mut pods, |lane| std::cmp::Reverse(last(lane)));
    let left_out = pods.split_off(pods.len().min(PODS));
    let is_left_out = |lane: &&TimeLane| left_out.iter().any(|other| other.kind == lane.kind);
    (lanes.iter().filter(|lane| !is_left_out(lane)).collect(), left_out.len())
}

fn times(lanes: &[&TimeLane]) -> Vec<u64> {
    let mut times = Vec::new();
    for lane in lanes {
        for mark in &lane.marks {
            times.push(mark.at);
            times.extend(mark.until);
        }
        for bar in &lane.bars {
            times.extend((!bar.is_from_before).then_some(bar.from));
            times.extend((bar.end != BarEnd::Now).then_some(bar.until));
        }
    }
    times
}

/// For those who hear it.
fn description(panel: &Panel) -> String {
    let lane = |lane: &TimeLane| {
        let marks: u64 = lane.marks.iter().map(|mark| mark.count).sum();
        let bars: Vec<_> = lane.bars.iter().map(|bar| bar.label.as_str()).collect();
        match &lane.kind {
            LaneKind::Pod(name) => format!("pod {name}"),
            LaneKind::Disk => format!("disk {}", bars.join(", then ")),
            kind => format!("{}: {marks}", kind.label()),
        }
    };
    let lanes: Vec<_> = panel.lanes.iter().map(lane).collect();
    let (from, until) = (LOCAL.text(panel.span.0), LOCAL.text(panel.span.1));
    let text =
        format!("From {from} to {until}. {}. The table below has all of it.", lanes.join("; "));
    shortened(&text, 1000).into_owned()
}

/// `12.5`, as SVG has it.
fn tenths(number: Tenths) -> String {
    match number % 10 {
        0 => (number / 10).to_string(),
        part => format!("{}.{part}", number / 10),
    }
}

/// How wide a text is drawn: signs of East Asia are twice as wide.
fn width_of(text: &str) -> Tenths {
    text.chars().map(|sign| 70 * UnicodeWidthChar::width(sign).unwrap_or(1) as u64).sum()
}

/// The beginning of a text that has the room, if that is more than a letter or two.
fn fitted(text: &str, room: Tenths) -> Option<String> {
    if width_of(text) <= room {
        return Some(text.to_owned());
    }
    let mut used = 70;
    let fits = |sign: &char| {
        used += 70 * UnicodeWidthChar::width(*sign).unwrap_or(1) as u64;
        used <= room
    };
    let begin: String = text.chars().take_while(fits).collect();
    (begin.chars().count() > 3).then(|| begin + "…")
}

impl Drawing<'_> {
    fn text(&mut self, class: &str, x: Tenths, y: Tenths, text: &str) {
        let (x, y, text) = (tenths(x), tenths(y), html_escaped(text));
        self.svg += &format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n");
    }

    /// The ticks, and where the time is broken.
    fn time(&mut self, top: Tenths, bottom: Tenths) {
        for tick in self.axis.ticks() {
            let (x, top, end) = (tenths(tick.at), tenths(top), tenths(bottom + 40));
            self.svg += &format!("<path class=\"tick\" d=\"M{x} {top}V{end}\"/>\n");
            self.text("time", tick.label_at, bottom + 180, &tick.label);
            if let Some(day) = tick.day {
                self.text("time", tick.label_at, bottom + 330, &day);
            }
        }
        for one in self.axis.breaks.clone() {
            let (x, width) = (tenths(one.left), tenths(one.right - one.left));
            let (y, height) = (tenths(top), tenths(bottom - top));
            let span = timestamp::duration(one.span);
            self.svg += &format!(
                "<rect class=\"break\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
                 <title>{span} in which nothing happened are left out</title></rect>\n"
            );
            let middle = Tenths::midpoint(one.left, one.right).saturating_sub(width_of(&span) / 2);
            self.text("skipped", middle, top.saturating_sub(50), &span);
        }
    }

    fn lane(&mut self, lane: &TimeLane, top: Tenths, id: &str) {
        let (left, right) = (self.screen.left, self.screen.right());
        let base = top + self.screen.line;
        let label = fitted(lane.kind.label(), self.screen.name_room);
        let label = label.unwrap_or_else(|| "…".to_owned());
        let y = tenths(base);
        self.svg += &format!(
            "<g><title>{}</title>\n<path class=\"line\" d=\"M{} {y}H{}\"/>\n",
            html_escaped(&shortened(lane.kind.label(), LONGEST_TITLE)),
            tenths(left),
            tenths(right),
        );
        self.text("lane", 0, top + self.screen.name, &label);
        for (place, bar) in lane.bars.iter().enumerate() {
            let next = lane.bars.get(place + 1).map_or(right, |next| self.axis.at(next.from));
            self.bar(bar, base, next, id);
        }
        for mark in &lane.marks {
            self.repeated(mark, base);
        }
        for group in self.columns(&lane.marks) {
            self.mark(&group, base);
        }
        self.svg += "</g>\n";
    }

    fn bar(&mut self, bar: &LaneBar, base: Tenths, next: Tenths, id: &str) {
        const HEIGHT: Tenths = 190;
        let (from, until) = (self.axis.at(bar.from), self.axis.at(bar.until));
        let width = until.saturating_sub(from).max(20);
        let class = if bar.is_gone { "bar gone" } else { "bar there" };
        let fill = if bar.is_gone { format!(" fill=\"url(#{id}p)\"") } else { String::new() };
        let (x, y) = (tenths(from), tenths(base - HEIGHT / 2));
        self.svg += &format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\"{fill}><title>{}</title></rect>\n",
            tenths(width),
            tenths(HEIGHT),
            html_escaped(&shortened(&bar.told(), LONGEST_TITLE)),
        );
        let begin = if bar.is_from_before { "‹ " } else { "" };
        let end = if bar.end == BarEnd::Unknown { " ?" } else { "" };
        let label = format!("{begin}{}{end}", bar.label);
        let inside = fitted(&label, width.saturating_sub(120));
        // Beside it, if the next one leaves the room.
        let free = next.saturating_sub(until + 60);
        let beside = if width_of(&label) <= free { Some(label) } else { None };
        match (inside, beside) {
            (Some(label), None) => self.text("name", from + 60, base + 45, &label),
            (Some(label), Some(whole)) if label == whole => {
                self.text("name", from + 60, base + 45, &label);
            }
            (_, Some(label)) => self.text("name beside", until + 50, base + 45, &label),
            (None, None) => {}
        }
    }

    /// How long something was repeated.
    fn repeated(&mut self, mark: &LaneMark, base: Tenths) {
        let Some(until) = mark.until else { return };
        let (from, until) = (self.axis.at(mark.at), self.axis.at(until));
        if until > from + COLUMN / 2 {
            let (x, y, end) = (tenths(from), tenths(base), tenths(until));
            let class = class(mark.sign);
            self.svg += &format!("<path class=\"span {class}\" d=\"M{x} {y}H{end}\"/>\n");
        }
    }

    /// Marks by the column in which they stand, with the place at which they are drawn.
    fn columns<'a>(&self, marks: &'a [LaneMark]) -> Vec<(Tenths, Vec<&'a LaneMark>)> {
        let left = self.screen.left;
        let last = self.screen.columns - 1;
        let mut columns: BTreeMap<Tenths, Vec<&LaneMark>> = BTreeMap::new();
        for mark in marks {
            let x = self.axis.at(mark.at).saturating_sub(left);
            columns.entry((x / COLUMN).min(last)).or_default().push(mark);
        }
        let place = |(column, group): (Tenths, Vec<&'a LaneMark>)| {
            let all: Tenths = group.iter().map(|mark| self.axis.at(mark.at) - left).sum();
            let mean = all / group.len().max(1) as u64;
            // Of two columns beside each other no mark touches the other's.
            let (nearest, farthest) = (column * COLUMN + 125, column * COLUMN + COLUMN - 125);
            (left + mean.clamp(nearest, farthest), group)
        };
        columns.into_iter().map(place).collect()
    }

    fn mark(&mut self, (x, group): &(Tenths, Vec<&LaneMark>), base: Tenths) {
        let count: u64 = group.iter().map(|mark| mark.count).sum();
        let Some(worst) = group.iter().map(|mark| mark.sign).max() else { return };
        let title = html_escaped(&shortened(&told(group), LONGEST_TITLE)).into_owned();
        let class = class(worst);
        if count > 1 {
            let label = if count > 99 { "99+".to_owned() } else { count.to_string() };
            // What failed has corners.
            let round = if is_bad(worst) { 0 } else { 80 };
            self.svg += &format!(
                "<g class=\"many {class}\"><title>{title}</title><rect x=\"{}\" y=\"{}\" width=\"24\" height=\"17\" rx=\"{}\"/>\
                 <text x=\"{}\" y=\"{}\">{label}</text></g>\n",
                tenths(x.saturating_sub(120)),
                tenths(base - 85),
                tenths(round),
                tenths(*x),
                tenths(base + 40),
            );
            return;
        }
        let shape = shape(worst, *x, base);
        self.svg +=
            &format!("<path class=\"one {class}\" d=\"{shape}\"><title>{title}</title></path>\n");
    }
}

/// What a mark says to a mouse.
fn told(group: &[&LaneMark]) -> String {
    let one = |mark: &LaneMark| format!("{} {}: {}", LOCAL.clock(mark.at), mark.what, mark.text);
    match group {
        [mark] => one(mark),
        [first, .., last] => {
            let count: u64 = group.iter().map(|mark| mark.count).sum();
            let (from, until) = (LOCAL.clock(first.at), LOCAL.clock(last.at));
            let worst = group.iter().max_by_key(|mark| mark.sign).map_or(*first, |mark| *mark);
            format!("{count} from {from} to {until}; among them {}", one(worst))
        }
        [] => String::new(),
    }
}

fn is_bad(sign: Sign) -> bool {
    matches!(sign, Sign::Failed | Sign::NotHealed | Sign::Kernel)
}

/// The class that has its colour.
pub(super) fn class(sign: Sign) -> &'static str {
    match sign {
        Sign::Done => "done",
        Sign::Note | Sign::Kubelet | Sign::KernelNote => "note",
        Sign::Open => "open",
        Sign::Failed | Sign::NotHealed => "failed",
        Sign::Refused => "refused",
        Sign::NoLongerRefused => "ended",
        Sign::Healed => "healed",
        Sign::Kernel => "kernel",
    }
}

/// The path of a mark: each has a shape of its own, for those who see no colours.
pub(super) fn shape(sign: Sign, x: Tenths, y: Tenths) -> String {
    let place = |right: i64, down: i64| {
        let of = |base: Tenths, by: i64| tenths(base.saturating_add_signed(by));
        format!("{} {}", of(x, right), of(y, down))
    };
    let h = HALF.cast_signed();
    let polygon = |corners: &[(i64, i64)]| {
        let corners: Vec<_> = corners.iter().map(|(right, down)| place(*right, *down)).collect();
        format!("M{}Z", corners.join("L"))
    };
    match sign {
        Sign::Done | Sign::Open => format!(
            "M{}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z",
            place(-h, 0),
            r = tenths(HALF),
            d = tenths(2 * HALF)
        ),
        Sign::Note | Sign::Kubelet | Sign::KernelNote => polygon(&[(-h, -h), (h, -h), (0, h)]),
        Sign::Failed | Sign::NotHealed => {
            format!("M{}L{}M{}L{}", place(-h, -h), place(h, h), place(-h, h), place(h, -h))
        }
        Sign::Refused | Sign::NoLongerRefused => {
            polygon(&[(0, -h - 15), (h + 15, 0), (0, h + 15), (-h - 15, 0)])
        }
        Sign::Healed => {
            format!("M{}L{}M{}L{}", place(0, -h), place(0, h), place(-h, 0), place(h, 0))
        }
        Sign::Kernel => polygon(&[(0, -h), (h, h), (-h, h)]),
    }
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
