//! What is played: each scenario on each kind of machine that it names, its controls, and which of
//! all that is meant by the words of a run.

use crate::host::parts::{CGROUPS_1, COUNTS_TWICE, KERNELS, SELINUX};
use crate::host::plug::Bus;
use crate::scenarios::{ALL, BRIEF, BRIEF_ON_ITS_ENDS, Kernels, ONE, Scenario, WITH_PROGRAMS};
use std::collections::BTreeSet;

/// A kind of machine: its kernel, and the bus of its volumes.
pub(crate) type Kind = (&'static str, Bus);

/// A scenario on a machine of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) scenario: Scenario,
    pub(crate) kernel: &'static str,
    pub(crate) bus: Bus,
    pub(crate) fs: &'static str,
    pub(crate) is_control: bool,
}

impl Part {
    pub(crate) fn name(&self) -> String {
        let control = if self.is_control { " (control)" } else { "" };
        format!("{}{control}", self.scenario.name)
    }

    pub(crate) fn setting(&self) -> String {
        format!("{} {} {}", self.kernel, self.bus.word(), self.fs)
    }

    /// The kind of machine that it needs.
    pub(crate) fn kind(&self) -> Kind {
        (self.kernel, self.bus)
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.name(), self.setting()) == (other.name(), other.setting())
    }

    /// Whether it needs the programs that are fetched only where they are called.
    pub(crate) fn calls_programs(&self) -> bool {
        WITH_PROGRAMS.contains(&self.scenario.name)
    }

    /// Every word must be a word of its setting, in its name, or `brief`, and then it is one of those.
    pub(crate) fn is_wanted(&self, words: &[String]) -> bool {
        let (name, setting) = (self.name(), self.setting());
        let fits = |word: &String| match word.as_str() {
            "brief" => self.is_brief(),
            _ => setting.split(' ').any(|one| one == word) || name.contains(word),
        };
        words.iter().all(fits)
    }

    /// What a few minutes are enough for: the incident and its kin with their controls on the kernel
    /// that most nodes have, and the incident on the oldest and the newest.
    fn is_brief(&self) -> bool {
        let is_one_of = |names: &[&str]| names.contains(&self.scenario.name);
        let is_usual = self.bus == Bus::VirtioBlk && self.fs == "ext4";
        let is_at_an_end = [KERNELS[0], KERNELS[KERNELS.len() - 1]].contains(&self.kernel);
        is_usual
            && (self.kernel == ONE && is_one_of(&BRIEF)
                || is_at_an_end && !self.is_control && is_one_of(&BRIEF_ON_ITS_ENDS))
    }
}

/// All parts, those on one kind of machine together, and there the controls last.
pub(crate) fn all() -> Vec<Part> {
    let mut parts = Vec::new();
    for kernel in KERNELS {
        for bus in Bus::ALL {
            for is_control in [false, true] {
                for scenario in ALL {
                    let is_here = |fs| is_played(&scenario, kernel, bus, fs, is_control);
                    let settings = scenario.settings.iter().filter(|(_, on, _)| *on == bus);
                    let here = settings.map(|(fs, ..)| *fs).filter(|fs| is_here(fs));
                    let here: BTreeSet<&'static str> = here.collect();
                    parts.extend(here.into_iter().map(|fs| Part {
                        scenario,
                        kernel,
                        bus,
                        fs,
                        is_control,
                    }));
                }
            }
        }
    }
    parts
}

fn is_played(scenario: &Scenario, kernel: &str, bus: Bus, fs: &str, is_control: bool) -> bool {
    let is_usual = kernel != CGROUPS_1 && kernel != SELINUX;
    let fits = |&&(its, on, kernels): &&(&str, Bus, Kernels)| {
        let is_among = match kernels {
            Kernels::All => is_usual,
            Kernels::One => kernel == ONE,
            Kernels::CountingOnce => is_usual && kernel != COUNTS_TWICE,
            Kernels::CountingTwice => kernel == COUNTS_TWICE,
            Kernels::Cgroups1 => kernel == CGROUPS_1,
            Kernels::SeLinux => kernel == SELINUX,
        };
        its == fs && on == bus && is_among
    };
    let is_in_each = matches!(scenario.controls, Kernels::All | Kernels::CountingTwice);
    if !is_control || is_in_each {
        return scenario.settings.iter().any(|setting| fits(&setting));
    }
    // Once, in the first setting.
    kernel == ONE && scenario.settings.first().is_some_and(|first| fits(&first))
}
