//! Entries of the history as what happened to a volume.

use crate::host::zone::LOCAL;
use crate::model::report::kernel_line::tells_an_end;
use crate::model::report::lanes::{Happening, Shift, Sign};
use crate::operator::history;
use crate::operator::kubelet_story::KUBELET;
use crate::operator::terminal::printable;
use crate::operator::timeline::{Ending, Entry, KERNEL, lets_go};

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
    match (entry.op.as_str(), entry.ending) {
        (KERNEL, _) if tells_an_end(&entry.text) => (Sign::Kernel, Shift::Ends),
        (KERNEL, _) if entry.disk.is_none() => (Sign::KernelNote, Shift::None),
        (KERNEL, _) => (Sign::Kernel, Shift::None),
        (KUBELET, _) => (Sign::Kubelet, Shift::None),
        ("healing", Ending::Done) => (Sign::Healed, Shift::Arrives),
        ("healing", _) => (Sign::NotHealed, Shift::None),
        ("guard", Ending::Event) => (Sign::NoLongerRefused, Shift::None),
        (_, Ending::Refused) => (Sign::Refused, Shift::None),
        (_, Ending::Failed) => (Sign::Failed, Shift::None),
        (_, Ending::Open) => (Sign::Open, Shift::None),
        (_, Ending::Asked | Ending::Event) => (Sign::Note, Shift::None),
        (op, Ending::Done | Ending::Already) => (Sign::Done, shift_of(op, entry)),
    }
}

fn shift_of(op: &str, entry: &Entry) -> Shift {
    match op {
        "attach" | "waitforattach" | "mountdevice" => Shift::Arrives,
        "mount" => Shift::PodGets,
        "unmount" if lets_go(entry) => Shift::None,
        "unmount" => Shift::PodLoses,
        "release" => Shift::AllPodsLose,
        op if op.starts_with("detach") && entry.ending == Ending::Done => Shift::Leaves,
        _ => Shift::None,
    }
}
