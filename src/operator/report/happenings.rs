//! Entries of the history as what happened to a volume.

use crate::host::zone::LOCAL;
use crate::model::report::kernel_line::tells_an_end;
use crate::model::report::lanes::{Happening, Shift, Sign};
use crate::model::report::log_event::LogEvent;
use crate::operator::history;
use crate::operator::kubelet_story::KUBELET;
use crate::operator::terminal::printable;
use crate::operator::timeline::{Ending, Entry, KERNEL};

pub(super) fn of(entry: &Entry) -> Happening {
    let shown = |text: &Option<String>| text.as_deref().map(|text| printable(text).into_owned());
    let (sign, shift) = sign_of(entry);
    Happening {
        at: entry.at,
        until: entry.until,
        count: entry.count,
        sign,
        shift,
        disk: shown(&entry.disk),
        pod: shown(&entry.pod),
        what: printable(&entry.op).into_owned(),
        text: text_of(entry),
    }
}

fn text_of(entry: &Entry) -> String {
    let sentence = history::sentence(entry);
    let shown = printable(&sentence);
    if entry.op == KUBELET { shown.into_owned() } else { LOCAL.in_text(&shown).into_owned() }
}

fn sign_of(entry: &Entry) -> (Sign, Shift) {
    match (entry.event, entry.op.as_str(), entry.ending) {
        (_, KERNEL, _) if tells_an_end(&entry.text) => (Sign::Kernel, Shift::Ends),
        (_, KERNEL, _) if entry.disk.is_none() => (Sign::KernelNote, Shift::None),
        (_, KERNEL, _) => (Sign::Kernel, Shift::None),
        (_, KUBELET, _) => (Sign::Kubelet, Shift::None),
        (Some(LogEvent::Healed), ..) => (Sign::Healed, Shift::Arrives),
        (Some(LogEvent::NotHealed), ..) => (Sign::NotHealed, Shift::None),
        (Some(LogEvent::RefusalEnded), ..) => (Sign::NoLongerRefused, Shift::None),
        (Some(LogEvent::FolderReleased), ..) => (Sign::Done, Shift::None),
        (.., Ending::Refused) => (Sign::Refused, Shift::None),
        (.., Ending::Failed) => (Sign::Failed, Shift::None),
        (.., Ending::Open) => (Sign::Open, Shift::None),
        (.., Ending::Asked | Ending::Event) => (Sign::Note, Shift::None),
        (_, op, Ending::Done | Ending::Already) => (Sign::Done, shift_of(op, entry)),
    }
}

fn shift_of(op: &str, entry: &Entry) -> Shift {
    match op {
        "attach" | "waitforattach" | "mountdevice" => Shift::Arrives,
        "mount" => Shift::PodGets,
        "unmount" => Shift::PodLoses,
        "release" => Shift::AllPodsLose,
        op if op.starts_with("detach") && entry.ending == Ending::Done => Shift::Leaves,
        _ => Shift::None,
    }
}
