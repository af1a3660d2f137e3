use super::*;

const PLACE: LogPlace = LogPlace { at: 0, sectors: 40_000 };
/// Each record has so many sectors.
const RECORD: u64 = 4;
/// So many sectors were written before the first record: those that a mount stamps.
const BEFORE: u64 = STAMPED;

/// A log that a mount began to write near its end, so that it goes around in what is looked at.
#[derive(Clone)]
struct Made {
    /// Where the mount began.
    from: u64,
    /// How many records it wrote that came to the disk.
    records: u64,
    /// Where its stamps end.
    stamped_to: u64,
    changes: Vec<(u64, LogSector)>,
}

fn made(records: u64) -> Made {
    let from = PLACE.position_of((3, 39_000));
    Made { from, records, stamped_to: from + STAMPED, changes: Vec::new() }
}

fn number(position: u64) -> LogNumber {
    let (cycle, sector) = PLACE.cycle_and_sector(position);
    (u32::try_from(cycle).unwrap(), u32::try_from(sector).unwrap())
}

fn record(position: u64, tail: u64) -> LogRecord {
    LogRecord {
        cycle: number(position).0,
        is_here: true,
        sectors: RECORD,
        tail: number(tail),
        before: number(position - RECORD).1,
        checksum: number(position).1,
        is_unmount: false,
        is_whole: Some(true),
    }
}

impl Made {
    fn end(&self) -> u64 {
        self.from + self.records * RECORD
    }

    fn at(&self, position: u64) -> LogSector {
        if let Some((_, changed)) = self.changes.iter().find(|(at, _)| *at == position) {
            return *changed;
        }
        let cycle = number(position).0;
        if position < self.end() {
            let is_begin = (position - self.from % RECORD).is_multiple_of(RECORD);
            let tail = self.from - 100;
            return if is_begin {
                LogSector::Record(record(position, tail))
            } else {
                LogSector::Inside(cycle)
            };
        }
        if position < self.stamped_to {
            let tail = number(self.from - 100);
            return LogSector::Stamp { is_here: true, cycle: cycle - 1, tail };
        }
        LogSector::Inside(cycle - 1)
    }

    fn changed(&self, at: u64, sector: LogSector) -> Self {
        let mut other = self.clone();
        other.changes.push((at, sector));
        other
    }

    fn mark(&self) -> XfsMark {
        XfsMark {
            place: PLACE,
            head: self.from,
            first: number(self.from).1,
            buffer: 64,
            counted_from: Some(self.from - BEFORE),
        }
    }

    /// Looked at when the kernel has so many records, and so many of them wait.
    fn seen(&self, records: u64, waiting: u64) -> XfsSight {
        let head = self.from + records * RECORD;
        let tail = self.from.max(head.saturating_sub(800));
        self.seen_by(XfsKernel {
            head: number(head),
            tail: number(tail - (tail - self.from) % RECORD),
            buffer: Some(64),
            written: (BEFORE + records * RECORD).checked_sub(waiting * RECORD),
            in_flight: 0,
        })
    }

    fn seen_by(&self, kernel: XfsKernel) -> XfsSight {
        let (begin, count) = stretch_around(&PLACE, kernel.head).unwrap();
        let sectors = (begin..begin + count).map(|position| self.at(position)).collect();
        let mounted = XfsMounted {
            kernel,
            before: None,
            log: LogStretch { begin, sectors },
            at_tail: Some(self.at(PLACE.position_of(kernel.tail))),
            at_head: Some(self.at(self.from)),
        };
        XfsSight { uuid: String::new(), place: PLACE, mounted: Some(mounted) }
    }

    fn compared(&self, records: u64, waiting: u64) -> Sameness {
        compare_logs(&self.seen(records, waiting), &self.mark())
    }

    /// Seen before its last record, and after it.
    fn tried(&self, records: u64) -> XfsSight {
        let before = self.seen(records.saturating_sub(1), 0).mounted.map(|mounted| mounted.kernel);
        let mut sight = self.seen(records, 0);
        if let Some(mounted) = &mut sight.mounted {
            mounted.before = before;
        }
        sight
    }
}

#[track_caller]
fn differs(sameness: &Sameness, words: &str) {
    match sameness {
        Sameness::Differs(why) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn is_unknown(sameness: &Sameness, words: &str) {
    match sameness {
        Sameness::Unknown(why) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_is_as_it_was_left_however_far_it_went() {
    for records in [1, 2, 100, 249, 250, 251, 1023, 1024, 1025, 3000, 8900] {
        assert_eq!(made(records).compared(records, 0), Sameness::Same, "{records}");
        // Up to eight buffers of 64 sectors may be on their way.
        if records > 400 {
            assert_eq!(made(records - 128).compared(records, 128), Sameness::Same, "{records}");
        }
    }
}

#[test]
fn what_is_on_its_way_may_have_come_in_any_order() {
    let log = made(500);
    // Of the seven records that are missing one is there, and one by half.
    let at = log.end() + 2 * RECORD;
    let cycle = number(at).0;
    let came = log
        .changed(at, LogSector::Record(record(at, log.from)))
        .changed(at + 1, LogSector::Inside(cycle))
        .changed(at + 2, LogSector::Inside(cycle))
        .changed(at + 3, LogSector::Inside(cycle))
        .changed(log.end(), LogSector::Record(record(log.end(), log.from)));
    assert_eq!(came.compared(507, 6), Sameness::Same);
    differs(&came.compared(507, 5), "23 sectors of its journal are missing, and 20 were not");
}

#[test]
fn a_log_that_was_set_back_ends_earlier() {
    differs(&made(500).compared(629, 128), "516 sectors before");
    differs(&made(500).compared(628, 127), "512 sectors of its journal are missing, and 508 were");
    differs(&made(500).compared(501, 0), "4 sectors of its journal are missing, and 0");
    // What the kernel has at its place by now was on the disk.
    let kernel = |tail: u64| XfsKernel {
        head: number(made(520).end()),
        tail: number(tail),
        buffer: Some(64),
        written: Some(BEFORE + 500 * RECORD),
        in_flight: 8,
    };
    let log = made(500);
    assert_eq!(compare_logs(&log.seen_by(kernel(log.end() - RECORD)), &log.mark()), Sameness::Same);
    differs(
        &compare_logs(&log.seen_by(kernel(log.end())), &log.mark()),
        "no record where the kernel's begins",
    );
}

#[test]
fn a_mount_elsewhere_leaves_its_stamps() {
    for records in [1, 500, 1000, 1024, 2000] {
        let log = made(records);
        let mut stamped = log.clone();
        stamped.stamped_to = log.end() + STAMPED;
        differs(&stamped.compared(records, 0), "mounted");
        differs(&stamped.compared(records + 1, 8), "mounted");
        // It went on from there, and was pulled out.
        let went_on = Made { records: records + 20, ..stamped };
        differs(&went_on.compared(records, 8), "goes on");
        differs(&went_on.compared(records + 20, 8), "mounted");
    }
}

#[test]
fn a_record_that_is_not_the_kernels_is_seen() {
    let log = made(500);
    let at = log.end() - RECORD;
    let ours = record(at, log.from - 100);
    for (other, words) in [
        (LogRecord { is_unmount: true, ..ours }, "unmounted"),
        (LogRecord { is_whole: Some(false), ..ours }, "another one"),
        (LogRecord { is_here: false, ..ours }, "another one"),
        (LogRecord { before: 7, ..ours }, "another one"),
        (LogRecord { tail: number(log.end()), ..ours }, "another one"),
        (LogRecord { sectors: RECORD + 1, ..ours }, "goes on"),
    ] {
        differs(&log.changed(at, LogSector::Record(other)).compared(500, 8), words);
    }
    // Behind the kernel's place nothing may be written, near or far.
    for more in [0, 5, 4000, READ_AFTER - 1] {
        let at = log.end() + more;
        let written = log.changed(at, LogSector::Inside(number(at).0));
        differs(&written.compared(500, 8), "goes on");
    }
    let first = LogRecord { checksum: 1, ..record(log.from, log.from - 100) };
    differs(&log.changed(log.from, LogSector::Record(first)).compared(500, 0), "the mount began");
}

#[test]
fn where_the_log_is_full_or_the_kernel_tells_nothing_it_is_not_known() {
    let log = made(9500);
    let kernel = |tail: u64| XfsKernel {
        head: number(log.end()),
        tail: number(tail),
        buffer: Some(64),
        written: Some(BEFORE + 9500 * RECORD),
        in_flight: 0,
    };
    let full = log.end() + STAMPED - PLACE.sectors;
    let tail = full + (log.end() - full) % RECORD;
    let seen = |tail| {
        let mut sight = log.seen_by(kernel(tail));
        if let Some(XfsMounted { log, .. }) = &mut sight.mounted {
            for sector in &mut log.sectors {
                if let LogSector::Record(record) = sector {
                    record.tail = number(tail);
                }
            }
        }
        sight
    };
    assert_eq!(compare_logs(&seen(tail), &log.mark()), Sameness::Same);
    is_unknown(&compare_logs(&seen(tail - RECORD), &log.mark()), "too full");
    let untold = XfsSight { mounted: None, ..log.seen(9500, 0) };
    is_unknown(&compare_logs(&untold, &log.mark()), "tells nothing");
    is_unknown(&log.compared(0, 0), "another journal");
    let place = LogPlace { at: 1, ..PLACE };
    let elsewhere = XfsSight { place, ..log.seen(9500, 0) };
    differs(&compare_logs(&elsewhere, &log.mark()), "stands elsewhere");
    assert!(stretch_around(&LogPlace { at: 0, sectors: 14_336 }, (1, 0)).is_err());
    assert!(stretch_around(&PLACE, (0, 5)).is_err());
    assert!(stretch_around(&PLACE, (1, 40_000)).is_err());
}

#[test]
fn a_mount_is_remembered_by_its_stamps_and_its_first_record() {
    for records in [1, 2, 250, 500] {
        let log = made(records);
        assert_eq!(mark(&log.tried(records)), Ok(log.mark()), "{records}");
    }
    let log = made(1);
    for (log, records, words) in [
        (made(0), 0, "nothing"),
        (made(513), 513, "no stamps"),
        (Made { stamped_to: 0, ..made(1) }, 1, "no stamps"),
        // Those of a mount before: it did not begin where a record of this one does.
        (Made { stamped_to: log.stamped_to - 1, ..log.clone() }, 1, "another one"),
        (Made { stamped_to: log.stamped_to + RECORD, ..log.clone() }, 1, "nothing"),
        (Made { stamped_to: log.stamped_to + 2 * RECORD, ..log }, 1, "no stamps"),
    ] {
        let why = mark(&log.tried(records)).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
    let mut untold = made(1).tried(1);
    if let Some(mounted) = &mut untold.mounted {
        mounted.kernel.buffer = None;
    }
    assert!(mark(&untold).unwrap_err().contains("buffers"));
}

#[test]
fn where_all_that_is_on_its_way_could_hide_stamps_nothing_is_remembered() {
    for (buffer, fits) in [(64, true), (256, true), (512, false)] {
        let mut sight = made(1).tried(1);
        if let Some(mounted) = &mut sight.mounted {
            mounted.kernel.buffer = Some(buffer);
        }
        assert_eq!(mark(&sight).is_ok(), fits, "{buffer}");
    }
}

#[test]
fn a_count_that_is_not_exact_is_not_counted_with() {
    let told = |change: fn(&mut XfsMounted, XfsKernel)| {
        let mut sight = made(2).tried(2);
        if let Some(mounted) = &mut sight.mounted {
            let before = mounted.before.unwrap();
            change(mounted, before);
        }
        mark(&sight).map(drop).unwrap_err()
    };
    let why = told(|mounted, _| mounted.before = None);
    assert!(why.contains("not tried"), "{why}");
    let why = told(|mounted, before| mounted.before = Some(XfsKernel { written: None, ..before }));
    assert!(why.contains("does not count what"), "{why}");
    let why = told(|mounted, _| mounted.kernel.in_flight = 1);
    assert!(why.contains("all the time"), "{why}");
    let why = told(|mounted, _| mounted.before = Some(mounted.kernel));
    assert!(why.contains("all the time"), "{why}");
    // One that flushes first is counted twice by older kernels.
    let twice = |mounted: &mut XfsMounted, _| {
        mounted.kernel.written = mounted.kernel.written.map(|written| written + RECORD);
    };
    let why = told(twice);
    assert!(why.contains("exactly"), "{why}");
    let log = made(500);
    let old = XfsMark { counted_from: None, ..log.mark() };
    is_unknown(&compare_logs(&log.seen(500, 0), &old), "not counted");
    let more = XfsMark { counted_from: Some(log.from), ..log.mark() };
    is_unknown(&compare_logs(&log.seen(500, 0), &more), "not counted");
    // Another program cleared it: then so much seems to be under way as cannot be.
    for (written, words) in [(None, "not counted"), (Some(0), "counted no more")] {
        let mut untold = log.seen(500, 0);
        if let Some(mounted) = &mut untold.mounted {
            mounted.kernel.written = written;
        }
        is_unknown(&compare_logs(&untold, &log.mark()), words);
    }
}

#[test]
fn a_count_that_was_cleared_is_seen_while_the_disk_is_there() {
    let log = made(600);
    let mark = log.mark();
    let told = |records, waiting| log.seen(records, waiting).mounted.unwrap().kernel;
    let is_counted = |first, then| is_counted_still(&mark, &first, &then);
    assert_eq!(is_counted(told(500, 0), told(500, 0)), Ok(()));
    // It is written meanwhile: between the head and the count of one look too.
    let went_on = XfsKernel { written: told(504, 0).written, ..told(500, 0) };
    assert_eq!(is_counted(went_on, told(504, 0)), Ok(()));
    assert_eq!(is_counted(told(500, 128), told(600, 228)), Ok(()));
    assert!(is_counted(told(500, 128), told(600, 229)).is_err());
    assert!(is_counted(went_on, told(503, 0)).is_err());
    for written in [None, Some(0)] {
        let cleared = XfsKernel { written, ..told(500, 0) };
        assert!(is_counted(cleared, cleared).is_err());
    }
}

#[test]
fn what_is_remembered_and_cannot_be_is_not_counted_with() {
    let log = made(500);
    for mark in [
        XfsMark { buffer: 0, ..log.mark() },
        XfsMark { buffer: u64::MAX, ..log.mark() },
        XfsMark { head: u64::MAX, ..log.mark() },
    ] {
        is_unknown(&compare_logs(&log.seen(500, 0), &mark), "damaged");
    }
}
