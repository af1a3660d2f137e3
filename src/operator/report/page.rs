//! The report as one page for a browser: nothing from elsewhere, no script, and each name escaped.

use super::document::{Document, Panel, VolumeVerdict};
use super::picture::{NARROW, WIDE, class, picture, shape};
use crate::host::zone::LOCAL;
use crate::model::report::health::Health;
use crate::model::report::lanes::{LaneKind, Sign};
use crate::model::sorting::sort_by_key;
use crate::model::text::{html_escaped, several};
use crate::model::timestamp;
use base64::prelude::{BASE64_STANDARD, Engine};
use ring::digest::{SHA256, digest};

/// How it looks. It is named by its hash, so that no other style can come in by a name.
const STYLE: &str = include_str!("style.css");

/// So many volumes that are not well are told in full above all; each is in the text too.
const FIRST: usize = 50;

/// What a browser may do with it: show it.
fn policy() -> String {
    let style = BASE64_STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'")
}

pub(super) fn page(document: &Document) -> String {
    let title = html_escaped(&document.heading()).into_owned();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
        policy(),
    );
    for one in &document.conclusions {
        page += &paragraph("node", one);
    }
    page += &paragraph("summary", &document.summary());
    page += &paragraph("node", &document.of_the_node());
    page += "</header>\n<main>\n";
    verdicts(document, &mut page);
    contents(document, &mut page);
    panels(document, &mut page);
    page += "<section id=\"about\" aria-label=\"About this report\">\n<dl class=\"facts\">\n";
    for (key, value) in &document.head {
        page += &format!("<dt>{}</dt><dd>{}</dd>\n", html_escaped(key), html_escaped(value));
    }
    page += "</dl>\n</section>\n";
    for section in &document.sections {
        page += &format!(
            "<section id=\"{}\">\n<h2>{}</h2>\n<pre tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</pre>\n</section>\n",
            html_escaped(&section.id),
            html_escaped(&section.title),
            html_escaped(&section.title),
            html_escaped(&section.text)
        );
    }
    page += "</main>\n<footer><p>Made by disk report. The page loads nothing and runs nothing.</p></footer>\n</body>\n</html>\n";
    page
}

fn paragraph(class: &str, text: &str) -> String {
    format!("<p class=\"{class}\">{}</p>\n", html_escaped(&LOCAL.in_text(text)))
}

/// The volumes that are not well: what that means, and what ends it.
fn verdicts(document: &Document, page: &mut String) {
    if document.verdicts.is_empty() {
        return;
    }
    *page += "<section id=\"verdicts\" aria-label=\"Volumes that are not well\">\n";
    for VolumeVerdict { title, pods, verdict } in document.verdicts.iter().take(FIRST) {
        let harms = if verdict.health.harms() { " harms" } else { "" };
        *page += &format!("<article class=\"volume{harms}\">\n<h3>");
        *page += &format!("{} {}</h3>\n", health(verdict.health), html_escaped(title));
        if !pods.is_empty() {
            *page += &paragraph("pods", &format!("used by {}", pods.join(", ")));
        }
        if let Some(consequence) = &verdict.consequence {
            *page += &paragraph("means", consequence);
        }
        if let Some(next) = &verdict.next {
            *page += &paragraph("next", &format!("To do: {next}."));
        }
        if let Some(command) = &verdict.command {
            *page += &format!("<code>{}</code>\n", html_escaped(&command.to_string()));
        }
        *page += "</article>\n";
    }
    let rest = document.verdicts.len().saturating_sub(FIRST);
    if rest > 0 {
        let volumes = several(rest, "more volume is", "more volumes are");
        *page += &paragraph("rest", &format!("{volumes} not well: see disk status below."));
    }
    *page += "</section>\n";
}

fn health(health: Health) -> String {
    let class = match health {
        Health::Ok => " ok",
        health if health.harms() => " harms",
        _ => "",
    };
    format!("<span class=\"health{class}\">{health}</span>")
}

fn contents(document: &Document, page: &mut String) {
    *page += "<nav aria-label=\"Contents\"><ul>\n";
    if !document.panels.is_empty() {
        *page += "<li><a href=\"#picture\">Picture</a></li>\n";
    }
    for section in &document.sections {
        let (id, title) = (html_escaped(&section.id), html_escaped(&section.title));
        *page += &format!("<li><a href=\"#{id}\">{title}</a></li>\n");
    }
    *page += "</ul></nav>\n";
}

/// What each sign of the picture means.
const LEGEND: [(Sign, &str); 8] = [
    (Sign::Done, "done"),
    (Sign::Failed, "failed"),
    (Sign::Open, "its end is not in the log"),
    (Sign::Note, "worth knowing"),
    (Sign::Refused, "refused"),
    (Sign::NoLongerRefused, "no longer refused"),
    (Sign::Healed, "healed"),
    (Sign::Kernel, "the kernel"),
];

fn panels(document: &Document, page: &mut String) {
    if document.panels.is_empty() {
        return;
    }
    *page += "<section id=\"picture\">\n<h2>What happened</h2>\n<ul class=\"legend\">\n";
    for (sign, words) in LEGEND {
        *page += &format!(
            "<li><svg viewBox=\"0 0 26 18\" aria-hidden=\"true\"><path class=\"one {}\" d=\"{}\"/></svg>{words}</li>\n",
            class(sign),
            shape(sign, 130, 90)
        );
    }
    *page += "<li><svg viewBox=\"0 0 26 18\" aria-hidden=\"true\"><g class=\"many done\"><rect x=\"1\" y=\".5\" width=\"24\" height=\"17\" rx=\"8\"/><text x=\"13\" y=\"13\">7</text></g></svg>several</li>\n\
              <li><svg viewBox=\"0 0 26 18\" aria-hidden=\"true\"><g class=\"many failed\"><rect x=\"1\" y=\".5\" width=\"24\" height=\"17\"/><text x=\"13\" y=\"13\">7</text></g></svg>several, one failed</li>\n</ul>\n";
    if let Some(left_out) = &document.left_out {
        *page += &paragraph("rest", left_out);
    }
    for (number, panel) in document.panels.iter().enumerate() {
        figure(panel, number + 1, page);
    }
    if document.without_panel > 0 {
        let volumes = several(document.without_panel, "more volume has", "more volumes have");
        *page += &paragraph("rest", &format!("{volumes} no picture here: the text has them all."));
    }
    *page += "</section>\n";
}

fn figure(panel: &Panel, number: usize, page: &mut String) {
    let of = panel.health.map(|of| health(of) + " ").unwrap_or_default();
    *page += &format!("<figure>\n<h3>{of}{}</h3>\n", html_escaped(&panel.title));
    *page += &picture(panel, number, &WIDE);
    *page += &picture(panel, number, &NARROW);
    let rows = rows(panel);
    *page += &format!(
        "<details><summary>The same as a table: {}</summary>\n<table>\n\
         <thead><tr><th scope=\"col\">When ({})</th><th scope=\"col\">What</th><th scope=\"col\">In words</th></tr></thead>\n<tbody>\n",
        several(rows.len(), "row", "rows"),
        LOCAL.name(panel.span.1)
    );
    for (at, what, text) in rows {
        let local = LOCAL.shown(at);
        let time = format!("{} {}", timestamp::day(local), timestamp::clock(local));
        *page += &format!(
            "<tr><td class=\"at\">{time}</td><td class=\"what\">{}</td><td>{}</td></tr>\n",
            html_escaped(what),
            html_escaped(&LOCAL.in_text(&text))
        );
    }
    *page += "</tbody>\n</table></details>\n</figure>\n";
}

/// All that the picture shows, in the order of time: when, what, and in words.
pub(super) fn rows(panel: &Panel) -> Vec<(u64, &str, String)> {
    let mut rows = Vec::new();
    for lane in &panel.lanes {
        let word = if matches!(lane.kind, LaneKind::Pod(_)) { "pod" } else { lane.kind.label() };
        rows.extend(lane.marks.iter().map(|mark| (mark.at, mark.what.as_str(), mark.text.clone())));
        rows.extend(lane.bars.iter().map(|bar| (bar.from, word, bar.told())));
    }
    sort_by_key(&mut rows, |(at, _, _)| *at);
    rows
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
