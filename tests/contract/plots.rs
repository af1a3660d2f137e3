//! Plots of figures: an SVG file with its words and lines, in the colours of light pages and dark ones.

#[path = "../support/plot.rs"]
mod plot;

use plot::{Axis, Plot, Scale, Series, svg};

fn example(y: Scale) -> String {
    let line =
        |slope: f64| (0..=5).map(|n| (f64::from(n) * 1000.0, f64::from(n) * slope)).collect();
    svg(&Plot {
        title: "Cost of looking & healing",
        x: Axis { name: "processes", scale: Scale::Linear },
        y: Axis { name: "time, ms", scale: y },
        series: vec![Series::measured("guard", line(2.5)), Series::course("heal", line(0.7))],
    })
}

#[test]
fn a_plot_has_its_words_its_lines_and_both_pages_colours() {
    for text in [example(Scale::Linear), example(Scale::Tenfold { least: 0.1 })] {
        for word in
            ["Cost of looking &amp; healing", "processes", "time, ms", "guard", "heal", "5,000"]
        {
            assert!(text.contains(word), "{word}:\n{text}");
        }
        assert!(text.contains("prefers-color-scheme: dark"), "{text}");
        // A line of each series, and its piece of the legend.
        for colour in ["#005FB8", "#C75400"] {
            let lines = text.lines().filter(|line| line.starts_with("<polyline"));
            let lines = lines.filter(|line| line.contains(colour)).count();
            assert_eq!(lines, 2, "{colour}:\n{text}");
        }
        // The values of the first alone are marked.
        assert_eq!(text.matches("<circle").count(), 6, "{text}");
    }
}

#[test]
fn the_highest_value_is_highest_on_the_page() {
    let text = example(Scale::Linear);
    let dots = text.lines().filter(|line| line.starts_with("<circle"));
    let heights: Vec<i32> = dots
        .map(|line| line.split("cy=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    assert!(heights.is_sorted_by(|a, b| a > b), "{heights:?}");
}
