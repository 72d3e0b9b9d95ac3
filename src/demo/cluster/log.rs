//! The text of a simulated log. A generated log is a pure function of time, so that ten thousand lines per second cost
//! no memory; a test can write its own bytes instead.

use super::super::life::tale::Tale;
use super::system_log::SystemLog;
use std::fmt::Write;

/// Maximum number of lines in one frame of `/api/jobs/{id}/logs/tail`.
const FRAME_LINES: u64 = 10;
/// A frame of written bytes also ends once it exceeds this many bytes.
const FRAME_BYTES: usize = 20_000;
/// A day in milliseconds.
const DAY: i64 = 86_400_000;

#[derive(Clone, Debug)]
pub(in crate::demo) enum Log {
    /// Numbered lines.
    Numbered {
        /// When the log began, in milliseconds since the epoch.
        since: i64,
        /// Number of lines at `since`.
        backlog: u64,
        /// Lines per second from then on; earlier lines have times as if they were written at this rate, too.
        rate: u64,
        /// When the log ended, in milliseconds since the epoch.
        closed: Option<i64>,
        /// Whether the driver has no workers, so that all lines are its own.
        is_alone: bool,
    },
    /// The log of a simulated job or of the autoscaler.
    Simulated(Tale),
    /// The log of one of Ray's own processes.
    System(SystemLog),
    /// Written bytes.
    Written(Vec<u8>),
}

impl Log {
    pub const fn none() -> Self {
        Self::Written(Vec::new())
    }

    /// A growing log with numbered lines.
    pub const fn growing(since: i64, backlog: u64, rate: u64) -> Self {
        Self::Numbered { since, backlog, rate, closed: None, is_alone: false }
    }

    /// The same of a driver without workers.
    pub const fn growing_alone(since: i64, backlog: u64, rate: u64) -> Self {
        Self::Numbered { since, backlog, rate, closed: None, is_alone: true }
    }

    /// Ends a generated log at `at`.
    pub fn close(&mut self, at: i64) {
        match self {
            Self::Numbered { closed, .. } => {
                closed.get_or_insert(at);
            }
            Self::Simulated(tale) => tale.close(at),
            Self::System(_) | Self::Written(_) => {}
        }
    }

    /// Appends bytes; they replace a generated log.
    pub fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Written(all) => all.extend_from_slice(bytes),
            Self::Numbered { .. } | Self::Simulated(_) | Self::System(_) => {
                *self = Self::Written(bytes.to_vec());
            }
        }
    }

    /// The length of the log at `now`: in lines if it is generated, in bytes if it was written.
    fn end(&self, now: i64) -> u64 {
        match self {
            Self::Numbered { since, backlog, rate, closed, .. } => {
                let lasted = closed.map_or(now, |c| c.min(now)).saturating_sub(*since);
                backlog + u64::try_from(lasted).unwrap_or(0) * rate / 1000
            }
            Self::Simulated(tale) => tale.lines(now),
            Self::System(log) => log.lines(now),
            Self::Written(all) => all.len() as u64,
        }
    }

    /// The next frame of a tail: at most ten lines from `*at`, which is advanced past them. Empty at the end.
    pub fn frame(&self, at: &mut u64, now: i64) -> Vec<u8> {
        let end = self.end(now);
        let from = (*at).min(end);
        match self {
            Self::Numbered { .. } | Self::Simulated(_) | Self::System(_) => {
                *at = end.min(from + FRAME_LINES);
                self.lines(from, *at)
            }
            Self::Written(all) => {
                let rest = &all[from as usize..];
                let mut lines = 0;
                let stop = rest.iter().enumerate().find(|(i, b)| {
                    lines += u64::from(**b == b'\n');
                    lines == FRAME_LINES || *i >= FRAME_BYTES
                });
                let frame = &rest[..stop.map_or(rest.len(), |(i, _)| i + 1)];
                *at = from + frame.len() as u64;
                frame.to_vec()
            }
        }
    }

    /// The last `lines` lines; all of them if `None`.
    pub fn tail(&self, lines: Option<u64>, now: i64) -> Vec<u8> {
        let end = self.end(now);
        match self {
            Self::Numbered { .. } | Self::Simulated(_) | Self::System(_) => {
                self.lines(lines.map_or(0, |n| end.saturating_sub(n)), end)
            }
            Self::Written(all) => {
                let Some(n) = lines else { return all.clone() };
                let body = all.strip_suffix(b"\n").unwrap_or(all);
                let breaks = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
                let from =
                    usize::try_from(n).ok().and_then(|n| breaks.map(|(i, _)| i + 1).nth(n.saturating_sub(1)));
                all[from.unwrap_or(0)..].to_vec()
            }
        }
    }

    /// The end of the log at `now`: the position from which [`Log::frame`] continues.
    pub fn end_position(&self, now: i64) -> u64 {
        self.end(now)
    }

    fn lines(&self, from: u64, to: u64) -> Vec<u8> {
        let mut out = String::new();
        let (since, backlog, rate, is_alone) = match self {
            Self::Numbered { since, backlog, rate, is_alone, .. } => (*since, *backlog, *rate, *is_alone),
            Self::Simulated(tale) => {
                (from..to).for_each(|n| tale.line(&mut out, n));
                return out.into_bytes();
            }
            Self::System(log) => {
                (from..to).for_each(|n| log.line(&mut out, n));
                return out.into_bytes();
            }
            Self::Written(_) => return Vec::new(),
        };
        let lasts = |lines: u64| i64::try_from(lines * 1000 / rate.max(1)).unwrap_or(0);
        let (mut day, mut date) = (i64::MIN, String::new());
        for n in from..to {
            let ms = n.checked_sub(backlog).map_or_else(|| since - lasts(backlog - n), |n| since + lasts(n));
            // Formatting the date of every line would take too long for the logs of ten thousand lines per second.
            if ms.div_euclid(DAY) != day {
                (day, date) = (ms.div_euclid(DAY), month_and_day(ms));
            }
            write_line(&mut out, n, (ms, &date), is_alone);
        }
        out.into_bytes()
    }
}

/// Writes line `n` with its number, so that a reader can detect missing and repeated lines. `time`: milliseconds since
/// the epoch, and month and day; `is_alone`: whether the driver has no workers.
fn write_line(out: &mut String, n: u64, time: (i64, &str), is_alone: bool) {
    let (ms, date) = time;
    let of_day = ms.rem_euclid(DAY);
    let (h, m, s) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let loss = 2.0 + 8.0 / (1.0 + n as f64 / 50.0);
    let prefix = match n % 7 {
        3 if !is_alone => "\u{1b}[36m(train_step pid=1073, ip=10.128.0.5)\u{1b}[0m ",
        _ => "",
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{prefix}I{date} {h:02}:{m:02}:{s:02}.{:03} train.py:88] line {n:06} step {} loss {loss:.4} tokens/s {} mfu 0.41",
        of_day % 1000,
        n / 2,
        180_000 + n * 7919 % 4000,
    );
}

/// Month and day in UTC in the format of glog: `1121`.
fn month_and_day(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default().strftime("%m%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn frames_of_ten_lines_add_up_to_the_whole_log() {
        let log = Log::growing(0, 25, 10);
        let (mut at, mut all, mut frames) = (0, Vec::new(), 0);
        loop {
            let frame = log.frame(&mut at, 1_000);
            if frame.is_empty() {
                break;
            }
            frames += 1;
            all.extend(frame);
        }
        assert_eq!(frames, 4, "35 lines");
        assert_eq!(all, log.tail(None, 1_000));
        assert!(!log.frame(&mut at, 2_000).is_empty(), "it grows");
    }

    #[test]
    fn written_bytes_are_returned_unchanged() {
        let mut log = Log::growing(0, 25, 10);
        log.write(b"a\nb\n\xff\nlast");
        assert_eq!(log.tail(Some(2), 0), b"\xff\nlast");
        assert_eq!(log.tail(Some(9), 0), b"a\nb\n\xff\nlast");
        let mut at = 0;
        assert_eq!(log.frame(&mut at, 0), b"a\nb\n\xff\nlast");
        log.write(&vec![b'x'; 50_000]);
        assert_eq!(log.frame(&mut at, 0).len(), FRAME_BYTES + 1);
    }

    #[test]
    fn the_log_of_a_driver_without_workers_names_none() {
        let lines = text(Log::growing_alone(0, 20, 0).tail(None, 0));
        assert!(lines.lines().count() == 20 && !lines.contains("pid="), "{lines}");
        assert!(text(Log::growing(0, 20, 0).tail(None, 0)).contains("pid="), "with workers");
    }

    #[test]
    fn lines_have_the_date_and_the_time_at_which_they_were_written() {
        // 2026-11-19 00:00:00 UTC.
        let midnight = 1_795_046_400_000;
        for log in [Log::growing(midnight, 4, 2), Log::growing_alone(midnight, 4, 2)] {
            let lines = text(log.tail(None, midnight + 1000));
            let times: Vec<&str> = lines
                .lines()
                .map(|line| &line[line.find("I11").unwrap()..line.find(" train.py").unwrap()])
                .collect();
            let expected = [
                "I1118 23:59:58.000",
                "I1118 23:59:58.500",
                "I1118 23:59:59.000",
                "I1118 23:59:59.500",
                "I1119 00:00:00.000",
                "I1119 00:00:00.500",
            ];
            assert_eq!(times, expected);
        }
    }

    #[test]
    fn a_closed_log_does_not_grow() {
        let mut log = Log::growing(0, 0, 10);
        log.close(500);
        assert_eq!(text(log.tail(None, 9_000)).lines().count(), 5);
    }
}
