//! The time zone in which a person reads moments. The log and everything in JSON stay in UTC.

use super::timestamp::{self, Millis};
use std::borrow::Cow;

/// How many seconds local time is ahead of UTC at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Zone(pub fn(Millis) -> i64);

impl Zone {
    /// The time of day there, with milliseconds.
    pub fn clock(self, at: Millis) -> String {
        timestamp::clock(self.shown(at))
    }

    /// The moment for `timestamp::day` and `timestamp::clock`, which then show local time.
    pub fn shown(self, at: Millis) -> Millis {
        at.saturating_add_signed((self.0)(at).saturating_mul(1000))
    }

    /// `UTC`, `UTC+01:00`, `UTC-03:30`.
    pub fn name(self, at: Millis) -> String {
        let ahead = (self.0)(at);
        if ahead == 0 { "UTC".to_owned() } else { format!("UTC{}", offset(ahead)) }
    }

    /// A whole moment with its offset.
    pub fn text(self, at: Millis) -> String {
        self.in_text(&timestamp::text(at)).into_owned()
    }

    /// A text whose moments in UTC (`2026-11-21T03:50:23.500Z`, `2026-11-21 03:50:23 UTC`) are in local time.
    pub fn in_text(self, text: &str) -> Cow<'_, str> {
        let mut shown = String::new();
        let mut rest = text;
        while let Some((before, moment)) = first_moment(rest) {
            let ahead = (self.0)(moment.at);
            let local = timestamp::text(self.shown(moment.at));
            let fraction = moment.fraction;
            shown.push_str(before);
            if ahead == 0 {
                shown.push_str(moment.written);
            } else if moment.has_name {
                shown += &format!("{} {} {}", &local[..10], &local[11..19], self.name(moment.at));
            } else {
                shown += &format!("{}{fraction}{}", &local[..19], offset(ahead));
            }
            rest = &rest[before.len() + moment.written.len()..];
        }
        if shown.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(shown + rest) }
    }

    /// As `timestamp::since`, of local time where the text names no zone.
    pub fn since(self, text: &str, now: Millis) -> Option<Millis> {
        let text = text.trim();
        if let Some(text) = text.strip_suffix("UTC").or_else(|| text.strip_suffix('Z')) {
            return timestamp::since(text.trim_end(), now);
        }
        let sign = text.len().checked_sub(6).filter(|sign| text.is_char_boundary(*sign));
        if let Some((moment, zone)) = sign.map(|sign| text.split_at(sign))
            && let Some(ahead) = seconds_of(zone)
        {
            return timestamp::parse(moment)?.checked_add_signed(-ahead * 1000);
        }
        self.moment(timestamp::since(text, self.shown(now))?)
    }

    /// The moment of a time that was read as UTC, and is local.
    pub fn moment(self, local: Millis) -> Option<Millis> {
        // The offset of that moment: the clock may have been changed since.
        let ahead = (self.0)(local.saturating_add_signed(-(self.0)(local) * 1000));
        local.checked_add_signed(-ahead * 1000)
    }
}

/// The variable `TZ` for a zone so many seconds ahead of UTC, for a shell. POSIX has the sign the other way round.
pub fn variable(ahead: i64) -> String {
    if ahead == 0 {
        return "UTC".to_owned();
    }
    let (sign, minutes) = (if ahead > 0 { '-' } else { '+' }, ahead.unsigned_abs() / 60);
    let name = offset(ahead).replace(':', "");
    format!("'<{name}>{sign}{:02}:{:02}'", minutes / 60, minutes % 60)
}

struct TextMoment<'a> {
    at: Millis,
    written: &'a str,
    /// `.500`, or nothing.
    fraction: &'a str,
    /// Whether the zone is written as ` UTC`.
    has_name: bool,
}

/// The first moment of a text, and what stands before it.
fn first_moment(text: &str) -> Option<(&str, TextMoment<'_>)> {
    const LENGTH: usize = "2026-11-21T03:50:23".len();
    let starts = text.match_indices('-').filter_map(|(dash, _)| dash.checked_sub(4));
    starts.into_iter().find_map(|start| {
        let moment = text.get(start..start + LENGTH)?;
        let after = &text[start + LENGTH..];
        let digits = after
            .strip_prefix('.')
            .map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).count());
        let (fraction, zone) = after.split_at(digits);
        // In quotation marks it is an argument of journalctl.
        let has_name = zone.starts_with(" UTC") && !zone.starts_with(" UTC\"");
        let zone = if has_name { 4 } else { usize::from(zone.starts_with('Z')) };
        let at = timestamp::parse(&format!("{moment}{fraction}")).filter(|_| zone > 0)?;
        let written = &text[start..start + LENGTH + digits + zone];
        Some((&text[..start], TextMoment { at, written, fraction, has_name }))
    })
}

/// `+01:00`
fn offset(ahead: i64) -> String {
    let (sign, minutes) = (if ahead < 0 { '-' } else { '+' }, ahead.unsigned_abs() / 60);
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

fn seconds_of(offset: &str) -> Option<i64> {
    let (sign, rest) = offset.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let seconds = (hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?) * 60;
    match sign {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EAST: Zone = Zone(|_| 3600);
    const WEST: Zone = Zone(|_| -12_600);
    const UTC: Zone = Zone(|_| 0);

    #[test]
    fn moments_in_a_text_are_shown_in_local_time() {
        let text = "between 2026-11-23T23:37:18.528Z, and 2026-11-23 23:37:18 UTC, pv-2026-11";
        let east =
            "between 2026-11-24T00:37:18.528+01:00, and 2026-11-24 00:37:18 UTC+01:00, pv-2026-11";
        assert_eq!(EAST.in_text(text), east);
        assert_eq!(WEST.in_text("at 2026-11-23T01:00:00Z"), "at 2026-11-22T21:30:00-03:30");
        assert_eq!(UTC.in_text(text), text);
        for same in ["é-2026-11-23T23:37", "--since \"2026-11-23 23:37:18 UTC\"", "-"] {
            assert_eq!(EAST.in_text(same), same);
        }
        assert_eq!((UTC.name(0), WEST.name(0)), ("UTC".to_owned(), "UTC-03:30".to_owned()));
    }

    #[test]
    fn a_moment_without_a_zone_is_local() {
        let now = timestamp::parse("2026-11-21T23:30:00Z").unwrap();
        let told = |zone: Zone, text| zone.since(text, now).map(timestamp::text);
        let at = |text: &str| Some(text.to_owned());
        assert_eq!(told(EAST, "today"), at("2026-11-21T23:00:00.000Z"));
        assert_eq!(told(UTC, "today"), at("2026-11-21T00:00:00.000Z"));
        assert_eq!(told(EAST, "2026-11-21 03:50"), at("2026-11-21T02:50:00.000Z"));
        assert_eq!(told(EAST, "2026-11-21T03:50:00Z"), at("2026-11-21T03:50:00.000Z"));
        assert_eq!(told(UTC, "2026-11-21T03:50:00+01:00"), at("2026-11-21T02:50:00.000Z"));
        assert_eq!(told(EAST, "2026-11-21"), at("2026-11-20T23:00:00.000Z"));
        assert_eq!(told(WEST, "30m"), at("2026-11-21T23:00:00.000Z"));
        assert_eq!(told(EAST, "nonsense"), None);
    }
}
