//! The server's time: it can be wrong, jump, or stand still until a test moves it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since the server's start, and the wall clock that it believes in.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    unix_at_start: i64,
    frozen: bool,
    moved: Duration,
    /// By how many seconds the server's wall clock is ahead of the machine's (behind: negative).
    pub skew: i64,
}

impl Clock {
    /// Runs with the machine's clock.
    pub fn running() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let unix_at_start = i64::try_from(unix).unwrap_or(0);
        Self { start: Instant::now(), unix_at_start, frozen: false, moved: Duration::ZERO, skew: 0 }
    }

    /// Stands still; only [`Clock::advance`] moves it.
    pub fn frozen() -> Self {
        Self { frozen: true, ..Self::running() }
    }

    /// Whether only [`Clock::advance`] moves it.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The time since the start.
    pub fn now(&self) -> Duration {
        if self.frozen { self.moved } else { self.start.elapsed() + self.moved }
    }

    /// Lets time pass at once.
    pub fn advance(&mut self, by: Duration) {
        self.moved += by;
    }

    /// The wall clock in seconds since 1970, as the server sees it.
    pub fn unix(&self) -> i64 {
        let passed = i64::try_from(self.now().as_secs()).unwrap_or(0);
        self.unix_at_start + passed + self.skew
    }
}

/// How a service writes a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Keystone: `2026-11-21T02:48:46.000000Z`.
    Identity,
    /// Nova's `created`: `2026-11-21T01:46:24Z`.
    Short,
    /// Cinder, and Nova's other times: `2026-11-21T01:50:14.000000`.
    Micro,
    /// An HTTP date: `Sat, 21 Nov 2026 01:50:14 GMT`.
    Http,
}

/// A time in seconds since 1970 in a service's style.
pub fn stamp(unix: i64, style: Style) -> String {
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let base = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    match style {
        Style::Identity => format!("{base}.000000Z"),
        Style::Short => format!("{base}Z"),
        Style::Micro => format!("{base}.000000"),
        Style::Http => {
            let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
                [usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
            let months = [
                "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
            ];
            let name = months[usize::try_from(month - 1).unwrap_or(0)];
            format!("{weekday}, {day:02} {name} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
        }
    }
}

/// Year, month and day of a number of days since 1970, by counting whole years and months.
fn civil(mut days: i64) -> (i64, i64, i64) {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}
