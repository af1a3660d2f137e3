//! Reading a mount table so that it is of one moment.
//!
//! The kernel gives `mountinfo` a page at a time. Before Linux 5.8 it counts its lines anew with
//! each page: a mount that goes meanwhile makes another one slip through between two pages. Later
//! kernels remember the mount at which they stopped. So there a table of more than one page is read
//! until two readings agree.

use super::files::LONGEST_OF_KERNEL;
use crate::failpoints::wish;
use std::io::{self, Read, Seek};
use std::sync::OnceLock;
use std::time::Instant;

/// After so many readings that all differ it is an error.
const MOST: usize = 10;

/// The first version that remembers where it stopped.
const STEADY_SINCE: (u32, u32) = (5, 8);

/// A thousand mounts and more, in some thirty milliseconds at most: few containers need so many.
const LONG: usize = 128 << 10;

/// Reads an open table from its beginning.
pub fn read(file: impl Read + Seek) -> io::Result<Vec<u8>> {
    read_until(file, None)
}

/// The same, which gives a long table up after this moment (`TimedOut`). The kernel walks from each mount up to
/// the root: of mounts that lie on each other it tells ten times as many in a hundred times the time.
pub fn read_until(file: impl Read + Seek, end: Option<Instant>) -> io::Result<Vec<u8>> {
    static STEADY: OnceLock<bool> = OnceLock::new();
    let is_steady = *STEADY.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        release.is_ok_and(|release| is_steady(&release))
    });
    consistent(file, is_steady, end)
}

/// Whether the kernel of this release gives one table in pages that fit together. One that cannot
/// be told is taken for an old one.
fn is_steady(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= STEADY_SINCE)
}

fn consistent(
    mut file: impl Read + Seek,
    is_steady: bool,
    end: Option<Instant>,
) -> io::Result<Vec<u8>> {
    let (mut text, pages) = whole(&mut file, end)?;
    // One page is read under one lock.
    if is_steady || pages <= 1 {
        return Ok(text);
    }
    for _ in 1..MOST {
        file.rewind()?;
        let (again, _) = whole(&mut file, end)?;
        if again == text {
            return Ok(text);
        }
        text = again;
    }
    Err(io::Error::other(format!("it was another one at each of {MOST} readings")))
}

/// The text, and in how many pieces it came.
fn whole(file: &mut impl Read, end: Option<Instant>) -> io::Result<(Vec<u8>, usize)> {
    /// More than the kernel ever gives at once.
    const ROOM: usize = 16 << 10;
    let (mut text, mut pages) = (Vec::new(), 0);
    let mut page = [0; ROOM];
    loop {
        if text.len() as u64 > LONGEST_OF_KERNEL {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let is_over = |end| Instant::now() > end || wish("INCLOUD_DISK_LONG_TABLES").is_some();
        if text.len() > LONG && end.is_some_and(is_over) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match file.read(&mut page) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => return Ok((text, pages)),
            Ok(got) => {
                text.extend_from_slice(&page[..got]);
                pages += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::SeekFrom;

    /// A table as a kernel before 5.8 gives it: each page from its own state of the table, by line
    /// number.
    struct Torn {
        /// The lines at each page that is asked for; the last one from then on.
        states: Vec<Vec<&'static str>>,
        asked: usize,
        line: usize,
    }

    impl Torn {
        fn new(states: &[&[&'static str]]) -> Self {
            Self { states: states.iter().map(|state| state.to_vec()).collect(), asked: 0, line: 0 }
        }
    }

    impl Read for Torn {
        /// Two lines are a page.
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let state = &self.states[self.asked.min(self.states.len() - 1)];
            self.asked += 1;
            let page: String = state.iter().skip(self.line).take(2).copied().collect();
            self.line += 2;
            into[..page.len()].copy_from_slice(page.as_bytes());
            Ok(page.len())
        }
    }

    impl Seek for Torn {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            assert_eq!(to, SeekFrom::Start(0));
            self.line = 0;
            Ok(0)
        }
    }

    const BEFORE: &[&str] = &["a\n", "b\n", "c\n", "ours\n", "e\n"];
    /// `a` was unmounted: all that follows has moved up, over the page's end.
    const AFTER: &[&str] = &["b\n", "c\n", "ours\n", "e\n"];

    #[test]
    fn a_mount_that_slips_through_between_two_pages_is_found_by_reading_again() {
        let torn = || Torn::new(&[BEFORE, BEFORE, AFTER]);
        // What the kernel does is what this is about.
        let mut states = Torn::new(&[BEFORE, AFTER]);
        let (missed, _) = whole(&mut states, None).unwrap();
        assert_eq!(missed, b"a\nb\nours\ne\n", "c was there all the time");
        for states in [torn(), Torn::new(&[BEFORE, AFTER])] {
            let text = String::from_utf8(consistent(states, false, None).unwrap()).unwrap();
            assert_eq!(text, AFTER.concat());
        }
    }

    #[test]
    fn a_table_that_never_stands_still_is_an_error() {
        let states: Vec<&[&str]> = (0..200).map(|n| [BEFORE, AFTER][n / 3 % 2]).collect();
        let error = consistent(Torn::new(&states), false, None).unwrap_err();
        assert!(error.to_string().contains("another one"), "{error}");
        assert!(consistent(Torn::new(&states), true, None).is_ok(), "a newer kernel is believed");
    }

    #[test]
    fn a_long_table_is_given_up_and_a_short_one_never_is() {
        let over = Some(Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(1));
        let line = "a".repeat(1023) + "\n";
        let most = LONG / line.len();
        for (lines, is_read) in [(1, true), (most - 1, true), (most + 40, false)] {
            let text = line.repeat(lines);
            let read = consistent(io::Cursor::new(&text), true, over);
            let kind = read.as_ref().map_err(io::Error::kind);
            assert_eq!(kind.is_ok(), is_read, "{lines}: {kind:?}");
            assert!(is_read || kind == Err(io::ErrorKind::TimedOut));
            assert_eq!(consistent(io::Cursor::new(&text), true, None).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn one_page_is_read_once() {
        let mut states = Torn::new(&[&["a\n"], &["b\n"]]);
        assert_eq!(consistent(&mut states, false, None).unwrap(), b"a\n");
        assert_eq!(states.asked, 2, "a page and the end");
    }

    #[test]
    fn releases_are_told_apart() {
        for (release, steady) in [
            ("5.8.0\n", true),
            ("6.1.0-18-amd64", true),
            ("10.0", true),
            ("5.7.19", false),
            ("5.4.0-190-generic", false),
            ("4.18.0-553.el8_10.x86_64", false),
            ("", false),
            ("x", false),
        ] {
            assert_eq!(is_steady(release), steady, "{release}");
        }
    }
}
