//! The timestamp of a log line, in the formats of common loggers.

use super::prefix::prefixed;
use crate::model::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::time::Duration;

/// Completes the timestamps of a log: glog omits the year, Rich's clock the day, and almost all of them the time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// A time near those of the log: when it was read, or last modified.
    pub near: Timestamp,
    /// Offset of the writer's time zone, in seconds east of UTC (`date +%z` on its host).
    pub utc_offset: i32,
}

impl Clock {
    /// A time in the writer's time zone: `09:12:03.120`, preceded by the date if it is not that of [`Clock::near`].
    pub fn text(&self, at: Timestamp) -> String {
        let zone = jiff::tz::Offset::from_seconds(self.utc_offset).unwrap_or(jiff::tz::Offset::UTC);
        let here = |at: Timestamp| {
            let at = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
            at.to_zoned(zone.to_time_zone())
        };
        let (at, near) = (here(at), here(self.near));
        let format = if at.date() == near.date() { "%H:%M:%S%.3f" } else { "%m-%d %H:%M:%S%.3f" };
        at.strftime(format).to_string()
    }
}

/// A line without its leading date and time, as written by Python's loggers or in ISO 8601, for views that have a time
/// column.
pub fn untimed(line: &str) -> &str {
    let is_of_time = |c: char| c.is_ascii_digit() || "-:.,/ TZ+[".contains(c);
    let end = line.find(|c| !is_of_time(c)).unwrap_or(line.len());
    // `T` also begins words.
    let time = line[..end].trim_end_matches(['T', '[']);
    let rest = &line[time.len()..];
    let rest = if time.starts_with('[') { rest.strip_prefix(']').unwrap_or(rest) } else { rest };
    let is_time = time.matches(':').count() >= 2 && time.len() >= "09:12:03".len();
    if is_time && !rest.trim().is_empty() { rest.trim_start() } else { line }
}

/// How far `near` may be behind the log's clock: a missing year is the latest one whose time is not later than `near`
/// plus this.
const MAX_AHEAD: Duration = Duration::from_secs(36 * 3600);
/// Number of bytes of a line within which its timestamp must begin.
const MAX_PREFIX_BYTES: usize = 48;

impl Clock {
    /// A host in UTC, the time zone of Google's TPU VM images.
    pub const fn utc(near: Timestamp) -> Self {
        Self { near, utc_offset: 0 }
    }

    /// The timestamp of a line, after Ray's prefix; `None` if it has none.
    ///
    /// Supported are ISO 8601 (also in Ray's JSON logs), Python's `logging` (`2026-11-21 13:58:14,123`), glog and absl
    /// (`I1121 08:11:00.582`, also with a year), US dates (`[11/21/26 13:58:14]` of Rich, `11/21/2026 13:58:14` of
    /// Hugging Face), vLLM (`INFO 11-21 13:58:14`), syslog (`Nov 21 13:58:14`) and a time alone at the beginning
    /// (`13:58:14.123`).
    pub fn time(&self, line: &str) -> Option<Timestamp> {
        self.after(None, line)
    }

    /// The same for a line that follows one with a known time, so that a time without a date can pass midnight.
    fn after(&self, last: Option<Timestamp>, line: &str) -> Option<Timestamp> {
        let text = prefixed(line).text;
        let bytes = text.as_bytes();
        let head = bytes.len().min(MAX_PREFIX_BYTES);
        let mut at = 0;
        while at < head {
            if !bytes[at].is_ascii_digit() {
                at += 1;
                continue;
            }
            let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            if let Some(time) = self.begins(&bytes[..at], digits, &text[at..], last) {
                return Some(time);
            }
            at += digits;
        }
        None
    }

    /// The timestamp that begins with this run of digits.
    fn begins(&self, before: &[u8], digits: usize, text: &str, last: Option<Timestamp>) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let number = |from: usize, len: usize| text.get(from..from + len)?.parse::<i16>().ok();
        let after = bytes.get(digits).copied();
        match (digits, after) {
            // 2026-11-21 13:58:14,123, 2026-11-21T13:58:14Z, 2026/11/21 13:58:14
            (4, Some(mark @ (b'-' | b'/'))) if bytes.get(7) == Some(&mark) => {
                matches!(bytes.get(10), Some(b' ' | b'T')).then_some(())?;
                self.at((Some(number(0, 4)?), number(5, 2)?, number(8, 2)?), &text[11..])
            }
            // 11/21/26 13:58:14, 11/21/2026 13:58:14
            (2, Some(b'/')) if bytes.get(5) == Some(&b'/') => {
                let digits = bytes[6..].iter().take_while(|b| b.is_ascii_digit()).count();
                let year = match digits {
                    2 => 2000 + number(6, 2)?,
                    4 => number(6, 4)?,
                    _ => return None,
                };
                let rest = text.get(6 + digits..)?.trim_start_matches([',', ' ', '-']);
                self.at((Some(year), number(0, 2)?, number(3, 2)?), rest)
            }
            // I1121 08:11:00.582, [rank0]:[E1206 18:44:12.715298746
            (4, Some(b' ')) if is_letter(before) => self.at((None, number(0, 2)?, number(2, 2)?), &text[5..]),
            // I20261121 08:11:00.582
            (8, Some(b' ')) if is_letter(before) => {
                self.at((Some(number(0, 4)?), number(4, 2)?, number(6, 2)?), &text[9..])
            }
            // INFO 05-16 10:23:42
            (2, Some(b'-')) if bytes.get(5) == Some(&b' ') => {
                self.at((None, number(0, 2)?, number(3, 2)?), &text[6..])
            }
            // Nov 21 13:58:14, Nov  1 13:58:14
            (1 | 2, Some(b' ')) if before.len() >= 4 && before.last() == Some(&b' ') => {
                let name = before.trim_ascii_end();
                let (month, _) = (1..).zip(MONTHS).find(|(_, m)| name.ends_with(m.as_bytes()))?;
                self.at((None, month, number(0, digits)?), &text[digits + 1..])
            }
            // 13:58:14 alone
            (2, Some(b':')) if matches!(before, [] | [b'[']) => {
                Some(self.nearest(&seconds(text)?, last.unwrap_or(self.near)))
            }
            _ => None,
        }
    }

    fn at(&self, (year, month, day): (Option<i16>, i16, i16), rest: &str) -> Option<Timestamp> {
        let clock = seconds(rest)?;
        let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        let on = |year| clock.on(DateTime::new(year, month, day, 0, 0, 0, 0).ok()?, self.utc_offset);
        if let Some(year) = year {
            return on(year);
        }
        let this = jiff::Timestamp::from_millisecond(self.near.as_millis()).ok()?;
        let this = this.to_zoned(TimeZone::UTC).year();
        let latest = self.near.plus(MAX_AHEAD);
        [this + 1, this, this - 1].into_iter().find_map(|year| on(year).filter(|time| *time <= latest))
    }

    /// A time of day, on the day that makes it nearest to `near`.
    fn nearest(&self, clock: &Seconds, near: Timestamp) -> Timestamp {
        const DAY: i64 = 86_400_000;
        let utc = clock.millis - i64::from(clock.utc_offset.unwrap_or(self.utc_offset)) * 1000;
        let away = near.as_millis().saturating_sub(utc).rem_euclid(DAY);
        let before = near.as_millis().saturating_sub(away);
        Timestamp::from_millis(if away > DAY / 2 { before.saturating_add(DAY) } else { before })
    }
}

/// Whether the text before is a level letter of glog or absl, at the beginning or in the brackets of `PyTorch`.
fn is_letter(before: &[u8]) -> bool {
    matches!(before, [b'I' | b'W' | b'E' | b'F' | b'D'] | [.., b'[', b'I' | b'W' | b'E' | b'F' | b'D'])
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time of day.
struct Seconds {
    millis: i64,
    /// Seconds east of UTC, if it has a time zone.
    utc_offset: Option<i32>,
}

impl Seconds {
    fn on(&self, day: DateTime, utc_offset: i32) -> Option<Timestamp> {
        let midnight = day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
        let utc_offset = i64::from(self.utc_offset.unwrap_or(utc_offset)) * 1000;
        Some(Timestamp::from_millis(midnight + self.millis - utc_offset))
    }
}

/// Parses `13:58:14`, with an optional fraction after a point or comma and an optional time zone (`Z`, `+01:00`,
/// `+0100`).
fn seconds(text: &str) -> Option<Seconds> {
    let bytes = text.as_bytes();
    let two = |at: usize| {
        let pair = bytes.get(at..at + 2)?;
        let is_number = pair.iter().all(u8::is_ascii_digit);
        is_number.then(|| i64::from(pair[0] - b'0') * 10 + i64::from(pair[1] - b'0'))
    };
    let (hours, minutes, whole) = (two(0)?, two(3)?, two(6)?);
    let is_clock = bytes[2] == b':' && bytes[5] == b':' && hours < 24 && minutes < 60 && whole < 61;
    is_clock.then_some(())?;
    let mut millis = ((hours * 60 + minutes) * 60 + whole) * 1000;
    let mut at = 8;
    if matches!(bytes.get(8), Some(b'.' | b',')) {
        let digits = bytes[9..].iter().take_while(|b| b.is_ascii_digit()).count();
        for (weight, digit) in [100, 10, 1].into_iter().zip(&bytes[9..9 + digits]) {
            millis += weight * i64::from(digit - b'0');
        }
        at = 9 + digits;
    } else if bytes.get(8).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let utc_offset = match bytes.get(at) {
        Some(b'Z') => Some(0),
        Some(sign @ (b'+' | b'-')) => {
            let minutes = at + 3 + usize::from(bytes.get(at + 3) == Some(&b':'));
            let utc_offset = two(at + 1).zip(two(minutes)).map(|(h, m)| (h * 60 + m) as i32 * 60);
            utc_offset.map(|utc_offset| if *sign == b'-' { -utc_offset } else { utc_offset })
        }
        _ => None,
    };
    Some(Seconds { millis, utc_offset })
}

/// The times of the lines of one log, in order: a line without a timestamp, as in a traceback, has that of the line
/// before.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    clock: Clock,
    last: Option<Timestamp>,
}

impl Times {
    /// Starts at the beginning of a log, or of the part of it that is read.
    pub const fn new(clock: Clock) -> Self {
        Self { clock, last: None }
    }

    /// Starts next to a line with that time: the one above, or below.
    pub const fn beside(clock: Clock, last: Option<Timestamp>) -> Self {
        Self { clock, last }
    }

    /// The time of the next line; `None` before the first line with a timestamp.
    pub fn next(&mut self, line: &str) -> Option<Timestamp> {
        self.stamp(line);
        self.last
    }

    /// The timestamp of the next line itself.
    pub fn stamp(&mut self, line: &str) -> Option<Timestamp> {
        let time = self.clock.after(self.last, line)?;
        self.last = Some(time);
        Some(time)
    }

    /// The last timestamp.
    pub const fn last(&self) -> Option<Timestamp> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-23 09:00 UTC.
    const NOW: Timestamp = Timestamp::from_millis(1_795_424_400_000);

    fn read_time(line: &str) -> Option<String> {
        let at = Clock::utc(NOW).time(line)?;
        Some(jiff::Timestamp::from_millisecond(at.as_millis()).unwrap().to_string())
    }

    #[test]
    fn the_timestamp_at_the_beginning_is_removed() {
        for (line, rest) in [
            ("2026-11-23 13:29:37,675 INFO levanter step 613", "INFO levanter step 613"),
            ("[2026-11-23 13:29:37,675] ERROR x", "ERROR x"),
            ("2026-11-23T13:29:37.675Z Training", "Training"),
            ("13:29:37 Tracing", "Tracing"),
            ("12 of 256", "12 of 256"),
            ("1:2", "1:2"),
            ("13:29:37", "13:29:37"),
            ("  File \"a.py\", line 3", "  File \"a.py\", line 3"),
            ("", ""),
        ] {
            assert_eq!(untimed(line), rest, "{line}");
        }
    }

    #[test]
    fn times_of_many_loggers_are_read() {
        for (line, expected) in [
            ("2026-11-21 13:58:14,123 - INFO - x", "2026-11-21T13:58:14.123Z"),
            ("2026-02-14 04:25:57,876 [WARNING] marin.training", "2026-02-14T04:25:57.876Z"),
            ("[2026-11-21 13:58:14,123 I 7 7] (raylet) x.cc:1: y", "2026-11-21T13:58:14.123Z"),
            ("2024-01-31 10:21:35.025511: W external/tsl/tsl/x.cc:170] y", "2024-01-31T10:21:35.025Z"),
            ("2026-11-21T13:58:14.5+01:00 x", "2026-11-21T12:58:14.5Z"),
            ("2026-11-21T13:58:14-0530 x", "2026-11-21T19:28:14Z"),
            (
                "{\"asctime\": \"2024-06-06 18:50:55,674\", \"levelname\": \"INFO\"}",
                "2024-06-06T18:50:55.674Z",
            ),
            ("I1121 08:11:00.582 123 train.py:88] step 3", "2026-11-21T08:11:00.582Z"),
            ("E20251121 08:11:00.582 123 x.cc:88] y", "2025-11-21T08:11:00.582Z"),
            ("I1231 23:59:59.999 1 x.cc:1] last year's", "2025-12-31T23:59:59.999Z"),
            ("I1124 08:00:00.000 1 x.cc:1] a clock that is fast", "2026-11-24T08:00:00Z"),
            ("I0229 08:00:00.000 1 x.cc:1] no such day in three years", ""),
            ("[rank0]:[E1106 18:44:12.715298746 ProcessGroupNCCL.cpp:607] x", "2026-11-06T18:44:12.715Z"),
            ("[11/21/26 13:58:14] INFO x", "2026-11-21T13:58:14Z"),
            ("11/21/2026 13:58:14 - INFO - x", "2026-11-21T13:58:14Z"),
            ("(W pid=7, ip=10.0.0.1) INFO 05-16 10:23:42 [loader.py:458] x", "2026-05-16T10:23:42Z"),
            ("Nov  1 13:58:14 host kernel: Out of memory", "2026-11-01T13:58:14Z"),
            ("13:58:14.123 x", "2026-11-23T13:58:14.123Z"),
            ("22:58:14 yesterday evening is nearer", "2026-11-22T22:58:14Z"),
            ("[00:10<00:12] x", ""),
            ("45%|####5     | 45/100 [00:10<00:12,  4.5it/s]", ""),
            ("step 12 loss 2.1", ""),
            ("I1321 08:11:00.582 month 13", ""),
            ("2026-11-21 25:00:00 x", ""),
            ("the shard of 2026-11-21 was read after 13:58:14 hours", ""),
            ("", ""),
        ] {
            assert_eq!(read_time(line).unwrap_or_default(), expected, "{line}");
        }
    }

    #[test]
    fn times_without_a_zone_are_in_the_writers_zone() {
        let clock = Clock { near: NOW, utc_offset: -8 * 3600 };
        let time = clock.time("2026-11-21 13:58:14,123 x").unwrap();
        assert_eq!(Clock::utc(NOW).time("2026-11-21 21:58:14,123 x"), Some(time));
        let today = clock.time("01:00:00 x").unwrap();
        assert_eq!(today, NOW, "09:00 UTC");
    }

    #[test]
    fn a_line_without_a_time_has_that_of_the_line_before() {
        let mut times = Times::new(Clock::utc(NOW));
        assert_eq!(times.next("  File \"a.py\", line 3"), None);
        let first = times.next("23:59:59 Traceback (most recent call last):").unwrap();
        assert_eq!(times.next("  File \"a.py\", line 3"), Some(first));
        let next = times.next("00:00:01 next").unwrap();
        assert_eq!(next.age(first), Duration::ZERO);
        assert_eq!(first.age(next), Duration::from_secs(2), "past midnight");
    }

    proptest! {
        #[test]
        fn timestamps_of_loggers_are_parsed(ms in 1_700_000_000_000i64..1_800_000_000_000) {
            let time = jiff::Timestamp::from_millisecond(ms).unwrap();
            let clock = Clock::utc(Timestamp::from_millis(ms));
            for form in ["%Y-%m-%d %H:%M:%S,%3f x", "%FT%TZ", "I%m%d %H:%M:%S.%6f 7 x.cc:1] y", "%H:%M:%S.%3f"] {
                let line = time.strftime(form).to_string();
                let read = clock.time(&line).map(Timestamp::as_millis);
                let whole = if form.contains('f') { ms } else { ms / 1000 * 1000 };
                prop_assert_eq!(read, Some(whole), "{}", line);
            }
        }
    }
}
