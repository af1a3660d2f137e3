//! A play: a scene that is set up, one call or verb in it that is struck, and what may follow.

use super::kubelet::hurry;
use super::trace::{Kind, Point, Traced};
use super::volume::{Templates, Volume};
use std::process::Command;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Success,
    Failure,
    /// It did not say: it was killed.
    Silent,
    /// It did not come to the point.
    Missed,
}

impl End {
    pub const ALL: [Self; 4] = [Self::Success, Self::Failure, Self::Silent, Self::Missed];

    pub fn name(self) -> &'static str {
        match self {
            End::Success => "success",
            End::Failure => "failure",
            End::Silent => "killed",
            End::Missed => "missed",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.name() == name)
    }
}

/// What is on the stage.
pub trait Scene {
    /// What is struck.
    fn command(&self) -> Command;

    /// The volume that it is about, if it is about one.
    fn volume(&self) -> Option<&Volume> {
        None
    }

    /// The folder of this run alone.
    fn base(&self) -> String {
        self.volume().expect("a volume, or a folder of its own").base()
    }

    /// Gives all calls a deadline that is over while one of them stands still.
    fn hurry(&self, is_on: bool) {
        if let Some(volume) = self.volume() {
            hurry(volume, is_on);
        }
    }

    /// Whether it must say how it ended, unless it is killed.
    fn must_answer(&self) -> bool {
        true
    }

    /// How it ended, and that its words are as they must be.
    fn end_of(&self, traced: &Traced) -> End;

    /// Something was closed to the call for good, as a security module does it: what hides there is
    /// noticed later than usual.
    fn was_closed(&mut self) {}

    /// That what a Success says is so.
    fn must_be_so(&mut self, said: &str);

    /// Goes on in one of the ways that may follow, to the end: it must come to a good one, and leave
    /// nothing.
    fn go_on(&mut self, follow_up: &str);
}

/// A system call without which a Success is not true; if it fails the call must fail.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    pub call: &'static str,
}

/// Makes what is on the stage.
pub type SetUp = Box<dyn Fn(&Templates) -> Box<dyn Scene>>;

/// What can be struck.
pub struct Play {
    /// Such as `mount/ext4/openstack`.
    pub name: String,
    /// What may follow.
    pub follow_ups: &'static [&'static str],
    pub demand: Option<Demand>,
    /// How it ends when nothing happens to it.
    pub baseline: End,
    pub set_up: SetUp,
}

impl Play {
    /// The word before the first slash.
    pub fn word(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// Whether it may end without a word: who was killed, who was asked to end before its first line
/// (where Rust's library looks for the stack), and whose words could not be written.
pub fn may_be_silent(kind: Kind, point: &Point) -> bool {
    let is_before_all =
        point.nth == 1 && ["/proc/self/maps", "/proc/N/maps"].contains(&point.object.as_str());
    kind == Kind::Kill || kind == Kind::Term && is_before_all || point.object.starts_with("pipe:")
}

/// What a panic said.
pub fn words_of(why: &(dyn std::any::Any + Send)) -> String {
    let text = why.downcast_ref::<String>().cloned();
    text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
