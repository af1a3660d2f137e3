//! The scenarios, and where each is played.

mod again;
mod by_hand;
mod cost;
mod databases;
mod dead_server;
mod deleted;
mod endurance;
mod first_life;
mod grow;
mod held;
mod incident;
mod install;
mod late;
mod letters;
mod mounts;
mod power_cut;
mod restart;
mod same_place;
mod shield;
mod shielded;
mod unasked;
mod usual;

use crate::host::plug::Bus;
use crate::scene::{Outcome, Scene};

/// Kernels on which a scenario is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernels {
    All,
    /// The one that most nodes have; controls too.
    One,
    /// Those whose device mapper counts a write once that flushes first: since Linux 5.18.
    CountingOnce,
    /// Those that count it twice.
    CountingTwice,
    /// The one of most nodes on a machine with cgroups of version 1 alone.
    Cgroups1,
    /// The same where the kernel's security module is `SELinux`.
    SeLinux,
}

/// The kernel of [`Kernels::One`].
pub(crate) const ONE: &str = "6.1";

/// Where a scenario is played: the file system of its volumes, their bus, the kernels.
pub(crate) type Setting = (&'static str, Bus, Kernels);

/// A story that must end well.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// In a sentence.
    pub(crate) about: &'static str,
    pub(crate) settings: &'static [Setting],
    /// The check at which it must fail when the part of the driver that it is about is switched
    /// off: what it begins with.
    pub(crate) control: &'static str,
    /// Whether its control is played in every setting, or once.
    pub(crate) controls: Kernels,
    pub(crate) play: fn(&mut Scene<'_>) -> Outcome,
}

/// All of them, in the order in which they are played.
pub(crate) const ALL: [Scenario; 47] = [
    first_life::SCENARIO,
    late::SCENARIO,
    grow::SCENARIO,
    incident::GUARDED,
    incident::HEALED,
    incident::CONFINED,
    incident::LABELLED,
    by_hand::SCENARIO,
    unasked::SCENARIO,
    mounts::SCENARIO,
    dead_server::SCENARIO,
    again::SCENARIO,
    letters::REUSED,
    letters::SWAPPED,
    letters::CROSSED,
    letters::STRANGER,
    shield::KEPT,
    shield::RELEASED,
    shield::FORCED,
    shield::HUNG,
    shield::KILLED,
    shield::GROWS,
    shield::FAILED_ONCE,
    shielded::PAUSES,
    shielded::PAUSES_ON_XFS,
    shielded::STRANGERS,
    shielded::STRANGERS_ON_XFS,
    shielded::UNCOUNTED,
    shielded::CLEARED,
    shielded::SELDOM,
    shielded::HOURLY,
    held::SCENARIO,
    deleted::SCENARIO,
    shielded::GROWS,
    shielded::PATIENCE,
    shielded::INCIDENT,
    shielded::SHUTDOWN,
    power_cut::SCENARIO,
    shielded::KILLED,
    shielded::MANY,
    databases::SQLITE,
    databases::POSTGRESQL,
    endurance::SCENARIO,
    same_place::SCENARIO,
    cost::SCENARIO,
    install::SCENARIO,
    restart::SCENARIO,
];

/// What the word `brief` means on the usual kernel, each with its control; and on the others.
pub(crate) const BRIEF: [&str; 9] = [
    incident::GUARDED.name,
    incident::HEALED.name,
    by_hand::SCENARIO.name,
    unasked::SCENARIO.name,
    mounts::SCENARIO.name,
    letters::REUSED.name,
    letters::SWAPPED.name,
    letters::CROSSED.name,
    install::SCENARIO.name,
];
/// What it means on the oldest kernel and the newest, without a control.
pub(crate) const BRIEF_ON_ITS_ENDS: [&str; 2] = [incident::GUARDED.name, incident::HEALED.name];

/// Those that call databases and fio of Debian, which are parts of the machine only for them.
pub(crate) const WITH_PROGRAMS: [&str; 4] = [
    databases::SQLITE.name,
    databases::POSTGRESQL.name,
    endurance::SCENARIO.name,
    cost::SCENARIO.name,
];

/// The UID of a scenario's pod.
pub(crate) const POD: &str = "7a5c1e0b-3d52-4f0e-9a35-6f1d0c8b2e44";
/// And of another one.
pub(crate) const OTHER_POD: &str = "0c9d7f62-51aa-4b8e-8d0e-2f6b1a3c4d5e";
