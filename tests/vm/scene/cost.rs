//! fio of Debian, in the root of the programs: how much a volume does in a second.

use super::programs::{DATA, USER};
use super::{Outcome, Scene, Stop};

/// A way in which a program asks a volume for something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    /// What fio is told of it.
    options: &'static str,
    writes: bool,
}

/// Past the page cache, but for the one in the manner of a database.
pub(crate) const KINDS: [Work; 6] = [
    Work {
        name: "4 KiB writes, one at a time",
        options: "--rw=randwrite --bs=4k --iodepth=1 --ioengine=libaio --direct=1",
        writes: true,
    },
    Work {
        name: "4 KiB reads, one at a time",
        options: "--rw=randread --bs=4k --iodepth=1 --ioengine=libaio --direct=1",
        writes: false,
    },
    Work {
        name: "4 KiB writes, 16 at once",
        options: "--rw=randwrite --bs=4k --iodepth=16 --ioengine=libaio --direct=1",
        writes: true,
    },
    Work {
        name: "4 KiB reads, 16 at once",
        options: "--rw=randread --bs=4k --iodepth=16 --ioengine=libaio --direct=1",
        writes: false,
    },
    Work {
        name: "1 MiB reads in a row",
        options: "--rw=read --bs=1m --iodepth=4 --ioengine=libaio --direct=1",
        writes: false,
    },
    Work {
        name: "4 KiB writes, each with fdatasync",
        options: "--rw=randwrite --bs=4k --ioengine=psync --fdatasync=1",
        writes: true,
    },
];

/// How large the file is that is read and written.
const FILE: &str = "--filename=work --size=64m";

/// Seconds of one run.
const SECONDS: u32 = 3;

impl Scene<'_> {
    /// Makes the file, whole, in a folder of the volume that is mounted there.
    pub(crate) fn work_begins(&mut self, folder: &str) -> Outcome {
        let place = place(folder);
        self.machine.shell(&format!("install -d -m 700 {place}; chown {USER} {place}"))?;
        let lay = format!(
            "cd {DATA} && fio --name=lay {FILE} --rw=write --bs=1m --end_fsync=1 --thread --output-format=terse >/dev/null"
        );
        self.enter(&place, &lay).map(drop)
    }

    /// How much of this work the volume does in a second.
    pub(crate) fn work_in_a_second(&mut self, folder: &str, work: &Work) -> Outcome<f64> {
        let line = format!(
            "cd {DATA} && fio --name=work {FILE} {} --time_based --runtime={SECONDS} --thread \
             --output-format=terse --terse-version=3",
            work.options
        );
        let said = self.enter(&place(folder), &line)?;
        told(&said, work.writes)
            .ok_or_else(|| Stop::Broken(format!("fio said nothing of {}: {said}", work.name)))
    }
}

fn place(folder: &str) -> String {
    format!("{folder}/work")
}

/// The operations in a second, out of fio's terse line: version 3, fio's own version, name, group, error, then eight
/// and more fields of reads, and as many of writes.
fn told(line: &str, writes: bool) -> Option<f64> {
    const ERROR: usize = 4;
    let fields: Vec<&str> = line.split(';').map(str::trim).collect();
    let at = if writes { 48 } else { 7 };
    let number: f64 = fields.get(at)?.parse().ok()?;
    (fields.first() == Some(&"3") && fields.get(ERROR) == Some(&"0") && number > 0.0)
        .then_some(number)
}
