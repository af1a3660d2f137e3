//! Moments: as people write them, RFC 3339 in UTC, as the log has them; and by the clock that no process
//! can set.

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;
use time::{Date, Month, UtcDateTime};

/// Milliseconds since 1970.
pub type Millis = u64;

const DAY: u64 = 86_400_000;

/// `2026-11-21T03:50:23.5Z`, `2026-11-21 03:50`, `2026-11-21`: always UTC.
pub fn parse(text: &str) -> Option<Millis> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, time.trim_end_matches('Z')),
        None => (text, "00:00"),
    };
    let mut date = date.splitn(3, '-');
    let (year, month) = (number(date.next()?, 4)?, number::<u8>(date.next()?, 2)?);
    let month = Month::try_from(month).ok()?;
    let date = Date::from_calendar_date(year, month, number(date.next()?, 2)?).ok()?;
    let midnight = u64::try_from((date - UtcDateTime::UNIX_EPOCH.date()).whole_days()).ok()? * DAY;
    let mut time = time.splitn(3, ':');
    let (hour, minute): (u64, u64) = (number(time.next()?, 2)?, number(time.next()?, 2)?);
    let (second, millis) = match time.next() {
        None => (0, 0),
        Some(text) => match text.split_once('.') {
            None => (number(text, 2)?, 0),
            Some((whole, part)) if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) => {
                let three: String = part.chars().chain("000".chars()).take(3).collect();
                (number(whole, 2)?, number(&three, 3)?)
            }
            Some(_) => return None,
        },
    };
    let is_sane = hour < 24 && minute < 60 && second < 61;
    is_sane.then_some(midnight + (hour * 3600 + minute * 60 + second) * 1000 + millis)
}

fn number<T: FromStr>(text: &str, digits: usize) -> Option<T> {
    let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// The day of a moment; the last one of the year 9999 for what is later.
pub fn day(at: Millis) -> String {
    let days = i64::try_from(at / DAY).unwrap_or(i64::MAX);
    UtcDateTime::UNIX_EPOCH.date().saturating_add(time::Duration::days(days)).to_string()
}

/// The time of day of a moment, to the millisecond.
pub fn clock(at: Millis) -> String {
    let (seconds, millis) = (at % DAY / 1000, at % 1000);
    format!("{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A whole moment.
pub fn text(at: Millis) -> String {
    format!("{}T{}Z", day(at), clock(at))
}

/// `38 ms`, `1.2 s`, `3 min`, `5 h`, `2 d`: as exact as a person needs.
pub fn duration(millis: Millis) -> String {
    const SECOND: u64 = 1000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    match millis {
        0..SECOND => format!("{millis} ms"),
        SECOND..10_000 => format!("{}.{} s", millis / SECOND, millis % SECOND / 100),
        10_000..MINUTE => format!("{} s", millis / SECOND),
        MINUTE..HOUR => format!("{} min", millis / MINUTE),
        HOUR..172_800_000 => format!("{} h", millis / HOUR),
        _ => format!("{} d", millis / DAY),
    }
}

/// A moment in the past, in UTC: `90s`, `30m`, `2h ago`, `3d`, `today`, `yesterday`, `last night` (from 18:00
/// of the day before), a time of day such as `10:30` (the last that was), or a moment that is written out.
pub fn since(text: &str, now: Millis) -> Option<Millis> {
    const EVENING: u64 = 18 * 3_600_000;
    let midnight = now - now % DAY;
    match text.trim() {
        "today" => return Some(midnight),
        "yesterday" => return midnight.checked_sub(DAY),
        "last night" => return (midnight + EVENING).checked_sub(DAY),
        _ => {}
    }
    if let Some(at) = time_of_day(text) {
        let at = midnight + at;
        return if at <= now { Some(at) } else { at.checked_sub(DAY) };
    }
    span(text).map_or_else(|| parse(text), |span| now.checked_sub(span))
}

/// `10:30` or `10:30:05`, since midnight.
fn time_of_day(text: &str) -> Option<Millis> {
    let is_time = text.contains(':') && text.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let padded = if text.find(':') == Some(1) { format!("0{text}") } else { text.to_owned() };
    is_time.then(|| parse(&format!("1970-01-01T{padded}"))).flatten()
}

/// `2h`, `2 h ago`, `10 min`.
fn span(text: &str) -> Option<Millis> {
    let text = text.trim();
    let text = text.strip_suffix("ago").unwrap_or(text).trim_end();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let unit = match unit.trim_start() {
        "s" | "sec" => 1000,
        "m" | "min" => 60_000,
        "h" | "hours" => 3_600_000,
        "d" | "days" => DAY,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(unit)
}

/// A moment as a cloud writes it (RFC 3339, or seconds behind an `@`), for people: `2026-11-21 10:19:28 UTC,
/// 3 min ago`. What is no moment stays as it is.
pub fn told(written: &str, now: Millis) -> String {
    with_age(written, Some(now))
}

/// What the cloud has written of a moment, in one format.
pub fn written(written: &str) -> String {
    with_age(written, None)
}

fn with_age(written: &str, now: Option<Millis>) -> String {
    let seconds = written.strip_prefix('@').and_then(|seconds| seconds.parse::<u64>().ok());
    let at = seconds.and_then(|seconds| seconds.checked_mul(1000)).or_else(|| parse(written));
    // The log's own writer knows no later years.
    let Some(at) = at.filter(|at| *at < 253_402_300_800_000) else { return written.to_owned() };
    let clock = clock(at);
    let clock = clock.split('.').next().unwrap_or_default();
    let ago =
        now.and_then(|now| now.checked_sub(at)).map(|span| format!(", {} ago", duration(span)));
    format!("{} {clock} UTC{}", day(at), ago.unwrap_or_default())
}

/// A moment by a clock that survives processes and that cannot be set: the time since the machine
/// was started, sleep included, and which start that was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uptime {
    /// The start; empty if it cannot be told.
    pub boot: String,
    /// Seconds since then.
    pub seconds: u64,
}

impl Uptime {
    /// The time since an earlier moment; nothing if that is of another start, or not earlier.
    pub fn since(&self, earlier: &Self) -> Option<Duration> {
        let is_comparable = !self.boot.is_empty() && self.boot == earlier.boot;
        let seconds = self.seconds.checked_sub(earlier.seconds).filter(|_| is_comparable);
        seconds.map(Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_written() {
        let at = parse("2026-11-21T03:50:23.5Z").unwrap();
        assert_eq!(at, 1_795_233_023_500);
        assert_eq!(text(at), "2026-11-21T03:50:23.500Z");
        assert_eq!(parse("2026-11-21 03:50").unwrap(), at - 23_500);
        assert_eq!(parse("1970-01-01"), Some(0));
        assert_eq!(day(parse("2024-02-29").unwrap()), "2024-02-29");
        assert_eq!(day(u64::MAX), "9999-12-31");
        assert_eq!(parse("2026-11-21 03:50:60"), parse("2026-11-21 03:51"), "a leap second");
        for bad in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-02-29",
            "2026-11-31",
            "2026-03-00",
            "0000-01-01",
            "1969-12-31",
            "2026-11-21-1",
            "+026-11-21",
            "2026-1-1",
            "2026-11-21T",
            "2026-11-21T1:2",
            "2026-11-21T03:50:2x",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn spans_are_as_exact_as_a_person_needs() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1250, "1.2 s"),
            (12_900, "12 s"),
            (61_000, "1 min"),
            (7_200_000, "2 h"),
            (400_000_000, "4 d"),
        ] {
            assert_eq!(duration(millis), expected);
        }
        assert_eq!(since("2h", 10_000_000), Some(2_800_000));
        assert_eq!(since("90s", 100_000), Some(10_000));
        assert_eq!(since("1970-01-02", 0), Some(DAY));
        for bad in ["", "h", "xh", "soon", "99999999999999999999d"] {
            assert_eq!(since(bad, 0), None, "{bad}");
        }
    }

    #[test]
    fn a_time_is_said_as_people_say_it() {
        let now = parse("2026-11-21T10:40:00Z").unwrap();
        for (text, expected) in [
            ("today", "2026-11-21"),
            ("yesterday", "2026-11-20"),
            ("last night", "2026-11-20 18:00"),
            ("10:30", "2026-11-21 10:30"),
            ("9:05", "2026-11-21 09:05"),
            ("23:15", "2026-11-20 23:15"),
            ("2h ago", "2026-11-21 08:40"),
            ("10 min ago", "2026-11-21 10:30"),
            ("2026-11-21 03:50", "2026-11-21 03:50"),
        ] {
            assert_eq!(since(text, now), parse(expected), "{text}");
        }
        for bad in ["25:00", "10:", ":30", "10:3", "ago", "2 ago", "tomorrow", "-2h"] {
            assert_eq!(since(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn a_clouds_moment_is_readable() {
        let now = parse("2026-11-22T10:40:00Z").unwrap();
        assert_eq!(told("@1795301168", now), "2026-11-21 22:46:08 UTC, 11 h ago");
        assert_eq!(super::written("@1795301168"), "2026-11-21 22:46:08 UTC");
        assert_eq!(told("2026-11-22T10:37:00.000000", now), "2026-11-22 10:37:00 UTC, 3 min ago");
        assert_eq!(told("2026-11-22T10:41:00Z", now), "2026-11-22 10:41:00 UTC");
        for strange in ["", "@", "@99999999999999999999", "soon"] {
            assert_eq!(told(strange, now), strange);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_moment_comes_back(at in 0u64..253_402_300_800_000) {
            proptest::prop_assert_eq!(parse(&text(at)), Some(at));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,40}") {
            let _ = (parse(&text), since(&text, 5), told(&text, 5));
        }
    }
}
