//! A plot of figures as the text of an SVG file, readable on a light page and on a dark one.
#![allow(dead_code, reason = "each ring uses its own part")]
#![allow(
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::fmt::Write as _;

/// What is drawn: lines over one pair of axes.
#[derive(Debug, Clone)]
pub struct Plot<'a> {
    pub title: &'a str,
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    pub series: Vec<Series>,
}

/// One direction, from 0, or from `least` where the steps are tenfold, to the largest value drawn.
#[derive(Debug, Clone, Copy)]
pub struct Axis<'a> {
    /// What is shown and in which unit: `time, ms`.
    pub name: &'a str,
    pub scale: Scale,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    Linear,
    /// Each step is ten times the one before; the axis begins here, and smaller values lie on its edge.
    Tenfold {
        least: f64,
    },
}

/// One line, named in the legend; its points from left to right.
#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Each value is marked: it was measured, and the line between two is only a guide.
    pub marked: bool,
}

impl Series {
    /// Values that were measured one by one.
    pub fn measured(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, marked: true }
    }

    /// A course of so many values that the line is what is seen.
    pub fn course(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, marked: false }
    }
}

const SIZE: (u32, u32) = (860, 420);
const FONT: &str = "sans-serif";

/// The drawing's colours: as drawn, which is the light page's, and the dark page's.
const INK: (RGBColor, &str) = (RGBColor(0x1f, 0x23, 0x28), "#e6edf3");
const LINES: (RGBColor, &str) = (RGBColor(0xd1, 0xd9, 0xe0), "#3d444d");
const PAPER: (RGBColor, &str) = (RGBColor(0xff, 0xff, 0xff), "#0d1117");
/// Apart for people who see red and green alike, and no two of one brightness beside each other.
const COLOURS: [(RGBColor, &str); 6] = [
    (RGBColor(0x00, 0x5f, 0xb8), "#58a6ff"),
    (RGBColor(0xc7, 0x54, 0x00), "#ffa657"),
    (RGBColor(0x11, 0x7a, 0x55), "#56d4a0"),
    (RGBColor(0x8a, 0x3f, 0xa8), "#d2a8ff"),
    (RGBColor(0x8a, 0x6a, 0x00), "#e3d26b"),
    (RGBColor(0xb0, 0x1f, 0x4f), "#ff8fb3"),
];

/// The text of an SVG file.
pub fn svg(plot: &Plot<'_>) -> String {
    let (x, y) = (largest(plot, |point| point.0), largest(plot, |point| point.1));
    let mut text = String::new();
    // A type for each pair of scales, so four calls of the one function.
    match (plot.x.scale, plot.y.scale) {
        (Scale::Linear, Scale::Linear) => draw(plot, 0.0..x, 0.0..y, &mut text),
        (Scale::Tenfold { least }, Scale::Linear) => {
            draw(plot, (least..x).log_scale(), 0.0..y, &mut text);
        }
        (Scale::Linear, Scale::Tenfold { least }) => {
            draw(plot, 0.0..x, (least..y).log_scale(), &mut text);
        }
        (Scale::Tenfold { least: left }, Scale::Tenfold { least: low }) => {
            draw(plot, (left..x).log_scale(), (low..y).log_scale(), &mut text);
        }
    }
    dressed(&text, plot.title)
}

fn largest(plot: &Plot<'_>, of: impl Fn(&(f64, f64)) -> f64) -> f64 {
    let all = plot.series.iter().flat_map(|series| &series.points).map(of);
    let largest = all.fold(0.0, f64::max);
    if largest > 0.0 { largest * 1.04 } else { 1.0 }
}

/// Where the legend hides least: the upper left, unless lines go there and not to another corner.
fn emptiest_corner(plot: &Plot<'_>) -> SeriesLabelPosition {
    let place = |axis: Axis<'_>, value: f64, most: f64| match axis.scale {
        Scale::Linear => value / most,
        Scale::Tenfold { least } => (value.max(least) / least).log10() / (most / least).log10(),
    };
    let (right, top) = (largest(plot, |point| point.0), largest(plot, |point| point.1));
    let points = plot.series.iter().flat_map(|series| &series.points);
    let places: Vec<_> =
        points.map(|(x, y)| (place(plot.x, *x, right), place(plot.y, *y, top))).collect();
    let hidden = |is_left: bool, is_upper: bool| {
        let is_there = |(x, y): &&(f64, f64)| {
            (if is_left { *x < 0.35 } else { *x > 0.65 })
                && (if is_upper { *y > 0.6 } else { *y < 0.4 })
        };
        places.iter().filter(is_there).count()
    };
    [
        (SeriesLabelPosition::UpperLeft, hidden(true, true)),
        (SeriesLabelPosition::LowerRight, hidden(false, false)),
        (SeriesLabelPosition::LowerLeft, hidden(true, false)),
        (SeriesLabelPosition::UpperRight, hidden(false, true)),
    ]
    .into_iter()
    .min_by_key(|(_, hidden)| *hidden)
    .map_or(SeriesLabelPosition::UpperLeft, |(corner, _)| corner)
}

fn draw<X, Y>(plot: &Plot<'_>, x: X, y: Y, text: &mut String)
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let ink = |size: f64| (FONT, size * 1.24).into_font().color(&INK.0);
    area.fill(&PAPER.0).expect("a page");
    let area = area.margin(12, 12, 12, 20);
    let area = area.titled(plot.title, ink(19.0)).expect("a title");
    let mut chart = ChartBuilder::on(&area)
        .x_label_area_size(46)
        .y_label_area_size(68)
        .build_cartesian_2d(x, y)
        .expect("axes");
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(LINES.0)
        .light_line_style(TRANSPARENT)
        .axis_style(LINES.0)
        .label_style(ink(13.0))
        .axis_desc_style(ink(14.0))
        .x_desc(plot.x.name)
        .y_desc(plot.y.name)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()
        .expect("a mesh");
    for (series, (colour, _)) in plot.series.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(series.points.iter().copied(), style))
            .expect("a line")
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        if series.marked {
            let dots = series.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(dots).expect("dots");
        }
    }
    if plot.series.len() > 1 {
        chart
            .configure_series_labels()
            .position(emptiest_corner(plot))
            .margin(8)
            .background_style(PAPER.0.mix(0.85))
            .label_font(ink(14.0))
            .draw()
            .expect("a legend");
    }
    area.present().expect("a text");
}

/// As short as the number allows: `5,000`, `0.25`, `1.5`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "what the axis asks for")]
fn number(value: &f64) -> String {
    let digits = if value.abs() >= 10.0 || value.fract() == 0.0 { 0 } else { 2 };
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let (whole, rest) =
        text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        let _ = write!(out, ".{rest}");
    }
    out
}

/// Adds the name that a reader hears, and the colours of a dark page.
fn dressed(drawn: &str, title: &str) -> String {
    let (head, rest) = drawn.split_once('>').expect("the root element");
    let mut rules = String::new();
    for (light, dark) in [INK, LINES, PAPER].iter().chain(&COLOURS) {
        let RGBColor(red, green, blue) = light;
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        let _ =
            write!(rules, "[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let mut text = format!(
        "{head} role=\"img\">\n<title>{title}</title>\n<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    );
    text.push_str(rest);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
