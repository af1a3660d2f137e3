//! The table of a map as device mapper reads and writes it: one target, `multipath`, with one path.

use crate::disk::device::DeviceNumber;

/// The kind of target.
pub const TARGET: &str = "multipath";

/// What stands before the path in a table of ours: what waits while there is no path, by bios (a map of
/// requests aborts a journal when it is switched), without a hardware handler, one group, the first.
const BEFORE: &str = "3 queue_if_no_path queue_mode bio 0 1 1 round-robin 0 1 1";

/// The parameters of a table of ours: the path, and after how many requests the next one has its turn.
pub fn parameters(path: DeviceNumber) -> String {
    format!("{BEFORE} {path} 1")
}

/// The table of a map: what it was made with, and what of that has been changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLine {
    pub path: DeviceNumber,
    /// Whether what finds no path waits; else it fails.
    pub is_queueing: bool,
}

impl TableLine {
    /// Reads the parameters as the kernel tells them; nothing if they are not what this driver makes.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let (features, rest) = counted(&words)?;
        let (handler, rest) = counted(rest)?;
        let is_queueing = is_queueing(features)?;
        let [groups, first, selector, arguments, paths, values, path, turns] = *rest else {
            return None;
        };
        let is_one_path = handler.len() <= 1
            && (groups, first) == ("1", "1")
            && (selector, arguments) == ("round-robin", "0")
            && (paths, values, turns) == ("1", "1", "1");
        Some(Self { path: path.parse().ok()?, is_queueing }).filter(|_| is_one_path)
    }
}

/// As many words as the first one says, and the rest.
fn counted<'w>(words: &'w [&'w str]) -> Option<(&'w [&'w str], &'w [&'w str])> {
    let (count, rest) = words.split_first()?;
    rest.split_at_checked(count.parse().ok()?)
}

/// Whether requests wait; nothing where the features are not ours. The kernel adds by itself that a handler
/// of hardware which a SCSI disk brings along is kept.
fn is_queueing(features: &[&str]) -> Option<bool> {
    let (mut waits, mut is_by_bios) = (false, false);
    let mut left = features;
    loop {
        left = match left {
            [] => return is_by_bios.then_some(waits),
            ["queue_if_no_path", rest @ ..] => {
                waits = true;
                rest
            }
            ["retain_attached_hw_handler", rest @ ..] => rest,
            ["queue_mode", "bio", rest @ ..] => {
                is_by_bios = true;
                rest
            }
            _ => return None,
        };
    }
}

/// What the kernel tells of a map's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusLine {
    pub path: DeviceNumber,
    /// Whether requests are sent there: not after one that failed.
    pub is_active: bool,
}

impl StatusLine {
    /// Reads the status as the kernel tells it; nothing if it is not that of one path.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        // Whether requests are held back, and how often the path was begun anew; the group and its state.
        let [two, _, _, handler, groups, _, _, arguments, paths, values, path, state, _failures] =
            *words.as_slice()
        else {
            return None;
        };
        let is_one_path = (two, handler, groups) == ("2", "0", "1")
            && (arguments, paths, values) == ("0", "1", "0");
        let is_active = match state {
            "A" => true,
            "F" => false,
            _ => return None,
        };
        Some(Self { path: path.parse().ok()?, is_active }).filter(|_| is_one_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> DeviceNumber {
        text.parse().unwrap()
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let path = number("254:16");
        let text = parameters(path);
        assert_eq!(text, "3 queue_if_no_path queue_mode bio 0 1 1 round-robin 0 1 1 254:16 1");
        // The kernel ends it with a blank.
        for text in [text.clone(), format!("{text} ")] {
            assert_eq!(TableLine::parse(&text), Some(TableLine { path, is_queueing: true }));
        }
        // As kernels tell it, after they were told to let it fail, and with a SCSI disk's handler.
        let rest = "1 1 round-robin 0 1 1 254:16 1 ";
        for (before, is_queueing) in [
            ("4 queue_if_no_path retain_attached_hw_handler queue_mode bio 0", true),
            ("3 retain_attached_hw_handler queue_mode bio 0", false),
            ("2 queue_mode bio 0", false),
            ("4 queue_if_no_path retain_attached_hw_handler queue_mode bio 1 alua", true),
        ] {
            let found = TableLine::parse(&format!("{before} {rest}"));
            assert_eq!(found, Some(TableLine { path, is_queueing }), "{before}");
        }
    }

    #[test]
    fn a_table_that_is_not_ours_is_none() {
        for text in [
            "",
            "3",
            "0 254:16",
            // By requests, as multipathd makes them.
            "1 queue_if_no_path 0 1 1 service-time 0 1 2 254:16 1 1 ",
            "3 queue_if_no_path queue_mode mq 0 1 1 round-robin 0 1 1 254:16 1 ",
            // Two paths; two groups; a handler.
            "3 queue_if_no_path queue_mode bio 0 1 1 round-robin 0 2 1 254:16 1 254:32 1 ",
            "3 queue_if_no_path queue_mode bio 0 2 1 round-robin 0 1 1 254:16 1 ",
            "3 queue_if_no_path queue_mode bio 2 alua x 1 1 round-robin 0 1 1 254:16 1 ",
            "3 queue_if_no_path queue_mode bio 7 1 1 round-robin 0 1 1 254:16 1 ",
            "1 queue_if_no_path 0 1 1 round-robin 0 1 1 254:16 1 ",
            "3 queue_if_no_path queue_mode bio 0 1 1 round-robin 0 1 1 vdb 1 ",
            "99999999999999999999 queue_mode bio",
        ] {
            assert_eq!(TableLine::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_status_tells_of_its_path() {
        let path = number("254:16");
        for (text, is_active) in
            [("2 0 0 0 1 1 A 0 1 0 254:16 A 0 ", true), ("2 1 0 0 1 1 E 0 1 0 254:16 F 3 ", false)]
        {
            assert_eq!(StatusLine::parse(text), Some(StatusLine { path, is_active }), "{text}");
        }
        for text in [
            "",
            "2 0 0 0 1 1 A 0 1 0 254:16 X 0 ",
            "2 0 0 0 1 1 A 0 2 0 254:16 A 0 254:32 A 0 ",
            "2 0 0 0 1 1 A 0 1 0 vdb A 0 ",
            "2 0 0 0 1 1 A 0 1 0 254:16 A",
        ] {
            assert_eq!(StatusLine::parse(text), None, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_readers_panic(text in "[0-9a-z:A-Z _]{0,90}") {
            let _ = (TableLine::parse(&text), StatusLine::parse(&text));
        }
    }
}
