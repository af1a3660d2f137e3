//! A small database in the manner of `SQLite` with a write-ahead log: it keeps its two files open, a record is
//! confirmed when its write to the log has reached the disk, and once in a while the log goes into the pages
//! and begins anew. It stops at the first error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Where it says how far it came, and why it stopped: in memory, under its name.
fn confirmed_by(name: &str) -> String {
    format!("/run/{name}.confirmed")
}

fn stopped(name: &str) -> String {
    format!("/run/{name}.stopped")
}

/// Bytes of a record: its number, over and over.
const RECORD: usize = 512;
/// Records in the log before it goes into the pages.
const LOG: u64 = 64;

/// After each record it rests for so long.
pub(crate) fn run(folder: &str, name: &str, rests: Duration) -> ExitCode {
    let Err(error) = write(Path::new(folder), name, rests);
    let _ = fs::write(stopped(name), error.to_string());
    ExitCode::FAILURE
}

fn write(folder: &Path, name: &str, rests: Duration) -> io::Result<std::convert::Infallible> {
    let open = |name: &str| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(folder.join(name))
    };
    let (log, pages) = (open("log")?, open("pages")?);
    let mut confirmed =
        OpenOptions::new().write(true).create(true).truncate(true).open(confirmed_by(name))?;
    for number in 1_u64.. {
        let place = (number - 1) % LOG;
        if place == 0 && number > 1 {
            for one in number - LOG..number {
                pages.write_all_at(&record(one), (one - 1) * RECORD as u64)?;
            }
            pages.sync_data()?;
            log.set_len(0)?;
        }
        log.write_all_at(&record(number), place * RECORD as u64)?;
        log.sync_data()?;
        confirmed.write_all(format!("{number}\n").as_bytes())?;
        std::thread::sleep(rests);
    }
    unreachable!("a number of 64 bits")
}

fn record(number: u64) -> Vec<u8> {
    number.to_ne_bytes().repeat(RECORD / 8)
}

/// Each confirmed record is in the pages or in the log, whole.
pub(crate) fn check(folder: &str, name: &str) -> ExitCode {
    match lost(Path::new(folder), name) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn lost(folder: &Path, name: &str) -> Result<String, String> {
    let told = |error: io::Error| error.to_string();
    let text = fs::read_to_string(confirmed_by(name)).map_err(told)?;
    let confirmed: u64 = text.lines().next_back().and_then(|line| line.parse().ok()).unwrap_or(0);
    let open = |name: &str| File::open(folder.join(name)).map_err(told);
    let (log, pages) = (open("log")?, open("pages")?);
    let read = |file: &File, place: u64| {
        let mut found = vec![0; RECORD];
        file.read_exact_at(&mut found, place * RECORD as u64).is_ok().then_some(found)
    };
    let has = |number: u64| {
        let wanted = Some(record(number));
        read(&pages, number - 1) == wanted || read(&log, (number - 1) % LOG) == wanted
    };
    match (1..=confirmed).find(|number| !has(*number)) {
        Some(first) => Err(format!("record {first} of {confirmed} that were confirmed is lost")),
        None => Ok(format!("{confirmed} records were confirmed, and all are there")),
    }
}
