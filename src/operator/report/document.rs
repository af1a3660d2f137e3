//! What a report holds, and the same as text.

use crate::model::report::health::{Health, Verdict};
use crate::model::report::lanes::TimeLane;
use crate::model::text::several;
use crate::model::timestamp::Millis;
use crate::operator::terminal::{hanging, printable};

/// A report. Each text in it may be shown as it is: what is secret or hidden is out of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Document {
    pub(super) node: String,
    /// What the report is about, if not the whole node.
    pub(super) about: Option<String>,
    /// Facts of the report itself.
    pub(super) head: Vec<(&'static str, String)>,
    /// How many volumes were looked at.
    pub(super) volumes: usize,
    /// Why they could not be looked at.
    pub(super) unseen_volumes: Option<String>,
    /// Those that are not well, the worst first.
    pub(super) verdicts: Vec<VolumeVerdict>,
    /// How many findings of the doctor are errors, and how many are warnings.
    pub(super) findings: (usize, usize),
    /// Who tore down volumes, and why, where kubelet's log and ours show it.
    pub(super) conclusions: Vec<String>,
    /// A picture of each volume, the worst first.
    pub(super) panels: Vec<Panel>,
    /// How many have none.
    pub(super) without_panel: usize,
    /// Why what happened earlier is in no picture.
    pub(super) left_out: Option<String>,
    pub(super) sections: Vec<Section>,
}

/// A volume that is not well.
#[derive(Debug, Clone)]
pub(super) struct VolumeVerdict {
    pub(super) title: String,
    pub(super) pods: Vec<String>,
    pub(super) verdict: Verdict,
}

/// What happened to one volume.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) health: Option<Health>,
    pub(super) span: (Millis, Millis),
    pub(super) lanes: Vec<TimeLane>,
}

/// A part of the text.
#[derive(Debug, Clone)]
pub(super) struct Section {
    /// Its anchor: of letters, digits and dashes.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) text: String,
}

/// A longer section is cut: one thing that went wild must not make a page that no browser opens.
const LONGEST_SECTION: usize = 4 << 20;

impl Section {
    pub(super) fn new(id: impl Into<String>, title: impl Into<String>, mut text: String) -> Self {
        let title: String = title.into();
        if text.len() > LONGEST_SECTION {
            let end = (0..=LONGEST_SECTION).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or_default());
            text += "\n(the rest is left out of this report: it is too long)\n";
        }
        // Whatever way a line came in by.
        let text = text.lines().flat_map(|line| [printable(line), "\n".into()]).collect();
        Self { id: id.into(), title: printable(&title).into_owned(), text }
    }
}

impl Document {
    /// What a reader sees first.
    pub(super) fn summary(&self) -> String {
        if let Some(why) = &self.unseen_volumes {
            return format!("The volumes could not be looked at: {why}");
        }
        let all = several(self.volumes, "volume", "volumes");
        match (self.verdicts.len(), self.volumes) {
            (_, 0) => "No volume is on this node.".to_owned(),
            (0, 1) => "The volume is well.".to_owned(),
            (0, _) => format!("All {all} are well."),
            (1, _) => format!("1 of {all} is not well."),
            (unwell, _) => format!("{unwell} of {all} are not well."),
        }
    }

    /// What the doctor found, in a sentence.
    pub(super) fn of_the_node(&self) -> String {
        match self.findings {
            (0, 0) => "The node itself is in order.".to_owned(),
            (errors, warnings) => format!(
                "disk doctor has {} and {} for this node.",
                several(errors, "error", "errors"),
                several(warnings, "warning", "warnings")
            ),
        }
    }

    pub(super) fn heading(&self) -> String {
        let about = self.about.as_ref().map(|about| format!(", volume {about}"));
        format!("disk report of {}{}", self.node, about.unwrap_or_default())
    }

    /// All of it, for a reader without a browser.
    pub(super) fn text(&self) -> String {
        let title = self.heading();
        let mut text = format!("{title}\n{}\n\n", "=".repeat(title.chars().count()));
        for (key, value) in &self.head {
            text += &hanging(&format!("{key:<10} "), value, str::to_owned);
        }
        text.push('\n');
        for one in &self.conclusions {
            text += &hanging("", one, str::to_owned);
        }
        text += &format!("{}\n{}\n", self.summary(), self.of_the_node());
        for section in &self.sections {
            let title = &section.title;
            text += &format!("\n\n{title}\n{}\n\n", "-".repeat(title.chars().count()));
            text += &section.text;
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}
